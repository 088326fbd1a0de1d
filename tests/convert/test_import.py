"""Models of others, read here, give what transformers gives."""

import json
import pickle
import subprocess
import sys
import zipfile

import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.numpy

from bert_jax.__main__ import main
from bert_jax.checkpoint import restore_params
from bert_jax.convert import names
from bert_jax.convert.google import to_huggingface
from bert_jax.convert.huggingface import head_of
from bert_jax.errors import UserError
from bert_jax.model import encoder, heads
from bert_jax.model.presets import ComputeConfig
from bert_jax.models import load_model

COMPUTE = ComputeConfig()
CLASSES = (
    *("BertModel", "BertForMaskedLM", "BertForPreTraining", "BertForSequenceClassification"),
    *("BertForTokenClassification", "BertForQuestionAnswering", "BertForMultipleChoice"),
)


def inputs(vocab_size, batch=3, length=20):
    rng = np.random.default_rng(0)
    mask = np.arange(length) < rng.integers(length // 2, length + 1, batch)[:, None]
    ids = rng.integers(0, vocab_size, (batch, length)) * mask
    return {"input_ids": ids, "token_type_ids": ((np.arange(length) > 8) & mask).astype(int), "mask": mask}


def hidden_states(model, given):
    return encoder.encode(
        model.params, model.config, COMPUTE, *(jnp.asarray(given[n]) for n in ("input_ids", "token_type_ids", "mask"))
    )


def theirs(model, given):
    import torch

    tensors = {name: torch.tensor(given[name]) for name in ("input_ids", "token_type_ids")}
    with torch.no_grad():
        return model.eval()(**tensors, attention_mask=torch.tensor(given["mask"]).long(), output_hidden_states=True)


@pytest.fixture
def saved(tmp_path, minilm):
    """A function that saves a small random model of one of transformers' classes and returns it with its folder."""
    transformers = pytest.importorskip("transformers")

    def save(name="BertForPreTraining", **settings):
        shape = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 48}
        config = transformers.BertConfig(**shape, max_position_embeddings=40, initializer_range=0.2, **settings)
        model = getattr(transformers, name)(config)
        model.save_pretrained(tmp_path)
        (tmp_path / "vocab.txt").write_text((minilm / "vocab.txt").read_text())
        return model, tmp_path

    return save


def rewrite(folder, change):
    """Applies a function to the tensors of a folder, by name."""
    tensors = safetensors.numpy.load_file(folder / "model.safetensors")
    safetensors.numpy.save_file(change(tensors), folder / "model.safetensors", {"format": "pt"})


@pytest.mark.parity
@pytest.mark.parametrize("name", CLASSES)
def test_every_class_gives_the_hidden_states_of_transformers_and_goes_back_bit_for_bit(saved, name):
    reference, folder = saved(name)
    model, given = load_model(folder), inputs(30522)
    base = reference if name == "BertModel" else reference.bert
    np.testing.assert_allclose(
        hidden_states(model, given)[given["mask"]],
        theirs(base, given).last_hidden_state.numpy()[given["mask"]],
        atol=2e-5,
    )
    assert not model.record["account"]["unused"]
    written = names.to_theirs(model.params, model.config, model.head)
    for key, array in safetensors.numpy.load_file(folder / "model.safetensors").items():
        np.testing.assert_array_equal(written.pop(key), array)
    assert not written and names.architecture_of(model.params, model.head) == name


@pytest.mark.parity
@pytest.mark.parametrize("tied", [True, False])
def test_mlm_and_next_sentence_logits(saved, tied):
    """An untied decoder has a bias of its own, which counts; files hold that of the head, too."""
    torch = pytest.importorskip("torch")
    reference, folder = saved(tie_word_embeddings=tied)
    torch.nn.init.normal_(reference.cls.predictions.decoder.bias)
    reference.save_pretrained(folder)
    model, given = load_model(folder), inputs(30522)
    assert model.config.tied_decoder == tied
    expected, states = theirs(reference, given), hidden_states(model, given)
    logits = heads.mlm_logits(model.params, model.config, COMPUTE, states)[..., :30522]
    np.testing.assert_allclose(logits[given["mask"]], expected.prediction_logits.numpy()[given["mask"]], atol=1e-4)
    sentence = heads.sentence_logits(model.params, model.config, COMPUTE, states)
    np.testing.assert_allclose(sentence, expected.seq_relationship_logits.numpy(), atol=1e-4)


@pytest.mark.parity
def test_real_weights(minilm, cassette):
    """MiniLM's hidden states, and the MLM logits of a model whose norms have the old names gamma and beta (E2)."""
    transformers = pytest.importorskip("transformers")
    given = inputs(30522)
    states = hidden_states(load_model(minilm), given)
    expected = theirs(transformers.BertModel.from_pretrained(minilm), given).last_hidden_state
    np.testing.assert_allclose(states[given["mask"]], expected.numpy()[given["mask"]], atol=1e-5)
    model = load_model(cassette)
    logits = heads.mlm_logits(model.params, model.config, COMPUTE, hidden_states(model, given))[..., :30522]
    expected = theirs(transformers.BertForMaskedLM.from_pretrained(cassette), given).logits
    np.testing.assert_allclose(logits[given["mask"]], expected.numpy()[given["mask"]], atol=1e-4)


def test_the_head_of_a_sentence_transformers_folder(minilm):
    head = load_model(minilm).head
    assert (head.kind, head.pooling, head.normalize, head.length) == ("embed", "mean", True, 256)


@pytest.mark.parity
def test_old_names_leftovers_and_missing_parts_are_told(saved):
    """Cases E1 and E2; a missing pooler is left to be drawn, a missing weight of the encoder refused."""
    _, folder = saved("BertForPreTraining")

    def change(tensors):
        renamed = {
            n.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): t
            for n, t in tensors.items()
            if "pooler" not in n
        }
        extra = {"global_step": np.zeros(1), "bert.embeddings.word_embeddings.adam_m": np.zeros(1)}
        return renamed | extra | {"bert.embeddings.position_ids": np.zeros(1), "surprise": np.zeros(1)}

    rewrite(folder, change)
    account = load_model(folder).record["account"]
    assert account["missing"] == ("pooler",) and account["unused"] == ("surprise",)
    assert len(account["ignored"]) == 3
    rewrite(folder, lambda tensors: {n: t for n, t in tensors.items() if "layer.1.output.dense.weight" not in n})
    with pytest.raises(UserError, match=r"bert\.encoder\.layer\.1\.output\.dense\.weight is missing"):
        load_model(folder)


@pytest.mark.parity
def test_bin_files_are_read_without_torch_and_no_code_in_them_is_run(saved):
    torch = pytest.importorskip("torch")
    reference, folder = saved("BertForMaskedLM")
    expected = names.to_theirs(load_model(folder).params, load_model(folder).config)
    (folder / "model.safetensors").unlink()
    state = {name: tensor.bfloat16() for name, tensor in reference.state_dict().items()}
    torch.save(state | {"transposed": torch.arange(6).reshape(2, 3).T}, folder / "pytorch_model.bin")
    program = f"""
import sys
sys.modules['torch'] = sys.modules['transformers'] = None
from bert_jax.models import load_model
model = load_model({str(folder)!r})
assert model.record['account']['unused'] == ('transposed',), model.record
from bert_jax.convert.weights import read_weights
from pathlib import Path
assert read_weights(Path({str(folder)!r}) / 'pytorch_model.bin')['transposed'].tolist() == [[0, 3], [1, 4], [2, 5]]
"""
    subprocess.run([sys.executable, "-c", program], check=True)
    read = names.to_theirs(load_model(folder).params, load_model(folder).config)
    for name, array in expected.items():
        np.testing.assert_allclose(read[name], array, atol=4e-3 * max(1, np.abs(array).max()))


def test_a_pickle_that_asks_for_more_than_tensors_is_refused(tmp_path):
    class Attack:
        def __reduce__(self):
            return open, (str(tmp_path / "ran"), "w")

    (tmp_path / "config.json").write_text("{}")
    with zipfile.ZipFile(tmp_path / "pytorch_model.bin", "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps({"x": Attack()}))
    with pytest.raises(UserError, match=r"asks for .*open, which is no tensor"):
        load_model(tmp_path)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model_type": "roberta"}, "model_type 'roberta' is not supported: expected one of BertModel"),
        ({"architectures": ["ElectraModel"]}, "ElectraModel is not supported"),
        ({"position_embedding_type": "relative_key"}, "position_embedding_type is 'relative_key'"),
        ({"is_decoder": True}, "is_decoder is True"),
        ({"hidden_act": "swish"}, "hidden_act 'swish' is not supported"),
    ],
)
def test_what_we_cannot_compute_is_refused_by_name(tmp_path, settings, message):
    (tmp_path / "config.json").write_text(json.dumps(settings))
    with pytest.raises(UserError, match=message):
        load_model(tmp_path)


def test_label_words_keep_their_order():
    """Case F1: the order of the logits, not of the alphabet or of the file."""
    words = {"10": "k", "2": "c", "0": "a", "1": "b", **{str(n): f"w{n}" for n in range(3, 10)}}
    tensors = {"classifier.bias": np.zeros(11)}
    settings = {"architectures": ["BertForSequenceClassification"], "id2label": words}
    head = head_of(settings, tensors)
    assert head.labels[:3] == ("a", "b", "c") and head.labels[10] == "k"
    assert head_of(settings | {"problem_type": "regression"}, {}).kind == "regress"


def test_names_of_google():
    assert to_huggingface("bert/encoder/layer_3/attention/self/query/kernel") == (
        "bert.encoder.layer.3.attention.self.query.weight"
    )
    assert to_huggingface("bert/embeddings/word_embeddings") == "bert.embeddings.word_embeddings.weight"
    assert to_huggingface("cls/seq_relationship/output_weights") == "cls.seq_relationship.weight"


def test_the_verb_writes_a_checkpoint_of_ours_once(minilm, tmp_path, capsys):
    out = tmp_path / "imported"
    assert main(["import", f"--checkpoint={minilm}", f"--out={out}"]) == 0
    assert "taken: embeddings, layers, pooler" in capsys.readouterr().out
    ours, read = load_model(out), load_model(minilm)
    assert (ours.config, ours.head) == (read.config, read.head)
    np.testing.assert_array_equal(
        restore_params(out / "checkpoints" / "0")["embeddings"]["word"]["embedding"],
        read.params["embeddings"]["word"]["embedding"],
    )
    assert main(["predict", "--task=fill-mask", f"--checkpoint={out}", "A [MASK]."]) == 2
    assert "has no MLM head, which fill-mask needs: it holds" in capsys.readouterr().err
    assert main(["import", f"--checkpoint={minilm}", f"--out={out}"]) == 2
    assert "exists and is not empty" in capsys.readouterr().err
    assert main(["import", f"--checkpoint={out}", f"--out={tmp_path / 'again'}"]) == 2
    assert main(["import", f"--checkpoint={tmp_path / 'none'}", f"--out={tmp_path / 'again'}"]) == 2
    assert not (tmp_path / "again").exists()
