"""Prepared data -> global batches as sharded arrays, in an order that only the seed decides.

The position in the data is one number: examples consumed. Batch k of a run holds the examples at positions
start + k * B to start + (k + 1) * B of the endless training order (shuffle.py), whatever the number of processes and
devices; each process reads only the rows of its own devices. So any run can go on from any position, also with another
batch size or on another number of hosts. Batches run across the ends of epochs, and no example is ever dropped.
"""

import time
import weakref

import grain
import jax
import numpy as np

from bert_jax.data.mixture import Mixture
from bert_jax.errors import UserError

READ_THREADS = 2
HOST_BATCHES = 8  # read ahead
DEVICE_BATCHES = 2  # sent ahead
# More batches than any run takes; grain wants a length.
ENDLESS = 2**40


class Loader:
    """An endless iterator of (batch, position): position counts the examples consumed before the batch.

    batch: the columns of the data (kinds.example_fields), such as input_ids int32 [B, L] and next_sentence_label
    int32 [B]; jax.Arrays of the global shape, rows sharded by `sharding`. `wait_seconds` adds up the time that `next`
    took; `summary` says in words what an epoch is; `close()` stops reading, as does dropping the loader.
    """

    def __init__(self, prepared, batch_size, sharding, *, seed=0, start_examples=0, vocab_size=None):
        """Starts reading at once, at position `start_examples`.

        prepared: a Prepared or a Mixture. sharding: a NamedSharding whose first axis is that of the rows. vocab_size:
        that of the model, by default the data's. Raises UserError for a batch that the devices do not divide and for a
        split without examples, and while iterating for ids outside the vocabulary and unreadable shards.
        """
        reader = prepared.reader("train")
        to_devices = _DeviceTransfer(sharding, batch_size)
        host_batches = _HostBatches(
            reader=reader,
            ids_of_batch=lambda k: prepared.order(start_examples + k * batch_size + to_devices.rows, seed),
            n_batches=ENDLESS,
            vocab_size=vocab_size or prepared.vocab_size,
        )
        self.wait_seconds = 0.0
        self.summary = _summary(prepared, batch_size, start_examples)
        self._batches = [_read_ahead(host_batches, to_devices)]
        self._next_position, self._batch_size = start_examples, batch_size
        # Also run before Python ends: grain's threads cannot stop once its modules are gone.
        self.close = weakref.finalize(self, _stop, self._batches)

    def __iter__(self):
        return self

    def __next__(self):
        started = time.perf_counter()
        batch = next(self._batches[0])
        self.wait_seconds += time.perf_counter() - started
        position = self._next_position
        self._next_position += self._batch_size
        return batch, position


def eval_batches(prepared, batch_size, sharding, *, split="validation", n_examples=None, vocab_size=None):
    """Yields (batch, position) over the split once, in the order on disk; every process gets as many batches.

    n_examples: only the first so many, by default all. The last batch is filled up: `row_weight` float32 [B] is 1 for
    rows that count and 0 for filling, which repeats examples from the beginning. Otherwise as `Loader`.
    """
    reader = prepared.reader(split)
    n_examples = min(n_examples or len(reader), len(reader))
    to_devices = _DeviceTransfer(sharding, batch_size)
    host_batches = _HostBatches(
        reader=reader,
        ids_of_batch=lambda k: (k * batch_size + to_devices.rows) % len(reader),
        n_batches=-(-n_examples // batch_size),
        vocab_size=vocab_size or prepared.vocab_size,
        row_weight=lambda k: (k * batch_size + to_devices.rows < n_examples).astype(np.float32),
    )
    batches = _read_ahead(host_batches, to_devices)
    try:
        for k, batch in enumerate(batches):
            yield batch, k * batch_size
    finally:
        batches.close()


def local_rows(sharding, batch_size, devices):
    """Which rows of a global batch the devices hold between them: int64 [n], ascending, each once.

    Raises UserError where the batch does not divide among the mesh's row shards.
    """
    axes = sharding.spec[0] if len(sharding.spec) and sharding.spec[0] is not None else ()
    axes = (axes,) if isinstance(axes, str) else axes
    n_shards = int(np.prod([sharding.mesh.shape[axis] for axis in axes], dtype=np.int64))
    if batch_size < 1 or batch_size % n_shards:
        names = " x ".join(f"{axis}={sharding.mesh.shape[axis]}" for axis in axes)
        raise UserError(f"batch_size: found {batch_size}, expected a multiple of {n_shards} (devices: {names})")
    slices = sharding.devices_indices_map((batch_size,))
    ranges = [np.arange(batch_size)[slices[device]] for device in devices]
    return np.unique(np.concatenate(ranges))


class _DeviceTransfer:
    """Global arrays out of the rows that this process has read: `rows` says which those are."""

    def __init__(self, sharding, batch_size):
        self.rows = local_rows(sharding, batch_size, sharding.addressable_devices)
        self._sharding, self._batch_size = sharding, batch_size

    def __call__(self, host_batch):
        return {name: self._transfer(values) for name, values in host_batch.items()}

    def _transfer(self, values):
        def shard(index):
            start, stop, _ = index[0].indices(self._batch_size)
            first = int(np.searchsorted(self.rows, start))
            return values[first : first + stop - start]

        return jax.make_array_from_callback((self._batch_size, *values.shape[1:]), self._sharding, shard)


class _HostBatches:
    """What grain reads from. Element k is a whole local batch: an element costs grain more than a row costs to read."""

    def __init__(self, reader, ids_of_batch, n_batches, vocab_size, row_weight=None):
        self._reader, self._ids_of_batch, self._row_weight = reader, ids_of_batch, row_weight
        self._n_batches, self._vocab_size = n_batches, vocab_size

    def __len__(self):
        return self._n_batches

    def __getitem__(self, k):
        indices = self._ids_of_batch(k)
        columns = self._reader.read(indices)
        self._check_ids(columns["input_ids"], indices)
        batch = {name: values.astype(np.int32) for name, values in columns.items()}
        return batch if self._row_weight is None else batch | {"row_weight": self._row_weight(k)}

    def _check_ids(self, ids, indices):
        if ids.min() < 0 or ids.max() >= self._vocab_size:
            row, column = np.argwhere((ids < 0) | (ids >= self._vocab_size))[0]
            raise UserError(
                f"{self._reader.describe(indices[row])} (example {indices[row]}): id {ids[row, column]} at token "
                f"{column} is outside the vocabulary of {self._vocab_size}"
            )


def _read_ahead(host_batches, to_devices):
    """Batches on the devices: threads read them from disk, another sends them off before they are asked for."""
    options = grain.ReadOptions(num_threads=READ_THREADS, prefetch_buffer_size=HOST_BATCHES)
    batches = grain.MapDataset.source(host_batches).to_iter_dataset(options).map(to_devices)
    return iter(grain.experimental.ThreadPrefetchIterDataset(batches, prefetch_buffer_size=DEVICE_BATCHES))


def _stop(batches):
    batches.pop().close()


def _summary(prepared, batch_size, start_examples):
    """What an epoch is, in words; of a mixture, which share of the batches each data set has."""
    if isinstance(prepared, Mixture):
        shares = np.array(prepared.weights) / sum(prepared.weights)
        parts = zip(shares, prepared.parts, strict=True)
        told = [f"{share:.1%} from the {part.size('train')} examples of {part.path}" for share, part in parts]
        return f"train: mixed by weight, {', '.join(told)}; starting at example {start_examples}"
    n_examples = prepared.size("train")
    batches, rest = divmod(n_examples, batch_size)
    across = f"; the remaining {rest} open the next epoch" if rest else ""
    epoch, place = divmod(start_examples, n_examples)
    return (
        f"train: {n_examples} examples an epoch, {batches} batches of {batch_size}{across}; "
        f"starting in epoch {epoch} at example {place}"
    )
