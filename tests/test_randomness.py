"""Keys are a function of (seed, purpose, global example index) alone."""

import jax
import numpy as np
import pytest

from bert_jax.errors import UserError
from bert_jax.randomness import Purpose, purpose_key, row_keys


def _data(keys):
    return np.asarray(jax.random.key_data(keys))


def test_keys_are_golden():
    """These change only when every past run's masks may change: a renumbered purpose, another generator or fold."""
    golden = [[346279018, 360566543], [3968330031, 3923691647]]
    assert _data(row_keys(0, Purpose.TRAIN_MASKS, np.arange(2))).tolist() == golden


def test_a_rows_key_depends_on_its_index_only():
    indices = np.array([7, 2**31, 2**32 - 1, 0], np.uint32)
    together = _data(row_keys(3, Purpose.EVAL_MASKS, indices))
    for index, data in zip(indices, together, strict=True):
        np.testing.assert_array_equal(_data(row_keys(3, Purpose.EVAL_MASKS, np.array([index])))[0], data)


def test_seed_purpose_and_index_all_matter():
    keys = [_data(row_keys(seed, purpose, np.arange(3))) for seed in (0, 1, 2**32 - 1) for purpose in Purpose]
    assert len(np.unique(np.concatenate(keys), axis=0)) == 3 * len(Purpose) * 3


def test_the_process_wide_generator_does_not_matter():
    expected = _data(row_keys(0, Purpose.TRAIN_MASKS, np.arange(4)))
    with jax.default_prng_impl("rbg"):
        np.testing.assert_array_equal(_data(row_keys(0, Purpose.TRAIN_MASKS, np.arange(4))), expected)


@pytest.mark.parametrize("seed", [-1, 2**32])
def test_a_seed_out_of_range_is_refused(seed):
    with pytest.raises(UserError, match=f"seed: found {seed}, expected 0 to 4294967295"):
        purpose_key(seed, Purpose.DROPOUT)
