"""A second forward pass, in NumPy and float64, written against Hugging Face's names of weights and settings.

It shares neither the table of names nor the model with the rest of the package, so that a mistake in these shows as a
difference: `parity` compares an exported folder with it. Formulas: transformers, models/bert/modeling_bert.py; heads of
sentence-transformers: models/Pooling.py and Normalize.py.
"""

import json
from pathlib import Path

import numpy as np
from scipy.special import erf, softmax

ACTIVATIONS = {
    "gelu": lambda x: x * 0.5 * (1 + erf(x / np.sqrt(2))),
    "gelu_pytorch_tanh": lambda x: x * 0.5 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
    "relu": lambda x: np.maximum(x, 0),
}
OF_TOKENS = ("BertForTokenClassification", "BertForQuestionAnswering")
OF_TEXTS = ("BertForSequenceClassification", "BertForMultipleChoice")


def reference_outputs(folder, tensors, inputs):
    """What a folder's model computes, by name, as float64 arrays.

    folder: with config.json, and of an embedding with sentence-transformers' files. tensors: all its weights by name.
    inputs: input_ids and token_type_ids int [B, L], mask bool [B, L]. hidden [B, L, D]; pooled [B, D] where there is a
    pooler; mlm [B, L, V] and nsp [B, 2] of those classes; task: logits of texts [B, C] or of tokens [B, L, C], or the
    embedding [B, D].
    """
    config = json.loads((Path(folder) / "config.json").read_text())
    kind = config["architectures"][0]
    weights = _Weights(tensors, config)
    prefix = "" if kind == "BertModel" else "bert."
    hidden = weights.encode(prefix, inputs)
    outputs = {"hidden": hidden}
    if f"{prefix}pooler.dense.weight" in tensors:
        outputs["pooled"] = np.tanh(weights.linear(f"{prefix}pooler.dense", hidden[:, 0]))
    if kind in ("BertForMaskedLM", "BertForPreTraining"):
        outputs["mlm"] = weights.mlm(hidden)
    if kind == "BertForPreTraining":
        outputs["nsp"] = weights.linear("cls.seq_relationship", outputs["pooled"])
    if kind in OF_TEXTS:
        outputs["task"] = weights.linear("classifier", outputs["pooled"])
    elif kind in OF_TOKENS:
        outputs["task"] = weights.linear("qa_outputs" if kind == OF_TOKENS[1] else "classifier", hidden)
    elif (Path(folder) / "modules.json").is_file():
        outputs["task"] = _embedding(Path(folder), hidden, inputs["mask"])
    return outputs


class _Weights:
    """Tensors by name, taken as float64 where they are used."""

    def __init__(self, tensors, config):
        self.tensors, self.config = tensors, config
        self.activation = ACTIVATIONS[config["hidden_act"]]

    def __call__(self, name):
        return self.tensors[name].astype(np.float64)

    def linear(self, name, x):
        return x @ self(f"{name}.weight").T + self(f"{name}.bias")

    def norm(self, name, x):
        x = x - x.mean(-1, keepdims=True)
        x = x / np.sqrt((x**2).mean(-1, keepdims=True) + self.config["layer_norm_eps"])
        return x * self(f"{name}.weight") + self(f"{name}.bias")

    def encode(self, prefix, inputs):
        words, types = inputs["input_ids"], inputs["token_type_ids"]
        tables = f"{prefix}embeddings."
        x = self(f"{tables}word_embeddings.weight")[words] + self(f"{tables}token_type_embeddings.weight")[types]
        x = x + self(f"{tables}position_embeddings.weight")[: words.shape[1]]
        x = self.norm(f"{tables}LayerNorm", x)
        for n in range(self.config["num_hidden_layers"]):
            layer = f"{prefix}encoder.layer.{n}."
            mixed = self.attention(f"{layer}attention.self.", x, inputs["mask"])
            x = self.norm(
                f"{layer}attention.output.LayerNorm", x + self.linear(f"{layer}attention.output.dense", mixed)
            )
            wide = self.activation(self.linear(f"{layer}intermediate.dense", x))
            x = self.norm(f"{layer}output.LayerNorm", x + self.linear(f"{layer}output.dense", wide))
        return x

    def attention(self, name, x, mask):
        batch, length, width = x.shape
        size = width // self.config["num_attention_heads"]
        split = lambda part: self.linear(name + part, x).reshape(batch, length, -1, size).swapaxes(1, 2)  # noqa: E731
        query, key, value = split("query"), split("key"), split("value")
        scores = np.where(mask[:, None, None], query @ key.swapaxes(2, 3) / np.sqrt(size), -np.inf)
        return (softmax(scores, axis=-1) @ value).swapaxes(1, 2).reshape(x.shape)

    def mlm(self, hidden):
        x = self.activation(self.linear("cls.predictions.transform.dense", hidden))
        x = self.norm("cls.predictions.transform.LayerNorm", x)
        if not self.config["tie_word_embeddings"]:
            return self.linear("cls.predictions.decoder", x)
        return x @ self("bert.embeddings.word_embeddings.weight").T + self("cls.predictions.bias")


def _embedding(folder, hidden, mask):
    """The vector of each text [B, D], as the modules of a sentence-transformers folder say."""
    modules = [module["type"] for module in json.loads((folder / "modules.json").read_text())]
    mode = json.loads((folder / "1_Pooling" / "config.json").read_text())
    real = mask[:, :, None]
    if mode["pooling_mode_cls_token"]:
        vectors = hidden[:, 0]
    elif mode["pooling_mode_max_tokens"]:
        vectors = np.where(real, hidden, -np.inf).max(1)
    else:
        vectors = (hidden * real).sum(1) / real.sum(1)
    if any(kind.endswith("Normalize") for kind in modules):
        vectors = vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
    return vectors
