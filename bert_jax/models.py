"""What `--checkpoint=DIR_OR_HF_FOLDER` names: a model's architecture, parameters and tokenizer, whoever wrote them."""

import dataclasses
from pathlib import Path

import jax
import jax.numpy as jnp

from bert_jax import checkpoint
from bert_jax.config import from_mapping
from bert_jax.convert.google import is_google, read_google
from bert_jax.convert.huggingface import read_folder
from bert_jax.errors import UserError
from bert_jax.model.presets import EncoderConfig
from bert_jax.model.task_heads import HeadConfig
from bert_jax.text.tokenizer import Tokenizer, load_tokenizer


@dataclasses.dataclass(frozen=True)
class Model:
    """A model as it was found.

    params: embeddings and layers, and whichever of pooler, mlm, nsp and task there are; float32, padded rows included.
    head: what params["task"] predicts, or how texts are pooled (embed); None for an encoder alone.
    record: what was saved with it: of our checkpoints the config and the step, and the scores of a fine-tuned one;
    of others what became of the weights (`convert.names.Account`).
    """

    path: str
    config: EncoderConfig
    params: dict
    tokenizer: Tokenizer
    head: HeadConfig | None = None
    record: dict = dataclasses.field(default_factory=dict)


def load_model(path) -> Model:
    """The Model of a run of ours (its newest checkpoint) or of one of its checkpoints, of a Hugging Face
    or sentence-transformers folder, or of one of Google's.

    Raises UserError, naming the path, for anything else.
    """
    if "://" not in str(path):
        found = Path(path)
        if not found.exists() and not found.with_name(found.name + ".index").exists():
            raise UserError(f"--checkpoint {path}: no such folder")
        if is_google(found):
            return _foreign(path, read_google(found))
        if found.is_file() or ((found / "config.json").is_file() and not checkpoint.is_run(found)):
            return _foreign(path, read_folder(found))
    run, folder = checkpoint.resolve(path)
    record = checkpoint.read_record(folder)
    config = from_mapping(EncoderConfig, record["config"]["model"], "model")
    tokenizer = load_tokenizer(run / "tokenizer")
    return Model(str(path), config, checkpoint.restore_params(folder), tokenizer, saved_head(record), record)


def _foreign(path, read):
    config, params, head, tokenizer, account = read
    params = jax.tree.map(jnp.asarray, params)
    return Model(str(path), config, params, tokenizer, head, {"account": dataclasses.asdict(account)})


def saved_head(record):
    """The HeadConfig of a checkpoint's record; None where it has no task."""
    head = record.get("head")
    return head and HeadConfig(**head | {"labels": tuple(head["labels"])})
