"""Examples of a split as batches of fixed shapes, the same on any number of processes.

Batches to be trained on are packed: several short texts share a row, and nothing of the model crosses from one to the
other (model/pieces.py), so that hardly any work goes into padding.
"""

import jax
import numpy as np

from bert_jax.data.packing import best_fit
from bert_jax.data.shuffle import example_ids
from bert_jax.tasks.features import offsets_of, places, rounded_width

# A program is compiled for each number of rows that packed batches have: what half of the batches need, what nearly all
# need, and what any may need.
ROW_QUANTILES = (0.5, 0.95)
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


class Packer:
    """Makes packed batches of `size` examples out of a split; the shapes depend on the split and the size alone.

    width: of all rows, that of the longest text, rounded up. row_counts: the numbers of rows that batches have,
    ascending, each a multiple of `multiple` (the devices that share a batch).
    """

    def __init__(self, split, size, multiple, pad_id):
        self._split, self._size, self._pad_id = split, size, pad_id
        lengths = split.features.lengths
        self.width = rounded_width(lengths)
        draw = np.random.default_rng(0)
        samples = [draw.choice(lengths, min(size, len(split)), replace=False) for _ in range(SAMPLED_BATCHES)]
        needed = [self._rows_for(sample).max() + 1 for sample in samples]
        usual = np.quantile(needed, ROW_QUANTILES, method="higher")
        self.row_counts = sorted({-(-int(count) // multiple) * multiple for count in [*usual, size]})

    def _rows_for(self, lengths):
        return best_fit(lengths, self.width, self.width)

    def __call__(self, examples):
        """NumPy arrays of a batch; of the `size` examples the last may be filling.

        input_ids, token_type_ids, piece_ids int32 [R, width]: of each token which example of the batch it belongs to,
        -1 at padding. piece_rows, piece_starts int32 [size]: where each example begins. labels [size], and row_weight
        float32 [size], 1 for an example and 0 for filling.
        """
        features, lengths = self._split.features, self._split.features.lengths[examples]
        row_of = self._rows_for(lengths)
        starts = _starts(row_of, lengths)
        shape = next(count for count in self.row_counts if count > row_of.max()), self.width
        to, source = places(row_of * self.width + starts, lengths), places(features.offsets[:-1][examples], lengths)

        def spread(values, filling):
            array = np.full(shape, filling, np.int32)
            array.reshape(-1)[to] = values
            return array

        within, filling = places(np.zeros_like(lengths), lengths), (0, self._size - len(examples))
        return {
            "input_ids": spread(features.ids[source], self._pad_id),
            "token_type_ids": spread(within >= np.repeat(features.second[examples], lengths), 0),
            "piece_ids": spread(np.repeat(np.arange(len(examples)), lengths), -1),
            "piece_rows": np.pad(row_of, filling).astype(np.int32),
            "piece_starts": np.pad(starts, filling).astype(np.int32),
            "labels": np.pad(self._split.labels[examples], filling),
            "row_weight": (np.arange(self._size) < len(examples)).astype(np.float32),
        }


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
