"""Questions about a text whose answers are parts of it: SQuAD 1.1 and 2.0 (Rajpurkar et al. 2016, 2018).

Texts longer than a row are read in overlapping windows, as google-research/bert does (run_squad.py).
"""

from pathlib import Path

import numpy as np

from bert_jax.errors import UserError
from bert_jax.model.task_heads import HeadConfig
from bert_jax.tasks.squad_answers import official_scores, ranked_answers
from bert_jax.tasks.squad_data import read_squad
from bert_jax.tasks.squad_windows import make_windows
from bert_jax.tasks.task import Split, Task, fitting_head

SETTINGS = ("validation", "test")
MAIN = "f1"


def load(config, tokenizer, length, head=None):
    """The Task of a TaskConfig named squad; data is a folder with train*.json and dev*.json, or files are named.

    Where some question has no answer, windows without an answer point at [CLS], and "" may be answered (SQuAD 2.0).
    Where each has one, windows that do not hold it are not trained on (1.1). Raises UserError for what `read_squad`
    refuses, and for training examples without answers, or none of which fits a window.
    """
    found = {split: read_squad(path) for split, path in _files(config).items()}
    has_none = (head is not None and head.null) or any(data.has_unanswerable for data in found.values())
    head = fitting_head("squad", head or HeadConfig("answer", null=has_none, length=length), "answer")
    splits, remarks = {}, []
    for name, data in found.items():
        if name == "train" and not data.has_answers:
            raise UserError(f"{data.path}: has no answers: expected training examples")
        windows = make_windows(tokenizer, data, length)
        labels = windows.labels() if data.has_answers else None
        if name == "train" and not has_none:
            kept = np.flatnonzero(labels[:, 0] > 0)
            if not len(kept):
                raise UserError(f"{data.path}: none of {len(labels):,} windows holds its answer: expected some that do")
            if len(kept) < len(labels):
                left = len(labels) - len(kept)
                remarks.append(f"train: {left:,} of {len(labels):,} windows do not hold their answer and are left out")
            windows, labels = windows.select(kept), labels[kept]
        splits[name] = Split(windows.features, labels, source=windows)
    return Task(
        "squad",
        head,
        splits,
        lambda split, outputs: official_scores(split.source.data, ranked_answers(split.source, outputs, has_none)),
        MAIN,
        lambda split, outputs: _predictions(split.source.data, ranked_answers(split.source, outputs, has_none)),
        tuple(remarks),
    )


def _predictions(data, ranked):
    for question, answers in zip(data.questions, ranked, strict=True):
        shown = {"id": question.id, "answer": answers.chosen, "null_odds": answers.null_odds, "n_best": answers.n_best}
        yield {name: value for name, value in shown.items() if value is not None}


def _files(config):
    """The file of each split."""
    folder = Path(config.data)
    if not (config.data and folder.is_dir()):
        given = {"train": config.data, "validation": config.validation, "test": config.test}
        return {split: path for split, path in given.items() if path}
    files = {}
    for split, start in (("train", "train"), ("validation", "dev"), ("test", "test")):
        matches = sorted(folder.glob(f"{start}*.json"))
        if len(matches) > 1:
            names = ", ".join(path.name for path in matches)
            raise UserError(f"{folder}: has {names}: expected one: name the files (config.task.data, .validation)")
        if matches:
            files[split] = matches[0]
    if not files:
        raise UserError(f"{folder}: has none of train*.json, dev*.json, test*.json")
    return files
