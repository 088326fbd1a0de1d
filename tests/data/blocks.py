"""Blocks whose tokens are all different, for tests of how text is cut: token t has id t."""

import numpy as np
from hypothesis import strategies as st

from bert_jax.data.examples import Block

# Sentence lengths of documents: lone sentences, long ones that no row holds, and everything between.
corpora = st.lists(st.lists(st.integers(1, 60) | st.integers(1, 8), min_size=1, max_size=30), min_size=1, max_size=6)


def block_of(sentence_lengths):
    flat = [n for document in sentence_lengths for n in document]
    sentences = np.concatenate([[0], np.cumsum(flat)]).astype(np.int64)
    documents = np.concatenate([[0], np.cumsum([len(document) for document in sentence_lengths])]).astype(np.int64)
    return Block(np.arange(sentences[-1], dtype=np.int32), sentences, documents)


def segments_of(pieces):
    """The pieces as lists of segments, each a list of tokens."""
    segments = [list(range(start, start + length)) for start, length in zip(pieces.start, pieces.length, strict=True)]
    return [segments[a:b] for a, b in zip(pieces.first[:-1], pieces.first[1:], strict=True)]
