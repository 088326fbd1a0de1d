"""ConfigDict -> frozen dataclasses: the settings of a run, checked by name, type and against each other."""

import dataclasses
import difflib
import os
import re
import runpy
import traceback
import types
import typing

from absl import flags
from ml_collections import ConfigDict, config_flags

from bert_jax.data.masking import MaskingConfig
from bert_jax.errors import UserError
from bert_jax.model.presets import ComputeConfig, EncoderConfig
from bert_jax.optim import OptimizerConfig
from bert_jax.parallel import MeshConfig
from bert_jax.schedules import ScheduleConfig


@dataclasses.dataclass(frozen=True)
class PhaseConfig:
    """A stretch of the run with one data set, length and batch size."""

    data: str = ""  # folder that `bert-jax prepare` wrote, or several: DIR,weight=2.5;DIR,weight=0.8
    length: int = 128
    batch_size: int = 256  # sequences an optimizer update, over all devices and microbatches
    steps: int = 1_000_000  # optimizer updates
    masking: MaskingConfig = MaskingConfig(max_predictions=20)
    eval_masking: MaskingConfig = MaskingConfig(max_predictions=20)  # of the held-out text; losses compare at one rate
    accumulation: int = 1  # microbatches an update

    def __post_init__(self):
        for name in ("length", "batch_size", "steps", "accumulation"):
            if getattr(self, name) < 1:
                raise UserError(f"phase {name} is {getattr(self, name)}: expected 1 or more")
        for name in ("masking", "eval_masking"):
            most = getattr(self, name).max_predictions
            if most > self.length:
                raise UserError(f"phase {name}.max_predictions {most} is over length {self.length}")


@dataclasses.dataclass(frozen=True)
class PretrainConfig:
    """All settings of `bert-jax pretrain`."""

    seed: int = 0
    # A model whose weights the run starts from, a checkpoint of ours or a Hugging Face folder; '' draws them.
    init_from: str = ""
    platform: str = ""  # refuse to run on another kind of device than this: cpu, gpu or tpu
    model: EncoderConfig = EncoderConfig()
    compute: ComputeConfig = ComputeConfig()
    mesh: MeshConfig = MeshConfig()
    optimizer: OptimizerConfig = OptimizerConfig()
    schedule: ScheduleConfig = ScheduleConfig("warmup_linear", peak=1e-4, warmup_steps=10_000, total_steps=1_000_000)
    phases: tuple[PhaseConfig, ...] = (PhaseConfig(),)
    log_every: int = 100  # steps between lines of metrics
    eval_every: int = 10_000
    eval_examples: int = 0  # held-out examples to score, the first of the split; 0 scores all
    eval_batch_size: int = 256
    checkpoint_every: int = 10_000
    keep_checkpoints: int = 3  # the newest ones; the best by held-out loss is kept besides
    max_bad_steps: int = 10  # stop after so many non-finite steps in a row

    def __post_init__(self):
        if not self.phases:
            raise UserError("config.phases is empty: expected phase1")
        for name in (
            "log_every",
            "eval_every",
            "eval_batch_size",
            "checkpoint_every",
            "keep_checkpoints",
            "max_bad_steps",
        ):
            if getattr(self, name) < 1:
                raise UserError(f"config.{name} is {getattr(self, name)}: expected 1 or more")
        for number, phase in enumerate(self.phases, 1):
            if phase.length > self.model.max_positions:
                raise UserError(
                    f"config.phases.phase{number}.length {phase.length} is over "
                    f"config.model.max_positions {self.model.max_positions}"
                )
        if self.schedule.total_steps != self.total_steps:
            raise UserError(
                f"config.schedule.total_steps is {self.schedule.total_steps}, "
                f"but the phases have {self.total_steps} steps together"
            )
        if sum(phase.steps * phase.batch_size for phase in self.phases) >= 2**32:
            raise UserError("the phases read 2^32 examples or more: the example counter has 32 bits")

    @property
    def total_steps(self):
        return sum(phase.steps for phase in self.phases)


def to_config_dict(settings):
    """The dataclass as a ConfigDict; a tuple of phases becomes phase1, phase2, ..."""
    if isinstance(settings, tuple) and any(map(dataclasses.is_dataclass, settings)):
        return ConfigDict({f"phase{n}": to_config_dict(phase) for n, phase in enumerate(settings, 1)})
    if not dataclasses.is_dataclass(settings):
        return settings
    return ConfigDict({f.name: to_config_dict(getattr(settings, f.name)) for f in dataclasses.fields(settings)})


def from_mapping(cls, mapping, path="config"):
    """An instance of the dataclass `cls`; an unknown key or a value of another type is refused by name."""
    fields = {field.name: field for field in dataclasses.fields(cls)}
    for key in mapping:
        if key not in fields:
            raise UserError(unknown_key(f"{path}.{key}", [f"{path}.{name}" for name in fields]))
    hints = typing.get_type_hints(cls)
    return cls(**{key: _convert(hints[key], mapping[key], f"{path}.{key}") for key in mapping})


def unknown_key(name, known):
    near = difflib.get_close_matches(name, known, n=1, cutoff=0)
    return f"{name}: no such setting" + (f"; the nearest is {near[0]}" if near else "")


def _convert(kind, value, path):
    if dataclasses.is_dataclass(kind):
        return from_mapping(kind, value, path)
    if typing.get_origin(kind) is tuple and not dataclasses.is_dataclass(typing.get_args(kind)[0]):
        values = value if isinstance(value, (tuple, list)) else (value,)
        return tuple(_convert(typing.get_args(kind)[0], one, path) for one in values)
    if typing.get_origin(kind) is tuple:
        names = sorted(value, key=lambda name: int(re.sub(r"\D", "", name) or 0))
        if names != [f"phase{n}" for n in range(1, len(names) + 1)]:
            raise UserError(f"{path} has {', '.join(names) or 'nothing'}: expected phase1, phase2, ... without a gap")
        return tuple(_convert(typing.get_args(kind)[0], value[name], f"{path}.{name}") for name in names)
    kinds = typing.get_args(kind) if isinstance(kind, types.UnionType) else (kind,)
    if float in kinds and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        raise UserError(f"{path} is {value!r}: expected {' or '.join(k.__name__ for k in kinds)}")
    return value


def load(arguments, cls=PretrainConfig):
    """The settings that `--config=FILE[:ARG] --config.key=value ...` name, as an instance of `cls`."""
    files = [argument.removeprefix("--config=") for argument in arguments if argument.startswith("--config=")]
    if not files:
        raise UserError("no --config=FILE given (configs/ has one file a recipe)")
    overrides = [argument for argument in arguments if not argument.startswith("--config=")]
    settings = read_recipe(files[-1])
    _check_keys(settings, overrides)
    values, command = flags.FlagValues(), ["bert-jax", *overrides]
    config_flags.DEFINE_config_dict("config", settings, flag_values=values, sys_argv=command)
    try:
        rest = values(command)[1:]
    except (flags.Error, KeyError, TypeError, ValueError) as error:
        raise UserError(" ".join(str(error).split())) from error
    if rest:
        raise UserError(f"{rest[0]!r} is not understood: expected --config.key=value")
    return from_mapping(cls, values.config)


def read_recipe(name):
    """The ConfigDict of a recipe, FILE or FILE:ARG; UserError for whatever goes wrong in it."""
    path, _, arg = name.partition(":")
    if not os.path.isfile(path):
        raise UserError(f"--config={path}: no such file (configs/ has one file a recipe)")
    try:
        settings = runpy.run_path(path)["get_config"](arg)
    except UserError:
        raise
    except Exception as error:  # the recipe is its user's program: whatever it raises is theirs to mend
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
        place = f", line {lines[-1]}" if lines else ""
        reason = " ".join(str(error).split())
        raise UserError(f"--config={path}{place}: {type(error).__name__}: {reason}") from error
    if not isinstance(settings, ConfigDict):
        raise UserError(f"--config={path}: get_config returned {type(settings).__name__}, expected a ConfigDict")
    return settings


def _check_keys(settings, overrides):
    """Refuses an override of what is no setting, naming the nearest."""
    for override in overrides:
        name = override.split("=")[0]
        if not name.startswith("--config."):
            continue
        keys, node = name.split(".")[1:], settings
        for depth, key in enumerate(keys):
            if not isinstance(node, ConfigDict) or key not in node:
                inner = list(node) if isinstance(node, ConfigDict) else []
                known = [".".join(["--config", *keys[:depth], near, *keys[depth + 1 :]]) for near in inner]
                raise UserError(unknown_key(name, known))
            node = node[key]
