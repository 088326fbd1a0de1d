"""What the fine-tuning loop knows of a task: its head, its splits as token rows, how it is scored and written."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from bert_jax.model.task_heads import HeadConfig
from bert_jax.tasks.features import Features


@dataclasses.dataclass(frozen=True)
class TaskConfig:
    """Which task, and where its examples are.

    name: a GLUE task, or what to make of files of one's own (tasks/load.py names them all).
    data: a folder of the task's own layout, or `tfds:...`; or the file of training examples (JSON lines, CSV, TSV or
    Parquet), then `validation` and `test` are files too. first, second, label: names of the columns.
    """

    name: str = ""
    data: str = ""
    validation: str = ""
    test: str = ""
    first: str = "text"
    second: str = ""
    label: str = "label"


@dataclasses.dataclass(frozen=True)
class Split:
    """The examples of one split, in the order of their file.

    rows: rows of `features` that an example has: the choices, or the texts of a pair to embed; else 1 (for answers
    too: an example is a window of a question's context).
    labels: None where there are none. classify, choose: int32 [n]. regress: float32 [n]. tag: int32, one a token of
    `features.ids`, -1 where none is scored. answer: int32 [n, 2], first and last token of the answer within the row, 0
    and 0 where it has none. embed: what the objective takes.
    extra: what the task's own functions need besides, such as the texts.
    """

    features: Features
    labels: np.ndarray | None
    rows: int = 1
    extra: Any = None

    def __len__(self):
        return len(self.features) // self.rows


@dataclasses.dataclass(frozen=True)
class Task:
    """A task ready to be trained on and scored.

    splits: "train", and in the order of preference those to score, such as "validation_matched", and to predict.
    score(split, outputs) -> figures by name, in fractions (not percent), of a split that has labels.
    main: the figure that chooses the best model, the higher the better.
    predictions(split, outputs) -> one JSON object an example, in input order.
    Outputs are float32 arrays. classify: [n, C]. regress: [n]. tag: [tokens, C], aligned with features.ids. answer:
    [tokens, 2]. choose: [n, rows]. embed: [n, rows, D].
    objective: of embed: cosine, nli or ranking.
    """

    name: str
    head: HeadConfig
    splits: Mapping[str, Split]
    score: Callable[[Split, np.ndarray], dict[str, float]]
    main: str
    predictions: Callable[[Split, np.ndarray], Iterable[dict]]
    objective: str = ""

    def scored_splits(self):
        """Names of the splits that have labels, but for the training examples."""
        return [name for name, split in self.splits.items() if name != "train" and split.labels is not None]
