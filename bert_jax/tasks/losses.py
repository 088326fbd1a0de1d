"""The loss of each kind of task, as weighted sums over the examples of a batch."""

import jax.numpy as jnp

from bert_jax import losses


def task_sums(head, outputs, batch):
    """`task_loss` and `task_weight`, sums over a batch (batches.Packer) whose `task_outputs` these are: of classify the
    cross-entropy, of regress the squared error."""
    labels, weights = batch["labels"], batch["row_weight"]
    if head.kind == "regress":
        return {"task_loss": jnp.sum(weights * (outputs - labels) ** 2), "task_weight": jnp.sum(weights)}
    return losses.class_sums("task", outputs, labels, weights)
