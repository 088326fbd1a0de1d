"""Losses of embeddings against torch and sentence-transformers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bert_jax.errors import UserError
from bert_jax.tasks.embedding_losses import SCALE, EmbeddingLoss, embedding_sums

VECTORS = np.random.default_rng(0).normal(size=(6, 3, 8)).astype(np.float32)
ONES = np.ones(6, np.float32)
DISTINCT = np.arange(6)


def mean_loss(loss, vectors, labels, weights=ONES, classify=None):
    sums = embedding_sums(loss, jnp.asarray(vectors), jnp.asarray(labels), jnp.asarray(weights), classify)
    return float(sums["task_loss"] / sums["task_weight"])


@pytest.mark.parity
def test_each_loss_is_that_of_sentence_transformers():
    torch = pytest.importorskip("torch")
    losses = pytest.importorskip("sentence_transformers.sentence_transformer.losses")
    u, v, w = (torch.tensor(VECTORS[:, place]) for place in range(3))
    scores = np.linspace(-1, 1, 6).astype(np.float32)
    cosine = losses.CosineSimilarityLoss(None).compute_loss_from_embeddings([u, v], torch.tensor(scores))
    assert mean_loss(EmbeddingLoss("cosine"), VECTORS[:, :2], scores) == pytest.approx(float(cosine), abs=1e-6)
    for texts in (2, 3):
        ranking = losses.MultipleNegativesRankingLoss(None, scale=SCALE)
        theirs = float(ranking.compute_loss_from_embeddings([u, v, w][:texts], None))
        assert mean_loss(EmbeddingLoss("ranking"), VECTORS[:, :texts], DISTINCT) == pytest.approx(theirs, abs=1e-5)
    weight, labels = torch.tensor(np.random.default_rng(1).normal(size=(24, 3)).astype(np.float32)), DISTINCT % 3
    logits = torch.cat([u, v, (u - v).abs()], 1) @ weight
    theirs = float(torch.nn.functional.cross_entropy(logits, torch.tensor(labels)))
    ours = mean_loss(EmbeddingLoss("nli", 3), VECTORS[:, :2], labels, ONES, lambda x: x @ weight.numpy())
    assert ours == pytest.approx(theirs, abs=1e-5)


@pytest.mark.parametrize("kind", ["cosine", "ranking"])
def test_matryoshka_is_the_mean_over_beginnings_and_the_whole(kind):
    labels = DISTINCT if kind == "ranking" else np.linspace(0, 1, 6).astype(np.float32)
    each = [mean_loss(EmbeddingLoss(kind), VECTORS[:, :2, :size], labels) for size in (2, 4, 8)]
    both = mean_loss(EmbeddingLoss(kind, dims=(4, 2)), VECTORS[:, :2], labels)
    assert both == pytest.approx(np.mean(each), abs=1e-6)


@pytest.mark.parametrize("kind", ["cosine", "ranking"])
def test_filling_is_neither_example_nor_negative(kind):
    labels = DISTINCT if kind == "ranking" else np.linspace(0, 1, 6).astype(np.float32)
    weights = np.array([1, 1, 1, 1, 0, 0], np.float32)
    short = mean_loss(EmbeddingLoss(kind), VECTORS[:4], labels[:4], ONES[:4])
    assert mean_loss(EmbeddingLoss(kind), VECTORS, labels, weights) == pytest.approx(short, abs=1e-6)


def test_the_same_second_text_is_no_negative():
    pairs, labels = np.concatenate([VECTORS, VECTORS[:1]])[:, :2], np.append(DISTINCT, 0)
    units = pairs / np.linalg.norm(pairs, axis=-1, keepdims=True)
    logits = SCALE * units[:, 0] @ units[:, 1].T
    expected = [
        np.log(np.exp(row[np.append(np.flatnonzero(labels != labels[n]), n)]).sum()) - row[n]
        for n, row in enumerate(logits)
    ]
    assert mean_loss(EmbeddingLoss("ranking"), pairs, labels, np.ones(7)) == pytest.approx(np.mean(expected), abs=1e-5)

    def loss(vectors):
        return embedding_sums(EmbeddingLoss("ranking"), vectors, jnp.asarray(labels), jnp.ones(7))["task_loss"]

    assert jnp.isfinite(jax.grad(loss)(jnp.asarray(pairs))).all()


def test_settings_that_make_no_sense_are_refused():
    with pytest.raises(UserError, match="expected one of cosine, nli, ranking"):
        EmbeddingLoss("triplet")
    with pytest.raises(UserError, match="the loss of nli uses whole vectors"):
        EmbeddingLoss("nli", 3, dims=(64,))
    with pytest.raises(UserError, match=r"matryoshka \(4, 9\): the model's vectors have 8 numbers"):
        mean_loss(EmbeddingLoss("cosine", dims=(4, 9)), VECTORS[:, :2], np.zeros(6, np.float32))
