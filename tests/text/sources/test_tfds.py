"""Prepared TFDS data sets: written with TFDS's own features, read without it, checked against its own reader."""

import json
import struct
import subprocess
import sys

import numpy as np
import pytest
import tensorflow_datasets as tfds
from array_record.python.array_record_module import ArrayRecordWriter
from hypothesis import given
from hypothesis import strategies as st

from bert_jax.errors import UserError
from bert_jax.text.documents import find_files, read_documents
from bert_jax.text.sources.tfds import feature_bytes, plain_wiki40b
from tests.text.sources.corpora import documents_of_parts, flat, random_words, read_all

TEXTS = [random_words(seed, 40) + f"\n\u4e2d {seed}" for seed in range(500)]
FEATURES = tfds.features.FeaturesDict({"title": tfds.features.Text(), "text": tfds.features.Text(), "year": np.int64})


def examples(texts):
    return [FEATURES.serialize_example({"title": "T", "text": text, "year": i}) for i, text in enumerate(texts)]


def write_data_set(folder, name="toy", file_format="array_record", splits=None, features=FEATURES, write=examples):
    """A data set of two shards a split, as TFDS lays it out."""
    folder.mkdir(parents=True)
    infos = []
    for split, texts in (splits or {"train": TEXTS, "validation": ["held out"]}).items():
        halves = [texts[: len(texts) // 2], texts[len(texts) // 2 :]]
        for shard, half in enumerate(halves):
            path = folder / f"{name}-{split}.{file_format}-{shard:05d}-of-00002"
            write_records(path, write(half), file_format)
        infos.append(
            {
                "name": split,
                "numBytes": "1",
                "shardLengths": [str(len(half)) for half in halves],
                "filepathTemplate": "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}",
            }
        )
    features.save_config(str(folder))
    info = {"name": name, "version": "1.0.0", "fileFormat": file_format, "splits": infos}
    (folder / "dataset_info.json").write_text(json.dumps(info))
    return folder


def write_records(path, records, file_format):
    if file_format == "array_record":
        writer = ArrayRecordWriter(str(path), "group_size:1")
        for record in records:
            writer.write(record)
        writer.close()
    else:
        path.write_bytes(b"".join(struct.pack("<Q", len(r)) + b"crc1" + r + b"crc2" for r in records))


@pytest.mark.parametrize("file_format", ["array_record", "tfrecord"])
def test_a_prepared_folder_reads_in_order(tmp_path, file_format):
    folder = write_data_set(tmp_path / "toy" / "1.0.0", file_format=file_format)
    files = find_files([str(folder)])
    assert [file.kind for file in files] == ["tfds", "tfds"]
    assert flat([read_documents(file) for file in files]) == TEXTS
    held_out = find_files([f"{folder},split=validation"])[-1]  # the first shard holds nothing
    assert list(read_documents(held_out)) == ["held out"]


def test_tfds_reads_the_same(tmp_path):
    folder = write_data_set(tmp_path / "toy" / "1.0.0")
    peer = tfds.builder_from_directory(str(folder)).as_data_source("train")
    ours = flat([read_documents(file) for file in find_files([str(folder)])])
    assert [peer[i]["text"].decode() for i in range(len(peer))] == ours


@given(st.text(max_size=300), st.text(max_size=20), st.integers(-(2**63), 2**63 - 1))
def test_examples_are_parsed_as_tfds_writes_them(text, title, year):
    example = FEATURES.serialize_example({"title": title, "text": text, "year": year})
    assert feature_bytes(example, "text") == text.encode() and feature_bytes(example, "title") == title.encode()
    assert feature_bytes(example, "year") is None and feature_bytes(example, "body") is None


def test_reading_imports_neither_tensorflow_nor_tfds(tmp_path):
    folder = write_data_set(tmp_path / "toy" / "1.0.0")
    program = (
        "import sys; from bert_jax.text.documents import *\n"
        f"assert sum(1 for f in find_files([{str(folder)!r}]) for d in read_documents(f)) == {len(TEXTS)}\n"
        "assert not {'tensorflow', 'tensorflow_datasets', 'pyarrow', 'jax'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_data_sets_by_name(tmp_path, monkeypatch):
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path))
    write_data_set(tmp_path / "toy" / "1.9.0", splits={"train": ["old", "older"]})
    write_data_set(tmp_path / "toy" / "1.10.0", splits={"train": ["new", "newer"]})
    for config in ("en", "de"):
        write_data_set(tmp_path / "wiki40b" / config / "1.3.0", name="wiki40b", splits={"train": [config, "x"]})
    for source, expected in (
        ("tfds:toy", ["new", "newer"]),
        ("tfds:toy:1.9.0", ["old", "older"]),
        ("tfds:wiki40b/de", ["de", "x"]),
    ):
        assert flat([read_documents(file) for file in find_files([source])]) == expected
    for source, message in (
        ("tfds:wiki40b", r"has several configs under .* \(de, en\): name one"),
        ("tfds:pg19", r"tfds:pg19: no prepared data set under .*pg19: .*tfds build pg19.*TensorFlow.*bert-jax\[tfds\]"),
        ("tfds:toy:2.0.0", "no prepared data set"),
        ("tfds:toy,split=test", r"has no split 'test' \(splits found: train\)"),
        ("tfds:toy,column=body", r"no text under 'body' \(features with text: text, title; others: year\)"),
        ("tfds:toy,column=year", "no text under 'year'"),
    ):
        with pytest.raises(UserError, match=message):
            find_files([source])


def test_pg19_has_its_text_elsewhere(tmp_path):
    features = tfds.features.FeaturesDict({"book_text": tfds.features.Text(), "book_title": tfds.features.Text()})
    folder = write_data_set(
        tmp_path / "pg19" / "0.1.1",
        name="pg19",
        features=features,
        write=lambda texts: [features.serialize_example({"book_text": t, "book_title": "T"}) for t in texts],
    )
    assert flat([read_documents(file) for file in find_files([str(folder)])]) == TEXTS


@pytest.mark.parametrize("part_bytes", [1, 3000, 20_000])
def test_parts_of_a_shard_are_the_whole(tmp_path, part_bytes):
    folder = write_data_set(tmp_path / "toy" / "1.0.0")
    parts = documents_of_parts(folder, part_bytes)
    assert flat(parts) == TEXTS and len(parts) > 2
    other = write_data_set(tmp_path / "other" / "1.0.0", file_format="tfrecord")
    assert len(documents_of_parts(other, part_bytes)) == 2


def test_damaged_shards(tmp_path):
    folder = write_data_set(tmp_path / "toy" / "1.0.0")
    first = find_files([str(folder)])[0]
    path = folder / "toy-train.array_record-00000-of-00002"
    data = path.read_bytes()

    def damage(start, stop):
        path.write_bytes(data[:start] + bytes(byte ^ 0xFF for byte in data[start:stop]) + data[stop:])

    damage(10_612, 10_613)  # inside a record
    with pytest.raises(UserError, match=r"00000-of-00002, record \d+: is damaged"):
        list(read_documents(first))
    documents, reported = read_all(first)
    number = int(reported[0].split("record ")[1].split(":")[0])
    assert len(reported) == 1 and documents == TEXTS[:number] + TEXTS[number + 1 : 250]
    for start in range(0, len(data), len(data) // 40):  # anywhere: nothing wrong comes, and nothing is lost unsaid
        damage(start, start + 2000)
        documents, reported = read_all(first)
        assert [text for text in TEXTS[:250] if text in set(documents)] == documents
        assert len(documents) == 250 or reported
        assert all("00000-of-00002" in message and "\n" not in message for message in reported)
    path.write_bytes(data[: len(data) // 3])
    documents, reported = read_all(first)
    assert documents == [] and len(reported) == 1


def test_a_cut_off_tfrecord_gives_what_is_whole(tmp_path):
    folder = write_data_set(tmp_path / "toy" / "1.0.0", file_format="tfrecord")
    path = folder / "toy-train.tfrecord-00000-of-00002"
    path.write_bytes(path.read_bytes()[:-30])
    documents, reported = read_all(find_files([str(folder)])[0])
    assert documents == TEXTS[:249] and "record 249 at offset" in reported[0] and "cut off" in reported[0]


def test_records_that_are_no_examples(tmp_path):
    def write(texts):
        good = examples(["good"])[0]
        bad_text = good.replace(b"good", b"\xff\xfe\xfd\xfc")
        other = tfds.features.FeaturesDict({"other": tfds.features.Text()}).serialize_example({"other": "x"})
        return [good, b"\xff\xff\xff", good[:-3], bad_text, other, b"", good]

    folder = write_data_set(tmp_path / "toy" / "1.0.0", splits={"train": ["x"]}, write=write)
    documents, reported = read_all(find_files([str(folder)])[1])
    assert documents == ["good", "good"] and len(reported) == 5
    assert [int(message.split("record ")[1].split(":")[0]) for message in reported] == [1, 2, 3, 4, 5]


def test_a_missing_shard_is_named(tmp_path):
    folder = write_data_set(tmp_path / "toy" / "1.0.0")
    (folder / "toy-train.array_record-00001-of-00002").unlink()
    with pytest.raises(UserError, match=r"toy-train\.array_record-00001-of-00002: shard 2 of 2 is missing"):
        find_files([str(folder)])


def test_wiki40b_markers_become_paragraphs():
    text = (
        "\n_START_ARTICLE_\nCats\n_START_PARAGRAPH_\nCats are animals._NEWLINE_They sleep.\n_START_SECTION_\nHistory"
        "\n_START_PARAGRAPH_\nThey came late."
    )
    assert plain_wiki40b(text) == "Cats are animals.\nThey sleep.\n\nThey came late."
