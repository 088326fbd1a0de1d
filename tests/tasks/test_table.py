"""Texts of one's own, in each kind of file."""

import json

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from bert_jax.errors import UserError
from bert_jax.tasks.table import load, read_rows
from bert_jax.tasks.task import TaskConfig
from bert_jax.text.tokenizer import load_tokenizer
from tests.e2e.conftest import vocabulary

ROWS = [
    {"review": 'so "good", yes', "stars": "10"},
    {"review": "bad\tor not", "stars": "2"},
    {"review": "", "stars": "2"},
]


@pytest.fixture(scope="module")
def tokenizer():
    return load_tokenizer(vocabulary())


def write(path, rows=ROWS):
    if path.suffix == ".parquet":
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    elif path.suffix == ".jsonl":
        path.write_text("\n".join(json.dumps(row) for row in rows) + "\n")
    elif path.suffix == ".csv":
        quoted = [",".join('"' + value.replace('"', '""') + '"' for value in row.values()) for row in rows]
        path.write_text("\n".join([",".join(rows[0]), *quoted]) + "\n")
    else:
        path.write_text("\n".join("\t".join(line) for line in [list(rows[0]), *(row.values() for row in rows)]) + "\n")
    return str(path)


def config(data, **changes):
    return TaskConfig(**{"name": "classify", "data": data, "first": "review", "label": "stars"} | changes)


@pytest.mark.parametrize("ending", [".jsonl", ".csv", ".tsv", ".parquet"])
def test_all_kinds_of_files_give_the_same_rows(tmp_path, ending):
    rows = [row | {"review": row["review"].replace("\t", " ")} for row in ROWS]
    assert [row for _, row in read_rows(write(tmp_path / f"x{ending}", rows))] == rows


def test_labels_are_those_of_the_training_file_in_the_order_of_numbers(tmp_path, tokenizer):
    path = write(tmp_path / "train.jsonl")
    task = load(config(path, validation=path), tokenizer, 16)
    assert task.head.labels == ("2", "10") and task.splits["validation"].labels.tolist() == [1, 0, 0]
    assert task.splits["train"].features.lengths.min() == 2  # an empty text is [CLS] [SEP]
    assert set(task.score(task.splits["validation"], np.zeros((3, 2)))) == {"accuracy", "f1", "matthews"}


def test_a_tenth_is_held_out_where_there_is_no_validation_file(tmp_path, tokenizer):
    rows = [{"review": f"text {n}", "stars": str(n % 3)} for n in range(60)]
    task = load(config(write(tmp_path / "train.csv", rows)), tokenizer, 16)
    assert [len(task.splits[split]) for split in ("train", "validation")] == [54, 6]
    assert task.remarks == ("no validation file: 6 training examples are held out",)
    again = load(config(str(tmp_path / "train.csv")), tokenizer, 16)
    np.testing.assert_array_equal(task.splits["train"].features.ids, again.splits["train"].features.ids)


def test_numbers_and_unlabelled_tests(tmp_path, tokenizer):
    path = write(tmp_path / "train.jsonl")
    test = write(tmp_path / "test.jsonl", [{"review": "x"}])
    task = load(config(path, name="regress", validation=path, test=test), tokenizer, 16)
    assert task.splits["train"].labels.tolist() == [10, 2, 2] and task.splits["test"].labels is None
    assert list(task.predictions(task.splits["test"], np.array([1.5]))) == [{"index": 0, "score": 1.5}]


@pytest.mark.parametrize(
    ("name", "content", "changes", "message"),
    [
        ("x.txt", "a", {}, "expected a file that ends in one of .jsonl"),
        ("x.jsonl", "", {}, "has no examples"),
        ("x.jsonl", '{"review": "a"', {}, "line 1: is not JSON"),
        ("x.jsonl", '["a"]', {}, "line 1: is a JSON list: expected an object"),
        (
            "x.jsonl",
            '{"reviews": "a", "stars": 1}',
            {},
            "line 1: has no column 'review': found reviews, stars",
        ),
        ("x.jsonl", '{"review": "a"}', {}, "line 1: has no column 'stars': found review"),
        ("x.jsonl", '{"review": 3, "stars": 1}', {}, "line 1: the column 'review' is 3: expected text"),
        ("x.jsonl", '{"review": "a", "stars": null}', {}, "line 1: the column 'stars' is empty"),
        ("x.jsonl", '{"review": "a", "stars": "b"}', {"name": "regress"}, "is 'b': expected a number"),
        ("x.jsonl", '{"review": "a", "stars": "nan"}', {"name": "regress"}, "has the label nan: expected a finite"),
        ("x.jsonl", '{"review": "a", "stars": "b"}', {}, "the column 'stars' has one label"),
        ("x.csv", "review,stars\na,1,2\n", {}, "line 2: 3 columns: expected 2"),
        ("x.csv", 'review,stars\n"a,1\n', {}, "cannot be read"),
        ("x.parquet", "no parquet", {}, "cannot be read"),
    ],
)
def test_faults_are_told_in_one_line(tmp_path, tokenizer, name, content, changes, message):
    (tmp_path / name).write_text(content)
    with pytest.raises(UserError, match=message) as error:
        load(config(str(tmp_path / name), validation=str(tmp_path / name), **changes), tokenizer, 16)
    assert "\n" not in str(error.value)


def test_other_faults(tmp_path, tokenizer):
    with pytest.raises(UserError, match="cannot be read"):
        load(config(str(tmp_path / "none.csv")), tokenizer, 16)
    (tmp_path / "x.csv").write_bytes(b"review,stars\n\xff,1\n")
    with pytest.raises(UserError, match="is not UTF-8"):
        load(config(str(tmp_path / "x.csv")), tokenizer, 16)
    path = write(tmp_path / "train.jsonl")
    other = write(tmp_path / "dev.jsonl", [{"review": "x", "stars": "7"}])
    with pytest.raises(UserError, match="validation: example 0 has the label '7': expected one of 2, 10"):
        load(config(path, validation=other), tokenizer, 16)
