"""What the step knows of the vocabulary: where words start, and that padded rows change nothing in training."""

import dataclasses
import functools
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bert_jax import step as steps
from bert_jax.data.masking import MaskingConfig
from bert_jax.optim import OptimizerConfig
from bert_jax.randomness import Purpose
from tests.model import packed
from tests.test_step_packed import MODEL, VOCABULARY, settings

V = MODEL.vocab_size
OPTIMIZERS = {
    "adamw": OptimizerConfig(weight_decay=0.1, clip_norm=0.5),
    "lamb": OptimizerConfig("lamb", bias_correction=True, weight_decay=0.1, clip_norm=0.5),
}


def batch_of(seed):
    members, _ = packed.random_pieces(V, packed.ROWS, seed)
    return {name: values[:8] for name, values in packed.alone(members).items()}


@functools.cache
def trained(optimizer, multiple):
    """(state after six updates, their metrics), dropout on."""
    config = settings(vocab_multiple=multiple, dropout=0.1, attention_dropout=0.1)
    config = dataclasses.replace(config, optimizer=OPTIMIZERS[optimizer])
    step, state, lines = jax.jit(steps.make_train_step(config, config.phases[0], VOCABULARY)), None, []
    state = steps.init_state(config)
    for seed in range(6):
        state, metrics = step(state, batch_of(seed))
        lines.append({name: float(value) for name, value in metrics.items()})
    return state, lines


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_padded_rows_change_nothing_in_training(optimizer):
    """The trajectory is that without them, and they stay 0, with their moments: decay, LAMB's norms and the norms
    of gradient and parameters do not see them."""
    padded, lines = trained(optimizer, 128)
    plain, plain_lines = trained(optimizer, 1)
    for line, plain_line in zip(lines, plain_lines, strict=True):
        for name, value in plain_line.items():
            np.testing.assert_allclose(line[name], value, rtol=2e-5, err_msg=name)
    assert lines[0]["loss"] != lines[5]["loss"] and lines[5]["bad"] == 0

    def compare(path, ours, expected):
        name = jax.tree_util.keystr(path, simple=True, separator="/")
        if ours.shape != expected.shape:
            assert ours.shape[0] == 128 and not np.any(ours[V:]), name
            ours = ours[:V]
        np.testing.assert_allclose(ours, expected, rtol=1e-3, atol=2e-5, err_msg=name)

    of = lambda state: {"params": state["params"], "mu": state["opt_state"]["mu"]}  # noqa: E731
    jax.tree_util.tree_map_with_path(compare, of(padded), of(plain))
    for moments in (padded["opt_state"][name] for name in ("mu", "nu")):
        assert not np.any(moments["embeddings"]["word"]["embedding"][V:]) and not np.any(moments["mlm"]["bias"][V:])


@pytest.mark.parametrize("bad", [V, 127, 128, 60_000])
def test_an_id_of_no_token_is_a_bad_step_also_where_a_padded_row_is(bad):
    """All words are masked, so that only the label holds it (in plain sight: tests/model/test_encoder.py)."""
    config = settings(MaskingConfig(packed.LENGTH, rate=1.0, mask_share=1.0, random_share=0.0))
    step = jax.jit(steps.make_train_step(config, config.phases[0], VOCABULARY))
    batch = batch_of(0)
    batch["input_ids"][2, 1] = bad
    state = steps.init_state(config)
    after, metrics = step(state, batch)
    assert metrics["bad"] == 1 and not np.isfinite(metrics["loss"])
    jax.tree.map(np.testing.assert_array_equal, after["params"], state["params"])


def tokenizer(is_word_start):
    known = {"pad_id": 0, "cls_id": 1, "sep_id": 2, "mask_id": 3, "ordinary_ids": np.arange(5, V)}
    return types.SimpleNamespace(**known, is_word_start=is_word_start)


def test_the_vocabulary_tells_where_words_start():
    starts = np.arange(V) % 3 > 0
    vocabulary = steps.Vocabulary.of(tokenizer(starts))
    assert vocabulary == steps.Vocabulary.of(tokenizer(starts.copy())) and hash(vocabulary)
    assert vocabulary.word_starts == tuple(starts.tolist())
    assert steps.Vocabulary.of(tokenizer(None)).word_starts is None


def test_words_are_masked_wholly_or_not_at_all():
    """word_starts reach the masking: ids that are no multiple of 3 continue a word."""
    vocabulary = steps.Vocabulary.of(tokenizer(np.arange(V) % 3 == 0))
    masking = MaskingConfig(8, rate=0.3, mask_share=1.0, random_share=0.0, unit="word")
    batch = batch_of(1) | {"row_weight": jnp.ones(8)}
    drawn = steps.masked_batch(settings(), masking, vocabulary, batch, Purpose.TRAIN_MASKS, 0)
    continued = 0
    for ids, masked in zip(batch["input_ids"], np.asarray(drawn["input_ids"]) == 3, strict=True):
        for n in range(2, int(np.flatnonzero(ids == 2)[0])):
            if ids[n] % 3:
                continued += bool(masked[n])
                assert masked[n] == masked[n - 1]
    assert continued > 3
