"""Masking of packed rows: each piece by its own length, and a fair share of the slots where they run out."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from bert_jax.data.masking import MaskingConfig, max_predictions_for
from bert_jax.errors import UserError
from tests.data.masking_rows import (
    CLS,
    PAD,
    SPECIAL,
    assert_consistent,
    chosen_of,
    full_rows,
    mask,
    packed_row,
    words_of,
)

LENGTH = 64
UNITS = ("token", "word", "span")


def wanted(tokens, rate=0.15):
    return max(1, round(rate * tokens))


def many(lengths, rows, continues=0.3, padded_length=LENGTH, seed=0):
    random = np.random.default_rng(seed)
    packed = [packed_row(random, lengths, padded_length, continues) for _ in range(rows)]
    return tuple(np.array(part) for part in zip(*packed, strict=True))


@pytest.mark.parametrize("unit", UNITS)
def test_each_piece_has_its_own_number(unit):
    """Case B15: of ten tokens two are masked, in each of the six; of single tokens exactly, of words at most."""
    ids, segments = many([10] * 6, 500)
    masked = mask(ids, MaskingConfig(16, unit=unit), segments)
    assert_consistent(ids, masked)
    chosen = chosen_of(masked)
    counts = np.array([(chosen & (segments == piece)).sum(1) for piece in range(1, 7)])
    assert counts.max() == 2 and not chosen[segments == 0].any()
    if unit == "token":
        assert counts.min() == 2
    for row_ids, row_segments, row_chosen in zip(ids, segments, chosen, strict=True):
        for word in words_of(row_ids, row_segments) if unit == "word" else []:
            left = 2 - row_chosen[row_segments == row_segments[word[0]]].sum()
            assert row_chosen[word].all() or len(word) > left, "no word that still fits is left"


def test_twelve_short_documents_have_a_mask_each():
    """Case B15 as reported: by the row's length alone some would have none."""
    ids, segments = many([10] * 12, 500, padded_length=128)
    chosen = chosen_of(mask(ids, MaskingConfig(max_predictions_for(128, pieces=12)), segments))
    assert all(((chosen & (segments == piece)).sum(1) == wanted(10)).all() for piece in range(1, 13))


@pytest.mark.parametrize("unit", UNITS)
def test_one_piece_is_masked_as_a_row_without_segments(unit):
    ids = full_rows(300, LENGTH, continues=0.3)
    ids[:100, 40:] = PAD
    config = MaskingConfig(10, unit=unit)
    plain, packed = mask(ids, config), mask(ids, config, (ids != PAD) * 7)
    for name, array in plain.items():
        np.testing.assert_array_equal(packed[name], array)


@pytest.mark.parametrize("unit", UNITS)
def test_a_piece_does_not_feel_the_text_of_its_neighbour(unit):
    """The same key, another text of the same length next to it; for spans also of as many words before it."""
    random = np.random.default_rng(1)
    ids, segments = many([20, 30], 300, seed=2)
    other, _ = many([20, 30], 300, seed=3)
    for piece in (1, 2):
        changed = np.where(segments == piece, ids, other)
        if unit == "span" and piece == 2:
            inside = ids[:, 1:19]  # other ids, that start or continue words as before
            changed[:, 1:19] = inside // 500 * 500 + random.integers(0, 500, inside.shape)
            changed[:, [0, 19]] = ids[:, [0, 19]]
            assert [words_of(row) for row in ids] == [words_of(row) for row in changed]
        config = MaskingConfig(max_predictions_for(LENGTH, pieces=2), unit=unit)
        mine, theirs = (chosen_of(mask(rows, config, segments)) for rows in (ids, changed))
        np.testing.assert_array_equal(mine[segments == piece], theirs[segments == piece])
        assert (ids != changed).any(1).all()


@pytest.mark.parametrize("unit", UNITS)
def test_a_word_never_crosses_into_another_piece(unit):
    """Without [CLS] and [SEP] between them, and the second piece beginning with a token that continues a word."""
    random = np.random.default_rng(4)
    segments = np.tile(np.repeat([1, 2, 3, 0], [20, 11, 23, 10]), (3000, 1))
    ids = np.where(segments == 0, PAD, random.choice([1001, 1600, 1601], segments.shape))
    chosen = chosen_of(mask(ids, MaskingConfig(30, rate=0.4, unit=unit), segments))
    for row_ids, row_segments, row_chosen in zip(ids, segments, chosen, strict=True):
        for piece, length in ((1, 20), (2, 11), (3, 23)):
            assert row_chosen[row_segments == piece].sum() <= wanted(length, 0.4)
        if unit != "token":
            assert all(len(set(row_chosen[word].tolist())) == 1 for word in words_of(row_ids, row_segments))
    counts = chosen.sum(0)
    assert counts[segments[0] == 0].sum() == 0 and (counts[segments[0] > 0] > 0).all()


def test_positions_within_a_piece_are_uniform():
    ids, segments = many([24, 40], 20_000, continues=0)
    counts = chosen_of(mask(ids, MaskingConfig(10), segments)).sum(0)
    for first, last, length in ((1, 22, 24), (25, 62, 40)):
        places, masked = last - first + 1, wanted(length)
        expected = 20_000 * masked / places
        observed = counts[first : last + 1]
        assert observed.sum() == 20_000 * masked
        statistic = ((observed - expected) ** 2).sum() / expected / ((places - masked) / (places - 1))
        assert 0.001 < stats.chi2.sf(statistic, places - 1) < 0.999


def test_where_slots_run_out_each_piece_has_its_share_wherever_it_stands():
    """Pieces of 10, 10, 20, 24 tokens want 2, 2, 3, 4; there are 5 slots: 10/11, 10/11, 15/11 and 20/11 on average."""
    ids, segments = many([10, 10, 20, 24], 20_000)
    masked = mask(ids, MaskingConfig(5), segments)
    assert (masked["weights"] == 1).all(), "every slot is used"
    chosen = chosen_of(masked)
    for piece, wants in enumerate((2, 2, 3, 4), 1):
        counts = (chosen & (segments == piece)).sum(1)
        share = 5 * wants / 11
        assert set(np.unique(counts)) <= {int(share), int(share) + 1}, "right to within one in every row"
        assert stats.binomtest(int((counts > share).sum()), 20_000, share % 1).pvalue > 0.001


@pytest.mark.parametrize("unit", UNITS)
def test_fewer_slots_than_pieces_are_drawn_evenly(unit):
    ids, segments = many([8] * 8, 8000, continues=0)
    chosen = chosen_of(mask(ids, MaskingConfig(3, unit=unit), segments))
    hits = np.array([(chosen & (segments == piece)).any(1).sum() for piece in range(1, 9)])
    assert hits.sum() == 8000 * 3
    assert all(stats.binomtest(int(count), 8000, 3 / 8).pvalue > 0.0005 for count in hits)


def test_padding_and_rows_of_padding_hold_no_piece():
    ids, segments = many([10, 30], 10)
    segments[0], ids[1], segments[1] = 0, PAD, 0
    segments[2] = 1  # the padding told to be of a piece: it counts for nothing all the same
    for unit in UNITS:
        masked = mask(ids, MaskingConfig(10, unit=unit), segments)
        assert_consistent(ids, masked)
        assert (masked["weights"][:2] == 0).all()
        assert masked["weights"][2].sum() == wanted(40)


CONFIGS = (
    MaskingConfig(max_predictions=6),
    MaskingConfig(max_predictions=12, rate=0.4, unit="word"),
    MaskingConfig(max_predictions=32, rate=1.0, unit="span", span_max=3),
    MaskingConfig(max_predictions=5, rate=0.4, unit="span"),
)


@given(
    st.lists(st.sampled_from([*SPECIAL, 1001, 1002, 1601, 1602]), min_size=32, max_size=32),
    st.lists(st.integers(1, 12), min_size=1, max_size=6),
    st.sampled_from(CONFIGS),
    st.integers(0, 2**32 - 1),
)
@settings(max_examples=100, deadline=None)
def test_whatever_the_packing(ids, lengths, config, index):
    ids, segments = np.array(ids), np.repeat(np.arange(1, len(lengths) + 1), lengths)
    segments = np.pad(segments, (0, 32))[:32]
    masked = mask(ids[None], config, segments[None], indices=[index])
    assert_consistent(ids[None], masked)
    chosen = chosen_of(masked)[0]
    assert not chosen[segments == 0].any()
    for piece in range(1, segments.max() + 1):
        real = ((segments == piece) & (ids != PAD)).sum()
        assert chosen[segments == piece].sum() <= (wanted(real, config.rate) if real else 0)
    if config.unit != "token":
        assert all(len(set(chosen[word].tolist())) == 1 for word in words_of(ids, segments))


@given(st.lists(st.integers(1, 60), min_size=1, max_size=12), st.sampled_from([0.0, 0.07, 0.15, 0.4, 0.5, 0.77, 1.0]))
@settings(max_examples=300, deadline=None)
def test_the_cap_of_a_packed_row_never_binds(lengths, rate):
    cap = max_predictions_for(sum(lengths), rate, pieces=len(lengths))
    assert cap >= sum(wanted(length, rate) if rate else 0 for length in lengths)
    assert cap <= max(1, sum(lengths))


def test_the_cap_of_a_packed_row_is_not_far_from_what_it_may_need():
    assert max_predictions_for(512, pieces=1) == 77
    assert max_predictions_for(512, pieces=12) == 87, "eleven pieces of one token, and one of 501"
    assert sum(map(wanted, [1] * 11 + [501])) == 86
    with pytest.raises(UserError, match="pieces of a row: found 0"):
        max_predictions_for(512, pieces=0)


def test_a_row_of_one_token():
    for unit in UNITS:
        masked = mask([[1001], [CLS], [PAD]], MaskingConfig(1, unit=unit), [[1], [1], [0]])
        assert masked["weights"].tolist() == [[1], [0], [0]]
