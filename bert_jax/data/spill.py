"""Stage one of preparation: documents -> temporary files in a random order, with an index.

Documents are read once, in any number of processes, and written to runs: files of bounded size, each with its
documents in the order of a hash. A block of stage two is then a range of that hash over all runs (selection.py), so any
block can be read by itself, and nothing that grows with the corpus is held in memory.
"""

import hashlib
import os
import zlib
from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from bert_jax.data.duplicates import write_hashes
from bert_jax.data.filters import Filters
from bert_jax.data.hashing import mix
from bert_jax.text.documents import TextFile, read_documents

SKIPPED_TOLD = 20  # of what could not be read in a task; the rest is counted only


@dataclass(frozen=True)
class ReadTask:
    """Files to read in one go: consecutive ones of a source. `first_file`: which of the corpus the first is."""

    files: tuple[TextFile, ...]
    first_file: int
    folder: str
    separator: str
    seed: int
    run_bytes: int
    skip_errors: bool = False
    filters: Filters = Filters()
    duplicates: str = "keep"  # otherwise what duplicates are found by is written too


@dataclass(frozen=True)
class Run:
    """A file of documents and its index: `extremes` are the two least and the two greatest split hashes in it."""

    path: str
    documents: int
    n_bytes: int
    words: int
    source: int
    extremes: tuple[int, ...]
    digest: str  # of what the documents are

    def is_whole(self):
        """Whether the file is there with all its bytes."""
        return os.path.exists(self.path) and os.path.getsize(self.path) == self.n_bytes


@dataclass
class Spilled:
    """What a ReadTask gave: its runs, and documents left out, counted by reason; `skipped`: messages, some of them."""

    runs: list[Run] = field(default_factory=list)
    left_out: Counter = field(default_factory=Counter)
    skipped: list[str] = field(default_factory=list)

    def is_whole(self):
        return all(run.is_whole() for run in self.runs)


def group_files(files, group_bytes):
    """Consecutive files of one source in groups of at least `group_bytes` each, with the number of their first."""
    groups, size = [], 0
    for number, file in enumerate(files):
        if not groups or size >= group_bytes or file.source != groups[-1][1][0].source:
            groups.append((number, []))
            size = 0
        groups[-1][1].append(file)
        size += file.size
    return groups


def spill(task):
    """Reads the task's files into runs: Spilled.

    The split hash is one of the document's text, so that copies of a document are held out together or not at all; the
    order hash is one of its number in the corpus.
    """
    result = Spilled()
    documents, numbers, size = [], [], 0

    def skip(message):
        result.left_out["unreadable"] += 1
        if len(result.skipped) < SKIPPED_TOLD:
            result.skipped.append(message)

    for file_number, file in enumerate(task.files, task.first_file):
        for number, text in enumerate(
            read_documents(file, task.separator, on_error=skip if task.skip_errors else None)
        ):
            if reason := task.filters.reason_to_drop(text):
                result.left_out[reason] += 1
                continue
            document = text.encode()
            documents.append(document)
            numbers.append((file_number, number))
            size += len(document)
            if size >= task.run_bytes:
                result.runs.append(_write_run(task, len(result.runs), documents, numbers))
                documents, numbers, size = [], [], 0
    if documents:
        result.runs.append(_write_run(task, len(result.runs), documents, numbers))
    return result


def _write_run(task, index, documents, numbers):
    path = f"{task.folder}/run-{task.first_file:06d}-{index:05d}"
    files, in_file = np.array(numbers, np.uint64).T
    order_hash = mix(task.seed, 1, files, in_file)
    split_hash = mix(task.seed, 2, np.fromiter(map(zlib.crc32, documents), np.uint64, len(documents)))
    order = np.argsort(order_hash, kind="stable")
    documents = [documents[place] for place in order.tolist()]
    offsets = np.concatenate([[0], np.cumsum([len(document) for document in documents])]).astype(np.int64)
    text = b"".join(documents)
    with open(path, "wb") as stream:
        stream.write(text)
    np.save(f"{path}.npy", np.stack([order_hash[order], split_hash[order]]))
    np.save(f"{path}.offsets.npy", offsets)
    if task.duplicates != "keep":
        write_hashes(path, documents, task.duplicates)
    # Spaces and the like between words are near enough: weights are shares, not exact counts.
    words = int(np.count_nonzero(np.frombuffer(text, np.uint8) <= ord(" "))) + len(documents)
    ascending = np.sort(split_hash)  # np.unique hashes first, which takes ten times as long
    different = ascending[np.append(True, ascending[1:] != ascending[:-1])].tolist()
    extremes = tuple(different[:2] + different[-2:])
    digest = hashlib.sha256(order_hash.tobytes() + split_hash.tobytes() + offsets.tobytes()).hexdigest()
    return Run(path, len(documents), int(offsets[-1]), words, task.files[0].source, extremes, digest)
