"""A model's head asked directly, and by `bert-jax predict`, against a forward pass of each input alone."""

import io
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special

from bert_jax import checkpoint
from bert_jax.errors import UserError
from bert_jax.model.presets import ComputeConfig
from bert_jax.model.task_heads import HeadConfig, init_head, task_outputs
from bert_jax.models import load_model
from bert_jax.tasks.predictor import TaskPredictor
from tests.e2e.conftest import corpus, finished_run, run_here

HEADS = [
    HeadConfig("classify", ("no", "yes", "maybe"), length=32),
    HeadConfig("regress", length=32),
    HeadConfig("tag", ("O", "B-X", "I-X"), length=32),
    HeadConfig("answer", length=80),
    HeadConfig("choose", length=32),
]


@pytest.fixture(scope="module")
def lines():
    return [line.rstrip(".") for line in corpus().read_text().split("\n") if line][:6]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Folders of a model by the kind of its head, whose weights are random but far from 0."""
    model, folders = load_model(finished_run()), {}
    for head in HEADS:
        params = {name: model.params[name] for name in ("embeddings", "layers", "pooler")}
        params["task"] = init_head(model.config, ComputeConfig(), head.outputs, jax.random.key(1))
        params["task"] = jax.tree.map(lambda leaf: leaf * 60, params["task"])
        folders[head.kind] = tmp_path_factory.mktemp(head.kind)
        model.tokenizer.save(folders[head.kind] / "tokenizer")
        record = {"step": 0, "examples": 0, "phase": 1, "heldout_loss": None, "head": vars(head)}
        checkpoint.save_weights(folders[head.kind], params, record | {"config": {"model": vars(model.config)}})
    return folders


def alone(run, first, second=None):
    """The outputs of one text or pair, made without rows of others or padding."""
    model = load_model(run)
    t = model.tokenizer
    ids = [t.cls_id, *t.encode([first])[0], t.sep_id]
    types = [0] * len(ids)
    if second is not None:
        ids += [*t.encode([second])[0], t.sep_id]
        types += [1] * (len(ids) - len(types))
    batch = {"input_ids": jnp.array([ids], jnp.int32), "token_type_ids": jnp.array([types], jnp.int32)}
    batch["mask"] = jnp.ones((1, len(ids)), bool)
    return np.float64(task_outputs(model.params, model.config, ComputeConfig(), model.head, batch)[0])


def told(capsys, run, task, *arguments):
    capsys.readouterr()
    assert run_here("predict", f"--task={task}", f"--checkpoint={run}", "--json", *arguments) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_labels_of_texts_and_pairs(runs, lines, capsys):
    mixed = [lines[0], f"{lines[1]}\t{lines[2]}", lines[3], lines[4]]
    results = told(capsys, runs["classify"], "classify", *mixed)
    expected = [alone(runs["classify"], *text.split("\t")) for text in mixed]
    for result, logits in zip(results, expected, strict=True):
        probabilities = scipy.special.softmax(logits)
        np.testing.assert_allclose(list(result["probabilities"].values()), probabilities, atol=1e-5)
        assert result["label"] == ("no", "yes", "maybe")[probabilities.argmax()]
    assert run_here("predict", "--task=classify", f"--checkpoint={runs['classify']}", lines[0]) == 0
    assert capsys.readouterr().out == f"{results[0]['label']} {results[0]['probability']:.3f}\n"


def test_numbers_and_ranks_by_them(runs, lines, capsys):
    results = told(capsys, runs["regress"], "regress", *lines)
    found, expected = [result["score"] for result in results], [alone(runs["regress"], text) for text in lines]
    np.testing.assert_allclose(found, expected, atol=1e-4)
    ranked = told(capsys, runs["regress"], "rerank", "--query=" + lines[0], "--top=3", *lines[1:])
    scores = [float(alone(runs["regress"], lines[0], text)) for text in lines[1:]]
    assert [result["index"] for result in ranked] == np.argsort(-np.array(scores))[:3].tolist()
    by_label = TaskPredictor(load_model(runs["classify"])).rerank(lines[0], lines[1:])
    logits = np.array([alone(runs["classify"], lines[0], text) for text in lines[1:]])
    odds = logits[:, 2] - scipy.special.logsumexp(logits[:, :2], axis=1)
    assert [result["index"] for result in by_label] == np.argsort(-odds).tolist()


def test_tags_of_words(runs, lines, capsys):
    results = told(capsys, runs["tag"], "tag", *lines, "word " * 70)
    assert [len(result["tags"]) for result in results] == [*(len(text.split()) for text in lines), 70]
    model = load_model(runs["tag"])
    first_of_word = np.cumsum([1, *(len(model.tokenizer.encode([w])[0]) for w in lines[0].split())])[:-1]
    expected = np.array(["O", "B-X", "I-X"])[alone(runs["tag"], lines[0])[first_of_word].argmax(-1)]
    assert results[0]["tags"] == expected.tolist()


def test_answers_are_parts_of_the_text(runs, lines, capsys):
    (result,) = told(capsys, runs["answer"], "answer", "--top=3", f"{lines[0]}\t{lines[1]}")
    assert result["answer"] in lines[1] and len(result["n_best"]) == 3
    tokenizer = load_model(runs["answer"]).tokenizer
    logits = alone(runs["answer"], lines[0], lines[1])[len(tokenizer.encode([lines[0]])[0]) + 2 : -1]
    _, _, spans = tokenizer.encode_with_spans([lines[1]])
    scores = {(a, b): logits[a, 0] + logits[b, 1] for a in range(len(logits)) for b in range(a, len(logits))}
    first, second = sorted(scores, key=scores.get)[:-3:-1]
    chosen, other = result["n_best"][:2]
    for (a, b), found in ((first, chosen), (second, other)):
        assert found["text"] == lines[1][spans[a, 0] : spans[b, 1]] and found["start"] == spans[a, 0]
    ratio = np.log(chosen["probability"] / other["probability"])
    assert ratio == pytest.approx(scores[first] - scores[second], abs=1e-3)
    assert "" not in [found["text"] for found in result["n_best"]]
    (unsure,) = told(capsys, runs["answer"], "answer", "--may_be_none", "--top=50", f"{lines[0]}\t{lines[1]}")
    assert "" in [found["text"] for found in unsure["n_best"]]


def test_an_empty_line_has_a_result_of_its_own(runs, lines, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{lines[0]}\n\n{lines[1]}\n"))
    results = told(capsys, runs["classify"], "classify")
    for result, text in zip(results, (lines[0], "", lines[1]), strict=True):
        probabilities = scipy.special.softmax(alone(runs["classify"], text))
        np.testing.assert_allclose(list(result["probabilities"].values()), probabilities, atol=1e-5)
    monkeypatch.setattr("sys.stdin", io.StringIO(f"\n{lines[0]}\n"))
    assert [len(result["tags"]) for result in told(capsys, runs["tag"], "tag")] == [0, len(lines[0].split())]


def test_the_likeliest_ending(runs, lines, capsys):
    (result,) = told(capsys, runs["choose"], "choose", "\t".join(lines))
    scores = np.array([alone(runs["choose"], lines[0], text) for text in lines[1:]]).ravel()
    assert result["index"] == scores.argmax() and result["ending"] == lines[1 + scores.argmax()]
    np.testing.assert_allclose(result["probabilities"], scipy.special.softmax(scores), atol=1e-5)


def test_what_is_cut_is_counted(runs, capsys):
    assert run_here("predict", "--task=classify", f"--checkpoint={runs['classify']}", "ba " * 90, "ba") == 0
    assert "1 inputs were cut to 32 tokens" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--task=tag", "a"], "needs a head of kind 'tag': the model has 'classify'"),
        (["--task=classify", "a\tb\tc"], "an input of 3 parts: expected 1 to 2, parted by tabs: 'a\\tb\\tc'"),
        (["--task=rerank", "a"], "--task=rerank needs --query"),
        (["--task=classify", "--may_be_none", "a"], "--may_be_none is of --task=answer alone"),
        (["--task=classify", "--query=b", "a"], "no other task has one"),
        (["--task=classify", "--json", "--hidden=1", "a"], "give --json and --task=fill-mask too"),
    ],
)
def test_mistakes_are_told_in_one_line(runs, capsys, arguments, message):
    capsys.readouterr()
    assert run_here("predict", f"--checkpoint={runs['classify']}", *arguments) == 2
    err = capsys.readouterr().err
    assert message in err and err.count("\n") == 1


def test_an_encoder_alone_predicts_nothing():
    with pytest.raises(UserError, match="has no head of a task: fine-tune it first"):
        TaskPredictor(load_model(finished_run()))
