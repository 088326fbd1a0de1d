"""Runs on each kind of prepared data, from raw text to a prediction: what they measure, and that they resume."""

import numpy as np
import pytest

from bert_jax import train as training
from bert_jax.checkpoint import restore_params
from bert_jax.errors import Preempted, UserError
from bert_jax.fill_mask import mask_filler
from bert_jax.models import load_model
from tests.e2e.conftest import metrics, reproduced, settings
from tests.test_phases import HEADS, data_of
from tests.test_train import StopAfter


def run(workdir, kind, stop_after=None, **overrides):
    """Runs or resumes the tiny recipe on data of that kind; returns its held-out metrics, None where it was stopped."""
    overrides = {"phases__phase1__data": data_of(kind), "model__sentence_head": HEADS[kind]} | overrides
    try:
        stop = StopAfter(stop_after) if stop_after else None
        return training.train(settings(**overrides), workdir, stop=stop)
    except Preempted:
        return None


@pytest.mark.parametrize(
    "kind",
    ["packed", "packed_sop", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("sop", "full_sentences"))],
)
def test_a_run_on_each_kind_measures_its_heads_and_predicts(tmp_path, capsys, kind):
    heldout = run(tmp_path, kind, phases__phase1__masking__unit="word")
    head = HEADS[kind]
    measured = {name.split("_")[0] for name in heldout if name.endswith(("_loss", "_accuracy"))}
    assert measured == {"mlm", head} - {"none"}
    for line in metrics(tmp_path):
        assert {name for name in line if name.endswith("_loss")} == {f"{name}_loss" for name in measured}
        assert all(np.isfinite(line[f"{name}_loss"]) for name in measured)
    out = capsys.readouterr().out
    assert ("NSP" in out, "SOP" in out) == (head == "nsp", head == "sop")
    assert ("pooler" in restore_params(tmp_path / "checkpoints" / "6")) == (head != "none")
    predictor = mask_filler(load_model(tmp_path))
    (candidates,) = predictor.fill_mask(["[MASK] ba."], top=999)[0]["predictions"]
    assert sorted(c["id"] for c in candidates) == list(range(predictor.model.vocab_size))
    assert sum(c["probability"] for c in candidates) == pytest.approx(1, abs=1e-5)


def test_a_run_on_packed_pairs_stops_and_resumes_bit_for_bit(tmp_path):
    whole = run(tmp_path / "whole", "packed_pairs")
    run(tmp_path / "stopped", "packed_pairs", stop_after=3)
    assert run(tmp_path / "stopped", "packed_pairs") == whole and "nsp_accuracy" in whole
    assert reproduced(tmp_path / "stopped") == reproduced(tmp_path / "whole")


def test_a_run_does_not_go_on_with_another_head(tmp_path):
    run(tmp_path, "packed_pairs", stop_after=1)
    with pytest.raises(UserError, match=r"another architecture .sentence_head nsp -> none.*new --workdir"):
        run(tmp_path, "packed")
