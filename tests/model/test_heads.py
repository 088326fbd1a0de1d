"""Pretraining heads: which of them a config has, and rows that only pad the vocabulary."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special

from bert_jax import losses
from bert_jax.model import encoder, heads
from tests.model.test_encoder import COMPUTE, CONFIG, perturbed_params, random_batch

V = CONFIG.vocab_size
UNPADDED = dataclasses.replace(CONFIG, vocab_multiple=1)


def cut(params):
    """The parameters without padded rows."""
    cut_rows = lambda path, leaf: leaf[:V] if leaf.shape[0] == CONFIG.padded_vocab_size else leaf  # noqa: E731
    return jax.tree_util.tree_map_with_path(cut_rows, params)


def init(config):
    return heads.init_params(config, COMPUTE, jax.random.key(0))


@pytest.mark.parametrize(
    ("size", "multiple", "padded"), [(211, 128, 256), (256, 128, 256), (257, 128, 384), (211, 1, 211), (1, 128, 128)]
)
def test_the_vocabulary_is_padded_to_the_next_multiple(size, multiple, padded):
    config = dataclasses.replace(CONFIG, vocab_size=size, vocab_multiple=multiple)
    assert config.padded_vocab_size == padded
    params = jax.eval_shape(lambda: init(config))
    assert params["embeddings"]["word"]["embedding"].shape == (padded, config.hidden)
    assert params["mlm"]["bias"].shape == (padded,)
    assert heads.parameter_count(config) == heads.parameter_count(dataclasses.replace(config, vocab_multiple=1))


def test_padding_changes_no_initial_value_and_is_zero():
    params, unpadded = init(CONFIG), init(UNPADDED)
    jax.tree.map(np.testing.assert_array_equal, cut(params), unpadded)
    assert not params["embeddings"]["word"]["embedding"][V:].any()


def loss_of(config, batch):
    """The function of parameters that gives the MLM loss of all positions."""

    def loss(params):
        mlm, _ = heads.pretraining_logits(params, config, COMPUTE, batch)
        labels = jnp.take_along_axis(batch["input_ids"], batch["positions"], axis=1)
        return losses.finish(losses.mlm_sums(mlm, labels, jnp.ones(labels.shape)))["loss"]

    return jax.jit(jax.value_and_grad(loss))


def test_padding_changes_neither_loss_nor_gradient():
    """Whatever stands in the padded rows; they are predicted with probability 0 and get no gradient, never NaN."""
    batch, params = random_batch(CONFIG), perturbed_params(CONFIG)  # noise in the padded rows too
    mlm, _ = heads.pretraining_logits(params, CONFIG, COMPUTE, batch)
    probabilities = scipy.special.softmax(np.asarray(mlm), axis=-1)
    assert (probabilities[..., V:] == 0).all() and np.isfinite(mlm[..., :V]).all()
    np.testing.assert_allclose(probabilities[..., :V].sum(axis=-1), 1, rtol=1e-5)
    loss, gradient = loss_of(CONFIG, batch)(params)
    loss_unpadded, gradient_unpadded = loss_of(UNPADDED, batch)(cut(params))
    np.testing.assert_allclose(loss, loss_unpadded, rtol=1e-6)
    close = lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-7)  # noqa: E731
    jax.tree.map(close, cut(gradient), gradient_unpadded)
    for padded in (gradient["embeddings"]["word"]["embedding"], gradient["mlm"]["bias"]):
        assert padded.shape[0] == 256 and (padded[V:] == 0).all()


def test_the_most_probable_of_bad_logits_is_a_token():
    """Biases far below 0, where a padded row with a logit of 0 would win."""
    params, batch = init(CONFIG), random_batch(CONFIG)
    params["mlm"]["bias"] = params["mlm"]["bias"] - 1e6
    mlm, _ = heads.pretraining_logits(params, CONFIG, COMPUTE, batch)
    assert (np.argmax(mlm, axis=-1) < V).all()


def test_parameters_of_another_multiple_compute_the_same():
    """As a checkpoint holds them: the forward pass follows the rows that there are."""
    params, batch = perturbed_params(CONFIG), random_batch(CONFIG)
    ours, sentence = heads.pretraining_logits(params, CONFIG, COMPUTE, batch)
    unpadded, sentence_unpadded = heads.pretraining_logits(cut(params), CONFIG, COMPUTE, batch)
    assert unpadded.shape[-1] == V
    np.testing.assert_allclose(ours[..., :V], unpadded, atol=1e-6)
    np.testing.assert_array_equal(sentence, sentence_unpadded)


def test_a_model_without_sentence_head_has_no_pooler_and_is_else_the_same():
    none = dataclasses.replace(CONFIG, sentence_head="none")
    params, whole, batch = init(none), init(CONFIG), random_batch(CONFIG)
    assert set(whole) - set(params) == {"pooler", "nsp"} and set(params) < set(whole)
    jax.tree.map(np.testing.assert_array_equal, params, {name: whole[name] for name in params})
    mlm, sentence = heads.pretraining_logits(params, none, COMPUTE, batch)
    assert sentence is None
    np.testing.assert_array_equal(mlm, heads.pretraining_logits(whole, CONFIG, COMPUTE, batch)[0])
    pooler, nsp = (CONFIG.hidden + 1) * CONFIG.hidden, (CONFIG.hidden + 1) * 2
    assert heads.parameter_count(CONFIG) - heads.parameter_count(none) == pooler + nsp


def test_a_sop_head_is_built_like_the_nsp_head():
    sop = dataclasses.replace(CONFIG, sentence_head="sop")
    jax.tree.map(np.testing.assert_array_equal, init(sop), init(CONFIG))


def test_rows_without_types_are_of_type_0():
    params, batch = perturbed_params(CONFIG), random_batch(CONFIG)
    zeros = batch | {"token_type_ids": jnp.zeros_like(batch["token_type_ids"])}
    without = {name: values for name, values in batch.items() if name != "token_type_ids"}
    expected, _ = heads.pretraining_logits(params, CONFIG, COMPUTE, zeros)
    np.testing.assert_allclose(heads.pretraining_logits(params, CONFIG, COMPUTE, without)[0], expected, atol=1e-6)

    def gradient(types):
        hidden = lambda params: encoder.encode(params, CONFIG, COMPUTE, batch["input_ids"], types, batch["mask"])  # noqa: E731
        return jax.grad(lambda params: jnp.sum(hidden(params) ** 3))(params)["embeddings"]["token_type"]["embedding"]

    np.testing.assert_allclose(gradient(None), gradient(zeros["token_type_ids"]), rtol=1e-4, atol=1e-4)
