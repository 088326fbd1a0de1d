"""Real processes, killed at any moment and started again by the same command, are one run bit for bit."""

import random
import signal
import time

import jax
import numpy as np
import pytest

from bert_jax.checkpoint import committed_steps, read_record, restore_params
from tests.e2e.conftest import Process, flags, metrics, phase_flags, pretrain, reproduced, run_here

STEPS = 30
# Saves and evaluations fall on different steps, so that kills come after the one and before the other.
RUN = {"checkpoint_every": 5, "eval_every": 7}


def assert_same_run(workdir, other, step=STEPS):
    """Each line of metrics, also the held-out ones, once and bit for bit; and the parameters in the end."""
    assert reproduced(workdir) == reproduced(other)
    params = (restore_params(folder / "checkpoints" / str(step)) for folder in (workdir, other))
    jax.tree.map(np.testing.assert_array_equal, *params)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    workdir = tmp_path_factory.mktemp("uninterrupted")
    assert run_here("pretrain", *flags(STEPS, **RUN), f"--workdir={workdir}") == 0
    assert [line["step"] for line in metrics(workdir, "train")] == list(range(1, STEPS + 1))
    assert [line["step"] for line in metrics(workdir, "heldout")] == [7, 14, 21, 28, STEPS]
    return workdir


def started(workdir, arguments):
    return Process("pretrain", *arguments, f"--workdir={workdir}")


def after_step(workdir, step):
    """Whether the metrics hold that step."""
    path = workdir / "metrics.jsonl"
    return lambda: path.exists() and f'"step": {step},' in path.read_text()


def saving(workdir, beyond):
    """Whether a save of a later step is under way: Orbax's temporary folder is there, or a step has no manifest."""

    def under_way():
        folder = workdir / "checkpoints"
        names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
        temporary = any("orbax-checkpoint-tmp" in name and int(name.split(".")[0]) > beyond for name in names)
        bare = any(n.isdigit() and int(n) > beyond and not (folder / n / "manifest.json").exists() for n in names)
        return temporary or bare

    return under_way


def test_kills_and_a_stop_leave_no_trace(uninterrupted, tmp_path, capsys):
    """SIGKILL during a save, SIGTERM (saves, status 75: case G5), then to the end."""
    arguments = flags(STEPS, **RUN)
    process = started(tmp_path, arguments)
    process.wait_for(saving(tmp_path, beyond=5))
    assert process.kill() == -signal.SIGKILL
    assert committed_steps(tmp_path / "checkpoints")[-1] < STEPS

    process = started(tmp_path, arguments)
    process.wait_for(lambda: "resuming after step" in process.out)
    process.wait_for(after_step(tmp_path, committed_steps(tmp_path / "checkpoints")[-1] + 2))
    assert process.kill(signal.SIGTERM) == 75
    stopped = metrics(tmp_path, "train")[-1]["step"]
    assert committed_steps(tmp_path / "checkpoints")[-1] == stopped
    assert read_record(tmp_path / "checkpoints" / str(stopped))["examples"] == stopped * 8
    assert f"saved after step {stopped}; the same command resumes" in process.err

    assert run_here("pretrain", *arguments, f"--workdir={tmp_path}") == 0
    assert stopped == STEPS or f"resuming after step {stopped} " in capsys.readouterr().out
    assert_same_run(tmp_path, uninterrupted)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_kills_at_random_moments_leave_no_trace(uninterrupted, tmp_path, seed):
    """Some in the middle of a save, some at a random time after a random step, until a run gets through."""
    draw, arguments, killed = random.Random(seed), flags(STEPS, **RUN), []
    for _ in range(5):
        done = (committed_steps(tmp_path / "checkpoints") or [0])[-1]
        process = started(tmp_path, arguments)
        if done + 5 < STEPS and draw.random() < 0.5:
            process.wait_for(saving(tmp_path, beyond=done))
        else:
            # A time alone would be after the end on a fast machine, and before the first step on a slow one.
            process.wait_for(lambda process=process: "phase 1: to step" in process.out or "are done" in process.out)
            process.wait_for(after_step(tmp_path, min(done + draw.randint(1, 5), STEPS - 1)))
            time.sleep(draw.random() / 20)
        killed.append(process.kill())
    assert -signal.SIGKILL in killed and set(killed) <= {-signal.SIGKILL, 0}
    pretrain(tmp_path, *arguments)
    assert_same_run(tmp_path, uninterrupted)


@pytest.mark.slow
def test_kills_around_the_change_of_phase_leave_no_trace(tmp_path):
    """Case C3: one just before it, one at it, one after it."""
    arguments = flags(file="bert_base.py", checkpoint_every=1, **phase_flags(1, 16, 3), **phase_flags(2, 32, 3))
    assert run_here("pretrain", *arguments, f"--workdir={tmp_path / 'whole'}") == 0
    for step in (2, 3, 4):
        process = started(tmp_path / "killed", arguments)
        process.wait_for(after_step(tmp_path / "killed", step))
        assert process.kill() == -signal.SIGKILL
    pretrain(tmp_path / "killed", *arguments)
    assert_same_run(tmp_path / "killed", tmp_path / "whole", step=6)


@pytest.mark.slow
def test_a_second_signal_of_ctrl_c_gives_up_at_once(tmp_path):
    process = started(tmp_path, flags(STEPS, checkpoint_every=100, eval_every=100, log_every=100))
    process.wait_for(lambda: "starting from scratch" in process.out)
    process.popen.send_signal(signal.SIGINT)
    time.sleep(0.05)
    process.popen.send_signal(signal.SIGINT)
    assert process.wait(60) not in (0, 2)
