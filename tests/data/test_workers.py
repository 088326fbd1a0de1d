"""Worker processes: one that dies is a clear error, and progress is told."""

import os
import re

import pytest

from bert_jax.data.workers import Progress, worker_pool
from bert_jax.errors import UserError


def nothing():
    pass


def test_a_worker_that_is_killed_is_a_clear_error():
    with pytest.raises(UserError, match=r"a worker process died .out of memory.*2 ran at once"):
        with worker_pool(2, nothing) as run_all:
            list(run_all(os._exit, [9]))


def test_progress_tells_rate_and_time_left(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("bert_jax.data.workers.time.monotonic", lambda: now[0])
    lines = []
    progress = Progress("preparing", [10_000_000] * 4, lines.append)
    for index in range(4):
        now[0] += 4
        progress.done(index)
    assert lines == [
        "preparing: 20.0 of 40.0 MB, 2.5 MB/s, 8 s left",  # after 8 s: not after 4 s, which is too soon
        "preparing: 40.0 of 40.0 MB, 2.5 MB/s",
    ]
    assert all(re.match(r"preparing: ", line) for line in lines)
