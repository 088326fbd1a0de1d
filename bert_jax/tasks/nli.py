"""Sentence embeddings from natural language inference (Reimers and Gurevych 2019): classified pairs teach vectors."""

from pathlib import Path

import numpy as np

from bert_jax.errors import UserError
from bert_jax.tasks import sts
from bert_jax.tasks.embedding_losses import EmbeddingLoss
from bert_jax.tasks.glue import LAYOUTS, read_tsv
from bert_jax.tasks.pair_vectors import pair_features, vector_head
from bert_jax.tasks.table import read_texts
from bert_jax.tasks.task import Split, Task

SETTINGS = ("validation", "test", "first", "second", "label", "pooling")


def load(config, tokenizer, length, head=None):
    """The Task of a TaskConfig named nli: pairs of a label each, and as `validation` scored pairs as sts reads them.

    data: the folder of the GLUE download, of which MNLI is read, or a table with the columns that the config names.
    """
    splits, classes = {}, 0
    if config.data:
        texts = _training_texts(config)
        words = sorted(set(texts.labels))
        classes = len(words)
        if classes < 2:
            raise UserError(f"{config.data}: has one label ({words[0]}): expected two or more")
        labels = np.array([words.index(word) for word in texts.labels], np.int32)
        splits["train"] = Split(pair_features(tokenizer, length, texts.first, texts.second), labels, rows=2)
    for name, path in (("validation", config.validation), ("test", config.test)):
        if path:
            splits[name] = sts.similarity_split(path, config, tokenizer, length)
    head = vector_head("nli", config, length, head)
    loss = EmbeddingLoss("nli", classes)
    return Task("nli", head, splits, sts.scored, sts.FIGURES[0], sts.predictions, loss=loss)


def _training_texts(config):
    path = Path(config.data)
    if path.is_dir():
        return read_tsv(path / "MNLI" / "train.tsv", LAYOUTS["mnli"], True, None, [])
    if not config.second:
        raise UserError(f"{path}: name the column of the second text: --config.task.second=COLUMN")
    return read_texts(path, config, regress=False)
