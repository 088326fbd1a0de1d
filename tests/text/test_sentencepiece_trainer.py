"""SentencePiece models, ours and those of others: special tokens, joiners, the same file every time."""

import collections

import pytest
import sentencepiece

from bert_jax.errors import UserError
from bert_jax.text.sentencepiece_trainer import train_sentencepiece
from bert_jax.text.tokenizer import load_tokenizer
from tests.text.conftest import made_up_sentences

SINHALA = "\u0db4\u0dca\u200d\u0dbb\u0d9a\u0dcf\u0dc1\u0d9a"  # holds a zero-width joiner


@pytest.mark.parametrize("model_type", ["unigram", "bpe"])
def test_it_knows_the_special_tokens_and_no_text_spells_them(tmp_path, model_type):
    words = collections.Counter(" ".join(made_up_sentences(1000)).split())
    words.update({"[MASK]": 500, "[SEP]": 500})
    (tmp_path / "spiece.model").write_bytes(train_sentencepiece(words, 300, True, model_type))
    tokenizer = load_tokenizer(tmp_path)
    special = (tokenizer.pad_id, tokenizer.unk_id, tokenizer.cls_id, tokenizer.sep_id, tokenizer.mask_id)
    assert special == (0, 1, 2, 3, 4)
    ids, offsets = tokenizer.encode(["The [MASK] [SEP]", "", "The"])
    assert not set(ids.tolist()) & {0, 2, 3, 4} and offsets[1] == offsets[2]
    special = tokenizer.encode_special("The [MASK] .")
    assert special.count(tokenizer.mask_id) == 1
    assert tokenizer.tokens(special)[0].startswith("\u2581") and tokenizer.is_word_start[special[0]]
    assert 5 in tokenizer.ordinary_ids and not set(range(5)) & set(tokenizer.ordinary_ids.tolist())
    tokenizer.save(tmp_path / "saved")
    assert (load_tokenizer(tmp_path / "saved").encode(["The cat"])[0] == tokenizer.encode(["The cat"])[0]).all()
    with pytest.raises(UserError, match="can be set for BERT's only"):
        load_tokenizer(tmp_path, lower_case=True)


def test_sentencepiece_keeps_zero_width_joiners_when_cased(tmp_path):
    """sentencepiece#629: a normaliser that turns the joiner into a space breaks Sinhala words."""
    words = collections.Counter({SINHALA: 50, "the": 20, "cat": 9})
    (tmp_path / "cased.model").write_bytes(train_sentencepiece(words, 40, cased=True))
    tokenizer = load_tokenizer(tmp_path / "cased.model")
    assert tokenizer.decode(tokenizer.encode([SINHALA])[0]) == SINHALA
    assert not tokenizer.lower_case


@pytest.mark.parametrize("missing", ["[CLS]", "[SEP]", "[MASK]"])
def test_a_sentencepiece_model_of_others_without_a_special_token_is_refused(tmp_path, missing):
    special = [token for token in ("[CLS]", "[SEP]", "[MASK]") if token != missing]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(made_up_sentences(300)), model_prefix=str(tmp_path / "other"), vocab_size=120,
        minloglevel=2,
        user_defined_symbols=special, pad_id=0, unk_id=1, bos_id=-1, eos_id=-1,
    )  # fmt: skip
    with pytest.raises(UserError, match=r"other\.model: has no \[" + missing[1:-1]):
        load_tokenizer(tmp_path / "other.model")


def test_user_defined_special_symbols_of_others_are_not_matched_in_text(tmp_path):
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(made_up_sentences(300)), model_prefix=str(tmp_path / "other"), vocab_size=120,
        minloglevel=2,
        user_defined_symbols=["[CLS]", "[SEP]", "[MASK]"], pad_id=0, unk_id=1, bos_id=-1, eos_id=-1,
    )  # fmt: skip
    tokenizer = load_tokenizer(tmp_path / "other.model")
    assert not set(tokenizer.encode(["The [SEP] [MASK]"])[0].tolist()) & {tokenizer.sep_id, tokenizer.mask_id}
    assert tokenizer.encode_special("The [MASK]")[-1] == tokenizer.mask_id
