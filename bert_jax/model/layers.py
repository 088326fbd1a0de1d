"""What the modules are built from: initialised projections, norm, dropout, activation.

Letters in names: B batch, L length, D hidden, H heads, K head size, F feed-forward, V vocabulary, P predictions
a row, N layers, S pieces of a packed row.
"""

import functools

import jax
import jax.numpy as jnp
from flax import nnx
from jax.ad_checkpoint import checkpoint_name

DROPOUT_MASK = "dropout_mask"  # the name by which a checkpoint policy knows what dropout drew


def dtype_of(compute):
    return jnp.dtype(compute.dtype)


def _initializer(config):
    # Truncated at two standard deviations and not rescaled, as google-research/bert (modeling.py).
    return nnx.initializers.truncated_normal(config.init_std)


def linear(config, compute, inputs, outputs, *, axis=-1, rngs):
    """A projection over `axis` onto `outputs` (an int or a shape)."""
    return nnx.LinearGeneral(
        inputs, outputs, axis=axis, kernel_init=_initializer(config), dtype=dtype_of(compute), rngs=rngs
    )


def embed(config, rows, *, padded_rows=None, rngs):
    """A table of `rows` embeddings, then rows of 0 up to `padded_rows`, which change nothing of what is drawn."""

    def initialize(key, shape, dtype):
        table = _initializer(config)(key, (rows, config.hidden), dtype)
        return jnp.pad(table, ((0, shape[0] - rows), (0, 0)))

    return nnx.Embed(padded_rows or rows, config.hidden, embedding_init=initialize, rngs=rngs)


def layer_norm(config, compute, *, rngs):
    # The two-pass variance: the fast one (E[x^2] - E[x]^2) loses digits that the 1e-4 parity with transformers needs.
    return nnx.LayerNorm(
        config.hidden, epsilon=config.norm_eps, dtype=dtype_of(compute), use_fast_variance=False, rngs=rngs
    )


def activation(name):
    return {
        "gelu": functools.partial(jax.nn.gelu, approximate=False),
        "gelu_tanh": functools.partial(jax.nn.gelu, approximate=True),
        "relu": jax.nn.relu,
    }[name]


def dropout_keys(compute, key, shape):
    """An array of keys for `dropout`, of the generator that `compute` names, made from one threefry key.

    All are drawn at once: each use of threefry costs the compiler as much as a matrix product.
    """
    words = 4 if compute.dropout_generator == "rbg" else 2
    return jax.random.wrap_key_data(jax.random.bits(key, (*shape, words), jnp.uint32), impl=compute.dropout_generator)


def dropout(x, key, rate):
    """x with each element zeroed with probability `rate`, the others scaled; x itself without a key."""
    if key is None or rate == 0:
        return x
    keep = jax.random.bits(key, x.shape, jnp.uint32) >= jnp.uint32(round(rate * 2**32))
    keep = checkpoint_name(keep, DROPOUT_MASK)
    return jnp.where(keep, x / (1 - rate), 0).astype(x.dtype)
