"""Fixtures that several test folders share, and the environment of all tests and of the processes that they start."""

import atexit
import os
import shutil
import tempfile
from pathlib import Path

import pytest
from jaxtyping import install_import_hook

from tests import weights

# Set before jax is imported. A program that one test has compiled is read from a folder by all later ones.
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")  # libtpu would ask a metadata server that is not there
# A train step compiles in 3 s instead of 22.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false")
if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
    os.environ["JAX_COMPILATION_CACHE_DIR"] = tempfile.mkdtemp(prefix="bert-jax-compiled-")
    atexit.register(shutil.rmtree, os.environ["JAX_COMPILATION_CACHE_DIR"], ignore_errors=True)
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"

# The shapes and types that public functions of the mathematics declare are checked at run time.
install_import_hook(["bert_jax.losses", "bert_jax.data.masking", "bert_jax.model"], "beartype.beartype")

DATA_VARIABLE = "BERT_JAX_DATA"


@pytest.fixture(scope="session")
def shared_data():
    """Folder of real corpora; tests that use it skip where it is absent."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get(DATA_VARIABLE, beside))
    if not folder.is_dir():
        pytest.skip(f"no real data: set {DATA_VARIABLE} to the folder that holds it")
    return folder


@pytest.fixture(scope="session", name="minilm")
def _minilm():
    return weights.minilm()


@pytest.fixture(scope="session", name="cassette")
def _cassette():
    return weights.cassette()


# What may be skipped where everything is installed (CI): reasons that a machine can have, never a missing package.
ALLOWED_SKIPS = ("no small file system",)
_unexpected_skips = []


def pytest_runtest_logreport(report):
    if report.skipped and not hasattr(report, "wasxfail"):
        reason = str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr)
        if not any(allowed in reason for allowed in ALLOWED_SKIPS):
            _unexpected_skips.append(f"{report.nodeid}: {reason}")


def pytest_sessionfinish(session):
    if os.environ.get("CI") and _unexpected_skips:
        print("\nskipped, and not on the list of tests/conftest.py:", *_unexpected_skips, sep="\n  ")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
