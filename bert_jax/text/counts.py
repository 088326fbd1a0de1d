"""Word counts of a corpus: exact sums, the same for any number of workers."""

import collections
import multiprocessing
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor

from bert_jax.text.sampling import Quota, read_sample
from bert_jax.text.splitting import Splitter

BATCH_CHARS = 4_000_000  # one worker's portion
PROGRESS_SECONDS = 5.0

# str.split parts words at these, BERT's clean-up removes them; words must be the same by both.
_REMOVED_SPACES = re.compile("[\x0b\x0c\x1c-\x1f\x85]")


def count_words(
    quotas: Sequence[Quota],
    separator: str = "blank_line",
    workers: int = 1,
    on_error: Callable[[str], None] | None = None,
) -> collections.Counter:
    """How often each whitespace-separated word occurs in what the quotas take: Counter of str -> int.

    on_error: what `read_documents` does with it. Prints progress on standard error.
    """
    counts: collections.Counter = collections.Counter()
    total = sum(min(quota.limit, quota.share * quota.file.size) for quota in quotas)
    started = reported = time.monotonic()
    done = 0
    for words, chars in _in_order(_count_batch, _batches(quotas, separator, on_error), workers):
        counts.update(words)
        done += chars
        if time.monotonic() - reported > PROGRESS_SECONDS:
            reported = time.monotonic()
            rate = done / (reported - started)
            left = max(0.0, total - done) / rate
            print(f"counted {done / 1e6:.0f} MB, {rate / 1e6:.1f} MB/s, {left:.0f} s left", file=sys.stderr)
    return counts


def split_words(word_counts: Mapping[str, int], splitter: Splitter, workers: int = 1) -> collections.Counter:
    """Counts of a tokenizer's own words from those of whitespace-separated ones.

    Each distinct word is split once, however often it occurs. That equals splitting the text where the rules of the
    tokenizer look at no neighbour across a space, as those of BERT and of byte-level BPE do.
    """
    counts: collections.Counter = collections.Counter()
    items = list(word_counts.items())
    step = 20_000
    portions = ((items[i : i + step], splitter) for i in range(0, len(items), step))
    for portion in _in_order(_split_words, portions, workers):
        counts.update(portion)
    return counts


def _split_words(portion) -> dict[str, int]:
    items, splitter = portion
    counts: dict[str, int] = collections.defaultdict(int)
    for word, count in items:
        for part in splitter.split(word):
            counts[part] += count
    return dict(counts)


def _count_batch(texts: list[str]) -> tuple[dict[str, int], int]:
    text = "\n".join(texts)
    return dict(collections.Counter(_REMOVED_SPACES.sub("", text).split())), len(text)


def _batches(quotas, separator: str, on_error) -> Iterator[list[str]]:
    batch, chars = [], 0
    for quota in quotas:
        for document in read_sample(quota, separator, on_error):
            batch.append(document)
            chars += len(document)
            if chars >= BATCH_CHARS:
                yield batch
                batch, chars = [], 0
    if batch:
        yield batch


def _in_order(function, portions: Iterator, workers: int) -> Iterator:
    """Like map, over worker processes; takes few portions ahead, so that memory stays bounded."""
    if workers == 1:
        yield from map(function, portions)
        return
    # spawn: a fork would copy the threads' locks of whatever the caller runs
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        waiting: collections.deque = collections.deque()
        for portion in portions:
            waiting.append(pool.submit(function, portion))
            if len(waiting) > 2 * workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def default_workers() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
