"""An exported folder is proven by three that share little: our importer, a second forward pass, and transformers."""

import json

import numpy as np
import pytest

from bert_jax.convert import names, parity
from bert_jax.convert.exporting import export_model
from bert_jax.errors import UserError
from bert_jax.model.presets import EncoderConfig
from bert_jax.models import load_model
from tests.convert.exported import TASKS, loaded_without_remarks, random_model

CLOSE = 2e-5


def report_of(folder):
    return json.loads((folder / "parity.json").read_text())


@pytest.mark.parity
@pytest.mark.parametrize(
    ("choice", "settings"),
    [
        ("none", {}),
        ("mlm", {"activation": "gelu"}),
        ("mlm", {"tied_decoder": False}),
        ("mlm", {"sentence_head": "none"}),
        ("pretraining", {"activation": "relu"}),
        ("pretraining", {"tied_decoder": False, "norm_eps": 1e-5}),
        ("none", {"tied_decoder": False, "segment_types": 1}),
    ],
)
def test_pretrained_models_equal_transformers_and_load_without_remarks(tmp_path, choice, settings):
    """Cases E4 and E5: the decoder, its bias and the embeddings, tied or not."""
    pytest.importorskip("torch")
    model = random_model(**settings)
    export_model(model, tmp_path / "out", choice, with_transformers=True)
    report = report_of(tmp_path / "out")
    assert report["transformers"].keys() == report["numpy"].keys()
    assert max(*report["transformers"].values(), *report["numpy"].values()) < CLOSE
    theirs = loaded_without_remarks(tmp_path / "out")
    assert theirs.get_input_embeddings().weight.shape == (model.config.vocab_size, 32)  # no padded row
    if choice != "none":
        tied = theirs.get_output_embeddings().weight is theirs.get_input_embeddings().weight
        assert tied == model.config.tied_decoder


@pytest.mark.parity
@pytest.mark.parametrize("head", TASKS, ids=lambda head: f"{head.kind}-{head.pooling}")
def test_every_task_equals_transformers_and_loads_without_remarks(tmp_path, head):
    pytest.importorskip("torch")
    export_model(random_model(head), tmp_path / "out", with_transformers=True)
    report = report_of(tmp_path / "out")
    assert "task" in report["numpy"] and ("task" in report["transformers"]) == (head.kind != "embed")
    assert max(*report["transformers"].values(), *report["numpy"].values()) < CLOSE
    config = loaded_without_remarks(tmp_path / "out").config
    if head.labels:  # in the stored order (F1)
        assert [config.id2label[n] for n in range(len(head.labels))] == list(head.labels)
        assert config.label2id == {label: n for n, label in enumerate(head.labels)}
    if head.kind == "regress":
        assert (config.num_labels, config.problem_type) == (1, "regression")


@pytest.mark.parity
def test_real_weights(tmp_path, minilm, cassette):
    pytest.importorskip("torch")
    for name, folder in (("minilm", minilm), ("cassette", cassette)):
        export_model(load_model(folder), tmp_path / name, with_transformers=True)
        report = report_of(tmp_path / name)
        assert max(*report["transformers"].values(), *report["numpy"].values()) < 5e-5
        loaded_without_remarks(tmp_path / name)
    assert "mlm" in report["transformers"]


@pytest.mark.parametrize(
    "swap",
    [
        ("encoder.layer.{n}.attention.self.query", "encoder.layer.{n}.attention.self.key"),
        ("encoder.layer.{n}.attention.output.LayerNorm", "encoder.layer.{n}.output.LayerNorm"),
    ],
)
def test_a_mistake_in_the_table_of_names_is_found(tmp_path, monkeypatch, swap):
    """It serves both directions, so what is written reads back as it was: the second forward pass is what tells."""
    exchanged = dict(zip(swap, reversed(swap), strict=True))
    monkeypatch.setattr(
        names, "ENCODER", tuple((ours, exchanged.get(theirs, theirs)) for ours, theirs in names.ENCODER)
    )
    with pytest.raises(
        UserError, match=r"parity: hidden of the exported files differs by .* \(numpy\), expected 0.001"
    ):
        export_model(random_model(), tmp_path / "out", "mlm")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_weights_that_are_no_numbers_are_refused(tmp_path, value):
    """Case E7."""
    model = random_model()
    model.params["mlm"]["bias"] = model.params["mlm"]["bias"].at[5].set(value)
    with pytest.raises(UserError, match="parity: mlm of the exported files differs by nan"):
        export_model(model, tmp_path / "out", "mlm")
    assert not list(tmp_path.iterdir())


def test_a_file_that_reads_back_otherwise_is_refused(tmp_path, monkeypatch):
    write = names.to_theirs

    def damaged(*arguments):
        tensors = write(*arguments)
        name = "bert.encoder.layer.1.intermediate.dense.weight"
        return tensors | {name: np.nextafter(tensors[name], np.float32(1))}

    monkeypatch.setattr(names, "to_theirs", damaged)
    with pytest.raises(UserError, match="parity: layers/ffn/up/kernel does not read back as it was"):
        export_model(random_model(), tmp_path / "out", "mlm")


def test_bfloat16_is_compared_with_our_weights_as_they_were_rounded(tmp_path):
    export_model(random_model(), tmp_path / "out", "pretraining", dtype="bfloat16")
    report = report_of(tmp_path / "out")
    assert report["dtype"] == "bfloat16" and max(report["numpy"].values()) < CLOSE
    assert report["rounding"]["hidden"] > 100 * CLOSE


def test_the_inputs_have_padding_two_segments_and_several_lengths():
    inputs = parity.fixed_inputs(EncoderConfig())
    assert inputs["mask"].sum(1).tolist() == list(parity.LENGTHS)
    assert inputs["input_ids"].max() < 30522 and len(np.unique(inputs["input_ids"])) > 100
    assert all(set(types[mask]) == {0, 1} for types, mask in zip(inputs["token_type_ids"], inputs["mask"], strict=True))
    short = parity.fixed_inputs(EncoderConfig(max_positions=9, segment_types=1))
    assert short["input_ids"].shape == (4, 9) and not short["token_type_ids"].any()
