"""What a run leaves of itself, read back for its report: metrics, config, data reports and sample predictions."""

import dataclasses
import json
import math

from etils import epath

from bert_jax.config import PretrainConfig, from_mapping
from bert_jax.errors import UserError
from bert_jax.runlog import METRICS, read_lines

SPLITS = ("train", "heldout", "bad")
LARGEST = 2**53  # numbers from here on are no figures of a run


@dataclasses.dataclass(frozen=True)
class RunRecord:
    """What is known of a run. Lines are those of metrics.jsonl, with finite numbers only, in order of steps."""

    path: str
    train: list[dict]
    heldout: list[dict]
    bad: list[dict]
    raw_config: dict  # as in config.json
    config: PretrainConfig | None  # None where config.json is missing or not understood
    data: list[tuple[str, dict | None]]  # of each phase: folder, and its report.json if it is there
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
        heights = {"mlm_loss": {}, "nsp_loss": {}, "nsp_accuracy": {}}
        for phase, (_, report) in enumerate(self.data, 1):
            heldout = _part(_part(report, "splits"), "validation")
            entropy, following, random = (heldout.get(name) for name in ("unigram_entropy", "next", "random"))
            if is_figure(entropy):
                heights["mlm_loss"][phase] = entropy
            if is_figure(following) and is_figure(random) and min(following, random) >= 1:
                share = max(following, random) / (following + random)
                heights["nsp_accuracy"][phase] = share
                heights["nsp_loss"][phase] = -share * math.log(share) - (1 - share) * math.log(1 - share)
        return heights


def read_run(workdir, predictions=None):
    """The RunRecord of a run's folder. Raises UserError where there is none."""
    folder, notes = epath.Path(workdir), []
    if not folder.is_dir():
        raise UserError(f"--workdir {workdir}: {'is a file' if folder.exists() else 'no such folder'}")
    raw_config = _read_json(folder / "config.json", dict, notes)
    lines = _read_metrics(folder / METRICS, notes)
    if not lines and raw_config is None:
        raise UserError(f"--workdir {workdir}: holds no run, expected {METRICS} and config.json")
    if not lines:
        notes.append(f"{METRICS} holds no figures yet: nothing to draw.")
    config = _typed(raw_config, notes)
    if predictions is None and (folder / "predictions.json").exists():
        predictions = _read_json(folder / "predictions.json", list, notes)
    summary = _read_json(folder / "summary.json", dict, notes) if (folder / "summary.json").exists() else {}
    return RunRecord(
        path=str(workdir),
        **{split: [line for line in lines if line["split"] == split] for split in SPLITS},
        raw_config=raw_config or {},
        config=config,
        data=[(phase.data, _data_report(phase.data, notes)) for phase in config.phases] if config else [],
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


def is_figure(value):
    """Whether it is a number that can be shown and drawn: finite and not absurd."""
    return type(value) in (int, float) and -LARGEST < value < LARGEST


def _read_json(path, kind, notes):
    """The content of a JSON file, a `kind`; None, with a note, where it is not there or not that."""
    try:
        value = json.loads(path.read_text())
    except FileNotFoundError:
        notes.append(f"{path}: not found.")
    except (OSError, ValueError, RecursionError) as error:
        notes.append(f"{path}: not readable as JSON ({error}).")
    else:
        if isinstance(value, kind):
            return value
        notes.append(f"{path}: holds a JSON {type(value).__name__}, expected a {kind.__name__}.")
    return None


def _data_report(folder, notes):
    """The report.json of a folder of prepared data; None where that is gone, which the page tells with the phase."""
    path = epath.Path(folder) / "report.json"
    try:
        return _read_json(path, dict, notes) if folder and path.exists() else None
    except (OSError, ValueError) as error:  # no such path can be
        notes.append(f"{folder!r}: {error}.")
        return None


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


def _part(mapping, name):
    """The mapping that `mapping` holds under `name`; an empty one where there is none."""
    value = mapping.get(name) if isinstance(mapping, dict) else None
    return value if isinstance(value, dict) else {}
