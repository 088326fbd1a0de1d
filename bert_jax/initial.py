"""The parameters of another model as those that a pretraining run starts from."""

import dataclasses
import re

import jax
import jax.numpy as jnp
import numpy as np

from bert_jax.checkpoint import describe_difference
from bert_jax.errors import UserError
from bert_jax.model import heads
from bert_jax.models import load_model
from bert_jax.randomness import Purpose, purpose_key
from bert_jax.text.added_words import grow_table

# What two models must share for the weights of one to mean the same in the other; the vocabulary may grow besides.
SHARED = (
    "hidden",
    "layers",
    "heads",
    "ffn",
    "max_positions",
    "segment_types",
    "activation",
    "norm_eps",
    "tied_decoder",
)


def initial_params(config, tokenizer, say):
    """The parameters of a PretrainConfig before its first step: those of `config.init_from`.

    tokenizer: the data's. It has the vocabulary of the model that is taken, or one that extends it: then the rows of
    unchanged pieces stay as they are bit for bit, and new ones start from the pieces that spelt the word before
    (`grow_table`). Heads that the model lacks are drawn. `say` is told which weights came from where. Raises UserError
    where the model does not fit.
    """
    fresh = heads.init_params(config.model, config.compute, purpose_key(config.seed, Purpose.INITIALIZATION))
    model = load_model(config.init_from)
    _check_fit(config, model, tokenizer)
    new_rows = _new_rows(model.tokenizer, tokenizer)

    def resized(path, leaf):
        if not re.fullmatch(heads.PADDED_ROWS, jax.tree_util.keystr(path, simple=True, separator="/")):
            return jnp.asarray(leaf)
        table = np.asarray(leaf)[: model.tokenizer.size]
        table = grow_table(table, model.tokenizer, tokenizer) if new_rows else table
        padding = config.model.padded_vocab_size - len(table)
        return jnp.asarray(np.pad(table, [(0, padding)] + [(0, 0)] * (table.ndim - 1)))

    taken = {name: model.params[name] for name in fresh if name in model.params}
    say(f"weights of {config.init_from}: {', '.join(taken)}")
    for words, names in (
        (f"drawn from seed {config.seed}", [name for name in fresh if name not in taken]),
        ("not used", [name for name in model.params if name not in taken]),
    ):
        if names:
            say(f"{words}: {', '.join(names)}")
    if new_rows:
        say(f"vocabulary: {new_rows} new words, each from the pieces that spelt it before")
    return fresh | jax.tree_util.tree_map_with_path(resized, taken)


def _check_fit(config, model, tokenizer):
    theirs, ours = (dataclasses.asdict(one) for one in (model.config, config.model))
    different = [name for name in SHARED if theirs[name] != ours[name]]
    if different:
        flags = " ".join(f"--config.model.{name}={theirs[name]}" for name in different)
        shown = describe_difference(*({name: one[name] for name in different} for one in (theirs, ours)))
        raise UserError(f"config.init_from {config.init_from} has another architecture ({shown}): give {flags}")
    if model.config.vocab_size < model.tokenizer.size:
        raise UserError(
            f"config.init_from {config.init_from} has {model.config.vocab_size} rows of word embeddings for the "
            f"{model.tokenizer.size} pieces of its tokenizer"
        )
    if tokenizer.lower_case != model.tokenizer.lower_case:
        raise UserError(
            f"config.init_from {config.init_from}: its tokenizer has lower_case={model.tokenizer.lower_case}, that of "
            f"the data {tokenizer.lower_case}: prepare the data with --tokenizer={config.init_from}"
        )


def _new_rows(old, new):
    """How many ids of the tokenizer `new` have no piece of the same name in `old`."""
    before, after = (tokenizer.tokens(range(tokenizer.size)) for tokenizer in (old, new))
    return sum(a != b for a, b in zip(before, after, strict=False)) + max(0, new.size - old.size)
