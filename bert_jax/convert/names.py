"""One table of parameter names, ours and Hugging Face's, that serves import and export.

Google's checkpoints go through the same table: google.py gives their weights Hugging Face's names.
"""

import dataclasses
import re

import jax
import numpy as np

from bert_jax.errors import UserError
from bert_jax.model import heads
from bert_jax.model.presets import ComputeConfig
from bert_jax.model.task_heads import init_head

# (ours, theirs). Ours: path in the nested dict; arrays below layers/ hold all layers along their first axis. Theirs:
# name without the prefix of the encoder; {n} is the layer. A kernel of ours is a weight of theirs transposed.
ENCODER = (
    ("embeddings/word/embedding", "embeddings.word_embeddings.weight"),
    ("embeddings/position/embedding", "embeddings.position_embeddings.weight"),
    ("embeddings/token_type/embedding", "embeddings.token_type_embeddings.weight"),
    ("embeddings/norm", "embeddings.LayerNorm"),
    ("layers/attention/query", "encoder.layer.{n}.attention.self.query"),
    ("layers/attention/key", "encoder.layer.{n}.attention.self.key"),
    ("layers/attention/value", "encoder.layer.{n}.attention.self.value"),
    ("layers/attention/out", "encoder.layer.{n}.attention.output.dense"),
    ("layers/attention/norm", "encoder.layer.{n}.attention.output.LayerNorm"),
    ("layers/ffn/up", "encoder.layer.{n}.intermediate.dense"),
    ("layers/ffn/down", "encoder.layer.{n}.output.dense"),
    ("layers/ffn/norm", "encoder.layer.{n}.output.LayerNorm"),
    ("pooler/dense", "pooler.dense"),
)
HEADS = (
    ("mlm/transform", "cls.predictions.transform.dense"),
    ("mlm/norm", "cls.predictions.transform.LayerNorm"),
    ("mlm/bias", "cls.predictions.bias"),
    ("mlm/decoder/embedding", "cls.predictions.decoder.weight"),
    ("nsp/dense", "cls.seq_relationship"),
)
# The class of transformers, and the name of its projection, by our kind of head.
TASK_CLASSES = {
    "classify": ("BertForSequenceClassification", "classifier"),
    "regress": ("BertForSequenceClassification", "classifier"),
    "tag": ("BertForTokenClassification", "classifier"),
    "choose": ("BertForMultipleChoice", "classifier"),
    "answer": ("BertForQuestionAnswering", "qa_outputs"),
}
PREFIX = "bert."
COMPUTE = ComputeConfig()
PARTS = {"kernel": "weight", "bias": "bias", "scale": "weight"}
# Left by optimizers and trainers in checkpoints, or computed anew: no weights of a model.
LEFTOVERS = re.compile(
    r"(.*[./])?(adam_[mv](_1)?|AdamWeightDecayOptimizer\w*|BERTAdam\w*|global_step|position_ids|token_type_ids"
    r"|beta[12]_power|good_steps|loss_scale)(:0)?"
)


@dataclasses.dataclass(frozen=True)
class Account:
    """What became of the weights of a file.

    taken: parts of ours that were found, such as embeddings and mlm. missing: parts that a class of that architecture
    has and the file has not. ignored: leftovers of training; unused: other names that nothing here reads.
    """

    taken: tuple[str, ...]
    missing: tuple[str, ...]
    ignored: tuple[str, ...]
    unused: tuple[str, ...]


def architecture_of(params, head):
    """The class of transformers that has these parts: its name for `architectures`."""
    if head is not None and head.kind != "embed":
        return TASK_CLASSES[head.kind][0]
    if "nsp" in params:
        return "BertForPreTraining"
    return "BertForMaskedLM" if "mlm" in params else "BertModel"


def _table(config, head, encoder_prefix):
    """(path of ours without the part, their name without the part, layer or None) of all that a model may have."""
    rows = [(ours, encoder_prefix + theirs) for ours, theirs in ENCODER] + list(HEADS)
    if head is not None and head.kind != "embed":
        rows.append(("task/dense", TASK_CLASSES[head.kind][1]))
    for ours, theirs in rows:
        if ours.startswith("layers/"):
            yield from ((ours, theirs.format(n=n), n) for n in range(config.layers))
        else:
            yield ours, theirs, None


def to_theirs(params, config, head=None):
    """All parameters by the names of `architecture_of(params, head)`: float32 arrays without padded rows.

    Of a tied decoder the table is written once, as the word embeddings; an untied one has a bias of its own besides.
    """
    prefix = "" if architecture_of(params, head) == "BertModel" else PREFIX
    tensors = {}
    for ours, theirs, layer in _table(config, head, prefix):
        for part, array in _parts_of(params, ours):
            name = f"{theirs}.{PARTS[part]}" if part else theirs
            array = np.asarray(array if layer is None else array[layer], np.float32)
            if re.fullmatch(heads.PADDED_ROWS, ours):
                array = array[: config.vocab_size]
            if part == "kernel":
                array = array.reshape(_inputs(ours, config), -1).T
            elif part:
                array = array.reshape(-1)
            tensors[name] = np.ascontiguousarray(array)
    if "cls.predictions.decoder.weight" in tensors:
        tensors["cls.predictions.decoder.bias"] = tensors["cls.predictions.bias"]
    return tensors


def _parts_of(params, path):
    """The arrays below a path as (name of the part, array), the path's own as ('', array); none where there is none."""
    node = params
    for key in path.split("/"):
        if key not in node:
            return []
        node = node[key]
    return list(node.items()) if isinstance(node, dict) else [("", node)]


def _inputs(path, config):
    """Numbers that a kernel takes in: theirs is [outputs, inputs], ours may have heads as an axis of either."""
    return config.ffn if path == "layers/ffn/down" else config.hidden


def to_ours(tensors, config, head=None):
    """(parameters, Account) of weights with Hugging Face's names; float32, padded rows of 0 added.

    Names may have the prefix `bert.` or none, and norms the old names gamma and beta. A part whose weights are missing
    is left out (pooler and heads); UserError for a missing weight of the encoder, one of another shape, and a part of
    which only some weights are there.
    """
    tensors = {_modern(name): array for name, array in tensors.items()}
    ignored = sorted(name for name in tensors if LEFTOVERS.fullmatch(name))
    for name in ignored:
        del tensors[name]
    _drop_copies(tensors, config)
    prefix = PREFIX if any(name.startswith(PREFIX) for name in tensors) else ""
    shapes, params, used, missing = _shapes(config, head), {}, set(), {}
    for ours, theirs, layer in _table(config, head, prefix):
        for part, leaf in _parts_of(shapes, ours):
            name = f"{theirs}.{PARTS[part]}" if part else theirs
            if name not in tensors:
                missing.setdefault(ours.split("/")[0], []).append(name)
                continue
            used.add(name)
            shape = leaf.shape if layer is None else leaf.shape[1:]
            array = _converted(tensors[name], name, ours, part, shape, config)
            _put(params, f"{ours}/{part}" if part else ours, layer, array)
    for part in ("embeddings", "layers"):
        if part in missing:
            raise UserError(f"the weight {missing[part][0]} is missing ({len(missing[part])} of the encoder's are)")
    for part, names in missing.items():
        if part in params:
            raise UserError(f"the weight {names[0]} is missing, but others of its head are there")
    params = {name: _stacked(part) for name, part in params.items()}
    taken = tuple(name for name in shapes if name in params)
    unused = tuple(sorted(set(tensors) - used))
    return params, Account(taken, tuple(missing), tuple(ignored), unused)


def _modern(name):
    return re.sub(r"LayerNorm\.(gamma|beta)$", lambda m: f"LayerNorm.{'weight' if m[1] == 'gamma' else 'bias'}", name)


def _drop_copies(tensors, config):
    """Removes what files hold twice: the decoder's bias, and its table where that is the word embeddings.

    Where the decoder is tied its bias is that of the head; where not, transformers computes with the decoder's own.
    """
    bias = tensors.pop("cls.predictions.decoder.bias", None)
    if bias is not None and not (config.tied_decoder and "cls.predictions.bias" in tensors):
        tensors["cls.predictions.bias"] = bias
    if config.tied_decoder:
        tensors.pop("cls.predictions.decoder.weight", None)


def _shapes(config, head):
    """All parts that a model of this config and head may have, without padded rows, as arrays that hold nothing."""
    whole = dataclasses.replace(config, vocab_multiple=1, sentence_head="nsp")

    def init():
        params = heads.init_params(whole, COMPUTE, jax.random.key(0))
        if head is not None and head.outputs:
            params["task"] = init_head(whole, COMPUTE, head.outputs, jax.random.key(0))
        return params

    return jax.eval_shape(init)


def _converted(array, name, ours, part, shape, config):
    """One weight of theirs in the shape of ours."""
    expected = shape
    if part == "kernel":
        inputs = _inputs(ours, config)
        expected = (int(np.prod(shape)) // inputs, inputs)
    elif part:
        expected = (int(np.prod(shape)),)
    if array.shape != tuple(expected):
        raise UserError(f"the weight {name} has shape {array.shape}: expected {tuple(expected)}")
    array = np.asarray(array, np.float32)
    array = (array.T if part == "kernel" else array).reshape(shape)
    if re.fullmatch(heads.PADDED_ROWS, ours):
        padding = config.padded_vocab_size - config.vocab_size
        array = np.pad(array, [(0, padding)] + [(0, 0)] * (array.ndim - 1))
    return np.ascontiguousarray(array)


def _put(params, path, layer, array):
    *folders, last = path.split("/")
    for folder in folders:
        params = params.setdefault(folder, {})
    if layer is None:
        params[last] = array
    else:
        params.setdefault(last, []).append(array)


def _stacked(part):
    if isinstance(part, dict):
        return {name: _stacked(inner) for name, inner in part.items()}
    return np.stack(part) if isinstance(part, list) else part
