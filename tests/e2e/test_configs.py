"""Every recipe runs in its debug form, and those of the paper hold its figures."""

import json

import pytest

from bert_jax import config
from bert_jax.schedules import make_schedule
from tests.e2e.conftest import REPOSITORY, metrics, prepared, run_here, vocab_size

RECIPES = sorted(path.stem for path in (REPOSITORY / "configs").glob("*.py"))


def load(name, *overrides):
    return config.load([f"--config={REPOSITORY / 'configs' / name}.py", *overrides])


@pytest.mark.parametrize("name", RECIPES)
def test_the_debug_form_runs(name, tmp_path):
    phases = load(name).phases
    data = [f"--config.phases.phase{n}.data={prepared(phase.length)}" for n, phase in enumerate(phases, 1)]
    arguments = [
        f"--config={REPOSITORY / 'configs' / name}.py:debug",
        f"--config.model.vocab_size={vocab_size()}",
        *data,
    ]
    assert run_here("pretrain", *arguments, f"--workdir={tmp_path}") == 0
    steps = [line["step"] for line in metrics(tmp_path, "train")]
    assert steps == list(range(1, 3 * len(phases) + 1))
    saved = json.loads((tmp_path / "config.json").read_text())
    assert [phase["length"] for phase in saved["phases"]] == [phase.length for phase in phases]


@pytest.mark.parametrize("name", RECIPES)
def test_the_docstring_has_the_command_and_the_deviations(name):
    text = (REPOSITORY / "configs" / f"{name}.py").read_text()
    assert f"configs/{name}.py" in text or f"launch/{name}.sh" in text
    assert "Deviations from the paper:" in text


@pytest.mark.parametrize(
    ("name", "layers", "hidden", "heads"), [("bert_base", 12, 768, 12), ("bert_large", 24, 1024, 16)]
)
def test_the_papers_recipe(name, layers, hidden, heads):
    """Devlin et al. 2019, appendix A.2, and google-research/bert (optimization.py, create_pretraining_data.py)."""
    settings = load(name)
    model, optimizer, schedule = settings.model, settings.optimizer, settings.schedule
    assert (model.layers, model.hidden, model.heads, model.ffn) == (layers, hidden, heads, 4 * hidden)
    assert (model.vocab_size, model.max_positions, model.segment_types) == (30522, 512, 2)
    assert (model.dropout, model.attention_dropout, model.norm_eps, model.init_std) == (0.1, 0.1, 1e-12, 0.02)
    assert model.activation == "gelu_tanh"
    first, second = settings.phases
    assert (first.length, first.steps, first.batch_size) == (128, 900_000, 256)
    assert (second.length, second.steps, second.batch_size) == (512, 100_000, 256)
    assert (first.masking.max_predictions, second.masking.max_predictions) == (20, 77)
    for phase in settings.phases:
        masking = phase.masking
        assert (masking.rate, masking.mask_share, masking.random_share) == (0.15, 0.8, 0.1)
        assert phase.eval_masking == masking
    assert (optimizer.name, optimizer.b1, optimizer.b2, optimizer.eps) == ("adamw", 0.9, 0.999, 1e-6)
    assert (optimizer.bias_correction, optimizer.weight_decay, optimizer.clip_norm) == (False, 0.01, 1.0)
    rate = make_schedule(schedule)
    for step, expected in ((0, 0), (9_999, 9.999e-5), (10_000, 9.9e-5), (500_000, 5e-5), (1_000_000, 0)):
        assert rate(step) == pytest.approx(expected, rel=1e-9)


def test_the_schedule_spans_the_phases_that_the_user_sets():
    assert load("bert_base", "--config.phases.phase2.steps=7").schedule.total_steps == 900_007


def test_512_throughout():
    (phase,) = load("bert_base_512").phases
    assert (phase.length, phase.steps, phase.batch_size, phase.masking.max_predictions) == (512, 1_000_000, 256, 77)
