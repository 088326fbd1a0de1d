"""Prepared folders: TFDS reads them, and damage is named."""

import json

import numpy as np
import pytest

from bert_jax.data import storage
from bert_jax.errors import UserError
from tests.data.conftest import corpus


@pytest.fixture
def prepared(prepare_text):
    text = corpus(np.random.default_rng(0), 60)
    return prepare_text(text, held_out=0.1, block_bytes=4000)


def test_tfds_reads_the_same_rows(prepared):
    import tensorflow_datasets as tfds

    builder = tfds.builder_from_directory(str(prepared.path))
    assert builder.info.features["next_sentence_label"].names == ["next", "random"]
    for split in storage.SPLITS:
        source = builder.as_data_source(split)
        assert len(source) == prepared.size(split) > 0
        ours = storage.SplitReader(prepared, split).read(np.arange(len(source)))
        for i in range(len(source)):
            for name, value in source[i].items():
                np.testing.assert_array_equal(value, ours[name][i])
        assert source[0]["input_ids"].dtype == ours["input_ids"].dtype == np.uint16


def test_dataset_info_is_what_tfds_writes(prepared, tmp_path):
    """TFDS's own metadata of the same splits differs in nothing but what it adds to say where it came from."""
    import tensorflow_datasets as tfds

    theirs = tmp_path / "theirs"
    theirs.mkdir()
    for shard in prepared.shards:
        (theirs / shard.name).symlink_to(prepared.path / shard.name)
    splits = []
    for split in storage.SPLITS:
        lengths = [shard.examples for shard in prepared.shards if shard.split == split]
        template = tfds.core.ShardedFileTemplate(
            dataset_name="pairs", data_dir=theirs, split=split, filetype_suffix="array_record"
        )
        n_bytes = sum(lengths) * len(prepared.layout.template)
        splits.append(tfds.core.SplitInfo(split, lengths, n_bytes, filename_template=template))
    features = tfds.builder_from_directory(str(prepared.path)).info.features
    tfds.folder_dataset.write_metadata(data_dir=theirs, features=features, split_infos=splits, check_data=False)
    for name in ("dataset_info.json", "features.json"):
        assert json.loads((theirs / name).read_text()) == json.loads((prepared.path / name).read_text())
    labels = "next_sentence_label.labels.txt"
    assert (theirs / labels).read_text() == (prepared.path / labels).read_text()


def test_any_order_of_indices_reads_the_rows_asked_for(prepared):
    reader = storage.SplitReader(prepared, "train")
    assert sum(shard.split == "train" for shard in prepared.shards) > 2
    in_order = reader.read(np.arange(len(reader)))
    shuffled = np.random.default_rng(0).permutation(len(reader))
    for name, values in reader.read(shuffled).items():
        np.testing.assert_array_equal(values, in_order[name][shuffled])
    assert reader.read(np.zeros(0, int))["input_ids"].shape == (0, 32)
    with pytest.raises(IndexError):
        reader.read([len(reader)])


def test_shards_are_those_recorded(prepared):
    import hashlib

    names = {path.name for path in prepared.path.iterdir() if "array_record" in path.name}
    assert names == {shard.name for shard in prepared.shards}
    for shard in prepared.shards:
        assert hashlib.sha256((prepared.path / shard.name).read_bytes()).hexdigest() == shard.sha256


def test_what_is_no_prepared_data_is_named(prepared, tmp_path):
    for folder, reason in ((tmp_path / "nowhere", "no such folder"), (tmp_path, "no preparation.json")):
        with pytest.raises(UserError, match=f"{folder}: not prepared data .{reason}"):
            storage.open_prepared(folder)
    (prepared.path / "report.json").write_text("{")
    with pytest.raises(UserError, match=r"report.json: not readable as JSON"):
        storage.open_prepared(prepared.path)


def test_a_missing_or_cut_shard_is_named_at_opening(prepared):
    victim = prepared.path / prepared.shards[1].name
    content = victim.read_bytes()
    victim.write_bytes(content[:-1])
    with pytest.raises(UserError, match=f"{victim.name}: shard has {len(content) - 1} bytes, expected {len(content)}"):
        storage.open_prepared(prepared.path)
    victim.unlink()
    with pytest.raises(UserError, match=f"{victim.name}: shard missing"):
        storage.open_prepared(prepared.path)


def test_a_flipped_bit_is_named_when_it_is_read(prepared):
    shard = prepared.shards[0]
    path = prepared.path / shard.name
    content = bytearray(path.read_bytes())
    content[1000] ^= 1  # in one of the first records
    path.write_bytes(content)
    reader = storage.SplitReader(storage.open_prepared(prepared.path), shard.split)
    with pytest.raises(UserError, match=rf"{shard.name}, record \d+: corrupt shard"):
        reader.read(np.arange(shard.examples))


def test_damage_anywhere_in_a_shard_is_named_or_harmless(prepared):
    """The end of the file holds the index, the rest records: both fail in ways of their own."""
    shard = prepared.shards[0]
    path = prepared.path / shard.name
    whole = path.read_bytes()
    examples = np.arange(shard.examples)
    expected = prepared.reader(shard.split).read(examples)
    named = 0
    for place in range(0, len(whole), max(1, len(whole) // 40)):
        damaged = bytearray(whole)
        damaged[place : place + 4] = bytes(255 - byte for byte in whole[place : place + 4])
        path.write_bytes(damaged)
        try:
            found = prepared.reader(shard.split).read(examples)
        except UserError as error:
            assert shard.name in str(error)
            named += 1
        else:
            np.testing.assert_equal(found, expected)
    assert named >= 3  # the rest of so small a file is mostly filling


def test_a_shard_of_other_examples_is_named(prepared):
    """Right size in bytes, readable, but not of these features."""
    path = prepared.path / prepared.shards[0].name
    writer = storage.ArrayRecordWriter(str(path), storage.WRITER_OPTIONS)
    for _ in range(prepared.shards[0].examples):
        writer.write(b"something else")
    writer.close()
    reader = storage.SplitReader(prepared, prepared.shards[0].split)
    with pytest.raises(UserError, match=rf"{path.name}, record 1: the record has 14 bytes, expected"):
        reader.read([1])


def test_a_split_without_examples_is_a_clear_error(prepare_text):
    prepared = prepare_text(corpus(np.random.default_rng(0), 5), held_out=0.0)
    assert prepared.size("validation") == 0
    with pytest.raises(UserError, match="split 'validation' has no examples"):
        storage.SplitReader(prepared, "validation")


def test_a_full_disk_is_a_clear_error(tmp_path):
    (tmp_path / "full").symlink_to("/dev/full")
    with pytest.raises(UserError, match=r"full: cannot be written: .*No space left on device"):
        storage.write_shard(tmp_path / "full", "train", [np.zeros((100, 50), np.uint8)])
