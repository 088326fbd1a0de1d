"""The encoder against transformers, and the properties that its tests must defend."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bert_jax.errors import UserError
from bert_jax.model import encoder, heads
from bert_jax.model.presets import PRESETS, REMAT_POLICIES, ComputeConfig, EncoderConfig
from tests.model import hf

CONFIG = EncoderConfig(
    vocab_size=211, hidden=32, layers=3, heads=4, ffn=48, max_positions=40, dropout=0.3, attention_dropout=0.2
)
COMPUTE = ComputeConfig()


def random_batch(config, batch=3, length=24, predictions=4, seed=0):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(length // 2, length + 1, batch)
    mask = np.arange(length) < lengths[:, None]
    return {
        "input_ids": jnp.asarray(rng.integers(0, config.vocab_size, (batch, length)) * mask),
        "token_type_ids": jnp.asarray((np.arange(length) > length // 3) & mask, jnp.int32),
        "mask": jnp.asarray(mask),
        "positions": jnp.asarray(rng.integers(0, length // 2, (batch, predictions))),
    }


def perturbed_params(config, seed=1):
    """Parameters in which biases and norms differ from 0 and 1, so that a swapped one shows; padded rows too."""
    params = heads.init_params(config, COMPUTE, jax.random.key(seed))
    leaves, structure = jax.tree.flatten(params)
    keys = jax.random.split(jax.random.key(seed + 1), len(leaves))
    noisy = [p + 0.05 * jax.random.normal(k, p.shape) for p, k in zip(leaves, keys, strict=True)]
    return jax.tree.unflatten(structure, noisy)


@pytest.mark.parametrize(
    ("preset", "parameters"),
    # base and large: DESIGN's figures for google-research/bert with heads; the smaller ones: its README in millions
    # (tiny 4.4, mini 11.3, small 29.1, medium 41.7).
    [
        ("tiny", 4_433_468),
        ("mini", 11_267_900),
        ("small", 29_058_876),
        ("medium", 41_668_412),
        ("base", 110_106_428),
        ("large", 336_226_108),
    ],
)
def test_presets_have_the_published_parameter_counts(preset, parameters):
    config = PRESETS[preset]
    assert heads.parameter_count(config) == parameters
    shapes = jax.eval_shape(lambda: heads.init_params(config, COMPUTE, jax.random.key(0)))
    added = (30592 - 30522) * (config.hidden + 1)  # rows up to a multiple of 128, in word embeddings and MLM bias
    assert sum(int(np.prod(leaf.shape)) for leaf in jax.tree.leaves(shapes)) == parameters + added


@pytest.mark.parity
@pytest.mark.parametrize("activation", ["gelu", "gelu_tanh"])
def test_outputs_equal_transformers(activation):
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    config = dataclasses.replace(PRESETS["mini"], vocab_size=997, activation=activation)
    params = perturbed_params(config)
    batch = random_batch(config, batch=4, length=64, predictions=10)
    model = transformers.BertForPreTraining(hf.hf_config(config)).eval()
    model.load_state_dict(hf.hf_state_dict(params, config), strict=True)
    inputs = {name: torch.tensor(np.asarray(batch[name])).long() for name in ("input_ids", "token_type_ids")}
    with torch.no_grad():
        theirs = model(
            **inputs, attention_mask=torch.tensor(np.asarray(batch["mask"])).long(), output_hidden_states=True
        )
    mlm, nsp = jax.jit(lambda p, b: heads.pretraining_logits(p, config, COMPUTE, b))(params, batch)
    expected = np.take_along_axis(theirs.prediction_logits.numpy(), np.asarray(batch["positions"])[:, :, None], axis=1)
    np.testing.assert_allclose(mlm[..., : config.vocab_size], expected, atol=1e-4)
    assert (mlm[..., config.vocab_size :] == -np.inf).all() and mlm.shape[-1] == 1024
    np.testing.assert_allclose(nsp, theirs.seq_relationship_logits.numpy(), atol=1e-4)
    hidden, attention = encoder.encode_layers(
        params, config, COMPUTE, batch["input_ids"], batch["token_type_ids"], batch["mask"]
    )
    real = np.asarray(batch["mask"])
    for ours, other in zip(hidden, theirs.hidden_states, strict=True):
        np.testing.assert_allclose(np.asarray(ours)[real], other.numpy()[real], atol=1e-4)
    assert attention.shape == (config.layers, 4, config.heads, 64, 64)


def test_initial_values_are_truncated_normals():
    params = heads.init_params(CONFIG, COMPUTE, jax.random.key(0))
    for path in (("embeddings", "word", "embedding"), ("layers", "ffn", "up", "kernel"), ("nsp", "dense", "kernel")):
        values = params
        for name in path:
            values = values[name]
        assert np.abs(values).max() <= 2 * CONFIG.init_std
        assert 0.7 * CONFIG.init_std < np.std(values) < 1.0 * CONFIG.init_std  # 0.88 for a cut at two deviations
    assert np.all(params["layers"]["ffn"]["norm"]["scale"] == 1)
    assert np.all(params["layers"]["attention"]["query"]["bias"] == 0)
    first, second = params["layers"]["ffn"]["up"]["kernel"][:2]
    assert not np.allclose(first, second)


def logits_and_grads(params, batch, compute, key):
    def loss(params):
        mlm, nsp = heads.pretraining_logits(params, CONFIG, compute, batch, key)
        return jnp.mean(jnp.square(mlm[..., : CONFIG.vocab_size])) + jnp.mean(jnp.square(nsp))

    return jax.jit(jax.value_and_grad(loss))(params)


@pytest.mark.parametrize(
    "compute", [*(ComputeConfig(remat=policy) for policy in REMAT_POLICIES), ComputeConfig(scan_layers=False)]
)
def test_scan_and_remat_change_nothing_with_dropout(compute):
    params, batch, key = perturbed_params(CONFIG), random_batch(CONFIG), jax.random.key(5)
    loss, grads = logits_and_grads(params, batch, COMPUTE, key)
    other_loss, other_grads = logits_and_grads(params, batch, compute, key)
    np.testing.assert_allclose(loss, other_loss, rtol=1e-6)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6, rtol=1e-4), grads, other_grads)


def test_remat_really_recomputes():
    """Each policy keeps less than the one before, and `elementwise` repeats neither products nor draws."""
    params, batch, key = perturbed_params(CONFIG), random_batch(CONFIG), jax.random.key(5)

    def cost(policy):
        compute = ComputeConfig(remat=policy)
        logits = lambda params: heads.pretraining_logits(params, CONFIG, compute, batch, key)  # noqa: E731
        grad = jax.grad(lambda params: logits(params)[0][..., : CONFIG.vocab_size].sum())
        text = str(jax.make_jaxpr(grad)(params))
        memory = jax.jit(grad).lower(params).compile().memory_analysis().temp_size_in_bytes
        return memory, text.count("dot_general"), text.count("random_bits")

    none, elementwise, dots, full = (cost(policy) for policy in ("none", "elementwise", "dots", "full"))
    assert none[0] > elementwise[0] > dots[0] >= full[0]
    assert none[1:] == elementwise[1:]
    assert elementwise[1] < dots[1] < full[1] and elementwise[2] < dots[2]


def test_padding_changes_nothing():
    params, batch = perturbed_params(CONFIG), random_batch(CONFIG)
    base = heads.pretraining_logits(params, CONFIG, COMPUTE, batch)
    other_ids = jnp.where(batch["mask"], batch["input_ids"], 17)
    other_types = jnp.where(batch["mask"], batch["token_type_ids"], 1)
    changed = heads.pretraining_logits(
        params, CONFIG, COMPUTE, batch | {"input_ids": other_ids, "token_type_ids": other_types}
    )
    longer = {k: jnp.pad(batch[k], ((0, 0), (0, 9))) for k in ("input_ids", "token_type_ids", "mask")}
    padded = heads.pretraining_logits(params, CONFIG, COMPUTE, batch | longer)
    for ours, other, wider in zip(base, changed, padded, strict=True):
        np.testing.assert_array_equal(ours, other)
        np.testing.assert_allclose(ours, wider, atol=1e-6)


def test_a_row_of_padding_is_finite():
    params, batch = perturbed_params(CONFIG), random_batch(CONFIG)
    batch = batch | {"mask": jnp.zeros_like(batch["mask"])}
    loss, grads = logits_and_grads(params, batch, COMPUTE, None)
    assert np.isfinite(loss)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(grads))


def test_an_id_outside_the_vocabulary_is_loud():
    params, batch = perturbed_params(CONFIG), random_batch(CONFIG)
    for bad in (CONFIG.vocab_size, CONFIG.padded_vocab_size - 1, CONFIG.padded_vocab_size, CONFIG.vocab_size + 1000):
        ids = batch["input_ids"].at[1, 2].set(bad)
        mlm = heads.pretraining_logits(params, CONFIG, COMPUTE, batch | {"input_ids": ids})[0][..., : CONFIG.vocab_size]
        assert np.isnan(mlm[1]).all() and np.isfinite(mlm[0]).all()


def test_rows_are_independent_and_positions_matter():
    params, batch = perturbed_params(CONFIG), random_batch(CONFIG)
    mlm, nsp = heads.pretraining_logits(params, CONFIG, COMPUTE, batch)
    ids = batch["input_ids"].at[0, 1].set(5).at[0, 2].set(6)
    other_mlm, other_nsp = heads.pretraining_logits(params, CONFIG, COMPUTE, batch | {"input_ids": ids})
    np.testing.assert_array_equal(mlm[1:], other_mlm[1:])
    np.testing.assert_array_equal(nsp[1:], other_nsp[1:])
    swapped = batch["input_ids"].at[0, 1].set(6).at[0, 2].set(5)
    swapped_mlm, _ = heads.pretraining_logits(params, CONFIG, COMPUTE, batch | {"input_ids": swapped})
    assert np.abs(swapped_mlm[0] - other_mlm[0])[..., : CONFIG.vocab_size].max() > 1e-4


def test_bfloat16_stays_near_float32_and_keeps_float32_outputs():
    params, batch = perturbed_params(CONFIG), random_batch(CONFIG)
    full = heads.pretraining_logits(params, CONFIG, COMPUTE, batch)
    half = heads.pretraining_logits(params, CONFIG, ComputeConfig(dtype="bfloat16"), batch)
    for a, b in zip(full, half, strict=True):
        assert b.dtype == jnp.float32
        real = np.isfinite(a)  # not so a padded vocabulary's added rows
        assert 0 < np.abs(a - b)[real].max() < 0.1
    grads = logits_and_grads(params, batch, ComputeConfig(dtype="bfloat16"), None)[1]
    assert {leaf.dtype for leaf in jax.tree.leaves(grads)} == {jnp.dtype("float32")}


def test_dropout_needs_a_key_and_keeps_the_mean():
    from bert_jax.model import layers

    x = jnp.ones((400, 500))
    y = layers.dropout(x, jax.random.key(0, impl="rbg"), 0.1)
    assert set(np.unique(y)) == {np.float32(0), np.float32(1 / 0.9)}
    assert abs(float(y.mean()) - 1) < 3e-3
    assert layers.dropout(x, None, 0.1) is x


def test_only_gathered_positions_reach_the_vocabulary():
    """Cases B13: no [B, L, V] array in the compiled program."""
    batch = random_batch(CONFIG)
    params = perturbed_params(CONFIG)
    lowered = jax.jit(lambda p, b: heads.pretraining_logits(p, CONFIG, COMPUTE, b)).lower(params, batch)
    text = lowered.compile().as_text()
    assert f"[3,4,{CONFIG.padded_vocab_size}]" in text
    assert f"[3,24,{CONFIG.padded_vocab_size}]" not in text


def test_too_long_input_names_length_and_limit():
    params = perturbed_params(CONFIG)
    batch = random_batch(CONFIG, length=41)
    with pytest.raises(UserError, match=r"41 tokens.*max_positions is 40"):
        heads.pretraining_logits(params, CONFIG, COMPUTE, batch)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"heads": 5}, "no multiple"),
        ({"activation": "geglu"}, "activation"),
        ({"dropout": 1.0}, "dropout"),
        ({"layers": 0}, "layers"),
        ({"vocab_multiple": 0}, "vocab_multiple"),
        ({"sentence_head": "rtd"}, "sentence_head 'rtd': expected one of nsp, sop, none"),
    ],
)
def test_impossible_architectures_are_refused(change, message):
    with pytest.raises(UserError, match=message):
        dataclasses.replace(CONFIG, **change)
