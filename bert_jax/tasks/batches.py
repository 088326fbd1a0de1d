"""Examples of a split as batches of fixed shapes to be trained on, the same on any number of processes.

Where the head allows it, batches are packed: several short texts share a row, and nothing of the model crosses from one
to the other (model/pieces.py), so that hardly any work goes into padding.
"""

import jax
import numpy as np

from bert_jax.data.packing import best_fit
from bert_jax.data.shuffle import example_ids
from bert_jax.tasks.features import make_batch, offsets_of, places, rounded_width

# A program is compiled for each shape of batch: what half of the sampled batches need, what all of them need, and what
# any batch may need.
SHAPE_QUANTILES = (0.5, 1.0)
SAMPLED_BATCHES = 200


def training_examples(split, limit, seed):
    """The examples to train on: all, or the first `limit` of a seeded order; int64, ascending."""
    if not limit or limit >= len(split):
        return np.arange(len(split))
    return np.sort(example_ids(np.arange(limit), len(split), seed))


def epoch_batch(examples, consumed, batch_size, seed):
    """The next batch after `consumed` examples: some of `examples`, each once an epoch, in an order of its own.

    The last batch of an epoch holds what is left of it.
    """
    size = min(batch_size, len(examples) - consumed % len(examples))
    return examples[example_ids(consumed + np.arange(size), len(examples), seed)]


def make_batcher(head, split, size, multiple, pad_id, positions):
    """The Packer or Padder for a HeadConfig; the shapes of its batches depend on the split and the size alone.

    multiple: of which the number of rows is one (the devices that share a batch). positions: tokens of a row at most.
    """
    kind = Padder if head.kind in ("answer", "embed") else Packer
    return kind(split, size, multiple, pad_id, positions, by_token=head.kind == "tag")


class _Batcher:
    """What both have in common."""

    def __init__(self, split, size, multiple, pad_id, positions, by_token=False):
        self._split, self._size, self._multiple, self._pad_id = split, size, multiple, pad_id
        self._positions, self._by_token = positions, by_token

    def _usual(self, needed_by):
        """The SHAPE_QUANTILES of what needed_by(lengths of the rows of a batch) is, over sampled batches."""
        draw, count = np.random.default_rng(0), len(self._split)
        lengths = self._split.features.lengths
        samples = (draw.choice(count, min(self._size, count), replace=False) for _ in range(SAMPLED_BATCHES))
        needed = [needed_by(lengths[self._split.rows_of(examples)]) for examples in samples]
        return np.quantile(needed, SHAPE_QUANTILES, method="higher")

    def _by_example(self, examples):
        """labels [size], of filling 0, and row_weight float32 [size], 1 for an example and 0 for filling."""
        weight = (np.arange(self._size) < len(examples)).astype(np.float32)
        if self._by_token:
            return {"row_weight": weight}
        labels = self._split.labels[examples]
        filling = [(0, self._size - len(examples)), *[(0, 0)] * (labels.ndim - 1)]
        return {"labels": np.pad(labels, filling), "row_weight": weight}


class Padder(_Batcher):
    """Makes batches of `size` examples with a text a row. widths: those that batches have, ascending."""

    def __init__(self, *arguments, **settings):
        super().__init__(*arguments, **settings)
        longest = [*self._usual(np.max), self._split.features.lengths.max()]
        self.widths = sorted({rounded_width(int(length), self._positions) for length in longest})

    def __call__(self, examples):
        """NumPy arrays of a batch: input_ids, token_type_ids int32 and mask bool [size * split.rows, width], and
        `_by_example`; of the `size` examples the last may be filling."""
        rows = self._split.rows_of(examples)
        longest = self._split.features.lengths[rows].max()
        width = next(width for width in self.widths if width >= longest)
        size = self._size * self._split.rows
        batch = make_batch(self._split.features, rows, size=size, pad_id=self._pad_id, width=width)
        return batch | self._by_example(examples)


class Packer(_Batcher):
    """Makes packed batches of `size` examples.

    width: of all rows, that of the longest text, rounded up. row_counts: the numbers of rows that batches have,
    ascending.
    """

    def __init__(self, *arguments, **settings):
        super().__init__(*arguments, **settings)
        self.width = rounded_width(int(self._split.features.lengths.max()), self._positions)
        counts = [*self._usual(lambda lengths: self._rows_for(lengths).max() + 1), self._size * self._split.rows]
        self.row_counts = sorted({-(-int(count) // self._multiple) * self._multiple for count in counts})

    def _rows_for(self, lengths):
        return best_fit(lengths, self.width, self.width)

    def __call__(self, examples):
        """NumPy arrays of a batch; of the `size` examples the last may be filling.

        input_ids, token_type_ids, piece_ids int32 [R, width]: of each token which text of the batch it belongs to, -1
        at padding. piece_rows, piece_starts int32 [size * split.rows]: where each text begins. And `_by_example`; but
        labels that tokens have int32 [R, width], -1 at padding.
        """
        features, rows = self._split.features, self._split.rows_of(examples)
        lengths = features.lengths[rows]
        row_of = self._rows_for(lengths)
        starts = _starts(row_of, lengths)
        shape = next(count for count in self.row_counts if count > row_of.max()), self.width
        to, source = places(row_of * self.width + starts, lengths), places(features.offsets[:-1][rows], lengths)

        def spread(values, filling):
            array = np.full(shape, filling, np.int32)
            array.reshape(-1)[to] = values
            return array

        within, filling = places(np.zeros_like(lengths), lengths), (0, self._size * self._split.rows - len(rows))
        batch = {
            "input_ids": spread(features.ids[source], self._pad_id),
            "token_type_ids": spread(within >= np.repeat(features.second[rows], lengths), 0),
            "piece_ids": spread(np.repeat(np.arange(len(rows)), lengths), -1),
            "piece_rows": np.pad(row_of, filling).astype(np.int32),
            "piece_starts": np.pad(starts, filling).astype(np.int32),
        }
        if self._by_token:
            batch["labels"] = spread(self._split.labels[source], -1)
        return batch | self._by_example(examples)


def _starts(row_of, lengths):
    """The place in its row of each piece, in the order in which they are given."""
    order = np.argsort(row_of, kind="stable")
    before = offsets_of(lengths[order])[:-1]
    starts = np.empty_like(before)
    starts[order] = before - before[np.searchsorted(row_of[order], row_of[order])]
    return starts


def to_devices(batch, sharding):
    """The arrays as global ones, their rows spread by `sharding`; every process has made the whole batch."""
    return {
        name: jax.make_array_from_callback(values.shape, sharding, values.__getitem__) for name, values in batch.items()
    }
