"""Each kind of example trains, is scored, resumes and predicts; data sets mix; the wrong head is refused."""

import functools

import numpy as np
import pytest

from tests.e2e.conftest import LENGTH, corpus, flags, folder, metrics, prepared, run_here, vocabulary

KINDS = {
    "sop": (["--kind=sop"], "sop"),
    "full_sentences": (["--kind=full_sentences"], "none"),
    "packed-documents": (["--kind=packed"], "none"),
    "packed-pairs": (["--kind=packed", "--pieces=pairs", f"--piece_length={LENGTH // 2}"], "nsp"),
}


@functools.cache
def data_of(kind):
    out = folder() / f"kind-{kind}"
    options = [f"--source={corpus()}", f"--tokenizer={vocabulary()}", f"--out={out}", f"--length={LENGTH}"]
    assert run_here("prepare", *options, "--held_out=0.1", "--sentence_per_line", "--workers=1", *KINDS[kind][0]) == 0
    return out


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_trains_and_predicts(kind, tmp_path, capsys):
    head = KINDS[kind][1]
    # A packed row of four pieces masks one token in each at least.
    slots = {f"phases__phase1__{name}__max_predictions": 8 for name in ("masking", "eval_masking")}
    recipe = flags(model__sentence_head=head, phases__phase1__data=data_of(kind), **slots)
    assert run_here("pretrain", *recipe, f"--workdir={tmp_path / 'run'}") == 0
    for split in ("train", "heldout"):
        last = metrics(tmp_path / "run", split)[-1]
        assert np.isfinite(last["loss"]) and 0 < last["mlm_loss"] < 10
        assert {name.removesuffix("_loss") for name in last if name.endswith("_loss")} == {"mlm", head} - {"none"}
    capsys.readouterr()
    sentence = "[MASK] is here."
    assert run_here("predict", "--task=fill-mask", f"--checkpoint={tmp_path / 'run'}", sentence) == 0
    shown, predictions = capsys.readouterr().out.splitlines()
    assert shown == sentence and len(predictions.split()) == 10
    assert run_here("report", f"--workdir={tmp_path / 'run'}") == 0


def test_a_head_that_the_data_has_no_label_for_is_refused(tmp_path, capsys):
    recipe = flags(phases__phase1__data=data_of("full_sentences"))
    capsys.readouterr()
    assert run_here("pretrain", *recipe, f"--workdir={tmp_path / 'run'}") == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "sentence_head is 'nsp'" in error and "sentence_head=none" in error


@pytest.mark.slow
def test_two_data_sets_are_mixed_by_weight(tmp_path, capsys):
    mixed = f"{prepared()},weight=3;{prepared(documents=40)},weight=1"
    assert run_here("pretrain", *flags(phases__phase1__data=mixed), f"--workdir={tmp_path / 'run'}") == 0
    assert "75.0% from" in capsys.readouterr().out
    assert np.isfinite(metrics(tmp_path / "run", "heldout")[-1]["loss"])
    assert run_here("report", f"--workdir={tmp_path / 'run'}") == 0
    page = (tmp_path / "run" / "report.html").read_text()
    assert all(f"Phase 1: <code>{data}</code>" in page for data in (prepared(), prepared(documents=40)))
    assert "moved or removed" not in page
    capsys.readouterr()
    other = mixed.replace("weight=3", "weight=2")
    assert run_here("pretrain", *flags(phases__phase1__data=other), f"--workdir={tmp_path / 'run'}") == 2
    assert "is not the data of the run" in capsys.readouterr().err
