"""Tasks over worker processes, with progress lines."""

import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial

from bert_jax.errors import UserError

SECONDS_BETWEEN_LINES = 5.0


@contextmanager
def worker_pool(workers, initializer, *arguments):
    """Yields run_all(function, tasks), an iterator of the results as they come, in any order.

    With one worker everything runs in this process. `initializer(*arguments)` is called once in each process. What a
    task raises is raised here, and the rest is given up; a worker that gets killed (want of memory) is a UserError.
    """
    if workers == 1:
        initializer(*arguments)
        yield map
        return
    context = multiprocessing.get_context("spawn")  # a fork of a process with threads (jax) may deadlock
    with ProcessPoolExecutor(workers, context, initializer, arguments) as pool:
        try:
            yield partial(_run_in_pool, pool)
        except BrokenProcessPool as error:
            raise UserError(f"a worker process died (out of memory?); {workers} ran at once: try fewer") from error
        finally:
            pool.shutdown(cancel_futures=True)


def _run_in_pool(pool, function, tasks):
    for future in as_completed([pool.submit(function, task) for task in tasks]):
        yield future.result()


class Progress:
    """Lines such as 'preparing: 12.9 of 30.6 MB, 8.3 MB/s, 2 s left', at the end and not more often than every 5 s."""

    def __init__(self, name, sizes, log):
        self._name, self._sizes, self._log = name, sizes, log
        self._started = self._told = time.monotonic()
        self._bytes_done = self._bytes_found = self._tasks_done = 0

    def found(self, index):
        """Counts task `index` as done by an earlier run: it says nothing about the speed of this one."""
        self._bytes_found += self._sizes[index]
        self.done(index)

    def done(self, index):
        """Counts task `index` as done."""
        self._bytes_done += self._sizes[index]
        self._tasks_done += 1
        now = time.monotonic()
        finished = self._tasks_done == len(self._sizes)
        if finished or now - self._told >= SECONDS_BETWEEN_LINES:
            self._told = now
            self._log(self._line(now - self._started, finished))

    def _line(self, seconds, finished):
        rate = (self._bytes_done - self._bytes_found) / max(seconds, 1e-9)
        done, total = self._bytes_done / 1e6, sum(self._sizes) / 1e6
        left = "" if finished else f", {(sum(self._sizes) - self._bytes_done) / max(rate, 1):.0f} s left"
        earlier = f", {self._bytes_found / 1e6:.1f} MB of it earlier" if self._bytes_found else ""
        return f"{self._name}: {done:.1f} of {total:.1f} MB, {rate / 1e6:.1f} MB/s{left}{earlier}"
