"""Tasks of sentence embeddings: how their files are read, and the published figures of real weights."""

import json

import numpy as np
import pytest

from bert_jax.errors import UserError
from bert_jax.tasks import nli, ranking, sts
from bert_jax.tasks.sts import read_pairs
from bert_jax.tasks.task import TaskConfig
from bert_jax.text.tokenizer import load_tokenizer
from tests.e2e.conftest import run_here


@pytest.fixture
def tokenizer(minilm):
    return load_tokenizer(minilm)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "spearman", "count"), [("original/sts-test.tsv", 0.8203, 1379), ("dev.tsv", 0.8672, 1500)]
)
def test_minilm_on_the_sts_benchmark(shared_data, minilm, capsys, file, spearman, count):
    path = shared_data / "glue" / "STS-B" / file
    assert run_here("evaluate", "--task=sts", f"--checkpoint={minilm}", f"--data={path}", "--json") == 0
    figures = json.loads(capsys.readouterr().out)
    assert figures["spearman"] == pytest.approx(spearman, abs=5e-4) and figures["examples"] == count


def test_both_layouts_and_what_is_neither(tmp_path):
    own, glue, wrong = (tmp_path / name for name in ("own.tsv", "dev.tsv", "wrong.tsv"))
    own.write_text('g\tf\ty\t1\t2.5\tA "b\tc\tx\ty\n')
    glue.write_text('index\tsentence1\tsentence2\tscore\n0\tA "b\tc\t2.5\n')
    for path in (own, glue):
        texts = read_pairs(path, TaskConfig())
        assert (texts.first, texts.second, texts.labels) == (['A "b'], ["c"], [2.5])
    wrong.write_text("a\tb\tc\n")
    with pytest.raises(UserError, match=r"wrong\.tsv, line 1: is no pair of the STS benchmark"):
        read_pairs(wrong, TaskConfig())
    with pytest.raises(UserError, match="no such file"):
        read_pairs(tmp_path / "none.tsv", TaskConfig())


def table(path, rows):
    path.write_text("\n".join(map(json.dumps, rows)) + "\n")
    return str(path)


def test_scores_are_cosines_to_be(tmp_path, tokenizer):
    glue = tmp_path / "STS-B"
    glue.mkdir()
    for name in ("train", "dev"):
        (glue / f"{name}.tsv").write_text("index\tsentence1\tsentence2\tscore\n0\ta\tb\t5.000\n1\tc\td e\t0.5\n")
    task = sts.load(TaskConfig("sts", str(tmp_path), pooling="max", matryoshka=(8,)), tokenizer, 16)
    split = task.splits["validation"]
    np.testing.assert_allclose(split.labels, [1, 0.1])
    assert split.rows == 2 and len(split) == 2 and split.features.lengths.tolist() == [3, 3, 3, 4]
    assert task.head.pooling == "max" and task.loss.dims == (8,)
    vectors = np.array([[[3, 0], [2, 0]], [[1, 1], [0, 2]]], np.float32)
    shown = [line["cosine"] for line in task.predictions(split, vectors)]
    np.testing.assert_allclose(shown, [1, np.sqrt(0.5)])
    assert task.score(split, vectors) == {"spearman": pytest.approx(1), "pearson": pytest.approx(1)}
    rows = [{"text": "a", "other": "b", "label": 1.5}]
    config = TaskConfig("sts", table(tmp_path / "own.jsonl", rows), second="other")
    with pytest.raises(UserError, match=r"pair 0 has the score 1.5: expected -1 to 1, and 0 to 5 of a \.tsv"):
        sts.load(config, tokenizer, 16)
    with pytest.raises(UserError, match="name the column of the second text"):
        sts.load(TaskConfig("sts", config.data), tokenizer, 16)


def test_inference_is_learnt_in_classes_and_scored_by_cosines(tmp_path, tokenizer, shared_data):
    train = str(shared_data / "glue_subsets" / "SNLI" / "dev.json")
    dev = str(shared_data / "glue" / "STS-B" / "dev.tsv")
    config = TaskConfig("nli", train, validation=dev, first="text_a", second="text_b")
    task = nli.load(config, tokenizer, 64)
    assert task.loss.classes == 3 and set(task.splits["train"].labels) == {0, 1, 2}
    assert len(task.splits["train"]) == 1000 and len(task.splits["validation"]) == 1500 and task.main == "spearman"


def test_ranks_count_among_the_distinct_second_texts(tmp_path, tokenizer):
    rows = [{"q": "a", "p": "x", "n": "u"}, {"q": "b", "p": "y", "n": "v"}, {"q": "c", "p": "x", "n": "w"}]
    path = table(tmp_path / "pairs.jsonl", rows)
    config = TaskConfig("ranking", path, validation=path, first="q", second="p", negative="n")
    task = ranking.load(config, tokenizer, 16)
    split = task.splits["train"]
    assert split.rows == 3 and split.labels.tolist() == [0, 1, 0] and task.main == "mrr@10"
    x, y, far = [1, 0], [0, 1], [-1, -1]
    vectors = np.array([[[9, 1], x, far], [[2, 1], y, far], [[1, 9], x, far]], np.float32)
    assert [line["rank"] for line in task.predictions(split, vectors)] == [1, 2, 2]
    expected = {"mrr@10": pytest.approx(2 / 3), "recall@1": pytest.approx(1 / 3), "recall@10": 1.0}
    assert task.score(split, vectors) == expected
    constant = np.ones_like(vectors)
    assert task.score(split, constant)["recall@1"] == 0  # what knows nothing is not first
    with pytest.raises(UserError, match="name the column of the second text"):
        ranking.load(TaskConfig("ranking", path, first="q"), tokenizer, 16)
