"""Which tokens of one row are masked together, and how places for them are drawn.

Everything here is of one row, to be called under vmap: L tokens, P predictions; bits are random uint32. Tables are made
on the host, so that no draw depends on the device's arithmetic.

What is slow on a TPU is avoided: loops over tokens (2 us a step), scatters, and gathers where there is another way. So
orders and places are found by sorting plain integers that carry their position in the low bits, which a CPU does
several times faster than a sort that has to move an index along.
"""

import jax
import jax.numpy as jnp
import numpy as np

ROUNDS = 5  # of fitting whole words into a budget (`take_words`)


def choose_in_row(bits_L, allowed_L, count, max_predictions):
    """Draws `count` of the allowed places, without replacement: the plain case, of single tokens in one piece.

    Returns who was chosen [L], the positions [P] ascending then 0, and which of these are in use [P].
    """
    length = len(allowed_L)
    score_L = _scores(bits_L, allowed_L)
    lowest_P = jnp.sort(score_L)[:max_predictions]
    used_P = jnp.arange(max_predictions) < count
    chosen_L = (score_L <= lowest_P[jnp.maximum(count - 1, 0)]) & (count > 0)
    position_P = jnp.where(used_P, _positions(lowest_P, length), length)
    return chosen_L, jnp.where(used_P, jnp.sort(position_P), 0), used_P


def positions_of(chosen_L, max_predictions):
    """The positions [P] of the chosen places, ascending then 0, and which of these are in use [P]."""
    length = len(chosen_L)
    position_P = jnp.sort(jnp.where(chosen_L, jnp.arange(length), length))[:max_predictions]
    return jnp.where(position_P < length, position_P, 0), position_P < length


def piece_begins(segment_ids_L):
    """Where a piece of a packed row begins, bool [L]: a run of equal segment ids; padding, id 0, is a run as well."""
    return jnp.concatenate([jnp.ones(1, bool), segment_ids_L[1:] != segment_ids_L[:-1]])


def piece_budgets(begins_piece_L, real_L, allowed_L, counts, max_predictions, bits):
    """How many tokens to mask in each piece, int32 [L], given at every token of the piece.

    It is counts[real tokens of the piece], and no more than may be masked there. Where the pieces want more than
    `max_predictions` in all, they get that many, each in proportion: the shares of the first 1, 2, 3, ... pieces
    are rounded together, so each is right to within one. The rounding starts at a place drawn from `bits`, a scalar
    (systematic sampling): the expected number of a piece is its exact share, wherever in the row it stands.
    """
    wanted_L = counts[_piece_sums(real_L, begins_piece_L)]
    wanted_L = jnp.minimum(wanted_L, _piece_sums(allowed_L, begins_piece_L)).astype(jnp.uint32)
    so_far_L = jnp.cumsum(jnp.where(begins_piece_L, wanted_L, 0), dtype=jnp.uint32)
    total = jnp.maximum(so_far_L[-1], 1)

    def rounded_share(amount_L):  # at most L * P: uint32 holds it up to rows of 65,535 tokens
        return (amount_L * jnp.uint32(max_predictions) + bits % total) // total

    shared_L = rounded_share(so_far_L) - rounded_share(so_far_L - wanted_L)
    return jnp.where(total > max_predictions, shared_L, wanted_L).astype(jnp.int32)


def stretch_begins(allowed_L, begins_piece_L):
    """Where no word or span can go on, bool [L]: at the start of a row or piece, and after what is never masked."""
    return begins_piece_L | jnp.concatenate([jnp.ones(1, bool), ~allowed_L[:-1]])


def span_thresholds(p, most):
    """What a random uint32 is compared with, uint32 [most - 1]: a span has 1 + (number of these reached) words.

    Lengths are geometric(p) over 1..most, renormalised, as SpanBERT does (pretraining/fairseq/data/masking.py): for
    0.2 and 10 the mean is 3.8 words.
    """
    cumulative = np.cumsum(p * (1 - p) ** np.arange(most))
    return np.minimum(np.round(cumulative[:-1] / cumulative[-1] * 2.0**32), 2**32 - 1).astype(np.uint32)


def span_begins(begins_word_L, begins_stretch_L, bits_L, thresholds):
    """Where a span begins, bool [L]: spans of random numbers of words laid end to end over the words of the row.

    A span that reaches the end of its stretch is cut there in two. Of spans that cover all words and are then chosen
    in random order none overlap, and words are masked about equally often: the last span chosen keeps its first words
    where the budget cuts it, so the first word of 126 is masked a tenth more often than the average, and of 510 no
    more. SpanBERT draws starting points instead: it has to reject or merge overlaps, and there the first word of a
    text is masked less than half as often as the others.
    """
    length = len(bits_L)
    words_L = 1 + jnp.sum(bits_L[:, None] >= thresholds, axis=1, dtype=jnp.int32)
    first_word_L = 1 + jnp.cumsum(words_L) - words_L  # of each span; words count from 1
    word_L = jnp.cumsum(begins_word_L, dtype=jnp.int32)  # of each token
    # Where is first_word in word, both ascending? Sorted together, it stands right before the word's first token.
    both = jnp.sort(jnp.concatenate([jnp.minimum(first_word_L, length + 1) << 1, word_L << 1 | 1]))
    found = jnp.concatenate([jnp.zeros(1, bool), both[1:] - both[:-1] == 1]) & (both & 1 == 1)
    tokens_first = jnp.where(both & 1 == 1, 0, 4 * length) + (jnp.arange(2 * length, dtype=jnp.int32) << 1 | found)
    found_L = (jnp.sort(tokens_first)[:length] & 1).astype(bool)
    return begins_word_L & (found_L | begins_stretch_L)


def carry_forward(values_L, begins_unit_L):
    """To each token the value of the token that begins its unit, uint32 [L]: its highest bits, for L tokens all but
    the lowest ceil(log2 L). 0 before the first unit."""
    low = _position_bits(len(values_L))
    position_L = jnp.arange(len(values_L), dtype=jnp.uint32) << (32 - low)
    return jax.lax.cummax(jnp.where(begins_unit_L, position_L | (values_L >> low), 0)) << low


def random_order(bits_L, allowed_L):
    """All positions, int32 [L]: the allowed ones sorted by their bits, then the others.

    Neighbours of equal bits, such as the tokens of a unit, stay together and in order.
    """
    return _positions(jnp.sort(_scores(bits_L, allowed_L)), len(bits_L))


def by_piece(order_L, allowed_L, begins_piece_L):
    """The positions of `order_L` piece after piece, in unchanged order within each, those not allowed last; and where
    in that order another piece begins, bool [L]."""
    length = len(order_L)
    piece_L = jnp.where(allowed_L, jnp.cumsum(begins_piece_L, dtype=jnp.uint32), length + 1)[order_L]
    key_L = jnp.sort((piece_L << _position_bits(length)) | jnp.arange(length, dtype=jnp.uint32))
    return order_L[_positions(key_L, length)], piece_begins(key_L >> _position_bits(length))


def word_sizes(begins_word_L, allowed_L):
    """How many tokens the word of each token has, int32 [L]; more than the row has where no word is."""
    length = len(allowed_L)
    position_L = jnp.arange(length, dtype=jnp.int32)
    first_L = jax.lax.cummax(jnp.where(begins_word_L, position_L, 0))
    ends_L = jnp.concatenate([(begins_word_L | ~allowed_L)[1:], jnp.ones(1, bool)])
    last_L = jax.lax.cummin(jnp.where(ends_L, position_L, length), reverse=True)
    return jnp.where(allowed_L, last_L - first_L + 1, length + 1)


def take_words(order_L, new_piece_L, size_L, begins_word_L, begins_unit_L, budget_L, unit):
    """Who is masked, bool [L]: whole words, of `word_sizes`, in the order given, up to the budget of their piece.

    A word that would exceed what is left of the budget is skipped, and the next one tried, as
    create_masked_lm_predictions of google-research/bert does for whole words. With a word its span ends: one that
    does not fit is cut after its last whole word that does. Where a piece has no word that fits, nothing is masked.
    `new_piece_L`, of `by_piece`, is None where the row is one piece.

    In place of a loop over words, rounds: each drops for good the words that can no longer fit once all have been
    taken up to the first that does not. The largest size that is left falls in every round: single tokens need none,
    text one to three. Where there are more sizes than rounds, some of the budget may stay unused: of sizes evenly 1
    to 30, in a row of 4,000.
    """
    columns = [column.astype(jnp.int32) for column in (size_L, budget_L, begins_word_L, begins_unit_L)]
    size_L, budget_L, begins_word_L, begins_unit_L = jnp.stack(columns)[:, order_L]  # one gather
    index_L = jnp.arange(len(order_L), dtype=jnp.int32)
    unit_start_L = jax.lax.cummax(jnp.where(begins_unit_L == 1, index_L, 0))

    def fill(alive_L):
        """What fits [L] when the words still alive are taken in order, and what that leaves of the budget [L]."""
        cost_L = jnp.where(alive_L, size_L * begins_word_L, 0)  # a word is paid for at its first token
        sum_L = jnp.cumsum(cost_L)
        if new_piece_L is None:
            fits_L = sum_L <= budget_L
            return fits_L, budget_L - jnp.max(jnp.where(fits_L, sum_L, 0))
        before_L = jax.lax.cummax(jnp.where(new_piece_L, sum_L - cost_L, 0))
        fits_L = sum_L - before_L <= budget_L
        spent_L = jnp.maximum(jax.lax.cummax(jnp.where(fits_L, sum_L, 0)), before_L) - before_L
        return fits_L, budget_L - spent_L

    def drop(_, alive_L):
        fits_L, left_L = fill(alive_L)
        hopeless_L = alive_L & ~fits_L & (size_L > left_L)
        if unit == "word":
            return alive_L & ~hopeless_L
        return alive_L & (jax.lax.cummax(jnp.where(hopeless_L, index_L, -1)) < unit_start_L)

    alive_L = size_L <= len(order_L)
    if unit != "token":
        alive_L = jax.lax.fori_loop(0, ROUNDS, drop, alive_L)
    taken_L = alive_L & fill(alive_L)[0]
    return (jnp.sort(order_L << 1 | taken_L) & 1).astype(bool)  # back in place


def _piece_sums(values_L, begins_piece_L):
    """How many of the booleans of each piece are true, int32 [L], given at every token of the piece."""
    so_far_L = jnp.cumsum(values_L, dtype=jnp.int32)
    before_L = jax.lax.cummax(jnp.where(begins_piece_L, so_far_L - values_L, 0))
    ends_L = jnp.concatenate([begins_piece_L[1:], jnp.ones(1, bool)])
    return jax.lax.cummin(jnp.where(ends_L, so_far_L, len(values_L)), reverse=True) - before_L


def _position_bits(length):
    return (length - 1).bit_length()


def _scores(bits_L, allowed_L):
    """Distinct uint32 [L] that sort the allowed places randomly before the others; the low bits are the position.

    Of equal random parts the lower position wins: at 512 tokens, with 22 random bits, a draw in 8,000.
    """
    position_bits = _position_bits(len(bits_L))
    random_L = bits_L >> (1 + position_bits) << position_bits
    return jnp.where(allowed_L, random_L, jnp.uint32(2**31)) | jnp.arange(len(bits_L), dtype=jnp.uint32)


def _positions(scores, length):
    return (scores & (2 ** _position_bits(length) - 1)).astype(jnp.int32)
