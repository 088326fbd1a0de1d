"""Words added to a vocabulary: no other id moves, every tokenizer finds them, rows of the table stay as they were."""

import json

import ml_dtypes
import numpy as np
import pytest
import tokenizers

from bert_jax.errors import UserError
from bert_jax.text.added_words import extend_tokenizer, frequent_words, grow_table, piece_of_word
from bert_jax.text.adversarial import ADVERSARIAL_SAMPLE
from bert_jax.text.byte_level import byte_level_splitter, train_byte_level
from bert_jax.text.counts import split_words
from bert_jax.text.tokenizer import load_tokenizer
from tests.text.conftest import TOKENS, made_up_sentences, rows

NEW = ["covid", "immunotherapy", "lymphocyte", "h\u00e9matologie", "\u514d\u75ab"]


def words(count):
    """Distinct words of two to four letters, none of them in the small vocabulary."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    made = [a + b + c + "q" for a in letters for b in letters for c in letters]
    return made[:count]


@pytest.fixture(scope="module")
def byte_level(tmp_path_factory):
    """ModernBERT's layout: special and [unused] tokens are added tokens that the model itself does not have."""
    text = " ".join(made_up_sentences(300)).split()
    definition = json.loads(
        train_byte_level(split_words({word: text.count(word) for word in set(text)}, byte_level_splitter()), 500)
    )
    for token in definition["added_tokens"]:
        del definition["model"]["vocab"][token["content"]]
    unused = definition["added_tokens"][0] | {"special": False}
    definition["added_tokens"] += [unused | {"id": 500 + i, "content": f"[unused{i}]"} for i in range(3)]
    path = tmp_path_factory.mktemp("byte_level") / "tokenizer.json"
    path.write_text(json.dumps(definition))
    return load_tokenizer(path)


def assert_other_ids_stay(old, new, added):
    changed = {word.id for word in added}
    for index in range(old.size):
        if index not in changed:
            assert new.tokens([index]) == old.tokens([index])
    assert (new.pad_id, new.unk_id, new.cls_id, new.sep_id, new.mask_id) == (
        old.pad_id, old.unk_id, old.cls_id, old.sep_id, old.mask_id
    )  # fmt: skip
    assert new.special_ids.tolist() == old.special_ids.tolist()


@pytest.mark.parametrize("name", ["uncased", "cased"])
def test_five_words_in_unused_places_of_berts_vocabulary(shared_data, name):
    old = load_tokenizer(shared_data / "vocab" / f"bert-base-{name}-vocab.txt", strip_accents=False)
    names = ["covid", "Immunotherapy", "pembrolizumab", "crispr", "remdesivir"]
    pieces = [piece_of_word(old, word.lower() if name == "uncased" else word) for word in names]
    new, added = extend_tokenizer(old, pieces)
    assert [(word.id, word.placeholder) for word in added] == [
        (i + 1, f"[unused{i if name == 'uncased' else i + 1}]") for i in range(5)
    ]
    assert new.size == old.size and len(new.ordinary_ids) == len(old.ordinary_ids) + 5
    assert_other_ids_stay(old, new, added)
    table = np.random.default_rng(0).normal(size=(old.size, 8)).astype(np.float32)
    grown = grow_table(table, old, new)
    assert grown.shape == table.shape and grown.dtype == table.dtype
    assert grown[6:].tobytes() == table[6:].tobytes() and grown[0].tobytes() == table[0].tobytes()
    for word in added:
        ids = old.encode([word.piece])[0]
        assert len(ids) > 1
        np.testing.assert_array_equal(grown[word.id], table[ids].astype(np.float64).mean(0).astype(np.float32))


def test_two_thousand_words_grow_the_table(shared_data):
    old = load_tokenizer(shared_data / "vocab" / "bert-base-uncased-vocab.txt")
    known = set(old.tokens(range(old.size)))
    pieces = [word for word in words(2100) if word not in known][:2000]
    new, added = extend_tokenizer(old, pieces)
    assert sum(bool(word.placeholder) for word in added) == 994
    assert [word.id for word in added[994:]] == list(range(30522, 30522 + 1006)) and new.size == 31528
    assert_other_ids_stay(old, new, added)
    rng = np.random.default_rng(1)
    table = rng.integers(0, 2**16, (old.size, 4), np.uint16).view(ml_dtypes.bfloat16)  # every bit pattern, NaN too
    with np.errstate(all="ignore"):
        grown = grow_table(table, old, new)
    kept = np.setdiff1d(np.arange(old.size), [word.id for word in added])
    assert grown.shape == (31528, 4) and grown[kept].tobytes() == table[kept].tobytes()
    bias = rng.normal(size=old.size).astype(np.float32)
    grown = grow_table(bias, old, new)
    assert grown.shape == (31528,) and grown[kept].tobytes() == bias[kept].tobytes()
    ids = old.encode([added[-1].piece])[0]
    assert grown[-1] == np.float32(bias[ids].astype(np.float64).mean())


def test_slots_first_then_the_end(vocabulary):
    old = load_tokenizer(vocabulary, strip_accents=False)
    new, added = extend_tokenizer(old, NEW[:4])
    assert [(word.piece, word.id, word.placeholder) for word in added] == [
        ("covid", 5, "[unused0]"), ("immunotherapy", 6, "[unused1]"),
        ("lymphocyte", len(TOKENS), ""), ("h\u00e9matologie", len(TOKENS) + 1, ""),
    ]  # fmt: skip
    assert_other_ids_stay(old, new, added)
    again, more = extend_tokenizer(new, ["zzz"])
    assert [word.id for word in more] == [len(TOKENS) + 2] and not more[0].placeholder and again.size == len(TOKENS) + 3


def test_wordpiece_finds_them_by_the_longest_match(vocabulary, tmp_path):
    """nanotoken and `tokenizers` agree; longer words begin with the new piece; texts without them stay as they were."""
    old = load_tokenizer(vocabulary)
    new, _ = extend_tokenizer(old, ["covid", "unaff"])
    assert new.is_fast == old.is_fast
    texts = ["Covid, covids", "unaffable unaffsat", "the cat", "[unused0] [SEP]"]
    pieces = [new.tokens(row) for row in rows(new.encode(texts))]
    assert pieces[:2] == [["covid", ",", "covid", "##s"], ["unaff", "##able", "unaff", "##sat"]]
    assert rows(new.encode(texts))[2:] == rows(old.encode(texts))[2:]
    new.save(tmp_path / "new")
    many = [*texts, *ADVERSARIAL_SAMPLE, *(f"covid{text}unaff" for text in ADVERSARIAL_SAMPLE)]
    expected = rows(load_tokenizer(tmp_path / "new", fast=False).encode(many))
    assert rows(new.encode(many)) == expected
    assert rows(load_tokenizer(tmp_path / "new" / "vocab.txt", lower_case=True).encode(many)) == expected


@pytest.mark.parametrize("fast", [True, False])
def test_real_text_with_a_vocabulary_of_its_own_words(shared_data, fast):
    if fast:
        pytest.importorskip("nanotoken")
    old = load_tokenizer(shared_data / "vocab" / "bert-base-uncased-vocab.txt")
    text = (shared_data / "wikitext2" / "wikitext-2-raw-test.txt").read_text(encoding="utf-8")
    counts = split_words({word: 1 for word in text.split()}, old.backend.splitter)
    pieces = frequent_words(old, counts, 1500)
    assert len(pieces) == 1500
    new, added = extend_tokenizer(old, pieces)
    lines = text.split("\n")[:800]
    exact = tokenizers.Tokenizer.from_str(new.backend.tokenizer.to_str())
    exact.encode_special_tokens = True
    encoded = load_tokenizer_like(new, fast).encode(lines)
    assert rows(encoded) == [row.ids for row in exact.encode_batch(lines, add_special_tokens=False)]
    assert len(encoded[0]) < 0.99 * len(old.encode(lines)[0])
    assert np.isin(encoded[0], [word.id for word in added]).sum() > 200


def load_tokenizer_like(tokenizer, fast):
    backend = type(tokenizer.backend)(*tokenizer.backend.state[:-1], fast)
    return type(tokenizer)(backend)


def test_byte_level_words_are_found_whole_and_no_other_word_changes(byte_level):
    old = byte_level
    pieces = [piece_of_word(old, word) for word in NEW]
    assert pieces[0] == "\u0120covid"
    new, added = extend_tokenizer(old, pieces)
    assert [(word.id, word.placeholder) for word in added] == [
        (500, "[unused0]"), (501, "[unused1]"), (502, "[unused2]"), (503, ""), (504, "")
    ]  # fmt: skip
    assert_other_ids_stay(old, new, added)
    assert [new.word(word.id) for word in added] == NEW
    assert rows(new.encode(NEW)) == [[word.id] for word in added]
    assert new.is_word_start[[word.id for word in added]].all() and 500 in new.ordinary_ids
    texts = [
        *made_up_sentences(200, seed=5),
        *ADVERSARIAL_SAMPLE[:-2],
        "covids covidcovid xcovid Covid",
        "[SEP] [unused9]",
    ]
    assert rows(new.encode(texts)) == rows(old.encode(texts))
    text = "The covid, (covid) immunotherapy\u2014covid"
    assert new.decode(new.encode([text])[0]) == " " + text
    table = np.random.default_rng(2).normal(size=(503, 6)).astype(np.float16)
    grown = grow_table(table, old, new)
    assert grown[:500].tobytes() == table[:500].tobytes() and len(grown) == 505
    expected = table[old.encode(["immunotherapy"])[0]].astype(np.float64).mean(0).astype(np.float16)
    np.testing.assert_array_equal(grown[501], expected)


@pytest.mark.parity
def test_transformers_reads_extended_tokenizers(byte_level, vocabulary, tmp_path):
    transformers = pytest.importorskip("transformers")
    text = "The covid, covids and (covid) immunotherapy; [MASK] sat."
    for name, old in (("wordpiece", load_tokenizer(vocabulary)), ("byte_level", byte_level)):
        pieces = [piece_of_word(old, word) for word in NEW[:4] if word.isascii()]
        new, added = extend_tokenizer(old, pieces)
        new.save(tmp_path / name)
        peer = transformers.AutoTokenizer.from_pretrained(tmp_path / name)
        assert len(peer) == new.size and peer.mask_token_id == new.mask_id
        assert peer.convert_tokens_to_ids(pieces) == [word.id for word in added]
        ids = peer(" " + text, add_special_tokens=False)["input_ids"]
        assert ids == new.encode_special(" " + text) and added[0].id in ids
        assert new.tokens(peer(" " + text)["input_ids"])[0] == "[CLS]"
    peer = transformers.BertTokenizer(str(tmp_path / "wordpiece" / "vocab.txt"))
    assert peer(text, add_special_tokens=False)["input_ids"] == load_tokenizer(tmp_path / "wordpiece").encode_special(
        text
    )


def test_frequent_words_are_those_in_several_pieces(vocabulary, byte_level):
    wordpiece = load_tokenizer(vocabulary)
    counts = {"the": 90, "cats": 5, "dog": 7, "bird": 7, "1984": 50, "\u4e2d": 3, ",": 70, "x" * 101: 99, "a": 4}
    assert frequent_words(wordpiece, counts, 10) == ["bird", "dog", "cats", "\u4e2d"]
    assert frequent_words(wordpiece, counts, 2) == ["bird", "dog"]
    counts = split_words({"covid": 4, "(flu)": 9, "zebras": 4, "la": 99, "2024": 8}, byte_level.backend.splitter)
    assert frequent_words(byte_level, counts, 10) == ["\u0120covid", "\u0120zebras"]  # "(" had the space of flu


def test_what_can_be_no_word(vocabulary, byte_level, tmp_path):
    tokenizer = load_tokenizer(vocabulary)
    cases = [
        ("heart attack", r"'heart attack' is 2 words to this tokenizer \(heart \| attack\): expected one"),
        ("ha ha", "is 2 words"),
        ("covid-19", "is 3 words"),
        ("[MASK]", "is 3 words"),
        ("\u200b", "is 0 words"),
        ("x" * 101, "a word of 101 characters: expected at most 100"),
    ]
    for word, message in cases:
        with pytest.raises(UserError, match=message):
            piece_of_word(tokenizer, word)
    with pytest.raises(UserError, match="is 2 words"):
        piece_of_word(byte_level, "heart attack")
    for pieces, message in ((["cat"], "'cat' is in the vocabulary"), (["dog", "dog"], "1 words are given twice")):
        with pytest.raises(UserError, match=message):
            extend_tokenizer(tokenizer, pieces)
    with pytest.raises(UserError, match="does not find 'Dog' whole once it is added"):
        extend_tokenizer(tokenizer, ["Dog"])  # no text is ever normalized to that
    peer = tokenizers.Tokenizer(tokenizers.models.WordLevel({name: i for i, name in enumerate(TOKENS)}, "[UNK]"))
    peer.save(str(tmp_path / "words.json"))
    with pytest.raises(UserError, match=r"words\.json: is a WordLevel tokenizer: words can be added to WordPiece and"):
        extend_tokenizer(load_tokenizer(tmp_path / "words.json"), ["dog"])


def test_tables_that_do_not_fit(vocabulary, byte_level):
    old = load_tokenizer(vocabulary)
    new, _ = extend_tokenizer(old, ["dog", "bird", "fish"])
    table = np.zeros((old.size, 2), np.float32)
    with pytest.raises(UserError, match=rf"shape \({old.size + 1}, 2\): expected {old.size} rows"):
        grow_table(np.zeros((old.size + 1, 2)), old, new)
    with pytest.raises(UserError, match=f"the new vocabulary has {old.size} ids, the old one {new.size}"):
        grow_table(np.zeros((new.size, 2)), new, old)
    with pytest.raises(UserError, match=r"id 0 is '\[PAD\]' in the old vocabulary"):
        grow_table(table, old, byte_level)
    np.testing.assert_array_equal(grow_table(table, old, old), table)
    before = table.copy()
    table[old.unk_id] = 7
    unknown, added = extend_tokenizer(old, ["\u4e2d"])
    assert (grow_table(table, old, unknown)[added[0].id] == 7).all() and (table[0] == before[0]).all()
