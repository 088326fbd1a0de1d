"""Random keys as a function of (seed, purpose, global example index), and of nothing else.

The global example index is the number of examples consumed before the batch plus the row within the global batch.
Each row has its own key, so what is drawn for it depends on neither the batch size, the number of devices or hosts,
nor how the batch is cut into microbatches; a later epoch has other indices, and so other draws.
"""

import enum

import jax
import jax.numpy as jnp

from bert_jax.errors import UserError

# Not the process-wide default: with 'rbg', draws under vmap depend on the size of the batch.
IMPLEMENTATION = "threefry2x32"


class Purpose(enum.IntEnum):
    """What a key is for. The numbers are part of every run's reproducibility: add, never renumber."""

    INITIALIZATION = 0
    TRAIN_MASKS = 1
    EVAL_MASKS = 2
    DROPOUT = 3


def purpose_key(seed: int, purpose: Purpose) -> jax.Array:
    """The scalar threefry key of one purpose. Raises UserError for a seed outside [0, 2^32)."""
    if not 0 <= seed < 2**32:
        raise UserError(f"seed: found {seed}, expected 0 to {2**32 - 1}")
    return jax.random.fold_in(jax.random.key(jnp.uint32(seed), impl=IMPLEMENTATION), int(purpose))


def row_keys(seed: int, purpose: Purpose, row_indices_B: jax.Array) -> jax.Array:
    """One threefry key [B] a row of the batch; `row_indices_B` holds the global example indices, uint32."""
    key = purpose_key(seed, purpose)
    return jax.vmap(lambda index: jax.random.fold_in(key, index))(jnp.asarray(row_indices_B, jnp.uint32))
