"""A small WordPiece vocabulary, and what `tokenizers` makes of a text with it."""

import functools
import itertools
import random

import numpy as np
import pytest

from bert_jax.text.wordpiece import build_wordpiece

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
LETTERS = [chr(c) for c in range(ord("a"), ord("z") + 1)]
WORDS = ["at", "the", "cat", "sat", "mat", "un", "##aff", "##able", "##sat", *"[]()!?.,'<>/#$0123456789"]
TOKENS = [*SPECIAL, "[unused0]", "[unused1]", *LETTERS, *("##" + c for c in LETTERS), *WORDS]


@pytest.fixture
def vocabulary(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("".join(token + "\n" for token in TOKENS), encoding="utf-8")
    return path


def rows(encoded):
    ids, offsets = encoded
    assert ids.dtype == np.uint32 and offsets.dtype == np.int64 and offsets[0] == 0 and offsets[-1] == len(ids)
    return [ids[start:end].tolist() for start, end in itertools.pairwise(offsets)]


@functools.cache
def peer_tokenizer(tokens, lower_case):
    peer = build_wordpiece(tokens, lower_case, None, "peer")
    peer.encode_special_tokens = True
    return peer


def expected_ids(tokens, texts, lower_case):
    """Ids by `tokenizers`, one text at a time, with special tokens spelt out in a text read as text."""
    peer = peer_tokenizer(tuple(tokens), lower_case)
    return [peer.encode(text, add_special_tokens=False).ids for text in texts]


def made_up_sentences(count, seed=0):
    """English-like text from some 400 made-up words, frequent ones short."""
    draw = random.Random(seed)
    syllables = [a + b for a in "bcdfglmnprst" for b in "aeiou"]
    words = ["".join(draw.choices(syllables, k=1 + i // 150)) for i in range(400)]
    weights = [1 / (i + 1) for i in range(400)]
    return ["The " + " ".join(draw.choices(words, weights, k=9)) + ", caf\u00e9." for _ in range(count)]
