"""Masking: the paper's counts and shares, never a special token, and the same masks on any hardware."""

import functools
import math
import os
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
from scipy import stats

from bert_jax.data.masking import MaskingConfig, cap_warning, mask_tokens, max_predictions_for, prediction_counts
from bert_jax.errors import UserError
from bert_jax.randomness import Purpose, row_keys
from tests.data import masking_rows
from tests.data.masking_rows import CLS, MASK, ORDINARY, PAD, SEED, SEP, SPECIAL, UNK, assert_consistent


@functools.partial(jax.jit, static_argnums=2)
def masked_by(input_ids, keys, config):
    return mask_tokens(config, input_ids, keys, pad_id=PAD, mask_id=MASK, special_ids=SPECIAL, ordinary_ids=ORDINARY)


def mask(input_ids, indices, config, purpose=Purpose.TRAIN_MASKS, seed=SEED):
    keys = row_keys(seed, purpose, np.asarray(indices, np.uint32))
    return jax.device_get(masked_by(np.asarray(input_ids, np.int32), keys, config))


def one_segment_rows(lengths, padded_length, seed=0):
    """[CLS] tokens [SEP] padding, by the number of real tokens; the tokens are all outside ORDINARY."""
    lengths = np.asarray(lengths)[:, None]
    place = np.arange(padded_length)
    ids = np.random.default_rng(seed).integers(1000, 2000, (len(lengths), padded_length))
    ids = np.where(place == 0, CLS, np.where(place == lengths - 1, SEP, ids))
    return np.where(place < lengths, ids, PAD)


def test_the_number_masked_is_pythons_round_of_the_real_length():
    """Cases B8 and DESIGN 7: of real tokens, [CLS] and [SEP] included; half to even in double precision."""
    config = MaskingConfig(max_predictions=77)
    lengths = np.arange(513)
    input_ids = one_segment_rows(lengths, 512)
    masked = mask(input_ids, lengths, config)
    assert_consistent(input_ids, masked)
    real = (input_ids != PAD).sum(1)
    candidates = (~np.isin(input_ids, SPECIAL)).sum(1)
    expected = [min(77, max(1, round(n * 0.15)), c) for n, c in zip(real.tolist(), candidates.tolist(), strict=True)]
    np.testing.assert_array_equal(masked["weights"].sum(1), expected)
    in_float32 = np.round(np.float32(0.15) * lengths.astype(np.float32))
    differing = [n for n in range(7, 513) if in_float32[n] != prediction_counts(config, 512)[n]]
    assert {190, 350, 390} <= set(differing), "the lengths that make the table necessary"


def test_max_predictions_caps_the_count():
    masked = mask(one_segment_rows([512, 100, 20], 512), range(3), MaskingConfig(max_predictions=20))
    assert masked["positions"].shape == (3, 20)
    assert masked["weights"].sum(1).tolist() == [20, 15, 3]


def test_special_tokens_are_never_masked_wherever_they_stand():
    """Cases B1 and B6, over rows where specials, also a literal [MASK] and inner padding, stand anywhere."""
    random = np.random.default_rng(5)
    special = random.random((2000, 40)) < random.random((2000, 1))
    input_ids = np.where(special, random.choice(SPECIAL, (2000, 40)), random.integers(5, 205, (2000, 40)))
    input_ids[:3] = [[PAD] * 40, [CLS, SEP] + [PAD] * 38, [CLS] + [SEP] * 39]
    masked = mask(input_ids, range(2000), MaskingConfig(max_predictions=30, rate=0.7))
    assert_consistent(input_ids, masked)
    candidates = (~np.isin(input_ids, SPECIAL)).sum(1)
    real = (input_ids != PAD).sum(1).tolist()
    wanted = [min(30, max(1, round(0.7 * n))) for n in real]
    np.testing.assert_array_equal(masked["weights"].sum(1), np.minimum(wanted, candidates))
    assert (candidates < wanted).sum() > 100, "rows where the candidates run out are covered"
    assert (masked["weights"][:3] == 0).all(), "nothing to mask, nothing masked"


def test_the_unknown_token_is_maskable_unless_listed():
    masked = mask([[CLS, UNK, SEP, PAD]], [0], MaskingConfig(max_predictions=1))
    assert masked["positions"].tolist() == [[1]] and masked["labels"].tolist() == [[UNK]]


ROWS = 20_000


@pytest.fixture(scope="module")
def many():
    """20,000 full rows of 64 tokens: 62 candidates, round(9.6) = 10 masked."""
    input_ids = one_segment_rows(np.full(ROWS, 64), 64)
    masked = mask(input_ids, range(ROWS), MaskingConfig(max_predictions=10))
    return input_ids, masked


def _outcomes(input_ids, masked):
    """0 [MASK], 1 random, 2 kept, for each prediction [rows, 10]."""
    after = np.take_along_axis(masked["input_ids"], masked["positions"], 1)
    assert np.isin(after[after != masked["labels"]], [MASK, *ORDINARY]).all()
    return np.where(after == MASK, 0, np.where(after == masked["labels"], 2, 1))


def test_outcomes_are_80_10_10(many):
    """Case B2. Originals are outside the ordinary ids here, so a random id never looks like a kept one."""
    counts = np.bincount(_outcomes(*many).ravel(), minlength=3)
    assert counts.sum() == ROWS * 10
    assert stats.chisquare(counts, ROWS * 10 * np.array([0.8, 0.1, 0.1])).pvalue > 0.001


def test_outcomes_of_a_row_are_independent(many):
    """Per position, not per row: the number of [MASK] in a row is binomial."""
    masks_in_row = np.bincount((_outcomes(*many) == 0).sum(1), minlength=11)
    expected = stats.binom.pmf(np.arange(11), 10, 0.8) * ROWS
    observed = [masks_in_row[:5].sum(), *masks_in_row[5:]]
    assert stats.chisquare(observed, [expected[:5].sum(), *expected[5:]]).pvalue > 0.001


def test_positions_are_uniform_and_drawn_without_replacement(many):
    _, masked = many
    chosen = np.zeros((ROWS, 64), bool)
    np.put_along_axis(chosen, masked["positions"], True, axis=1)
    assert (chosen.sum(1) == 10).all() and not chosen[:, [0, 63]].any()
    # Without replacement the counts of the places vary by less than a multinomial's, by the factor (62 - 10) / 61.
    counts = chosen.sum(0)[1:63]
    expected = ROWS * 10 / 62
    statistic = ((counts - expected) ** 2).sum() / expected / ((62 - 10) / 61)
    assert 0.001 < stats.chi2.sf(statistic, 61) < 0.999
    for one, other in ((1, 2), (1, 62), (30, 31)):
        both = int((chosen[:, one] & chosen[:, other]).sum())
        assert stats.binomtest(both, ROWS, 10 * 9 / (62 * 61)).pvalue > 0.001


def test_random_ids_are_uniform_over_the_ordinary_tokens(many):
    after = np.take_along_axis(many[1]["input_ids"], many[1]["positions"], 1)
    drawn = after[_outcomes(*many) == 1]
    counts = np.bincount(drawn, minlength=205)
    assert counts[:5].sum() == 0, "special tokens are never drawn"
    assert 0.001 < stats.chisquare(counts[5:]).pvalue < 0.999


def test_shares_are_settings():
    input_ids = one_segment_rows([64] * 500, 64)
    masked = mask(input_ids, range(500), MaskingConfig(max_predictions=10, mask_share=0.2, random_share=0.7))
    counts = np.bincount(_outcomes(input_ids, masked).ravel(), minlength=3)
    assert stats.chisquare(counts, 5000 * np.array([0.2, 0.7, 0.1])).pvalue > 0.001


def test_masks_depend_on_the_example_index_and_nothing_else():
    """Case B14 and DESIGN rule 5: alone or in any batch the same row is masked the same; at a later index it is not."""
    config = MaskingConfig(max_predictions=20)
    input_ids = one_segment_rows(np.random.default_rng(1).integers(3, 129, 48), 128)
    whole = mask(input_ids, range(100, 148), config)
    for size in (1, 24):
        parts = [mask(input_ids[i : i + size], range(100 + i, 100 + i + size), config) for i in range(0, 48, size)]
        for name, array in whole.items():
            np.testing.assert_array_equal(np.concatenate([part[name] for part in parts]), array)
    same_text = np.repeat(one_segment_rows([128], 128), 48, axis=0)
    by_row = mask(same_text, range(48), config)["positions"]
    assert len(np.unique(by_row, axis=0)) == 48, "two rows of a batch never share a mask"
    next_epoch = mask(same_text, range(10_000, 10_048), config)["positions"]
    assert (by_row != next_epoch).any(1).all()
    other_seed = mask(same_text, range(48), config, seed=SEED + 1)["positions"]
    assert (by_row != other_seed).any(1).all()


def test_evaluation_masks_have_their_own_purpose_and_never_change():
    config = MaskingConfig(max_predictions=20)
    input_ids = one_segment_rows([128] * 48, 128)
    first, again = (mask(input_ids, range(48), config, purpose=Purpose.EVAL_MASKS) for _ in range(2))
    for name, array in first.items():
        np.testing.assert_array_equal(again[name], array)
    assert (first["positions"] != mask(input_ids, range(48), config)["positions"]).any(1).all()


EIGHT_DEVICES = """
import sys, jax, numpy as np
from bert_jax.data.masking import MaskingConfig
from bert_jax.randomness import Purpose, row_keys
from tests.data import masking_rows
from tests.data.masking_rows import CLS, MASK, ORDINARY, PAD, SEED, SEP, SPECIAL, UNK, assert_consistent
from tests.data.masking_rows import PAD, SEED, masked_rows
from tests.data.test_masking import masked_by, one_segment_rows
assert len(jax.devices()) == 8
mesh = jax.sharding.Mesh(np.array(jax.devices()), ("data",))
rows = jax.NamedSharding(mesh, jax.P("data"))
input_ids = one_segment_rows(np.random.default_rng(1).integers(3, 129, 64), 128).astype(np.int32)
arguments = jax.device_put((input_ids, np.arange(64, dtype=np.uint32)), rows)

def keys_and_masks(input_ids, indices):
    return masked_by(input_ids, row_keys(SEED, Purpose.TRAIN_MASKS, indices), MaskingConfig(max_predictions=20))

program = jax.jit(keys_and_masks).lower(*arguments).compile()
collectives = [c for c in ("all-gather", "all-reduce", "all-to-all", "permute") if c in program.as_text()]
assert not collectives, collectives
masked = program(*arguments)
assert all(array.sharding.is_equivalent_to(rows, array.ndim) for array in masked.values())
np.savez(sys.argv[1], **jax.device_get(masked))

# Of all variants the one with most to it; the rows are cut into two pieces.
def packed_spans(input_ids, indices):
    segment_ids = (input_ids != PAD) * (1 + np.arange(128) // 50)
    keys = row_keys(SEED, Purpose.TRAIN_MASKS, indices)
    return masked_rows(input_ids, keys, segment_ids, MaskingConfig(max_predictions=21, unit="span"))

program = jax.jit(packed_spans).lower(*arguments).compile()
collectives = [c for c in ("all-gather", "all-reduce", "all-to-all", "permute") if c in program.as_text()]
assert not collectives, collectives
np.savez(sys.argv[2], **jax.device_get(program(*arguments)))
"""


def test_eight_devices_draw_the_masks_of_one_and_do_not_talk(tmp_path):
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_force_host_platform_device_count=8"}
    file, packed_file = tmp_path / "masked.npz", tmp_path / "packed.npz"
    command = [sys.executable, "-c", EIGHT_DEVICES, file, packed_file]
    subprocess.run(command, env=environment, cwd=Path(__file__).parents[2], check=True, timeout=240)
    input_ids = one_segment_rows(np.random.default_rng(1).integers(3, 129, 64), 128)
    one_device = mask(input_ids, range(64), MaskingConfig(max_predictions=20))
    with np.load(file) as eight_devices:
        for name, array in one_device.items():
            np.testing.assert_array_equal(eight_devices[name], array)
    segment_ids = (input_ids != PAD) * (1 + np.arange(128) // 50)
    config = MaskingConfig(max_predictions=21, unit="span")
    one_device = masking_rows.mask(input_ids, config, segment_ids)
    with np.load(packed_file) as eight_devices:
        for name, array in one_device.items():
            np.testing.assert_array_equal(eight_devices[name], array)


def test_the_derived_cap_is_the_papers_and_never_binds():
    assert (max_predictions_for(128), max_predictions_for(512)) == (20, 77)
    assert max_predictions_for(100, 0.07) == 7 and max_predictions_for(3) == 1
    for length in range(1, 1025):
        cap = max_predictions_for(length)
        assert cap >= round(0.15 * length) and cap <= math.ceil(0.15 * length)
        assert cap_warning(MaskingConfig(cap), length) is None


def test_nothing_to_mask_is_no_missed_rate():
    assert cap_warning(MaskingConfig(1, rate=0.0), 512) is None and max_predictions_for(512, 0.0) == 1
    assert prediction_counts(MaskingConfig(20, rate=0.0), 128).tolist() == [0] * 129


def test_the_masks_of_single_tokens_never_change():
    """Golden: a run that is resumed draws the masks that it would have drawn. Only a new key scheme may change them."""
    place = np.arange(32)
    input_ids = np.where(place < np.array([[32], [20]]), 1000 + place, PAD)
    input_ids[:, 0], input_ids[0, 31], input_ids[1, 19] = CLS, SEP, SEP
    masked = mask(input_ids, range(2), MaskingConfig(max_predictions=5))
    assert masked["positions"].tolist() == [[6, 23, 24, 25, 29], [3, 13, 16, 0, 0]]
    after = np.take_along_axis(masked["input_ids"], masked["positions"], 1)
    assert after[0].tolist() == [MASK, MASK, MASK, 171, MASK] and after[1, :3].tolist() == [MASK] * 3


def test_a_cap_below_the_rate_is_reported_with_the_real_rate():
    """Case B7."""
    warning = cap_warning(MaskingConfig(max_predictions=20), 512)
    assert "3.9%" in warning and "15.0%" in warning and "max_predictions 77" in warning
    assert cap_warning(MaskingConfig(max_predictions=19), 128) is None, "round(19.2): the rate is met"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_predictions": 0}, "max_predictions: found 0"),
        ({"max_predictions": 5, "rate": 15.0}, "masking rate: found 15"),
        ({"max_predictions": 5, "mask_share": 0.9, "random_share": 0.2}, "found 0.9 and 0.2"),
        ({"max_predictions": 5, "mask_share": -0.1}, "found -0.1 and 0.1"),
    ],
)
def test_contradictory_settings_are_refused(settings, message):
    with pytest.raises(UserError, match=message):
        MaskingConfig(**settings)


def test_more_predictions_than_tokens_are_refused():
    with pytest.raises(UserError, match="found 77, expected at most the row length 64"):
        mask(one_segment_rows([64], 64), [0], MaskingConfig(max_predictions=77))


def test_a_vocabulary_without_ordinary_tokens_is_refused():
    keys = row_keys(0, Purpose.TRAIN_MASKS, np.arange(1))
    with pytest.raises(UserError, match="ordinary_ids: found none"):
        mask_tokens(
            MaskingConfig(1),
            np.ones((1, 4), np.int32),
            keys,
            pad_id=0,
            mask_id=4,
            special_ids=(0, 4),
            ordinary_ids=np.array([]),
        )
