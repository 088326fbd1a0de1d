"""Pretraining heads: pooler, masked-language-model head with tied decoder, head of a pair's sentence label."""

import dataclasses

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int

from bert_jax.model import encoder, layers
from bert_jax.model.presets import ComputeConfig

# What has padded rows (EncoderConfig.vocab_multiple), and with it the optimizer's moments; a regex over paths.
PADDED_ROWS = r"(.*/)?(embeddings/word/embedding|mlm/bias|mlm/decoder/embedding)"


class Pooler(nnx.Module):
    """tanh of a projection of first tokens, [..., D]."""

    def __init__(self, config, compute, *, rngs):
        self.dense = layers.linear(config, compute, config.hidden, config.hidden, rngs=rngs)

    def __call__(self, first_D):
        return jnp.tanh(self.dense(first_D))


class MlmHead(nnx.Module):
    """Vocabulary logits of gathered positions: projection, activation, norm, then the tied word embeddings, or
    a table of its own where the config does not tie them.

    The logit of a padded row is -inf: its probability is 0, no gradient reaches it, and it as a label has no finite
    loss.
    """

    def __init__(self, config, compute, *, rngs):
        self.config, self.compute = config, compute
        self.transform = layers.linear(config, compute, config.hidden, config.hidden, rngs=rngs)
        self.norm = layers.layer_norm(config, compute, rngs=rngs)
        self.bias = nnx.Param(jnp.zeros(config.padded_vocab_size))
        if not config.tied_decoder:
            self.decoder = layers.embed(config, config.vocab_size, padded_rows=config.padded_vocab_size, rngs=rngs)

    def __call__(self, hidden_BxPxD, word_embedding_VxD):
        x_BxPxD = self.norm(layers.activation(self.config.activation)(self.transform(hidden_BxPxD)))
        decoder_VxD = word_embedding_VxD if self.config.tied_decoder else self.decoder.embedding[...]
        decoder_VxD = decoder_VxD.astype(layers.dtype_of(self.compute))
        logits = jnp.einsum("bpd,vd->bpv", x_BxPxD, decoder_VxD, preferred_element_type=jnp.float32)
        # In the bias, not in the logits: choosing among these would keep another copy of them.
        is_token_V = jnp.arange(logits.shape[-1]) < self.config.vocab_size
        return logits + jnp.where(is_token_V, self.bias[...], -jnp.inf)


class SentenceHead(nnx.Module):
    """Two logits of the pooled output. nsp: 0 is next, 1 is random; sop: 0 is in order, 1 is swapped."""

    def __init__(self, config, compute, *, rngs):
        self.dense = layers.linear(config, compute, config.hidden, 2, rngs=rngs)

    def __call__(self, pooled_D):
        return self.dense(pooled_D).astype(jnp.float32)


# The sentence head's parameters are named nsp whichever label they learn: they have one shape and one place.
_MODULES = {"embeddings": encoder.Embeddings, "pooler": Pooler, "mlm": MlmHead, "nsp": SentenceHead}
_OF_SENTENCES = ("pooler", "nsp")


def init_params(config, compute, key):
    """Fresh parameters of the encoder with its pretraining heads: nested dict of float32 arrays.

    What they hold depends on neither `config.sentence_head` nor `config.vocab_multiple`, but for heads left out and
    rows added.
    """
    keys = jax.random.split(key, len(_MODULES) + 1)
    params = {
        name: encoder.init_module(module, config, compute, key)
        for (name, module), key in zip(_MODULES.items(), keys[:-1], strict=True)
        if config.sentence_head != "none" or name not in _OF_SENTENCES
    }
    return params | {"layers": encoder.init_layers(config, compute, keys[-1])}


def parameter_count(config):
    """How many parameters the encoder has with its heads; padded rows are none."""
    unpadded = dataclasses.replace(config, vocab_multiple=1)
    shapes = jax.eval_shape(lambda: init_params(unpadded, ComputeConfig(), jax.random.key(0)))
    return sum(leaf.size for leaf in jax.tree.leaves(shapes))


def gather_positions(hidden_BxLxD: Float[Array, "B L D"], positions_BxP: Int[Array, "B P"]) -> Float[Array, "B P D"]:
    """The hidden states at `positions`, [B, P, D]."""
    return jnp.take_along_axis(hidden_BxLxD, positions_BxP[:, :, None], axis=1)


def mlm_logits(params, config, compute, hidden_BxPxD: Float[Array, "B P D"]) -> Float[Array, "B P V"]:
    """Logits over the vocabulary, [B, P, V] in float32, of hidden states already gathered.

    V is that of the word embeddings: padded rows have the logit -inf.
    """
    head = encoder.bind(MlmHead, config, compute, params["mlm"])
    return head(hidden_BxPxD, params["embeddings"]["word"]["embedding"])


def sentence_logits(
    params, config, compute, hidden_BxLxD: Float[Array, "B L D"], piece_starts_BxS: Int[Array, "B S"] | None = None
) -> Float[Array, "B 2"] | Float[Array, "B S 2"]:
    """Logits of the sentence label in float32: [B, 2] from a row's first token, or [B, S, 2] from those of its pieces.

    Only for a config whose sentence_head is not none.
    """
    first = hidden_BxLxD[:, 0] if piece_starts_BxS is None else gather_positions(hidden_BxLxD, piece_starts_BxS)
    pooled = encoder.bind(Pooler, config, compute, params["pooler"])(first)
    return encoder.bind(SentenceHead, config, compute, params["nsp"])(pooled)


def pretraining_logits(
    params, config, compute, batch, dropout_key=None
) -> tuple[Float[Array, "B P V"], Float[Array, "B 2"] | Float[Array, "B S 2"] | None]:
    """(MLM logits [B, P, V] at batch["positions"], sentence logits), both float32.

    `batch` holds input_ids and mask [B, L], token_type_ids [B, L] unless all are 0, and positions [B, P]; of packed
    rows also segment_ids [B, L] and, where there is a sentence head, piece_starts [B, S] (`pieces.piece_starts`).
    Sentence logits are [B, 2], of packed rows [B, S, 2], without a head None.
    """
    inputs = batch["input_ids"], batch.get("token_type_ids"), batch["mask"]
    hidden_BxLxD = encoder.encode(params, config, compute, *inputs, dropout_key, batch.get("segment_ids"))
    mlm = mlm_logits(params, config, compute, gather_positions(hidden_BxLxD, batch["positions"]))
    if config.sentence_head == "none":
        return mlm, None
    return mlm, sentence_logits(params, config, compute, hidden_BxLxD, batch.get("piece_starts"))
