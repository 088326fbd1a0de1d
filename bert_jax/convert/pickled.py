"""A reader of PyTorch's .bin files that can build tensors and nothing else: no code in a file is ever run.

The zip format of torch.save (PyTorch 1.6 and later): a pickle `data.pkl` of the dict, whose storages are the members
`data/<key>`. Source of the layout: torch/serialization.py and torch/_utils.py.
"""

import collections
import io
import pickle
import zipfile

import ml_dtypes
import numpy as np

from bert_jax.errors import UserError

DTYPES = {
    "DoubleStorage": np.float64,
    "FloatStorage": np.float32,
    "HalfStorage": np.float16,
    "BFloat16Storage": ml_dtypes.bfloat16,
    "LongStorage": np.int64,
    "IntStorage": np.int32,
    "ShortStorage": np.int16,
    "CharStorage": np.int8,
    "ByteStorage": np.uint8,
    "BoolStorage": np.bool_,
}


def read_bin(path):
    """The tensors of a .bin file by name, as NumPy arrays.

    UserError for a file of another format, for a pickle that asks for anything but tensors (it is named, and not run),
    and for a damaged one.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            pickles = [name for name in archive.namelist() if name.endswith("data.pkl")]
            if len(pickles) != 1:
                raise UserError(f"{path}: is no file of torch.save: it has {len(pickles)} members data.pkl")
            reader = _Reader(archive, pickles[0].removesuffix("data.pkl"), path)
            content = reader.load()
    except zipfile.BadZipFile as error:
        raise UserError(
            f"{path}: is not in the zip format of torch.save: save it again as safetensors ({error})"
        ) from error
    except (pickle.UnpicklingError, KeyError, ValueError, IndexError, EOFError, TypeError, AttributeError) as error:
        raise UserError(f"{path}: is damaged or no dict of tensors ({error!r})") from error
    if isinstance(content, dict) and isinstance(content.get("state_dict"), dict):
        content = content["state_dict"]
    if not isinstance(content, dict):
        raise UserError(f"{path}: holds a {type(content).__name__}: expected a dict of tensors")
    return {name: array for name, array in content.items() if isinstance(array, np.ndarray)}


class _Reader(pickle.Unpickler):
    def __init__(self, archive, prefix, path):
        super().__init__(io.BytesIO(archive.read(prefix + "data.pkl")))
        self._archive, self._prefix, self._path = archive, prefix, path
        if prefix + "byteorder" in archive.namelist() and archive.read(prefix + "byteorder") != b"little":
            raise UserError(f"{path}: was written on a big-endian machine: expected little-endian")

    def find_class(self, module, name):
        if module in ("torch", "torch.storage") and name in DTYPES:
            return np.dtype(DTYPES[name])
        allowed = {
            ("collections", "OrderedDict"): collections.OrderedDict,
            ("torch._utils", "_rebuild_tensor_v2"): _tensor,
            ("torch._utils", "_rebuild_parameter"): lambda data, requires_grad, hooks: data,
        }
        if (module, name) not in allowed:
            raise UserError(f"{self._path}: its pickle asks for {module}.{name}, which is no tensor: it is not run")
        return allowed[module, name]

    def persistent_load(self, reference):
        kind, dtype, key, _, count = reference
        if kind != "storage":
            raise UserError(f"{self._path}: its pickle refers to a {kind!r}: expected a storage")
        return np.frombuffer(self._archive.read(f"{self._prefix}data/{key}"), dtype, count)


def _tensor(storage, offset, shape, strides, requires_grad=False, hooks=None, metadata=None):
    """The array that a view of a storage shows, as a copy; strides are in elements."""
    last = offset + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
    if 0 in shape:
        return np.empty(shape, storage.dtype)
    if min([offset, *strides]) < 0 or last >= len(storage):
        raise ValueError("a tensor reaches beyond its storage")
    size = storage.itemsize
    return np.lib.stride_tricks.as_strided(storage[offset:], shape, [stride * size for stride in strides]).copy()
