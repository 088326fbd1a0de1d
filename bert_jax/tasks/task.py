"""What the fine-tuning loop knows of a task: its head, its splits as token rows, how it is scored and written."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from bert_jax.errors import UserError
from bert_jax.model.task_heads import HeadConfig
from bert_jax.tasks.embedding_losses import EmbeddingLoss
from bert_jax.tasks.features import Features


@dataclasses.dataclass(frozen=True)
class TaskConfig:
    """Which task, and where its examples are; which of the settings a task reads is said in its module (load.py).

    name: a GLUE task; classify or regress for files of one's own; squad, ner, swag; or of embeddings sts, nli, ranking.
    data: the folder of the GLUE download (or of SQuAD, SWAG); or the file of training examples (JSON lines, CSV, TSV or
    Parquet; of ner columns), then `validation` and `test` are files too. first, second, label: names of the columns of
    such files; negative: of ranking, a text that is not wanted. pooling: how embeddings are made, mean, cls or max.
    matryoshka: so many first numbers of an embedding are to serve alone, too.
    """

    name: str = ""
    data: str = ""
    validation: str = ""
    test: str = ""
    first: str = "text"
    second: str = ""
    label: str = "label"
    negative: str = ""
    pooling: str = "mean"
    matryoshka: tuple[int, ...] = ()


@dataclasses.dataclass(frozen=True)
class Split:
    """The n examples of one split in the order of their file; each is `rows` rows of `features`, one behind the other.

    labels: of classify and choose int32 [n], of regress float32 [n], of tag int32 by token of `features.ids` and -1
    where none is scored, of answer int32 [n, 2], the first and the last token within the row; of embed as its loss
    says. None where there are none. indices: what the file numbers its examples by, None where it does not.
    source: what the task has to know besides, to score and to write.
    """

    features: Features
    labels: np.ndarray | None
    rows: int = 1
    indices: Sequence | None = None
    source: object = None

    def __len__(self):
        return len(self.features) // self.rows

    def rows_of(self, examples):
        """The rows of `features` of some examples, int64 [examples * rows]."""
        return (np.asarray(examples, np.int64)[:, None] * self.rows + np.arange(self.rows)).ravel()


@dataclasses.dataclass(frozen=True)
class Task:
    """A task ready to be trained on and scored.

    splits: "train", and in the order of preference those to score, such as "validation_matched", and to predict.
    score(split, outputs) -> figures by name, in fractions (not percent), of a split that has labels.
    main: the figure that chooses the best model, the higher the better.
    predictions(split, outputs) -> one JSON object an example, in input order.
    remarks: what a person should know of how the data was read, in lines.
    loss: what an embed head is trained on; None of all others.
    Outputs are float32, as `outputs.Forward` gives them.
    """

    name: str
    head: HeadConfig
    splits: Mapping[str, Split]
    score: Callable[[Split, np.ndarray], dict[str, float]]
    main: str
    predictions: Callable[[Split, np.ndarray], Iterable[dict]]
    remarks: Sequence[str] = ()
    loss: EmbeddingLoss | None = None

    def scored_splits(self):
        """Names of the splits that have labels, but for the training examples."""
        return [name for name, split in self.splits.items() if name != "train" and split.labels is not None]


def fitting_head(task, head, kind):
    """The head, if it is of that kind; UserError otherwise."""
    if head.kind != kind:
        raise UserError(f"{task} needs a head of kind {kind!r}: the model has {head.kind!r}")
    return head
