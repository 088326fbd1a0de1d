"""The train step and the evaluation step: pure functions of the state and a batch.

The state is the plain dict {step, examples, params, opt_state}: `step` int32 counts optimizer updates, `examples`
uint32 the examples consumed. Everything drawn depends on (seed, purpose, global example index).
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax

from bert_jax import losses
from bert_jax.accumulate import accumulate_gradients, split_microbatches
from bert_jax.data.kinds import LABELS
from bert_jax.data.masking import mask_tokens
from bert_jax.model import heads, pieces
from bert_jax.optim import make_optimizer
from bert_jax.randomness import Purpose, purpose_key, row_keys
from bert_jax.schedules import make_schedule

# The column of prepared data that holds the label of each sentence head.
SENTENCE_LABELS = {"nsp": LABELS["pairs"][0], "sop": LABELS["sop"][0]}


@dataclasses.dataclass(frozen=True)
class Vocabulary:
    """What masking must know of the tokenizer; hashable."""

    pad_id: int
    mask_id: int
    special_ids: tuple[int, ...]  # never masked
    ordinary_ids: tuple[int, ...]  # random ids come from these
    word_starts: tuple[bool, ...] | None = None  # by id, whether it begins a word; None where its pieces do not tell

    @classmethod
    def of(cls, tokenizer):
        # [UNK] is masked like any token, as in google-research/bert.
        special = (tokenizer.pad_id, tokenizer.cls_id, tokenizer.sep_id, tokenizer.mask_id)
        starts = None if tokenizer.is_word_start is None else tuple(tokenizer.is_word_start.tolist())
        return cls(tokenizer.pad_id, tokenizer.mask_id, special, tuple(tokenizer.ordinary_ids.tolist()), starts)


def init_state(config, params=None):
    """The state before the first step: with these parameters, by default those drawn from the config's seed."""
    if params is None:
        params = heads.init_params(config.model, config.compute, purpose_key(config.seed, Purpose.INITIALIZATION))
    return {
        "step": jnp.zeros((), jnp.int32),
        "examples": jnp.zeros((), jnp.uint32),
        "params": params,
        "opt_state": make_optimizer(config.optimizer).init(params),
    }


def mask_rows(masking, vocabulary, batch, keys_B):
    """`mask_tokens` of the rows of a batch, each by its own key, given what the rows and the unit of masking need."""
    optional = {}  # the rest costs time
    if masking.unit != "token" and vocabulary.word_starts is not None:
        optional["word_starts"] = np.array(vocabulary.word_starts, bool)
    if "segment_ids" in batch:
        optional["segment_ids_BxL"] = batch["segment_ids"]
    return mask_tokens(
        masking,
        batch["input_ids"],
        keys_B,
        pad_id=vocabulary.pad_id,
        mask_id=vocabulary.mask_id,
        special_ids=vocabulary.special_ids,
        ordinary_ids=np.array(vocabulary.ordinary_ids, np.int32),
        **optional,
    )


def masked_batch(config, masking, vocabulary, batch, purpose, first_example):
    """The batch with masks drawn for its rows, whose global example indices begin at `first_example`, and with what
    its sentence head is to predict. The batch is that of `make_train_step` with row_weight float32 [B]."""
    ids_BxL = batch["input_ids"]
    indices_B = jnp.asarray(first_example, jnp.uint32) + jnp.arange(ids_BxL.shape[0], dtype=jnp.uint32)
    masked = mask_rows(masking, vocabulary, batch, row_keys(config.seed, purpose, indices_B))
    masked["weights"] = masked["weights"] * batch["row_weight"][:, None]
    real = {"mask": ids_BxL != vocabulary.pad_id}
    return batch | masked | real | _sentence_targets(config.model.sentence_head, batch)


def _sentence_targets(head, batch):
    """What the sentence head is to predict: `sentence_labels` and `sentence_weights` [B]; of packed rows [B, S], the
    weight of a piece that a row has not being 0, and `piece_starts` [B, S]."""
    if head == "none":
        return {}
    labels, weight_B = batch[SENTENCE_LABELS[head]], batch["row_weight"]
    if "segment_ids" not in batch:
        return {"sentence_labels": labels, "sentence_weights": weight_B}
    starts_BxS, exists_BxS = pieces.piece_starts(batch["segment_ids"], labels.shape[1])
    return {
        "sentence_labels": labels,
        "sentence_weights": exists_BxS * weight_B[:, None],
        "piece_starts": starts_BxS,
    }


def batch_sums(params, config, batch, dropout_key=None):
    """Loss and metric sums (`losses`) of a masked batch; rows of weight 0 count nowhere."""
    mlm, sentence = heads.pretraining_logits(params, config.model, config.compute, batch, dropout_key)
    sums = losses.mlm_sums(mlm, batch["labels"], batch["weights"])
    if sentence is None:
        return sums
    targets = batch["sentence_labels"], batch["sentence_weights"]
    return sums | losses.sentence_sums(config.model.sentence_head, sentence, *targets)


def _head_weights(config, batch):
    """The weights of each head of a masked batch."""
    weights = {"mlm": batch["weights"]}
    if config.model.sentence_head != "none":
        weights[config.model.sentence_head] = batch["sentence_weights"]
    return weights


def update_state(optimizer, state, loss, gradients, rate, examples, rate_factors=None):
    """(the state after one update at the learning rate `rate`, metrics of the update).

    Where the loss or the gradient is not finite, parameters and optimizer state stay as they were and `bad` is 1;
    `step` and `examples`, of which there were so many, advance all the same, so the data and the schedule go on.
    rate_factors: a tree like the parameters, of numbers or arrays that `rate` is multiplied by.
    """
    params, old = state["params"], (state["params"], state["opt_state"])
    gradient_norm = optax.tree.norm(gradients)
    good = jnp.isfinite(loss) & jnp.isfinite(gradient_norm)
    updates, opt_state = optimizer.update(gradients, state["opt_state"], params)
    if rate_factors is not None:
        updates = jax.tree.map(jnp.multiply, updates, rate_factors)
    new = jax.tree.map(lambda p, u: p - rate * u, params, updates), opt_state
    params, opt_state = jax.tree.map(lambda new, old: jnp.where(good, new, old), new, old)
    metrics = {
        "learning_rate": rate,
        "gradient_norm": gradient_norm,
        "parameter_norm": optax.tree.norm(state["params"]),
        "bad": 1.0 - good,
    }
    step, examples = state["step"] + 1, state["examples"] + jnp.asarray(examples, jnp.uint32)
    return {"step": step, "examples": examples, "params": params, "opt_state": opt_state}, metrics


def make_train_step(config, phase, vocabulary):
    """The function (state, batch) -> (state, metrics) of one optimizer update, to be jitted.

    batch, as prepared: input_ids int [B, L]; token_type_ids [B, L] unless all are 0; of packed rows segment_ids [B, L]
    (`pieces`); where the model has a sentence head its label (`SENTENCE_LABELS`) [B], of packed rows [B, S], of which
    only slots of a row's pieces count. metrics: float32 scalars; bad steps as in `update_state`.
    """
    optimizer, schedule = make_optimizer(config.optimizer), make_schedule(config.schedule)

    def train_step(state, batch):
        rows = batch["input_ids"].shape[0]
        batch = batch | {"row_weight": jnp.ones(rows)}
        batch = masked_batch(config, phase.masking, vocabulary, batch, Purpose.TRAIN_MASKS, state["examples"])
        totals = losses.weight_totals(_head_weights(config, batch))
        dropout_key = jax.random.fold_in(purpose_key(config.seed, Purpose.DROPOUT), state["examples"])

        def loss_fn(params, microbatch, totals):
            key = jax.random.fold_in(dropout_key, microbatch["number"])
            sums = batch_sums(params, config, microbatch["batch"], key)
            return losses.contribution(sums, totals), sums

        numbers = jnp.arange(phase.accumulation)
        microbatches = {"batch": split_microbatches(batch, phase.accumulation), "number": numbers}
        loss, sums, gradients = accumulate_gradients(loss_fn, state["params"], microbatches, totals)
        state, metrics = update_state(optimizer, state, loss, gradients, schedule(state["step"]), rows)
        metrics |= losses.finish(sums) | {"real_tokens": jnp.sum(batch["mask"], dtype=jnp.float32)}
        return state, jax.tree.map(jnp.float32, metrics)

    return train_step


def make_eval_step(config, phase, vocabulary):
    """The function (params, batch, position) -> sums of a held-out batch; its masks depend on the rows alone."""

    def eval_step(params, batch, position):
        return batch_sums(
            params, config, masked_batch(config, phase.eval_masking, vocabulary, batch, Purpose.EVAL_MASKS, position)
        )

    return eval_step
