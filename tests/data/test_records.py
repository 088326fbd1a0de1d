"""The byte template against TFDS's own serializer and metadata."""

import json

import numpy as np
import pytest

from bert_jax.data.kinds import ExampleConfig, example_fields
from bert_jax.data.records import Layout
from bert_jax.errors import UserError


def columns_of(n, length, vocab_size):
    rng = np.random.default_rng(0)
    return {
        "input_ids": rng.integers(0, vocab_size, (n, length)).astype("uint16" if vocab_size <= 2**16 else "int32"),
        "token_type_ids": rng.integers(0, 2, (n, length)).astype(np.uint8),
        "next_sentence_label": np.arange(n).astype(np.uint8) % 2,
    }


def tfds_features(length, id_type):
    import tensorflow_datasets as tfds

    return tfds.features.FeaturesDict(
        {
            "input_ids": tfds.features.Tensor(shape=(length,), dtype=np.dtype(id_type), encoding="bytes"),
            "token_type_ids": tfds.features.Tensor(shape=(length,), dtype=np.uint8, encoding="bytes"),
            "next_sentence_label": tfds.features.ClassLabel(names=["next", "random"]),
        }
    )


@pytest.mark.parametrize("length", [8, 128, 512])
@pytest.mark.parametrize("vocab_size", [100, 2**16, 2**16 + 1])
def test_records_are_those_that_tfds_writes(length, vocab_size):
    from tensorflow_datasets.core.example_serializer import ExampleSerializer
    from tensorflow_datasets.proto import tf_example_pb2

    columns = columns_of(3, length, vocab_size)
    records = Layout(example_fields(ExampleConfig(length=length), vocab_size)).encode(columns)
    features = tfds_features(length, columns["input_ids"].dtype)
    serializer = ExampleSerializer(features.get_serialized_info())
    for i, record in enumerate(records):
        theirs = serializer.serialize_example(features.encode_example({k: v[i] for k, v in columns.items()}))
        assert len(theirs) == len(record)
        assert tf_example_pb2.Example.FromString(record.tobytes()) == tf_example_pb2.Example.FromString(theirs)
        decoded = features.deserialize_example_np(record.tobytes())
        for name, values in columns.items():
            np.testing.assert_array_equal(decoded[name], values[i])


def test_features_json_is_what_tfds_writes(tmp_path):
    tfds_features(16, "uint16").save_config(str(tmp_path))
    assert Layout(example_fields(ExampleConfig(length=16), 100)).tfds_features() == json.loads(
        (tmp_path / "features.json").read_text()
    )


def test_decoding_gives_back_what_was_encoded():
    layout = Layout(example_fields(ExampleConfig(length=16), 70_000))
    columns = columns_of(5, 16, 70_000)
    decoded = layout.decode([record.tobytes() for record in layout.encode(columns)], str)
    assert decoded.keys() == columns.keys()
    for name in columns:
        assert decoded[name].dtype == columns[name].dtype
        np.testing.assert_array_equal(decoded[name], columns[name])


def test_a_record_of_another_layout_is_named():
    layout = Layout(example_fields(ExampleConfig(length=16), 100))
    records = [record.tobytes() for record in layout.encode(columns_of(4, 16, 100))]
    longer = Layout(example_fields(ExampleConfig(length=17), 100)).encode(columns_of(1, 17, 100))[0].tobytes()
    with pytest.raises(UserError, match=rf"record 2: the record has {len(longer)} bytes, expected {len(records[0])}"):
        layout.decode([*records[:2], longer], "record {}".format)
    renamed = records[1].replace(b"token_type_ids", b"token_type_idz")
    with pytest.raises(UserError, match=r"record 1: .*token_type_ids"):
        layout.decode([records[0], renamed, records[2]], "record {}".format)
