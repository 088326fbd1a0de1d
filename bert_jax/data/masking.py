"""Dynamic masking for masked language modelling, on the device and of static shapes.

Shapes: B rows, L tokens a row, P predictions a row. Follows create_masked_lm_predictions of google-research/bert
(create_pretraining_data.py), with one deviation: random ids come from ordinary tokens, never from special ones.
"""

import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Int, Key, Shaped

from bert_jax.errors import UserError

DEFAULT_RATE = 0.15


@dataclass(frozen=True)
class MaskingConfig:
    """How much of a row is masked, and how. Raises UserError for settings that contradict each other.

    `max_predictions` caps the masked tokens of a row (see `max_predictions_for`) and is the P of every output.
    Of the masked tokens, `mask_share` become [MASK], `random_share` a random ordinary token, the rest stay.
    """

    max_predictions: int
    rate: float = DEFAULT_RATE
    mask_share: float = 0.8
    random_share: float = 0.1

    def __post_init__(self):
        if self.max_predictions < 1:
            raise UserError(f"max_predictions: found {self.max_predictions}, expected 1 or more")
        if not 0 < self.rate <= 1:
            raise UserError(f"masking rate: found {self.rate}, expected above 0 and at most 1")
        if min(self.mask_share, self.random_share) < 0 or self.mask_share + self.random_share > 1 + 1e-9:
            shares = f"{self.mask_share} and {self.random_share}"
            raise UserError(f"mask_share and random_share: found {shares}, expected shares that sum to at most 1")


def max_predictions_for(length: int, rate: float = DEFAULT_RATE) -> int:
    """The smallest cap that never binds in a row of `length` tokens: 20 at 128 and 77 at 512, as in the paper.

    It is ceil(rate * length); the count itself is rounded (19 in a full row of 128), so a slot may stay empty.
    """
    return max(1, math.ceil(round(rate * length, 6)))  # 0.07 * 100 is 7.000000000000001


def prediction_counts(config: MaskingConfig, length: int) -> np.ndarray:
    """How many tokens to mask, int32 [length + 1], by a row's number of real tokens ([CLS] and [SEP] included).

    A table made on the host, because the paper's rule rounds in double precision and half to even: float32 gives
    another count at 190, 350 and 390 tokens.
    """
    counts = [min(config.max_predictions, max(1, round(config.rate * n))) for n in range(length + 1)]
    return np.array([0, *counts[1:]], np.int32)


def cap_warning(config: MaskingConfig, length: int) -> str | None:
    """A line to show where `max_predictions` keeps full rows of `length` below the masking rate; else None."""
    if config.max_predictions >= round(config.rate * length):
        return None
    real = config.max_predictions / length
    return (
        f"max_predictions {config.max_predictions} at length {length} masks {real:.1%} of a full row, "
        f"not {config.rate:.1%}: max_predictions {max_predictions_for(length, config.rate)} would reach it"
    )


def mask_tokens(
    config: MaskingConfig,
    input_ids_BxL: Int[ArrayLike, "B L"],
    keys_B: Key[Array, " B"],
    *,
    pad_id: int,
    mask_id: int,
    special_ids: tuple[int, ...],
    ordinary_ids: np.ndarray,
) -> dict[str, Shaped[Array, "B _"]]:
    """Masks each row by its own key (`randomness.row_keys`); a pure function, to be called under jit.

    Special ids, which include [CLS], [SEP] and padding, are never masked; the random ids are drawn uniformly from
    `ordinary_ids`. [UNK] is masked in the paper: it is special only if the caller lists it.

    Returns `input_ids` int32 [B, L] with the masks in place, and for the predictions `positions` int32 [B, P],
    ascending, `labels` int32 [B, P], the original ids, and `weights` float32 [B, P], 1 or 0. Unused slots come last
    and hold 0 everywhere; a row with nothing to mask has only these. Raises UserError, while tracing, when P
    exceeds L, or for an empty list of ordinary ids.
    """
    length = input_ids_BxL.shape[1]
    if config.max_predictions > length:
        raise UserError(f"max_predictions: found {config.max_predictions}, expected at most the row length {length}")
    if len(ordinary_ids) == 0:
        raise UserError("ordinary_ids: found none, expected the vocabulary's ordinary tokens to draw random ids from")
    counts = prediction_counts(config, length)
    never_masked = np.array(sorted({pad_id, *special_ids}), np.int32)

    def mask_row(ids_L, key):
        # One draw for all: each use of a key costs the compiler as much as the rest of this function.
        place_L, outcome_L, id_L = jax.random.bits(key, (3, length), jnp.uint32)
        allowed_L = jnp.all(ids_L[:, None] != never_masked, axis=1)
        wanted = jnp.asarray(counts)[jnp.sum(ids_L != pad_id)]
        count = jnp.minimum(wanted, jnp.sum(allowed_L, dtype=jnp.int32))
        chosen_L, positions_P, used_P = _choose(place_L, allowed_L, count, config.max_predictions)
        outcome_L = (outcome_L >> 8).astype(jnp.float32) * 2.0**-24  # in [0, 1), exact on any hardware
        random_L = jnp.asarray(ordinary_ids, jnp.int32)[id_L % len(ordinary_ids)]  # uneven by 1 in 100,000 at most
        kept_or_random_L = jnp.where(outcome_L < config.mask_share + config.random_share, random_L, ids_L)
        masked_L = jnp.where(outcome_L < config.mask_share, mask_id, kept_or_random_L)
        return {
            "input_ids": jnp.where(chosen_L, masked_L, ids_L),
            "positions": positions_P,
            "labels": jnp.where(used_P, ids_L[positions_P], 0),
            "weights": used_P.astype(jnp.float32),
        }

    return jax.vmap(mask_row)(input_ids_BxL.astype(jnp.int32), keys_B)


def _choose(bits_L, allowed_L, count, max_predictions):
    """Draws `count` of the allowed places, without replacement, by random uint32 `bits_L`.

    Returns who was chosen [L], the positions [P] ascending then 0, and which of these are in use [P].

    The places are sorted by random numbers that carry their position in the low bits. So one sort of plain integers
    (5 times faster on a CPU than top_k, which has to carry indices) gives distinct numbers and the positions with
    them. Of equal random parts the lower position wins: at 512 tokens, with 22 random bits, a draw in 8,000.
    """
    length = allowed_L.shape[0]
    position_bits = (length - 1).bit_length()
    random_L = bits_L >> (1 + position_bits) << position_bits  # the top bit is for places not allowed
    score_L = jnp.where(allowed_L, random_L | jnp.arange(length, dtype=jnp.uint32), jnp.uint32(2**32 - 1))
    lowest_P = jnp.sort(score_L)[:max_predictions]
    used_P = jnp.arange(max_predictions) < count
    chosen_L = (score_L <= lowest_P[jnp.maximum(count - 1, 0)]) & (count > 0)
    position_P = jnp.where(used_P, lowest_P & (2**position_bits - 1), length).astype(jnp.int32)
    return chosen_L, jnp.where(used_P, jnp.sort(position_P), 0), used_P
