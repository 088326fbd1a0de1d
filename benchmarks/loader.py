"""Examples of 512 tokens a second from disk to device batches, against grain reading the same data one by one.

    python benchmarks/loader.py [--prepared=DIR] [--pairs=5]

Without --prepared, a data set of random pairs is written first. Order is random in both; batches of 256. Both take a
record apart by the same code, so the difference is in how records are asked for. The last line is one JSON object:
examples a second on all cores of the machine, medians over interleaved pairs; `start_seconds`, from opening the data to
the first batch on the device; `peak_megabytes` of resident memory, JAX included, before the peer has run.
"""

import argparse
import json
import os
import resource
import statistics
import tempfile
import time
from pathlib import Path

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import grain
import jax
import numpy as np
from array_record.python.array_record_data_source import ArrayRecordDataSource

from bert_jax.data import storage
from bert_jax.data.kinds import ExampleConfig, example_fields
from bert_jax.data.loader import Loader
from bert_jax.data.records import Layout

LENGTH, VOCABULARY, BATCH = 512, 30_522, 256
N_EXAMPLES, N_SHARDS = 40_000, 8


def write_random_data(folder):
    """Prepared data whose ids are as unevenly distributed as words are."""
    rng = np.random.default_rng(0)
    layout = Layout(example_fields(ExampleConfig(length=LENGTH), VOCABULARY))
    shards = []
    for number in range(N_SHARDS):
        n = N_EXAMPLES // N_SHARDS
        columns = {
            "input_ids": np.minimum(rng.zipf(1.2, (n, LENGTH)), VOCABULARY - 1),
            "token_type_ids": np.arange(LENGTH) >= rng.integers(1, LENGTH, (n, 1)),
            "next_sentence_label": rng.integers(0, 2, n),
        }
        name = storage.shard_name("pairs", "train", number, N_SHARDS)
        shards.append(storage.write_shard(folder / name, "train", [layout.encode(columns)]))
    preparation = {"kind": "pairs", "length": LENGTH, "vocab_size": VOCABULARY, "special_ids": {}}
    storage.write_folder(folder, "pairs", layout, shards, preparation, {}, np.zeros(VOCABULARY, np.int64))


def ours(prepared, sharding):
    loader = Loader(prepared, BATCH, sharding)
    yield from (batch for batch, _ in loader)


def peer(prepared, sharding):
    """As in grain's documentation: an element is an example. More threads only get into each other's way."""
    paths = [str(prepared.path / shard.name) for shard in prepared.shards if shard.split == "train"]
    layout = prepared.layout

    def decode(record):
        return {name: values[0] for name, values in layout.decode([record], str).items()}

    examples = grain.MapDataset.source(ArrayRecordDataSource(paths)).seed(0).shuffle().repeat().map(decode)
    for batch in examples.to_iter_dataset(grain.ReadOptions(num_threads=2, prefetch_buffer_size=512)).batch(BATCH):
        yield {name: jax.device_put(values.astype(np.int32), sharding) for name, values in batch.items()}


def examples_a_second(batches, seconds):
    for _ in range(4):  # threads started, files opened
        next(batches)
    n_batches, started = 0, time.perf_counter()
    while time.perf_counter() - started < seconds:
        batch = next(batches)
        n_batches += 1
    jax.block_until_ready(batch)
    return n_batches * BATCH / (time.perf_counter() - started)


def start_seconds(path, sharding):
    started = time.perf_counter()
    jax.block_until_ready(next(ours(storage.open_prepared(path), sharding)))
    return time.perf_counter() - started


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prepared", help="prepared data of 512 tokens")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0, help="length of a measurement")
    args = parser.parse_args()
    mesh = jax.sharding.Mesh(np.array(jax.devices()), ("data",))
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("data"))
    with tempfile.TemporaryDirectory() as folder:
        if not args.prepared:
            write_random_data(Path(folder))
        prepared = storage.open_prepared(args.prepared or folder)
        speeds = {"ours": [], "peer": []}
        start = start_seconds(prepared.path, sharding)
        examples_a_second(ours(prepared, sharding), args.seconds)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        for _ in range(args.pairs):
            for name, batches in (("ours", ours), ("peer", peer)):
                speeds[name].append(examples_a_second(batches(prepared, sharding), args.seconds))
                print(f"{name}: {speeds[name][-1]:.0f} examples/s", flush=True)
    ratios = [mine / theirs for mine, theirs in zip(speeds["ours"], speeds["peer"], strict=True)]
    result = {name: round(statistics.median(values)) for name, values in speeds.items()}
    result |= {"ratio": round(statistics.median(ratios), 3), "unit": "examples/s", "cores": os.cpu_count()}
    result |= {"start_seconds": round(start, 3), "peak_megabytes": round(peak)}
    print(json.dumps(result | {"length": prepared.length, "wanted": 20_000}))


if __name__ == "__main__":
    main()
