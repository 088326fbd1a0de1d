"""Weights out of a Hugging Face folder: safetensors or .bin, whole or in shards."""

import json
from pathlib import Path

import ml_dtypes  # noqa: F401  teaches NumPy bfloat16, which safetensors then reads
import safetensors
import safetensors.numpy

from bert_jax.convert.pickled import read_bin
from bert_jax.errors import UserError

FILES = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json")


def find_weights(folder):
    """The file of FILES that a folder has, the first in that order; UserError where there is none."""
    found = [Path(folder) / name for name in FILES if (Path(folder) / name).is_file()]
    if not found:
        raise UserError(f"{folder}: has no weights: expected one of {', '.join(FILES)}")
    return found[0]


def read_weights(path):
    """All tensors of a file, or of the shards that an index names, as NumPy arrays by name; nothing in it is run."""
    path = Path(path)
    if path.name.endswith(".index.json"):
        return _read_shards(path)
    if path.suffix == ".bin":
        return read_bin(path)
    try:
        return safetensors.numpy.load_file(path)
    except (safetensors.SafetensorError, OSError, ValueError) as error:
        raise UserError(f"{path}: is not readable as safetensors ({error})") from error


def _read_shards(path):
    try:
        names = json.loads(path.read_text())["weight_map"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path}: is no index of shards ({error!r})") from error
    tensors = {}
    for shard in sorted(set(names.values())):
        if Path(shard).name != shard or not (path.parent / shard).is_file():
            raise UserError(f"{path}: names the shard {shard!r}, which is not beside it")
        tensors |= read_weights(path.parent / shard)
    absent = sorted(set(names) - set(tensors))
    if absent:
        raise UserError(f"{path}: names the weight {absent[0]}, which no shard holds")
    return tensors
