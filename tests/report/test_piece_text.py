"""Token by token, the text of each kind of tokenizer: together it is what the tokenizer itself decodes."""

import io

import numpy as np
import pytest
import sentencepiece
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_jax.report.piece_text import texts_of_tokens
from bert_jax.text.byte_level import train_byte_level
from bert_jax.text.tokenizer import load_tokenizer


@pytest.fixture(scope="module")
def byte_level(tmp_path_factory):
    path = tmp_path_factory.mktemp("bytes") / "tokenizer.json"
    path.write_text(train_byte_level({"Ġcat": 50, "Ġsat": 40, "Ġthe": 90}, 270))
    return load_tokenizer(path)


@pytest.fixture(scope="module")
def sentence_piece(tmp_path_factory):
    """A SentencePiece model that falls back to bytes for characters without a piece."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["the cat sat on the mat", "a cat and a hat"] * 20), model_writer=model, vocab_size=300,
        byte_fallback=True, pad_id=0, unk_id=1, bos_id=-1, eos_id=-1, control_symbols=["[CLS]", "[SEP]", "[MASK]"],
        pad_piece="[PAD]", unk_piece="[UNK]", hard_vocab_limit=False, minloglevel=2,
    )  # fmt: skip
    path = tmp_path_factory.mktemp("pieces") / "spiece.model"
    path.write_bytes(model.getvalue())
    return load_tokenizer(path)


def ids_of(tokenizer, text):
    return tokenizer.encode([text])[0].astype(np.int32)


def test_wordpiece_words_are_whole_and_special_tokens_have_their_names(tmp_path):
    vocabulary = tmp_path / "vocab.txt"
    vocabulary.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "un", "##affable", "##", "##!"]))
    tokenizer = load_tokenizer(vocabulary)
    ids = np.array([2, 5, 6, 1, 5, 3, 0])
    assert texts_of_tokens(tokenizer, ids) == [" [CLS]", " un", "affable", " [UNK]", " un", " [SEP]", " [PAD]"]


@settings(deadline=None, max_examples=100)
@given(text=st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30))
def test_bytes_of_characters_come_together_again(byte_level, text):
    """The characters stand once, whatever bytes the pieces cut them into; hexadecimal parts are between ⟨ and ⟩."""
    ids = ids_of(byte_level, text)
    shown = texts_of_tokens(byte_level, ids)
    assert len(shown) == len(ids) and all(shown)
    pieces = byte_level.tokens(ids)
    whole = [text for text, piece in zip(shown, pieces, strict=True) if not (text[0] == "⟨" and text[-1] == "⟩")]
    if "⟨" not in text and "⟩" not in text:
        assert "".join(whole) == byte_level.decode(ids)


@pytest.mark.parametrize("name", ["byte_level", "sentence_piece"])
def test_a_character_of_several_tokens_stands_at_the_last(name, request):
    tokenizer = request.getfixturevalue(name)
    shown = texts_of_tokens(tokenizer, ids_of(tokenizer, "the 猫 sat"))
    place = shown.index("猫")
    assert shown[place - 2 : place] == ["⟨E7⟩", "⟨8C⟩"]
    assert "".join(text for text in shown if "⟨" not in text) == " the 猫 sat"


def test_bytes_cut_off_by_a_special_token_do_not_reach_the_text_after_it(byte_level):
    ids = ids_of(byte_level, "猫")
    shown = texts_of_tokens(byte_level, np.array([*ids[:-1], byte_level.sep_id, *ids_of(byte_level, "cat")]))
    assert shown[-2:] == [" [SEP]", " cat"]
