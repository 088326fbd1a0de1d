"""What a model gives for every example of a split, in the split's order, on any number of devices."""

import jax
import numpy as np

from bert_jax import parallel
from bert_jax.model.task_heads import task_outputs
from bert_jax.tasks.batches import to_devices
from bert_jax.tasks.features import make_batch


class Forward:
    """A model's outputs for whole splits, without dropout; a program is compiled for each width of batch."""

    def __init__(self, compute, model, head, mesh, batch_size, pad_id):
        self._mesh, self._batch_size, self._pad_id = mesh, batch_size, pad_id
        self._forward = jax.jit(
            lambda params, batch: task_outputs(params, model, compute, head, batch),
            out_shardings=parallel.replicated(mesh),
        )

    def __call__(self, params, features):
        """The outputs of each row of Features, float32 [n] or [n, C].

        Rows of like length are batched together. The last batch is filled up with padding, which is cut off again.
        """
        order, parts, running = np.argsort(-features.lengths, kind="stable"), [], None
        for start in range(0, len(order), self._batch_size):
            rows = order[start : start + self._batch_size]
            batch = make_batch(features, rows, size=self._batch_size, pad_id=self._pad_id)
            outputs = self._forward(params, to_devices(batch, parallel.batch_sharding(self._mesh)))
            if running is not None:  # read while the devices work at the next batch
                parts.append(np.asarray(running))
            running = outputs
        together = np.concatenate([*parts, np.asarray(running)])[: len(order)]
        outputs = np.empty_like(together)
        outputs[order] = together
        return outputs
