"""Best-fit packing: every piece in one row, no row over its size, and as tight as the same rule one piece at a time."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_jax.data.packing import best_fit


def best_fit_one_by_one(lengths, capacity):
    """How full each row is, by the textbook's rule."""
    rooms = []
    for length in sorted(lengths, reverse=True):
        fits = [room for room in rooms if room >= length]
        if fits:
            rooms.remove(min(fits))
            rooms.append(min(fits) - length)
        else:
            rooms.append(capacity - length)
    return sorted(capacity - room for room in rooms)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.integers(1, 40), max_size=80), st.integers(40, 100))
def test_rows_are_as_full_as_those_of_the_rule_one_piece_at_a_time(lengths, capacity):
    row = best_fit(lengths, capacity, most_pieces=capacity)
    assert len(row) == len(lengths)
    filled = np.bincount(row, lengths).astype(int)
    assert sorted(filled.tolist()) == best_fit_one_by_one(lengths, capacity)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(1, 64), max_size=200), st.integers(1, 20))
def test_no_row_holds_more_pieces_or_tokens_than_it_may(lengths, most_pieces):
    row = best_fit(lengths, 64, most_pieces)
    if lengths:
        assert np.bincount(row).max() <= most_pieces and np.bincount(row, lengths).max() <= 64
        assert set(row.tolist()) == set(range(row.max() + 1))


def test_a_piece_that_no_row_holds_is_refused():
    with pytest.raises(ValueError, match="a piece of 65 tokens for rows of 64"):
        best_fit([3, 65], 64, 8)


def test_a_million_pieces_are_packed_tightly():
    lengths = np.random.default_rng(0).integers(2, 513, 1_000_000)
    row = best_fit(lengths, 512, 32)
    assert lengths.sum() / (512 * (row.max() + 1)) > 0.99
