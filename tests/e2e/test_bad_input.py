"""A user's mistake: one line on standard error, exit status 2, and nothing written over."""

import contextlib
import gc
import json
import shutil
import subprocess

import numpy as np
import pytest

from bert_jax import train as training
from bert_jax.checkpoint import committed_steps
from bert_jax.data import storage
from tests.e2e.conftest import (
    contents,
    failing_saves,
    finished_run,
    flags,
    prepared,
    run,
    run_here,
    vocab_size,
)

pytestmark = failing_saves


@pytest.fixture
def refused(capsys, tmp_path):
    """refused(*arguments): the one line on standard error of `bert-jax pretrain`, which must leave the workdir alone.

    Arguments stand after those of the tiny recipe, so they override. A workdir that was not there must not be made.
    """

    def line(*arguments, workdir=None, recipe=None):
        workdir = workdir or tmp_path / "run"
        before, recipe = contents(workdir) if workdir.is_dir() else None, recipe or flags()
        capsys.readouterr()
        status = run_here("pretrain", *recipe, f"--workdir={workdir}", *arguments)
        err = capsys.readouterr().err
        assert status == 2 and err.count("\n") == 1 and err.startswith("bert-jax pretrain: "), (status, err)
        assert (contents(workdir) if workdir.is_dir() else None) == before
        return err

    return line


@pytest.fixture
def run_copy(tmp_path):
    """A workdir of the finished tiny run, the test's own."""
    return shutil.copytree(finished_run(), tmp_path / "finished")


# Settings. That each of them is refused by name is shown in test_config.py.


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--config.sead=1"], ["--config.sead", "nearest is --config.seed"]),
        (["--config.model.layers=two"], ["model.layers", "two"]),
        (["--config.phases.phase1.length=1024"], ["length 1024", "model.max_positions 512"]),
        (["--config.schedule.total_steps=7"], ["schedule.total_steps is 7", "6 steps"]),
        (["--config.seed=-1"], ["seed", "-1"]),
        (["--config.mesh.data=3"], ["mesh is data 3", "1 devices"]),
        (["--config.mesh.fsdp=0"], ["mesh", "fsdp 0"]),
        (["--config.phases.phase1.accumulation=3"], ["batch_size 8", "3 microbatches"]),
        (["--config.platform=tpu"], ["platform is 'tpu'", "'cpu'"]),
        (["--profile=10"], ["--profile 10", "STEP:STEPS"]),
        (["--profile=1:0"], ["--profile 1:0", "STEP:STEPS"]),
        (["--profile=a:b"], ["--profile a:b", "STEP:STEPS"]),
        (["--processes=2"], ["--processes=2", "--coordinator"]),
        (["--worker=1"], ["worker"]),
    ],
)
def test_settings(refused, arguments, words):
    line = refused(*arguments)
    assert all(word in line for word in words), line


def test_config_files(refused, tmp_path):
    broken = tmp_path / "broken.py"
    broken.write_text("def get_config(arg=''):\n    return (\n")
    assert "broken.py" in refused(recipe=[f"--config={broken}"])
    assert "no such file" in refused(recipe=[f"--config={tmp_path / 'nowhere.py'}"])
    assert "no such file" in refused(recipe=[f"--config={tmp_path}"])


def test_an_argument_that_argparse_misses(capsys):
    """argparse tells the usage first, then the one line."""
    with pytest.raises(SystemExit) as stop:
        run_here("pretrain", *flags())
    assert stop.value.code == 2 and capsys.readouterr().err.splitlines()[-1].endswith("required: --workdir")


# Data.


def test_data_of_another_length(refused):
    line = refused(f"--config.phases.phase1.data={prepared(16)}")
    assert "length is 32" in line and "prepared at length 16" in line


def test_a_vocabulary_of_another_size(refused):
    line = refused("--config.model.vocab_size=30522")
    assert "vocab_size is 30522" in line and f"--config.model.vocab_size={vocab_size()}" in line


@pytest.mark.parametrize("what", ["nowhere", "empty", "file"])
def test_a_folder_that_is_no_data(refused, tmp_path, what):
    path = tmp_path / what
    if what == "empty":
        path.mkdir()
    elif what == "file":
        path.write_text("text")
    line = refused(f"--config.phases.phase1.data={path}")
    assert str(path) in line and "not prepared data" in line


def test_no_data_named(refused):
    assert "--config.phases.phase1.data=DIR" in refused("--config.phases.phase1.data=")


def test_a_shard_that_is_cut_off(refused, tmp_path):
    data = shutil.copytree(prepared(), tmp_path / "data")
    shard = next(data.glob("*train*"))
    shard.write_bytes(shard.read_bytes()[:-1])
    assert shard.name in refused(f"--config.phases.phase1.data={data}")


def test_data_without_held_out_examples(refused):
    line = refused(f"--config.phases.phase1.data={prepared(held_out=0.0)}")
    assert "validation" in line


@pytest.mark.parametrize("split", ["train", pytest.param("validation", marks=pytest.mark.slow)])
def test_ids_at_the_vocabulary_size(capsys, tmp_path, split):
    """Case B11: neither NaN nor the clamped last row. The first such example is named."""
    data = shutil.copytree(prepared(), tmp_path / "data")
    forge_ids(data, split, vocab_size())
    recipe = flags()
    capsys.readouterr()
    status = run_here("pretrain", *recipe, f"--config.phases.phase1.data={data}", f"--workdir={tmp_path / 'run'}")
    err = capsys.readouterr().err
    assert status == 2 and err.count("\n") == 1
    assert f"id {vocab_size()} at token 7 is outside the vocabulary of {vocab_size()}" in err and split in err


def forge_ids(data, split, value):
    """Rewrites a split's shard with `value` at token 7 of every example."""
    opened = storage.open_prepared(data)
    (shard,) = [shard for shard in opened.shards if shard.split == split]
    columns = storage.SplitReader(opened, split).read(np.arange(shard.examples))
    columns["input_ids"] = np.array(columns["input_ids"])
    columns["input_ids"][:, 7] = value
    (data / shard.name).unlink()
    written = storage.write_shard(data / shard.name, split, iter([opened.layout.encode(columns)]))
    shards = json.loads((data / "shards.json").read_text())
    kept = [other for other in shards if other["name"] != shard.name]
    (data / "shards.json").write_text(json.dumps([*kept, vars(written)]))


# The workdir.


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--config.model.layers=3"], "layers 2 -> 3"),
        (["--config.model.activation=gelu"], "activation gelu_tanh -> gelu"),
        (["--config.model.hidden=64", "--config.model.ffn=128"], "hidden 32 -> 64, ffn 64 -> 128"),
    ],
)
def test_a_run_of_another_architecture(refused, run_copy, arguments, words):
    """Also one of the same shapes, that would load: case E8."""
    line = refused(*arguments, workdir=run_copy)
    assert "another architecture" in line and words in line and "use a new --workdir" in line


def test_a_run_on_other_data(refused, run_copy):
    other = prepared(documents=40)
    line = refused(f"--config.phases.phase1.data={other}", workdir=run_copy)
    assert f"{other} is not the data of the run in {run_copy}" in line


def test_a_run_whose_checkpoints_are_all_damaged(refused, run_copy):
    for step in ("2", "4", "6"):
        (run_copy / "checkpoints" / step / "manifest.json").write_text("{}")
    assert "no checkpoint there is intact" in refused(workdir=run_copy)


def test_a_workdir_that_is_a_file(refused, tmp_path):
    file = tmp_path / "file"
    file.write_text("mine")
    assert str(file) in refused(workdir=file) and file.read_text() == "mine"
    assert str(file) in refused(workdir=file / "below")


def test_checkpoints_that_are_a_file(refused, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "checkpoints").write_text("mine")
    assert str(tmp_path / "run" / "checkpoints") in refused()


def test_a_workdir_that_is_read_only(refused, disk):
    """A mount, as root may write to any folder."""
    folder = disk("4m")
    (folder / "mine").write_text("here")
    subprocess.run(["mount", "-o", "remount,ro", folder], check=True)
    assert "Read-only file system" in refused(workdir=folder)
    assert "Read-only file system" in refused(workdir=folder / "below")


@pytest.mark.parametrize("size", ["8k", *(pytest.param(size, marks=pytest.mark.slow) for size in ("40k", "3m"))])
def test_a_full_disk(capsys, disk, size):
    """At the very start, at the first metrics, or at a later checkpoint."""
    folder, recipe = disk(size), flags()
    capsys.readouterr()
    status = run_here("pretrain", *recipe, f"--workdir={folder}", "--config.checkpoint_every=1")
    err = capsys.readouterr().err
    assert status == 2 and err.count("\n") == 1 and "No space left on device" in err and str(folder) in err, err
    assert ("MiB needed" in err and committed_steps(folder / "checkpoints") != []) == (size == "3m")


@pytest.fixture
def disk(tmp_path):
    """disk(size): a folder on a file system of its own, of that size; skips where none can be mounted."""
    with contextlib.ExitStack() as mounts:

        def mount(size):
            folder = tmp_path / "disk"
            folder.mkdir()
            command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                pytest.skip(f"no file system of one's own: {done.stderr.strip()}")
            mounts.callback(subprocess.run, ["umount", "-l", folder], check=True)
            mounts.callback(gc.collect)
            return folder

        yield mount


def test_a_failed_save_stops_a_run_at_once(capsys, tmp_path, monkeypatch, request):
    """Case D7: the checkpoints' folder becomes a file while the run goes on."""
    request.addfinalizer(gc.collect)

    class Vandal(training.Checkpoints):
        def save(self, state, record):
            super().save(state, record)
            self.wait()
            if record["step"] == 2:
                shutil.rmtree(self.folder)
                self.folder.write_text("")

    monkeypatch.setattr(training, "Checkpoints", Vandal)
    recipe = flags()
    capsys.readouterr()
    status = run_here("pretrain", *recipe, f"--workdir={tmp_path / 'run'}")
    err = capsys.readouterr().err
    assert status == 2 and err.count("\n") == 1 and "cannot write checkpoint" in err and "checkpoints/4" in err


# As processes of their own.


def test_the_command_itself(tmp_path):
    """No traceback, whoever looks at standard error; and a batch that eight devices do not divide."""
    process = run(
        "pretrain", *flags(), f"--workdir={tmp_path / 'run'}", "--config.phases.phase1.batch_size=12", devices=8
    )
    lines = [line for line in process.err.splitlines() if line.startswith("bert-jax")]
    assert process.wait() == 2 and len(lines) == 1 and "Traceback" not in process.err
    assert "phase1.batch_size 12 does not divide by 8 devices" in lines[0] and not (tmp_path / "run").exists()


def test_no_verb(capsys):
    assert run_here("pretrian") == 2 and "no verb 'pretrian'" in capsys.readouterr().err
