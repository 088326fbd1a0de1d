"""Multiple choice: which of several endings goes on from a text (SWAG, Zellers et al. 2018)."""

from pathlib import Path

import numpy as np
import scipy.special

from bert_jax.errors import UserError
from bert_jax.model.task_heads import HeadConfig
from bert_jax.tasks.features import encode_rows
from bert_jax.tasks.metrics import score
from bert_jax.tasks.table import read_rows
from bert_jax.tasks.task import Split, Task, fitting_head

SETTINGS = ("validation", "test")
FILES = {"train": "train.csv", "validation": "val.csv", "test": "test.csv"}


def load(config, tokenizer, length, head=None):
    """The Task of a TaskConfig named swag: data is the folder with train.csv and val.csv, or files are given by name.

    Files (also JSON lines and Parquet) have the columns sent1, sent2, the beginning of the endings, ending0, ending1
    and so on, and label, the number of the right one.
    """
    folder = Path(config.data)
    if config.data and folder.is_dir():
        files = {split: folder / name for split, name in FILES.items() if (folder / name).is_file()}
        if not files:
            raise UserError(f"{folder}: has none of {', '.join(FILES.values())}")
    else:
        given = {"train": config.data, "validation": config.validation, "test": config.test}
        files = {split: Path(path) for split, path in given.items() if path}
    head = fitting_head("swag", head or HeadConfig("choose", length=length), "choose")
    splits = {split: _split(path, tokenizer, length, split == "test") for split, path in files.items()}

    def predictions(split, outputs):
        for index, row in enumerate(scipy.special.softmax(outputs.astype(np.float64), axis=-1)):
            yield {"index": index, "choice": int(row.argmax()), "probabilities": row.tolist()}

    return Task(
        "swag",
        head,
        splits,
        lambda split, outputs: score(("accuracy",), outputs.argmax(-1), split.labels),
        "accuracy",
        predictions,
    )


def _split(path, tokenizer, length, labels_optional):
    first, second, labels, choices = [], [], [], None
    for line, row in read_rows(path):
        endings = [row[name] for name in (f"ending{n}" for n in range(len(row))) if name in row]
        choices = choices or len(endings)
        if len(endings) != choices or choices < 2:
            wanted = "2 or more" if choices < 2 else choices
            raise UserError(f"{path}, line {line}: {len(endings)} endings (ending0, ending1 ...): expected {wanted}")
        for name in ("sent1", "sent2"):
            if name not in row:
                raise UserError(f"{path}, line {line}: has no column {name!r}: found {', '.join(row)}")
        first += [row["sent1"] or ""] * choices
        second += [f"{row['sent2'] or ''} {ending}".strip() for ending in endings]
        if "label" in row or not labels_optional:
            labels.append(_label(path, line, row.get("label"), choices))
    features = encode_rows(tokenizer, first, second, length=length)
    if labels and len(labels) * choices != len(first):
        raise UserError(f"{path}: {len(labels)} of {len(first) // choices} examples have a label: expected all or none")
    return Split(features, np.array(labels, np.int32) if labels else None, rows=choices)


def _label(path, line, value, choices):
    if str(value) not in map(str, range(choices)):
        raise UserError(f"{path}, line {line}: the label is {value!r}: expected 0 to {choices - 1}")
    return int(value)
