"""Our parameters as the state dict of transformers' BertForPreTraining, for comparisons; padded rows are cut off."""

import numpy as np


def hf_config(config):
    from transformers import BertConfig

    return BertConfig(
        vocab_size=config.vocab_size,
        hidden_size=config.hidden,
        num_hidden_layers=config.layers,
        num_attention_heads=config.heads,
        intermediate_size=config.ffn,
        max_position_embeddings=config.max_positions,
        type_vocab_size=config.segment_types,
        hidden_act={"gelu": "gelu", "gelu_tanh": "gelu_pytorch_tanh", "relu": "relu"}[config.activation],
        layer_norm_eps=config.norm_eps,
        hidden_dropout_prob=config.dropout,
        attention_probs_dropout_prob=config.attention_dropout,
    )


def hf_state_dict(params, config):
    """State dict (torch tensors) with every weight of BertForPreTraining."""
    import torch

    hidden = config.hidden
    out = {}

    def linear(name, tree, shape):
        out[f"{name}.weight"] = np.asarray(tree["kernel"]).reshape(shape).T
        out[f"{name}.bias"] = np.asarray(tree["bias"]).reshape(-1)

    def norm(name, tree):
        out[f"{name}.weight"], out[f"{name}.bias"] = np.asarray(tree["scale"]), np.asarray(tree["bias"])

    embeddings = params["embeddings"]
    for name in ("word", "position", "token_type"):
        out[f"bert.embeddings.{name}_embeddings.weight"] = np.asarray(embeddings[name]["embedding"])
    words = out["bert.embeddings.word_embeddings.weight"][: config.vocab_size]
    out["bert.embeddings.word_embeddings.weight"] = words
    norm("bert.embeddings.LayerNorm", embeddings["norm"])
    for n in range(config.layers):
        layer = _layer(params["layers"], n)
        prefix = f"bert.encoder.layer.{n}"
        for part in ("query", "key", "value"):
            linear(f"{prefix}.attention.self.{part}", layer["attention"][part], (hidden, hidden))
        linear(f"{prefix}.attention.output.dense", layer["attention"]["out"], (hidden, hidden))
        norm(f"{prefix}.attention.output.LayerNorm", layer["attention"]["norm"])
        linear(f"{prefix}.intermediate.dense", layer["ffn"]["up"], (hidden, config.ffn))
        linear(f"{prefix}.output.dense", layer["ffn"]["down"], (config.ffn, hidden))
        norm(f"{prefix}.output.LayerNorm", layer["ffn"]["norm"])
    linear("bert.pooler.dense", params["pooler"]["dense"], (hidden, hidden))
    linear("cls.predictions.transform.dense", params["mlm"]["transform"], (hidden, hidden))
    norm("cls.predictions.transform.LayerNorm", params["mlm"]["norm"])
    out["cls.predictions.bias"] = out["cls.predictions.decoder.bias"] = np.asarray(params["mlm"]["bias"])[
        : config.vocab_size
    ]
    out["cls.predictions.decoder.weight"] = words
    linear("cls.seq_relationship", params["nsp"]["dense"], (hidden, 2))
    return {name: torch.tensor(np.ascontiguousarray(value)) for name, value in out.items()}


def _layer(tree, n):
    return {k: _layer(v, n) if isinstance(v, dict) else v[n] for k, v in tree.items()}
