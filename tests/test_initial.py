"""Pretraining that goes on from another model's weights."""

import dataclasses

import jax
import numpy as np
import pytest

from bert_jax import checkpoint
from bert_jax.config import PretrainConfig
from bert_jax.convert import names
from bert_jax.errors import UserError
from bert_jax.initial import initial_params
from bert_jax.models import load_model
from bert_jax.text.added_words import extend_tokenizer, piece_of_word
from tests.e2e.conftest import finished_run, flags, metrics, run_here, settings


def config_for(model, **changes):
    shape = dataclasses.replace(model.config, **changes)
    return dataclasses.replace(PretrainConfig(), init_from=model.path, model=shape)


def test_weights_that_are_taken_stay_bit_for_bit(cassette):
    """Case E13: what goes in comes out, whatever the padding of the vocabulary; the pooler and NSP head are drawn."""
    model, told = load_model(cassette), []
    params = initial_params(config_for(model, vocab_multiple=512), model.tokenizer, told.append)
    assert told[0] == f"weights of {cassette}: embeddings, mlm, layers"
    assert told[1] == "drawn from seed 0: pooler, nsp"
    kept = {name: params[name] for name in model.params}
    before, after = (names.to_theirs(p, model.config) for p in (model.params, kept))
    assert before.keys() == after.keys()
    for name, array in before.items():
        np.testing.assert_array_equal(after[name], array)


def test_an_extended_vocabulary_keeps_the_old_rows(cassette):
    model, told = load_model(cassette), []
    pieces = [piece_of_word(model.tokenizer, word) for word in ("zymogen", "myocarditis")]
    extended, added = extend_tokenizer(model.tokenizer, pieces)
    config = config_for(model, vocab_size=extended.size)
    table = np.asarray(initial_params(config, extended, told.append)["embeddings"]["word"]["embedding"])
    old = np.asarray(model.params["embeddings"]["word"]["embedding"])
    changed = {word.id for word in added}
    same = [row for row in range(model.tokenizer.size) if row not in changed]
    np.testing.assert_array_equal(table[same], old[same])
    ids, _ = model.tokenizer.encode(["zymogen"])
    np.testing.assert_allclose(table[added[0].id], old[ids].mean(0), atol=1e-6)
    assert told[-1] == "vocabulary: 2 new words, each from the pieces that spelt it before"


def test_another_architecture_is_refused_with_the_flags_to_give(cassette):
    model = load_model(cassette)
    config = config_for(model, layers=3, activation="gelu_tanh")
    with pytest.raises(UserError, match=r"--config.model.layers=2 --config.model.activation=gelu$"):
        initial_params(config, model.tokenizer, print)


def test_a_run_goes_on_from_another_with_a_schedule_of_its_own(tmp_path, capsys):
    other = finished_run()
    arguments = [*flags(2, init_from=other), f"--workdir={tmp_path / 'run'}"]
    assert run_here("pretrain", *arguments) == 0
    assert f"weights of {other}: embeddings, pooler, mlm, nsp, layers" in capsys.readouterr().out
    assert [line["step"] for line in metrics(tmp_path / "run", "train")] == [1, 2]
    first = metrics(tmp_path / "run", "train")[0]
    params = checkpoint.restore_params(other / "checkpoints" / "6")
    norm = np.sqrt(sum(float((leaf**2).sum()) for leaf in jax.tree.leaves(params)))
    assert first["parameter_norm"] == pytest.approx(norm, rel=1e-6) and first["learning_rate"] == 0
    # The same command resumes; the other model is not read again.
    assert run_here("pretrain", *arguments) == 0
    assert "all 2 steps are done" in capsys.readouterr().out


def test_a_checkpoint_of_weights_alone_is_not_resumed(tmp_path, capsys):
    """Case E9: it has about a third of the bytes, and says what to do."""
    other = finished_run()
    record = checkpoint.read_record(other / "checkpoints" / "6")
    params = checkpoint.restore_params(other / "checkpoints" / "6")
    checkpoint.save_weights(tmp_path, params, record)
    jax.tree.map(np.testing.assert_array_equal, params, checkpoint.restore_params(tmp_path / "checkpoints" / "6"))
    assert run_here("pretrain", *flags(), f"--workdir={tmp_path}") == 2
    error = capsys.readouterr().err
    assert f"cannot be resumed: start from it in another folder, --config.init_from={tmp_path}" in error
    arrays = sum(leaf.nbytes for leaf in jax.tree.leaves(params))
    size = sum(file.stat().st_size for file in (tmp_path / "checkpoints").rglob("*") if file.is_file())
    assert size < 1.2 * arrays + 2**16
    assert settings().init_from == ""
