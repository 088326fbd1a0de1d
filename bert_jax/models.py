"""What `--checkpoint=DIR_OR_HF_FOLDER` names: a model's architecture, parameters and tokenizer, whoever wrote them."""

import dataclasses

from bert_jax.model.presets import EncoderConfig
from bert_jax.model.task_heads import HeadConfig
from bert_jax.text.tokenizer import Tokenizer


@dataclasses.dataclass(frozen=True)
class Model:
    """A model as it was found.

    params: embeddings and layers, and whichever of pooler, mlm, nsp and task there are; float32, padded rows included.
    head: what params["task"] predicts, or how texts are pooled (embed); None for an encoder alone.
    record: what was saved with it: of our checkpoints the config and the step, and the metrics of a fine-tuned one;
    of others where it came from.
    """

    path: str
    config: EncoderConfig
    params: dict
    tokenizer: Tokenizer
    head: HeadConfig | None = None
    record: dict = dataclasses.field(default_factory=dict)
