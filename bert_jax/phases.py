"""The phases of a run with their data opened and checked against the config."""

import dataclasses
import hashlib
import json

from bert_jax import parallel
from bert_jax.config import PhaseConfig
from bert_jax.data.mixture import Mixture, open_data
from bert_jax.data.storage import Prepared
from bert_jax.errors import UserError
from bert_jax.step import SENTENCE_LABELS, Vocabulary
from bert_jax.text.tokenizer import load_tokenizer


@dataclasses.dataclass(frozen=True)
class Phase:
    """One phase: it makes the updates after step `first_step` up to `end_step`."""

    number: int  # from 1
    config: PhaseConfig
    first_step: int
    data: Prepared | Mixture
    vocabulary: Vocabulary

    @property
    def end_step(self):
        return self.first_step + self.config.steps


def open_phases(config, mesh):
    """The phases of a PretrainConfig. Raises UserError where data, model and devices do not fit each other."""
    parallel.check_batch("config.eval_batch_size", config.eval_batch_size, mesh)
    phases, first_step = [], 0
    for number, phase in enumerate(config.phases, 1):
        name = f"config.phases.phase{number}"
        parallel.check_batch(f"{name}.batch_size", phase.batch_size, mesh, phase.accumulation)
        data = _open_data(name, phase, config.model.vocab_size)
        _check_sentence_label(data, config.model.sentence_head)
        vocabulary = Vocabulary.of(load_tokenizer(data.tokenizer, fast=False))
        _check_masking_units(name, phase, data.tokenizer, vocabulary)
        if phases and vocabulary != phases[0].vocabulary:
            raise UserError(f"{name}.data {data.path} has another vocabulary than {phases[0].data.path}")
        phases.append(Phase(number, phase, first_step, data, vocabulary))
        first_step += phase.steps
    return phases


def _open_data(name, phase, vocab_size):
    if not phase.data:
        raise UserError(f"{name}.data is empty: give the folder of prepared data, --{name}.data=DIR")
    data = open_data(phase.data)
    if data.length != phase.length:
        raise UserError(f"{name}.length is {phase.length}, but {data.path} was prepared at length {data.length}")
    if data.vocab_size != vocab_size:
        raise UserError(
            f"config.model.vocab_size is {vocab_size}, but the vocabulary of {data.path} has {data.vocab_size} "
            f"entries: give --config.model.vocab_size={data.vocab_size}"
        )
    for split in ("train", "validation"):
        if not data.size(split):
            raise UserError(f"{data.path} has no {split} examples; expected both train and validation")
    return data


def _check_sentence_label(data, head):
    """Refuses examples with another sentence label than the model's head learns, or with none for it."""
    columns = {field.name for field in data.layout.fields}
    found = next((name for name, column in SENTENCE_LABELS.items() if column in columns), "none")
    if found != head:
        label = SENTENCE_LABELS.get(found, "no sentence label")
        raise UserError(
            f"config.model.sentence_head is {head!r}, but the examples of {data.path} have {label}: "
            f"give --config.model.sentence_head={found}, or other data"
        )


def _check_masking_units(name, phase, tokenizer, vocabulary):
    for setting in ("masking", "eval_masking"):
        unit = getattr(phase, setting).unit
        if unit != "token" and vocabulary.word_starts is None:
            raise UserError(
                f"{name}.{setting}.unit is {unit!r}, but the pieces of the tokenizer {tokenizer} do not tell where a "
                f"word starts: expected unit 'token'"
            )


def fingerprint(data):
    """A digest of the examples of a data set, from those of its shards."""
    shards = [(shard.name, shard.sha256) for shard in data.shards]
    if isinstance(data, Mixture):
        shards.append(data.weights)
    return hashlib.sha256(json.dumps(shards).encode()).hexdigest()
