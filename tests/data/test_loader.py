"""Batches: the same on any number of hosts and from any position, each example once an epoch, uneven ends exact."""

import os
import socket
import subprocess
import sys
import time
from types import SimpleNamespace

import jax
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from bert_jax.data import loader as loader_module
from bert_jax.data import storage
from bert_jax.data.loader import Loader, eval_batches, local_rows
from bert_jax.data.prepare import PrepareConfig, prepare
from bert_jax.data.shuffle import example_ids
from bert_jax.errors import UserError
from tests.data import loader_process
from tests.data.conftest import corpus


@pytest.fixture(scope="module")
def prepared(tmp_path_factory, vocabulary):
    folder = tmp_path_factory.mktemp("prepared")
    (folder / "text.txt").write_text(corpus(np.random.default_rng(0), 150))
    return prepare(
        PrepareConfig(
            (str(folder / "text.txt"),), str(vocabulary), str(folder / "out"), 32, held_out=0.1, block_bytes=4000
        )
    )


@pytest.fixture(scope="module")
def train_rows(prepared):
    return storage.SplitReader(prepared, "train").read(np.arange(prepared.size("train")))


@pytest.fixture
def one_device():
    return NamedSharding(Mesh(np.array(jax.devices()[:1]), ("data",)), PartitionSpec("data"))


def run_processes(n_processes, n_devices, prepared, batch_size, folder):
    """Runs loader_process.py in so many processes, each with so many fake devices; returns what each wrote."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = os.environ | {
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": f"--xla_force_host_platform_device_count={n_devices}",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    outputs = [folder / f"{n_processes}-{process}.npz" for process in range(n_processes)]
    running = []
    for process, output in enumerate(outputs):
        arguments = [str(prepared.path), str(batch_size), str(output)]
        arguments += [str(process), str(n_processes), str(port)] if n_processes > 1 else []
        command = [sys.executable, loader_process.__file__, *arguments]
        running.append(subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True))
    for process in running:
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
    return [dict(np.load(output)) for output in outputs]


def put_together(parts, key):
    """The global array out of what each process holds; every row must be held by exactly one."""
    rows_key = key.rsplit("-", 1)[0] + "-rows"
    rows = np.concatenate([part[rows_key] for part in parts])
    assert sorted(rows.tolist()) == list(range(len(rows)))
    values = np.concatenate([part[key] for part in parts])
    return values[np.argsort(rows)]


def test_batches_are_the_same_on_one_host_and_on_two(prepared, train_rows, tmp_path):
    """Real processes over Gloo. The one host has 4 devices, 2 of each replica; the two have 2 devices each."""
    one_host = run_processes(1, 4, prepared, 20, tmp_path)
    two_hosts = run_processes(2, 2, prepared, 20, tmp_path)
    assert [len(part["train-0-rows"]) for part in two_hosts] == [10, 10]  # each reads its half
    for k in range(5):
        ids = example_ids(37 + 20 * k + np.arange(20), len(train_rows["input_ids"]), 5)
        for name, values in train_rows.items():
            np.testing.assert_array_equal(put_together(one_host, f"train-{k}-{name}"), values[ids])
            np.testing.assert_array_equal(put_together(two_hosts, f"train-{k}-{name}"), values[ids])
    n_batches = -(-prepared.size("validation") // 20)
    assert prepared.size("validation") % 20, "the uneven end is what this is about"
    for parts in (one_host, two_hosts):
        assert all(f"eval-{n_batches}-rows" not in part and f"eval-{n_batches - 1}-rows" in part for part in parts)
        weights = np.concatenate([put_together(parts, f"eval-{k}-row_weight") for k in range(n_batches)])
        assert weights.sum() == prepared.size("validation")
        for k in range(n_batches):
            assert parts[0][f"eval-{k}-total"] == weights[20 * k : 20 * k + 20].sum()


def test_four_hosts_read_the_rows_of_one_batch_between_them():
    """local_rows for devices 2h and 2h + 1 of 8, over a data axis of 4 and one that replicates."""
    devices = list(range(8))

    def fake_sharding(rows_of_device):
        return SimpleNamespace(
            spec=PartitionSpec(("data", "fsdp")),
            mesh=SimpleNamespace(shape={"data": 2, "fsdp": 2, "tensor": 2}),
            devices_indices_map=lambda shape: {i: (rows_of_device(i, shape[0]),) for i in devices},
        )

    side_by_side = fake_sharding(lambda i, n: slice(i // 2 * n // 4, (i // 2 + 1) * n // 4))
    held = [local_rows(side_by_side, 24, devices[2 * h : 2 * h + 2]).tolist() for h in range(4)]
    assert held == [list(range(6 * h, 6 * h + 6)) for h in range(4)]
    across = fake_sharding(lambda i, n: slice(i % 4 * n // 4, (i % 4 + 1) * n // 4))
    held = [local_rows(across, 24, devices[2 * h : 2 * h + 2]).tolist() for h in range(4)]
    assert held == [list(range(12)), list(range(12, 24))] * 2
    everything = fake_sharding(lambda i, n: slice(None))
    assert local_rows(everything, 24, devices[:1]).tolist() == list(range(24))


def test_an_epoch_holds_each_example_once_and_its_remainder_opens_the_next(prepared, train_rows, one_device):
    n, batch_size = prepared.size("train"), 64
    assert n % batch_size
    loader = Loader(prepared, batch_size, one_device, seed=1)
    n_batches = -(-2 * n // batch_size)
    ids = np.concatenate([np.asarray(next(loader)[0]["input_ids"]) for _ in range(n_batches)])[: 2 * n]
    expected = sorted(row.tobytes() for row in train_rows["input_ids"].astype(np.int32))
    first, second = ([row.tobytes() for row in ids[start : start + n]] for start in (0, n))
    assert sorted(first) == sorted(second) == expected
    assert first != second
    epoch = f"{n} examples an epoch, {n // batch_size} batches of 64; the remaining {n % batch_size} open the next"
    assert epoch in loader.summary


def test_a_run_goes_on_where_it_stopped_also_with_another_batch_size(prepared, one_device):
    def stream(batch_sizes, start=0):
        rows = []
        for batch_size, n_batches in batch_sizes:
            loader = Loader(prepared, batch_size, one_device, seed=2, start_examples=start)
            for _ in range(n_batches):
                batch, position = next(loader)
                assert position == start
                rows.append(np.asarray(batch["input_ids"]))
                start += batch_size
        return np.concatenate(rows)

    without_a_break = stream([(30, 20)])
    np.testing.assert_array_equal(stream([(30, 4), (30, 16)]), without_a_break)
    np.testing.assert_array_equal(stream([(30, 4), (48, 10)]), without_a_break)
    np.testing.assert_array_equal(stream([(50, 6)], start=300), without_a_break[300:])


def test_a_far_position_starts_as_fast_as_the_first(prepared, one_device):
    """cases C17: nothing is replayed."""

    def seconds(start):
        started = time.perf_counter()
        batch, _ = next(Loader(prepared, 16, one_device, start_examples=start))
        jax.block_until_ready(batch)
        return time.perf_counter() - started

    seconds(0)
    assert np.median([seconds(5_000_000) for _ in range(5)]) < np.median([seconds(0) for _ in range(5)]) + 0.5


def test_the_loader_keeps_ahead_of_a_step(prepared, one_device):
    """cases C15: less than 5 % of the time is spent waiting when a step takes 20 ms."""
    loader = Loader(prepared, 32, one_device)
    for _ in range(5):
        next(loader)
    waited, started = loader.wait_seconds, time.perf_counter()
    for _ in range(100):
        next(loader)
        time.sleep(0.02)
    assert (loader.wait_seconds - waited) / (time.perf_counter() - started) < 0.05


def test_evaluation_scores_every_example_once_at_any_batch_size(prepared, one_device):
    """cases F8 and D10."""
    n = prepared.size("validation")
    rows = storage.SplitReader(prepared, "validation").read(np.arange(n))["input_ids"].astype(np.int32)
    for batch_size in (1, 7, n - 1, n, n + 1, 3 * n):
        seen = []
        for batch, position in eval_batches(prepared, batch_size, one_device):
            weight = np.asarray(batch["row_weight"])
            assert batch["input_ids"].shape == (batch_size, 32) and weight.dtype == np.float32
            real = np.asarray(batch["input_ids"])[weight == 1]
            np.testing.assert_array_equal(real, rows[position : position + len(real)])
            assert (np.asarray(batch["input_ids"])[:, 0] == 2).all()  # filling is real rows, without weight
            seen += real.tolist()
        assert seen == rows.tolist()


def test_more_hosts_than_shards_is_no_matter(prepare_text, one_device):
    """cases D9: rows are read by number, not by file."""
    prepared = prepare_text(corpus(np.random.default_rng(0), 20), held_out=0.0)
    assert len(prepared.shards) == 1
    reader = storage.SplitReader(prepared, "train")
    parts = [
        loader_module._HostBatches(reader, lambda k, h=h: np.arange(4 * h, 4 * h + 4), 1, 306)[0]["input_ids"]
        for h in range(4)
    ]
    np.testing.assert_array_equal(np.concatenate(parts), reader.read(np.arange(16))["input_ids"])


def test_ids_outside_the_vocabulary_are_named(prepared, one_device, tmp_path):
    reader = storage.SplitReader(prepared, "train")
    ids = reader.read(np.arange(len(reader)))["input_ids"]
    message = r"record \d+ .example \d+.: id \d+ at token \d+ is outside the vocabulary of 200"
    with pytest.raises(UserError, match=message):
        next(Loader(prepared, 64, one_device, vocab_size=200))
    next(Loader(prepared, 64, one_device, vocab_size=int(ids.max()) + 1))

    columns = {name: values[:1].copy() for name, values in reader.read([0]).items()}
    columns["input_ids"] = columns["input_ids"].astype(np.int32)
    columns["input_ids"][0, 3] = -1
    negative = SimpleNamespace(read=lambda indices: columns, describe=lambda index: "shard, record 0")
    with pytest.raises(UserError, match=r"shard, record 0 .example 0.: id -1 at token 3"):
        loader_module._HostBatches(negative, lambda k: np.arange(1), 1, 306)[0]


def test_a_corrupt_shard_is_named_through_the_read_threads(prepare_text, one_device):
    prepared = prepare_text(corpus(np.random.default_rng(0), 40), held_out=0.0)
    path = prepared.path / prepared.shards[0].name
    content = bytearray(path.read_bytes())
    content[1000] ^= 1
    path.write_bytes(content)
    with pytest.raises(UserError, match=rf"{path.name}, record \d+: corrupt shard"):
        for batch, _ in eval_batches(prepared, 8, one_device, split="train"):
            jax.block_until_ready(batch)


def test_a_batch_that_the_devices_do_not_divide_is_refused(prepared):
    mesh = SimpleNamespace(shape={"data": 4, "fsdp": 2})
    sharding = SimpleNamespace(spec=PartitionSpec(("data", "fsdp")), mesh=mesh)
    with pytest.raises(UserError, match=r"batch_size: found 12, expected a multiple of 8 .devices: data=4 x fsdp=2."):
        local_rows(sharding, 12, [])
