"""What the files in configs/ share: the defaults as a ConfigDict, phases by length, and the `debug` form."""

from ml_collections import ConfigDict

from bert_jax.config import PhaseConfig, PretrainConfig, to_config_dict
from bert_jax.data.masking import DEFAULT_RATE, MaskingConfig, max_predictions_for
from bert_jax.errors import UserError
from bert_jax.model.presets import PRESETS
from bert_jax.tasks.config import FinetuneConfig


def recipe(size):
    """All settings as a ConfigDict: BERT of that size with google-research/bert's optimizer and schedule."""
    config = to_config_dict(PretrainConfig())
    config.model = to_config_dict(PRESETS[size])
    return config


def set_phases(config, *phases):
    """Sets the phases (ConfigDicts made by `phase`); the schedule spans them all, also after an override of steps."""
    config.phases = ConfigDict({f"phase{n}": phase for n, phase in enumerate(phases, 1)})
    config.schedule.total_steps = sum(phase.get_ref("steps") for phase in phases[1:]) + phases[0].get_ref("steps")


def phase(data, length, batch_size, steps, rate=DEFAULT_RATE):
    """A phase of so many updates on batches of `batch_size` rows of `length` tokens, `rate` of them masked.

    Held-out text is masked at the paper's rate, whatever the training rate, so that losses compare.
    """
    masking = MaskingConfig(max_predictions=max_predictions_for(length, rate), rate=rate)
    eval_masking = MaskingConfig(max_predictions=max_predictions_for(length))
    settings = PhaseConfig(data, length, batch_size, steps, masking=masking, eval_masking=eval_masking)
    return to_config_dict(settings)


def wikibooks(length, arg):
    """What `bert-jax prepare` is to make of Wikipedia and books, 2.5 : 0.8 by words: the paper's pairs, ten times over.

    With `debug` as the argument twice.
    """
    if arg not in ("", "debug"):
        raise UserError(f"config argument {arg!r}: expected debug or nothing")
    sources = ("tfds:wikipedia/20230601.en,weight=2.5", "tfds:pg19,weight=0.8")
    return ConfigDict({"sources": sources, "kind": "pairs", "length": length, "passes": 2 if arg == "debug" else 10})


def finish(config, arg):
    """The recipe, or with `debug` as the argument the same recipe in small: every part of it runs in seconds."""
    if arg not in ("", "debug"):
        raise UserError(f"config argument {arg!r}: expected debug or nothing")
    if arg == "debug":
        config.model.update(hidden=32, ffn=64, heads=2, layers=2)
        for small in config.phases.values():
            small.update(batch_size=8, steps=3)
        config.schedule.warmup_steps = 2
        config.update(log_every=1, eval_every=2, checkpoint_every=2, eval_batch_size=8, eval_examples=16)
        config.compute.dtype = "float32"
    return config


def finetuning(arg, name="", **settings):
    """The settings of fine-tuning as a ConfigDict, for the task `name`, or the one that `arg` names.

    With `debug` in `arg` (alone or after a comma) the same in small: a few steps on a few short examples.
    """
    parts = [part for part in arg.split(",") if part]
    debug = "debug" in parts
    rest = [part for part in parts if part != "debug"]
    if (rest and name) or len(rest) > 1:
        raise UserError(f"config argument {arg!r}: expected {'debug or nothing' if name else 'a task, then ,debug'}")
    config = to_config_dict(FinetuneConfig())
    config.update(settings)
    config.task.name = name or "".join(rest)
    if debug:
        config.update(length=64, batch_size=8, eval_batch_size=8, epochs=1, train_examples=24, log_every=1)
        config.compute.dtype = "float32"
    return config
