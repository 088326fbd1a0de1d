"""Apache Beam runs the same tasks: the data is what local workers make."""

import subprocess
import sys

import numpy as np
import pytest

from bert_jax.errors import UserError
from tests.data.conftest import corpus, files_of

pytest.importorskip("apache_beam", reason="extra [beam] is not installed")

SETTINGS = {"block_bytes": 10_000, "held_out": 0.1}


def test_the_direct_runner_gives_what_local_workers_give(prepare_text):
    text = corpus(np.random.default_rng(0), 200)
    ours = files_of(prepare_text(text, "local", **SETTINGS).path)
    beam = files_of(prepare_text(text, "beam", runner="beam", **SETTINGS).path)
    assert sum(name.startswith("pairs-train") for name in ours) >= 4
    # The corpus was written twice, under two names.
    assert beam.pop("preparation.json") == ours.pop("preparation.json").replace(b"local.txt", b"beam.txt")
    assert beam == ours


def test_several_workers_of_beam_give_the_same(prepare_text):
    text = corpus(np.random.default_rng(1), 100)
    options = "--direct_num_workers=2 --direct_running_mode=multi_threading"
    one = files_of(prepare_text(text, "one", **SETTINGS).path)
    two = files_of(prepare_text(text, "two", runner="beam", beam_options=options, **SETTINGS).path)
    assert {n: one[n] for n in one if n != "preparation.json"} == {n: two[n] for n in two if n != "preparation.json"}


def test_a_users_mistake_is_one_line_not_beams_traceback(prepare_text, tmp_path):
    (tmp_path / "bad.txt").write_bytes(b"w1.\n\xff\n")
    with pytest.raises(UserError, match=r"^[^\n]*bad.txt: byte 0xff at offset 4 is not UTF-8[^\n]*$"):
        prepare_text("w1.", sources=(str(tmp_path / "bad.txt"),), runner="beam")


def test_without_beam_the_extra_is_named(prepare_text, monkeypatch):
    monkeypatch.setitem(sys.modules, "apache_beam", None)
    with pytest.raises(UserError, match=r"expected pip install 'bert-jax\[beam\]'"):
        prepare_text("w1.\nw2.\n\nw3.\nw4.", runner="beam")


def test_local_preparation_does_not_import_beam():
    program = "import sys, bert_jax.data.prepare; print('apache_beam' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
