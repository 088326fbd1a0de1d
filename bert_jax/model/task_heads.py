"""What a fine-tuned model predicts: one projection on top of the encoder, or the pooled text itself."""

import dataclasses

import jax.numpy as jnp
from flax import nnx
from jax import lax, random
from jaxtyping import Array, Bool, Float, Key

from bert_jax.errors import UserError
from bert_jax.model import encoder, heads, layers

KINDS = ("classify", "regress", "tag", "answer", "choose", "embed")
POOLED = ("classify", "regress", "choose")  # read the pooled first token
POOLINGS = ("mean", "cls", "max")


@dataclasses.dataclass(frozen=True)
class HeadConfig:
    """A task's head; it is stored with the model.

    kind. classify: one of `labels` for a text or a pair of texts. regress: a number for it. tag: one of `labels` for
    each token. answer: the first and the last token of an answer. choose: a score for each of several rows, the highest
    of which is chosen. embed: a vector.
    labels: names in the order of the logits, which is the order in which any data set has to be read.
    pooling, normalize: of embed alone: what makes a vector out of the tokens' (mean and max of real tokens, or the
    first one, without BERT's pooler), and whether its length is then made 1.
    null: of answer alone: whether there may be none.
    length: tokens of an input that the model was tuned on, the special ones included; 0 where that is not known.
    """

    kind: str
    labels: tuple[str, ...] = ()
    pooling: str = "mean"
    normalize: bool = False
    null: bool = False
    length: int = 0

    def __post_init__(self):
        if self.kind not in KINDS:
            raise UserError(f"head {self.kind!r}: expected one of {', '.join(KINDS)}")
        if (self.kind in ("classify", "tag")) != bool(self.labels):
            raise UserError(f"head {self.kind!r} has {len(self.labels)} labels: only classify and tag have them")
        if len(set(self.labels)) < len(self.labels):
            raise UserError(f"head {self.kind!r}: a label stands twice in {', '.join(self.labels)}")
        if self.pooling not in POOLINGS:
            raise UserError(f"pooling {self.pooling!r}: expected one of {', '.join(POOLINGS)}")

    @property
    def outputs(self):
        """How many numbers the projection gives; 0 where there is none."""
        return len(self.labels) or {"regress": 1, "choose": 1, "answer": 2, "embed": 0}[self.kind]


@dataclasses.dataclass(frozen=True)
class _Projection:
    """What `layers.linear` has to know."""

    inputs: int
    outputs: int
    init_std: float


class TaskHead(nnx.Module):
    """A projection of pooled texts or of tokens, [..., inputs] to float32 [..., outputs]."""

    def __init__(self, projection, compute, *, rngs):
        self.dense = layers.linear(projection, compute, projection.inputs, projection.outputs, rngs=rngs)

    def __call__(self, x):
        return self.dense(x).astype(jnp.float32)


def init_head(config, compute, outputs, key, inputs=None):
    """Fresh parameters of a head of so many outputs, params["task"], over `inputs` numbers (the model's hidden)."""
    projection = _Projection(inputs or config.hidden, outputs, config.init_std)
    return encoder.init_module(TaskHead, projection, compute, key)


def project(params, config, compute, x: Float[Array, "*R I"]) -> Float[Array, "*R C"]:
    """The outputs of the head `params["task"]` in float32."""
    inputs, outputs = params["task"]["dense"]["kernel"].shape
    return encoder.bind(TaskHead, _Projection(inputs, outputs, config.init_std), compute, params["task"])(x)


def task_outputs(
    params, config, compute, head: HeadConfig, batch, dropout_key: Key[Array, ""] | None = None
) -> Float[Array, "..."]:
    """What the head gives for each text, in float32.

    `batch` holds input_ids and token_type_ids int [B, L] and mask bool [B, L], a text a row; or, of packed rows, for
    all heads but embed, piece_ids int [B, L] in place of the mask, the number of each token's text and -1 at padding,
    and piece_rows and piece_starts int [n], where each text begins. classify: [n, C]. regress and choose: [n]. tag:
    [B, L, C]. answer: [B, L, 2]. embed: [n, D]. With `dropout_key` (a threefry key) as in training: what the projection
    reads is dropped at the model's rate, as in google-research/bert (run_classifier.py).
    """
    packed = "piece_ids" in batch
    if packed:
        first = batch["piece_rows"], batch["piece_starts"]
        mask_BxL = batch["piece_ids"] >= 0
    else:
        mask_BxL = batch["mask"]
        first = jnp.arange(len(mask_BxL)), jnp.zeros(len(mask_BxL), jnp.int32)
    inputs = batch["input_ids"], batch["token_type_ids"], mask_BxL, dropout_key, batch.get("piece_ids")
    only_first = head.kind in POOLED or (head.kind == "embed" and head.pooling == "cls")
    x = encoder.encode(params, config, compute, *inputs, places=first if only_first else None)
    if head.kind == "embed":
        vectors = x.astype(jnp.float32) if only_first else pool(head, x, mask_BxL)
        return unit(vectors) if head.normalize else vectors
    if head.kind in POOLED:
        x = encoder.bind(heads.Pooler, config, compute, params["pooler"])(x)
    if dropout_key is not None:
        key = layers.dropout_keys(compute, random.fold_in(dropout_key, 1), ())
        x = layers.dropout(x, key, config.dropout)
    outputs = project(params, config, compute, x)
    return outputs[:, 0] if head.outputs == 1 and head.kind != "classify" else outputs


def pool(head: HeadConfig, hidden_BxLxD: Float[Array, "B L D"], mask_BxL: Bool[Array, "B L"]) -> Float[Array, "B D"]:
    """The mean or the maximum of each row's states, float32: of its real tokens alone, so that a vector does not change
    with what it is batched with."""
    hidden_BxLxD = hidden_BxLxD.astype(jnp.float32)
    real_BxLx1 = mask_BxL[:, :, None]
    if head.pooling == "max":
        return jnp.max(jnp.where(real_BxLx1, hidden_BxLxD, jnp.finfo(jnp.float32).min), axis=1)
    count_Bx1 = jnp.sum(mask_BxL, axis=1, keepdims=True)
    return jnp.sum(jnp.where(real_BxLx1, hidden_BxLxD, 0.0), axis=1) / jnp.maximum(count_Bx1, 1)


def unit(vectors: Float[Array, "*n D"]) -> Float[Array, "*n D"]:
    """The vectors with length 1; a vector of 0 stays, and has a gradient."""
    squares = jnp.sum(vectors**2, axis=-1, keepdims=True)
    return vectors * lax.rsqrt(jnp.maximum(squares, 1e-24))
