"""`bert-jax search` against a plain sort, and on what `bert-jax embed` writes."""

import io
import json

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from bert_jax import embed, search
from bert_jax.errors import UserError
from bert_jax.models import load_model
from bert_jax.search import read_corpus, top_k, top_k_of_blocks
from tests.e2e.conftest import corpus, finished_run, run_here


def exact(queries, vectors):
    """Cosines in float64, rounded once; 0 where a vector is of zeros."""

    def unit(rows):
        rows = rows.astype(np.float64)
        lengths = np.sqrt((rows**2).sum(axis=1, keepdims=True))
        return np.where(lengths > 0, rows / np.where(lengths > 0, lengths, 1), 0)

    return (unit(queries) @ unit(vectors).T).astype(np.float32)


@pytest.mark.parametrize("block", [7, 1000])
@pytest.mark.parametrize("k", [1, 5, 50, 400])
def test_the_highest_cosines_of_all(monkeypatch, block, k):
    monkeypatch.setattr(search, "BLOCK", block)
    monkeypatch.setattr(search, "BATCH", 4)
    draw = np.random.default_rng(0)
    vectors, queries = (draw.standard_normal((n, 24)).astype(np.float32) for n in (200, 9))
    vectors[[3, 150]] = 0
    queries[5] = 0
    vectors[20:30] *= np.float32(1e-12)
    scores, rows = top_k(queries, vectors, k)
    assert scores.dtype == np.float32 and rows.dtype == np.int64 and scores.shape == (9, min(k, 200))
    expected = exact(queries, vectors)
    order = np.argsort(-expected, axis=1, kind="stable")[:, :k]
    np.testing.assert_array_equal(rows, order)
    np.testing.assert_allclose(scores, np.take_along_axis(expected, order, 1), atol=1e-7)


@pytest.mark.parametrize("count", [101, 1000, 5003])
@pytest.mark.parametrize("queries", [1, 3, 64])
def test_equal_vectors_come_by_row(monkeypatch, count, queries):
    """A product of matrices gives the last rows, which fill no register, other roundings: 100 would come before 0."""
    monkeypatch.setattr(search, "BLOCK", 2000)
    draw = np.random.default_rng(0)
    vectors = np.tile(draw.standard_normal(384).astype(np.float32), (count, 1))
    _, rows = top_k(draw.standard_normal((queries, 384)).astype(np.float32), vectors, 10)
    np.testing.assert_array_equal(rows, np.tile(np.arange(10), (queries, 1)))


@pytest.mark.parametrize("k", [1, 10])
def test_cosines_closer_than_float32_products_can_tell_are_ordered(k):
    draw = np.random.default_rng(0)
    vectors = draw.standard_normal(384) + 2e-6 * draw.standard_normal((3000, 384))
    queries, vectors = draw.standard_normal((20, 384)).astype(np.float32), vectors.astype(np.float32)
    expected = np.argsort(-exact(queries, vectors), axis=1, kind="stable")[:, :k]
    np.testing.assert_array_equal(top_k(queries, vectors, k)[1], expected)


def test_a_score_depends_on_its_two_vectors_alone(monkeypatch):
    draw = np.random.default_rng(0)
    vectors, queries = (draw.standard_normal((n, 384)).astype(np.float32) for n in (3000, 64))
    scores, rows = top_k(queries, vectors, 10)
    monkeypatch.setattr(search, "BLOCK", 501)
    for query in range(0, 64, 9):
        alone = top_k(queries[query : query + 1], vectors, 10)
        np.testing.assert_array_equal(alone[0][0], scores[query])
        np.testing.assert_array_equal(alone[1][0], rows[query])


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e30])
def test_a_vector_without_a_finite_length_is_told(monkeypatch, value):
    monkeypatch.setattr(search, "BLOCK", 3)
    vectors = np.ones((8, 4), np.float32)
    vectors[5, 1] = value
    with pytest.raises(UserError, match="vector 5 of the corpus has no finite length"):
        top_k(np.ones((2, 4)), vectors, 2)


def test_no_queries_and_half_precision():
    vectors = np.random.default_rng(0).standard_normal((30, 4)).astype(np.float16)
    assert top_k(np.zeros((0, 4)), vectors, 7)[1].shape == (0, 7)
    np.testing.assert_array_equal(top_k(vectors, vectors, 1)[1][:, 0], np.arange(30))


def test_a_parquet_is_read_in_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr(search, "BLOCK", 10)
    vectors = np.random.default_rng(0).standard_normal((57, 4)).astype(np.float32)
    column = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(vectors.reshape(-1)), 4)
    table = pyarrow.table({"text": [f"t{row}" for row in range(57)], "vector": column})
    pyarrow.parquet.write_table(table, tmp_path / "v.parquet", row_group_size=25)
    read = read_corpus(tmp_path / "v.parquet")
    assert (read.count, read.size, str(read.texts[31])) == (57, 4, "t31")
    for _ in range(2):  # each batch of queries reads the file anew
        blocks = list(read.blocks())
        assert max(map(len, blocks)) <= 10
        np.testing.assert_array_equal(np.concatenate(blocks), vectors)
    for of_blocks, of_array in zip(
        top_k_of_blocks(vectors[:3], blocks, 5), top_k(vectors[:3], vectors, 5), strict=True
    ):
        np.testing.assert_array_equal(of_blocks, of_array)


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
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == texts[7] and [line.split()[0] for line in lines[1:]] == ["1", "2", "3"]
    expected = results[0]["results"]
    assert [line.split()[1:3] for line in lines[1:]] == [[f"{one['score']:.4f}", str(one["row"])] for one in expected]
    assert [line.endswith(f"  {one['text']}") for line, one in zip(lines[1:], expected, strict=True)] == (
        [ending == "parquet"] * 3  # of a .npy without --texts there are only rows
    )


def test_queries_of_standard_input_in_small_batches(capsys, monkeypatch, embedded, texts):
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join([texts[0], "", *texts[1:5]])))
    command = ["search", f"--checkpoint={finished_run()}", f"--corpus={embedded}/v.parquet", "--json"]
    capsys.readouterr()
    assert run_here(*command, "--batch_size=2", "--top=100") == 0
    results = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [result["query"] for result in results] == texts[:5]  # a blank line asks for nothing
    for result in results:
        assert sorted(found["row"] for found in result["results"]) == list(range(len(texts)))
        assert result["results"][0]["score"] == pytest.approx(1, abs=1e-5)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a\n\xff\n"), encoding="utf-8"))
    assert run_here(*command) == 2
    assert "standard input: is not UTF-8" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--corpus={0}/none.npy"], "none.npy: no such file"),
        (["--corpus={0}/texts.txt"], "expected a file that ends in .npy or .parquet"),
        (["--corpus={0}/v.npy", "--top=0"], "--top=0: expected 1 or more"),
        (["--corpus={0}/v.npy", "--batch_size=0"], "--batch_size=0: expected 1 or more"),
        (["--corpus={0}/other.npy"], "other.npy: has vectors of 5, but {1} makes vectors of 32"),
        (["--corpus={0}/nan.npy"], "vector 1 of the corpus has no finite length"),
        (["--corpus={0}/flat.npy"], "holds float32 of shape (4,): expected floats [n, D]"),
        (["--corpus={0}/broken.npy"], "is no .npy of vectors"),
        (["--corpus={0}/whole.npy"], "holds int64 of shape (2, 32): expected floats [n, D]"),
        (["--corpus={0}/objects.npy"], "is no .npy of vectors"),
        (["--corpus={0}/broken.parquet"], "has no columns text and vector"),
        (["--corpus={0}/texts.parquet"], "has no columns text and vector"),
        (["--corpus={0}/uneven.parquet"], "has no columns text and vector"),
        (["--corpus={0}/empty.npy"], "holds no vectors"),
        (["--corpus={0}/v.npy", "--texts={0}/short.txt"], "short.txt: has 1 lines, "),
        (["--corpus={0}/v.npy", "--texts={0}/none.txt"], "none.txt: cannot be read"),
    ],
)
def test_mistakes_are_told_in_one_line(capsys, embedded, arguments, message):
    np.save(embedded / "other.npy", np.ones((2, 5), np.float32))
    np.save(embedded / "nan.npy", np.array([[1], [np.nan]], np.float32).repeat(32, axis=1))
    np.save(embedded / "whole.npy", np.ones((2, 32), np.int64))
    np.save(embedded / "objects.npy", np.array([{}]), allow_pickle=True)
    for name, columns in (("texts", {}), ("uneven", {"vector": [[1.0], [1.0, 2.0]]})):
        pyarrow.parquet.write_table(pyarrow.table({"text": ["a", "b"]} | columns), embedded / f"{name}.parquet")
    np.save(embedded / "flat.npy", np.ones(4, np.float32))
    np.save(embedded / "empty.npy", np.ones((0, 32), np.float32))
    (embedded / "short.txt").write_text("a\n")
    for name in ("broken.npy", "broken.parquet"):
        (embedded / name).write_bytes(b"x" * 100)
    filled = [argument.format(embedded) for argument in arguments]
    capsys.readouterr()
    assert run_here("search", f"--checkpoint={finished_run()}", *filled, "a") == 2
    err = capsys.readouterr().err
    assert message.format(embedded, finished_run()) in err and err.count("\n") == 1
