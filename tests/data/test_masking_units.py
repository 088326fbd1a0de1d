"""Whole words and spans: all or nothing, within the budget, and distributed as the published code does it."""

import dataclasses

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from bert_jax.data import masking_units as units
from bert_jax.data.masking import MaskingConfig, mask_tokens, prediction_counts
from bert_jax.errors import UserError
from bert_jax.randomness import Purpose, row_keys
from tests.data import masking_rows as rows_of
from tests.data import reference_masking as reference
from tests.data.masking_rows import CLS, MASK, ORDINARY, PAD, SEP, SPECIAL, assert_consistent, chosen_of, words_of

ROWS = 20_000
LENGTH = 64
WORDS = MaskingConfig(max_predictions=10, unit="word")
SPANS = MaskingConfig(max_predictions=26, rate=0.4, unit="span")
GEOMETRIC = stats.geom.pmf(np.arange(1, 11), 0.2) / stats.geom.cdf(10, 0.2)  # of 1 to 10 words, renormalised
KINDS = ("mask", "random", "kept")


@pytest.fixture(scope="module")
def words():
    """20,000 full rows of 64 tokens, three of ten continuing a word."""
    input_ids = rows_of.full_rows(ROWS, LENGTH, continues=0.3)
    return input_ids, rows_of.mask(input_ids, WORDS)


@pytest.fixture(scope="module")
def spans():
    input_ids = rows_of.full_rows(ROWS, LENGTH, continues=0.3, seed=1)
    return input_ids, rows_of.mask(input_ids, SPANS)


def kinds(input_ids, masked):
    """0 [MASK], 1 random, 2 kept, -1 not masked: int [rows, length]."""
    after = masked["input_ids"]
    return np.where(chosen_of(masked), np.where(after == MASK, 0, np.where(after == input_ids, 2, 1)), -1)


def agree(ours, theirs):
    """The p-value that two samples of small whole numbers come from one distribution; rare values counted together."""
    size = max(ours.max(), theirs.max()) + 1
    table = np.array([np.bincount(ours, minlength=size), np.bincount(theirs, minlength=size)])
    often = table.sum(0) >= 50
    table = np.concatenate([table[:, often], table[:, ~often].sum(1, keepdims=True)], axis=1)
    return stats.chi2_contingency(table[:, table.sum(0) > 0]).pvalue


@pytest.mark.parametrize("name", ["words", "spans"])
def test_every_word_is_masked_wholly_or_not_at_all(name, request):
    input_ids, masked = request.getfixturevalue(name)
    chosen = chosen_of(masked)
    for row_ids, row_chosen in zip(input_ids[:1500], chosen, strict=False):
        for word in words_of(row_ids):
            assert len({bool(row_chosen[position]) for position in word}) == 1
    assert_consistent(input_ids[:300], {key: value[:300] for key, value in masked.items()})


@pytest.mark.parametrize(("name", "config", "least"), [("words", WORDS, 0.999), ("spans", SPANS, 0.995)])
def test_the_number_masked_never_exceeds_the_rate_and_hardly_falls_short(name, config, least, request):
    """A last gap of the budget is filled by a word of one token: of all words, or of the few that begin a span."""
    masked = request.getfixturevalue(name)[1]["weights"].sum(1)
    budget = prediction_counts(config, LENGTH)[LENGTH]
    assert masked.max() == budget
    assert (masked == budget).mean() > least


def test_whole_words_are_distributed_as_googles():
    """Against a plain loop over shuffled words: how many tokens and words, and how long the masked words are."""
    input_ids = rows_of.full_rows(ROWS // 4, LENGTH, continues=0.7, seed=3)  # long words: many do not fit
    chosen, random = chosen_of(rows_of.mask(input_ids, WORDS)), np.random.default_rng(4)
    figures = {"ours": [], "theirs": []}
    for row_ids, row_chosen in zip(input_ids, chosen, strict=True):
        row_words = words_of(row_ids)
        expected = reference.whole_words(row_words, 10, random)
        for whose, positions in (("ours", np.flatnonzero(row_chosen)), ("theirs", expected)):
            taken = [word for word in row_words if word[0] in positions]
            figures[whose].append(
                (len(positions), len(taken), len(taken[0]) if taken else 0, len(taken[-1]) if taken else 0)
            )
    ours, theirs = np.array(figures["ours"]), np.array(figures["theirs"])
    assert (ours[:, 0] < 10).mean() > 0.005, "rows that cannot use their budget are covered"
    for column in range(4):
        assert agree(ours[:, column], theirs[:, column]) > 0.001


@pytest.mark.parametrize("unit", ["word", "span"])
def test_each_budget_is_filled_exactly_as_by_a_loop(unit):
    """In the order drawn, the words taken are those of the loop, of up to six sizes: not one that fits is left out."""
    random = np.random.default_rng(8)
    take = jax.jit(units.take_words, static_argnums=6)
    length = 72  # what is beyond the words may not be masked
    for _ in range(200):
        sizes = random.integers(1, 7, 12)
        unit_of_word = np.arange(12) if unit == "word" else np.sort(random.integers(0, 5, 12))
        word = np.repeat(np.arange(12), sizes)
        allowed = np.arange(length) < len(word)
        word = np.concatenate([word, np.full(length - len(word), -1)])
        begins_word = allowed & (np.diff(word, prepend=-1) != 0)
        begins_unit = begins_word & (np.diff(np.append(unit_of_word, -1)[word], prepend=-1) != 0)
        rank = np.append(random.permutation(12)[unit_of_word], 99)
        order = np.argsort(rank[word], kind="stable")
        left = budget = int(random.integers(1, allowed.sum() + 1))
        expected, ended = [], set()
        for position in order[begins_word[order]]:
            index = word[position]
            if sizes[index] <= left and unit_of_word[index] not in ended:
                left -= sizes[index]
                expected.append(index)
            else:
                ended.add(unit_of_word[index])
        size = units.word_sizes(begins_word, allowed)
        taken = take(order, None, size, begins_word, begins_unit, np.full(length, budget), unit)
        np.testing.assert_array_equal(np.asarray(taken), np.isin(word, expected))


def test_words_are_masked_equally_often_wherever_they_stand():
    """Rows of one-token words: each of the 62 positions in 10 of 62 rows."""
    counts = chosen_of(rows_of.mask(rows_of.full_rows(ROWS, LENGTH, continues=0), WORDS)).sum(0)
    assert counts[[0, -1]].sum() == 0
    expected = ROWS * 10 / 62
    statistic = ((counts[1:-1] - expected) ** 2).sum() / expected / ((62 - 10) / 61)
    assert 0.001 < stats.chi2.sf(statistic, 61) < 0.999


def test_spans_mask_the_words_of_a_row_about_equally_often():
    """The span that the budget cuts loses its last words: so a row's first words gain, where SpanBERT's lose far more.

    Within the row, 20 words from its ends, no place is favoured.
    """
    words, budget = 126, 19
    input_ids = rows_of.full_rows(ROWS, words + 2, continues=0, seed=5)
    counts = chosen_of(rows_of.mask(input_ids, MaskingConfig(max_predictions=budget, unit="span"))).sum(0)[1:-1]
    relative = counts / (ROWS * budget / words)
    assert 0.9 < relative.min() and relative.max() < 1.15
    assert abs(relative[20:-20].std() / np.sqrt((words - budget) / budget / ROWS) - 1) < 0.4
    random, theirs = np.random.default_rng(7), np.zeros(words)
    for _ in range(2000):
        theirs[reference.spanbert([[position] for position in range(words)], budget, GEOMETRIC, random)] += 1
    assert theirs[0] / (2000 * budget / words) < 0.5


def test_outcomes_of_words_are_drawn_for_each_piece_as_in_googles_code(words):
    """Cases B2 and B5."""
    input_ids, masked = words
    outcome = kinds(input_ids, masked)
    counts = np.bincount(outcome[outcome >= 0], minlength=3)
    assert stats.chisquare(counts, counts.sum() * np.array([0.8, 0.1, 0.1])).pvalue > 0.001
    pairs = (outcome[:, :-1] >= 0) & (outcome[:, 1:] >= 0) & ~rows_of.WORD_STARTS[input_ids[:, 1:]]
    table = np.zeros((3, 3))
    np.add.at(table, (outcome[:, :-1][pairs], outcome[:, 1:][pairs]), 1)
    assert pairs.sum() > 10_000 and stats.chi2_contingency(table).pvalue > 0.001, "neighbours in a word: independent"


def test_all_pieces_of_a_word_share_one_outcome_where_it_is_asked_for():
    """Case B5, over more than 10,000 words of several pieces."""
    input_ids = rows_of.full_rows(8000, LENGTH, continues=0.3)
    outcome = kinds(input_ids, rows_of.mask(input_ids, dataclasses.replace(WORDS, outcome="unit")))
    of_words = [[outcome[row, p] for p in word] for row in range(8000) for word in words_of(input_ids[row])]
    masked = [pieces for pieces in of_words if pieces[0] >= 0]
    assert sum(len(pieces) > 1 for pieces in masked) > 10_000
    assert all(len(set(pieces)) == 1 for pieces in masked)
    counts = np.bincount([pieces[0] for pieces in masked], minlength=3)
    assert stats.chisquare(counts, len(masked) * np.array([0.8, 0.1, 0.1])).pvalue > 0.001


def test_a_span_is_all_masks_all_random_or_all_kept_and_random_ids_differ():
    """Three tokens masked in a row of 20: where they are neighbours they are nearly always of one span."""
    input_ids = rows_of.full_rows(ROWS, 20, continues=0)
    config = MaskingConfig(max_predictions=3, unit="span", span_p=1e-6, span_max=10)  # lengths even over 1 to 10
    masked = rows_of.mask(input_ids, config)
    outcome = kinds(input_ids, masked)[np.arange(ROWS)[:, None], masked["positions"]]
    in_one_run = (np.diff(masked["positions"], axis=1) == 1).all(1)
    one_kind = (outcome == outcome[:, :1]).all(1)
    assert in_one_run.sum() > 10_000 and one_kind[in_one_run].mean() > 0.95, "but for neighbouring spans"
    counts = np.bincount(outcome.ravel(), minlength=3)
    assert np.abs(counts / counts.sum() - [0.8, 0.1, 0.1]).max() < 0.01
    random_rows = in_one_run & (outcome == 1).all(1)
    drawn = np.take_along_axis(masked["input_ids"], masked["positions"], 1)[random_rows]
    assert (drawn[:, 0] != drawn[:, 1]).mean() > 0.97, "random ids are drawn for each token"
    assert stats.chisquare(np.bincount(drawn.ravel(), minlength=205)[5:]).pvalue > 0.001
    by_token = rows_of.mask(input_ids, dataclasses.replace(config, outcome="token"))
    outcome = kinds(input_ids, by_token)[np.arange(ROWS)[:, None], by_token["positions"]]
    assert abs((outcome == outcome[:, :1]).all(1).mean() - (0.8**3 + 2 * 0.1**3)) < 0.02


@pytest.mark.parametrize(("p", "most"), [(0.2, 10), (0.5, 3), (1.0, 10), (0.2, 1)])
def test_span_lengths_are_the_renormalised_geometric(p, most):
    """SpanBERT, section 3.1: chi-square against scipy's; of spans that the row's end cannot have cut."""
    bits = jax.random.bits(jax.random.key(3), (ROWS, LENGTH), np.uint32)
    begins_word, stretch = np.ones(LENGTH, bool), np.arange(LENGTH) == 0
    thresholds = units.span_thresholds(p, most)
    begins = jax.jit(jax.vmap(lambda b: units.span_begins(begins_word, stretch, b, thresholds)))(bits)
    row, start = np.nonzero(np.asarray(begins))
    same_row = row[1:] == row[:-1]
    lengths = np.diff(start)[same_row & (start[:-1] < LENGTH - most)]
    expected = stats.geom.pmf(np.arange(1, most + 1), p)
    expected = expected / expected.sum() * len(lengths)
    observed = np.bincount(lengths, minlength=most + 1)[1:]
    assert len(observed) == most and (observed[expected == 0] == 0).all()
    if (expected > 0).sum() > 1:
        assert stats.chisquare(observed, expected).pvalue > 0.001
    if (p, most) == (0.2, 10):
        assert abs(lengths.mean() - 3.8) < 0.02, "the mean that the paper gives"


def runs(chosen):
    """Lengths of the runs of neighbouring masked tokens, and how many masked tokens, of one row."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], chosen.astype(int), [0]])))
    return (edges[1::2] - edges[::2]).tolist()


def row_of_positions(positions):
    row = np.zeros(LENGTH, bool)
    row[positions] = True
    return row


def test_spans_are_distributed_as_a_plain_loop_lays_them(spans):
    """The whole of it, from ids to masks: number of runs, their lengths, and tokens masked; words of several pieces."""
    input_ids, masked = spans
    random = np.random.default_rng(9)
    ours, theirs = [], []
    for row_ids, chosen in zip(input_ids[:4000], chosen_of(masked), strict=False):
        ours.append(runs(chosen))
        theirs.append(runs(row_of_positions(reference.spans(words_of(row_ids), 26, GEOMETRIC, random))))
    for figure in (len, max, sum, lambda lengths: lengths[0]):
        assert agree(np.array([figure(r) for r in ours]), np.array([figure(r) for r in theirs])) > 0.001


def test_spans_look_like_spanberts():
    """Its own loop draws starting points and merges overlaps. Mean length of a masked run: within a tenth of its."""
    config = MaskingConfig(max_predictions=39, unit="span")
    input_ids = rows_of.full_rows(600, 256, continues=0.2, seed=6)
    random, theirs = np.random.default_rng(7), []
    for row_ids in input_ids:
        row = np.zeros(256, bool)
        row[reference.spanbert(words_of(row_ids), 38, GEOMETRIC, random)] = True
        theirs += runs(row)
    ours = [length for chosen in chosen_of(rows_of.mask(input_ids, config)) for length in runs(chosen)]
    assert abs(np.mean(ours) / np.mean(theirs) - 1) < 0.1


def test_no_word_or_span_crosses_a_special_token():
    """[SEP] within a row, and a piece that continues a word right after it or at the very start of the row."""
    random = np.random.default_rng(2)
    special = random.random((3000, 40)) < 0.2
    ids = np.where(special, random.choice(SPECIAL, (3000, 40)), rows_of.text(random, (3000, 40), 0.6))
    for config in (
        dataclasses.replace(WORDS, rate=0.5, max_predictions=20),
        dataclasses.replace(SPANS, max_predictions=20),
    ):
        masked = rows_of.mask(ids, config)
        chosen = chosen_of(masked)
        assert not chosen[np.isin(ids, SPECIAL)].any()
        for row_ids, row_chosen in zip(ids, chosen, strict=True):
            assert all(len(set(row_chosen[word].tolist())) == 1 for word in words_of(row_ids))


CONFIGS = (
    MaskingConfig(max_predictions=4, unit="word"),
    MaskingConfig(max_predictions=9, rate=0.4, unit="word", outcome="unit"),
    MaskingConfig(max_predictions=9, rate=0.4, unit="span"),
    MaskingConfig(max_predictions=24, rate=1.0, unit="span", span_max=3, outcome="token"),
)


@given(
    st.lists(st.sampled_from([*SPECIAL, 1001, 1002, 1601, 1602]), min_size=24, max_size=24),
    st.sampled_from(CONFIGS),
    st.integers(0, 2**32 - 1),
)
@settings(max_examples=100, deadline=None)
def test_whatever_the_row(ids, config, index):
    ids = np.array(ids)
    masked = rows_of.mask(ids[None], config, indices=[index])
    assert_consistent(ids[None], masked)
    chosen, row_words = chosen_of(masked)[0], words_of(ids)
    assert all(len(set(chosen[word].tolist())) == 1 for word in row_words)
    left = prediction_counts(config, 24)[(ids != PAD).sum()] - chosen.sum()
    assert left >= 0
    if config.unit == "word":
        assert all(chosen[word[0]] or len(word) > left for word in row_words), "no word that still fits is left"


@pytest.mark.parametrize("unit", ["token", "word", "span"])
@pytest.mark.parametrize("packed", [False, True])
def test_at_rate_0_nothing_is_masked_and_at_rate_1_all(unit, packed):
    random = np.random.default_rng(0)
    ids = rows_of.text(random, (200, 32), 0.4)
    ids[:, 0] = CLS
    ids[np.arange(200), random.integers(1, 32, 200)] = SEP
    ids[50:60, 10:] = PAD
    ids[60:70] = PAD
    segments = (ids != PAD) * (1 + np.arange(32) // 12) if packed else None
    none = rows_of.mask(ids, MaskingConfig(32, rate=0.0, unit=unit), segments)
    assert (none["weights"] == 0).all() and (none["input_ids"] == ids).all() and (none["positions"] == 0).all()
    everything = rows_of.mask(ids, MaskingConfig(32, rate=1.0, unit=unit), segments)
    assert_consistent(ids, everything)
    np.testing.assert_array_equal(chosen_of(everything), ~np.isin(ids, SPECIAL))


@pytest.mark.parametrize("unit", ["token", "word", "span"])
def test_all_mask_as_in_neobert(unit):
    ids = rows_of.full_rows(500, LENGTH, continues=0.3)
    masked = rows_of.mask(ids, MaskingConfig(13, rate=0.2, mask_share=1.0, random_share=0.0, unit=unit))
    chosen = chosen_of(masked)
    assert chosen.sum() > 500 * 12 and (masked["input_ids"][chosen] == MASK).all()


def test_a_word_longer_than_the_budget_is_never_masked():
    ids = np.array([[CLS, *[1600] * 9, SEP], [CLS, *[1600] * 8, 1001, SEP]])
    masked = rows_of.mask(ids, dataclasses.replace(WORDS, rate=0.3), indices=[0, 1])
    assert masked["weights"].sum(1).tolist() == [0, 1] and masked["positions"][1, 0] == 9


def test_masks_depend_on_the_example_index_and_not_on_the_batch():
    ids = rows_of.full_rows(24, LENGTH, continues=0.3)
    for config in (WORDS, SPANS):
        whole = rows_of.mask(ids, config, indices=range(100, 124))
        parts = [rows_of.mask(ids[i : i + 8], config, indices=range(100 + i, 108 + i)) for i in (0, 8, 16)]
        for name, array in whole.items():
            np.testing.assert_array_equal(np.concatenate([part[name] for part in parts]), array)
        assert (rows_of.mask(ids, config)["positions"] != whole["positions"]).any(1).all()


@pytest.mark.parametrize(
    ("word_starts", "message"),
    [
        (None, "masking unit 'word': found a tokenizer that cannot tell where words start"),
        (np.ones(100, bool), r"word_starts: found bool of shape \(100,\), expected bool, one for each of the 205 ids"),
        (np.ones(300, int), "word_starts: found int64"),
    ],
)
def test_a_tokenizer_that_cannot_tell_words_is_refused(word_starts, message):
    """Case B4."""
    keys = row_keys(0, Purpose.TRAIN_MASKS, np.arange(1))
    names = {"pad_id": PAD, "mask_id": MASK, "special_ids": SPECIAL, "ordinary_ids": ORDINARY}
    with pytest.raises(UserError, match=message):
        mask_tokens(WORDS, np.ones((1, 16), np.int32), keys, word_starts=word_starts, **names)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"unit": "phrase"}, "masking unit: found 'phrase', expected one of token, word, span"),
        ({"outcome": "word"}, "masking outcome: found 'word', expected one of paper, token, unit"),
        ({"span_p": 0.0}, "masking span_p: found 0.0"),
        ({"span_max": 0}, "masking span_max: found 0"),
        ({"rate": -0.1}, "masking rate: found -0.1, expected 0 to 1"),
        ({"rate": float("nan")}, "masking rate: found nan"),
    ],
)
def test_wrong_settings_are_refused(setting, message):
    with pytest.raises(UserError, match=message):
        MaskingConfig(max_predictions=5, **setting)
