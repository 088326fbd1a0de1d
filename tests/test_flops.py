"""The analytic FLOP count against what the compiler counts, and the peak it is held against."""

import dataclasses
import types

import jax
import jax.numpy as jnp
import pytest

from bert_jax import flops
from bert_jax.model import heads
from bert_jax.model.presets import PRESETS, ComputeConfig, EncoderConfig

MODEL = EncoderConfig(vocab_size=1000, hidden=128, layers=3, heads=4, ffn=512, max_positions=64)
ROWS, LENGTH, PREDICTIONS = 4, 64, 10


def compiled_flops(model):
    """XLA's count of one forward pass, unrolled, as it counts the body of a scan once."""
    compute = ComputeConfig(scan_layers=False)
    params = jax.eval_shape(lambda: heads.init_params(model, compute, jax.random.key(0)))
    batch = {name: jax.ShapeDtypeStruct((ROWS, LENGTH), jnp.int32) for name in ("input_ids", "token_type_ids")}
    batch["mask"] = jax.ShapeDtypeStruct((ROWS, LENGTH), bool)
    batch["positions"] = jax.ShapeDtypeStruct((ROWS, PREDICTIONS), jnp.int32)
    forward = jax.jit(lambda params, batch: heads.pretraining_logits(params, model, compute, batch))
    return forward.lower(params, batch).compile().cost_analysis()["flops"]


def test_forward_agrees_with_the_compiler():
    """The compiler counts elementwise work too, a few per cent at this width; never less than the products."""
    counted = flops.forward_flops(MODEL, ROWS, LENGTH, PREDICTIONS)
    assert 1 <= compiled_flops(MODEL) / counted < 1.06


def test_bert_base_by_hand():
    """6 * parameters of the layers * tokens is the usual rule; attention scores and the heads come on top."""
    base = PRESETS["base"]
    without_heads = dataclasses.replace(base, vocab_size=1)
    rule = 6 * 12 * 12 * 768**2 * 256 * 128
    attention = 3 * 12 * 4 * 128 * 768 * 256 * 128
    assert flops.step_flops(without_heads, 256, 128, 0) == pytest.approx(rule + attention, rel=2e-4)  # pooler
    decoder = 3 * 256 * 20 * 2 * 768 * (30522 + 768)
    assert flops.step_flops(base, 256, 128, 20) == pytest.approx(rule + attention + decoder, rel=2e-4)


def test_heads_count_where_they_are_and_padded_rows_do_not():
    """Pooler and sentence head once a piece, not at all without a sentence head; any multiple counts the same."""
    base = PRESETS["base"]
    without = dataclasses.replace(base, sentence_head="none")
    of_a_piece = 2 * 768 * 768 + 2 * 768 * 2
    for pieces in (1, 32):
        more = flops.forward_flops(base, 8, 512, 77, pieces) - flops.forward_flops(without, 8, 512, 77, pieces)
        assert more == 8 * pieces * of_a_piece
    for multiple in (1, 1000):
        other = dataclasses.replace(base, vocab_multiple=multiple)
        assert flops.step_flops(other, 8, 512, 77) == flops.step_flops(base, 8, 512, 77)


@pytest.mark.parametrize(("kind", "peak"), [("TPU v4", 275e12), ("TPU v5 lite", 197e12), ("TPU v6 lite", 918e12)])
def test_a_known_tpu_is_held_against_its_published_peak(kind, peak):
    assert flops.peak_flops(types.SimpleNamespace(device_kind=kind)) == (peak, "published bfloat16 peak")


def test_an_unknown_device_is_measured():
    found, source = flops.peak_flops(jax.devices()[0], size=256, rounds=2)
    assert found > 1e8 and source == "measured 256 x 256 float32 product"
