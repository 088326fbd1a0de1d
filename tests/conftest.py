"""Fixtures that several test folders share."""

import os
from pathlib import Path

import pytest

DATA_VARIABLE = "BERT_JAX_DATA"


@pytest.fixture(scope="session")
def shared_data():
    """Folder of real corpora; tests that use it skip where it is absent."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get(DATA_VARIABLE, beside))
    if not folder.is_dir():
        pytest.skip(f"no real data: set {DATA_VARIABLE} to the folder that holds it")
    return folder
