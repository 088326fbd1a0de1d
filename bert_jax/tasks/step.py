"""The update of fine-tuning: a pure function of the state and a batch."""

import re

import jax
import jax.numpy as jnp
import numpy as np

from bert_jax import losses, rules
from bert_jax.errors import UserError
from bert_jax.model import encoder, heads
from bert_jax.model.task_heads import POOLED, init_head, task_outputs
from bert_jax.optim import make_optimizer
from bert_jax.randomness import Purpose, purpose_key
from bert_jax.step import update_state
from bert_jax.tasks.losses import task_sums

# Where a parameter stands in the model, for learning rates that fall from layer to layer.
DEPTH_RULES = (
    (r"embeddings/.*", "embeddings"),
    (r"layers/.*", "layers"),
    (r"(pooler|task)/.*", "head"),
)


def init_params(config, compute, head, params, seed, loss=None):
    """(parameters to start fine-tuning from, names of the parts drawn anew).

    The encoder's are those of `params`; where the head reads the pooler its too, or drawn if there is none. The
    projection of the task is always new; of an embed head only the EmbeddingLoss nli has one, over u, v and |u - v|.
    Pretraining heads are left out.
    """
    pooler_key, head_key = jax.random.split(purpose_key(seed, Purpose.INITIALIZATION))
    kept, drawn = {name: params[name] for name in ("embeddings", "layers")}, {}
    if head.outputs:
        drawn["task"] = init_head(config, compute, head.outputs, head_key)
    elif loss.kind == "nli":
        drawn["task"] = init_head(config, compute, loss.classes, head_key, inputs=3 * config.hidden)
    if head.kind in POOLED:
        if "pooler" in params:
            kept["pooler"] = params["pooler"]
        else:
            drawn["pooler"] = encoder.init_module(heads.Pooler, config, compute, pooler_key)
    return kept | drawn, list(drawn)


def init_state(config, params):
    """The state before the first update."""
    zero = jnp.zeros((), jnp.int32)
    opt_state = make_optimizer(config.optimizer).init(params)
    return {"step": zero, "examples": zero.astype(jnp.uint32), "params": params, "opt_state": opt_state}


def rate_factors(config, params):
    """A tree like `params` of what the learning rate is multiplied by: 0 for what is frozen, else by depth.

    Layer n of N, counted from 1, has decay^(N + 1 - n), the embeddings decay^(N + 1), the head 1 (Clark et al. 2020,
    ELECTRA). Raises UserError for more frozen layers than there are, and for a regex that matches nothing.
    """
    depths = rules.match(DEPTH_RULES, params, "layer decay")
    layers = jax.tree.leaves(params["layers"])[0].shape[0]
    if config.frozen_layers > layers:
        raise UserError(f"config.frozen_layers is {config.frozen_layers}, but the model has {layers} layers")
    names = rules.path_names(params)
    if config.frozen and not any(re.fullmatch(config.frozen, name) for name in names):
        raise UserError(f"config.frozen {config.frozen!r} matches no parameter; they are {', '.join(names)}")
    n = np.arange(1, layers + 1)
    of_layers = np.where(n > config.frozen_layers, config.layer_decay ** (layers + 1.0 - n), 0.0)
    of_embeddings = 0.0 if config.frozen_layers else config.layer_decay ** (layers + 1.0)

    def factor(name, depth, leaf):
        if config.frozen and re.fullmatch(config.frozen, name):
            return np.float32(0)
        if depth == "layers":
            return of_layers.reshape(-1, *[1] * (leaf.ndim - 1)).astype(np.float32)
        return np.float32(of_embeddings if depth == "embeddings" else 1)

    leaves, tree = jax.tree.flatten(params)
    factors = map(factor, names, jax.tree.leaves(depths), leaves)
    return jax.tree.unflatten(tree, factors)


def make_train_step(config, model, head, factors, loss=None):
    """The function (state, batch, rate, key) -> (state, metrics) of one update, to be jitted.

    batch: of batches.py. rate: the learning rate, key: the run's for dropout; both are given, so that one program
    serves all runs of a sweep. factors: of `rate_factors`; what is frozen counts in no gradient norm. loss: the
    EmbeddingLoss of an embed head.
    """
    optimizer = make_optimizer(config.optimizer)

    def train_step(state, batch, rate, key):
        dropout_key = jax.random.fold_in(key, state["examples"])

        def loss_fn(params):
            outputs = task_outputs(params, model, config.compute, head, batch, dropout_key)
            sums = task_sums(params, model, config.compute, head, loss, outputs, batch)
            return losses.contribution(sums, {"task_weight": sums["task_weight"]})

        value, gradients = jax.value_and_grad(loss_fn)(state["params"])
        gradients = jax.tree.map(lambda g, factor: jnp.where(factor > 0, g, 0.0), gradients, factors)
        count = jnp.sum(batch["row_weight"])
        state, metrics = update_state(optimizer, state, value, gradients, rate, count, factors)
        real = batch["mask"] if "mask" in batch else batch["piece_ids"] >= 0
        metrics |= {"loss": value, "real_tokens": jnp.sum(real, dtype=jnp.float32)}
        return state, jax.tree.map(jnp.float32, metrics)

    return train_step
