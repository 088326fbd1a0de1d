"""Phases are opened only where data, model and tokenizer fit each other; else one line names both sides."""

import functools

import pytest

from bert_jax import __main__ as command_line
from bert_jax import parallel, phases
from bert_jax.errors import UserError
from bert_jax.parallel import MeshConfig
from tests.e2e.conftest import LENGTH, corpus, folder, prepared, settings, vocabulary

KINDS = {
    "pairs": (),
    "sop": ("--kind=sop",),
    "full_sentences": ("--kind=full_sentences",),
    "packed": ("--kind=packed",),
    "packed_pairs": ("--kind=packed", "--pieces=pairs", "--piece_length=16"),
    "packed_sop": ("--kind=packed", "--pieces=sop", "--piece_length=16"),
}
HEADS = {"pairs": "nsp", "packed_pairs": "nsp", "sop": "sop", "packed_sop": "sop", "full_sentences": "none",
         "packed": "none"}  # fmt: skip


@functools.cache
def data_of(kind):
    """The corpus prepared as examples of that kind."""
    if kind == "pairs":
        return prepared()
    out = folder() / f"prepared-{kind}"
    arguments = [f"--source={corpus()}", f"--tokenizer={vocabulary()}", f"--out={out}", f"--length={LENGTH}"]
    command_line.run_verb("prepare", [*arguments, "--held_out=0.1", "--sentence_per_line", "--workers=1", *KINDS[kind]])
    return out


def opened(**overrides):
    return phases.open_phases(settings(**overrides), parallel.make_mesh(MeshConfig()))


def refused(**overrides):
    with pytest.raises(UserError) as caught:
        opened(**overrides)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("kind", KINDS)
def test_the_models_head_has_to_be_that_of_the_label(kind):
    data = data_of(kind)
    for head in ("nsp", "sop", "none"):
        overrides = {"phases__phase1__data": data, "model__sentence_head": head}
        if head == HEADS[kind]:
            (phase,) = opened(**overrides)
            assert phase.data.path == data
        else:
            line = refused(**overrides)
            label = {"nsp": "next_sentence_label", "sop": "sentence_order_label", "none": "no sentence label"}
            assert f"config.model.sentence_head is '{head}'" in line and str(data) in line
            assert label[HEADS[kind]] in line and f"--config.model.sentence_head={HEADS[kind]}" in line


@pytest.mark.parametrize("setting", ["masking", "eval_masking"])
def test_words_are_masked_only_where_the_tokenizer_tells_them(monkeypatch, setting):
    overrides = {f"phases__phase1__{setting}__unit": "word"}
    assert opened(**overrides)[0].vocabulary.word_starts is not None

    def tells_nothing(*arguments, **options):
        tokenizer = load_tokenizer(*arguments, **options)
        tokenizer.is_word_start = None
        return tokenizer

    load_tokenizer = phases.load_tokenizer
    monkeypatch.setattr(phases, "load_tokenizer", tells_nothing)
    line = refused(**overrides)
    assert f"config.phases.phase1.{setting}.unit is 'word'" in line and str(prepared() / "tokenizer") in line
    assert opened()[0].vocabulary.word_starts is None


def test_another_vocabulary_or_length_is_refused():
    assert "config.model.vocab_size is 7" in refused(model__vocab_size=7)
    assert "prepared at length 32" in refused(phases__phase1__length=16)
