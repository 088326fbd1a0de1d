"""Semantic textual similarity: how well cosines of vectors rank pairs of sentences as people do."""

import csv
from pathlib import Path

import numpy as np

from bert_jax.embed import embed_texts
from bert_jax.errors import UserError
from bert_jax.tasks.glue import LAYOUTS, read_tsv
from bert_jax.tasks.metrics import score

FEWEST_COLUMNS = 7  # of the STS benchmark's own files: genre, file, year, number, score, two sentences, maybe sources


def evaluate(model, path, batch_size):
    """Spearman's and Pearson's correlation of the cosines with the scores of a file (`read_pairs`), and `examples`."""
    first, second, scores = read_pairs(path)
    vectors = embed_texts(model, [*first, *second], batch_size=batch_size).astype(np.float64)
    vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    cosines = (vectors[: len(first)] * vectors[len(first) :]).sum(axis=1)
    return score(("spearman", "pearson"), cosines, np.array(scores)) | {"examples": len(scores)}


def read_pairs(path):
    """(first sentences, second ones, scores) of a file: of GLUE's STS-B, which has a header, or of the STS benchmark's
    own, which has none. UserError, with the line, for another layout."""
    path = Path(path)
    if not path.is_file():
        raise UserError(f"--data {path}: no such file: expected STS pairs, such as dev.tsv of GLUE's STS-B")
    layout = LAYOUTS["stsb"]
    with open(path, encoding="utf-8-sig", newline="\n") as file:
        rows = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    if rows and layout.first in rows[0]:
        texts = read_tsv(path, layout, True, None, [])
        return texts.first, texts.second, texts.labels
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
    return first, second, scores
