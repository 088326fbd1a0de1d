"""What the folder of a fine-tuning run, or of a sweep, holds for its report."""

from dataclasses import dataclass, field

import numpy as np
from etils import epath

from bert_jax.errors import UserError
from bert_jax.report.read import is_count, read_json
from bert_jax.runlog import METRICS, read_lines
from bert_jax.tasks.sweep import height

MOST_CLASSES = 20  # of a confusion matrix
BINS = 10  # of confidence


@dataclass(frozen=True)
class TunedRun:
    """A run: its summary.json and config.json as they are, lines of metrics by split, predictions with known answers.

    A sweep has `runs` instead, the lines of sweep.jsonl.
    """

    path: str
    summary: dict
    settings: dict
    lines: dict[str, list[dict]]
    predictions: dict[str, list[dict]]
    runs: list[dict] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def is_tuned(workdir):
    """Whether the folder is one of `bert-jax finetune`."""
    config = read_json(epath.Path(workdir) / "config.json", dict, [])
    return config is not None and isinstance(config.get("finetune"), dict)


def read_tuned(workdir):
    """The TunedRun of a folder; UserError for metrics that cannot be read."""
    folder, notes = epath.Path(workdir), []
    config = read_json(folder / "config.json", dict, notes) or {}
    runs = read_lines(folder / "sweep.jsonl")
    summary = {} if runs else read_json(folder / "summary.json", dict, notes) or {}
    lines, predictions = {}, {}
    try:
        for line in read_lines(folder / METRICS):
            if isinstance(line, dict) and is_count(line.get("step")):
                lines.setdefault(str(line.get("split")), []).append(line)
    except (OSError, ValueError) as error:
        raise UserError(f"{folder / METRICS}: not readable as JSON lines ({error})") from error
    for path in sorted((folder / "predictions").glob("*.jsonl")) if (folder / "predictions").is_dir() else []:
        known = [line for line in read_lines(path) if isinstance(line, dict) and "expected" in line]
        if known:
            predictions[path.stem] = known
    return TunedRun(str(workdir), summary, config.get("finetune", {}), lines, predictions, runs, notes)


def confusion(lines):
    """(labels, int [n, n]: how many examples of label i are taken for label j); None where there are no labels, or more
    than MOST_CLASSES."""
    if not all(isinstance(line.get("probabilities"), dict) for line in lines):
        return None
    labels = list(lines[0]["probabilities"])
    places = {label: place for place, label in enumerate(labels)}
    if len(labels) > MOST_CLASSES or not all({line["label"], line["expected"]} <= set(labels) for line in lines):
        return None
    counts = np.zeros((len(labels), len(labels)), int)
    np.add.at(counts, ([places[line["expected"]] for line in lines], [places[line["label"]] for line in lines]), 1)
    return labels, counts


def calibration(lines):
    """(mean confidence, share that is right, count) of each of BINS bins of the predicted label's probability that has
    examples, arrays, and the expected calibration error (Guo et al. 2017): the mean difference of the two."""
    confidence = np.array([max(line["probabilities"].values()) for line in lines])
    right = np.array([line["label"] == line["expected"] for line in lines])
    bins = np.minimum((confidence * BINS).astype(int), BINS - 1)
    counts = np.bincount(bins, minlength=BINS)
    filled = counts > 0
    means, shares = (np.bincount(bins, v, BINS)[filled] / counts[filled] for v in (confidence, right.astype(float)))
    return means, shares, counts[filled], float(np.abs(means - shares) @ counts[filled] / len(lines))


def scores_by(runs, name):
    """Of a swept setting (its values, ascending, mean and deviation of the main figure at each, runs of each), arrays.

    The deviation is that of a sample, 0 of one run.
    """
    groups = {}
    for run in runs:
        groups.setdefault(run["setting"][name], []).append(height(run))
    values = sorted(groups)
    deviations = [np.std(groups[value], ddof=1) if len(groups[value]) > 1 else 0.0 for value in values]
    means, counts = [np.mean(groups[value]) for value in values], [len(groups[value]) for value in values]
    return np.array(values, float), np.array(means), np.array(deviations), np.array(counts)
