"""The loop: runs repeat bit for bit, go on where they stopped, survive bad steps, and cross from phase to phase."""

import dataclasses
import functools
import logging
import re
import shutil
import zlib

import jax
import numpy as np
import pytest

from bert_jax import checkpoint
from bert_jax import train as training
from bert_jax.checkpoint import committed_steps, read_record, restore_params
from bert_jax.data.shuffle import example_ids
from bert_jax.data.storage import SplitReader, open_prepared
from bert_jax.errors import Preempted, UserError
from tests.e2e.conftest import BATCH, contents, finished_run, metrics, phase_flags, prepared, reproduced, settings

STEPS = 6  # of the tiny recipe


class StopAfter:
    """A stop signal that comes after so many steps."""

    def __init__(self, steps):
        self._left = steps

    def is_set(self):
        self._left -= 1
        return self._left <= 0


def run(workdir, *, stop_after=None, profile=None, **overrides):
    """Runs or resumes the tiny recipe; returns its held-out metrics, None where it was stopped."""
    stop = StopAfter(stop_after) if stop_after else None
    try:
        return training.train(settings(**overrides), workdir, stop=stop, profile=profile)
    except Preempted:
        return None


def params_of(workdir, step):
    return restore_params(workdir / "checkpoints" / str(step))


def assert_same_run(workdir, other, step):
    """Bit for bit: each line of metrics, and the parameters in the end."""
    assert reproduced(workdir) == reproduced(other)
    jax.tree.map(np.testing.assert_array_equal, params_of(workdir, step), params_of(other, step))


def assert_examples(line, first, count=BATCH, data=None):
    """A line is of the examples at these places of the training order: by the ids that it tells, and by the batch
    that the device has seen, of which it counts the tokens."""
    opened = open_prepared(data or prepared())
    ids = example_ids(np.arange(first, first + count), opened.size("train"), 0)
    assert line["example_ids_crc32"] == zlib.crc32(ids.tobytes())
    rows = SplitReader(opened, "train").read(ids)["input_ids"]
    assert line["real_tokens"] == (rows != opened.special_ids["pad"]).sum()


@pytest.fixture(autouse=True)
def traced_once(monkeypatch):
    """Runs of equal settings share their traced functions, which is most of the time that they take here."""
    monkeypatch.setattr(training.steps, "init_state", lambda config: INIT_STATE(without_the_loop(config)))
    for name, make in MAKERS.items():
        monkeypatch.setattr(
            training.steps, name, lambda config, *rest, make=make: make(without_the_loop(config), *rest)
        )


INIT_STATE = jax.jit(training.steps.init_state, static_argnums=0)
MAKERS = {name: functools.cache(getattr(training.steps, name)) for name in ("make_train_step", "make_eval_step")}


def without_the_loop(config):
    """The config with settings that only the loop reads made equal."""
    of_the_loop = ("log_every", "eval_every", "checkpoint_every", "keep_checkpoints", "max_bad_steps")
    return dataclasses.replace(config, **dict.fromkeys(of_the_loop, 1))


# The same run again.


def test_a_fresh_run_repeats_bit_for_bit_and_compiles_its_step_once(tmp_path, caplog):
    """Cases C14 and C15, dropout on."""
    for make in MAKERS.values():
        make.cache_clear()
    with jax.log_compiles(), caplog.at_level(logging.WARNING):
        run(tmp_path)
    assert_same_run(tmp_path, finished_run(), STEPS)
    compiled = [r for r in caplog.messages if re.match(r"Finished XLA compilation of jit\((train_step|eval_step)\)", r)]
    assert sorted(re.findall(r"\w+_step", " ".join(compiled))) == ["eval_step", "train_step"]


def test_what_a_run_leaves():
    lines = metrics(finished_run())
    assert [line["step"] for line in lines if line["split"] == "train"] == [1, 2, 3, 4, 5, 6]
    assert [line["step"] for line in lines if line["split"] == "heldout"] == [2, 4, 6]
    assert [line["examples"] for line in metrics(finished_run(), "train")] == [8, 16, 24, 32, 40, 48]
    for line, first in zip(metrics(finished_run(), "train"), range(0, 48, 8), strict=True):
        assert_examples(line, first)
    first = metrics(finished_run(), "train")[0]
    for name in ("tokens_per_second", "real_tokens_per_second", "step_seconds", "mfu", "model_flops_per_second"):
        assert first[name] > 0
    assert first["real_tokens_per_second"] < first["tokens_per_second"] and first["data_wait_seconds"] >= 0
    record = read_record(finished_run() / "checkpoints" / "6")
    assert (record["step"], record["examples"], record["phase"]) == (6, 48, 1)
    assert record["heldout_loss"] == metrics(finished_run(), "heldout")[-1]["loss"]


def test_a_finished_run_is_only_evaluated(tmp_path):
    workdir = shutil.copytree(finished_run(), tmp_path / "again")
    before = contents(workdir)
    found = run(workdir)
    last = metrics(workdir, "heldout")[-1]
    assert found == {name: last[name] for name in found}
    after = {name: data for name, data in contents(workdir).items() if not name.startswith("tensorboard/")}
    assert after == {name: data for name, data in before.items() if not name.startswith("tensorboard/")}


@pytest.mark.parametrize("stops", [[3], pytest.param([2, 1, 2], marks=pytest.mark.slow)])
def test_stop_and_resume_is_the_same_run(tmp_path, stops):
    """Train 6 = train 3 + restore + 3, at a step where no save was due, and stopped twice in a row."""
    done = 0
    for steps in stops:
        assert run(tmp_path, stop_after=steps) is None
        done += steps
        assert committed_steps(tmp_path / "checkpoints")[-1] == done, "the save at the stop is complete"
        assert metrics(tmp_path)[-1]["step"] == done
    assert run(tmp_path) is not None
    assert_same_run(tmp_path, finished_run(), STEPS)


def test_another_batch_size_and_accumulation_go_on_where_the_data_stopped(tmp_path, capsys):
    """Case C5: checkpoints are numbered in updates, and the rate follows updates, whatever the microbatches."""
    run(tmp_path, stop_after=3)
    run(tmp_path, phases__phase1__batch_size=16, phases__phase1__accumulation=2)
    assert re.search("settings changed since that checkpoint: .*batch_size.*8.*16", capsys.readouterr().out)
    lines = metrics(tmp_path, "train")
    assert [line["step"] for line in lines] == [1, 2, 3, 4, 5, 6]
    assert [line["examples"] for line in lines] == [8, 16, 24, 40, 56, 72]
    for line, first, count in zip(lines, (0, 8, 16, 24, 40, 56), (8, 8, 8, 16, 16, 16), strict=True):
        assert_examples(line, first, count)
    rates = [line["learning_rate"] for line in metrics(finished_run(), "train")]
    assert [line["learning_rate"] for line in lines] == rates
    assert committed_steps(tmp_path / "checkpoints")[-1] == 6


def test_a_run_goes_on_at_another_padding_of_the_vocabulary(tmp_path, capsys):
    """Rows of 0 are added to parameters and moments; also to a checkpoint of before there were such settings."""
    run(tmp_path, stop_after=3, model__vocab_multiple=1)
    folder = tmp_path / "checkpoints" / "3"
    record = read_record(folder)
    for name in ("vocab_multiple", "sentence_head"):
        del record["config"]["model"][name]
    checkpoint._write_manifest(folder, record)
    size = settings().model.vocab_size
    assert params_of(tmp_path, 3)["mlm"]["bias"].shape == (size,)
    capsys.readouterr()
    run(tmp_path)
    assert "model.vocab_multiple None -> 128" in capsys.readouterr().out
    last, expected = (params_of(workdir, STEPS) for workdir in (tmp_path, finished_run()))
    assert last["mlm"]["bias"].shape == (256,) and not last["embeddings"]["word"]["embedding"][size:].any()
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=2e-5), last, expected)
    for line, other in zip(metrics(tmp_path), metrics(finished_run()), strict=True):
        np.testing.assert_allclose(line["loss"], other["loss"], rtol=1e-5)


def test_a_damaged_checkpoint_costs_steps_and_nothing_else(tmp_path, capsys):
    """The run falls back to the one before, says so, and ends as if nothing had happened."""
    run(tmp_path, stop_after=5)
    newest = tmp_path / "checkpoints" / "5"
    file = max((newest / "params").rglob("*"), key=lambda path: path.stat().st_size if path.is_file() else 0)
    damaged = bytearray(file.read_bytes())
    damaged[len(damaged) // 2] ^= 4
    file.write_bytes(damaged)
    capsys.readouterr()
    run(tmp_path)
    out = capsys.readouterr().out
    assert f"checkpoint 5: the file {file.relative_to(newest)} differs from its manifest" in out
    assert "resuming after step 4" in out
    assert_same_run(tmp_path, finished_run(), STEPS)


@pytest.mark.slow
def test_only_the_newest_and_the_best_are_kept(tmp_path):
    run(tmp_path, keep_checkpoints=1, checkpoint_every=1)
    losses = {line["step"]: line["loss"] for line in metrics(tmp_path, "heldout")}
    assert committed_steps(tmp_path / "checkpoints") == sorted({STEPS, min(losses, key=losses.get)})


# Bad steps.


@pytest.fixture
def damaged_data(monkeypatch):
    """damaged_data(positions): batches that begin there hold an id beyond the table."""

    def damage(positions):
        class Damaged(training.Loader):
            def __next__(self):
                batch, position = super().__next__()
                if position in positions:
                    batch["input_ids"] = batch["input_ids"].at[0, 3].set(60_000)
                return batch, position

        monkeypatch.setattr(training, "Loader", Damaged)

    return damage


def test_a_bad_step_is_skipped_and_its_examples_are_logged(tmp_path, damaged_data):
    """Case C11."""
    damaged_data({16})
    run(tmp_path, checkpoint_every=1, keep_checkpoints=9)
    (bad,) = metrics(tmp_path, "bad")
    assert bad["step"] == 3 and bad["loss"] == "nan"
    assert bad["example_ids"] == example_ids(np.arange(16, 24), open_prepared(prepared()).size("train"), 0).tolist()
    assert [line["examples"] for line in metrics(tmp_path, "train")] == [8, 16, 24, 32, 40, 48]
    norms = [line["parameter_norm"] for line in metrics(tmp_path, "train")]
    assert norms[3] == norms[2] != norms[1]
    jax.tree.map(np.testing.assert_array_equal, params_of(tmp_path, 3), params_of(tmp_path, 2))
    assert read_record(tmp_path / "checkpoints" / "3")["bad_streak"] == 1
    assert read_record(tmp_path / "checkpoints" / "4")["bad_streak"] == 0


def test_bad_steps_in_a_row_stop_the_run_also_across_a_resume(tmp_path, damaged_data):
    damaged_data({8, 24, 32, 40})
    run(tmp_path, stop_after=4, max_bad_steps=3)
    with pytest.raises(UserError, match=r"3 steps in a row up to step 6 were not finite \(config.max_bad_steps\)") as e:
        run(tmp_path, max_bad_steps=3)
    assert "\n" not in str(e.value)
    assert [line["step"] for line in metrics(tmp_path, "bad")] == [2, 4, 5, 6]
    assert committed_steps(tmp_path / "checkpoints")[-1] == 4


# Phases.


def two_phases():
    options = {"file": "bert_base.py", "checkpoint_every": 1, "keep_checkpoints": 9}
    return options | phase_flags(1, 16, 3) | phase_flags(2, 32, 3)


def test_two_phases_are_one_run(tmp_path):
    """Case C3: one schedule, moments carried over, rows of the position table beyond the first length wait."""
    run(tmp_path, **two_phases())
    lines = metrics(tmp_path, "train")
    assert [line["phase"] for line in lines] == [1, 1, 1, 2, 2, 2]
    rates = np.array([0, 3, 4, 3, 2, 1]) / 6 * 1e-4
    np.testing.assert_allclose([line["learning_rate"] for line in lines], rates, rtol=1e-6)
    # The data of each phase is counted from the phase's start.
    for line, first, length in zip(lines, (0, 8, 16) * 2, (16,) * 3 + (32,) * 3, strict=True):
        assert_examples(line, first, data=prepared(length))
    assert read_record(tmp_path / "checkpoints" / "3")["phase_starts"] == [0]
    record = read_record(tmp_path / "checkpoints" / "4")
    assert (record["phase"], record["phase_starts"], record["examples"]) == (2, [0, 24], 32)

    tables = [np.float64(params_of(tmp_path, step)["embeddings"]["position"]["embedding"]) for step in (1, 3, 6)]
    assert tables[0].shape == (512, 32)
    decayed = tables[0] * np.prod(1 - 0.01 * rates[1:3])
    np.testing.assert_allclose(tables[1][16:], decayed[16:], rtol=4e-7)
    decayed_on = tables[1] * np.prod(1 - 0.01 * rates[3:])
    np.testing.assert_allclose(tables[2][32:], decayed_on[32:], rtol=8e-7)
    assert (np.abs(tables[2][16:32] / decayed_on[16:32] - 1).max(axis=1) > 1e-5).all()


@pytest.mark.slow
def test_a_run_of_two_phases_resumes_before_at_and_after_the_change(tmp_path):
    run(tmp_path / "whole", **two_phases(), seed=1)
    for steps in (2, 1, 1):
        run(tmp_path / "stopped", stop_after=steps, **two_phases(), seed=1)
    run(tmp_path / "stopped", **two_phases(), seed=1)
    assert_same_run(tmp_path / "stopped", tmp_path / "whole", 6)
    # Losses of two phases do not compare: the lower one of phase 1 is not the best in phase 2.
    _, at_3, at_4, _ = (line["loss"] for line in metrics(tmp_path / "whole", "heldout"))
    assert at_3 < at_4 == read_record(tmp_path / "whole" / "checkpoints" / "4")["best_loss"]


# The rest.


@pytest.mark.slow
def test_a_trace_is_written_also_where_the_run_stops_within_it(tmp_path):
    run(tmp_path, stop_after=3, profile=(2, 2))
    assert list((tmp_path / "profile").rglob("*.xplane.pb"))
    run(tmp_path, profile=(2, 2))  # resumed within the steps to trace: they are not traced again
    assert_same_run(tmp_path, finished_run(), STEPS)


@pytest.mark.slow
def test_thirty_sentences_can_be_learnt_by_heart(tmp_path):
    """Case B17: a model that cannot overfit a page of text has a fault somewhere."""
    data = prepared(documents=5, held_out=0.2)
    heart = {
        "phases__phase1__data": data,
        "model__dropout": 0.0,
        "model__attention_dropout": 0.0,
        "model__hidden": 64,
        "schedule__peak": 2e-3,
        "schedule__warmup_steps": 50,
        "log_every": 100,
        "eval_every": 100_000,
        "checkpoint_every": 100_000,
    }
    run(tmp_path, steps=800, **heart)
    assert np.mean([line["mlm_accuracy"] for line in metrics(tmp_path, "train")[-3:]]) > 0.95
