"""What a model gives for every example of a split, in the split's order, on any number of devices."""

import functools

import jax
import numpy as np

from bert_jax import parallel
from bert_jax.model.task_heads import task_outputs
from bert_jax.tasks.batches import to_devices
from bert_jax.tasks.features import make_batch, rounded_width


@functools.lru_cache
def _program(compute, model, head, mesh):
    """The jitted function (params, batch) -> outputs, the same one whenever it is asked for, so that no caller has to
    wait twice for a width to be compiled."""
    return jax.jit(
        lambda params, batch: task_outputs(params, model, compute, head, batch), out_shardings=parallel.replicated(mesh)
    )


class Forward:
    """A model's outputs for whole splits, without dropout; a program is compiled for each width of batch."""

    def __init__(self, compute, model, head, mesh, batch_size, pad_id):
        self._model, self._head, self._mesh = model, head, mesh
        self._batch_size, self._pad_id = batch_size, pad_id
        self._program = _program(compute, model, head, mesh)

    def __call__(self, params, split):
        """The outputs of the n examples of a Split, float32.

        classify: [n, C]. regress: [n]. choose: [n, choices]. embed: [n, texts, D]. tag: [tokens, C] and answer:
        [tokens, 2], of all tokens of `split.features`, one row behind the other.

        Rows of like length are batched together. The last batch is filled up with padding, which is cut off again.
        """
        lengths = split.features.lengths
        order, parts, running = np.argsort(-lengths, kind="stable"), [None] * len(lengths), None
        for start in range(0, len(order), self._batch_size):
            rows = order[start : start + self._batch_size]
            width = rounded_width(lengths[rows[0]], self._model.max_positions)
            batch = make_batch(split.features, rows, size=self._batch_size, pad_id=self._pad_id, width=width)
            outputs = self._program(params, to_devices(batch, parallel.batch_sharding(self._mesh)))
            if running is not None:  # read while the devices work at the next batch
                _store(parts, *running)
            running = rows, outputs
        _store(parts, *running)
        if self._head.kind in ("tag", "answer"):
            return np.concatenate([part[:length] for part, length in zip(parts, lengths, strict=True)])
        outputs = np.stack(parts)
        if self._head.kind in ("choose", "embed"):
            return outputs.reshape(len(split), split.rows, *outputs.shape[1:])
        return outputs


def _store(parts, rows, outputs):
    for row, output in zip(rows, np.asarray(outputs), strict=False):
        parts[row] = output
