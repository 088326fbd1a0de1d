"""Prepared data to report on: made by the fixtures of tests/data, of each kind of example."""

import numpy as np
import pytest

from bert_jax.data.prepare import PrepareConfig, prepare
from tests.data.conftest import corpus, prepare_text, vocabulary  # noqa: F401

KINDS = {
    "pairs": {"kind": "pairs"},
    "sop": {"kind": "sop"},
    "full_sentences": {"kind": "full_sentences"},
    "doc_sentences": {"kind": "doc_sentences"},
    "packed documents": {"kind": "packed", "length": 64, "piece_length": 32},
    "packed pairs": {"kind": "packed", "length": 64, "pieces": "pairs", "piece_length": 32},
}


@pytest.fixture(scope="session")
def data_of_kind(tmp_path_factory, vocabulary):  # noqa: F811
    """data_of_kind(name): the Prepared data of one of KINDS, made once; rows of 32 tokens, of 64 where packed."""
    folder, made = tmp_path_factory.mktemp("kinds"), {}
    source = folder / "text.txt"
    source.write_text(corpus(np.random.default_rng(0), 60))

    def of_kind(name):
        if name not in made:
            settings = {"length": 32, "sentence_per_line": True, "fast": False, "held_out": 0.1} | KINDS[name]
            out = folder / name.replace(" ", "-")
            made[name] = prepare(PrepareConfig((str(source),), str(vocabulary), str(out), **settings))
        return made[name]

    return of_kind
