"""One process of a loader test: python loader_process.py PREPARED BATCH OUT [PROCESS COUNT PORT].

Writes, as .npz, the rows that this process's devices hold of 5 training batches and of all evaluation batches.
"""

import sys

import jax
import numpy as np

from bert_jax.data.loader import Loader, eval_batches
from bert_jax.data.storage import open_prepared


def rows_held(array, batch_size):
    """(row numbers, values) of the addressable shards, put together; each row once."""
    held = {}
    for shard in array.addressable_shards:
        start, _, _ = shard.index[0].indices(batch_size)
        for offset, row in enumerate(np.asarray(shard.data)):
            held[start + offset] = row
    numbers = sorted(held)
    return np.array(numbers), np.array([held[number] for number in numbers])


def main(path, batch_size, out, process=None, count=None, port=None):
    batch_size = int(batch_size)
    if process is not None:
        jax.distributed.initialize(f"127.0.0.1:{port}", int(count), int(process))
    devices = np.array(jax.devices()).reshape(-1, 2)
    mesh = jax.sharding.Mesh(devices, ("data", "tensor"))
    if process is not None:
        mesh = jax.sharding.Mesh(devices.reshape(-1, 1), ("data", "tensor"))
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("data"))
    prepared = open_prepared(path)
    found = {}
    loader = Loader(prepared, batch_size, sharding, seed=5, start_examples=37)
    for k in range(5):
        batch, position = next(loader)
        assert position == 37 + k * batch_size
        for name, array in batch.items():
            assert array.shape[0] == batch_size and array.dtype == np.int32
            found[f"train-{k}-rows"], found[f"train-{k}-{name}"] = rows_held(array, batch_size)
    weight_sum = jax.jit(lambda weights: weights.sum())
    for k, (batch, position) in enumerate(eval_batches(prepared, batch_size, sharding)):
        assert position == k * batch_size
        found[f"eval-{k}-total"] = np.asarray(weight_sum(batch["row_weight"]))  # over all processes
        for name, array in batch.items():
            found[f"eval-{k}-rows"], found[f"eval-{k}-{name}"] = rows_held(array, batch_size)
    np.savez(out, **found)


if __name__ == "__main__":
    main(*sys.argv[1:])
