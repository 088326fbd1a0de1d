"""`bert-jax embed` against sentence-transformers, and by what a vector must not depend on."""

import io

import jax.numpy as jnp
import numpy as np
import pyarrow.parquet
import pytest

from bert_jax import embed
from bert_jax.errors import UserError
from bert_jax.model import encoder
from bert_jax.model.presets import ComputeConfig
from bert_jax.models import load_model
from tests.e2e.conftest import finished_run, run_here

TEXTS = ["A man is eating.", "", "Ein Café in 北京!", "word " * 500, "yes"]


@pytest.fixture(scope="module")
def model(minilm):
    return load_model(minilm)


@pytest.fixture(scope="module")
def vectors(model):
    return embed.embed_texts(model, TEXTS)


@pytest.mark.parity
def test_vectors_are_those_of_sentence_transformers(vectors, minilm):
    sentence_transformers = pytest.importorskip("sentence_transformers")
    theirs = sentence_transformers.SentenceTransformer(str(minilm), device="cpu").encode(TEXTS)
    np.testing.assert_allclose(vectors, theirs, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


def test_neighbours_order_and_batch_size_change_nothing(model, vectors, monkeypatch):
    """Case F15: alone, or beside a text of 500 tokens; an empty text has a vector, too."""
    monkeypatch.setattr(embed, "CHUNK_TEXTS", 2)
    alone = np.concatenate([embed.embed_texts(model, [text], batch_size=1) for text in TEXTS])
    chunked = embed.embed_texts(model, iter(TEXTS[::-1]), batch_size=3)[::-1]
    for other in (alone, chunked):
        assert (other * vectors).sum(1).min() > 0.999999
    assert embed.embed_texts(model, []).shape == (0, 384)


def test_states_of_any_layer(model):
    ids, _ = model.tokenizer.encode(TEXTS[:1])
    row = np.array([[model.tokenizer.cls_id, *ids, model.tokenizer.sep_id]])
    inputs = row, np.zeros_like(row), np.ones(row.shape, bool)
    hidden, _ = encoder.encode_layers(model.params, model.config, ComputeConfig(), *map(jnp.asarray, inputs))
    for layer in (0, 3, 6):
        expected = np.asarray(hidden[layer, 0]).mean(0)
        found = embed.embed_texts(model, TEXTS[:1], layer=layer)[0]
        np.testing.assert_allclose(found, expected / np.linalg.norm(expected), atol=1e-5)
    with pytest.raises(UserError, match=r"layer 7: .* has layers 1 to 6, and 0, its embeddings"):
        embed.embed_texts(model, TEXTS, layer=7)
    with pytest.raises(UserError, match="the first token is the same in every text"):
        embed.embed_texts(model, TEXTS, layer=0, pooling="cls")


@pytest.mark.parametrize("ending", ["npy", "parquet"])
def test_the_command_writes_a_vector_a_line(tmp_path, capsys, monkeypatch, minilm, vectors, ending):
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS) + "\n")
    monkeypatch.setattr(embed, "CHUNK_TEXTS", 2)
    out = tmp_path / f"out.{ending}"
    command = ["embed", f"--checkpoint={minilm}", f"--out={out}"]
    assert run_here(*command, f"--input={tmp_path / 'texts.txt'}") == 0
    assert f"{out}: 5 vectors of 384, 1 of them cut to 256 tokens" in capsys.readouterr().out
    if ending == "npy":
        found = np.load(out)
    else:
        table = pyarrow.parquet.read_table(out)
        assert table["text"].to_pylist() == TEXTS
        found = np.array(table["vector"].to_pylist(), np.float32)
    np.testing.assert_allclose(found, vectors, atol=1e-5)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["texts.txt", out.name])
    assert run_here(*command) == 2 and "exists: name a new file" in capsys.readouterr().err


def test_a_pretrained_run_embeds_standard_input_by_the_mean(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("bada komi\nlumi\n"))
    assert run_here("embed", f"--checkpoint={finished_run()}", f"--out={tmp_path / 'x.npy'}") == 0
    assert np.load(tmp_path / "x.npy").shape == (2, 32)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--out={0}/x.txt"], "expected a file that ends in .npy or .parquet"),
        (["--out={0}/x.npy", "--batch_size=0"], "--batch_size=0: expected 1 or more"),
        (["--out={0}/x.npy", "--input={0}/none"], "none: cannot be read"),
        (["--out={0}/x.npy", "--input={0}/bytes"], "bytes: is not UTF-8"),
        (["--out={0}/x.parquet", "--input={0}/texts", "--layer=9"], "layer 9: "),
    ],
)
def test_mistakes_are_told_in_one_line_and_leave_nothing(tmp_path, capsys, arguments, message):
    (tmp_path / "bytes").write_bytes(b"a\n\xff\n")
    (tmp_path / "texts").write_text("a\n")
    filled = [argument.format(tmp_path) for argument in arguments]
    assert run_here("embed", f"--checkpoint={finished_run()}", *filled) == 2
    told = capsys.readouterr().err
    assert message in told and told.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bytes", "texts"]
