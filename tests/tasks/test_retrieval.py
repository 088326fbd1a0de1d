"""Retrieval figures against scikit-learn and the known ones of real weights on a real collection."""

import json

import numpy as np
import pytest
from sklearn.metrics import ndcg_score

from bert_jax.errors import UserError
from bert_jax.tasks.retrieval import figures, read_collection
from tests.e2e.conftest import finished_run, run_here


@pytest.mark.slow
def test_minilm_on_cranfield(shared_data, minilm, capsys):
    folder = shared_data / "ir" / "cranfield"
    assert run_here("evaluate", "--task=retrieval", f"--checkpoint={minilm}", f"--data={folder}", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["ndcg@10"] == pytest.approx(0.3995, abs=0.002)
    assert (found["queries"], found["documents"]) == (225, 1400)


def test_gains_are_discounted_as_in_scikit_learn():
    draw = np.random.default_rng(0)
    found, judged, expected = [], [], []
    for _ in range(30):
        gains, scores = draw.integers(0, 4, 25).astype(float), draw.permutation(25).astype(float)
        gains[0] = 1
        found.append([str(n) for n in np.argsort(-scores)])
        judged.append({str(n): gain for n, gain in enumerate(gains) if gain > 0})
        expected.append(ndcg_score([gains], [scores], k=10))
    assert figures(found, judged)["ndcg@10"] == pytest.approx(np.mean(expected))


def test_recall_and_rank_of_the_first_answer():
    found = [["a", "b", "c"], [f"x{n}" for n in range(11)] + ["d"]]
    result = figures(found, [{"b": 1.0, "z": 1.0}, {"d": 2.0}])
    assert result["recall@10"] == 0.25 and result["recall@100"] == 0.75 and result["mrr@10"] == 0.25
    assert result["ndcg@10"] == pytest.approx((1 / np.log2(3)) / (1 + 1 / np.log2(3)) / 2)


def beir(folder, judgements="q1\td1\t2\nq1\td2\t0\nq2\td2\t1\n"):
    folder.mkdir(exist_ok=True)
    documents = [{"_id": "d1", "title": "Bada", "text": "komi"}, {"_id": "d2", "title": "", "text": "lumi bada"}]
    queries = [{"_id": "q1", "text": "komi"}, {"_id": "q2", "text": "lumi"}, {"_id": "q3", "text": "no answer"}]
    for name, rows in (("corpus", documents), ("queries", queries)):
        (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n")
    (folder / "qrels").mkdir(exist_ok=True)
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + judgements)
    return folder


def test_a_folder_in_beirs_layout(tmp_path, capsys):
    folder = beir(tmp_path / "beir")
    collection = read_collection(folder)
    assert collection.documents == {"d1": "Bada komi", "d2": "lumi bada"}
    assert collection.judged == {"q1": {"d1": 2.0}, "q2": {"d2": 1.0}}
    command = ["evaluate", "--task=retrieval", f"--checkpoint={finished_run()}", f"--data={folder}"]
    capsys.readouterr()
    assert run_here(*command, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["queries"] == 2 and found["recall@10"] == 1
    assert run_here(*command) == 0 and capsys.readouterr().out.startswith("beir: ndcg@10 ")


@pytest.mark.parametrize(
    ("judgements", "message"),
    [
        ("q1\td9\t1\n", "a judgement names the document 'd9', which is not there"),
        ("q9\td1\t1\n", "a judgement names the query 'q9', which is not there"),
        ("q1\td1\n", "test.tsv, line 2: expected query-id, corpus-id and score"),
        ("q1\td1\t0\n", "no query has a document that answers it"),
    ],
)
def test_judgements_that_do_not_fit_are_told(tmp_path, judgements, message):
    with pytest.raises(UserError) as told:
        read_collection(beir(tmp_path / "beir", judgements))
    assert message in str(told.value)


def test_other_folders_are_told(tmp_path):
    with pytest.raises(UserError, match=r"expected corpus\.jsonl, queries\.jsonl"):
        read_collection(tmp_path)
    folder = beir(tmp_path / "beir")
    (folder / "corpus.jsonl").write_text('{"_id": "d1", "text": "a"}\n{"_id": "d1", "text": "b"}\n')
    with pytest.raises(UserError, match="line 2: the id 'd1' stands twice"):
        read_collection(folder)
    (folder / "corpus.jsonl").write_text('{"id": "d1"}\n')
    with pytest.raises(UserError, match="line 1: expected a JSON object with _id and text"):
        read_collection(folder)
