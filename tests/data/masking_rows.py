"""What the tests of masking share: a small vocabulary with a table of word starts, rows, and what must always hold."""

import functools

import jax
import numpy as np

from bert_jax.data.masking import mask_tokens
from bert_jax.randomness import Purpose, row_keys

PAD, UNK, CLS, SEP, MASK = 0, 1, 2, 3, 4  # not BERT's ids: a hard-coded 103 would show
SPECIAL = (PAD, CLS, SEP, MASK)
ORDINARY = np.arange(5, 205)
SEED = 11
STARTS, CONTINUES = (1000, 1500), (1500, 2000)  # ids of the texts: outside ORDINARY, so a random id always shows
WORD_STARTS = np.arange(2000) < CONTINUES[0]


@functools.partial(jax.jit, static_argnums=3)
def masked_rows(input_ids, keys, segment_ids, config):
    return mask_tokens(
        config,
        input_ids,
        keys,
        pad_id=PAD,
        mask_id=MASK,
        special_ids=SPECIAL,
        ordinary_ids=ORDINARY,
        word_starts=WORD_STARTS,
        segment_ids_BxL=segment_ids,
    )


def mask(input_ids, config, segment_ids=None, indices=None):
    """The masks of rows whose global example indices are `indices`, by default 0, 1, 2, ..."""
    indices = np.arange(len(input_ids)) if indices is None else indices
    keys = row_keys(SEED, Purpose.TRAIN_MASKS, np.asarray(indices, np.uint32))
    segment_ids = None if segment_ids is None else np.asarray(segment_ids, np.int32)
    return jax.device_get(masked_rows(np.asarray(input_ids, np.int32), keys, segment_ids, config))


def text(random, size, continues):
    """Random ids, a share of which continue a word."""
    return np.where(random.random(size) < continues, random.integers(*CONTINUES, size), random.integers(*STARTS, size))


def full_rows(rows, length, continues, seed=0):
    """[CLS] text [SEP], no padding."""
    ids = text(np.random.default_rng(seed), (rows, length), continues)
    ids[:, 0], ids[:, -1] = CLS, SEP
    return ids


def packed_row(random, lengths, padded_length, continues=0.3):
    """Ids and segment ids of a row of pieces, [CLS] text [SEP] each, then padding."""
    ids, segments = np.full(padded_length, PAD), np.zeros(padded_length, int)
    start = 0
    for number, length in enumerate(lengths, 1):
        ids[start : start + length] = text(random, length, continues)
        ids[start], ids[start + length - 1] = CLS, SEP
        segments[start : start + length] = number
        start += length
    return ids, segments


def words_of(ids, segments=None, starts=WORD_STARTS, special=SPECIAL):
    """The words of a row, told in plain Python: a list of lists of positions, never across pieces or specials."""
    ids = np.asarray(ids)
    segments = np.where(ids == PAD, 0, 1) if segments is None else np.asarray(segments)
    words, previous = [], None
    for position, (token, segment) in enumerate(zip(ids.tolist(), segments.tolist(), strict=True)):
        if segment == 0 or token in special:
            previous = None
            continue
        if previous == segment and not starts[token]:
            words[-1].append(position)
        else:
            words.append([position])
        previous = segment
    return words


def chosen_of(masked):
    """Who was masked, bool [rows, length]."""
    chosen = np.zeros(masked["input_ids"].shape, bool)
    for row, (positions, weights) in enumerate(zip(masked["positions"], masked["weights"], strict=True)):
        chosen[row, positions[weights > 0]] = True
    return chosen


def assert_consistent(input_ids, masked):
    """What holds of any masking: who may be masked, and that positions, labels, weights and ids tell one story."""
    positions, labels, used = masked["positions"], masked["labels"], masked["weights"] > 0
    assert set(np.unique(masked["weights"])) <= {0.0, 1.0}
    assert (np.diff(used.astype(int), axis=1) <= 0).all(), "unused slots come last"
    assert (positions[~used] == 0).all() and (labels[~used] == 0).all()
    for row, row_ids in enumerate(np.asarray(input_ids)):
        chosen = positions[row][used[row]]
        assert (np.diff(chosen) > 0).all(), "ascending and without repetition"
        assert not np.isin(row_ids[chosen], SPECIAL).any()
        np.testing.assert_array_equal(labels[row][used[row]], row_ids[chosen])
        rest = np.setdiff1d(np.arange(len(row_ids)), chosen)
        np.testing.assert_array_equal(masked["input_ids"][row][rest], row_ids[rest])
        assert np.isin(masked["input_ids"][row][chosen], [MASK, *ORDINARY, *row_ids[chosen]]).all()
