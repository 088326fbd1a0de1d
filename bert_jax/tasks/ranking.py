"""Sentence embeddings from pairs that belong together: all other second texts of the batch are the wrong ones."""

from pathlib import Path

import numpy as np

from bert_jax.errors import UserError
from bert_jax.tasks import sts
from bert_jax.tasks.embedding_losses import EmbeddingLoss
from bert_jax.tasks.pair_vectors import pair_features, vector_head
from bert_jax.tasks.table import read_column, read_rows
from bert_jax.tasks.task import Split, Task

SETTINGS = ("validation", "test", "first", "second", "negative", "label", "pooling", "matryoshka")
CUT = 10  # ranks below count as nothing in the mean reciprocal rank


def load(config, tokenizer, length, head=None):
    """The Task of a TaskConfig named ranking: tables of pairs in the columns `first` and `second`, and of `negative`
    maybe, a text that is not wanted.

    Held-out pairs are scored by the rank of each second text among all those of their split; a .tsv is read as scored
    pairs instead (sts.py).
    """
    if not config.second:
        raise UserError("ranking: name the column of the second text: --config.task.second=COLUMN")
    splits = {}
    for name, path in (("train", config.data), ("validation", config.validation), ("test", config.test)):
        if not path:
            continue
        scored_pairs = name != "train" and Path(path).suffix == ".tsv"
        read = sts.similarity_split if scored_pairs else _pairs
        splits[name] = read(path, config, tokenizer, length)
    main = sts.FIGURES[0] if _is_scored(splits.get("validation")) else f"mrr@{CUT}"
    head = vector_head("ranking", config, length, head)
    loss = EmbeddingLoss("ranking", dims=tuple(config.matryoshka))
    return Task("ranking", head, splits, _scores, main, _predictions, loss=loss)


def _pairs(path, config, tokenizer, length):
    """The Split of a table; labels int32 [n]: which of the distinct second texts an example has."""
    rows = read_rows(path)
    names = [config.first, config.second, *([config.negative] if config.negative else [])]
    columns = [read_column(path, rows, name) for name in names]
    _, labels = np.unique(columns[1], return_inverse=True)
    return Split(pair_features(tokenizer, length, *columns), labels.astype(np.int32), rows=len(columns))


def _is_scored(split):
    return split is not None and np.issubdtype(split.labels.dtype, np.floating)


def _scores(split, outputs):
    if _is_scored(split):
        return sts.scored(split, outputs)
    ranks = ranks_of(outputs, split.labels)
    reciprocal = np.where(ranks <= CUT, 1 / ranks, 0.0)
    return {f"mrr@{CUT}": float(reciprocal.mean())} | {f"recall@{k}": float((ranks <= k).mean()) for k in (1, CUT)}


def ranks_of(vectors_nxRxD, labels_n):
    """The rank, from 1, of each example's second text among the distinct ones by cosine; of ties the worst."""
    vectors = vectors_nxRxD[:, :2].astype(np.float64)
    vectors /= np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-12)
    _, first_of = np.unique(labels_n, return_index=True)
    seconds = vectors[first_of, 1]
    ranks = []
    for start in range(0, len(vectors), 1000):  # bounds the memory of the products
        products = vectors[start : start + 1000, 0] @ seconds.T
        own = np.take_along_axis(products, labels_n[start : start + 1000, None], axis=1)
        ranks.append((products >= own).sum(axis=1))
    return np.concatenate(ranks)


def _predictions(split, outputs):
    if _is_scored(split):
        yield from sts.predictions(split, outputs)
        return
    for index, rank in enumerate(ranks_of(outputs, split.labels)):
        yield {"index": index, "rank": int(rank)}
