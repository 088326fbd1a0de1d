"""Documents that repeat others, found over the whole corpus in bounded memory.

exact: the same text. near: most of the text is the same, as MinHash estimates it from runs of SHINGLE_WORDS words
(Broder 1997; banding as in Leskovec, Rajaraman and Ullman, Mining of Massive Datasets, section 3.4). Of documents that
are alike the one that comes first in the random order stays.
"""

import hashlib
import re

import numpy as np

from bert_jax.data.hashing import mix
from bert_jax.errors import UserError

DUPLICATES = ("keep", "exact", "near")
SHINGLE_WORDS = 5
BANDS, ROWS_A_BAND = 16, 8  # documents that share 71 % of their shingles meet in a band with probability 0.64
SIMILAR = 0.8  # from this estimated Jaccard similarity on they are duplicates
HASHES_AT_A_TIME = 1 << 23  # 64 MB of hashes, and some times as much to sort them

_WORDS = re.compile(rb"\w+")


def write_hashes(path, documents, how):
    """Writes what `mark_duplicates` reads of a run's documents (UTF-8 texts, in the run's order)."""
    digests = b"".join(hashlib.blake2b(document, digest_size=8).digest() for document in documents)
    np.save(f"{path}.text.npy", np.frombuffer(digests, "<u8"))
    if how == "near":
        np.save(f"{path}.minhash.npy", _signatures(documents))


def mark_duplicates(runs, how, log):
    """Writes for each run which of its documents are dropped (`dropped`); returns how many, by the reason."""
    dropped = [np.zeros(run.documents, bool) for run in runs]
    _mark(runs, dropped, lambda index: np.load(f"{runs[index].path}.text.npy", mmap_mode="r"))
    counts = {"duplicates": sum(int(drops.sum()) for drops in dropped)}
    if how == "near":
        signatures = [np.load(f"{run.path}.minhash.npy", mmap_mode="r") for run in runs]

        def alike(one, other):  # each (run, place in it)
            return (signatures[one[0]][one[1]] == signatures[other[0]][other[1]]).mean() >= SIMILAR

        for band in range(BANDS):
            _mark(runs, dropped, lambda index, band=band: _band_hashes(signatures[index], band), alike)
        total = sum(int(drops.sum()) for drops in dropped)
        counts["near duplicates"] = total - counts["duplicates"]
    for run, drops in zip(runs, dropped, strict=True):
        np.save(f"{run.path}.dropped.npy", drops)
    log(f"duplicates: {', '.join(f'{count} {reason}' for reason, count in counts.items())} are left out")
    return counts


def is_dropped(run):
    """Which documents of the run `mark_duplicates` drops: bool [documents]."""
    return np.load(f"{run.path}.dropped.npy", mmap_mode="r")


def _mark(runs, dropped, hashes_of, alike=None):
    """Marks documents whose hash an earlier one has, unless `alike` says of the two that they are not.

    hashes_of(index of a run): uint64, a document each. alike: of two (index of a run, place in it).
    """
    n_documents = sum(run.documents for run in runs)
    passes = -(-n_documents // HASHES_AT_A_TIME)
    for number in range(passes):
        parts = []
        for index, run in enumerate(runs):
            hashes, order = hashes_of(index), np.load(f"{run.path}.npy", mmap_mode="r")[0]
            of_pass = np.flatnonzero((hashes % np.uint64(passes) == number) & ~dropped[index])
            parts.append((hashes[of_pass], order[of_pass], np.full(len(of_pass), index), of_pass))
        hashes, order, run_of, place = (np.concatenate(column) for column in zip(*parts, strict=True))
        sorting = np.lexsort((order, hashes))
        hashes, run_of, place = hashes[sorting], run_of[sorting], place[sorting]
        is_first = np.append(True, hashes[1:] != hashes[:-1])[: len(hashes)]
        first = np.maximum.accumulate(np.where(is_first, np.arange(len(hashes)), 0))
        repeats = np.flatnonzero(~is_first)
        if alike is not None:
            where = lambda at: (run_of[at], place[at])  # noqa: E731
            repeats = np.array([at for at in repeats.tolist() if alike(where(at), where(first[at]))], np.int64)
        for index in np.unique(run_of[repeats]).tolist():
            dropped[index][place[repeats[run_of[repeats] == index]]] = True


def _signatures(documents):
    """The MinHash of each document's shingles: uint32 [n, BANDS * ROWS_A_BAND]."""
    try:
        from datasketch import MinHash
    except ImportError as error:
        raise UserError("datasketch is not installed: expected pip install 'bert-jax[clean]'") from error
    shingles = [_shingles(document) for document in documents]
    hashes = MinHash.bulk(shingles, num_perm=BANDS * ROWS_A_BAND, seed=1)
    return np.array([one.hashvalues for one in hashes], np.uint32).reshape(len(documents), -1)


def _shingles(document):
    """All runs of SHINGLE_WORDS words, in lower case; of a shorter document all of it."""
    words = _WORDS.findall(document.lower())
    last = max(len(words) - SHINGLE_WORDS, 0)
    return {b" ".join(words[start : start + SHINGLE_WORDS]) for start in range(last + 1)}


def _band_hashes(signatures, band):
    of_band = signatures[:, band * ROWS_A_BAND : (band + 1) * ROWS_A_BAND]
    return mix(band, *of_band.T) if len(of_band) else np.zeros(0, np.uint64)
