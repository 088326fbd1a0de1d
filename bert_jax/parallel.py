"""Devices: process start-up, the mesh, and where each parameter lives on it.

The mesh has three axes: `data` and `fsdp` split the batch, `fsdp` also splits parameters and optimizer state,
`tensor` splits attention heads and the feed-forward width. One CPU is the mesh 1 x 1 x 1.
"""

import ctypes
import dataclasses
import importlib.metadata
import importlib.util

import jax
import numpy as np
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from bert_jax import rules
from bert_jax.errors import UserError

AXES = ("data", "fsdp", "tensor")
BATCH_AXES = ("data", "fsdp")

# Heads are an axis of their own: splitting a fused head x size axis would split heads in the middle.
# Parameters under layers/ have a leading layer axis, which is never split.
SHARDING_RULES = [
    (r"(embeddings/word|mlm/decoder)/embedding", P(None, "fsdp")),
    (r"embeddings/(position|token_type)/embedding", P()),
    (r"layers/attention/(query|key|value)/kernel", P(None, "fsdp", "tensor", None)),
    (r"layers/attention/(query|key|value)/bias", P(None, "tensor", None)),
    (r"layers/attention/out/kernel", P(None, "tensor", None, "fsdp")),
    (r"layers/ffn/up/kernel", P(None, "fsdp", "tensor")),
    (r"layers/ffn/up/bias", P(None, "tensor")),
    (r"layers/ffn/down/kernel", P(None, "tensor", "fsdp")),
    (r"layers/(attention/out|ffn/down)/bias", P()),
    (r"(pooler/dense|mlm/transform)/kernel", P("fsdp", None)),
    (r"(nsp|task)/dense/kernel", P()),
    (r"(pooler/dense|nsp/dense|task/dense|mlm/transform)/bias|mlm/bias", P()),
    (r"(embeddings|layers/attention|layers/ffn|mlm)/norm/(scale|bias)", P()),
]


@dataclasses.dataclass(frozen=True)
class MeshConfig:
    """Devices along each axis; -1, at most once, stands for all that are left."""

    data: int = -1
    fsdp: int = 1
    tensor: int = 1


def start_processes(coordinator, processes, process):
    """Joins a run of several processes; nothing to do for one. Raises UserError for numbers that make no sense."""
    if processes < 1 or not 0 <= process < processes:
        raise UserError(f"--processes={processes} --process={process}: expected 1 or more, and one of 0 to N - 1")
    if processes == 1:
        return
    if not coordinator:
        raise UserError(f"--processes={processes} without --coordinator: expected --coordinator=HOST:PORT")
    jax.distributed.initialize(coordinator, processes, process)


# Of glibc's malloc.h, with the values that they get below: one heap for all threads, no block mapped apart, nothing
# returned to the system.
_M_ARENA_MAX, _M_MMAP_MAX, _M_TRIM_THRESHOLD = -8, -4, -1


def keep_freed_memory(platform):
    """Where CPUs are the only devices that JAX can find: freed memory stays with the process.

    XLA's buffers come from malloc there. glibc maps large ones and unmaps them when they are freed, and the system then
    clears each page again: a quarter of a small model's step. Other C libraries are left as they are. To be called
    when a process starts: threads keep the heap that they began with, and XLA's begin when a device is first used.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None and _only_cpus(platform or jax.config.jax_platforms):
        for name, value in ((_M_ARENA_MAX, 1), (_M_MMAP_MAX, 0), (_M_TRIM_THRESHOLD, 2**31 - 1)):
            mallopt(name, value)


def _only_cpus(platform):
    """Whether the kind of device that is asked for, or any that JAX has a plugin for here, can be nothing but a CPU."""
    if platform:
        return platform == "cpu"
    plugins = importlib.metadata.entry_points(group="jax_plugins")
    return not plugins and not any(map(importlib.util.find_spec, ("libtpu", "jax_plugins")))


def check_platform(platform):
    """Refuses another kind of device than the config asks for ('' takes any)."""
    try:
        found = jax.default_backend()
    except RuntimeError as error:  # JAX_PLATFORMS names one that is not there
        raise UserError(f"no devices: {' '.join(str(error).split())}") from error
    if platform and found != platform:
        raise UserError(f"config.platform is {platform!r}, but the devices here are {found!r}")


def make_mesh(config, devices=None):
    """The mesh of all devices in the shape that the config gives."""
    devices = jax.devices() if devices is None else devices
    shape = [getattr(config, axis) for axis in AXES]
    wanted = " x ".join(f"{axis} {size}" for axis, size in zip(AXES, shape, strict=True))
    if shape.count(-1) > 1 or any(size < 1 and size != -1 for size in shape):
        raise UserError(f"config.mesh is {wanted}: expected sizes of 1 or more, at most one of them -1 (all the rest)")
    fixed = int(np.prod([size for size in shape if size != -1]))
    if -1 in shape and len(devices) % fixed == 0:
        shape[shape.index(-1)] = len(devices) // fixed
    if int(np.prod(shape)) != len(devices):
        raise UserError(f"config.mesh is {wanted}, but there are {len(devices)} devices")
    return jax.make_mesh(tuple(shape), AXES, axis_types=(AxisType.Auto,) * len(AXES), devices=devices)


def batch_sharding(mesh):
    """Rows of the global batch over the data and fsdp axes."""
    return NamedSharding(mesh, P(BATCH_AXES))


def replicated(mesh):
    return NamedSharding(mesh, P())


def check_batch(name, batch_size, mesh, accumulation=1):
    """Refuses a batch that does not split evenly over microbatches and devices."""
    ways = mesh.shape["data"] * mesh.shape["fsdp"]
    if batch_size % (ways * accumulation):
        parts = f"{ways} devices along data x fsdp" + (f" x {accumulation} microbatches" if accumulation > 1 else "")
        raise UserError(f"{name} {batch_size} does not divide by {parts}")


def _check_divides(path, shape, spec, mesh):
    for size, axis in zip(shape, spec, strict=False):
        if axis is not None and size % mesh.shape[axis]:
            raise UserError(
                f"{path} {tuple(shape)}: its axis of {size} does not divide by the mesh's {axis} {mesh.shape[axis]}"
            )


def param_shardings(params, mesh):
    """A tree of NamedSharding like `params` (arrays or shapes), from SHARDING_RULES."""
    specs = rules.match(SHARDING_RULES, params)

    def sharding(path, leaf, spec):
        _check_divides(jax.tree_util.keystr(path, simple=True, separator="/"), leaf.shape, spec, mesh)
        return NamedSharding(mesh, spec)

    return jax.tree_util.tree_map_with_path(sharding, params, specs)


def state_shardings(state, mesh):
    """Shardings of the whole training state: an optimizer moment lives where its parameter does."""
    of_params = {
        path: sharding for path, sharding in jax.tree_util.tree_leaves_with_path(param_shardings(state["params"], mesh))
    }

    def sharding(path, leaf):
        for start in range(len(path)):
            if path[start:] in of_params:
                return of_params[path[start:]]
        return replicated(mesh)

    return jax.tree_util.tree_map_with_path(sharding, state)
