"""Apache Beam runs the same tasks: the data is what local workers make."""

import subprocess
import sys
import time

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


def test_progress_is_told_while_the_pipeline_runs(prepare_text, monkeypatch):
    """A block that takes longer than the time between two looks, and results that come one by one."""
    from bert_jax.data import beam, stages, workers

    def slowly(task, write_block=stages.write_block):
        time.sleep(0.3)
        return write_block(task)

    monkeypatch.setattr(beam, "SECONDS_BETWEEN_LOOKS", 0.05)
    monkeypatch.setattr(workers, "SECONDS_BETWEEN_LINES", 0.0)
    monkeypatch.setattr(stages, "write_block", slowly)
    lines = []
    prepare_text(corpus(np.random.default_rng(0), 100), runner="beam", log=lines.append, **SETTINGS)
    told = [line for line in lines if line.startswith("preparing") and "s left" in line]
    assert len(told) >= 3


def test_a_preparation_that_beam_did_not_finish_goes_on_without_it(prepare_text, monkeypatch):
    from bert_jax.data import stages

    text, calls = corpus(np.random.default_rng(0), 100), []

    def failing(task, write_block=stages.write_block):
        calls.append(task.block.index)
        if len(calls) > 2:
            raise UserError("stopped")
        return write_block(task)

    with monkeypatch.context() as patch:
        patch.setattr(stages, "write_block", failing)
        with pytest.raises(UserError, match="stopped"):
            prepare_text(text, runner="beam", **SETTINGS)
    lines = []
    resumed = prepare_text(text, log=lines.append, **SETTINGS)
    assert any("MB of it earlier" in line for line in lines if line.startswith("preparing"))
    whole = files_of(prepare_text(text, "whole", **SETTINGS).path)
    assert files_of(resumed.path) | {"preparation.json": b""} == whole | {"preparation.json": b""}
