"""Losses that teach an encoder to put texts of like meaning close together, as sums over the examples of a batch.

Shapes: n examples, R texts each, vectors of D.
"""

import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from bert_jax import losses
from bert_jax.errors import UserError
from bert_jax.model.task_heads import unit

KINDS = ("cosine", "nli", "ranking")
SCALE = 20.0  # of cosines as logits: the usual temperature of 0.05


@dataclasses.dataclass(frozen=True)
class EmbeddingLoss:
    """What an embed head is trained on.

    kind. cosine: the squared error of a pair's cosine against its label, float32 in [-1, 1] (Reimers and Gurevych 2019,
    regression). nli: which of `classes` a pair is in, from u, v and |u - v| (the same, classification). ranking: which
    second text of the whole batch belongs to a first one; further texts of an example belong to none (in-batch
    negatives, Henderson et al. 2017); examples have no labels, and two of the same second text are no negatives of each
    other's.
    dims: the first so many numbers of a vector have to serve alone, too (Matryoshka, Kusupati et al. 2022): the loss is
    the mean over them and the whole vector.
    """

    kind: str
    classes: int = 0
    dims: tuple[int, ...] = ()

    def __post_init__(self):
        if self.kind not in KINDS:
            raise UserError(f"embedding loss {self.kind!r}: expected one of {', '.join(KINDS)}")
        if self.dims and self.kind == "nli":
            raise UserError("matryoshka: the loss of nli uses whole vectors: expected cosine or ranking")
        if any(size < 1 for size in self.dims):
            raise UserError(f"matryoshka {self.dims}: expected sizes of 1 or more")


def embedding_sums(
    loss: EmbeddingLoss,
    vectors_nxRxD: Float[Array, "n R D"],
    labels_n: Float[Array, "n"] | Int[Array, "n"],
    weights_n: Float[Array, "n"],
    classify=None,
):
    """`task_loss` and `task_weight`, sums over the examples of weight 1; those of 0 are no one's negatives either.

    labels: of ranking a number for each second text, the same for texts that are the same. classify: of nli the
    function from features [n, 3 D] to logits.
    """
    if loss.kind == "nli":
        u, v = vectors_nxRxD[:, 0], vectors_nxRxD[:, 1]
        features = jnp.concatenate([u, v, jnp.abs(u - v)], axis=-1)
        return losses.class_sums("task", classify(features), labels_n, weights_n)
    one = _cosine_error if loss.kind == "cosine" else _ranking_error
    whole = vectors_nxRxD.shape[-1]
    if any(size > whole for size in loss.dims):
        raise UserError(f"matryoshka {loss.dims}: the model's vectors have {whole} numbers: expected sizes up to that")
    sizes = sorted({*loss.dims, whole})
    errors_n = sum(one(unit(vectors_nxRxD[..., :size]), labels_n, weights_n) for size in sizes) / len(sizes)
    return {"task_loss": jnp.sum(jnp.where(weights_n > 0, errors_n, 0.0)), "task_weight": jnp.sum(weights_n)}


def _cosine_error(units_nxRxD, labels_n, weights_n):
    return (jnp.sum(units_nxRxD[:, 0] * units_nxRxD[:, 1], axis=-1) - labels_n) ** 2


def _ranking_error(units_nxRxD, labels_n, weights_n):
    """Cross-entropy of each example's own second text among all texts but the firsts."""
    count, texts = units_nxRxD.shape[:2]
    candidates_mxD = jnp.concatenate([units_nxRxD[:, place] for place in range(1, texts)])
    logits_nxm = SCALE * jnp.matmul(units_nxRxD[:, 0], candidates_mxD.T, precision="highest")
    example_m = jnp.tile(jnp.arange(count), texts - 1)
    is_second_m = jnp.arange(len(candidates_mxD)) < count
    own_nxm = (example_m == jnp.arange(count)[:, None]) & is_second_m
    same_nxm = (labels_n[example_m] == labels_n[:, None]) & is_second_m
    left_out_nxm = ~own_nxm & (same_nxm | (weights_n[example_m] == 0))
    own_n = jnp.sum(jnp.where(own_nxm, logits_nxm, 0.0), axis=-1)
    return jax.nn.logsumexp(jnp.where(left_out_nxm, -jnp.inf, logits_nxm), axis=-1) - own_n
