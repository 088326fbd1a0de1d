"""The bytes of one example: a tf.train.Example of fixed layout, so that numpy makes and reads whole arrays of them.

All examples of a data set have vectors of the same lengths, so their serialized forms differ only in the values: one
byte template serves for all. What is written is what TFDS writes for the same features, and TFDS reads it.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bert_jax.errors import UserError

FEATURES_MODULE = "tensorflow_datasets.core.features"


@dataclass(frozen=True)
class Field:
    """One feature of an example: `size` integers of type `dtype` or, where it has `labels`, one class index."""

    name: str
    dtype: str = "uint8"
    size: int = 1
    labels: tuple[str, ...] = ()

    @property
    def n_bytes(self):
        return self.size * np.dtype(self.dtype).itemsize


def id_type(vocab_size):
    """The smallest type, of those that TFDS and JAX both take, that holds every id."""
    return "uint16" if vocab_size <= 2**16 else "int32"


@dataclass(frozen=True)
class Layout:
    """Where each field's values lie in the serialized example; fields are sorted by name."""

    fields: tuple[Field, ...]

    @cached_property
    def template(self):
        """The serialized example whose values are all zero, uint8 [record bytes]."""
        return np.frombuffer(self._template_and_places[0], np.uint8)

    @cached_property
    def _template_and_places(self):
        """The template, and (field, start, end) for each field: where its values lie in it, in the order of names."""
        features, ends = b"", []
        for field in sorted(self.fields, key=lambda field: field.name):
            values = _tagged(1, bytes(field.n_bytes))  # BytesList.value, or Int64List.value packed: the same bytes
            feature = _tagged(3 if field.labels else 1, values)  # Feature.int64_list, Feature.bytes_list
            features += _tagged(1, _tagged(1, field.name.encode()) + _tagged(2, feature))
            ends.append((field, len(features)))  # an entry ends with its values
        example = _tagged(1, features)
        header = len(example) - len(features)
        return example, [(field, header + end - field.n_bytes, header + end) for field, end in ends]

    def encode(self, columns):
        """Serialized examples, uint8 [n, record bytes], of `columns`: name -> array [n, size] or, for a class, [n]."""
        records = np.empty((len(columns[self.fields[0].name]), len(self.template)), np.uint8)
        records[:] = self.template
        for field, start, end in self._template_and_places[1]:
            values = np.ascontiguousarray(columns[field.name], dtype=np.dtype(field.dtype).newbyteorder("<"))
            records[:, start:end] = values.reshape(len(records), -1).view(np.uint8)
        return records

    def decode(self, records, where):
        """The columns of serialized examples (a list of bytes): name -> array [n, size] or, for a class, [n].

        Raises UserError for a record that is not of this layout; `where(i)` names record i for it.
        """
        size = len(self.template)
        for index, record in enumerate(records):
            if len(record) != size:
                raise UserError(f"{where(index)}: the record has {len(record)} bytes, expected {size}")
        table = np.frombuffer(b"".join(records), np.uint8).reshape(len(records), size)
        gap_start = 0
        columns = {}
        for field, start, end in self._template_and_places[1]:
            wrong = (table[:, gap_start:start] != self.template[gap_start:start]).any(axis=1)
            if wrong.any():
                names = ", ".join(field.name for field in self.fields)
                raise UserError(f"{where(int(wrong.argmax()))}: the record is no example with {names} of {size} bytes")
            values = np.ascontiguousarray(table[:, start:end]).view(np.dtype(field.dtype).newbyteorder("<"))
            columns[field.name] = values[:, 0] if field.labels else values
            gap_start = end
        return columns

    def tfds_features(self):
        """What TFDS keeps in features.json."""
        return {
            "pythonClassName": f"{FEATURES_MODULE}.features_dict.FeaturesDict",
            "featuresDict": {"features": {field.name: _tfds_feature(field) for field in self.fields}},
        }


def _tfds_feature(field):
    if field.labels:
        return {
            "pythonClassName": f"{FEATURES_MODULE}.class_label_feature.ClassLabel",
            "classLabel": {"numClasses": str(len(field.labels))},
        }
    return {
        "pythonClassName": f"{FEATURES_MODULE}.tensor_feature.Tensor",
        "tensor": {"shape": {"dimensions": [str(field.size)]}, "dtype": field.dtype, "encoding": "bytes"},
    }


def _tagged(number, payload):
    """A length-delimited protocol buffer field: tag, length as a varint, payload."""
    return bytes([number << 3 | 2]) + _varint(len(payload)) + payload


def _varint(value):
    encoded = bytearray()
    while value > 127:
        encoded.append(value & 127 | 128)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
