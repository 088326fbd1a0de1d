"""Tokenizers and sentence-transformers' files in an exported folder give what ours give."""

import json

import jax.numpy as jnp
import numpy as np
import pytest
import sentencepiece

from bert_jax.__main__ import run_verb
from bert_jax.convert.exporting import export_model
from bert_jax.convert.folder import save_tensors, save_tokenizer
from bert_jax.errors import UserError
from bert_jax.model.presets import ComputeConfig
from bert_jax.model.task_heads import task_outputs
from bert_jax.models import load_model
from bert_jax.tasks.features import encode_rows, make_batch
from bert_jax.text.backends import SentencePieceTokens
from bert_jax.text.tokenizer import load_tokenizer
from tests.convert.exported import TASKS, random_model
from tests.e2e.conftest import corpus

KINDS = ("wordpiece", "sentencepiece", "sentencepiece_bpe", "bytelevel_bpe")
TEXTS = ("A text.", " two  spaces ", "Naïve café, 北京 😀", "", "1,000.50 don't", "bada. koma\tlumi\nx")


@pytest.fixture(scope="module", params=KINDS)
def tokenizer(request, tmp_path_factory):
    out = tmp_path_factory.mktemp("vocabulary") / request.param
    run_verb("vocab", [f"--source={corpus()}", "--size=300", f"--kind={request.param}", f"--out={out}", "--workers=1"])
    return load_tokenizer(out)


@pytest.mark.parity
def test_transformers_makes_the_rows_that_we_make(tokenizer, tmp_path):
    transformers = pytest.importorskip("transformers")
    save_tokenizer(tmp_path, tokenizer, 40)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert"}))
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    texts = [*TEXTS, *corpus().read_text().splitlines()[:100]]
    for second in (None, texts[::-1]):
        features = encode_rows(tokenizer, texts, second, length=40)
        given = theirs(texts, second, truncation=True)
        for row, ids in enumerate(given["input_ids"]):
            ours = features.select([row])
            assert ours.ids.tolist() == ids, texts[row]
            assert (np.arange(len(ids)) >= ours.second[0]).astype(int).tolist() == given["token_type_ids"][row]
    assert theirs.model_max_length == 40
    for role in ("pad", "unk", "cls", "sep", "mask"):
        assert getattr(theirs, f"{role}_token_id") == getattr(tokenizer, f"{role}_id")
    assert tokenizer.mask_id in theirs(f"A {theirs.mask_token}.")["input_ids"]


def test_we_read_back_the_same_tokenizer(tokenizer, tmp_path):
    save_tokenizer(tmp_path, tokenizer, 40)
    back = load_tokenizer(tmp_path)
    texts = [*TEXTS, *corpus().read_text().splitlines()[:100]]
    for ours, theirs in zip(tokenizer.encode(texts), back.encode(texts), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(back.is_word_start, tokenizer.is_word_start)
    np.testing.assert_array_equal(back.special_ids, tokenizer.special_ids)
    if not isinstance(tokenizer.backend, SentencePieceTokens):  # whose table folds case without saying so
        assert back.lower_case == tokenizer.lower_case


def test_a_sentencepiece_model_of_another_kind_is_refused(tmp_path):
    sentencepiece.SentencePieceTrainer.train(
        input=str(corpus()), model_prefix=str(tmp_path / "word"), model_type="word", vocab_size=50,
        hard_vocab_limit=False, pad_id=0, unk_id=1, bos_id=2, eos_id=3, pad_piece="[PAD]", unk_piece="[UNK]",
        bos_piece="[CLS]", eos_piece="[SEP]", control_symbols="[MASK]", minloglevel=2,
    )  # fmt: skip
    with pytest.raises(UserError, match=r"word.model: is a SentencePiece model neither unigram nor BPE"):
        save_tokenizer(tmp_path / "out", load_tokenizer(tmp_path / "word.model"), 40)


def test_shards_hold_at_most_what_is_asked_for_and_a_larger_tensor_alone(tmp_path):
    tensors = {
        name: np.zeros(size, np.float32) for name, size in (("a", 10), ("b", 10), ("c", 99), ("d", 5), ("e", 15))
    }
    save_tensors(tmp_path, tensors, 80)
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text())
    shards = [f"model-0000{n}-of-00003.safetensors" for n in (1, 1, 2, 3, 3)]
    assert index["weight_map"] == dict(zip(tensors, shards, strict=True))
    assert index["metadata"]["total_size"] == 4 * 139
    assert sorted(path.name for path in tmp_path.glob("*.safetensors")) == sorted(set(shards))


@pytest.mark.parity
def test_sentence_transformers_gives_the_vectors_of_the_folder_that_came_in(tmp_path, minilm):
    sentence_transformers = pytest.importorskip("sentence_transformers")
    export_model(load_model(minilm), tmp_path / "out")
    theirs, ours = (
        sentence_transformers.SentenceTransformer(str(path), device="cpu") for path in (minilm, tmp_path / "out")
    )
    texts = ["A text.", "Ein Café, 北京!", "word " * 400]  # the last one is cut
    assert ours.max_seq_length == 256
    np.testing.assert_allclose(ours.encode(texts), theirs.encode(texts), atol=1e-5)


@pytest.mark.parity
@pytest.mark.parametrize("head", TASKS[-3:], ids=lambda head: head.pooling)
def test_sentence_transformers_pools_as_we_do(tmp_path, head):
    sentence_transformers = pytest.importorskip("sentence_transformers")
    model = random_model(head)
    export_model(model, tmp_path / "out")
    theirs = sentence_transformers.SentenceTransformer(str(tmp_path / "out"), device="cpu")
    texts = [*corpus().read_text().splitlines()[:3], "a " * 60]
    features = encode_rows(model.tokenizer, texts, length=head.length)
    width = int(features.lengths.max())
    batch = make_batch(features, range(4), size=4, pad_id=model.tokenizer.pad_id, width=width)
    batch = {name: jnp.asarray(array) for name, array in batch.items()}
    ours = task_outputs(model.params, model.config, ComputeConfig(), head, batch)
    np.testing.assert_allclose(theirs.encode(texts), ours, atol=1e-5)
    assert load_model(tmp_path / "out").head == head
