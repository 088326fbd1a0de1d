"""`bert-jax search` against a plain sort, and on what `bert-jax embed` writes."""

import json

import numpy as np
import pytest

from bert_jax import embed, search
from bert_jax.models import load_model
from bert_jax.search import top_k
from tests.e2e.conftest import corpus, finished_run, run_here


@pytest.mark.parametrize("block", [7, 1000])
@pytest.mark.parametrize("k", [1, 5, 50, 400])
def test_the_highest_cosines_of_all_with_ties_by_row(monkeypatch, block, k):
    monkeypatch.setattr(search, "BLOCK", block)
    draw = np.random.default_rng(0)
    corpus_vectors = draw.integers(-1, 2, (200, 3)).astype(np.float32)  # many equal directions, and zeros
    queries = draw.integers(-1, 2, (9, 3)).astype(np.float32) * 5
    scores, rows = top_k(queries, corpus_vectors, k)
    assert scores.shape == rows.shape == (9, min(k, 200))

    def unit(vectors):
        return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)

    expected = unit(queries) @ unit(corpus_vectors).T
    for query in range(9):
        order = sorted(range(200), key=lambda row: (-round(float(expected[query, row]), 5), row))[:k]
        np.testing.assert_allclose(scores[query], expected[query, order], atol=1e-6)
        assert len(set(rows[query])) == len(order) and (np.diff(scores[query]) <= 0).all()
        equal = np.diff(scores[query]) == 0
        assert (np.diff(rows[query])[equal] > 0).all()


@pytest.fixture(scope="module")
def texts():
    return [line for line in corpus().read_text().split("\n") if line][:40]


@pytest.fixture(scope="module")
def embedded(texts, tmp_path_factory):
    """The corpus as .npy and .parquet, and the file of its texts."""
    folder = tmp_path_factory.mktemp("embedded")
    (folder / "texts.txt").write_text("\n".join(texts) + "\n")
    for ending in ("npy", "parquet"):
        arguments = [f"--checkpoint={finished_run()}", f"--input={folder / 'texts.txt'}", f"--out={folder}/v.{ending}"]
        assert run_here("embed", *arguments) == 0
    return folder


@pytest.mark.parametrize("ending", ["npy", "parquet"])
def test_a_text_finds_itself_first(capsys, embedded, texts, ending):
    command = ["search", f"--checkpoint={finished_run()}", f"--corpus={embedded}/v.{ending}", "--top=3"]
    shown = [f"--texts={embedded}/texts.txt"] if ending == "npy" else []
    capsys.readouterr()
    assert run_here(*command, *shown, "--json", texts[7], texts[11]) == 0
    results = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [result["query"] for result in results] == [texts[7], texts[11]]
    vectors = embed.embed_texts(load_model(finished_run()), texts)
    for result, own in zip(results, (7, 11), strict=True):
        assert len(result["results"]) == 3 and result["results"][0]["score"] == pytest.approx(1, abs=1e-5)
        assert texts[own] in [found["text"] for found in result["results"]]
        for found in result["results"]:
            cosine = (
                vectors[own] @ vectors[found["row"]] / np.prod(np.linalg.norm(vectors[[own, found["row"]]], axis=1))
            )
            assert found["score"] == pytest.approx(float(cosine), abs=1e-5) and texts[found["row"]] == found["text"]
    assert run_here(*command, texts[7]) == 0
    first, second = capsys.readouterr().out.splitlines()[:2]
    assert first == texts[7] and second.startswith("  1.0000  ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--corpus={0}/none.npy"], "none.npy: no such file"),
        (["--corpus={0}/texts.txt"], "expected a file that ends in .npy or .parquet"),
        (["--corpus={0}/v.npy", "--top=0"], "--top is 0: expected 1 or more"),
        (["--corpus={0}/other.npy"], "has vectors of 5, the model makes some of 32"),
        (["--corpus={0}/flat.npy"], "holds float32 of shape (4,): expected floats [n, D]"),
        (["--corpus={0}/broken.npy"], "is no .npy of vectors"),
        (["--corpus={0}/broken.parquet"], "has no columns text and vector"),
        (["--corpus={0}/empty.npy"], "holds no vectors"),
        (["--corpus={0}/v.npy", "--texts={0}/short.txt"], "short.txt: has 1 lines, "),
        (["--corpus={0}/v.npy", "--texts={0}/none.txt"], "none.txt: cannot be read"),
    ],
)
def test_mistakes_are_told_in_one_line(capsys, embedded, arguments, message):
    np.save(embedded / "other.npy", np.ones((2, 5), np.float32))
    np.save(embedded / "flat.npy", np.ones(4, np.float32))
    np.save(embedded / "empty.npy", np.ones((0, 32), np.float32))
    (embedded / "short.txt").write_text("a\n")
    for name in ("broken.npy", "broken.parquet"):
        (embedded / name).write_bytes(b"x" * 100)
    filled = [argument.format(embedded) for argument in arguments]
    capsys.readouterr()
    assert run_here("search", f"--checkpoint={finished_run()}", *filled, "a") == 2
    err = capsys.readouterr().err
    assert message in err and err.count("\n") == 1
