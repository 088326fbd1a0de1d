"""Schedules against the paper's figures and formulas in exact arithmetic, on the host and on the device."""

import math
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bert_jax.errors import UserError
from bert_jax.schedules import LAST_STEP, ScheduleConfig, make_schedule

PAPER = ScheduleConfig("warmup_linear", peak=1e-4, warmup_steps=10_000, total_steps=1_000_000)


def test_the_papers_schedule_has_the_papers_rates():
    """Case C1 and DESIGN 7: 0 at step 0, decay measured from step 0, hence a fall where the warmup ends."""
    schedule = make_schedule(PAPER)
    figures = {0: 0.0, 1: 1e-8, 5_000: 5e-5, 9_999: 9.999e-5, 10_000: 9.9e-5, 500_000: 5e-5, 999_999: 1e-10}
    for step, rate in figures.items():
        assert schedule(step) == pytest.approx(rate, rel=1e-9, abs=0)
        assert float(jax.jit(schedule)(jnp.int32(step))) == pytest.approx(rate, rel=5e-7, abs=0)
    assert schedule(1_000_000) == 0 and schedule(2_000_000) == 0


def test_the_papers_schedule_follows_the_references_formula():
    """TensorFlow's polynomial_decay of power 1, then a warmup laid over it, written out here."""

    def reference(step, peak=3e-4, warmup=37, total=401, end=1.5e-5):
        decayed = (peak - end) * (1 - min(step, total) / total) + end
        return peak * step / warmup if step < warmup else decayed

    schedule = make_schedule(ScheduleConfig("warmup_linear", 3e-4, 37, 401, end_fraction=0.05))
    np.testing.assert_allclose(schedule(np.arange(450)), [reference(step) for step in range(450)], rtol=1e-12)


def test_the_standard_linear_schedule_starts_from_the_peak():
    schedule = make_schedule(ScheduleConfig("linear", 1e-4, 10_000, 1_000_000))
    assert schedule(10_000) == 1e-4
    assert schedule(505_000) == pytest.approx(5e-5)
    assert schedule(1_000_000) == 0


def test_cosine_ends_at_its_fraction_and_stays():
    schedule = make_schedule(ScheduleConfig("cosine", 2.0, 100, 1100, end_fraction=0.1))
    steps = np.arange(100, 1101)
    expected = 0.2 + 1.8 * 0.5 * (1 + np.cos(np.pi * (steps - 100) / 1000))
    np.testing.assert_allclose(schedule(steps), expected, rtol=1e-12)
    assert schedule(50) == 1.0 and schedule(5000) == 0.2


@pytest.mark.parametrize("shape", ["1-sqrt", "linear"])
def test_wsd_is_stable_until_its_decay(shape):
    schedule = make_schedule(ScheduleConfig("wsd", 1.0, 10, 1000, decay_steps=200, decay_shape=shape))
    assert (schedule(np.arange(10, 801)) == 1.0).all() and schedule(5) == 0.5
    done = (np.arange(801, 1001) - 800) / 200
    np.testing.assert_allclose(
        schedule(np.arange(801, 1001)), 1 - (np.sqrt(done) if shape == "1-sqrt" else done), rtol=1e-12, atol=1e-12
    )


def test_constant_only_warms_up():
    schedule = make_schedule(ScheduleConfig("constant", 0.5, 4, 10))
    assert schedule(np.arange(6)).tolist() == [0, 0.125, 0.25, 0.375, 0.5, 0.5] and schedule(10**9) == 0.5


EVERY = [
    ScheduleConfig("warmup_linear", 1e-4, 10_000, 1_000_000, end_fraction=0.02),
    ScheduleConfig("linear", 1e-4, 10_000, 1_000_000),
    ScheduleConfig("cosine", 1e-4, 10_000, 1_000_000, end_fraction=0.1),
    ScheduleConfig("wsd", 1e-4, 10_000, 1_000_000, decay_steps=100_000),
    ScheduleConfig("constant", 1e-4, 10_000, 1_000_000),
]


@pytest.mark.parametrize("config", EVERY, ids=lambda config: config.name)
def test_the_device_agrees_with_the_host(config):
    schedule = make_schedule(config)
    steps = np.unique(np.geomspace(1, 1_000_001, 500).astype(np.int32)) - 1
    on_device = jax.jit(schedule)(jnp.asarray(steps))
    assert on_device.dtype == jnp.float32 and np.isfinite(on_device).all()
    np.testing.assert_allclose(on_device, schedule(steps), rtol=1e-6)
    unsigned = jax.jit(schedule)(jnp.asarray([0, 2_000_000], jnp.uint32))
    np.testing.assert_allclose(unsigned, schedule(np.array([0, 2_000_000])), rtol=1e-6)
    assert jax.eval_shape(schedule, jnp.int32(3)).shape == () and isinstance(schedule(3), float)


@pytest.mark.parametrize("name", ["warmup_linear", "linear", "cosine", "wsd", "constant"])
def test_no_warmup_is_no_division_by_zero(name):
    """Case C2."""
    schedule = make_schedule(ScheduleConfig(name, 1e-4, 0, 100, decay_steps=10 if name == "wsd" else 0))
    assert schedule(0) == 1e-4 and jax.jit(schedule)(jnp.int32(0)) == jnp.float32(1e-4)
    assert np.isfinite(schedule(np.arange(200))).all()


@pytest.mark.parametrize("name", ["warmup_linear", "linear", "cosine"])
def test_a_run_that_is_all_warmup_is_finite(name):
    schedule = make_schedule(ScheduleConfig(name, 1.0, 10, 10))
    assert np.isfinite(jax.jit(schedule)(jnp.arange(30))).all()
    assert schedule(9) == 0.9 and schedule(10) == 0 and schedule(11) == 0


def test_float32_stays_accurate_at_the_largest_steps():
    """1 - step / N in float32 is 0 for the last hundred steps; the integer difference is exact."""
    for name in ("warmup_linear", "linear"):
        config = ScheduleConfig(name, 1.0, 1000, LAST_STEP)
        schedule = jax.jit(make_schedule(config))
        span = LAST_STEP - (1000 if name == "linear" else 0)
        for left in (1, 3, 100, 12345, 2**30):
            exact = float(Fraction(left, span))
            assert float(schedule(jnp.int32(LAST_STEP - left))) == pytest.approx(exact, rel=3e-7)
    cosine = jax.jit(make_schedule(ScheduleConfig("cosine", 1.0, 0, LAST_STEP)))
    assert float(cosine(jnp.int32(LAST_STEP - 1))) == pytest.approx((math.pi / 2 / LAST_STEP) ** 2, rel=1e-6)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"name": "warmup_liner"}, "'warmup_liner', expected one of .*nearest: warmup_linear"),
        ({"warmup_steps": 200}, "found warmup_steps 200 with total_steps 100"),
        ({"warmup_steps": 0.1}, "warmup_steps: found 0.1, expected a whole number from 0"),
        ({"warmup_steps": -1}, "warmup_steps: found -1"),
        ({"total_steps": 0}, "total_steps: found 0, expected a whole number from 1"),
        ({"total_steps": 2**31}, "total_steps: found 2147483648"),
        ({"peak": -1.0}, "peak: found -1.0"),
        ({"peak": math.nan}, "peak: found nan"),
        ({"end_fraction": 1.5}, "end_fraction: found 1.5"),
        ({"decay_steps": 5}, "decay_steps: found 5 with linear"),
        ({"name": "constant", "end_fraction": 0.1}, "end_fraction: found 0.1 with constant"),
        ({"name": "wsd"}, "decay_steps: found 0, expected 1 to 90"),
        ({"name": "wsd", "decay_steps": 91}, "decay_steps: found 91, expected 1 to 90"),
        ({"name": "wsd", "decay_steps": 5, "decay_shape": "cubic"}, "decay_shape: found 'cubic'"),
    ],
)
def test_contradictory_settings_are_refused(settings, message):
    with pytest.raises(UserError, match=message):
        ScheduleConfig(**{"name": "linear", "peak": 1e-4, "warmup_steps": 10, "total_steps": 100, **settings})
