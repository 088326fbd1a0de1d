"""Small random models to export, and transformers' view of what came out."""

import contextlib
import dataclasses
import io
import json
import logging
import warnings

import jax

from bert_jax.model.presets import ComputeConfig
from bert_jax.model.task_heads import HeadConfig, init_head
from bert_jax.models import Model
from bert_jax.text.tokenizer import load_tokenizer
from tests.e2e.conftest import vocab_size, vocabulary
from tests.model.test_encoder import CONFIG, perturbed_params

TASKS = (
    HeadConfig("classify", ("zebra", "ape", "Café")),
    HeadConfig("regress"),
    HeadConfig("tag", ("O", "B-x")),
    HeadConfig("answer"),
    HeadConfig("choose"),
    *(
        HeadConfig("embed", pooling=pooling, normalize=pooling == "mean", length=30)
        for pooling in ("mean", "cls", "max")
    ),
)


def random_model(head=None, without=(), **settings):
    """A Model with the vocabulary of the tests' corpus and all heads but those in `without`; padded rows are not 0."""
    config = dataclasses.replace(CONFIG, vocab_size=vocab_size(), **settings)
    params = {name: part for name, part in perturbed_params(config).items() if name not in without}
    if head is not None and head.outputs:
        params["task"] = jax.tree.map(
            lambda leaf: leaf + 0.3, init_head(config, ComputeConfig(), head.outputs, jax.random.key(3))
        )
    return Model("random", config, params, load_tokenizer(vocabulary()), head)


def loaded_without_remarks(folder):
    """The model of the class that config.json names; fails where transformers says, warns or logs anything."""
    import transformers

    kind = json.loads((folder / "config.json").read_text())["architectures"][0]
    told = io.StringIO()
    handler = logging.StreamHandler(told)
    transformers.utils.logging.get_logger("transformers").addHandler(handler)
    transformers.utils.logging.disable_progress_bar()
    try:
        with warnings.catch_warnings(), contextlib.redirect_stderr(told), contextlib.redirect_stdout(told):
            warnings.simplefilter("error")
            model, info = getattr(transformers, kind).from_pretrained(folder, output_loading_info=True)
            transformers.AutoTokenizer.from_pretrained(folder)
    finally:
        transformers.utils.logging.get_logger("transformers").removeHandler(handler)
        transformers.utils.logging.enable_progress_bar()
    assert not any(info.values()), info
    assert not told.getvalue(), told.getvalue()
    return model
