"""Classification and regression of texts in files of one's own: JSON lines, CSV, TSV or Parquet with named columns."""

import csv
import json
import sys
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet

from bert_jax.data.shuffle import example_ids
from bert_jax.errors import UserError
from bert_jax.tasks.text_tasks import Texts, classify_task, regress_task

ENDINGS = (".jsonl", ".json", ".csv", ".tsv", ".parquet")
SETTINGS = ("validation", "test", "first", "second", "label")
HELD_OUT = 10  # one training example in so many, where there is no validation file


def load(config, tokenizer, length, head=None):
    """The Task of a TaskConfig named classify or regress.

    Labels of a classification are the distinct words of the training file, in the order of numbers where all are
    numbers, else of the alphabet; those of `head` where it is given.
    """
    regress = config.name == "regress"
    files = {"train": config.data, "validation": config.validation, "test": config.test}
    texts = {split: read_texts(path, config, regress, split == "test") for split, path in files.items() if path}
    remarks = []
    if "train" in texts and "validation" not in texts:
        texts = _held_out(texts)
        remarks.append(f"no validation file: {len(texts['validation'].first)} training examples are held out")
    if regress:
        return regress_task("regress", texts, tokenizer, length, ("spearman", "pearson"), head, tuple(remarks))
    labels = head.labels if head else _ordered(set(texts["train"].labels))
    if head is None and len(labels) < 2:
        raise UserError(f"{config.data}: the column {config.label!r} has one label ({labels[0]}): expected two or more")
    figures = ("accuracy", "f1", "matthews") if len(labels) == 2 else ("accuracy", "macro_f1")
    return classify_task("classify", texts, tokenizer, length, labels, figures, head, tuple(remarks))


def _ordered(words):
    try:
        return sorted(words, key=float)
    except ValueError:
        return sorted(words)


def _held_out(texts):
    """One in HELD_OUT of the training examples, by a seeded order, as validation."""
    train = texts["train"]
    order = example_ids(np.arange(len(train.first)), len(train.first), 0)
    size = max(1, len(order) // HELD_OUT)

    def some(rows):
        columns = (train.first, train.second, train.labels)
        return Texts(*(column and [column[row] for row in rows] for column in columns))

    rest = {name: part for name, part in texts.items() if name != "train"}
    return {"train": some(np.sort(order[size:])), "validation": some(np.sort(order[:size]))} | rest


def read_texts(path, config, regress, labels_optional=False):
    """The Texts of a file by the columns that a TaskConfig names; UserError, with file and line, for what is wrong."""
    rows = read_rows(path)
    first = read_column(path, rows, config.first)
    second = read_column(path, rows, config.second) if config.second else None
    if labels_optional and not all(config.label in row for _, row in rows):
        return Texts(first, second, None)
    labels = [_cell(path, line, row, config.label) for line, row in rows]
    if not regress:
        return Texts(first, second, [str(label) for label in labels])
    return Texts(
        first, second, [_number(path, line, config.label, label) for (line, _), label in zip(rows, labels, strict=True)]
    )


def _cell(path, line, row, column):
    if column not in row:
        raise UserError(f"{path}, line {line}: has no column {column!r}: found {', '.join(row)}")
    if row[column] is None:
        raise UserError(f"{path}, line {line}: the column {column!r} is empty")
    return row[column]


def read_column(path, rows, column):
    """The texts of one column of `read_rows`; UserError where it is absent, empty or no text."""
    return [_text(path, line, row, column) for line, row in rows]


def _text(path, line, row, column):
    value = _cell(path, line, row, column)
    if not isinstance(value, str):
        raise UserError(f"{path}, line {line}: the column {column!r} is {value!r}: expected text")
    return value


def _number(path, line, column, value):
    try:
        return float(value)
    except (TypeError, ValueError) as error:
        raise UserError(f"{path}, line {line}: the column {column!r} is {value!r}: expected a number") from error


def read_rows(path):
    """[(line, {column: value})] of a file, its kind told by its ending; lines count from 1 (of Parquet: rows)."""
    path = Path(path)
    if path.suffix not in ENDINGS:
        raise UserError(f"{path}: expected a file that ends in one of {', '.join(ENDINGS)}")
    try:
        if path.suffix == ".parquet":
            rows = list(enumerate(pyarrow.parquet.read_table(path).to_pylist(), 1))
        elif path.suffix in (".jsonl", ".json"):
            rows = _json_rows(path)
        else:
            rows = _separated(path)
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: is not UTF-8 (offset {error.start})") from error
    except (OSError, csv.Error, pyarrow.ArrowException) as error:
        raise UserError(f"{path}: cannot be read ({getattr(error, 'strerror', None) or error})") from error
    if not rows:
        raise UserError(f"{path}: has no examples")
    return rows


def _lines(path):
    # Only a newline ends a line: other separators of Unicode are text.
    return path.read_bytes().decode("utf-8-sig").split("\n")


def _json_rows(path):
    """Rows of JSON lines; or of a .json that is one array of objects, or one object of them."""
    if path.suffix == ".json":
        try:
            whole = json.loads(path.read_bytes().decode("utf-8-sig"))
        except ValueError:
            whole = None  # JSON lines, or not JSON at all, which is told below
        rows = list(whole.values()) if isinstance(whole, dict) else whole
        if isinstance(rows, list) and all(isinstance(row, dict) for row in rows):
            return list(enumerate(rows, 1))
    return [(n, _json_row(path, n, line)) for n, line in enumerate(_lines(path), 1) if line.strip()]


def _json_row(path, number, line):
    try:
        row = json.loads(line)
    except ValueError as error:
        raise UserError(f"{path}, line {number}: is not JSON ({error}): expected an object a line") from error
    if not isinstance(row, dict):
        raise UserError(f"{path}, line {number}: is a JSON {type(row).__name__}: expected an object")
    return row


def _separated(path):
    """Rows of CSV, quoted as spreadsheets do, or of TSV, in which a quote is a character like any other."""
    csv.field_size_limit(sys.maxsize)
    tabs = path.suffix == ".tsv"
    options = {"delimiter": "\t", "quoting": csv.QUOTE_NONE} if tabs else {"strict": True}
    with open(path, encoding="utf-8-sig", newline="\n" if tabs else "") as file:
        reader = csv.reader(file, **options)
        header, rows = next(reader, []), []
        for cells in reader:
            if not cells:
                continue
            if len(cells) != len(header):
                raise UserError(f"{path}, line {reader.line_num}: {len(cells)} columns: expected {len(header)}")
            rows.append((reader.line_num, dict(zip(header, cells, strict=True))))
    return rows
