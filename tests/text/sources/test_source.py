"""What a user writes to name a source."""

import pickle

import pytest

from bert_jax.errors import UserError
from bert_jax.text.documents import Source, TextFile, parse_source


@pytest.mark.parametrize(
    "text, expected",
    [
        ("corpus", Source("corpus")),
        ("gs://bucket/wiki/*.parquet,weight=2.5,column=body", Source("gs://bucket/wiki/*.parquet", 2.5, column="body")),
        ("books,kind=book,weight=1e-1", Source("books", 0.1, "book")),
        ("tfds:wiki40b/en:1.3.0,split=validation", Source("tfds:wiki40b/en:1.3.0", split="validation")),
        ("a,b/c=d/e.txt", Source("a,b/c=d/e.txt")),  # a comma or an equals sign alone makes no option
        ("x,column=a b,kind=jsonl", Source("x", kind="jsonl", column="a b")),
    ],
)
def test_options_end_a_source(text, expected):
    assert parse_source(text) == expected


def test_the_column_given_is_the_default():
    assert parse_source("a", column="body").column == "body"
    assert parse_source("a,column=text", column="body").column == "text"


def test_a_path_that_exists_is_taken_whole(tmp_path):
    path = tmp_path / "odd,weight=2"
    path.mkdir()
    assert parse_source(str(path)) == Source(str(path))
    assert parse_source(f"{path},weight=3") == Source(str(path), 3.0)


@pytest.mark.parametrize(
    "text, message",
    [
        ("a,wieght=2", "option 'wieght' is unknown: expected one of weight, kind, column, split"),
        ("a,weight=two", "weight 'two': expected a number above 0"),
        ("a,weight=0", "weight '0'"),
        ("a,weight=-1", "weight '-1'"),
        ("a,weight=nan", "weight 'nan'"),
        ("a,weight=inf", "weight 'inf'"),
        ("a,kind=novel", "kind 'novel' is unknown: expected one of text, jsonl"),
        ("a,weight=1,weight=2", "'weight' is given twice"),
        ("a,column=", "'column' has no value"),
        (",weight=2", "names no path"),
        ("", "names no path"),
    ],
)
def test_a_wrong_option_is_named(text, message):
    with pytest.raises(UserError, match=message):
        parse_source(text)


def test_files_are_small_and_travel_between_processes():
    file = TextFile("gs://bucket/some/file.txt", 10, "text", source=3, column="body", start=4, stop=9)
    assert pickle.loads(pickle.dumps(file)) == file and len(pickle.dumps(file)) < 300
    assert file.is_part and not TextFile("a", 1, "text").is_part
