"""The encoder: embeddings and a stack of blocks, as functions of a plain nested dict of parameters.

Parameters under `layers/` carry a leading axis N: one `Block` is initialised N times by `vmap` and applied by
`lax.scan`. NNX holds the modules; nothing else of it is used.
"""

import functools

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int, Key

from bert_jax.errors import UserError
from bert_jax.model import layers, pieces


class Embeddings(nnx.Module):
    """Sum of word, position and segment-type embeddings, normalised; dropout after the norm."""

    def __init__(self, config, compute, *, rngs):
        self.config, self.compute = config, compute
        self.word = layers.embed(config, config.vocab_size, padded_rows=config.padded_vocab_size, rngs=rngs)
        self.position = layers.embed(config, config.max_positions, rngs=rngs)
        self.token_type = layers.embed(config, config.segment_types, rngs=rngs)
        self.norm = layers.layer_norm(config, compute, rngs=rngs)

    def __call__(self, input_ids_BxL, token_type_ids_BxL, positions_BxL, key):
        """Types of None are all 0; positions of None count from the row's start."""
        length = input_ids_BxL.shape[1]
        if length > self.config.max_positions:
            raise UserError(f"input of {length} tokens: model.max_positions is {self.config.max_positions}")
        words_BxLxD = self._words(input_ids_BxL)
        x_BxLxD = self.norm(words_BxLxD + self._positions(positions_BxL, length) + self._types(token_type_ids_BxL))
        return layers.dropout(x_BxLxD, key, self.config.dropout)

    def _words(self, ids_BxL):
        # mode="fill": an id outside the table gives NaN, not the clamped last row; one of a padded row counts as such.
        table = self.word.embedding
        ids_BxL = jnp.where(ids_BxL < self.config.vocab_size, ids_BxL, table.shape[0])
        return table.at[ids_BxL].get(mode="fill", fill_value=jnp.nan)

    def _positions(self, positions_BxL, length):
        table = self.position.embedding
        return table[:length] if positions_BxL is None else table[positions_BxL]

    def _types(self, types_BxL):
        table = self.token_type.embedding
        if types_BxL is None:
            return table[0]
        # Two segment types: a product with one-hot rows beats a gather, whose gradient is a scatter.
        return jax.nn.one_hot(types_BxL, self.config.segment_types) @ table[...]


class Attention(nnx.Module):
    """Multi-head self-attention over the real tokens of a row, or of a piece of it."""

    def __init__(self, config, compute, *, rngs):
        self.config, self.compute = config, compute
        heads = (config.heads, config.head_size)
        self.query = layers.linear(config, compute, config.hidden, heads, rngs=rngs)
        self.key = layers.linear(config, compute, config.hidden, heads, rngs=rngs)
        self.value = layers.linear(config, compute, config.hidden, heads, rngs=rngs)
        self.out = layers.linear(config, compute, heads, config.hidden, axis=(-2, -1), rngs=rngs)
        self.norm = layers.layer_norm(config, compute, rngs=rngs)

    def __call__(self, x_BxLxD, mask_Bx1xQxL, keys, places=None):
        """Returns the normalised sum of x and attention, [B, L, D], and the probabilities [B, H, L, L] in float32.

        The mask says what is attended to; its axis Q is 1 where that is the same for all tokens of a row, else L.
        With `places` (rows, tokens), int [n] each, only these are computed: [n, 1, D] and [n, H, 1, L]; the mask is
        theirs, [n, 1, 1, L].
        """
        key_BxLxHxK, value_BxLxHxK = self.key(x_BxLxD), self.value(x_BxLxD)
        if places is not None:
            rows, tokens = places
            x_BxLxD = x_BxLxD[rows, tokens][:, None]
            key_BxLxHxK, value_BxLxHxK = key_BxLxHxK[rows], value_BxLxHxK[rows]
        q_BxLxHxK = self.query(x_BxLxD) * self.config.head_size**-0.5
        scores = jnp.einsum("bqhk,bthk->bhqt", q_BxLxHxK, key_BxLxHxK, preferred_element_type=jnp.float32)
        # A finite minimum: a row that is all padding gives a uniform distribution, not NaN.
        scores = jnp.where(mask_Bx1xQxL, scores, jnp.finfo(jnp.float32).min)
        probabilities_BxHxLxL = jax.nn.softmax(scores)
        weights = layers.dropout(probabilities_BxHxLxL, keys[0], self.config.attention_dropout)
        mixed_BxLxHxK = jnp.einsum("bhqt,bthk->bqhk", weights.astype(x_BxLxD.dtype), value_BxLxHxK)
        y_BxLxD = layers.dropout(self.out(mixed_BxLxHxK), keys[1], self.config.dropout)
        return self.norm(x_BxLxD + y_BxLxD), probabilities_BxHxLxL


class FeedForward(nnx.Module):
    def __init__(self, config, compute, *, rngs):
        self.config = config
        self.up = layers.linear(config, compute, config.hidden, config.ffn, rngs=rngs)
        self.down = layers.linear(config, compute, config.ffn, config.hidden, rngs=rngs)
        self.norm = layers.layer_norm(config, compute, rngs=rngs)

    def __call__(self, x_BxLxD, key):
        y_BxLxF = layers.activation(self.config.activation)(self.up(x_BxLxD))
        return self.norm(x_BxLxD + layers.dropout(self.down(y_BxLxF), key, self.config.dropout))


_NO_KEYS = (None, None, None)  # a block drops in three places: attention probabilities, attention output, FFN output


class Block(nnx.Module):
    """One layer: attention, then feed-forward, each with residual and norm after it (post-LN)."""

    def __init__(self, config, compute, *, rngs):
        self.attention = Attention(config, compute, rngs=rngs)
        self.ffn = FeedForward(config, compute, rngs=rngs)

    def __call__(self, x_BxLxD, mask_Bx1xQxL, keys, places=None):
        x_BxLxD, probabilities = self.attention(x_BxLxD, mask_Bx1xQxL, keys[:2], places)
        return self.ffn(x_BxLxD, keys[2]), probabilities


@functools.lru_cache
def _structure(module, config, compute):
    return nnx.split(nnx.eval_shape(lambda: module(config, compute, rngs=nnx.Rngs(0))))


def bind(module, config, compute, params):
    """The module with these parameters (a nested dict of arrays)."""
    graph, state = _structure(module, config, compute)
    state = jax.tree.map(lambda leaf: leaf, state)  # the cached one must not be written to
    nnx.replace_by_pure_dict(state, params)
    return nnx.merge(graph, state)


def init_module(module, config, compute, key):
    """Fresh parameters of one module as a nested dict of float32 arrays."""
    return nnx.to_pure_dict(nnx.state(module(config, compute, rngs=nnx.Rngs(params=key)), nnx.Param))


def init_layers(config, compute, key):
    """Fresh parameters of all blocks, each array with a leading axis N."""
    return jax.vmap(lambda key: init_module(Block, config, compute, key))(jax.random.split(key, config.layers))


_CHECKPOINT_POLICIES = {
    "elementwise": jax.checkpoint_policies.save_from_both_policies(
        jax.checkpoint_policies.dots_saveable,
        jax.checkpoint_policies.save_only_these_names(layers.DROPOUT_MASK),
    ),
    "dots": jax.checkpoint_policies.dots_with_no_batch_dims_saveable,
    "full": jax.checkpoint_policies.nothing_saveable,
}


def _apply_block(config, compute):
    def apply(params, x_BxLxD, mask_Bx1xQxL, keys, places=None):
        return bind(Block, config, compute, params)(x_BxLxD, mask_Bx1xQxL, keys, places)

    return apply


def _embed(params, config, compute, inputs, key):
    """(output of the embeddings [B, L, D], attention mask [B, 1, 1 or L, L]) of what `encode` is given."""
    input_ids_BxL, token_type_ids_BxL, mask_BxL, segment_ids_BxL = inputs
    if segment_ids_BxL is None:
        positions_BxL, mask_Bx1xQxL = None, mask_BxL[:, None, None, :]
    else:
        positions_BxL = pieces.piece_positions(segment_ids_BxL)
        mask_Bx1xQxL = pieces.same_piece(segment_ids_BxL)[:, None]
    embeddings = bind(Embeddings, config, compute, params["embeddings"])
    return embeddings(input_ids_BxL, token_type_ids_BxL, positions_BxL, key), mask_Bx1xQxL


def encode(
    params,
    config,
    compute,
    input_ids_BxL: Int[Array, "B L"],
    token_type_ids_BxL: Int[Array, "B L"] | None,
    mask_BxL: Bool[Array, "B L"],
    dropout_key: Key[Array, ""] | None = None,
    segment_ids_BxL: Int[Array, "B L"] | None = None,
    places: tuple[Int[Array, "n"], Int[Array, "n"]] | None = None,
) -> Float[Array, "B L D"] | Float[Array, "n D"]:
    """Hidden states of the last layer, [B, L, D] in compute.dtype.

    Token types of None are all 0. `mask_BxL` is true at real tokens. Without `dropout_key` (a threefry key) nothing is
    dropped. `segment_ids_BxL` is for packed rows (`pieces`): it takes the place of the mask, attention stays within a
    piece and positions count from the piece's start.
    With `places` (rows, tokens) the states of these alone, [n, D]: most of the last layer's work is then not done.
    """
    keys = _NO_KEYS if dropout_key is None else layers.dropout_keys(compute, dropout_key, (config.layers + 1, 3))
    inputs = input_ids_BxL, token_type_ids_BxL, mask_BxL, segment_ids_BxL
    x_BxLxD, mask_Bx1xQxL = _embed(params, config, compute, inputs, None if dropout_key is None else keys[-1, 0])
    apply = _apply_block(config, compute)
    if compute.remat != "none":
        apply = jax.checkpoint(apply, policy=_CHECKPOINT_POLICIES[compute.remat], prevent_cse=not compute.scan_layers)

    def layer(x_BxLxD, params_and_keys):
        layer_params, keys = params_and_keys
        return apply(layer_params, x_BxLxD, mask_Bx1xQxL, _NO_KEYS if keys is None else keys)[0], None

    stack = params["layers"], None if dropout_key is None else keys[:-1]
    unroll = 1 if compute.scan_layers else config.layers
    if places is None:
        return jax.lax.scan(layer, x_BxLxD, stack, unroll=unroll)[0]
    below, (last, last_keys) = (jax.tree.map(lambda leaf, cut=cut: leaf[cut], stack) for cut in (slice(-1), -1))
    x_BxLxD, _ = jax.lax.scan(layer, x_BxLxD, below, unroll=unroll)
    rows, tokens = places
    mask_nx1xL = mask_Bx1xQxL[rows, :, tokens if mask_Bx1xQxL.shape[2] > 1 else 0]
    keys = _NO_KEYS if last_keys is None else last_keys
    return apply(last, x_BxLxD, mask_nx1xL[:, :, None], keys, places)[0][:, 0]


def encode_layers(
    params,
    config,
    compute,
    input_ids_BxL: Int[Array, "B L"],
    token_type_ids_BxL: Int[Array, "B L"] | None,
    mask_BxL: Bool[Array, "B L"],
    segment_ids_BxL: Int[Array, "B L"] | None = None,
) -> tuple[Float[Array, "M B L D"], Float[Array, "N B H L L"]]:
    """What every layer computes, without dropout: (hidden [N+1, B, L, D], attention [N, B, H, L, L]).

    Inputs as for `encode`. hidden[0] is the output of the embeddings, hidden[n] that of layer n; attention[n - 1]
    belongs to layer n.
    """
    inputs = input_ids_BxL, token_type_ids_BxL, mask_BxL, segment_ids_BxL
    x_BxLxD, mask_Bx1xQxL = _embed(params, config, compute, inputs, None)
    apply = _apply_block(config, compute)

    def layer(x_BxLxD, layer_params):
        x_BxLxD, probabilities = apply(layer_params, x_BxLxD, mask_Bx1xQxL, _NO_KEYS)
        return x_BxLxD, (x_BxLxD, probabilities)

    _, (hidden, attention) = jax.lax.scan(layer, x_BxLxD, params["layers"])
    return jnp.concatenate([x_BxLxD[None], hidden]), attention
