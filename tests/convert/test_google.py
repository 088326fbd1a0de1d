"""Google's TensorFlow 1 checkpoints, against transformers on the same weights; the one with TensorFlow is nightly."""

import json
import re
import sys

import numpy as np
import pytest

from bert_jax.errors import UserError
from bert_jax.model import heads
from bert_jax.models import load_model
from tests.convert.test_import import COMPUTE, hidden_states, inputs, theirs

SETTINGS = {
    **{"vocab_size": 30522, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4},
    **{"intermediate_size": 48, "max_position_embeddings": 40, "type_vocab_size": 2, "initializer_range": 0.2},
    **{"hidden_act": "gelu", "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1},
}


def google_name(name):
    """transformers' name as that of google-research/bert."""
    name = name.replace("cls.seq_relationship.weight", "cls/seq_relationship/output_weights")
    name = name.replace("cls.seq_relationship.bias", "cls/seq_relationship/output_bias")
    name = name.replace("cls.predictions.bias", "cls/predictions/output_bias")
    name = re.sub(r"LayerNorm\.weight$", "LayerNorm/gamma", name)
    name = re.sub(r"LayerNorm\.bias$", "LayerNorm/beta", name)
    name = re.sub(r"_embeddings\.weight$", "_embeddings", name)
    name = re.sub(r"\.weight$", "/kernel", name)
    return re.sub(r"layer\.(\d+)\.", r"layer_\1/", name).replace(".", "/")


def test_without_tensorflow_one_line_says_what_to_install(tmp_path, minilm, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow", None)
    (tmp_path / "bert_config.json").write_text(json.dumps(SETTINGS))
    with pytest.raises(UserError, match="has 0 checkpoints"):
        load_model(tmp_path)
    (tmp_path / "bert_model.ckpt.index").write_bytes(b"")
    with pytest.raises(UserError, match=r"needs TensorFlow: pip install 'bert-jax\[tf\]'"):
        load_model(tmp_path)


@pytest.mark.parity
@pytest.mark.nightly
def test_logits_are_those_of_transformers(tmp_path, minilm):
    transformers = pytest.importorskip("transformers")
    tf = pytest.importorskip("tensorflow")
    reference = transformers.BertForPreTraining(
        transformers.BertConfig(**SETTINGS | {"hidden_act": "gelu_pytorch_tanh"})
    )
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        state = {n: t.numpy() for n, t in reference.state_dict().items() if "decoder" not in n and "_ids" not in n}
        for name, array in state.items():
            name = google_name(name)
            tf.compat.v1.get_variable(name, initializer=array.T if name.endswith("kernel") else array)
        tf.compat.v1.get_variable("global_step", initializer=7)
        tf.compat.v1.get_variable("bert/pooler/dense/kernel/adam_m", initializer=np.zeros(3))
        session.run(tf.compat.v1.global_variables_initializer())
        tf.compat.v1.train.Saver().save(session, str(tmp_path / "bert_model.ckpt"))
    (tmp_path / "bert_config.json").write_text(json.dumps(SETTINGS))
    (tmp_path / "vocab.txt").write_text((minilm / "vocab.txt").read_text())
    model, given = load_model(tmp_path), inputs(30522)
    assert not model.record["account"]["unused"] and len(model.record["account"]["ignored"]) == 2
    expected, states = theirs(reference, given), hidden_states(model, given)
    logits = heads.mlm_logits(model.params, model.config, COMPUTE, states)[..., :30522]
    np.testing.assert_allclose(logits[given["mask"]], expected.prediction_logits.numpy()[given["mask"]], atol=1e-4)
    sentence = heads.sentence_logits(model.params, model.config, COMPUTE, states)
    np.testing.assert_allclose(sentence, expected.seq_relationship_logits.numpy(), atol=1e-4)
