"""The task that a config names."""

from bert_jax.config import unknown_key
from bert_jax.errors import UserError
from bert_jax.tasks import glue, table

# name: the module whose `load(config, tokenizer, length, head=None)` makes the Task
MODULES = {**dict.fromkeys(glue.NAMES, glue), "classify": table, "regress": table}


def load_task(config, tokenizer, length, head=None):
    """The Task of a TaskConfig, its texts cut to `length` tokens.

    head: the HeadConfig of a model that is tuned already: labels are then read in its order. Raises UserError for an
    unknown name and for whatever is wrong with the data.
    """
    if config.name not in MODULES:
        raise UserError(f"config.task.name {config.name!r}: {unknown_key(config.name, list(MODULES))}")
    if not (config.data or config.validation):
        raise UserError("config.task.data is empty: give --config.task.data=PATH")
    return MODULES[config.name].load(config, tokenizer, length, head)
