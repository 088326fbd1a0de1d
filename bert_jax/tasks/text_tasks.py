"""Tasks that give a text, or a pair of texts, one label or one number."""

import dataclasses

import numpy as np
import scipy.special

from bert_jax.errors import UserError
from bert_jax.model.task_heads import HeadConfig
from bert_jax.tasks import metrics
from bert_jax.tasks.features import encode_rows
from bert_jax.tasks.task import Split, Task, fitting_head


@dataclasses.dataclass(frozen=True)
class Texts:
    """The examples of a split as they were read. second, labels: None where there are none.

    labels: words of a classification, numbers of a regression. indices: how the predictions are numbered; None counts.
    """

    first: list[str]
    second: list[str] | None
    labels: list | None
    indices: list | None = None


def classify_task(name, texts, tokenizer, length, labels, figures, head=None, remarks=()):
    """The Task of classifying `texts`, Texts by split; labels: the words in the order of the logits.

    head: of a model that is tuned already: its order of labels counts. figures: names of metrics, the first of which
    chooses the best model. Raises UserError for a label that is none of them, naming it.
    """
    head = fitting_head(name, head or HeadConfig("classify", tuple(labels), length=length), "classify")
    order = {word: index for index, word in enumerate(head.labels)}

    def numbers(split, words):
        for place, word in enumerate(words):
            if word not in order:
                raise UserError(
                    f"{name}, {split}: example {place} has the label {word!r}: expected one of {', '.join(order)}"
                )
        return np.array([order[word] for word in words], np.int32)

    def predictions(split, outputs):
        probabilities = scipy.special.softmax(outputs.astype(np.float64), axis=-1)
        for place, (index, row) in enumerate(zip(_indices(split), probabilities, strict=True)):
            shown = dict(zip(head.labels, row.tolist(), strict=True))
            expected = {} if split.labels is None else {"expected": head.labels[split.labels[place]]}
            yield {"index": index, "label": head.labels[row.argmax()], "probabilities": shown} | expected

    return Task(
        name,
        head,
        _splits(texts, tokenizer, length, numbers),
        lambda split, outputs: metrics.score(figures, outputs.argmax(-1), split.labels),
        figures[0],
        predictions,
        remarks,
    )


def regress_task(name, texts, tokenizer, length, figures, head=None, remarks=()):
    """The Task of giving `texts`, Texts by split, a number; other arguments as of `classify_task`."""
    head = fitting_head(name, head or HeadConfig("regress", length=length), "regress")

    def numbers(split, values):
        for place, value in enumerate(values):
            if not np.isfinite(value):
                raise UserError(f"{name}, {split}: example {place} has the label {value}: expected a finite number")
        return np.array(values, np.float32)

    def predictions(split, outputs):
        for place, (index, value) in enumerate(zip(_indices(split), outputs, strict=True)):
            expected = {} if split.labels is None else {"expected": float(split.labels[place])}
            yield {"index": index, "score": float(value)} | expected

    return Task(
        name,
        head,
        _splits(texts, tokenizer, length, numbers),
        lambda split, outputs: metrics.score(figures, outputs, split.labels),
        figures[0],
        predictions,
        remarks,
    )


def _splits(texts, tokenizer, length, numbers):
    splits = {}
    for name, part in texts.items():
        if not part.first:
            raise UserError(f"the split {name} has no examples")
        features = encode_rows(tokenizer, part.first, part.second, length=length)
        labels = None if part.labels is None else numbers(name, part.labels)
        splits[name] = Split(features, labels, indices=part.indices)
    return splits


def _indices(split):
    return split.indices if split.indices is not None else range(len(split))
