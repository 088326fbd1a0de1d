"""Each kind of task as commands, on a tiny model: it learns, is scored the same alone, and on eight devices."""

import json
import random

import numpy as np
import pytest

from bert_jax.models import load_model
from tests.e2e.conftest import REPOSITORY, Process, corpus, finished_run, metrics, run_here


@pytest.fixture(scope="module")
def words():
    return sorted({word for line in corpus().read_text().split("\n")[:200] for word in line.strip(".").split()})[:40]


@pytest.fixture(scope="module")
def data(words, tmp_path_factory):
    """Files by the name of the task: train and validation, of things that a few words tell."""
    folder, draw = tmp_path_factory.mktemp("data"), random.Random(0)
    makers = {"ner": _tagged, "squad": _questions, "swag": _choices, "ranking": _pairs, "sts": _scored}
    files = {}
    for name, make in makers.items():
        files[name] = []
        for split, count in (("train", 160), ("dev", 45)):
            suffix, text = make(words, draw, count)
            files[name].append(folder / f"{split}-{name}{suffix}")
            files[name][-1].write_text(text)
    return files


def _sentence(words, draw, least=4):
    return [draw.choice(words[8:]) for _ in range(draw.randint(least, 8))]


def _tagged(words, draw, count):
    """Two words are names, each of a type of its own."""
    text = ""
    for _ in range(count):
        sentence = _sentence(words, draw)
        sentence[draw.randrange(len(sentence))] = draw.choice(words[:2])
        tags = {words[0]: "B-PER", words[1]: "B-LOC"}
        text += "".join(f"{word}\t{tags.get(word, 'O')}\n" for word in sentence) + "\n"
    return ".conll", text


def _questions(words, draw, count):
    """The answer is the one word of the context that is among the first two."""
    questions = []
    for number in range(count):
        sentence = _sentence(words, draw)
        answer = sentence[draw.randrange(len(sentence))] = draw.choice(words[:2])
        context = " ".join(sentence)
        answers = [{"text": answer, "answer_start": context.index(answer)}]
        questions.append({"context": context, "qas": [{"id": str(number), "question": "bada", "answers": answers}]})
    return ".json", json.dumps({"version": "1.1", "data": [{"title": "t", "paragraphs": questions}]})


def _choices(words, draw, count):
    """Of four endings the right one has the first word."""
    rows = []
    for _ in range(count):
        endings, label = [" ".join(_sentence(words, draw, 2)) for _ in range(4)], draw.randrange(4)
        row = {"sent1": " ".join(_sentence(words, draw)), "sent2": "", "label": label}
        row |= {f"ending{n}": f"{words[0]} {text}" if n == label else text for n, text in enumerate(endings)}
        rows.append(json.dumps(row))
    return ".jsonl", "\n".join(rows)


def _pairs(words, draw, count):
    """The second text has the rare word of the first."""
    rows = [(draw.choice(words[:20]), _sentence(words, draw, 1)) for _ in range(count)]
    return ".jsonl", "\n".join(json.dumps({"text": key, "other": f"{key} {' '.join(rest)}"}) for key, rest in rows)


def _scored(words, draw, count):
    """Pairs are alike where they have the same word out of two."""
    rows = []
    for _ in range(count):
        a, b = draw.randrange(2), draw.randrange(2)
        rows.append({"text": words[a], "other": words[b], "label": float(a == b)})
    return ".jsonl", "\n".join(map(json.dumps, rows))


# The task, its recipe, its main figure and what it has to reach.
KINDS = [
    ("ner", "ner.py:debug", "f1", 0.9),
    ("squad", "squad.py:debug", "f1", 0.8),
    ("swag", "swag.py:debug", "accuracy", 0.8),
    ("ranking", "embed.py:ranking,debug", "mrr@10", 0.4),
    ("sts", "embed.py:sts,debug", "spearman", 0.8),
]


def command(task, recipe, data, workdir, **changes):
    train, dev = data[task]
    settings = {"epochs": 8, "learning_rate": 3e-3, "batch_size": 16, "eval_batch_size": 16}
    settings["length"] = 80 if task == "squad" else 24
    settings |= {"train_examples": 0, "log_every": 100, "task.data": train, "task.validation": dev} | changes
    if task in ("ranking", "sts"):
        settings["task.second"] = "other"
    shown = [f"--config.{name}={value}" for name, value in settings.items()]
    config = f"--config={REPOSITORY / 'configs' / recipe}"
    return ["finetune", config, f"--checkpoint={finished_run()}", f"--workdir={workdir}", *shown]


@pytest.mark.parametrize(("task", "recipe", "main", "least"), KINDS)
def test_each_kind_learns_and_is_scored_the_same_alone(tmp_path, capsys, data, task, recipe, main, least):
    assert run_here(*command(task, recipe, data, tmp_path)) == 0
    summary = json.loads((tmp_path / "summary.json").read_text())
    scores = summary["scores"]["validation"]
    assert summary["main"] == main and scores[main] > least
    predictions = (tmp_path / "predictions" / "validation.jsonl").read_text()
    assert predictions.count("\n") == 45
    assert set(load_model(tmp_path).params) <= {"embeddings", "layers", "pooler", "task"}
    capsys.readouterr()
    arguments = [f"--task={task}", f"--checkpoint={tmp_path}", f"--data={data[task][1]}", "--json"]
    second = ["--second=other"] if task in ("ranking", "sts") else []
    again = ["--batch_size=7", f"--predictions={tmp_path / 'again'}"]
    assert run_here("evaluate", *arguments, *second, *again) == 0
    found = json.loads(capsys.readouterr().out)
    for name, value in scores.items():
        assert found[name] == pytest.approx(value, abs=1e-6), name


@pytest.mark.slow
@pytest.mark.parametrize(("task", "recipe", "main", "least"), KINDS)
def test_eight_devices_learn_the_same(tmp_path, data, task, recipe, main, least):
    changes = {"dropout": 0.0, "epochs": 2}
    process = Process(*command(task, recipe, data, tmp_path / "eight", **changes), devices=8)
    assert process.wait() == 0, process.err
    assert run_here(*command(task, recipe, data, tmp_path / "one", **changes)) == 0
    one, eight = ([line["loss"] for line in metrics(tmp_path / name, "train")] for name in ("one", "eight"))
    np.testing.assert_allclose(one, eight, rtol=2e-3, atol=2e-4)


def test_without_held_out_examples_the_last_weights_are_kept(tmp_path, data):
    arguments = command("ner", "ner.py:debug", data, tmp_path, epochs=3)
    assert run_here(*[flag for flag in arguments if "task.validation" not in flag]) == 0
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["best_step"] == summary["steps"] == 30 and summary["scores"] == {}
    assert load_model(tmp_path).record["step"] == 30
