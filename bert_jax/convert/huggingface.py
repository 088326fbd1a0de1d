"""Folders of transformers and sentence-transformers: what their config files say, in our settings and back."""

import dataclasses
import json
from pathlib import Path

from bert_jax.convert import names
from bert_jax.convert.weights import FILES, find_weights, read_weights
from bert_jax.errors import UserError
from bert_jax.model.presets import EncoderConfig
from bert_jax.model.task_heads import HeadConfig
from bert_jax.text.tokenizer import load_tokenizer

ARCHITECTURES = (
    *("BertModel", "BertForMaskedLM", "BertForPreTraining", "BertForSequenceClassification"),
    *("BertForTokenClassification", "BertForQuestionAnswering", "BertForMultipleChoice"),
)
ACTIVATIONS = {"gelu": "gelu", "gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "relu": "relu"}
FIELDS = {
    "vocab_size": "vocab_size",
    "hidden": "hidden_size",
    "layers": "num_hidden_layers",
    "heads": "num_attention_heads",
    "ffn": "intermediate_size",
    "max_positions": "max_position_embeddings",
    "segment_types": "type_vocab_size",
    "norm_eps": "layer_norm_eps",
    "dropout": "hidden_dropout_prob",
    "attention_dropout": "attention_probs_dropout_prob",
    "init_std": "initializer_range",
}
# Settings that change what a model computes in ways that ours does not know, and the value under which they do not.
FIXED = {"position_embedding_type": "absolute", "is_decoder": False, "add_cross_attention": False}
POOLING_MODES = {
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
}


def config_to_ours(settings, path="config.json"):
    """The EncoderConfig of a config.json's content; UserError for an architecture that we do not have, by its name."""
    kind = settings.get("model_type", "bert")
    foreign = [name for name in settings.get("architectures") or () if name not in ARCHITECTURES]
    if kind != "bert" or foreign:
        found = foreign[0] if foreign else f"model_type {kind!r}"
        raise UserError(f"{path}: {found} is not supported: expected one of {', '.join(ARCHITECTURES)}")
    for name, value in FIXED.items():
        if settings.get(name, value) != value:
            raise UserError(f"{path}: {name} is {settings[name]!r}: only {value!r} is supported")
    activation = settings.get("hidden_act", "gelu")  # what else is left out has our default, which is transformers' too
    if activation not in ACTIVATIONS:
        raise UserError(f"{path}: hidden_act {activation!r} is not supported: expected {', '.join(ACTIVATIONS)}")
    values = {ours: settings[theirs] for ours, theirs in FIELDS.items() if theirs in settings}
    return EncoderConfig(**values, activation=ACTIVATIONS[activation])


def config_to_theirs(config, params, head=None):
    """The content of config.json for these parameters; label words in the order of the logits."""
    settings = {
        "architectures": [names.architecture_of(params, head)],
        "model_type": "bert",
        "hidden_act": {"gelu": "gelu", "gelu_tanh": "gelu_pytorch_tanh", "relu": "relu"}[config.activation],
        "position_embedding_type": "absolute",
        "tie_word_embeddings": config.tied_decoder,
        "pad_token_id": 0,
    }
    settings |= {theirs: getattr(config, ours) for ours, theirs in FIELDS.items()}
    if head is not None and head.kind in ("classify", "regress", "tag"):
        labels = head.labels or ("LABEL_0",)
        settings["id2label"] = {str(index): label for index, label in enumerate(labels)}
        settings["label2id"] = {label: index for index, label in enumerate(labels)}
        settings["classifier_dropout"] = config.dropout
        if head.kind != "tag":
            settings["problem_type"] = "regression" if head.kind == "regress" else "single_label_classification"
    return settings


def head_of(settings, tensors, path="config.json"):
    """The HeadConfig of what config.json's class predicts; None for an encoder or the heads of pretraining."""
    classes = settings.get("architectures") or []
    kinds = {
        "BertForSequenceClassification": "classify",
        "BertForTokenClassification": "tag",
        "BertForQuestionAnswering": "answer",
        "BertForMultipleChoice": "choose",
    }
    kind = next((kinds[name] for name in classes if name in kinds), None)
    if kind is None or kind in ("answer", "choose"):
        return kind and HeadConfig(kind)
    problem = settings.get("problem_type")
    if problem == "multi_label_classification":
        raise UserError(f"{path}: problem_type {problem!r} is not supported: expected one label a text")
    outputs = len(tensors["classifier.bias"]) if "classifier.bias" in tensors else None
    words = settings.get("id2label") or {}
    labels = tuple(str(words[key]) for key in sorted(words, key=int))
    if kind == "classify" and (problem == "regression" or (problem is None and outputs == 1)):
        return HeadConfig("regress")
    if outputs is not None and len(labels) != outputs:
        labels = tuple(f"LABEL_{index}" for index in range(outputs))
    return HeadConfig(kind, labels)


def embedding_head(folder):
    """The HeadConfig of a sentence-transformers folder; None for another one. UserError for a module that we lack."""
    folder = Path(folder)
    modules = folder / "modules.json"
    if not modules.is_file():
        return None
    pooling, normalize, length = "mean", False, 0
    for module in read_json(modules):
        kind = module["type"].rsplit(".", 1)[-1]
        if kind == "Pooling":
            settings = read_json(folder / module["path"] / "config.json")
            # Newer versions write the mode as a word.
            modes = [name for name, value in settings.items() if name.startswith("pooling_mode_") and value]
            if not modes and "pooling_mode" in settings:
                word = settings["pooling_mode"]
                modes = [next((name for name, ours in POOLING_MODES.items() if ours == word), str(word))]
            if len(modes) != 1 or modes[0] not in POOLING_MODES:
                raise UserError(f"{folder}: pools by {', '.join(modes)}: expected one of {', '.join(POOLING_MODES)}")
            pooling = POOLING_MODES[modes[0]]
        elif kind == "Normalize":
            normalize = True
        elif kind != "Transformer":
            raise UserError(f"{modules}: the module {kind} is not supported: expected Transformer, Pooling, Normalize")
    if (folder / "sentence_bert_config.json").is_file():
        length = read_json(folder / "sentence_bert_config.json").get("max_seq_length") or 0
    return HeadConfig("embed", pooling=pooling, normalize=normalize, length=length)


def read_folder(path):
    """(config, params, head, tokenizer, Account) of a folder, or of a file of weights beside its config.json."""
    path = Path(path)
    folder, file = (path, None) if path.is_dir() else (path.parent, path)
    if file is not None and not file.name.endswith((".safetensors", ".bin", ".index.json")):
        raise UserError(f"{path}: is no folder and no file of weights: expected a folder, or one of {', '.join(FILES)}")
    if not (folder / "config.json").is_file():
        raise UserError(f"{folder}: has no config.json: expected a folder as transformers saves it")
    settings_path = folder / "config.json"
    settings = read_json(settings_path)
    config = config_to_ours(settings, settings_path)
    file = file or find_weights(folder)
    tensors = read_weights(file)
    config = _with_decoder(config, settings, tensors)
    head = embedding_head(folder) or head_of(settings, tensors, settings_path)
    try:
        params, account = names.to_ours(tensors, config, head)
    except UserError as error:
        raise UserError(f"{file}: {error}") from error
    return config, params, head, load_tokenizer(folder), account


def _with_decoder(config, settings, tensors):
    """The config, its decoder untied where the file says so and holds another table than the word embeddings."""
    if settings.get("tie_word_embeddings", True) or "cls.predictions.decoder.weight" not in tensors:
        return config
    words = tensors.get("bert.embeddings.word_embeddings.weight")
    decoder = tensors["cls.predictions.decoder.weight"]
    if words is not None and words.shape == decoder.shape and (words == decoder).all():
        return config
    return dataclasses.replace(config, tied_decoder=False)


def read_json(path):
    """The JSON object or list in a file; UserError where it is not that."""
    try:
        value = json.loads(Path(path).read_text())
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: is not readable as JSON ({error})") from error
    if not isinstance(value, (dict, list)):
        raise UserError(f"{path}: holds a JSON {type(value).__name__}: expected an object")
    return value
