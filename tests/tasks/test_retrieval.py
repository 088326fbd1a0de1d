"""Retrieval figures against scikit-learn and the known ones of real weights on a real collection."""

import json

import numpy as np
import pytest
from sklearn.metrics import ndcg_score

from bert_jax.errors import UserError
from bert_jax.models import load_model
from bert_jax.tasks.retrieval import evaluate, figures, read_collection
from tests.e2e.conftest import finished_run, run_here


@pytest.mark.slow
def test_minilm_on_cranfield(shared_data, minilm, capsys):
    folder = shared_data / "ir" / "cranfield"
    assert run_here("evaluate", "--task=retrieval", f"--checkpoint={minilm}", f"--data={folder}", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["ndcg@10"] == pytest.approx(0.3995, abs=0.002)
    assert (found["queries"], found["unanswered"], found["documents"]) == (225, 0, 1400)


@pytest.mark.parity
def test_figures_are_those_of_sentence_transformers(shared_data, minilm, tmp_path):
    """On 400 titles of Cranfield, as different ones, for both break ties in ways of their own."""
    sentence_transformers = pytest.importorskip("sentence_transformers")
    from sentence_transformers.sentence_transformer.evaluation import InformationRetrievalEvaluator

    whole = read_collection(shared_data / "ir" / "cranfield")
    first_of = {text.split(" . ")[0]: name for name, text in reversed(list(whole.documents.items())[:400]) if text}
    documents = {name: title for title, name in first_of.items()}
    judged = {query: [name for name in gains if name in documents] for query, gains in whole.judged.items()}
    for file, texts in (("corpus", documents), ("queries", whole.queries)):
        rows = [{"_id": name, "text": text} for name, text in texts.items()]
        (tmp_path / f"{file}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    rows = [f"{query}\t{name}\t1" for query, names in judged.items() for name in names]
    (tmp_path / "qrels.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *rows]))
    ours = evaluate(load_model(minilm), tmp_path, 64)

    relevant = {query: set(names) for query, names in judged.items() if names}
    at = {f"{name}_at_k": [10] for name in ("accuracy", "ndcg", "mrr")} | {"precision_recall_at_k": [10, 100]}
    theirs = InformationRetrievalEvaluator(whole.queries, documents, relevant, write_csv=False, **at)(
        sentence_transformers.SentenceTransformer(str(minilm), device="cpu")
    )
    for name in ("ndcg@10", "mrr@10", "recall@10", "recall@100"):
        assert ours[name] == pytest.approx(theirs[f"cosine_{name}"], abs=1e-6), name
    assert 0 < ours["ndcg@10"] < ours["recall@100"] < 1  # figures that can differ
    assert (ours["queries"], ours["unanswered"]) == (len(relevant), 225 - len(relevant))


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
    many = {f"d{n}": 1.0 for n in range(40)}  # more than can be among the first ten: recall is of all of them
    assert figures([list(many)], [many])["recall@10"] == 0.25 and figures([list(many)], [many])["ndcg@10"] == 1


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
    assert (found["queries"], found["unanswered"], found["documents"]) == (2, 1, 2) and found["recall@10"] == 1
    (folder / "qrels" / "test.tsv").rename(folder / "qrels.tsv")
    assert read_collection(folder) == collection
    assert run_here(*command) == 0 and capsys.readouterr().out.startswith("beir: ndcg@10 ")


def cranfield(folder, judgements):
    documents = ".I 1\n.T\nbada\n komi .\n.A\nlumi,b.\n.B\nj. 1.\n.W\nbada\n komi . lumi .I 2\n.I 2\n.T\n.A\n.B\n.W\n"
    (folder / "cran.all.1400").write_text(documents)
    (folder / "cran.qry").write_text(".I 001\n.W\nkomi\n.I 004\n.W\nlumi\n bada\n")
    (folder / "cranqrel").write_bytes(judgements.replace("\n", "\r\n").encode())
    return folder


def test_cranfields_queries_are_numbered_in_order_and_its_codes_are_alike(tmp_path):
    collection = read_collection(cranfield(tmp_path, "1 1 1\n1 2 -1\n2 1  4 \n2 2 3\n"))
    assert collection.documents == {"1": "bada komi . bada komi . lumi .I 2", "2": ""}
    assert collection.queries == {"1": "komi", "2": "lumi bada"}
    assert collection.judged == {"1": {"1": 1.0}, "2": {"1": 1.0, "2": 1.0}}
    for judgements, message in (("1 1\n", "cranqrel, line 1: expected a query"), ("4 1 1\n", "names the query '4'")):
        with pytest.raises(UserError, match=message):
            read_collection(cranfield(tmp_path, judgements))
    (tmp_path / "cran.all.1400").write_text(".I 1\n.W\na\n.I 1\n.W\nb\n")
    with pytest.raises(UserError, match=r"cran\.all\.1400: the id '1' stands twice"):
        read_collection(tmp_path)


@pytest.mark.parametrize(
    ("judgements", "message"),
    [
        ("q1\td9\t1\n", "a judgement names the document 'd9', which is not there"),
        ("q9\td1\t1\n", "a judgement names the query 'q9', which is not there"),
        ("q1\td1\n", "test.tsv, line 2: expected query-id, corpus-id and score"),
        ("q1\td1\tnan\n", "test.tsv, line 2: expected query-id, corpus-id and score"),
        ("q1\td1\t1\nq2\td1\t1\nq1\td1\t0\n", "document 'd1' is judged twice, and not alike, for query 'q1'"),
        ("q1\td1\t0\n", "no query has a document that answers it"),
    ],
)
def test_judgements_that_do_not_fit_are_told(tmp_path, judgements, message):
    with pytest.raises(UserError) as told:
        read_collection(beir(tmp_path / "beir", judgements))
    assert message in str(told.value)


def test_other_folders_are_told(tmp_path):
    with pytest.raises(UserError, match=r"expected corpus\.jsonl, queries\.jsonl and qrels/test\.tsv or .*cranqrel"):
        read_collection(tmp_path)
    with pytest.raises(UserError, match="none: no such folder"):
        read_collection(tmp_path / "none")
    with pytest.raises(UserError, match="--batch_size=0: expected 1 or more"):
        evaluate(None, tmp_path, 0)
    folder = beir(tmp_path / "beir")
    (folder / "corpus.jsonl").write_text('{"_id": "d1", "text": "a"}\n{"_id": "d1", "text": "b"}\n')
    with pytest.raises(UserError, match="line 2: the id 'd1' stands twice"):
        read_collection(folder)
    (folder / "corpus.jsonl").write_text('{"id": "d1"}\n')
    with pytest.raises(UserError, match="line 1: expected a JSON object with _id and text"):
        read_collection(folder)
    (folder / "corpus.jsonl").write_text('{"_id": "d1", "text": null}\n')
    with pytest.raises(UserError, match="line 1: expected a JSON object with _id and text"):
        read_collection(folder)
    (folder / "queries.jsonl").unlink()
    (folder / "corpus.jsonl").write_text('{"_id": "d1", "text": "a"}\n')
    with pytest.raises(UserError, match=r"queries\.jsonl: cannot be read"):
        read_collection(folder)
    (folder / "qrels" / "test.tsv").write_text("q1\td1\t1\n")
    (folder / "queries.jsonl").write_text('{"_id": "q1", "text": "a"}\n')
    with pytest.raises(UserError, match=r"test\.tsv, line 1: expected the header"):
        read_collection(folder)
    (folder / "qrels" / "test.tsv").unlink()
    with pytest.raises(UserError, match=r"has neither qrels/test\.tsv nor qrels\.tsv"):
        read_collection(folder)
