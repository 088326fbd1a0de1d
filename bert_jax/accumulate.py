"""Exact gradient accumulation: the gradient of the whole batch, at the memory of a microbatch."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from bert_jax.errors import UserError


def split_microbatches(batch, count: int):
    """Arrays [B, ...] as [count, B / count, ...], for `accumulate_gradients`.

    Microbatch m takes the rows m, m + count, ...: a batch sharded over its rows then stays where it is, whereas
    consecutive rows would have to move between devices. Raises UserError where count does not divide B.
    """

    def split(array):
        rows, *rest = array.shape
        if rows % count:
            raise UserError(f"accumulation: found {count} microbatches, expected a divisor of the batch of {rows} rows")
        return jnp.swapaxes(array.reshape(rows // count, count, *rest), 0, 1)

    return jax.tree.map(split, batch)


def accumulate_gradients(loss_fn: Callable, params, microbatches, totals):
    """The loss, the sums and the gradient of a whole batch, one microbatch at a time.

    `loss_fn(params, microbatch, totals) -> (contribution, sums)` gives what a microbatch adds to the loss of the whole
    batch, whose weights sum to `totals` (`losses.weight_totals`, `losses.contribution`), and any tree of sums. As every
    microbatch divides by the same totals, the result is the whole batch's, however the weights fall on the
    microbatches. `microbatches` is a tree of arrays [M, b, ...]. Loss, sums and gradients are added in float32.
    """

    def one(microbatch):
        (loss, sums), gradients = jax.value_and_grad(loss_fn, has_aux=True)(params, microbatch, totals)
        return jax.tree.map(lambda x: x.astype(jnp.float32), (loss, sums, gradients))

    first = jax.tree.map(lambda x: x[0], microbatches)
    if jax.tree.leaves(microbatches)[0].shape[0] == 1:
        return one(first)
    zeros = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), jax.eval_shape(one, first))
    added, _ = jax.lax.scan(lambda carry, m: (jax.tree.map(jnp.add, carry, one(m)), None), zeros, microbatches)
    return added
