"""The mesh and where things live on it. What eight devices compute is shown in e2e/test_processes.py."""

import ctypes
import importlib.metadata
import importlib.util
import subprocess
import sys
import types

import jax
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

from bert_jax import parallel
from bert_jax import step as steps
from bert_jax.config import PretrainConfig
from bert_jax.errors import UserError
from bert_jax.parallel import AXES, MeshConfig
from bert_jax.rules import path_names
from tests.e2e.conftest import REPOSITORY

EIGHT = np.array([types.SimpleNamespace(id=n) for n in range(8)])


@pytest.fixture
def eight_devices(monkeypatch):
    """make_mesh without devices: the shape that it asks jax for."""

    def mesh_of(shape, axes, axis_types, devices):
        assert len(set(axis_types)) == 1 and axis_types[0] == jax.sharding.AxisType.Auto
        return jax.sharding.AbstractMesh(shape, axes, axis_types=axis_types)

    monkeypatch.setattr(jax, "make_mesh", mesh_of)
    return lambda **sizes: parallel.make_mesh(MeshConfig(**sizes), EIGHT)


@pytest.mark.parametrize(
    ("sizes", "shape"),
    [
        ({}, (8, 1, 1)),
        ({"data": 2, "fsdp": 2, "tensor": 2}, (2, 2, 2)),
        ({"fsdp": 4}, (2, 4, 1)),
        ({"data": 1, "fsdp": -1, "tensor": 2}, (1, 4, 2)),
    ],
)
def test_a_mesh_takes_all_devices(eight_devices, sizes, shape):
    assert tuple(eight_devices(**sizes).shape[axis] for axis in AXES) == shape


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ({"data": 3}, "data 3 x fsdp 1 x tensor 1, but there are 8 devices"),
        ({"tensor": 3}, "data -1 x fsdp 1 x tensor 3, but there are 8 devices"),
        ({"data": 16}, "there are 8 devices"),
        ({"fsdp": 0}, "expected sizes of 1 or more"),
        ({"fsdp": -1}, "at most one of them -1"),
        ({"data": -2}, "expected sizes of 1 or more"),
    ],
)
def test_a_mesh_that_the_devices_do_not_fill(eight_devices, sizes, words):
    with pytest.raises(UserError, match=words):
        eight_devices(**sizes)


def test_every_parameter_and_moment_has_a_place(eight_devices):
    """Moments lie where their parameter does; scalars on all devices; what is split is split by the mesh."""
    config, mesh = PretrainConfig(), eight_devices(data=2, fsdp=2, tensor=2)
    state = jax.eval_shape(lambda: steps.init_state(config))
    shardings = parallel.state_shardings(state, mesh)
    params = dict(zip(path_names(state["params"]), jax.tree.leaves(shardings["params"]), strict=True))
    assert params["layers/attention/query/kernel"].spec == P(None, "fsdp", "tensor", None)
    assert params["embeddings/position/embedding"].spec == P()
    for moment in ("mu", "nu"):
        assert jax.tree.leaves(shardings["opt_state"][moment]) == list(params.values())
    for scalar in (shardings["step"], shardings["examples"], shardings["opt_state"]["count"]):
        assert scalar.spec == P()
    sizes = {path: leaf.size for path, leaf in zip(params, jax.tree.leaves(state["params"]), strict=True)}
    split = sum(size for path, size in sizes.items() if any(params[path].spec))
    assert split / sum(sizes.values()) > 0.98, "next to nothing of BERT-base is held whole by each device"


def test_a_mesh_that_does_not_divide_the_model_is_refused(eight_devices):
    params = jax.eval_shape(lambda: steps.init_state(PretrainConfig()))["params"]
    with pytest.raises(UserError, match=r"layers/attention/key/.* axis of 12 does not divide by the mesh's tensor 8"):
        parallel.param_shardings(params, eight_devices(tensor=8))


def test_batches_divide_by_the_devices_and_the_microbatches(eight_devices):
    mesh = eight_devices(data=2, fsdp=2, tensor=2)
    parallel.check_batch("batch_size", 8, mesh, accumulation=2)
    with pytest.raises(UserError, match=r"batch_size 6 does not divide by 4 devices along data x fsdp$"):
        parallel.check_batch("batch_size", 6, mesh)
    with pytest.raises(UserError, match=r"batch_size 12 does not divide by 4 devices .* x 2 microbatches"):
        parallel.check_batch("batch_size", 12, mesh, accumulation=2)
    assert parallel.batch_sharding(mesh).spec == P(("data", "fsdp"))


def test_a_platform_that_is_not_there_is_refused():
    """Case G1: a CPU run is never a silent stand-in."""
    parallel.check_platform("")
    parallel.check_platform("cpu")
    with pytest.raises(UserError, match=r"config.platform is 'tpu', but the devices here are 'cpu'"):
        parallel.check_platform("tpu")


def test_a_platform_that_jax_cannot_start_is_one_line(monkeypatch):
    def fail():
        raise RuntimeError("Unable to initialize backend 'tpu':\n  no device")

    monkeypatch.setattr(jax, "default_backend", fail)
    with pytest.raises(UserError, match="no devices: Unable to initialize backend 'tpu': no device"):
        parallel.check_platform("tpu")


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        ((None, 2, 0), "without --coordinator"),
        (("localhost:1", 2, 2), "--process=2"),
        (("localhost:1", 2, -1), "--process=-1"),
        ((None, 0, 0), "--processes=0"),
        ((None, 1, 1), "--process=1"),
    ],
)
def test_process_numbers_that_make_no_sense(numbers, words):
    with pytest.raises(UserError, match=words):
        parallel.start_processes(*numbers)


def test_one_process_joins_nothing():
    """Case D13: no distributed runtime is started or needed."""
    parallel.start_processes(None, 1, 0)
    assert jax.process_count() == 1


PAGE_FAULTS = """
import resource, sys, jax
from bert_jax import parallel

if "keep" in sys.argv:
    parallel.keep_freed_memory("cpu")
double = jax.jit(lambda x: 2 * x)
x = jax.numpy.ones((10, 1 << 20))
for _ in range(10):
    double(x).block_until_ready()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    double(x).block_until_ready()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="the C library is not glibc")
def test_freed_memory_is_used_again_on_a_cpu():
    returned, kept = (
        int(subprocess.run([sys.executable, "-c", PAGE_FAULTS, word], capture_output=True, check=True).stdout)
        for word in ("return", "keep")
    )
    assert kept < returned / 2


def test_memory_is_kept_only_where_there_is_nothing_but_cpus(monkeypatch):
    called = []
    monkeypatch.setattr(ctypes, "CDLL", lambda name: types.SimpleNamespace(mallopt=lambda *what: called.append(what)))

    def calls(platform="", platforms=None, plugins=(), modules=()):
        called.clear()
        with monkeypatch.context() as patch:
            patch.setattr(jax, "config", types.SimpleNamespace(jax_platforms=platforms))
            patch.setattr(importlib.metadata, "entry_points", lambda group: plugins)
            patch.setattr(importlib.util, "find_spec", lambda name: name if name in modules else None)
            parallel.keep_freed_memory(platform)
        return len(called)

    assert calls() == calls("cpu") == calls("cpu", modules=["libtpu"]) == calls(platforms="cpu", plugins=["cuda"]) == 3
    assert calls("tpu") == calls(platforms="tpu,cpu") == calls(plugins=["cuda"]) == calls(modules=["libtpu"]) == 0


BEFORE_DEVICES = """
import sys
from jax._src import xla_bridge
from bert_jax import __main__, parallel, quickstart

parallel.keep_freed_memory = lambda platform: print("devices used:", xla_bridge.backends_are_initialized())
verb, *arguments = sys.argv[1:]
sys.argv = ["quickstart", *arguments]
quickstart.main() if verb == "quickstart" else __main__.main([verb, *arguments])
"""


@pytest.mark.parametrize(
    "arguments",
    [
        ["pretrain", "--config=configs/bert_tiny.py:debug", "--config.platform=tpu", "--workdir={folder}"],
        ["quickstart", "--corpus={folder}/missing", "--workdir={folder}/run"],
    ],
)
def test_memory_is_kept_from_the_start_of_a_process(arguments, tmp_path):
    """Once devices have been used, or a vocabulary been trained, it is too late. Both calls here end in a UserError."""
    arguments = [argument.format(folder=tmp_path) for argument in arguments]
    done = subprocess.run(
        [sys.executable, "-c", BEFORE_DEVICES, *arguments], capture_output=True, text=True, check=True, cwd=REPOSITORY
    )
    assert done.stdout.splitlines() == ["devices used: False"] and done.stderr
