"""`bert-jax finetune` and `evaluate` as commands, on a task that a tiny model can learn."""

import json
import random
import shutil
import signal
import zipfile

import jax
import numpy as np
import pytest

from bert_jax import checkpoint
from bert_jax.finetune import halved
from bert_jax.models import load_model
from bert_jax.tasks import sweep
from bert_jax.tasks.config import FinetuneConfig, SweepConfig
from tests.e2e.conftest import REPOSITORY, Process, corpus, finished_run, folder, metrics, run_here

SIZES = {"train": 240, "dev": 61, "test": 33}  # no multiples of a batch


def examples(split):
    """A file of sentences of the corpus, labelled by which of two words was put into them."""
    path = folder() / "finetune" / f"{split}.jsonl"
    if not path.exists():
        draw = random.Random(split)
        sentences = corpus().read_text().replace("\n\n", "\n").split("\n")
        words = sorted({word for sentence in sentences for word in sentence.strip(".").split()})[:2]
        path.parent.mkdir(exist_ok=True)
        lines = []
        for _ in range(SIZES[split]):
            kind = draw.randrange(2)
            text = f"{words[kind]} {draw.choice(sentences)}"
            lines.append(json.dumps({"text": text, "label": ["ham", "spam"][kind]} | {"number": float(kind)}))
        path.write_text("\n".join(lines) + "\n")
    return path


def flags(**changes):
    settings = {
        **{"task.data": examples("train"), "task.validation": examples("dev"), "task.test": examples("test")},
        **{"length": 24, "epochs": 4, "learning_rate": 3e-3, "train_examples": 0, "dropout": 0.1, "log_every": 100},
        **{"batch_size": 16, "eval_batch_size": 16},
    } | {name.replace("__", "."): value for name, value in changes.items()}
    shown = [f"--config.{name}={value}" for name, value in settings.items()]
    return [f"--config={REPOSITORY / 'configs' / 'classify.py'}:debug", f"--checkpoint={finished_run()}", *shown]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    workdir = tmp_path_factory.mktemp("finetuned")
    assert run_here("finetune", *flags(), f"--workdir={workdir}") == 0
    return workdir


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_it_learns_and_leaves_the_best_weights(run):
    summary = json.loads((run / "summary.json").read_text())
    assert summary["scores"]["validation"]["accuracy"] > 0.9 and summary["degenerate"] == []
    heights = {line["step"]: line["accuracy"] for line in metrics(run, "validation")}
    assert list(heights) == [15, 30, 45, 60]
    assert summary["best_step"] == max(heights, key=heights.get) and checkpoint.resolve(run)[0] == run / "best"
    model = load_model(run)
    assert (
        model.head.labels == ("ham", "spam") and model.record["scores"]["validation"] == summary["scores"]["validation"]
    )
    truth = [line["label"] for line in lines(examples("dev"))]
    predicted = lines(run / "predictions" / "validation.jsonl")
    assert [line["index"] for line in predicted] == list(range(SIZES["dev"]))
    right = np.mean([line["label"] == label for line, label in zip(predicted, truth, strict=True)])
    assert right == pytest.approx(summary["scores"]["validation"]["accuracy"])
    assert len(lines(run / "predictions" / "test.jsonl")) == SIZES["test"]


def test_evaluating_alone_gives_the_scores_of_the_run(run, capsys, tmp_path):
    """Cases F16 and F8: also by another batch size, which divides nothing."""
    summary = json.loads((run / "summary.json").read_text())
    for size in (16, 7):
        capsys.readouterr()
        command = ["evaluate", "--task=classify", f"--checkpoint={run}", f"--data={examples('dev')}", "--json"]
        assert run_here(*command, f"--batch_size={size}", f"--predictions={tmp_path / str(size)}") == 0
        scores = json.loads(capsys.readouterr().out)
        assert scores.pop("examples") == SIZES["dev"] and scores == summary["scores"]["validation"]
    ours = (run / "predictions" / "validation.jsonl").read_text()
    assert (tmp_path / "16" / "validation.jsonl").read_text() == ours


def test_eight_devices_learn_the_same(run, tmp_path):
    process = Process("finetune", *flags(dropout=0.0), f"--workdir={tmp_path / 'eight'}", devices=8)
    assert process.wait() == 0, process.err
    assert run_here("finetune", *flags(dropout=0.0), f"--workdir={tmp_path / 'one'}") == 0
    one, eight = ([line["loss"] for line in metrics(tmp_path / name, "train")] for name in ("one", "eight"))
    np.testing.assert_allclose(one, eight, rtol=2e-3, atol=2e-4)


def test_a_stopped_run_goes_on_bit_for_bit(run, tmp_path, capsys):
    process = Process("finetune", *flags(), f"--workdir={tmp_path}")
    process.wait_for(
        lambda: (tmp_path / "metrics.jsonl").exists() and '"step": 20' in (tmp_path / "metrics.jsonl").read_text()
    )
    assert process.kill(signal.SIGTERM) == 75
    stopped = metrics(tmp_path, "train")[-1]["step"]
    assert 20 <= stopped < 60 and "the same command resumes" in process.err
    assert run_here("finetune", *flags(), f"--workdir={tmp_path}") == 0
    assert f"resuming after step {stopped} of 60" in capsys.readouterr().out
    assert metrics(tmp_path) == metrics(run)
    params = (checkpoint.restore_params(checkpoint.resolve(workdir)[1]) for workdir in (tmp_path, run))
    jax.tree.map(np.testing.assert_array_equal, *params)
    assert run_here("finetune", *flags(epochs=5), f"--workdir={tmp_path}") == 2
    assert "holds a run of other settings (finetune.epochs 4 -> 5): use a new --workdir" in capsys.readouterr().err


def test_a_sweep_makes_each_run_once_and_compiles_once(run, tmp_path, capsys, monkeypatch):
    changes = {"epochs": 1, "sweep__learning_rates": "(3e-3,1e-5)", "sweep__seeds": "(0,1)"}
    made, programs = [], []
    start, init = sweep.Run, sweep.Programs

    def counted(*arguments, **settings):
        made.append(arguments[2].name)
        return start(*arguments, **settings)

    monkeypatch.setattr(sweep, "Run", counted)
    monkeypatch.setattr(sweep, "Programs", lambda *arguments: programs.append(init(*arguments)) or programs[-1])
    assert run_here("finetune", *flags(**changes), f"--workdir={tmp_path}", "--sweep") == 0
    *table, report = capsys.readouterr().out.splitlines()[-5:]
    assert (
        report == f"report: {tmp_path / 'report.html'}"
        and "Scores by setting" in (tmp_path / "report.html").read_text()
    )
    assert table[0].startswith("| learning_rate | epochs | train_examples | main | mean | deviation | least | most")
    assert [row.split("|")[1].strip() for row in table[2:]] == ["0.003", "1e-05"]  # the better one first
    assert len(made) == 4 and programs[0].train_step._cache_size() <= len(programs[0].batcher.row_counts)
    heights = [line["scores"]["validation"]["accuracy"] for line in lines(tmp_path / "sweep.jsonl")]
    assert load_model(tmp_path).record["scores"]["validation"]["accuracy"] == max(heights)
    # Killed in the middle of the last line: that run alone is made again.
    text = (tmp_path / "sweep.jsonl").read_text()
    (tmp_path / "sweep.jsonl").write_text(text[:-20])
    assert run_here("finetune", *flags(**changes), f"--workdir={tmp_path}", "--sweep") == 0
    assert len(made) == 5 and made[4] == made[3]
    assert [line | {"seconds": 0} for line in lines(tmp_path / "sweep.jsonl")] == [
        json.loads(line) | {"seconds": 0} for line in text.splitlines()
    ]
    assert run_here("finetune", *flags(**changes | {"length": 20}), f"--workdir={tmp_path}", "--sweep") == 2


def test_combinations_and_their_table():
    config = FinetuneConfig(sweep=SweepConfig(epochs=(2, 3), seeds=(0, 1, 2)))
    settings = sweep.combinations(config)
    assert len(settings) == 6 and all(setting["learning_rate"] == 5e-5 for setting in settings)
    made = [
        {
            "setting": setting,
            "main": "f1",
            "degenerate": ["validation"] * (height == 0),
            "scores": {"v": {"f1": height}},
        }
        for setting, height in zip(settings, (0.5, 0.6, 0.7, 0.9, 0.8, 0.0), strict=True)
    ]
    best, other = sweep.summarize(made)
    assert (best["epochs"], best["runs"], best["degenerate"]) == (2, 3, 0)
    assert best["mean"] == pytest.approx(0.6) and best["deviation"] == pytest.approx(0.1)
    assert (other["least"], other["most"], other["degenerate"]) == (0.0, 0.9, 1)
    assert halved(1000) == (62, 125, 250, 500, 1000) and halved(20) == (20,)


def test_a_task_of_glue_from_its_files_to_the_submission(tmp_path, capsys):
    header = ["index", "sentence1", "sentence2", "label"]
    texts = [line["text"] for line in lines(examples("train"))][:146]
    for name, columns in (("train", 4), ("dev", 4), ("test", 3)):
        rows = [[str(n), text, texts[n - 1], str(n % 2)] for n, text in enumerate(texts)]
        content = "\n".join("\t".join(row[:columns]) for row in [header, *rows])
        (tmp_path / "WNLI").mkdir(exist_ok=True)
        (tmp_path / "WNLI" / f"{name}.tsv").write_text(content + "\n")
    recipe = f"--config={REPOSITORY / 'configs' / 'glue.py'}:wnli,debug"
    command = ["finetune", recipe, "--config.length=24", f"--config.task.data={tmp_path}"]
    command += [f"--checkpoint={finished_run()}", f"--workdir={tmp_path / 'run'}"]
    assert run_here(*command, f"--submission={tmp_path / 'glue.zip'}") == 0
    assert f"{tmp_path / 'glue.zip'}: WNLI.tsv; not there yet: CoLA.tsv" in capsys.readouterr().out
    with zipfile.ZipFile(tmp_path / "glue.zip") as archive:
        assert archive.read("WNLI.tsv").decode().count("\n") == 147
    (tmp_path / "WNLI" / "dev.tsv").unlink()
    assert run_here(*command[:-1], f"--workdir={tmp_path / 'sweep'}", "--seeds=2") == 2
    assert "no held-out examples with labels: a sweep has nothing to choose by" in capsys.readouterr().err


def test_other_heads_can_be_started_from_a_finetuned_model(run, tmp_path, capsys):
    arguments = [*flags(epochs=1, task__label="number")[1:], f"--checkpoint={run}", f"--workdir={tmp_path}"]
    recipe = f"--config={REPOSITORY / 'configs' / 'classify.py'}:regress,debug"
    assert run_here("finetune", recipe, *arguments) == 0
    assert "drawn from seed 0: task" in capsys.readouterr().out
    assert load_model(tmp_path).head.kind == "regress"
    assert run_here("evaluate", "--task=classify", f"--checkpoint={tmp_path}", f"--data={examples('dev')}") == 2
    assert "the model has 'regress'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"length": 4000}, "config.length is 4000: "),
        ({"frozen_layers": 9}, "config.frozen_layers is 9, but the model has 2 layers"),
        ({"epochs": 0}, "config.epochs is 0: expected 1 or more"),
        ({"warmup": 2.0}, "config.warmup is 2.0: expected 0 to 1"),
        ({"platform": "tpu"}, "config.platform is 'tpu', but the devices here are 'cpu'"),
        ({"task__first": "body"}, "has no column 'body': found text, label, number"),
        ({"epoch": 1}, "no such setting; the nearest is --config.epochs"),
    ],
)
def test_mistakes_are_told_in_one_line(tmp_path, capsys, changes, message):
    command = ["finetune", *flags(**changes), f"--workdir={tmp_path / 'run'}"]
    capsys.readouterr()  # of what the flags had to prepare first
    assert run_here(*command) == 2
    told = capsys.readouterr().err
    assert message in told and told.count("\n") == 1 and not (tmp_path / "run").exists()


def test_other_mistakes(run, tmp_path, capsys):
    assert run_here("evaluate", "--task=classify", f"--checkpoint={finished_run()}", f"--data={examples('dev')}") == 2
    assert "has no head of a task: fine-tune it first" in capsys.readouterr().err
    assert run_here("finetune", *flags(), f"--workdir={tmp_path}", "--seeds=2", "--submission=x.zip") == 2
    assert "--submission is of one run" in capsys.readouterr().err
    shutil.copytree(run, tmp_path / "copy")
    assert run_here("finetune", *flags(), f"--workdir={tmp_path / 'copy'}", "--submission=x.zip") == 2
    assert "classify is no task of GLUE" in capsys.readouterr().err
