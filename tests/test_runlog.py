"""What a run writes of itself: each step once, whatever killed the run before."""

import json
import math

import pytest

from bert_jax.runlog import RunLog, in_words, read_lines


def written(workdir, start, steps, **figures):
    log = RunLog(workdir)
    log.start(start)
    for step in steps:
        log.write("train", step, {"loss": step / 4, **figures})
    log.close()


def steps_of(workdir):
    return [line["step"] for line in read_lines(workdir / "metrics.jsonl")]


def test_a_line_holds_split_step_and_figures(tmp_path):
    log = RunLog(tmp_path)
    log.start(0)
    log.write("heldout", 3, {"loss": 0.25, "note": "text"})
    log.close()
    assert json.loads((tmp_path / "metrics.jsonl").read_text()) == {
        "split": "heldout", "step": 3, "loss": 0.25, "note": "text",
    }  # fmt: skip
    (board,) = (tmp_path / "tensorboard").glob("events.out.tfevents.*")
    forget, line = events_of(board)[1:]
    assert forget.step == 1 and forget.session_log.status == forget.session_log.START
    assert (line.step, [(v.tag, v.simple_value) for v in line.summary.value]) == (3, [("heldout/loss", 0.25)])


def events_of(path):
    """The records of a TFRecord file: 8 bytes of length and 4 of checksum, data, 4 of checksum."""
    from tensorboardX.proto.event_pb2 import Event

    data, events = path.read_bytes(), []
    while data:
        size = int.from_bytes(data[:8], "little")
        events.append(Event.FromString(data[12 : 12 + size]))
        data = data[16 + size :]
    return events


def test_a_line_is_on_disk_before_the_next_step(tmp_path):
    """A run killed at any moment has lost nothing that its checkpoint counts as done."""
    log = RunLog(tmp_path)
    log.start(0)
    log.write("train", 1, {"loss": 1.0})
    assert steps_of(tmp_path) == [1]
    log.close()


def test_going_on_removes_the_steps_after_the_checkpoint(tmp_path):
    written(tmp_path, 0, range(1, 6))
    written(tmp_path, 3, range(4, 7))
    assert steps_of(tmp_path) == [1, 2, 3, 4, 5, 6]
    written(tmp_path, 0, [1])
    assert steps_of(tmp_path) == [1]


@pytest.mark.parametrize("cut", [1, 5, 20])
def test_a_line_cut_off_by_a_kill_is_left_out(tmp_path, cut):
    written(tmp_path, 0, range(1, 5))
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(path.read_bytes()[:-cut])
    assert steps_of(tmp_path) == ([1, 2, 3, 4] if cut == 1 else [1, 2, 3])
    written(tmp_path, 3, [4])
    assert steps_of(tmp_path) == [1, 2, 3, 4]


def test_figures_come_back_bit_for_bit(tmp_path):
    figures = {"third": 1 / 3, "tiny": 5e-324, "nan": math.nan}
    written(tmp_path, 0, [1], **figures)
    written(tmp_path, 1, [])
    (line,) = read_lines(tmp_path / "metrics.jsonl")
    assert line["third"] == 1 / 3 and line["tiny"] == 5e-324 and math.isnan(line["nan"])


def test_no_metrics_yet(tmp_path):
    assert read_lines(tmp_path / "metrics.jsonl") == []


@pytest.mark.parametrize(
    ("seconds", "words"), [(0, "0:00:00"), (59.9, "0:00:59"), (3725, "1:02:05"), (90000, "1 d 1:00:00")]
)
def test_durations_in_words(seconds, words):
    assert in_words(seconds) == words
