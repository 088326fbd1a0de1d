"""Optimizers over plain nested dicts of parameters, and which parameters decay.

An optimizer here gives the direction *without* the learning rate: new params = params - schedule(step) * updates. The
train step owns the rate, since a schedule counts optimizer updates, skipped bad ones included, and is no state.
"""

import difflib
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import optax

from bert_jax import rules
from bert_jax.errors import UserError

# google-research/bert leaves out of decay what is named LayerNorm, layer_norm or bias; embeddings are decayed.
DECAY_RULES = (
    (r"(.*/)?(kernel|embedding)", True),
    (r"(.*/)?(bias|scale)", False),
)
# A scanned model stacks its layers along a leading axis: one array there is many tensors to a per-layer optimizer.
STACKED_RULES = (
    (r"layers/.*", True),
    (r"(?!layers/).*", False),
)
NAMES = ("adamw", "lamb")


@dataclass(frozen=True)
class OptimizerConfig:
    """AdamW or LAMB. The defaults are google-research/bert's: clip, Adam without bias correction, decay.

    `eps` stands outside the square root. Bias correction is an option of its own because the paper's Adam has none:
    its first update is 3.16 times that of the corrected one, harmless under a warmup, harmful in fine-tuning.
    `clip_norm` bounds the global norm of the gradient; None turns clipping off.
    Raises UserError for an unknown name and for values out of range.
    """

    name: str = "adamw"
    b1: float = 0.9
    b2: float = 0.999
    eps: float = 1e-6
    bias_correction: bool = False
    weight_decay: float = 0.01
    clip_norm: float | None = 1.0

    def __post_init__(self):
        if self.name not in NAMES:
            nearest = difflib.get_close_matches(self.name, NAMES, n=1, cutoff=0.0)[0]
            raise UserError(f"optimizer: found {self.name!r}, expected one of {', '.join(NAMES)} (nearest: {nearest})")
        for name in ("b1", "b2"):
            if not 0 <= getattr(self, name) < 1:
                raise UserError(f"optimizer {name}: found {getattr(self, name)}, expected 0 or more and below 1")
        if not self.eps > 0:
            raise UserError(f"optimizer eps: found {self.eps}, expected above 0")
        if not self.weight_decay >= 0:
            raise UserError(f"optimizer weight_decay: found {self.weight_decay}, expected 0 or more")
        if self.clip_norm is not None and not self.clip_norm > 0:
            raise UserError(f"optimizer clip_norm: found {self.clip_norm}, expected above 0, or None for no clipping")


def make_optimizer(config: OptimizerConfig) -> optax.GradientTransformation:
    """Clip by global norm, Adam, + weight_decay * p, and for LAMB the trust ratio; times no learning rate.

    The state is a plain dict for any config: `count` (int32, updates made), `mu` and `nu` (trees like the parameters,
    float32). `update` needs the parameters. Source: optimization.py of google-research/bert, and for LAMB
    lamb_optimizer.py of google-research/albert.
    """
    scale_by_adam = optax.scale_by_adam if config.bias_correction else _scale_by_uncorrected_adam
    adam = scale_by_adam(config.b1, config.b2, config.eps)

    def init(params):
        return adam.init(_float32(params))._asdict()

    def update(gradients, state, params):
        updates = _float32(gradients)
        if config.clip_norm is not None:
            updates, _ = optax.clip_by_global_norm(config.clip_norm).update(updates, optax.EmptyState())
        updates, state = adam.update(updates, optax.ScaleByAdamState(**state))
        decayed = rules.match(DECAY_RULES, params, "weight decay")
        updates = jax.tree.map(lambda u, p, yes: u + config.weight_decay * p if yes else u, updates, params, decayed)
        if config.name == "lamb":
            stacked = rules.match(STACKED_RULES, params, "stacked layers")
            updates = jax.tree.map(_trust_ratio_scaled, updates, params, decayed, stacked)
        return updates, state._asdict()

    return optax.GradientTransformation(init, update)


def _float32(tree):
    return optax.tree.cast(tree, jnp.float32)


def _scale_by_uncorrected_adam(b1, b2, eps):
    """`optax.scale_by_adam` without its bias correction, for which optax has no switch; the state is the same."""

    def update(updates, state, params=None):
        mu = optax.tree.update_moment(updates, state.mu, b1, 1)
        nu = optax.tree.update_moment_per_elem_norm(updates, state.nu, b2, 2)
        updates = jax.tree.map(lambda m, v: m / (jnp.sqrt(v) + eps), mu, nu)
        return updates, optax.ScaleByAdamState(optax.safe_increment(state.count), mu, nu)

    return optax.GradientTransformation(optax.scale_by_adam(b1, b2, eps).init, update)


def _trust_ratio_scaled(update, param, adapted, stacked):
    """update * |param| / |update| with one pair of norms a tensor, or a layer of it; 1 where a norm is 0.

    LAMB's authors leave alone what is not decayed. Otherwise a bias, which starts at 0, would hardly ever move: its
    norm is the learning rate after one step, and the ratio with it.
    """
    if not adapted:
        return update
    axes = tuple(range(1 if stacked else 0, param.ndim))
    param_norm, update_norm = (jnp.sqrt(jnp.sum(x**2, axes, keepdims=True)) for x in (param, update))
    some = (param_norm > 0) & (update_norm > 0)
    return update * jnp.where(some, param_norm / jnp.where(some, update_norm, 1.0), 1.0)
