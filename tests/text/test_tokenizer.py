"""The tokenizer: ids, special tokens, the fast path, time."""

import functools
import json
import pickle
import subprocess
import sys
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_jax.errors import UserError
from bert_jax.text import backends
from bert_jax.text.adversarial import ADVERSARIAL_SAMPLE
from bert_jax.text.tokenizer import load_tokenizer
from tests.text.conftest import SPECIAL, TOKENS, expected_ids, rows


@pytest.fixture(params=["fast", "exact"])
def tokenizer(request, vocabulary):
    if request.param == "fast":
        pytest.importorskip("nanotoken")
    return load_tokenizer(vocabulary, fast=request.param == "fast")


@functools.cache
def shared_tokenizer(folder, fast):
    path = folder / "shared_vocab.txt"
    path.write_text("".join(token + "\n" for token in TOKENS))
    return load_tokenizer(path, fast=fast)


def greedy(word, tokens):
    """WordPiece of google-research/bert's tokenization.py, for one clean word."""
    pieces, start = [], 0
    while start < len(word):
        prefix = "##" if start else ""
        end = next((e for e in range(len(word), start, -1) if prefix + word[start:e] in tokens), None)
        if end is None:
            return ["[UNK]"]
        pieces.append(prefix + word[start:end])
        start = end
    return pieces


def test_what_a_tokenizer_knows(tokenizer):
    assert tokenizer.size == len(TOKENS)
    assert [tokenizer.pad_id, tokenizer.unk_id, tokenizer.cls_id, tokenizer.sep_id, tokenizer.mask_id] == [
        0,
        1,
        2,
        3,
        4,
    ]
    assert tokenizer.special_ids.tolist() == [0, 1, 2, 3, 4]
    assert tokenizer.ordinary_ids.tolist() == list(range(7, len(TOKENS)))
    assert tokenizer.ordinary_ids.dtype == np.int32
    assert tokenizer.lower_case
    continuing = [token.startswith("##") for token in TOKENS]
    assert (tokenizer.is_word_start == ~np.array(continuing)).all()
    ids = tokenizer.encode_special("The [MASK] sat, unaffable.")
    assert tokenizer.tokens(ids) == ["the", "[MASK]", "sat", ",", "un", "##aff", "##able", "."]
    assert tokenizer.decode(ids) == "the [MASK] sat, unaffable."


@settings(max_examples=100, deadline=None)
@given(words=st.lists(st.text("abcdefsuntmz", min_size=1, max_size=12), max_size=6))
def test_wordpiece_is_the_papers_greedy_algorithm(tmp_path_factory, words):
    tokenizer = shared_tokenizer(tmp_path_factory.getbasetemp(), fast=False)
    ids, _ = tokenizer.encode([" ".join(words)])
    assert tokenizer.tokens(ids) == [piece for word in words for piece in greedy(word, set(TOKENS))]


def test_special_tokens_spelt_out_in_text_are_ordinary_text(tokenizer):
    """tokenizers#722: a literal [SEP] in the corpus must not become the separator."""
    texts = ["the [SEP] cat", "cat", "[MASK]s[CLS]", "\u4e2d unknown", "[UNK] [PAD]", "", "[sep]", "the mat"]
    encoded = rows(tokenizer.encode(texts))
    assert encoded == expected_ids(TOKENS, texts, True)
    assert tokenizer.tokens(encoded[0]) == ["the", "[", "s", "##e", "##p", "]", "cat"]
    assert not {0, 2, 3, 4} & {index for row in encoded for index in row}
    assert 1 in encoded[3] and 1 not in encoded[4]
    assert encoded[5] == []


@settings(max_examples=200, deadline=None)
@given(
    texts=st.lists(
        st.lists(
            st.sampled_from([*SPECIAL, "[sep]", " ", "the", "\u4e2d", "\u00e9", "\u200d", "x" * 101, ".", "##s"])
        ).map("".join),
        max_size=8,
    )
)
def test_rows_that_are_done_again_go_back_in_their_place(tmp_path_factory, texts):
    pytest.importorskip("nanotoken")
    assert rows(shared_tokenizer(tmp_path_factory.getbasetemp(), fast=True).encode(texts)) == expected_ids(
        TOKENS, texts, True
    )


def test_characters_that_vanish_give_no_ids(tokenizer):
    """tokenizers#1077: 141,318 code points yield no token; the offsets must show it."""
    texts = ["\u200d", "the", "\u0000\ufffd\u00ad", " \n", "\ue000", "a\u200bt"]
    encoded = rows(tokenizer.encode(texts))
    assert [len(row) for row in encoded] == [0, 1, 0, 0, 0, 1]
    assert tokenizer.tokens(encoded[5]) == ["at"]
    assert rows(tokenizer.encode([])) == []


def test_control_characters_are_unicodes_other_category(tokenizer):
    """tokenizers#142: tab and newlines part words, all other Cc, Cf and Co characters are removed."""
    parted = [row for row in rows(tokenizer.encode([f"a{c}t" for c in "\t\n\r \u00a0\u2028\u3000"]))]
    removed = [row for row in rows(tokenizer.encode([f"a{c}t" for c in "\x01\x1f\x7f\x85\u200b\u202e\ue000"]))]
    assert {tuple(tokenizer.tokens(row)) for row in parted} == {("a", "t")}
    assert {tuple(tokenizer.tokens(row)) for row in removed} == {("at",)}


def test_words_are_capped_at_100_characters_as_in_hugging_face(tokenizer):
    """Google's code caps at 200: the difference is Hugging Face's and documented in wordpiece.py."""
    encoded = rows(tokenizer.encode(["z" * 100, "z" * 101, "z" * 201]))
    assert [len(row) for row in encoded] == [100, 1, 1]
    assert encoded[1] == encoded[2] == [tokenizer.unk_id]


def test_hangul_and_kana(tmp_path):
    """bert#135, HF#1317: by default as the original, [UNK] and one id; strip_accents=False keeps them."""
    path = tmp_path / "vocab.txt"
    path.write_text("".join(token + "\n" for token in [*SPECIAL, "\ud55c", "\u304c", "\u304b", "a"]), encoding="utf-8")
    tokens = load_tokenizer(path, lower_case=True, strip_accents=False)
    assert tokens.tokens(tokens.encode(["\ud55c"])[0]) == ["\ud55c"]
    original = load_tokenizer(path, lower_case=True)
    assert original.tokens(original.encode(["\ud55c"])[0]) == ["[UNK]"]
    assert rows(original.encode(["\u304c"])) == rows(original.encode(["\u304b"]))
    for options in ({"lower_case": False}, {"lower_case": True, "strip_accents": False}):
        both = load_tokenizer(path, **options)
        assert rows(both.encode(["\u304c", "\u304b"])) == [[6], [7]]


def test_a_worker_process_gives_the_same_ids(tokenizer):
    copy = pickle.loads(pickle.dumps(tokenizer))
    assert copy.is_fast == tokenizer.is_fast
    assert rows(copy.encode(ADVERSARIAL_SAMPLE)) == rows(tokenizer.encode(ADVERSARIAL_SAMPLE))


def test_ids_outside_the_vocabulary_are_refused(tokenizer):
    for wrong in (-1, len(TOKENS)):
        with pytest.raises(UserError, match=f"id {wrong} is outside the vocabulary"):
            tokenizer.tokens([5, wrong])


def test_nanotoken_is_given_up_when_it_disagrees(vocabulary):
    pytest.importorskip("nanotoken")
    tokenizer = load_tokenizer(vocabulary, fast=True)
    assert tokenizer.check_fast(["the cat"])

    class Wrong:
        """Encodes every text as [MASK], as an accelerator with a bug would."""

        def encode_batch(self, texts, **_):
            return np.full(len(texts), 7, np.uint32), np.arange(len(texts) + 1)

    tokenizer.backend.fast = Wrong()
    with pytest.warns(UserWarning, match="nanotoken and tokenizers disagree"):
        assert not tokenizer.check_fast(["the cat"])
    assert not tokenizer.is_fast
    assert rows(tokenizer.encode(["the cat"])) == expected_ids(TOKENS, ["the cat"], True)
    assert not pickle.loads(pickle.dumps(tokenizer)).is_fast


def test_without_nanotoken(vocabulary, monkeypatch):
    monkeypatch.setitem(sys.modules, "nanotoken", None)
    assert not load_tokenizer(vocabulary).is_fast
    with pytest.raises(UserError, match="nanotoken is not installed"):
        load_tokenizer(vocabulary, fast=True)


@pytest.mark.parametrize(
    "fast, few, many",
    [(True, 50_000, 500_000), (False, 5_000, 50_000), pytest.param(False, 50_000, 500_000, marks=pytest.mark.slow)],
)
def test_time_is_linear_in_the_length_of_a_document(vocabulary, fast, few, many):
    """HF#28629: 50k words took 0.5 s, 500k words 70 s."""
    if fast:
        pytest.importorskip("nanotoken")
    tokenizer = load_tokenizer(vocabulary, fast=fast)

    def seconds(words):
        text = "the cat sat, unaffable " * (words // 4)
        started = time.process_time()
        tokenizer.encode([text])
        return time.process_time() - started

    seconds(1000)
    small, large = min(seconds(few) for _ in range(3)), min(seconds(many) for _ in range(2))
    assert large <= 15 * small


@pytest.mark.parametrize("text", ["", " " * 50, "cat" * 9, " the cat ", "the  [SEP] ma\u00e9 \u0301a \u4e2d " * 5])
def test_a_long_text_is_encoded_in_parts_that_make_the_whole(vocabulary, monkeypatch, text):
    tokenizer = load_tokenizer(vocabulary, fast=False)
    for limit in (1, 2, 7, 30):
        monkeypatch.setattr(backends, "LONG_TEXT", limit)
        assert rows(tokenizer.encode([text, "the", "", text])) == expected_ids(TOKENS, [text, "the", "", text], True)


def test_importing_it_imports_no_framework():
    code = (
        "import sys, bert_jax.text.tokenizer, bert_jax.text.vocab, bert_jax.text.sample_corpus;"
        "print([name for name in ('jax', 'tensorflow', 'torch', 'transformers') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    "name, step", [("uncased", 5), ("cased", 11), pytest.param("uncased", 1, marks=pytest.mark.slow)]
)
def test_real_vocabularies_on_every_character(shared_data, name, step):
    """nanotoken against `tokenizers`, each character inside a word and alone."""
    pytest.importorskip("nanotoken")
    path = shared_data / "vocab" / f"bert-base-{name}-vocab.txt"
    fast, exact = load_tokenizer(path, fast=True), load_tokenizer(path, fast=False)
    assert fast.is_fast and fast.lower_case == (name == "uncased")
    characters = [
        chr(c) for c in [*range(0, 0xD800, step), *range(0xE000, 0x20000, 7 * step), *range(0x20000, 0x110000, 997)]
    ]
    texts = [" ".join(f"a{c}b {c}" for c in characters[start : start + 50]) for start in range(0, len(characters), 50)]
    for ours, theirs in zip(fast.encode(texts), exact.encode(texts), strict=True):
        assert np.array_equal(ours, theirs)


@pytest.mark.parity
@pytest.mark.parametrize("name", ["uncased", "cased"])
def test_ids_are_those_of_transformers(shared_data, tmp_path, name):
    transformers = pytest.importorskip("transformers")
    path = shared_data / "vocab" / f"bert-base-{name}-vocab.txt"
    tokenizer = load_tokenizer(path)
    tokenizer.save(tmp_path / "saved")
    text = (shared_data / "wikitext2" / "wikitext-2-raw-test.txt").read_text(encoding="utf-8")[:60_000]
    texts = [line for line in [*text.split("\n"), *ADVERSARIAL_SAMPLE] if not any(s in line for s in SPECIAL)]
    peers = [
        transformers.BertTokenizer(str(path), do_lower_case=name == "uncased"),
        transformers.AutoTokenizer.from_pretrained(tmp_path / "saved"),
        transformers.BertTokenizerFast.from_pretrained(tmp_path / "saved"),
    ]
    ours = rows(tokenizer.encode(texts))
    for peer in peers:
        assert ours == peer(texts, add_special_tokens=False)["input_ids"]
        assert (peer.cls_token_id, peer.mask_token_id, len(peer)) == (
            tokenizer.cls_id,
            tokenizer.mask_id,
            tokenizer.size,
        )
        assert peer("a")["input_ids"] == [tokenizer.cls_id, *rows(tokenizer.encode(["a"]))[0], tokenizer.sep_id]


def test_a_config_beside_the_vocabulary_is_respected(tmp_path, vocabulary):
    config = {"do_lower_case": False, "strip_accents": False}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    assert not load_tokenizer(tmp_path).lower_case
    assert load_tokenizer(tmp_path, lower_case=True).lower_case
    (tmp_path / "tokenizer_config.json").write_text("[]")
    with pytest.raises(UserError, match=r"tokenizer_config\.json: is a JSON list"):
        load_tokenizer(tmp_path)
