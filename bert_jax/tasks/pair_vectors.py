"""What tasks of embeddings have in common: examples of several texts, each of which has a vector of its own."""

import itertools

from bert_jax.model.task_heads import HeadConfig
from bert_jax.tasks.features import encode_rows
from bert_jax.tasks.task import fitting_head


def pair_features(tokenizer, length, *columns):
    """Features with a row a text: the texts of an example, one of each column, stand one behind the other."""
    texts = list(itertools.chain.from_iterable(zip(*columns, strict=True)))
    return encode_rows(tokenizer, texts, length=length)


def vector_head(task, config, length, head):
    """`head`, if that is given and embeds, else the one that a TaskConfig asks for."""
    return fitting_head(task, head or HeadConfig("embed", pooling=config.pooling, length=length), "embed")
