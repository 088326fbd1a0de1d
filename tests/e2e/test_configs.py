"""Every recipe in configs/ is valid, runs in its debug form, and says what the paper says where it claims to."""

import math

import pytest

from bert_jax import config
from bert_jax.model import heads
from bert_jax.schedules import make_schedule
from bert_jax.tasks.config import FinetuneConfig
from tests.e2e.conftest import REPOSITORY, metrics, prepared, run_here, vocab_size

FINETUNING = ("classify", "embed", "glue", "ner", "squad", "swag")
FILES = sorted(file for file in (REPOSITORY / "configs").glob("*.py") if file.stem not in FINETUNING)
PAPER = {"bert_base": 110_106_428, "bert_large": 336_226_108}  # parameters with both heads, of google-research/bert


def named(names):
    return [file for file in FILES if file.stem in names]


def loaded(file, argument=""):
    return config.load([f"--config={file}{argument}"])


def test_the_recipes_are_there():
    expected = {"bert_tiny", "bert_mini", "bert_small", "bert_medium", "bert_base", "bert_base_512", "bert_large"}
    assert {file.stem for file in FILES} >= expected | {"quickstart"}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_recipe_is_valid_and_its_docstring_tells_how_to_run_it(file):
    settings = loaded(file)
    assert settings.schedule.total_steps == settings.total_steps and settings.schedule.warmup_steps > 0
    debug = loaded(file, ":debug")
    assert len(debug.phases) == len(settings.phases), "the same recipe in small"
    assert [phase.length for phase in debug.phases] == [phase.length for phase in settings.phases]
    assert debug.total_steps < 10 and debug.model.hidden <= 64
    docstring = file.read_text().split('"""')[1]
    assert f"--config=configs/{file.name}" in docstring or file.stem == "quickstart"
    assert "Hardware" in docstring or file.stem == "quickstart"


@pytest.mark.parametrize("name", FINETUNING)
def test_a_recipe_of_fine_tuning_is_valid(name):
    """Its debug form runs in tests/tasks/test_finetune.py and test_kinds.py."""
    file = REPOSITORY / "configs" / f"{name}.py"
    task, argument = {"glue": ("mrpc", ":mrpc"), "embed": ("ranking", ":ranking")}.get(name, (name, ""))
    settings = config.load([f"--config={file}{argument}"], FinetuneConfig)
    assert settings.task.name == task and settings.optimizer.bias_correction and settings.warmup == 0.1
    debug = config.load([f"--config={file}{argument or ':'}{',' * bool(argument)}debug"], FinetuneConfig)
    assert debug.epochs == 1 and debug.train_examples < 50
    docstring = file.read_text().split('"""')[1]
    assert f"--config=configs/{file.name}" in docstring and "Hardware" in docstring


@pytest.mark.slow
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_recipe_runs_in_its_debug_form(file, tmp_path):
    settings = loaded(file, ":debug")
    arguments = [f"--config={file}:debug", f"--config.model.vocab_size={vocab_size()}", f"--workdir={tmp_path}"]
    for number, phase in enumerate(settings.phases, 1):
        arguments.append(f"--config.phases.phase{number}.data={prepared(phase.length)}")
    assert run_here("pretrain", *arguments) == 0
    lines = metrics(tmp_path, "train")
    assert [line["step"] for line in lines] == list(range(1, settings.total_steps + 1))
    assert [line["phase"] for line in lines] == [
        number for number, phase in enumerate(settings.phases, 1) for _ in range(phase.steps)
    ]
    assert all(math.isfinite(line["loss"]) for line in lines) and metrics(tmp_path, "heldout")[-1]["step"] == len(lines)


# The paper's figures: DESIGN section 7; Devlin et al. 2019 and google-research/bert.


@pytest.mark.parametrize("file", named(PAPER), ids=lambda file: file.stem)
def test_the_papers_run(file):
    settings = loaded(file)
    short, long = settings.phases
    assert (short.length, short.batch_size, short.steps) == (128, 256, 900_000)
    assert (long.length, long.batch_size, long.steps) == (512, 256, 100_000)
    for phase, most in ((short, 20), (long, 77)):
        for masking in (phase.masking, phase.eval_masking):
            assert (masking.max_predictions, masking.rate) == (most, 0.15)
            assert (masking.mask_share, masking.random_share) == (0.8, 0.1)
    rate = make_schedule(settings.schedule)
    rates = {0: 0, 1: 1e-8, 9_999: 9.999e-5, 10_000: 9.9e-5, 500_000: 5e-5, 900_000: 1e-5, 999_999: 1e-10}
    assert {step: float(rate(step)) for step in rates} == pytest.approx(rates, rel=1e-12)
    o = settings.optimizer
    assert (o.name, o.b1, o.b2, o.eps, o.bias_correction) == ("adamw", 0.9, 0.999, 1e-6, False)
    assert (o.weight_decay, o.clip_norm) == (0.01, 1.0)


@pytest.mark.parametrize("file", named(PAPER), ids=lambda file: file.stem)
def test_the_papers_model(file):
    model = loaded(file).model
    sizes = {"bert_base": (12, 768, 12, 3072), "bert_large": (24, 1024, 16, 4096)}
    assert (model.layers, model.hidden, model.heads, model.ffn) == sizes[file.stem]
    assert (model.vocab_size, model.max_positions, model.segment_types) == (30522, 512, 2)
    assert (model.activation, model.norm_eps, model.init_std) == ("gelu_tanh", 1e-12, 0.02)
    assert (model.dropout, model.attention_dropout) == (0.1, 0.1)
    assert heads.parameter_count(model) == PAPER[file.stem]


def test_512_throughout():
    (phase,) = loaded(REPOSITORY / "configs" / "bert_base_512.py").phases
    assert (phase.length, phase.batch_size, phase.steps, phase.masking.max_predictions) == (512, 256, 1_000_000, 77)
