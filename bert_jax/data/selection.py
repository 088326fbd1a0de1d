"""Which documents go where: the held-out split, the share taken of each source, and the blocks of stage two."""

import mmap
from dataclasses import dataclass

import numpy as np

from bert_jax.data.duplicates import is_dropped
from bert_jax.data.hashing import mix

# Block boundaries lie on multiples of 2^64 / ORDER_BINS.
ORDER_BINS = 1 << 16
WHOLE = 2**64
MANY = 10


@dataclass(frozen=True)
class Selection:
    """What is taken of each run, and for which split.

    threshold: documents with a lower split hash are held out; rates: the share of the documents taken of each source, 1
    for all, by the source's number; no entry where everything is taken.
    """

    threshold: int
    rates: tuple[float, ...] = ()
    drops_duplicates: bool = False

    def index(self, run, split):
        """Of a run's documents, in its order: (order hash, where each starts, and the end, which are taken: bool)."""
        order, split_hash = np.load(f"{run.path}.npy", mmap_mode="r")
        offsets = np.load(f"{run.path}.offsets.npy", mmap_mode="r")
        chosen = (split_hash < self.threshold) == (split == "validation")
        rate = self.rates[run.source] if self.rates else 1.0
        if rate < 1:
            chosen &= mix(3, order) < np.uint64(int(rate * WHOLE))
        if self.drops_duplicates:
            chosen &= ~is_dropped(run)
        return order, offsets, chosen


@dataclass(frozen=True)
class BlockRange:
    """A block: the documents of a split whose order hash lies in [start, stop)."""

    split: str
    index: int
    start: int
    stop: int
    n_bytes: int
    documents: int


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


def source_rates(runs, weights):
    """The share to take of each source so that their words are as the weights: () where no weight is given.

    The source that has least text for its weight is taken whole, of the others documents are left out, none repeated.
    """
    if not any(weights):
        return ()
    words = np.zeros(len(weights))
    for run in runs:
        words[run.source] += run.words
    wanted = np.array(weights, float)
    scale = min(words[words > 0] / wanted[words > 0])
    return tuple(np.minimum(1.0, scale * wanted / np.maximum(words, 1)).tolist())


def cut_blocks(runs, selection, most_bytes, least_bytes, spread):
    """The blocks of both splits: of about equal size, of at most about `most_bytes` each.

    There are `spread` blocks or more, to share among workers, as long as each has `least_bytes`. A block has two
    documents or more where the split has: a random next sentence comes from another document of the block.
    """
    blocks = []
    for split in ("train", "validation"):
        sizes, counts = np.zeros(ORDER_BINS, np.int64), np.zeros(ORDER_BINS, np.int64)
        for run in runs:
            order, offsets, chosen = selection.index(run, split)
            bins = (order[chosen] // np.uint64(WHOLE // ORDER_BINS)).astype(np.int64)
            counts += np.bincount(bins, minlength=ORDER_BINS)
            sizes += np.bincount(bins, np.diff(offsets)[chosen], ORDER_BINS).astype(np.int64)
        total = int(sizes.sum())
        wanted = max(-(-total // most_bytes), min(spread, total // least_bytes), 1)
        blocks += _cut(split, sizes, counts, wanted)
    return blocks


def read_block(runs, block, selection, batch_bytes):
    """Yields the block's documents, as lists of texts of about `batch_bytes` each, in an order fixed by the hashes."""
    batch, size = [], 0
    for run in runs:
        order, offsets, chosen = selection.index(run, block.split)
        low = int(np.searchsorted(order, np.uint64(block.start)))
        high = len(order) if block.stop == WHOLE else int(np.searchsorted(order, np.uint64(block.stop)))
        places = low + np.flatnonzero(chosen[low:high])
        if not len(places):
            continue
        with open(run.path, "rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as text:
            for start, stop in zip(offsets[places].tolist(), offsets[places + 1].tolist(), strict=True):
                batch.append(text[start:stop].decode())
                size += stop - start
                if size >= batch_bytes:
                    yield batch
                    batch, size = [], 0
    if batch:
        yield batch


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
