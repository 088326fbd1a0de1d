"""A tiny recipe that most training tests share, so that they share its compiled programs, and how to run it."""

import functools
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from unittest import mock

import pytest

from bert_jax import __main__ as command_line
from bert_jax import config

with mock.patch.dict(sys.modules, {"torch": None}):  # it would import torch where that is, which takes seconds
    import tensorboardX  # noqa: F401

REPOSITORY = Path(__file__).resolve().parents[2]
LENGTH, BATCH = 32, 8
SENTENCES = 30  # of the corpus that a model can learn by heart
# Equal in two runs that ought to be one; all other figures are times.
REPRODUCED = (
    *("split", "step", "phase", "examples", "example_ids_crc32", "learning_rate", "gradient_norm", "parameter_norm"),
    *("loss", "mlm_loss", "mlm_accuracy", "nsp_loss", "nsp_accuracy", "real_tokens"),
)


@functools.cache
def folder():
    """A folder of this session for what tests share; removed when Python ends, like a TemporaryDirectory's."""
    folder.owner = tempfile.TemporaryDirectory(prefix="bert-jax-tests-")
    return Path(folder.owner.name)


@functools.cache
def corpus(documents=120):
    """A text file of random sentences over 60 made-up words, one a line, a blank line between documents."""
    draw = random.Random(0)
    syllables = [consonant + vowel for consonant in "bdklmnrst" for vowel in "aeio"]
    words = ["".join(draw.choices(syllables, k=draw.randint(1, 3))) for _ in range(60)]
    sentence = lambda: " ".join(draw.choices(words, k=draw.randint(3, 9))) + "."  # noqa: E731
    text = "\n\n".join("\n".join(sentence() for _ in range(draw.randint(3, 12))) for _ in range(documents))
    path = folder() / f"corpus-{documents}.txt"
    path.write_text(text + "\n")
    return path


@functools.cache
def vocabulary():
    """A vocabulary folder made by `bert-jax vocab` from the corpus."""
    out = folder() / "vocabulary"
    command_line.run_verb("vocab", [f"--source={corpus()}", "--size=200", f"--out={out}", "--workers=1"])
    return out


@functools.cache
def prepared(length=LENGTH, documents=120, held_out=0.1):
    """A data folder made by `bert-jax prepare` from the corpus; its splits do not divide by the batch of 8."""
    out = folder() / f"prepared-{length}-{documents}-{held_out}"
    arguments = [f"--source={corpus(documents)}", f"--tokenizer={vocabulary()}", f"--out={out}", f"--length={length}"]
    command_line.run_verb("prepare", [*arguments, f"--held_out={held_out}", "--sentence_per_line", "--workers=1"])
    return out


def vocab_size(data=None):
    return json.loads(((data or prepared()) / "preparation.json").read_text())["vocab_size"]


def phase_flags(number, length, steps):
    """Settings of one phase on prepared data of that length, masked at the usual rate."""
    most = {f"{masking}__max_predictions": -(-15 * length // 100) for masking in ("masking", "eval_masking")}
    settings = {"data": prepared(length), "length": length, "steps": steps, **most}
    return {f"phases__phase{number}__{name}": value for name, value in settings.items()}


def flags(steps=6, file="bert_tiny.py", **overrides):
    """Arguments of the tiny recipe; `overrides` are settings by path, with __ for the dots."""
    settings = {"model__vocab_size": vocab_size(), "eval_examples": 0, **phase_flags(1, LENGTH, steps)}
    shown = {name.replace("__", "."): value for name, value in (settings | overrides).items()}
    config_file = file if "/" in str(file) else REPOSITORY / "configs" / file
    return [f"--config={config_file}:debug", *(f"--config.{name}={value}" for name, value in shown.items())]


def settings(**options):
    """The PretrainConfig that `flags` give."""
    return config.load(flags(**options))


def run_here(verb, *arguments):
    """The exit status of a command run inside this process, which saves the import of jax; signals as before."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        return command_line.main([verb, *map(str, arguments)])
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def environment(devices=1):
    """That of a process with so many fake devices, in which tensorboardX finds no torch to import."""
    hidden = folder() / "without_torch"
    hidden.mkdir(exist_ok=True)
    (hidden / "torch.py").write_text("raise ImportError\n")
    xla = f"{os.environ['XLA_FLAGS']} --xla_force_host_platform_device_count={devices}"
    return {**os.environ, "PYTHONPATH": f"{hidden}:{REPOSITORY}", "XLA_FLAGS": xla}


class Process:
    """A `bert-jax` command in a process of its own; its output goes to files and can be read while it runs."""

    def __init__(self, verb, *arguments, devices=1):
        self._folder = Path(tempfile.mkdtemp(dir=folder()))
        command = [sys.executable, "-m", "bert_jax", verb, *map(str, arguments)]
        with open(self._folder / "out", "w") as out, open(self._folder / "err", "w") as err:
            self.popen = subprocess.Popen(
                command, stdout=out, stderr=err, stdin=subprocess.DEVNULL, env=environment(devices), cwd=self._folder
            )

    @property
    def out(self):
        return (self._folder / "out").read_text()

    @property
    def err(self):
        return (self._folder / "err").read_text()

    def wait(self, timeout=300):
        """The exit status."""
        try:
            return self.popen.wait(timeout)
        finally:
            self.popen.kill()

    def wait_for(self, happened, timeout=300):
        """Polls until `happened()`; fails with the process's output where it ends before."""
        end = time.monotonic() + timeout
        while not happened():
            assert self.popen.poll() is None and time.monotonic() < end, self.out + self.err
            time.sleep(0.001)

    def kill(self, number=signal.SIGKILL):
        self.popen.send_signal(number)
        return self.wait()


def run(verb, *arguments, devices=1):
    """A finished Process; `wait` gives its status again."""
    process = Process(verb, *arguments, devices=devices)
    process.wait()
    return process


def pretrain(workdir, *arguments, devices=1):
    """A Process that has pretrained to the end."""
    process = run("pretrain", *arguments, f"--workdir={workdir}", devices=devices)
    assert process.wait() == 0, process.out + process.err
    return process


def metrics(workdir, split=None):
    """The lines of a run's metrics, or those of a split."""
    lines = [json.loads(line) for line in (Path(workdir) / "metrics.jsonl").read_text().splitlines()]
    return [line for line in lines if split in (None, line["split"])]


def reproduced(workdir):
    """What of the metrics has to be the same, bit for bit, in each run of the same command."""
    return [{name: line[name] for name in REPRODUCED if name in line} for line in metrics(workdir)]


# A save that fails leaves asynchronous work of Orbax unfinished, which Python remarks on when it is collected: where
# such a test ends, by `gc.collect`, and not in the middle of another one.
failing_saves = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


def contents(path):
    """Bytes of each file below a folder, by its path."""
    return {str(file.relative_to(path)): file.read_bytes() for file in Path(path).rglob("*") if file.is_file()}


@functools.cache
def finished_run():
    """The workdir of the tiny recipe after its 6 steps, with checkpoints 2, 4 and 6: to read, or to copy."""
    workdir = folder() / "finished"
    assert run_here("pretrain", *flags(), f"--workdir={workdir}") == 0
    return workdir
