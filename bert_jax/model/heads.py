"""Pretraining heads: pooler, masked-language-model head with tied decoder, next-sentence head."""

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int

from bert_jax.model import encoder, layers


class Pooler(nnx.Module):
    """tanh of a projection of the first token, [B, D]."""

    def __init__(self, config, compute, *, rngs):
        self.dense = layers.linear(config, compute, config.hidden, config.hidden, rngs=rngs)

    def __call__(self, hidden_BxLxD):
        return jnp.tanh(self.dense(hidden_BxLxD[:, 0]))


class MlmHead(nnx.Module):
    """Vocabulary logits of gathered positions: projection, activation, norm, then the tied word embeddings."""

    def __init__(self, config, compute, *, rngs):
        self.config, self.compute = config, compute
        self.transform = layers.linear(config, compute, config.hidden, config.hidden, rngs=rngs)
        self.norm = layers.layer_norm(config, compute, rngs=rngs)
        self.bias = nnx.Param(jnp.zeros(config.vocab_size))

    def __call__(self, hidden_BxPxD, word_embedding_VxD):
        x_BxPxD = self.norm(layers.activation(self.config.activation)(self.transform(hidden_BxPxD)))
        decoder_VxD = word_embedding_VxD.astype(layers.dtype_of(self.compute))
        logits = jnp.einsum("bpd,vd->bpv", x_BxPxD, decoder_VxD, preferred_element_type=jnp.float32)
        return logits + self.bias[...]


class NspHead(nnx.Module):
    """Two logits of the pooled output: 0 is next, 1 is random."""

    def __init__(self, config, compute, *, rngs):
        self.dense = layers.linear(config, compute, config.hidden, 2, rngs=rngs)

    def __call__(self, pooled_BxD):
        return self.dense(pooled_BxD).astype(jnp.float32)


_MODULES = {"embeddings": encoder.Embeddings, "pooler": Pooler, "mlm": MlmHead, "nsp": NspHead}


def init_params(config, compute, key):
    """Fresh parameters of the encoder with its pretraining heads: nested dict of float32 arrays."""
    keys = jax.random.split(key, len(_MODULES) + 1)
    params = {
        name: encoder.init_module(module, config, compute, key)
        for (name, module), key in zip(_MODULES.items(), keys[:-1], strict=True)
    }
    return params | {"layers": encoder.init_layers(config, compute, keys[-1])}


def gather_positions(hidden_BxLxD: Float[Array, "B L D"], positions_BxP: Int[Array, "B P"]) -> Float[Array, "B P D"]:
    """The hidden states at `positions`, [B, P, D]."""
    return jnp.take_along_axis(hidden_BxLxD, positions_BxP[:, :, None], axis=1)


def mlm_logits(params, config, compute, hidden_BxPxD: Float[Array, "B P D"]) -> Float[Array, "B P V"]:
    """Logits over the vocabulary, [B, P, V] in float32, of hidden states already gathered."""
    head = encoder.bind(MlmHead, config, compute, params["mlm"])
    return head(hidden_BxPxD, params["embeddings"]["word"]["embedding"])


def nsp_logits(params, config, compute, hidden_BxLxD: Float[Array, "B L D"]) -> Float[Array, "B 2"]:
    """Next-sentence logits, [B, 2] in float32."""
    pooled_BxD = encoder.bind(Pooler, config, compute, params["pooler"])(hidden_BxLxD)
    return encoder.bind(NspHead, config, compute, params["nsp"])(pooled_BxD)


def pretraining_logits(
    params, config, compute, batch, dropout_key=None
) -> tuple[Float[Array, "B P V"], Float[Array, "B 2"]]:
    """(MLM logits [B, P, V] at batch["positions"], NSP logits [B, 2]), both float32.

    `batch` holds input_ids, token_type_ids and mask [B, L], and positions [B, P].
    """
    hidden_BxLxD = encoder.encode(
        params, config, compute, batch["input_ids"], batch["token_type_ids"], batch["mask"], dropout_key
    )
    gathered_BxPxD = gather_positions(hidden_BxLxD, batch["positions"])
    return (
        mlm_logits(params, config, compute, gathered_BxPxD),
        nsp_logits(params, config, compute, hidden_BxLxD),
    )
