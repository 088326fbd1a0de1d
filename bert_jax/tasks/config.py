"""The settings of `bert-jax finetune`."""

import dataclasses
import math
import re

from bert_jax.errors import UserError
from bert_jax.model.presets import ComputeConfig
from bert_jax.optim import OptimizerConfig
from bert_jax.parallel import MeshConfig
from bert_jax.schedules import ScheduleConfig
from bert_jax.tasks.task import TaskConfig


@dataclasses.dataclass(frozen=True)
class SweepConfig:
    """What `--sweep` tries: each combination, one run after the other. An empty tuple is the setting of the recipe."""

    learning_rates: tuple[float, ...] = ()
    epochs: tuple[int, ...] = ()
    seeds: tuple[int, ...] = ()
    train_examples: tuple[int, ...] = ()


@dataclasses.dataclass(frozen=True)
class FinetuneConfig:
    """All settings of `bert-jax finetune`; the defaults are the paper's recipe (Devlin et al. 2019, appendix A.3)."""

    task: TaskConfig = TaskConfig()
    seed: int = 0  # of the new head, the order of examples and dropout
    platform: str = ""  # refuse to run on another kind of device than this: cpu, gpu or tpu
    compute: ComputeConfig = ComputeConfig()
    mesh: MeshConfig = MeshConfig()
    # Without bias correction, as in the paper's own optimizer, small data sets often end degenerate (Mosbach et al.
    # 2021, "On the Stability of Fine-tuning BERT").
    optimizer: OptimizerConfig = OptimizerConfig(bias_correction=True)
    learning_rate: float = 5e-5  # at the peak
    schedule: str = "linear"
    warmup: float = 0.1  # of all updates
    epochs: int = 3
    batch_size: int = 32  # examples an update, over all devices
    eval_batch_size: int = 64
    length: int = 128  # tokens of a row at most
    dropout: float = -1.0  # in training, everywhere; -1 keeps the model's own rates
    layer_decay: float = 1.0  # the rate of each layer over that of the layer above it
    frozen_layers: int = 0  # so many layers from below, and the embeddings, stay as they are
    frozen: str = ""  # a regex over parameter paths; what it matches whole stays as it is
    train_examples: int = 0  # the first so many of a seeded order; 0 takes all
    evals_per_epoch: int = 1  # also how often a checkpoint is saved
    log_every: int = 50  # updates between lines of metrics
    max_bad_steps: int = 10  # stop after so many non-finite steps in a row
    sweep: SweepConfig = SweepConfig()

    def __post_init__(self):
        for name in ("epochs", "batch_size", "eval_batch_size", "length", "evals_per_epoch", "log_every"):
            if getattr(self, name) < 1:
                raise UserError(f"config.{name} is {getattr(self, name)}: expected 1 or more")
        for name in ("frozen_layers", "train_examples"):
            if getattr(self, name) < 0:
                raise UserError(f"config.{name} is {getattr(self, name)}: expected 0 or more")
        for name in ("warmup", "layer_decay"):
            if not 0 <= getattr(self, name) <= 1:
                raise UserError(f"config.{name} is {getattr(self, name)}: expected 0 to 1")
        if self.dropout != -1 and not 0 <= self.dropout < 1:
            raise UserError(f"config.dropout is {self.dropout}: expected 0 or more and less than 1, or -1")
        try:
            re.compile(self.frozen)
        except re.error as error:
            raise UserError(f"config.frozen {self.frozen!r} is no regular expression: {error}") from error

    def total_steps(self, examples):
        """Updates of the whole run over so many training examples; the last one of each epoch may have fewer."""
        return self.epochs * math.ceil(examples / self.batch_size)

    def schedule_of(self, examples):
        """The ScheduleConfig of that run."""
        total = self.total_steps(examples)
        return ScheduleConfig(self.schedule, self.learning_rate, int(self.warmup * total), total)
