"""Learning rates as functions of the number of optimizer updates made so far (never of microbatches).

A schedule takes the step as a Python int or NumPy array and answers in double precision, or as a JAX array (also
under jit) and answers in float32. Counts are subtracted as integers before they become floating point, so float32
stays accurate to a few units in the last place at any step below 2^31, also near the end of the decay.
"""

import difflib
import math
from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from bert_jax.errors import UserError

NAMES = ("warmup_linear", "linear", "cosine", "wsd", "constant")
LAST_STEP = 2**31 - 1  # steps are int32 on the device


@dataclass(frozen=True)
class ScheduleConfig:
    """A learning rate that warms up linearly to `peak` and then follows the schedule called `name`.

    - `warmup_linear`: google-research/bert's. Warms up as peak * step / W, then decays as 1 - step / N *measured from
      step 0*: with W 10,000 and N 1,000,000 it falls from 0.9999 of the peak at 9,999 to 0.99 at 10,000.
    - `linear`: from the peak at W down to the end at N.
    - `cosine`: half a cosine from the peak at W down to the end at N.
    - `wsd`: stays at the peak until the last `decay_steps`, which go down as `decay_shape`, `linear` or `1-sqrt`.
    - `constant`: stays at the peak.

    Step 0 of a warmup has rate 0. The end is `end_fraction` of the peak, and holds beyond `total_steps`.
    Raises UserError for an unknown name and for settings that contradict each other.
    """

    name: str
    peak: float
    warmup_steps: int
    total_steps: int
    end_fraction: float = 0.0
    decay_steps: int = 0
    decay_shape: str = "1-sqrt"

    def __post_init__(self):
        if self.name not in NAMES:
            nearest = difflib.get_close_matches(self.name, NAMES, n=1, cutoff=0.0)[0]
            raise UserError(f"schedule: found {self.name!r}, expected one of {', '.join(NAMES)} (nearest: {nearest})")
        if not (math.isfinite(self.peak) and self.peak >= 0):
            raise UserError(f"schedule peak: found {self.peak}, expected a learning rate of 0 or more")
        if not 0 <= self.end_fraction <= 1:
            raise UserError(f"schedule end_fraction: found {self.end_fraction}, expected 0 to 1 (of the peak)")
        self._check_steps()

    def _check_steps(self):
        for name, least in (("warmup_steps", 0), ("total_steps", 1), ("decay_steps", 0)):
            value = getattr(self, name)
            if not isinstance(value, int) or not least <= value <= LAST_STEP:
                raise UserError(f"schedule {name}: found {value}, expected a whole number from {least} to {LAST_STEP}")
        room = self.total_steps - self.warmup_steps
        if room < 0:
            raise UserError(f"schedule: found warmup_steps {self.warmup_steps} with total_steps {self.total_steps}")
        if self.name == "wsd" and not 1 <= self.decay_steps <= room:
            raise UserError(f"schedule decay_steps: found {self.decay_steps}, expected 1 to {room} (total - warmup)")
        if self.name != "wsd" and self.decay_steps:
            raise UserError(f"schedule decay_steps: found {self.decay_steps} with {self.name}; only wsd has them")
        if self.name == "constant" and self.end_fraction:
            raise UserError(f"schedule end_fraction: found {self.end_fraction} with constant, which does not end")
        if self.decay_shape not in ("linear", "1-sqrt"):
            raise UserError(f"schedule decay_shape: found {self.decay_shape!r}, expected linear or 1-sqrt")


def make_schedule(config: ScheduleConfig) -> Callable[[int | np.ndarray | jax.Array], float | np.ndarray | jax.Array]:
    """The schedule as a function from the number of optimizer updates already made to the learning rate."""

    def schedule(step):
        xp, real = (jnp, jnp.float32) if isinstance(step, jax.Array) else (np, np.float64)
        step = xp.asarray(step)
        height = _height(xp, real, config, step)
        rate = config.peak * (config.end_fraction + (1 - config.end_fraction) * height)
        if config.warmup_steps:
            rate = xp.where(step < config.warmup_steps, config.peak * (step.astype(real) / config.warmup_steps), rate)
        return rate if xp is jnp else rate[()]

    return schedule


def _height(xp, real, config, step):
    """How far above its end the decay stands, from 1 (the peak) to 0, in forms that do not cancel near the end."""
    if config.name == "constant":
        return xp.ones(step.shape, real)
    after_warmup = config.total_steps - config.warmup_steps
    spans = {"warmup_linear": config.total_steps, "linear": after_warmup, "cosine": after_warmup}
    span = spans.get(config.name, config.decay_steps)
    steps_left = config.total_steps - xp.minimum(step, config.total_steps)
    left = xp.minimum(steps_left.astype(real) / max(span, 1), 1)
    if config.name == "cosine":
        return xp.sin(math.pi / 2 * left) ** 2  # = (1 + cos(pi * done)) / 2
    if config.name == "wsd" and config.decay_shape == "1-sqrt":
        return left / (1 + xp.sqrt(1 - left))  # = 1 - sqrt(done)
    return left
