"""Word counts of a corpus: exact sums, the same for any number of workers."""

import collections
import multiprocessing
import os
import re
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor

from tokenizers import pre_tokenizers

from bert_jax.text.documents import TextFile, read_documents
from bert_jax.text.wordpiece import bert_normalizer

BATCH_CHARS = 4_000_000  # one worker's portion
PIECE_BYTES = 64_000  # the longest run of one document that a sample takes: many documents tell more than one
PROGRESS_SECONDS = 5.0

# str.split parts words at these, BERT's clean-up removes them; words must be the same by both.
_REMOVED_SPACES = re.compile("[\x0b\x0c\x1c-\x1f\x85]")


def count_words(
    files: Sequence[TextFile],
    separator: str = "blank_line",
    text_field: str = "text",
    sample_bytes: int | None = None,
    workers: int = 1,
) -> collections.Counter:
    """How often each whitespace-separated word occurs: Counter of str -> int.

    sample_bytes: at most so many bytes of UTF-8, taken evenly from every file, a part of each chosen document; None or
    more than the corpus takes all of it. Which parts, follows from the files alone. Prints progress on standard error.
    """
    counts: collections.Counter = collections.Counter()
    total = sum(file.size for file in files)
    share = 1.0 if sample_bytes is None else min(1.0, sample_bytes / total)
    started = reported = time.monotonic()
    done = 0
    for words, chars in _in_order(_count_batch, _batches(files, separator, text_field, share), workers):
        counts.update(words)
        done += chars
        if time.monotonic() - reported > PROGRESS_SECONDS:
            reported = time.monotonic()
            rate = done / (reported - started)
            left = max(0.0, total * share - done) / rate
            print(f"counted {done / 1e6:.0f} MB, {rate / 1e6:.1f} MB/s, {left:.0f} s left", file=sys.stderr)
    return counts


def bert_words(
    word_counts: collections.Counter, lower_case: bool, strip_accents: bool | None, workers: int = 1
) -> collections.Counter:
    """Counts of BERT's words (punctuation and CJK characters stand alone) from those of whitespace-separated ones.

    Each distinct word is cleaned once, however often it occurs: the rules of BERT look at no neighbour across a space.
    """
    counts: collections.Counter = collections.Counter()
    items = list(word_counts.items())
    step = 20_000
    portions = ((items[i : i + step], lower_case, strip_accents) for i in range(0, len(items), step))
    for portion in _in_order(_split_words, portions, workers):
        counts.update(portion)
    return counts


def _split_words(portion) -> dict[str, int]:
    items, lower_case, strip_accents = portion
    normalizer, splitter = bert_normalizer(lower_case, strip_accents), pre_tokenizers.BertPreTokenizer()
    counts: dict[str, int] = collections.defaultdict(int)
    for word, count in items:
        for part, _ in splitter.pre_tokenize_str(normalizer.normalize_str(word)):
            counts[part] += count
    return dict(counts)


def _count_batch(texts: list[str]) -> tuple[dict[str, int], int]:
    text = "\n".join(texts)
    return dict(collections.Counter(_REMOVED_SPACES.sub("", text).split())), len(text)


def _batches(files, separator: str, text_field: str, share: float) -> Iterator[list[str]]:
    batch, chars = [], 0
    for file in files:
        documents = read_documents(file, separator, text_field)
        for document in documents if share == 1.0 else _sample(documents, share):
            batch.append(document)
            chars += len(document)
            if chars >= BATCH_CHARS:
                yield batch
                batch, chars = [], 0
    if batch:
        yield batch


def _sample(documents: Iterator[str], share: float) -> Iterator[str]:
    """Each document earns credit for its size; once that pays for it, or for a long piece of it, it is spent."""
    credit = 0.0
    for document in documents:
        data = document.encode()
        credit += share * len(data)
        if credit >= min(len(data), PIECE_BYTES):
            piece = data[: int(credit)]
            credit -= len(piece)
            yield piece.decode(errors="ignore")  # the cut may fall inside a character


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
