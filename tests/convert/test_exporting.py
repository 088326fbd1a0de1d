"""The verb `export`: what goes in comes out, whole or not at all."""

import dataclasses
import json
import sys

import jax.numpy as jnp
import numpy as np
import pytest
import safetensors

from bert_jax.__main__ import main
from bert_jax.checkpoint import Checkpoints
from bert_jax.config import PretrainConfig
from bert_jax.convert import parity
from bert_jax.convert.exporting import export_model
from bert_jax.convert.weights import find_weights, read_weights
from bert_jax.errors import UserError
from bert_jax.initial import initial_params
from bert_jax.models import load_model
from tests.convert.exported import TASKS, loaded_without_remarks, random_model
from tests.e2e.conftest import finished_run


def architecture(folder):
    return json.loads((folder / "config.json").read_text())["architectures"][0]


def assert_same_tensors(folder, other):
    ours, theirs = (read_weights(find_weights(path)) for path in (folder, other))
    assert ours.keys() == theirs.keys()
    for name, array in ours.items():
        np.testing.assert_array_equal(array, theirs[name])


@pytest.mark.parity
@pytest.mark.parametrize(
    ("choice", "name"), [("none", "BertModel"), ("mlm", "BertForMaskedLM"), ("pretraining", "BertForPreTraining")]
)
def test_a_pretrained_run_loads_in_transformers_without_remarks(tmp_path, capsys, choice, name):
    pytest.importorskip("torch")
    out = tmp_path / "made" / "out"
    command = ["export", f"--checkpoint={finished_run()}", f"--out={out}", f"--head={choice}", "--verify=transformers"]
    assert main(command) == 0
    told = capsys.readouterr().out
    assert "largest difference to transformers: " in told and f"exported: {out}" in told
    assert type(loaded_without_remarks(out)).__name__ == name
    assert [path.name for path in out.parent.iterdir()] == ["out"]


@pytest.mark.parametrize(
    ("head", "without", "name"),
    [
        (None, (), "BertForPreTraining"),
        (None, ("nsp",), "BertForMaskedLM"),
        (None, ("mlm",), "BertModel"),
        (TASKS[2], (), "BertForTokenClassification"),
        (TASKS[5], (), "BertModel"),
    ],
)
def test_by_default_all_heads_that_there_are_are_written(tmp_path, head, without, name):
    export_model(random_model(head, without), tmp_path / "out")
    assert architecture(tmp_path / "out") == name
    assert load_model(tmp_path / "out").head == head


def test_what_goes_in_comes_out_bit_for_bit(tmp_path):
    """Case E13: weights of a Hugging Face folder, as a run starts from them, before its first step."""
    export_model(random_model(max_positions=128), tmp_path / "theirs")
    model = load_model(tmp_path / "theirs")
    config = dataclasses.replace(PretrainConfig(), init_from=model.path, model=model.config)
    started = dataclasses.replace(model, params=initial_params(config, model.tokenizer, lambda line: None))
    export_model(started, tmp_path / "ours")
    assert_same_tensors(tmp_path / "ours", tmp_path / "theirs")
    assert main(["import", f"--checkpoint={tmp_path / 'ours'}", f"--out={tmp_path / 'imported'}"]) == 0
    export_model(load_model(tmp_path / "imported"), tmp_path / "again")
    assert_same_tensors(tmp_path / "again", tmp_path / "theirs")


def test_an_export_is_a_third_of_a_checkpoint(tmp_path):
    """Case E9: the two moments of each weight stay behind."""
    model = random_model(hidden=256, ffn=1024)
    export_model(model, tmp_path / "out")
    moments = {"opt_state": (model.params, model.params), "step": jnp.int32(1), "examples": jnp.uint32(1)}
    checkpoints = Checkpoints(tmp_path / "run")
    checkpoints.save({"params": model.params, **moments}, {"step": 1, "phase": 1, "heldout_loss": None})
    checkpoints.close()
    whole = sum(path.stat().st_size for path in (tmp_path / "run").rglob("*") if path.is_file())
    weights = (tmp_path / "out" / "model.safetensors").stat().st_size
    assert 0.25 < weights / whole < 0.4


def test_the_safetensors_package_alone_reads_bfloat16_whole_and_in_shards(tmp_path):
    """Case E6."""
    model, read = random_model(), {}
    for name, most in (("whole", 5.0), ("sharded", 2e-5)):
        export_model(model, tmp_path / name, dtype="bfloat16", max_shard_gb=most)
        files = sorted((tmp_path / name).glob("*.safetensors"))
        read[name] = dict(item for file in files for item in safetensors.deserialize(file.read_bytes()))
    assert len(files) > 2 and read["whole"] == read["sharded"]
    assert {tensor["dtype"] for tensor in read["whole"].values()} == {"BF16"}
    index = json.loads((tmp_path / "sharded" / "model.safetensors.index.json").read_text())
    assert index["weight_map"].keys() == read["whole"].keys() and set(index["weight_map"].values()) == {
        file.name for file in files
    }
    assert index["metadata"]["total_size"] == sum(len(tensor["data"]) for tensor in read["whole"].values())
    assert_same_tensors(tmp_path / "whole", tmp_path / "sharded")


@pytest.mark.parity
def test_transformers_loads_shards_and_bfloat16_without_remarks(tmp_path):
    torch = pytest.importorskip("torch")
    export_model(random_model(), tmp_path / "out", dtype="bfloat16", max_shard_gb=2e-5, with_transformers=True)
    assert loaded_without_remarks(tmp_path / "out").dtype == torch.bfloat16


def test_a_pooler_that_the_model_lacks_is_written_as_0_and_told(tmp_path):
    told = export_model(random_model(sentence_head="none"), tmp_path / "out", "none")
    assert told[0].startswith("BertModel has a pooler and this model has none: it is written as 0")
    assert not read_weights(tmp_path / "out" / "model.safetensors")["pooler.dense.weight"].any()
    assert told[0] in (tmp_path / "out" / "README.md").read_text()
    told = export_model(random_model(sentence_head="sop"), tmp_path / "sop", "pretraining")
    assert "in order (0) or swapped (1)" in told[0]


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ("mlm", "--head=mlm: random has no mlm; it has embeddings, layers, nsp, pooler"),
        ("pretraining", "--head=pretraining: random has no mlm; it has"),
        ("task", "--head=task: random has no task; it has"),
    ],
)
def test_a_head_that_the_model_lacks_is_refused(tmp_path, choice, message):
    with pytest.raises(UserError) as error:
        export_model(random_model(without=("mlm",)), tmp_path / "out", choice)
    assert str(error.value).startswith(message) and not list(tmp_path.iterdir())


def test_a_head_whose_pooler_is_missing_is_refused(tmp_path):
    with pytest.raises(UserError, match="--head=task: random has no pooler"):
        export_model(random_model(TASKS[0], without=("pooler", "nsp")), tmp_path / "out")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--out={taken}"], "exists and is not empty: name a new folder"),
        (["--out={taken}/file"], "exists and is not empty: name a new folder"),
        (["--out={taken}/file/below"], "cannot be written (Not a directory)"),
        (["--out=gs://bucket/folder"], "--out gs://bucket/folder: expected a folder of this machine"),
        (["--out={new}", "--max_shard_gb=0"], "--max_shard_gb=0.0: expected more than 0"),
        (["--out={new}", "--max_shard_gb=nan"], "--max_shard_gb=nan: expected more than 0"),
        (["--out={new}", "--head=task"], "has no task; it has embeddings, layers, mlm, nsp, pooler"),
    ],
)
def test_bad_input_is_told_in_one_line(tmp_path, capsys, arguments, message):
    (tmp_path / "file").write_text("kept")
    filled = [argument.format(taken=tmp_path, new=tmp_path / "new") for argument in arguments]
    assert main(["export", f"--checkpoint={finished_run()}", *filled]) == 2
    told = capsys.readouterr().err
    assert message in told and told.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_checkpoint_that_is_none_is_told_in_one_line(tmp_path, capsys):
    assert main(["export", f"--checkpoint={tmp_path / 'none'}", f"--out={tmp_path / 'out'}"]) == 2
    assert capsys.readouterr().err.endswith("none: no such folder\n")


def test_transformers_is_asked_for_by_name(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(UserError, match="--verify=transformers: torch is not installed"):
        export_model(random_model(), tmp_path / "out", with_transformers=True)
    assert not list(tmp_path.iterdir())


def test_an_export_that_is_killed_leaves_nothing_that_looks_whole(tmp_path, monkeypatch):
    (tmp_path / "out.partial").mkdir()
    (tmp_path / "out.partial" / "junk").write_text("of an export that was killed")
    (tmp_path / "out").mkdir()  # empty: may be filled
    check, seen = parity.check_export, []

    def watched(folder, *arguments):
        seen.extend((folder.name, list((tmp_path / "out").iterdir())))
        return check(folder, *arguments)

    monkeypatch.setattr(parity, "check_export", watched)
    export_model(random_model(), tmp_path / "out")
    assert seen == ["out.partial", []]
    assert [path.name for path in tmp_path.iterdir()] == ["out"] and not (tmp_path / "out" / "junk").exists()
