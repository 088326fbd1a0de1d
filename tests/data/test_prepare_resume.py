"""An interrupted preparation goes on where it stopped, and gives what it would have given."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from bert_jax.data import stages
from bert_jax.errors import UserError
from tests.data.conftest import corpus, files_of

SETTINGS = {"block_bytes": 4000, "held_out": 0.2, "passes": 2}


@pytest.fixture
def calls(monkeypatch):
    """How often each stage's function was called; calls["stop"] = n interrupts the n-th block."""
    counts = {"spill": 0, "write_block": 0, "stop": None}

    def counted(name, function):
        def call(task):
            counts[name] += 1
            if name == "write_block" and counts[name] == counts["stop"]:
                raise KeyboardInterrupt
            return function(task)

        monkeypatch.setattr(stages, name, call)

    counted("spill", stages.spill)
    counted("write_block", stages.write_block)
    return counts


@pytest.fixture
def text():
    return corpus(np.random.default_rng(0), 60)


def test_finished_tasks_are_not_done_again(prepare_text, calls, text):
    whole = files_of(prepare_text(text, "whole", **SETTINGS).path)
    blocks = calls["write_block"]
    assert blocks >= 6
    calls.update(spill=0, write_block=0, stop=4)
    with pytest.raises(KeyboardInterrupt):
        prepare_text(text, "halved", **SETTINGS)
    calls.update(spill=0, write_block=0, stop=None)
    lines = []
    resumed = prepare_text(text, "halved", lines.append, **SETTINGS)
    assert calls["spill"] == 0 and calls["write_block"] == blocks - 3
    assert any("an interrupted preparation was here" in line for line in lines)
    assert any("MB of it earlier" in line for line in lines)
    # The path of the text, which the origin records, is the one difference.
    ours = files_of(resumed.path)
    assert ours.keys() == whole.keys()
    assert all(ours[name] == whole[name] for name in whole if name != "preparation.json")
    assert not (resumed.path / "work").exists()


def test_work_under_other_settings_is_not_taken_over(prepare_text, calls, text):
    calls["stop"] = 4
    with pytest.raises(KeyboardInterrupt):
        prepare_text(text, **SETTINGS)
    calls.update(spill=0, write_block=0, stop=None)
    changed = files_of(prepare_text(text, **SETTINGS | {"passes": 1}).path)
    assert calls["spill"] == 0  # reading is the same
    assert changed == files_of(prepare_text(text, "out2", **SETTINGS | {"passes": 1}).path) | {
        "preparation.json": changed["preparation.json"]
    }


def test_what_was_damaged_in_between_is_made_again(prepare_text, calls, text, tmp_path):
    whole = files_of(prepare_text(text, "whole", **SETTINGS).path)
    calls["stop"] = calls["write_block"] + 4
    with pytest.raises(KeyboardInterrupt):
        prepare_text(text, "out", **SETTINGS)
    work = tmp_path / "out.partial" / "work"
    shard = sorted(work.glob("*.part"))[0]
    shard.write_bytes(shard.read_bytes()[:-1] + b"?")
    sorted((work / "spilled").glob("run-*[0-9]"))[0].unlink()
    calls.update(spill=0, stop=None)
    resumed = files_of(prepare_text(text, "out", **SETTINGS).path)
    assert calls["spill"] == 1
    assert all(resumed[name] == whole[name] for name in whole if name != "preparation.json")


def test_one_file_mended_leaves_the_others_read(tmp_path, vocabulary, calls, text):
    from bert_jax.data.prepare import PrepareConfig, prepare

    for number in range(4):
        (tmp_path / f"{number}.txt").write_text(text)
    (tmp_path / "2.txt").write_bytes(b"w1.\xff\n" + text.encode())
    config = PrepareConfig(
        (str(tmp_path / "*.txt"),), str(vocabulary), str(tmp_path / "out"), 32, block_bytes=4000, fast=False
    )
    with pytest.raises(UserError, match=r"2.txt: byte 0xff at offset 3"):
        prepare(config)
    assert calls["spill"] == 3
    (tmp_path / "2.txt").write_text(text)
    prepare(config)
    assert calls["spill"] == 3 + 2


def test_a_preparation_that_is_killed_goes_on(tmp_path, vocabulary, text):
    """SIGKILL at some moments of a run with two workers; the data is that of a run that was left alone."""
    source = tmp_path / "text.txt"
    source.write_text("\n\n".join([text] * 20))
    program = (
        "import sys\n"
        "from bert_jax.data.prepare import PrepareConfig, prepare\n"
        "if __name__ == '__main__':\n"
        "    prepare(PrepareConfig((sys.argv[1],), sys.argv[2], sys.argv[3], 32, block_bytes=20_000, workers=2))\n"
    )
    script = tmp_path / "prepare.py"
    script.write_text(program)

    def start(out):
        arguments = [sys.executable, str(script), str(source), str(vocabulary), str(tmp_path / out)]
        return subprocess.Popen(arguments, start_new_session=True)

    assert start("whole").wait(120) == 0
    done = tmp_path / "killed.partial" / "work" / "done"
    for wanted in (1, 4, 7):
        process = start("killed")
        deadline = time.monotonic() + 60
        while process.poll() is None and (not done.is_dir() or len(list(done.glob("[a-z]*"))) < wanted):
            assert time.monotonic() < deadline
            time.sleep(0.005)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert start("killed").wait(120) == 0
    assert files_of(tmp_path / "killed") == files_of(tmp_path / "whole")
