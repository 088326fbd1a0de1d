"""Stage one of preparation: documents -> temporary files in a random order, cut into blocks of about equal size.

Documents are read once, in any number of processes, and written to runs: files of bounded size, each with its
documents in the order of a hash. A block is then a range of that hash over all runs, so any block can be read by
itself, and nothing that grows with the corpus is held in memory.
"""

import mmap
import zlib
from dataclasses import dataclass

import numpy as np

from bert_jax.data.hashing import mix
from bert_jax.text.documents import TextFile, read_documents

# Block boundaries lie on multiples of 2^64 / ORDER_BINS.
ORDER_BINS = 1 << 16
WHOLE = 2**64
MANY = 10


@dataclass(frozen=True)
class ReadTask:
    """Files to read in one go: consecutive ones of the corpus, `first_file` being the number of the first."""

    files: tuple[TextFile, ...]
    first_file: int
    folder: str
    separator: str
    text_field: str
    seed: int
    run_bytes: int


@dataclass(frozen=True)
class Run:
    """A file of documents and its index: `extremes` are the two least and the two greatest split hashes in it."""

    path: str
    documents: int
    extremes: tuple[int, ...]


@dataclass(frozen=True)
class BlockRange:
    """A block: the documents of a split whose order hash lies in [start, stop)."""

    split: str
    index: int
    start: int
    stop: int
    n_bytes: int
    documents: int


def group_files(files, group_bytes):
    """Consecutive files in groups of at least `group_bytes` each, with the number of each group's first file."""
    groups, size = [], group_bytes
    for number, file in enumerate(files):
        if size >= group_bytes:
            groups.append((number, []))
            size = 0
        groups[-1][1].append(file)
        size += file.size
    return groups


def spill(task):
    """Reads the task's files into runs; returns the Runs and how many documents were left out as empty.

    The split hash is one of the document's text, so that copies of a document are held out together or not at all; the
    order hash is one of its number in the corpus.
    """
    runs, documents, numbers, size, empty = [], [], [], 0, 0
    for file_number, file in enumerate(task.files, task.first_file):
        for number, text in enumerate(read_documents(file, task.separator, task.text_field)):
            if not text or text.isspace():
                empty += 1
                continue
            document = text.encode()
            documents.append(document)
            numbers.append((file_number, number))
            size += len(document)
            if size >= task.run_bytes:
                runs.append(_write_run(task, len(runs), documents, numbers))
                documents, numbers, size = [], [], 0
    if documents:
        runs.append(_write_run(task, len(runs), documents, numbers))
    return runs, empty


def split_threshold(runs, held_out):
    """The split hash below which a document is held out: a share `held_out` of them, but one at least.

    From MANY documents on, two at least, so that the held-out text has random next sentences too; as many stay for
    training. 0 (nothing is held out) where held_out is 0 or there are not two different documents.
    """
    extremes = sorted({value for run in runs for value in run.extremes})
    if held_out == 0 or len(extremes) < 2:
        return 0
    least = 2 if sum(run.documents for run in runs) >= MANY and len(extremes) >= 4 else 1
    return min(max(int(held_out * WHOLE), extremes[least - 1] + 1), extremes[-least])


def cut_blocks(runs, threshold, most_bytes, least_bytes, spread):
    """The blocks of both splits: of about equal size, of at most about `most_bytes` each.

    There are `spread` blocks or more, to share among workers, as long as each has `least_bytes`. A block has two
    documents or more where the split has: a random next sentence comes from another document of the block.
    """
    sizes = {split: np.zeros(ORDER_BINS, np.int64) for split in ("train", "validation")}
    counts = {split: np.zeros(ORDER_BINS, np.int64) for split in sizes}
    for run in runs:
        order, split_hash, offsets = _read_index(run)
        held_out = split_hash < threshold
        bins = (order // np.uint64(WHOLE // ORDER_BINS)).astype(np.int64)
        for split, chosen in (("train", ~held_out), ("validation", held_out)):
            counts[split] += np.bincount(bins[chosen], minlength=ORDER_BINS)
            sizes[split] += np.bincount(bins[chosen], np.diff(offsets)[chosen], ORDER_BINS).astype(np.int64)
    blocks = []
    for split in sizes:
        total = int(sizes[split].sum())
        wanted = max(-(-total // most_bytes), min(spread, total // least_bytes), 1)
        blocks += _cut(split, sizes[split], counts[split], wanted)
    return blocks


def read_block(runs, block, threshold, batch_bytes):
    """Yields the block's documents, as lists of texts of about `batch_bytes` each, in an order fixed by the hashes."""
    batch, size = [], 0
    for run in runs:
        order, split_hash, offsets = _read_index(run)
        low = int(np.searchsorted(order, np.uint64(block.start)))
        high = len(order) if block.stop == WHOLE else int(np.searchsorted(order, np.uint64(block.stop)))
        chosen = low + np.flatnonzero((split_hash[low:high] < threshold) == (block.split == "validation"))
        if not len(chosen):
            continue
        with open(run.path, "rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as text:
            for start, stop in zip(offsets[chosen].tolist(), offsets[chosen + 1].tolist(), strict=True):
                batch.append(text[start:stop].decode())
                size += stop - start
                if size >= batch_bytes:
                    yield batch
                    batch, size = [], 0
    if batch:
        yield batch


def _write_run(task, index, documents, numbers):
    path = f"{task.folder}/run-{task.first_file:06d}-{index:05d}"
    files, in_file = np.array(numbers, np.uint64).T
    order_hash = mix(task.seed, 1, files, in_file)
    split_hash = mix(task.seed, 2, np.fromiter(map(zlib.crc32, documents), np.uint64, len(documents)))
    order = np.argsort(order_hash, kind="stable")
    documents = [documents[place] for place in order.tolist()]
    offsets = np.concatenate([[0], np.cumsum([len(document) for document in documents])]).astype(np.int64)
    with open(path, "wb") as stream:
        stream.writelines(documents)
    np.save(f"{path}.npy", np.stack([order_hash[order], split_hash[order]]))
    np.save(f"{path}.offsets.npy", offsets)
    different = np.unique(split_hash).tolist()
    return Run(path, len(documents), tuple(different[:2] + different[-2:]))


def _read_index(run):
    order, split_hash = np.load(f"{run.path}.npy", mmap_mode="r")
    return order, split_hash, np.load(f"{run.path}.offsets.npy", mmap_mode="r")


def _cut(split, sizes, counts, wanted):
    """BlockRanges over the bins, about `wanted` of equal bytes, each with two documents or more."""
    filled = np.flatnonzero(counts)
    if not len(filled):
        return []
    ends, n_documents = [], 0
    bytes_up_to = np.cumsum(sizes)
    for place in filled.tolist():
        n_documents += counts[place]
        # Goals are counted from the beginning: what one block overshoots, the next ones make up for.
        if n_documents >= 2 and bytes_up_to[place] * wanted >= bytes_up_to[-1] * (len(ends) + 1):
            ends.append(place + 1)
            n_documents = 0
    if n_documents >= 2 or not ends:
        ends.append(ORDER_BINS)
    ends[-1] = ORDER_BINS  # what is left over after the last cut is a lone document: it joins the last block
    starts = [0, *ends[:-1]]
    width = WHOLE // ORDER_BINS
    return [
        BlockRange(split, i, start * width, end * width, int(sizes[start:end].sum()), int(counts[start:end].sum()))
        for i, (start, end) in enumerate(zip(starts, ends, strict=True))
    ]
