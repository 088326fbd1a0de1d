"""The loss of each kind of task, as weighted sums over the examples of a batch."""

import jax.numpy as jnp

from bert_jax import losses
from bert_jax.model.task_heads import project
from bert_jax.tasks.embedding_losses import embedding_sums


def task_sums(params, config, compute, head, loss, outputs, batch):
    """`task_loss` and `task_weight`: sums over a batch (batches.py) whose `task_outputs` these are.

    classify, choose: cross-entropy. regress: squared error. tag: cross-entropy of each scored token. answer: the mean
    of the cross-entropies of the first and the last token, over real tokens. embed: by `loss`, an EmbeddingLoss.
    """
    labels, weight_n = batch["labels"], batch["row_weight"]
    if head.kind == "embed":
        vectors_nxRxD = outputs.reshape(len(weight_n), -1, outputs.shape[-1])
        return embedding_sums(
            loss, vectors_nxRxD, labels, weight_n, lambda features: project(params, config, compute, features)
        )
    if head.kind == "regress":
        return {"task_loss": jnp.sum(weight_n * (outputs - labels) ** 2), "task_weight": jnp.sum(weight_n)}
    if head.kind == "tag":
        return losses.class_sums("task", outputs, labels, (labels >= 0).astype(jnp.float32))
    if head.kind == "answer":
        # Padding is no place for an answer: the loss does not depend on what a row is batched with.
        logits_2xBxL = jnp.where(batch["mask"], jnp.moveaxis(outputs, -1, 0), -jnp.inf)
        first, last = (losses.class_sums("task", logits_2xBxL[n], labels[:, n], weight_n) for n in (0, 1))
        return {"task_loss": (first["task_loss"] + last["task_loss"]) / 2, "task_weight": jnp.sum(weight_n)}
    if head.kind == "choose":
        outputs = outputs.reshape(len(weight_n), -1)
    return losses.class_sums("task", outputs, labels, weight_n)
