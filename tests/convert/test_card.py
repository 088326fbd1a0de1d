"""The model card tells what is known, and that the code in it runs."""

import dataclasses
import re

import pytest
import yaml

from bert_jax.convert.exporting import export_model
from bert_jax.models import load_model
from tests.convert.exported import TASKS, random_model
from tests.e2e.conftest import finished_run, folder, prepared


def card_of(model, out, choice=None):
    """(front matter, text) of the card of an export."""
    export_model(model, out, choice)
    _, front, text = (out / "README.md").read_text().split("---\n", 2)
    return yaml.safe_load(front), text


def test_the_card_of_a_run_tells_its_data_config_metrics_and_parity(tmp_path):
    prepared()
    front, text = card_of(load_model(finished_run()), tmp_path / "bert-made-up")
    assert front == {
        "library_name": "transformers",
        "pipeline_tag": "fill-mask",
        "tags": ["bert"],
    }  # no licence, none known
    assert "# bert-made-up" in text and "from step 6 of a run" in text
    assert "6 updates of 8 rows of 32 tokens" in text and "120 documents" in text and "corpus-120.txt" in text
    assert re.search(r"held-out text, after step 6: mlm_loss \d\.\d{4}, mlm_accuracy 0\.\d{4}, nsp_loss", text)
    assert "read back by bert-jax: equal bit for bit" in text and "second forward pass in float64: " in text
    assert '"warmup_steps": 2' in text and "--checkpoint=bert-made-up" in text
    assert str(folder()) not in text  # the card is published: where files lay is nobody's business


def test_an_earlier_checkpoint_has_its_own_results(tmp_path):
    _, text = card_of(load_model(finished_run() / "checkpoints" / "4"), tmp_path / "out")
    assert "held-out text, after step 4: " in text and "after step 6" not in text


def test_data_that_is_gone_is_told_by_its_settings(tmp_path):
    model = load_model(finished_run())
    phase = model.record["config"]["phases"][0] | {"data": "gone/wiki,weight=2;gone/books,weight=1"}
    config = model.record["config"] | {"phases": [phase]}
    model = dataclasses.replace(model, record=model.record | {"config": config})
    _, text = card_of(model, tmp_path / "out")
    assert "tokens from wiki (weight 2.0)\n" in text and "tokens from books (weight 1.0)\n" in text
    assert '"data": "wiki,weight=2;books,weight=1"' in text


def test_the_card_of_a_fine_tuned_model_tells_task_scores_and_labels(tmp_path):
    finetune = {
        "task": {"name": "cola", "data": "/home/me/glue/CoLA"},
        "frozen": "embeddings/.*",
        "learning_rate": 5e-5,
    }
    record = {
        "step": 9,
        "scores": {"validation": {"matthews": 0.25}},
        "config": {"finetune": finetune, "examples": 8551},
    }
    model = dataclasses.replace(random_model(TASKS[0]), record=record)
    front, text = card_of(model, tmp_path / "out")
    assert front["pipeline_tag"] == "text-classification"
    assert "- 8,551 examples of the task cola from CoLA" in text and "- validation: matthews 0.2500" in text
    assert "- 0: zebra\n- 1: ape\n- 2: Café" in text
    assert '"frozen": "embeddings/.*"' in text and "/home/me" not in text


def test_a_model_of_others_is_told_by_its_folder(tmp_path):
    export_model(random_model(), tmp_path / "first")
    _, text = card_of(load_model(tmp_path / "first"), tmp_path / "second")
    assert "Exported by bert-jax from first." in text and str(tmp_path) not in text
    assert "## Settings" not in text and "## Results" not in text


@pytest.mark.parity
@pytest.mark.parametrize("head", [None, TASKS[0], TASKS[5]], ids=["pretraining", "classify", "embed"])
def test_the_code_of_the_card_runs(tmp_path, monkeypatch, head):
    pytest.importorskip("torch")
    pytest.importorskip("sentence_transformers")
    front, text = card_of(random_model(head), tmp_path / "out")
    assert ("sentence-transformers" in front["tags"]) == (head is not None and head.kind == "embed")
    monkeypatch.chdir(tmp_path)
    made = {}
    exec(re.search(r"```python\n(.*?)```", text, re.S)[1], made)
    assert "outputs" in made or made["vectors"].shape == (2, 32)
