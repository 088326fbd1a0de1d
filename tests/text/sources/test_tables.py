"""Parquet and Arrow: every type of text, row groups, and damage."""

from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bert_jax.errors import UserError
from bert_jax.text.documents import find_files, read_documents
from tests.text.sources.corpora import documents_of_parts, flat, random_words, read_all, write

TEXTS = [random_words(seed, 30) + f"\r\n\r\n{seed} \u4e2d" for seed in range(1000)]
EXPECTED = [text.replace("\r\n", "\n") for text in TEXTS]
TYPES = {
    "string": pa.string(),
    "large_string": pa.large_string(),
    "string_view": pa.string_view(),
    "dictionary": pa.dictionary(pa.int32(), pa.string()),
    "binary": pa.binary(),
    "large_binary": pa.large_binary(),
}


def table(type_name="string"):
    column = pa.array(TEXTS).cast(TYPES[type_name])
    return pa.table({"id": list(range(len(TEXTS))), "text": column, "other": ["x"] * len(TEXTS)})


def write_arrow(path, content, stream, batch=100):
    opened = pa.ipc.new_stream if stream else pa.ipc.new_file
    with pa.OSFile(str(path), "wb") as sink, opened(sink, content.schema) as writer:
        writer.write_table(content, max_chunksize=batch)


@pytest.mark.parametrize("type_name", TYPES)
def test_every_type_of_text(tmp_path, type_name):
    if type_name != "string_view":  # Parquet has none
        pq.write_table(table(type_name), tmp_path / "a.parquet", row_group_size=300)
    write_arrow(tmp_path / "b.arrow", table(type_name), stream=False)
    write_arrow(tmp_path / "c.arrow", table(type_name), stream=True)
    files = find_files([str(tmp_path)])
    assert {file.kind for file in files} <= {"parquet", "arrow"} and len(files) >= 2
    for file in files:
        assert list(read_documents(file)) == EXPECTED, file


@pytest.mark.parametrize("name", ["a.parquet", "b.arrow", "c.arrow"])
def test_a_wrong_column_names_those_there(tmp_path, name):
    if name == "a.parquet":
        pq.write_table(table(), tmp_path / name)
    else:
        write_arrow(tmp_path / name, table(), stream=name == "c.arrow")
    (file,) = find_files([f"{tmp_path / name},column=body"])
    with pytest.raises(UserError, match=rf"{name}: has no column 'body' \(columns found: id, text, other\)"):
        read_all(file)  # a mistake, which skipping must not hide
    with pytest.raises(UserError, match="column 'id' holds int64: expected text"):
        list(read_documents(replace(file, column="id")))
    assert next(read_documents(replace(file, column="other"))) == "x"


@pytest.mark.parametrize("part_bytes", [1, 20_000, 70_000])
def test_parts_are_the_whole(tmp_path, part_bytes):
    pq.write_table(table(), tmp_path / "a.parquet", row_group_size=90)
    write_arrow(tmp_path / "b.arrow", table(), stream=False)
    write_arrow(tmp_path / "c.arrow", table(), stream=True)
    for name in ("a.parquet", "b.arrow"):
        parts = documents_of_parts(tmp_path / name, part_bytes)
        assert len(parts) > 1 and flat(parts) == EXPECTED
        assert max(map(len, parts)) < 700
    assert len(documents_of_parts(tmp_path / "c.arrow", part_bytes)) == 1  # a stream is read from its start


def test_null_and_bad_texts_are_named_by_row(tmp_path):
    column = pa.array([b"one", None, b"caf\xe9", b"", b"last"], pa.binary())
    pq.write_table(pa.table({"text": column}), tmp_path / "a.parquet")
    documents, reported = read_all(find_files([str(tmp_path / "a.parquet")])[0])
    assert documents == ["one", "", "last"]
    assert "row group 0, row 1: column 'text' is null" in reported[0]
    assert "row group 0, row 2: column 'text': byte 0xe9 at offset 3 of it is not UTF-8" in reported[1]


def test_a_column_of_strings_that_are_no_utf8(tmp_path):
    offsets = pa.py_buffer(pa.array([0, 2, 4], pa.int32()).buffers()[1])
    column = pa.StringArray.from_buffers(2, offsets, pa.py_buffer(b"ok\xff\xfe"))
    write_arrow(tmp_path / "a.arrow", pa.table({"text": column}), stream=False)
    documents, reported = read_all(find_files([str(tmp_path)])[0])
    assert documents == ["ok"] and len(reported) == 1 and "row 1" in reported[0]


@pytest.mark.parametrize("name", ["a.parquet", "b.arrow", "c.arrow"])
def test_truncated_tables(tmp_path, name):
    if name == "a.parquet":
        pq.write_table(table(), tmp_path / name, row_group_size=100)
    else:
        write_arrow(tmp_path / name, table(), stream=name == "c.arrow")
    data = (tmp_path / name).read_bytes()
    file = write(tmp_path / name, data[: len(data) // 2])
    with pytest.raises(UserError, match=rf"{name}(: is no readable|: is damaged)"):
        list(read_documents(file))
    documents, reported = read_all(file)
    assert len(reported) == 1 and documents == EXPECTED[: len(documents)]
    assert bool(documents) == (name == "c.arrow")  # the others keep their table of contents at the end
    assert len(find_files([str(tmp_path / name)], 1000)) == 1


def test_a_corrupt_row_group_costs_no_other(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(table(), path, row_group_size=250, compression="snappy", data_page_size=1000)
    chunk = pq.ParquetFile(path).metadata.row_group(1).column(1)
    data = bytearray(path.read_bytes())
    middle = chunk.dictionary_page_offset or chunk.data_page_offset
    data[middle : middle + 200] = b"\xff" * 200
    documents, reported = read_all(write(path, bytes(data)))
    assert documents == EXPECTED[:250] + EXPECTED[500:]
    assert len(reported) == 1 and "row group 1: is damaged after row 0" in reported[0]
