"""The task that a config names."""

import dataclasses

from bert_jax.config import unknown_key
from bert_jax.errors import UserError
from bert_jax.tasks import glue, ner, nli, ranking, squad, sts, swag, table
from bert_jax.tasks.task import TaskConfig

# name: the module whose `load(config, tokenizer, length, head=None)` makes the Task, and whose SETTINGS are the fields
# of the TaskConfig that it reads besides name and data
MODULES = {
    **dict.fromkeys(glue.NAMES, glue),
    **{"classify": table, "regress": table, "squad": squad, "ner": ner, "swag": swag},
    **{"sts": sts, "nli": nli, "ranking": ranking},
}

EMBEDDINGS = ("sts", "nli", "ranking")  # of which a model needs no head of its own


def load_task(config, tokenizer, length, head=None):
    """The Task of a TaskConfig, its texts cut to `length` tokens.

    head: the HeadConfig of a model that is tuned already: labels are then read in its order. Raises UserError for an
    unknown name, for a setting that the task does not read, and for whatever is wrong with the data.
    """
    if config.name not in MODULES:
        raise UserError(f"config.task.name {config.name!r}: {unknown_key(config.name, list(MODULES))}")
    if not (config.data or config.validation):
        raise UserError("config.task.data is empty: give --config.task.data=PATH")
    module = MODULES[config.name]
    for field in dataclasses.fields(TaskConfig):
        read = field.name in ("name", "data", *module.SETTINGS)
        if not read and getattr(config, field.name) != field.default:
            raise UserError(f"config.task.{field.name}: {config.name} does not read it: leave it out")
    return module.load(config, tokenizer, length, head)
