"""Dynamic masking for masked language modelling, on the device and of static shapes.

Shapes: B rows, L tokens a row, P predictions a row. Follows create_masked_lm_predictions of google-research/bert
(create_pretraining_data.py), with one deviation: random ids come from ordinary tokens, never from special ones.
What is masked at once, and how places are found for it, is in masking_units.py.
"""

import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Int, Key, Shaped

from bert_jax.data import masking_units as units
from bert_jax.errors import UserError

DEFAULT_RATE = 0.15
UNITS = ("token", "word", "span")
OUTCOMES = ("paper", "token", "unit")


@dataclass(frozen=True)
class MaskingConfig:
    """How much of a row is masked, and how. Raises UserError for settings that contradict each other.

    `max_predictions` caps the masked tokens of a row (see `max_predictions_for`) and is the P of every output.
    `rate`, of the real tokens, is 0 to 1; at 0 nothing is masked. Of the masked tokens, `mask_share` become [MASK],
    `random_share` a random ordinary token, the rest stay: 0.8 and 0.1 in BERT, 1 and 0 in NeoBERT.

    unit: what is masked wholly or not at all: a "token"; a "word"; or a "span" (SpanBERT, arXiv:1907.10529, section
    3.1) of 1 to `span_max` words, whose number is geometric(`span_p`), renormalised over that range.
    outcome: whether [MASK], random or kept is drawn for each "token" or for each "unit"; "paper" does what the
    reference code of that unit does: google-research/bert draws for each piece, of a whole word too, and SpanBERT
    once for a span.
    """

    max_predictions: int
    rate: float = DEFAULT_RATE
    mask_share: float = 0.8
    random_share: float = 0.1
    unit: str = "token"
    outcome: str = "paper"
    span_p: float = 0.2
    span_max: int = 10

    def __post_init__(self):
        if self.max_predictions < 1:
            raise UserError(f"max_predictions: found {self.max_predictions}, expected 1 or more")
        if not 0 <= self.rate <= 1:
            raise UserError(f"masking rate: found {self.rate}, expected 0 to 1")
        shares_fit = self.mask_share >= 0 and self.random_share >= 0 and self.mask_share + self.random_share <= 1 + 1e-9
        if not shares_fit:
            shares = f"{self.mask_share} and {self.random_share}"
            raise UserError(f"mask_share and random_share: found {shares}, expected shares that sum to at most 1")
        for name, known in (("unit", UNITS), ("outcome", OUTCOMES)):
            if getattr(self, name) not in known:
                raise UserError(f"masking {name}: found {getattr(self, name)!r}, expected one of {', '.join(known)}")
        if not 0 < self.span_p <= 1:
            raise UserError(f"masking span_p: found {self.span_p}, expected above 0 and at most 1")
        if self.span_max < 1:
            raise UserError(f"masking span_max: found {self.span_max}, expected 1 word or more")

    @property
    def one_outcome_a_unit(self) -> bool:
        """Whether the tokens of a unit are all [MASK], all random or all kept."""
        return self.outcome == "unit" or (self.outcome == "paper" and self.unit == "span")


def max_predictions_for(length: int, rate: float = DEFAULT_RATE, pieces: int = 1) -> int:
    """The smallest cap that never binds in a row of `length` tokens: 20 at 128 and 77 at 512, as in the paper.

    It is ceil(rate * length); the count itself is rounded (19 in a full row of 128), so a slot may stay empty.
    With `pieces` packed into the row, whatever their lengths, each beyond the first may need another
    max(1 - rate, 0.5) slots: its count is rounded up by at most a half, or lifted from rate to 1. Never above
    `length`. Raises UserError for a number of pieces below 1.
    """
    if pieces < 1:
        raise UserError(f"pieces of a row: found {pieces}, expected 1 or more")
    more = (pieces - 1) * max(1 - rate, 0.5) if rate else 0
    return max(1, min(length, math.ceil(round(rate * length + more, 6))))  # 0.07 * 100 is 7.000000000000001


def prediction_counts(config: MaskingConfig, length: int) -> np.ndarray:
    """How many tokens to mask, int32 [length + 1], by a row's number of real tokens ([CLS] and [SEP] included).

    A table made on the host, because the paper's rule rounds in double precision and half to even: float32 gives
    another count at 190, 350 and 390 tokens.
    """
    return np.minimum(_uncapped_counts(config.rate, length), np.int32(config.max_predictions))


def _uncapped_counts(rate, length):
    if rate == 0:
        return np.zeros(length + 1, np.int32)
    return np.array([0, *(max(1, round(rate * n)) for n in range(1, length + 1))], np.int32)


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
    word_starts: np.ndarray | None = None,
    segment_ids_BxL: Int[ArrayLike, "B L"] | None = None,
) -> dict[str, Shaped[Array, "B _"]]:
    """Masks each row by its own key (`randomness.row_keys`); a pure function, to be called under jit.

    Special ids, which include [CLS], [SEP] and padding, are never masked; the random ids are drawn uniformly from
    `ordinary_ids`. [UNK] is masked in the paper: it is special only if the caller lists it.

    word_starts: bool [vocabulary], `Tokenizer.is_word_start`; wanted for units of words. Whatever it says, a word also
    begins at the start of a row or piece and after a special token.
    segment_ids_BxL: the pieces of packed rows. A piece is a run of equal ids, and 0 is padding. The number to mask is
    then counted in each piece by its own length, and no word or span crosses into another. Where the pieces of a row
    want more than P in all, each gets its share of P by the number it wants, rounded up or down by the row's key so
    that no place in the row is favoured. A row that is one piece is masked as without segment ids. What is
    drawn for a piece depends on where in the row it stands (spans: and on how many words stand before it), and on
    the other pieces only where slots run out.

    Whole words and spans follow the budget of tokens: never more than it, and less where no word is left that fits
    (see `masking_units.take_words`).

    Returns `input_ids` int32 [B, L] with the masks in place, and for the predictions `positions` int32 [B, P],
    ascending, `labels` int32 [B, P], the original ids, and `weights` float32 [B, P], 1 or 0. Unused slots come last
    and hold 0 everywhere; a row with nothing to mask has only these. Raises UserError, while tracing, when P
    exceeds L, for an empty list of ordinary ids, and for a missing or unfitting table of word starts.
    """
    length = input_ids_BxL.shape[1]
    if config.max_predictions > length:
        raise UserError(f"max_predictions: found {config.max_predictions}, expected at most the row length {length}")
    if len(ordinary_ids) == 0:
        raise UserError("ordinary_ids: found none, expected the vocabulary's ordinary tokens to draw random ids from")
    if config.unit != "token":
        _check_word_starts(config.unit, word_starts, ordinary_ids)
    never_masked = np.array(sorted({pad_id, *special_ids}), np.int32)
    plain = config.unit == "token" and segment_ids_BxL is None

    def mask_row(ids_L, segment_ids_L, key):
        # One draw for all: each use of a key costs the compiler as much as the rest of this function.
        place_L, outcome_L, id_L, *more = jax.random.bits(key, (3 if plain else 5, length), jnp.uint32)
        real_L = ids_L != pad_id if segment_ids_L is None else (ids_L != pad_id) & (segment_ids_L != 0)
        allowed_L = real_L & jnp.all(ids_L[:, None] != never_masked, axis=1)
        if plain:
            count = _row_budget(config, real_L, allowed_L)
            chosen_L, positions_P, used_P = units.choose_in_row(place_L, allowed_L, count, config.max_predictions)
        else:
            starts_word_L = None if config.unit == "token" else jnp.asarray(word_starts)[ids_L]
            begins_unit_L, chosen_L = _choose(config, real_L, allowed_L, segment_ids_L, starts_word_L, place_L, *more)
            positions_P, used_P = units.positions_of(chosen_L, config.max_predictions)
            if config.one_outcome_a_unit:
                outcome_L = units.carry_forward(outcome_L, begins_unit_L)
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

    # vmap passes a None on as it is.
    return jax.vmap(mask_row)(input_ids_BxL.astype(jnp.int32), segment_ids_BxL, keys_B)


def _row_budget(config, real_L, allowed_L):
    """How many tokens of a row that is one piece to mask."""
    counts = jnp.asarray(prediction_counts(config, len(real_L)))
    return jnp.minimum(counts[jnp.sum(real_L)], jnp.sum(allowed_L, dtype=jnp.int32))


def _choose(config, real_L, allowed_L, segment_ids_L, starts_word_L, place_L, words_L, share_L):
    """Where the units of a row begin and who is masked, bool [L] both; the last three are random bits [L]."""
    length = len(real_L)
    if segment_ids_L is None:
        begins_piece_L = jnp.arange(length) == 0
        budget_L = jnp.full(length, _row_budget(config, real_L, allowed_L))
    else:
        begins_piece_L = units.piece_begins(segment_ids_L)
        counts = jnp.asarray(_uncapped_counts(config.rate, length))
        most = config.max_predictions
        budget_L = units.piece_budgets(begins_piece_L, real_L, allowed_L, counts, most, share_L[0])
    begins_word_L = begins_unit_L = allowed_L
    size_L = jnp.where(allowed_L, 1, length + 1)
    if config.unit != "token":
        begins_stretch_L = units.stretch_begins(allowed_L, begins_piece_L)
        begins_word_L = begins_unit_L = allowed_L & (starts_word_L | begins_stretch_L)
        size_L = units.word_sizes(begins_word_L, allowed_L)
        if config.unit == "span":
            thresholds = units.span_thresholds(config.span_p, config.span_max)
            begins_unit_L = units.span_begins(begins_word_L, begins_stretch_L, words_L, thresholds)
        place_L = units.carry_forward(place_L, begins_unit_L)
    order_L, new_piece_L = units.random_order(place_L, allowed_L), None
    if segment_ids_L is not None:
        order_L, new_piece_L = units.by_piece(order_L, allowed_L, begins_piece_L)
    chosen_L = units.take_words(order_L, new_piece_L, size_L, begins_word_L, begins_unit_L, budget_L, config.unit)
    return begins_unit_L, chosen_L


def _check_word_starts(unit, word_starts, ordinary_ids):
    if word_starts is None:
        raise UserError(
            f"masking unit {unit!r}: found a tokenizer that cannot tell where words start (no word_starts), "
            "expected one whose pieces show it (WordPiece, SentencePiece, byte-level BPE), or unit 'token'"
        )
    table, least = np.asarray(word_starts), int(np.max(ordinary_ids)) + 1
    if table.dtype != bool or table.ndim != 1 or len(table) < least:
        found = f"{table.dtype} of shape {table.shape}"
        raise UserError(f"word_starts: found {found}, expected bool, one for each of the {least} ids or more")
