"""Several prepared data sets as one, mixed by weight in training: deterministic, and any position costs the same.

Where a position of the training order comes from is fixed by the weights alone, as evenly as whole numbers allow: of
the first p positions each data set has its share of p, to within one for each data set. Inside a data set the order is
its own endless one (shuffle.py), so each repeats when it is through, and none is cut.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bert_jax.data.shuffle import example_ids
from bert_jax.data.storage import Prepared, SplitReader, open_prepared
from bert_jax.errors import UserError

SEPARATOR = ";"
_UNIT = 2**31  # weights are fractions of this; a position is below 2^32, so products fit into 64 bits


@dataclass(frozen=True)
class Mixture:
    """Prepared data sets and their weights; it offers what a Prepared does. Examples are numbered through."""

    parts: tuple[Prepared, ...]
    weights: tuple[float, ...]

    # The same in all parts: see `open_data`.
    length = property(lambda self: self.parts[0].length)
    vocab_size = property(lambda self: self.parts[0].vocab_size)
    layout = property(lambda self: self.parts[0].layout)
    special_ids = property(lambda self: self.parts[0].special_ids)
    tokenizer = property(lambda self: self.parts[0].tokenizer)

    @property
    def path(self):
        return SEPARATOR.join(str(part.path) for part in self.parts)

    @property
    def shards(self):
        return tuple(shard for part in self.parts for shard in part.shards)

    def size(self, split):
        return sum(part.size(split) for part in self.parts)

    def unigram(self):
        """How often an id occurs in training, parts weighted: float64 [vocabulary]; it sums to the tokens of all."""
        counts = [part.unigram() for part in self.parts]
        shares = np.array(self.weights) / sum(self.weights)
        total = sum(count.sum() for count in counts)
        return sum(share * count / count.sum() for share, count in zip(shares, counts, strict=True)) * total

    def reader(self, split):
        return MixtureReader(self, split)

    def order(self, positions, seed):
        """The examples at `positions` of the training order, int64 of the same shape."""
        positions = np.asarray(positions, np.int64)
        part, place = mixed_positions(positions, self.weights)
        ids = np.empty_like(positions)
        for number, data in enumerate(self.parts):
            mine = part == number
            ids[mine] = self._starts["train"][number] + example_ids(place[mine], data.size("train"), seed + number)
        return ids

    @cached_property
    def _starts(self):
        return {split: np.cumsum([0, *(part.size(split) for part in self.parts)]) for split in ("train", "validation")}


class MixtureReader:
    """Random access to the examples of a split of a Mixture, as storage.SplitReader.

    Held-out examples are in a fixed random order, so that the first n are of all parts.
    """

    def __init__(self, mixture, split):
        self._readers = [SplitReader(part, split) for part in mixture.parts]
        self._starts = mixture._starts[split]
        self._shuffled = split == "validation"

    def __len__(self):
        return int(self._starts[-1])

    def read(self, indices):
        """Examples at `indices` (integers [n], each in [0, len)) as columns: name -> array [n, size] or [n]."""
        part, place = self._find(indices)
        columns = {}
        for number, reader in enumerate(self._readers):
            mine = part == number
            if mine.any():
                for name, values in reader.read(place[mine]).items():
                    columns.setdefault(name, np.empty((len(part), *values.shape[1:]), values.dtype))[mine] = values
        return columns

    def describe(self, index):
        (part,), (place,) = self._find([index])
        return self._readers[part].describe(place)

    def _find(self, indices):
        indices = np.asarray(indices, np.int64)
        if self._shuffled:
            indices = example_ids(indices, len(self), 0)
        part = np.searchsorted(self._starts, indices, side="right") - 1
        return part, indices - self._starts[part]


def mixed_positions(positions, weights):
    """Which data set each position of the mixed order is of, and the position in that set's own order: int64 each.

    The first set is taken wherever its whole share of the positions so far grows; the other positions, numbered anew,
    go to the others by the same rule.
    """
    rest = np.asarray(positions, np.int64)
    part, place = np.empty_like(rest), np.empty_like(rest)
    undecided = np.arange(rest.size)
    for number, weight in enumerate(weights[:-1]):
        share = np.uint64(round(_UNIT * weight / sum(weights[number:])))
        before = (rest.astype(np.uint64) * share) // np.uint64(_UNIT)
        after = ((rest.astype(np.uint64) + np.uint64(1)) * share) // np.uint64(_UNIT)
        mine = after > before
        part.flat[undecided[mine]], place.flat[undecided[mine]] = number, before[mine].astype(np.int64)
        undecided, rest = undecided[~mine], (rest - before.astype(np.int64))[~mine]
    part.flat[undecided], place.flat[undecided] = len(weights) - 1, rest
    return part, place


def split_data(text):
    """[(folder, weight)] of `DIR,weight=2.5;DIR,weight=0.8`, as `PhaseConfig.data`; of one folder [(DIR, None)].

    Raises UserError where one of several has no weight, or one that is no positive number.
    """
    folders = [part.strip() for part in str(text).split(SEPARATOR)]
    if len(folders) == 1:
        return [(str(text), None)]
    named = []
    for folder in folders:
        path, found, weight = folder.rpartition(",weight=")
        try:
            named.append((path, float(weight) if found else 0.0))
        except ValueError:
            named.append((path, 0.0))
        if not 0 < named[-1][1] < float("inf"):
            raise UserError(
                f"data {folder!r}: expected DIR,weight=W with a positive W, as there are {len(folders)} data sets"
            )
    return named


def open_data(text):
    """The Prepared data set in a folder, or of several (`split_data`) the Mixture.

    Raises UserError where a folder is not prepared data, or the data sets have not the same tokenizer, length and kind
    of example.
    """
    named = split_data(text)
    if len(named) == 1:
        return open_prepared(text)
    parts = tuple(open_prepared(path) for path, _ in named)
    for part in parts[1:]:
        for name in ("length", "vocab_size", "layout", "special_ids"):
            ours, theirs = getattr(parts[0], name), getattr(part, name)
            if ours != theirs:
                raise UserError(f"{part.path}: {name} is {theirs}, but {ours} in {parts[0].path}: they cannot be mixed")
        origins = [data.preparation["origin"]["tokenizer_sha256"] for data in (parts[0], part)]
        if origins[0] != origins[1]:
            raise UserError(f"{part.path}: made with another tokenizer than {parts[0].path}: they cannot be mixed")
    return Mixture(parts, tuple(weight for _, weight in named))
