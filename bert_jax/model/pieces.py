"""Packed rows: what belongs to which piece.

`segment_ids_BxL` counts the pieces of a row: 0 at padding, 1 to S at the pieces, which are contiguous and in order.
Padding counts as a piece of its own here; nothing reads what is computed there.
"""

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Int


def same_piece(segment_ids_BxL: Int[ArrayLike, "B L"]) -> Bool[Array, "B L L"]:
    """Which token may attend to which: true within a piece."""
    return jnp.equal(segment_ids_BxL[:, :, None], segment_ids_BxL[:, None, :])


def piece_positions(segment_ids_BxL: Int[ArrayLike, "B L"]) -> Int[Array, "B L"]:
    """The place of each token within its piece, from 0."""
    place_L = jnp.arange(segment_ids_BxL.shape[1])
    before_BxL = jnp.pad(segment_ids_BxL[:, :-1], ((0, 0), (1, 0)), constant_values=-1)
    start_BxL = jnp.where(segment_ids_BxL != before_BxL, place_L, 0)
    return place_L - jax.lax.cummax(start_BxL, axis=1)


def piece_starts(segment_ids_BxL: Int[ArrayLike, "B L"], slots: int) -> tuple[Int[Array, "B S"], Bool[Array, "B S"]]:
    """(place of the first token of pieces 1 to `slots`, whether the row has that piece); 0 for one that it has not."""
    is_of_BxSxL = segment_ids_BxL[:, None, :] == jnp.arange(1, slots + 1)[:, None]
    return jnp.argmax(is_of_BxSxL, axis=2), jnp.any(is_of_BxSxL, axis=2)
