"""Tokenizer files: what loading makes of each kind, every wrong kind, and saving."""

import pytest
import tokenizers

from bert_jax.errors import UserError
from bert_jax.text.adversarial import ADVERSARIAL_SAMPLE
from bert_jax.text.tokenizer import load_tokenizer
from bert_jax.text.wordpiece import build_wordpiece
from tests.text.conftest import SPECIAL, TOKENS, expected_ids, rows


def test_case_is_told_by_the_vocabulary(tmp_path, vocabulary):
    assert load_tokenizer(vocabulary).lower_case
    assert not load_tokenizer(vocabulary, lower_case=False).lower_case
    cased = tmp_path / "cased.txt"
    cased.write_text("".join(token + "\n" for token in [*TOKENS, "Paris"]))
    tokenizer = load_tokenizer(cased)
    assert not tokenizer.lower_case
    assert tokenizer.tokens(tokenizer.encode(["Paris T"])[0]) == ["Paris", "[UNK]"]


@pytest.mark.parametrize("missing", SPECIAL)
def test_a_missing_special_token_is_named_at_load(tmp_path, missing):
    path = tmp_path / "vocab.txt"
    path.write_text("".join(token + "\n" for token in TOKENS if token != missing))
    with pytest.raises(UserError, match=r"vocab\.txt: has no \[" + missing[1:-1] + r"\]"):
        load_tokenizer(path)


def test_the_wrong_kind_of_file_is_told(tmp_path):
    scored = "<unk>\t0\n<s>\t0\n</s>\t0\n\u2581the\t-3.2\n\u2581of\t-3.61\n"
    vocabulary = "".join(token + "\n" for token in TOKENS)
    cases = {
        "spiece.vocab": (scored.encode(), r"is a SentencePiece \.vocab .*expected its \.model, or a vocab\.txt"),
        "empty.txt": (b"", r"is empty: expected a vocab\.txt"),
        "binary.txt": (b"\x80\x04\x95\xff", r"is binary or not UTF-8"),
        "zeros.txt": (b"\0\0\0\0", "is a binary file"),
        "twice.txt": (vocabulary.encode() + b"cat\n", rf"token 'cat' stands on lines {TOKENS.index('cat') + 1} and"),
        "hole.txt": (b"[PAD]\n\n[UNK]\n", "line 2 is empty"),
        "no.json": (b"{", "is not JSON"),
        "other.json": (b'{"a": 1}', r"is no tokenizer\.json"),
        "text.model": (vocabulary.encode(), "is no SentencePiece model"),
        "none.model": (b"", r"is empty: expected a SentencePiece \.model"),
    }
    for name, (content, message) in cases.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(UserError, match=message) as caught:
            load_tokenizer(tmp_path / name)
        assert name in str(caught.value) and "\n" not in str(caught.value)
    (tmp_path / "folder").mkdir()
    with pytest.raises(UserError, match="is a folder without a tokenizer: expected"):
        load_tokenizer(tmp_path / "folder")
    with pytest.raises(UserError, match="no such tokenizer"):
        load_tokenizer(tmp_path / "missing.txt")


def test_windows_line_ends_and_odd_tokens(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_bytes("".join(token + "\r\n" for token in [*SPECIAL, "\u2028", "\x85", "cat"]).encode())
    assert load_tokenizer(path).size == 8


@pytest.mark.parametrize("lower_case, strip_accents", [(True, None), (True, False), (False, None)])
def test_saved_is_the_same_and_never_overwrites(tmp_path, vocabulary, lower_case, strip_accents):
    tokenizer = load_tokenizer(vocabulary, lower_case=lower_case, strip_accents=strip_accents)
    folder = tmp_path / "saved"
    tokenizer.save(folder)
    again = load_tokenizer(folder)
    assert again.lower_case == lower_case
    assert rows(again.encode(ADVERSARIAL_SAMPLE)) == rows(tokenizer.encode(ADVERSARIAL_SAMPLE))
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert set(before) == {"vocab.txt", "tokenizer.json", "tokenizer_config.json"}
    again.save(folder)
    with pytest.raises(UserError, match="exists and holds something else"):
        load_tokenizer(vocabulary, lower_case=not lower_case).save(folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    other = tmp_path / "other"
    other.mkdir()
    (other / "vocab.txt").write_text("mine\n")
    with pytest.raises(UserError, match=r"vocab\.txt: exists"):
        tokenizer.save(other)
    assert [path.name for path in other.iterdir()] == ["vocab.txt"]  # not half of ours beside it
    with pytest.raises(UserError, match="cannot be written"):
        tokenizer.save(other / "vocab.txt" / "below")
    (folder / "tokenizer.json").unlink()  # a folder in the older layout says the same
    assert rows(load_tokenizer(folder).encode(ADVERSARIAL_SAMPLE)) == rows(tokenizer.encode(ADVERSARIAL_SAMPLE))


def test_tokenizer_json_with_padding_and_truncation(tmp_path, vocabulary):
    """Published files carry both: they would cut and fill the corpus."""
    peer = build_wordpiece(TOKENS, True, None, "peer")
    peer.enable_truncation(4)
    peer.enable_padding(length=4)
    peer.save(str(tmp_path / "tokenizer.json"))
    tokenizer = load_tokenizer(tmp_path / "tokenizer.json")
    assert rows(tokenizer.encode(["the cat sat"])) == expected_ids(TOKENS, ["the cat sat"], True)
    assert len(rows(tokenizer.encode(["the cat sat " * 9]))[0]) == 27
    assert not load_tokenizer(tmp_path / "tokenizer.json", lower_case=False).lower_case


def test_a_byte_level_tokenizer_json(tmp_path):
    """RoBERTa's kind: other names for the special tokens, no normalizer to change."""
    peer = tokenizers.Tokenizer(tokenizers.models.BPE())
    peer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    peer.decoder = tokenizers.decoders.ByteLevel()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=300, special_tokens=special, initial_alphabet=alphabet)
    peer.train_from_iterator(["the cat sat on the mat " * 20], trainer)
    peer.save(str(tmp_path / "tokenizer.json"))
    tokenizer = load_tokenizer(tmp_path)
    assert (tokenizer.cls_id, tokenizer.pad_id, tokenizer.sep_id, tokenizer.unk_id, tokenizer.mask_id) == (
        0,
        1,
        2,
        3,
        4,
    )
    text = "the cat \u4e2d</s> \U0001f600"
    assert tokenizer.decode(tokenizer.encode([text])[0]) == " " + text  # texts continue after a space
    assert not set(tokenizer.encode([text])[0].tolist()) & set(range(5))
    assert tokenizer.is_word_start[tokenizer.encode([" cat"])[0][0]]
    assert not tokenizer.is_fast
    with pytest.raises(UserError, match=r"can be set for BERT's only"):
        load_tokenizer(tmp_path, lower_case=True)
    with pytest.raises(UserError, match="the fast path is for WordPiece"):
        load_tokenizer(tmp_path, fast=True)
