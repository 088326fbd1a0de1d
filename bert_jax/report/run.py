"""What a run leaves of itself, read back for its report: metrics, config, data reports and sample predictions."""

import dataclasses
import functools
import math

from etils import epath

from bert_jax.config import PretrainConfig, from_mapping
from bert_jax.data.mixture import split_data
from bert_jax.errors import UserError
from bert_jax.report.prepared import DataRecord, read_data
from bert_jax.report.read import LARGEST, is_figure, mapping_at, read_json
from bert_jax.runlog import METRICS, read_lines

SPLITS = ("train", "heldout", "bad")


@dataclasses.dataclass(frozen=True)
class RunRecord:
    """What is known of a run. Lines are those of metrics.jsonl, with finite numbers only, in order of steps."""

    path: str
    train: list[dict]
    heldout: list[dict]
    bad: list[dict]
    raw_config: dict  # as in config.json
    config: PretrainConfig | None  # None where config.json is missing or not understood
    data: list[list[DataRecord]]  # of each phase: of its data set, or of those that it mixes
    predictions: list[tuple[str, list]]  # text, and for each mask its (token, probability)s
    summary: dict
    notes: list[str]  # in words, what is missing or damaged

    @property
    def step(self):
        """Updates made when the last line was written."""
        return max((line["step"] for line in self.train + self.heldout + self.bad), default=0)

    def spans(self):
        """(phase, first step, last step) of each phase; a phase ends with a line, so the next begins there."""
        lines, spans, first = self.train + self.heldout, [], 0
        for phase in sorted({line["phase"] for line in lines}):
            last = max(line["step"] for line in lines if line["phase"] == phase)
            spans.append((phase, first, last))
            first = last
        return spans

    @property
    def references(self):
        """Of some figures what a model reaches that has learnt frequencies only: figure -> phase -> value."""
        heights = {name: {} for name in ("mlm_loss", "nsp_loss", "nsp_accuracy", "sop_loss", "sop_accuracy")}
        for phase, records in enumerate(self.data, 1):
            if len(records) > 1:  # what a mixture reaches is no mean of what its parts do
                continue
            heldout = mapping_at(records[0].report, "splits", "validation")
            if is_figure(entropy := heldout.get("unigram_entropy")):
                heights["mlm_loss"][phase] = entropy
            for head, labels in (("nsp", ("next", "random")), ("sop", ("in_order", "swapped"))):
                zeros, ones = (heldout.get(label) for label in labels)
                if is_figure(zeros) and is_figure(ones) and min(zeros, ones) >= 1:
                    share = max(zeros, ones) / (zeros + ones)
                    heights[f"{head}_accuracy"][phase] = share
                    heights[f"{head}_loss"][phase] = -share * math.log(share) - (1 - share) * math.log(1 - share)
        return heights


def read_run(workdir, predictions=None):
    """The RunRecord of a run's folder. Raises UserError where there is none."""
    folder, notes = epath.Path(workdir), []
    if not folder.is_dir():
        raise UserError(f"--workdir {workdir}: {'is a file' if folder.exists() else 'no such folder'}")
    raw_config = read_json(folder / "config.json", dict, notes)
    lines = _read_metrics(folder / METRICS, notes)
    if not lines and raw_config is None:
        raise UserError(f"--workdir {workdir}: holds no run, expected {METRICS} and config.json")
    if not lines:
        notes.append(f"{METRICS} holds no figures yet: nothing to draw.")
    config = _typed(raw_config, notes)
    if predictions is None and (folder / "predictions.json").exists():
        predictions = read_json(folder / "predictions.json", list, notes)
    summary = read_json(folder / "summary.json", dict, notes) if (folder / "summary.json").exists() else {}
    return RunRecord(
        path=str(workdir),
        **{split: [line for line in lines if line["split"] == split] for split in SPLITS},
        raw_config=raw_config or {},
        config=config,
        data=_data_of_phases(config.phases) if config else [],
        predictions=_typed_predictions(predictions or [], notes),
        summary={name: value for name, value in (summary or {}).items() if is_figure(value)},
        notes=notes,
    )


def _read_metrics(path, notes):
    try:
        lines = read_lines(path)
        written = sum(1 for line in path.read_text().splitlines() if line.strip()) if path.exists() else 0
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{path}: not readable as JSON lines ({error})") from error
    if len(lines) < written - 1:  # one may be cut off by a kill, or in the making
        notes.append(f"Line {len(lines) + 1} of {METRICS} is damaged: it and the {written - len(lines) - 1:,} lines "
                     "after it are left out.")  # fmt: skip
    cleaned = [clean for line in lines if (clean := _clean(line))]
    if len(cleaned) < len(lines):
        notes.append(f"{len(lines) - len(cleaned):,} lines of {METRICS} have no split and step, and are left out.")
    return sorted(cleaned, key=lambda line: line["step"])


def _clean(line):
    """The line with finite numbers only, or None if it is not one of a run; a bad step keeps all it has."""
    if not isinstance(line, dict) or line.get("split") not in SPLITS:
        return None
    step, phase = line.get("step"), line.get("phase", 1)
    if not all(type(number) is int and least <= number < LARGEST for number, least in ((step, 0), (phase, 1))):
        return None
    figures = line if line["split"] == "bad" else {name: value for name, value in line.items() if is_figure(value)}
    return figures | {"split": line["split"], "step": step, "phase": phase}


def _data_of_phases(phases):
    """DataRecords of each phase, their examples masked as that phase masks; read once for phases that agree in both."""

    @functools.cache
    def read(folder, masking):
        return read_data(folder, masking)

    return [[read(folder, phase.masking) for folder, _ in _folders(phase.data)] for phase in phases]


def _folders(data):
    try:
        return split_data(data)
    except UserError:  # nothing that a run could have read: shown as it is
        return [(data, None)]


def _typed(raw_config, notes):
    """The PretrainConfig that config.json holds; None, with a note, where it is of another version or damaged."""
    if raw_config is None:
        return None
    try:
        phases = {f"phase{n}": phase for n, phase in enumerate(raw_config["phases"], 1)}
        return from_mapping(PretrainConfig, raw_config | {"phases": phases})
    except (UserError, KeyError, TypeError, AttributeError, ValueError) as error:
        notes.append(f"config.json is not understood by this version ({error}): model, phases and data are left out.")
        return None


def _typed_predictions(items, notes):
    try:
        return [(str(item["text"]), [_guesses(mask) for mask in item["predictions"]]) for item in items]
    except (KeyError, TypeError, ValueError) as error:
        notes.append(f"The sample predictions are not understood ({type(error).__name__}: {error}) and left out.")
        return []


def _guesses(mask):
    guesses = [(str(guess["token"]), guess["probability"]) for guess in mask]
    for _, probability in guesses:
        if not is_figure(probability):
            raise ValueError(f"probability {probability!r}")
    return guesses
