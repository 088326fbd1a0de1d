"""Semantic textual similarity: how well cosines of vectors rank pairs of sentences as people do."""

import csv
from pathlib import Path

import numpy as np

from bert_jax.errors import UserError
from bert_jax.tasks.embedding_losses import EmbeddingLoss
from bert_jax.tasks.glue import LAYOUTS, read_tsv
from bert_jax.tasks.metrics import score
from bert_jax.tasks.pair_vectors import pair_features, vector_head
from bert_jax.tasks.table import read_texts
from bert_jax.tasks.task import Split, Task
from bert_jax.tasks.text_tasks import Texts

SETTINGS = ("validation", "test", "first", "second", "label", "pooling", "matryoshka")
FEWEST_COLUMNS = 7  # of the STS benchmark's own files: genre, file, year, number, score, two sentences, maybe sources
HIGHEST = 5.0  # score of those files
FIGURES = ("spearman", "pearson")


def load(config, tokenizer, length, head=None):
    """The Task of a TaskConfig named sts: pairs whose cosine is to be their score.

    data: the folder with STS-B's train.tsv and dev.tsv, or the one that holds STS-B/; or files: .tsv of the STS
    benchmark or of GLUE, scored from 0 to 5, or tables with the columns that the config names, scored from -1 to 1.
    """
    folder = Path(config.data)
    files = {"train": config.data, "validation": config.validation, "test": config.test}
    if config.data and folder.is_dir():
        folder = folder / "STS-B" if (folder / "STS-B").is_dir() else folder
        files |= {"train": folder / "train.tsv", "validation": config.validation or folder / "dev.tsv"}
    splits = {split: similarity_split(path, config, tokenizer, length) for split, path in files.items() if path}
    head = vector_head("sts", config, length, head)
    loss = EmbeddingLoss("cosine", dims=tuple(config.matryoshka))
    return Task("sts", head, splits, scored, FIGURES[0], predictions, loss=loss)


def similarity_split(path, config, tokenizer, length):
    """The Split of a file of scored pairs: `rows` 2, labels float32 [n], from -1 to 1."""
    texts = read_pairs(path, config)
    labels = np.array(texts.labels, np.float32)
    if Path(path).suffix == ".tsv":
        labels /= HIGHEST
    outside = np.flatnonzero(~(np.abs(labels) <= 1))
    if len(outside):
        value = texts.labels[outside[0]]
        raise UserError(f"{path}: pair {outside[0]} has the score {value}: expected -1 to 1, and 0 to 5 of a .tsv")
    return Split(pair_features(tokenizer, length, texts.first, texts.second), labels, rows=2)


def scored(split, outputs):
    """Correlations of the cosines of vectors [n, 2, D] with the labels."""
    return score(FIGURES, cosines(outputs), split.labels)


def predictions(split, outputs):
    for index, value in enumerate(cosines(outputs)):
        yield {"index": index, "cosine": float(value)}


def cosines(vectors_nx2xD):
    vectors = vectors_nx2xD.astype(np.float64)
    vectors /= np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-12)
    return (vectors[:, 0] * vectors[:, 1]).sum(axis=-1)


def read_pairs(path, config):
    """The Texts of a file: a .tsv of GLUE's STS-B, which has a header, or of the STS benchmark's own, which has none;
    or a table with the columns that a TaskConfig names. UserError, with the line, for another layout."""
    path = Path(path)
    if path.suffix != ".tsv":
        if not config.second:
            raise UserError(f"{path}: name the column of the second text: --config.task.second=COLUMN")
        return read_texts(path, config, regress=True)
    if not path.is_file():
        raise UserError(f"{path}: no such file: expected STS pairs, such as dev.tsv of GLUE's STS-B")
    with open(path, encoding="utf-8-sig", newline="\n") as file:
        rows = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    layout = LAYOUTS["stsb"]
    if rows and layout.first in rows[0]:
        return read_tsv(path, layout, True, None, [])
    first, second, scores = [], [], []
    for line, cells in enumerate(rows, 1):
        try:
            scores.append(float(cells[4]))
            first.append(cells[5])
            second.append(cells[6])
        except (ValueError, IndexError) as error:
            raise UserError(
                f"{path}, line {line}: is no pair of the STS benchmark: expected {FEWEST_COLUMNS} columns or more, the "
                f"fifth a score"
            ) from error
    return Texts(first, second, scores)
