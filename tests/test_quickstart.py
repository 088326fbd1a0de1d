"""The quickstart in small, on a corpus of one's own: every part runs, and a second call reuses all of it."""

import json

import pytest

from bert_jax import quickstart
from tests.e2e.conftest import REPOSITORY, corpus, metrics, run_here

RECIPE = """
from bert_jax.recipes import phase, recipe, set_phases

def get_config(arg=""):
    config = recipe("tiny")
    config.model.update(vocab_size=200, hidden=32, ffn=64)
    set_phases(config, phase("", length=32, batch_size=8, steps=6))
    config.schedule.warmup_steps = 2
    config.update(log_every=2, eval_every=3, checkpoint_every=3, eval_batch_size=8)
    return config
"""


def test_every_part_runs_and_is_reused(tmp_path, monkeypatch, capsys):
    recipe, workdir = tmp_path / "recipe.py", tmp_path / "run"
    recipe.write_text(RECIPE)
    monkeypatch.setattr(quickstart, "CONFIG", recipe)
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "corpus.txt").write_bytes(corpus().read_bytes())
    monkeypatch.setattr("sys.argv", ["quickstart", f"--corpus={tmp_path / 'texts'}", f"--workdir={workdir}"])

    assert quickstart.main() == 0
    out = capsys.readouterr().out
    summary = json.loads((workdir / "summary.json").read_text())
    report = json.loads((workdir / "data" / "report.json").read_text())
    (heldout,) = [line for line in metrics(workdir, "heldout") if line["step"] == 6]
    assert summary["heldout_mlm_loss"] == heldout["mlm_loss"]
    assert summary["heldout_mlm_accuracy"] == heldout["mlm_accuracy"]
    assert summary["nsp_accuracy"] == heldout["nsp_accuracy"]
    assert summary["unigram_entropy"] == report["splits"]["validation"]["unigram_entropy"]
    steps = metrics(workdir, "train")
    assert summary["train_seconds"] == pytest.approx(2 * sum(line["step_seconds"] for line in steps))
    assert 0 < summary["train_seconds"] < summary["total_seconds"]
    assert all(sentence in out for sentence in quickstart.SENTENCES)
    assert str(workdir / "report.html") in out and (workdir / "report.html").exists()

    before = (workdir / "metrics.jsonl").read_bytes()
    assert quickstart.main() == 0
    again = json.loads((workdir / "summary.json").read_text())
    assert (workdir / "metrics.jsonl").read_bytes() == before
    assert {**again, "total_seconds": 0} == {**summary, "total_seconds": 0}

    # What it leaves is a checkpoint to go on from.
    sentences = [line for line in corpus().read_text().split("\n") if line][:60]
    usual = sorted(map(len, sentences))[30]
    rows = [{"text": text, "label": "long" if len(text) > usual else "short"} for text in sentences]
    (tmp_path / "train.jsonl").write_text("\n".join(map(json.dumps, rows)))
    tuned = ["--config.epochs=6", "--config.learning_rate=3e-3", f"--config.task.data={tmp_path / 'train.jsonl'}"]
    where = [f"--checkpoint={workdir}", f"--workdir={tmp_path / 'tuned'}", "--config.train_examples=0"]
    assert run_here("finetune", f"--config={REPOSITORY / 'configs' / 'classify.py'}:debug", *tuned, *where) == 0
    assert json.loads((tmp_path / "tuned" / "summary.json").read_text())["scores"]["validation"]["accuracy"] > 0.5


def test_a_missing_corpus_gets_one_line(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["quickstart", f"--corpus={tmp_path / 'none'}", f"--workdir={tmp_path / 'run'}"])
    assert quickstart.main() == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and str(tmp_path / "none") in err
