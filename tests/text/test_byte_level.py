"""Byte-level BPE: the merges of `tokenizers`, every text back from its ids, files that others load."""

import json
import os
import random
import subprocess
import sys
import unicodedata

import pytest
import tokenizers
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bert_jax.errors import UserError
from bert_jax.text.adversarial import ADVERSARIAL_SAMPLE
from bert_jax.text.byte_level import (
    SPECIAL_TOKENS,
    byte_level_splitter,
    byte_of_character,
    piece_text,
    train_byte_level,
)
from bert_jax.text.counts import count_words, split_words
from bert_jax.text.documents import find_files
from bert_jax.text.sampling import set_quotas
from bert_jax.text.tokenizer import load_tokenizer
from tests.text.conftest import made_up_sentences, rows


def train(folder, texts, size):
    (folder / "corpus.txt").write_text("\n".join(texts), encoding="utf-8")
    words = split_words(count_words(set_quotas(find_files([str(folder / "corpus.txt")]))), byte_level_splitter())
    (folder / "tokenizer.json").write_text(train_byte_level(words, size), encoding="utf-8")
    return load_tokenizer(folder / "tokenizer.json")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("byte_level")
    train(folder, [*made_up_sentences(500), "na\u00efve \u4e2d\u6587 \U0001f600 " * 20], 600)
    return folder


def merges_of_tokenizers(word_counts, size):
    """The vocabulary and merges of BpeTrainer, to which each word is shown as often as it occurs."""
    peer = tokenizers.Tokenizer(tokenizers.models.BPE())
    peer.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=size,
        min_frequency=2,
        show_progress=False,
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
    )
    peer.train_from_iterator((" ".join([word] * count) for word, count in word_counts.items()), trainer)
    model = json.loads(peer.to_str())["model"]
    return model["vocab"], model["merges"]


def assert_same_merges(word_counts, size):
    ours = json.loads(train_byte_level(word_counts, size + len(SPECIAL_TOKENS)))["model"]
    vocab, merges = merges_of_tokenizers(word_counts, size)
    special = set(SPECIAL_TOKENS)
    assert {piece: index for piece, index in ours["vocab"].items() if piece not in special} == vocab
    assert ours["merges"] == merges


def test_bytes_are_written_as_in_gpt2():
    assert set(byte_of_character()) == set(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    splitter = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    for text in ADVERSARIAL_SAMPLE:
        pieces = [piece for piece, _ in splitter.pre_tokenize_str(text)]
        assert piece_text("".join(pieces)) == text
    assert piece_text("\u00e2\u0122") == "" and piece_text("  ") == "  "  # half a character; an added token


@settings(max_examples=60, deadline=None)
@given(
    counts=st.dictionaries(st.text("ab\u0120", min_size=1, max_size=8), st.integers(1, 5), min_size=1, max_size=20),
    size=st.integers(256, 300),
)
@example(counts={"aaaaaaa": 2, "aaaa": 1, "baab": 3}, size=290)
def test_merges_are_those_of_tokenizers(counts, size):
    assert_same_merges(counts, size)


def test_merges_of_real_text_are_those_of_tokenizers(shared_data, tmp_path):
    text = (shared_data / "wikitext2" / "wikitext-2-raw-test.txt").read_text(encoding="utf-8")
    (tmp_path / "a.txt").write_text(text, encoding="utf-8")
    assert_same_merges(split_words(count_words(set_quotas(find_files([str(tmp_path)]))), byte_level_splitter()), 8000)


def test_neither_hash_seed_nor_order_of_words_change_it(tmp_path):
    code = (
        "import sys, random, hashlib; from bert_jax.text.byte_level import train_byte_level;"
        "draw = random.Random(5);"
        "words = {''.join(draw.choices('abcde', k=6)): draw.randrange(1, 4) for _ in range(900)};"
        "items = list(words.items()); random.Random(int(sys.argv[1])).shuffle(items);"
        "print(hashlib.sha256(train_byte_level(dict(items), 700).encode()).hexdigest())"
    )
    digests = set()
    for seed in ("1", "2", "3"):
        environment = os.environ | {"PYTHONHASHSEED": seed, "RAYON_NUM_THREADS": seed}
        done = subprocess.run([sys.executable, "-c", code, seed], capture_output=True, text=True, env=environment)
        assert done.returncode == 0, done.stderr
        digests.add(done.stdout)
    assert len(digests) == 1


def test_special_tokens_come_last_as_in_modernbert(folder):
    tokenizer = load_tokenizer(folder)
    assert tokenizer.size == 600
    found = tokenizer.unk_id, tokenizer.cls_id, tokenizer.sep_id, tokenizer.pad_id, tokenizer.mask_id
    assert found == (595, 596, 597, 598, 599) == tuple(tokenizer.special_ids)
    assert not tokenizer.lower_case and not tokenizer.is_fast and len(tokenizer.ordinary_ids) == 595
    ids = rows(tokenizer.encode(["[CLS] The [MASK] [UNK][PAD]", ""]))
    assert not set(ids[0]) & set(found) and ids[1] == []
    special = tokenizer.encode_special("The [MASK] .")
    before, after = special[: special.index(599)], special[special.index(599) + 1 :]
    assert tokenizer.decode(before) == "The" and tokenizer.decode(after) == " ."  # the mask took its space


@settings(max_examples=150, deadline=None)
@given(text=st.text(max_size=40))
@example(text="\x00\x85\u2028 \ufeff")
@example(text="e\u0301 [SEP] \U0001f468\u200d\U0001f469")
def test_every_text_comes_back(folder, text):
    tokenizer = load_tokenizer(folder)
    ids = tokenizer.encode([text])[0]
    composed = unicodedata.normalize("NFC", text)
    expected = composed if not text or text.startswith(" ") else " " + composed
    if unicodedata.is_normalized("NFC", text):  # `tokenizers` has Unicode tables of its own
        assert tokenizer.decode(ids) == expected
    assert tokenizer.unk_id not in ids


@pytest.mark.parity
def test_transformers_reads_it(folder, tmp_path):
    transformers = pytest.importorskip("transformers")
    tokenizer = load_tokenizer(folder)
    tokenizer.save(tmp_path / "saved")
    again = load_tokenizer(tmp_path / "saved")
    texts = [*made_up_sentences(50, seed=3), *(text for text in ADVERSARIAL_SAMPLE if "[" not in text)]
    ours = rows(again.encode(texts))
    assert ours == rows(tokenizer.encode(texts))
    for kind in (transformers.AutoTokenizer, transformers.PreTrainedTokenizerFast):
        peer = kind.from_pretrained(tmp_path / "saved")
        assert (peer.unk_token_id, peer.cls_token_id, peer.sep_token_id, peer.pad_token_id) == (595, 596, 597, 598)
        assert peer.mask_token_id == 599 and len(peer) == 600
        after_space = [text if not text or text.startswith(" ") else " " + text for text in texts]
        assert peer(after_space, add_special_tokens=False)["input_ids"] == ours
        assert peer("The [MASK]")["input_ids"] == [596, *tokenizer.encode_special("The [MASK]"), 597]
        assert peer.convert_ids_to_tokens(range(600)) == tokenizer.tokens(range(600))


def test_sizes_that_do_not_fit():
    with pytest.raises(UserError, match="vocabulary size 260 is too small: expected at least 261"):
        train_byte_level({"\u0120a": 2}, 260)
    assert len(json.loads(train_byte_level({"\u0120a": 2}, 261))["model"]["vocab"]) == 261
    assert len(json.loads(train_byte_level({"\u0120ab": 2, "c": 9}, 999))["model"]["vocab"]) == 263
    with pytest.raises(UserError, match="holds no words"):
        train_byte_level({}, 300)


def test_a_word_of_many_kilobytes(tmp_path):
    draw = random.Random(1)
    tokenizer = train(tmp_path, ["".join(draw.choices("abcd", k=300_000)), *made_up_sentences(50)], 400)
    assert tokenizer.size == 400
