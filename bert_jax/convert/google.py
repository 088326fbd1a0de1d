"""Google's original checkpoints: bert_config.json and the three files of a TensorFlow 1 checkpoint.

Their weights get Hugging Face's names here, so that names.py's table serves them too. Source of the names and shapes:
google-research/bert, modeling.py and run_pretraining.py.
"""

import re
from pathlib import Path

import numpy as np

from bert_jax.convert import names
from bert_jax.convert.huggingface import config_to_ours, read_json
from bert_jax.errors import UserError
from bert_jax.text.tokenizer import load_tokenizer

CONFIG = "bert_config.json"
INDEX = ".index"


def is_google(path):
    """Whether the folder, or the prefix of a checkpoint's files, is one of Google's."""
    path = Path(path)
    return (path if path.is_dir() else path.parent).joinpath(CONFIG).is_file()


def read_google(path):
    """(config, params, head, tokenizer, Account) of a folder with bert_config.json, or of a checkpoint's prefix in it.

    Needs TensorFlow (extra [tf]). UserError where it is not installed, or the folder holds no checkpoint, or several.
    """
    path = Path(path)
    folder, prefix = (path, None) if path.is_dir() else (path.parent, path)
    settings = read_json(folder / CONFIG)
    # Google's "gelu" is the tanh form; Hugging Face's, whose names the table has, is the exact one.
    if settings.get("hidden_act") == "gelu":
        settings["hidden_act"] = "gelu_new"
    config = config_to_ours(settings, folder / CONFIG)
    prefix = prefix or _prefix_in(folder)
    try:
        params, account = names.to_ours(_read(prefix), config)
    except UserError as error:
        raise UserError(f"{prefix}: {error}") from error
    return config, params, None, load_tokenizer(folder), account


def _prefix_in(folder):
    found = sorted(folder.glob("*.ckpt*" + INDEX)) or sorted(folder.glob("*" + INDEX))
    if len(found) != 1:
        raise UserError(f"{folder}: has {len(found)} checkpoints (*.index): expected one, or the path of the one meant")
    return found[0].with_name(found[0].name.removesuffix(INDEX))


def _read(prefix):
    try:
        import tensorflow as tf
    except ImportError as error:
        raise UserError(
            f"{prefix}: reading TensorFlow's checkpoints needs TensorFlow: pip install 'bert-jax[tf]'"
        ) from error
    try:
        reader = tf.train.load_checkpoint(str(prefix))
        shapes = reader.get_variable_to_shape_map()
    except (tf.errors.OpError, ValueError, RuntimeError) as error:
        raise UserError(f"{prefix}: is no readable TensorFlow checkpoint ({' '.join(str(error).split())})") from error
    tensors = {}
    for name in shapes:
        if names.LEFTOVERS.fullmatch(name):
            tensors[name] = np.zeros(0)  # told, and not read: moments are twice the size of the weights
            continue
        array = reader.get_tensor(name)
        tensors[to_huggingface(name)] = array.T if name.endswith("kernel") else array
    return tensors


def to_huggingface(name):
    """A variable's name as Hugging Face's: bert/encoder/layer_0/.../kernel -> bert.encoder.layer.0....weight."""
    name = re.sub(r"/layer_(\d+)/", r"/layer.\1/", name).replace("/", ".")
    # The head of next sentences has its weights [2, D], as a weight of Hugging Face's and unlike any kernel.
    name = name.replace("cls.seq_relationship.output_weights", "cls.seq_relationship.weight")
    name = name.replace("cls.seq_relationship.output_bias", "cls.seq_relationship.bias")
    name = name.replace("cls.predictions.output_bias", "cls.predictions.bias")
    name = re.sub(r"\.kernel$", ".weight", name)
    return re.sub(r"(embeddings)$", r"\1.weight", name)
