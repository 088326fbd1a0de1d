"""Heads of tasks: packed rows give what single rows give, and neighbours change nothing."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bert_jax.errors import UserError
from bert_jax.model import encoder
from bert_jax.model.presets import ComputeConfig
from bert_jax.model.task_heads import HeadConfig, init_head, task_outputs, unit
from tests.model.test_encoder import CONFIG, perturbed_params, random_batch

LENGTHS, WIDTH = (5, 9, 4, 12, 7), 16
ROWS, STARTS = np.array([0, 0, 1, 1, 2]), np.array([0, 5, 0, 4, 0])  # where the texts stand in packed rows
COMPUTES = [ComputeConfig(), ComputeConfig(scan_layers=False, remat="none")]
HEADS = [
    HeadConfig("classify", ("a", "b", "c")),
    HeadConfig("regress"),
    HeadConfig("choose"),
    HeadConfig("tag", ("O", "B")),
    HeadConfig("answer"),
]


def params_for(head):
    params = perturbed_params(CONFIG)
    if head.outputs:
        params["task"] = init_head(CONFIG, COMPUTES[0], head.outputs, jax.random.key(5))
    return params


def both_batches():
    """(a text a row, the same texts packed) as batches of `task_outputs`."""
    rng = np.random.default_rng(3)
    single = {name: np.zeros((len(LENGTHS), WIDTH), np.int32) for name in ("input_ids", "token_type_ids")}
    single["mask"] = np.arange(WIDTH) < np.array(LENGTHS)[:, None]
    packed = {name: np.zeros((3, WIDTH), np.int32) for name in ("input_ids", "token_type_ids")}
    packed["piece_ids"] = np.full((3, WIDTH), -1, np.int32)
    for n, length in enumerate(LENGTHS):
        values = rng.integers(1, CONFIG.vocab_size, length)
        types = np.arange(length) >= length // 2
        at = ROWS[n], slice(STARTS[n], STARTS[n] + length)
        for name, array in (("input_ids", values), ("token_type_ids", types)):
            single[name][n, :length] = array
            packed[name][at] = array
        packed["piece_ids"][at] = n
    packed |= {"piece_rows": ROWS, "piece_starts": STARTS}
    return tuple(jax.tree.map(jnp.asarray, batch) for batch in (single, packed))


@pytest.mark.parametrize("compute", COMPUTES)
@pytest.mark.parametrize("head", HEADS, ids=lambda head: head.kind)
def test_packed_texts_give_what_each_gives_alone(head, compute):
    params, (single, packed) = params_for(head), both_batches()
    alone, together = (task_outputs(params, CONFIG, compute, head, batch) for batch in (single, packed))
    if head.kind in ("tag", "answer"):
        for n, length in enumerate(LENGTHS):
            np.testing.assert_allclose(together[ROWS[n], STARTS[n] : STARTS[n] + length], alone[n, :length], atol=1e-5)
    else:
        np.testing.assert_allclose(together, alone, atol=1e-5)


@pytest.mark.parametrize("compute", COMPUTES)
def test_the_last_layer_at_chosen_tokens_is_that_of_the_whole(compute):
    config = dataclasses.replace(CONFIG, dropout=0.0, attention_dropout=0.0)
    params, batch = perturbed_params(config), random_batch(config)
    inputs = batch["input_ids"], batch["token_type_ids"], batch["mask"]
    places = jnp.array([0, 1, 2, 1]), jnp.array([0, 0, 3, 5])
    whole = encoder.encode(params, config, compute, *inputs)
    np.testing.assert_allclose(
        encoder.encode(params, config, compute, *inputs, places=places), whole[places], atol=1e-5
    )

    def loss(params, chosen):
        states = encoder.encode(params, config, compute, *inputs, places=places if chosen else None)
        return jnp.sum(jnp.sin(states if chosen else states[places]))

    gradients = (jax.grad(loss)(params, chosen) for chosen in (True, False))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-4), *gradients)


def test_a_vector_of_nothing_has_a_finite_gradient():
    gradient = jax.grad(lambda x: unit(x).sum())(jnp.zeros((2, 4)))
    assert jnp.isfinite(gradient).all() and not unit(jnp.zeros((2, 4))).any()


@pytest.mark.parametrize("pooling", ["mean", "cls", "max"])
def test_vectors_are_pooled_of_real_tokens_alone(pooling):
    head, (single, _) = HeadConfig("embed", pooling=pooling), both_batches()
    params = params_for(head)
    inputs = single["input_ids"], single["token_type_ids"], single["mask"]
    hidden = encoder.encode(params, CONFIG, COMPUTES[0], *inputs)
    found = task_outputs(params, CONFIG, COMPUTES[0], head, single)
    for row, length in enumerate(LENGTHS):
        tokens = np.asarray(hidden[row, :length])
        expected = {"mean": tokens.mean(0), "cls": tokens[0], "max": tokens.max(0)}[pooling]
        np.testing.assert_allclose(found[row], expected, atol=1e-5)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kind": "guess"}, "expected one of classify"),
        ({"kind": "classify"}, "0 labels"),
        ({"kind": "regress", "labels": ("a",)}, "1 labels"),
        ({"kind": "tag", "labels": ("a", "a")}, "stands twice"),
        ({"kind": "embed", "pooling": "median"}, "pooling 'median'"),
    ],
)
def test_heads_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(UserError, match=message):
        HeadConfig(**settings)
