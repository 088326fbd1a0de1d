"""Where words start, and texts that continue after a space: Ġ and ▁ tokenizers, built by `tokenizers` and others."""

import itertools
import json
import pickle
import time

import numpy as np
import pytest
import sentencepiece
import tokenizers
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from bert_jax.errors import UserError
from bert_jax.text.tokenizer import load_tokenizer
from tests.text.conftest import made_up_sentences, rows

SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
NAMES = {"pad_piece": "<pad>", "bos_piece": "<s>", "eos_piece": "</s>", "unk_piece": "<unk>"}
GPT4 = r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"

# How the text is normalized and cut, how it is put together, and whether a space is put in front of every text.
LAYOUTS = {
    "roberta": (None, pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel(), False),
    "prefixed": (None, pre_tokenizers.ByteLevel(add_prefix_space=True), decoders.ByteLevel(), True),
    "modernbert": (normalizers.NFC(), pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel(), False),
    "llama3": (
        None,
        pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(tokenizers.Regex(GPT4), "isolated"),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            ]
        ),
        decoders.ByteLevel(),
        False,
    ),
    "metaspace": (None, pre_tokenizers.Metaspace(prepend_scheme="always"), decoders.Metaspace(), True),
    "metaspace_first": (None, pre_tokenizers.Metaspace(prepend_scheme="first"), decoders.Metaspace(), True),
    "metaspace_never": (
        None,
        pre_tokenizers.Metaspace(prepend_scheme="never"),
        decoders.Metaspace(prepend_scheme="never"),
        False,
    ),
    "xlm_roberta": (
        None,
        pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()]),
        decoders.Metaspace(),
        True,
    ),
    "llama2": (
        normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")]),
        None,
        decoders.Sequence([decoders.Replace("\u2581", " "), decoders.Fuse()]),
        True,
    ),
}
BYTE_LEVEL = ("roberta", "prefixed", "modernbert", "llama3")
SENTENCES = [
    *made_up_sentences(300),
    "He said: \"don't, it's 3.14!\" (twice)\u2014then left.",
    "caf\u00e9 na\u00efve \u4e2d\u6587",
]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """name: (the tokenizer of `tokenizers`, ours of the same file)."""
    made = {}
    for name, (normalizer, pre_tokenizer, decoder, _) in LAYOUTS.items():
        peer = tokenizers.Tokenizer(models.BPE(unk_token="<unk>"))
        peer.pre_tokenizer, peer.decoder = pre_tokenizer or pre_tokenizers.Metaspace(), decoder  # no piece of two words
        alphabet = pre_tokenizers.ByteLevel.alphabet() if name in BYTE_LEVEL else []
        trainer = trainers.BpeTrainer(
            vocab_size=500, special_tokens=SPECIAL, initial_alphabet=alphabet, show_progress=False
        )
        peer.train_from_iterator(SENTENCES, trainer)
        peer.normalizer, peer.pre_tokenizer = normalizer, pre_tokenizer
        path = tmp_path_factory.mktemp(name) / "tokenizer.json"
        peer.save(str(path))
        made[name] = peer, load_tokenizer(path)
    return made


def groups(tokenizer, ids):
    """The ids parted before each piece that starts a word."""
    starts = np.flatnonzero(tokenizer.is_word_start[ids])
    return [ids[start:end].tolist() for start, end in itertools.pairwise([*starts.tolist(), len(ids)])]


@pytest.mark.parametrize("name", LAYOUTS)
def test_sentences_put_in_a_row_are_the_text(built, name):
    peer, tokenizer = built[name]
    text = " ".join(SENTENCES)
    prefixed = LAYOUTS[name][-1]
    expected = peer.encode(text if prefixed else " " + text, add_special_tokens=False).ids
    assert tokenizer.encode(SENTENCES)[0].tolist() == expected
    assert rows(tokenizer.encode(["", " cat"])) == [[], peer.encode("cat" if prefixed else " cat").ids] or prefixed
    assert rows(tokenizer.encode(["cat"])) == [peer.encode("cat" if prefixed else " cat").ids]
    assert tokenizer.encode_special("cat") == peer.encode("cat").ids  # as the tokenizer does it, prefix or not
    copy = pickle.loads(pickle.dumps(tokenizer))
    assert copy.encode(SENTENCES)[0].tolist() == expected


@pytest.mark.parametrize("name", LAYOUTS)
def test_pieces_from_one_word_start_to_the_next_are_a_word(built, name):
    _, tokenizer = built[name]
    ids, offsets = tokenizer.encode(SENTENCES)
    assert tokenizer.is_word_start[ids[offsets[:-1]]].all()
    words = [tokenizer.decode(group).strip() for group in groups(tokenizer, ids)]
    assert words == " ".join(SENTENCES).split(" ")
    starts = dict(zip(tokenizer.special_ids.tolist(), tokenizer.is_word_start[tokenizer.special_ids], strict=True))
    assert not starts.pop(tokenizer.unk_id) and all(starts.values())


@settings(max_examples=200, deadline=None)
@given(text=st.text("ab.,'\"1\u00e9\u4e2d\U0001f600 \n\t", max_size=30))
@example(text="a\nb \n\n c  d\t'e")
def test_newlines_and_runs_of_spaces_part_words_too(built, text):
    for name in BYTE_LEVEL[:3]:
        _, tokenizer = built[name]
        ids = tokenizer.encode([text])[0]
        words = [tokenizer.decode(group).strip() for group in groups(tokenizer, ids)]
        assert [word for word in words if word] == text.split()


@pytest.mark.parametrize("name", LAYOUTS)
def test_the_word_of_a_piece(built, name):
    _, tokenizer = built[name]
    whole = {
        tokenizer.word(row[0]): row[0] for row in rows(tokenizer.encode(" ".join(SENTENCES).split())) if len(row) == 1
    }
    assert "la" in whole and len(whole) > 20
    for word, index in whole.items():
        assert rows(tokenizer.encode([word])) == [[index]]
    continuing = int(np.flatnonzero(~tokenizer.is_word_start)[0])
    for index in (continuing, tokenizer.mask_id):
        with pytest.raises(UserError, match=f"id {index}.* starts no word"):
            tokenizer.word(index)


@pytest.mark.parametrize("model_type", ["unigram", "bpe"])
@pytest.mark.parametrize("prefix", [True, False])
def test_sentencepiece_models_of_others(tmp_path, model_type, prefix):
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(SENTENCES), model_prefix=str(tmp_path / "other"), vocab_size=200, minloglevel=2,
        pad_id=0, unk_id=1, bos_id=2, eos_id=3, control_symbols="<mask>", add_dummy_prefix=prefix,
        model_type=model_type, normalization_rule_name="identity", **NAMES,
    )  # fmt: skip
    peer = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "other.model"))
    tokenizer = load_tokenizer(tmp_path / "other.model")
    ids, offsets = tokenizer.encode(SENTENCES)
    assert tokenizer.is_word_start[ids[offsets[:-1]]].all()
    words = [tokenizer.decode(group).strip() for group in groups(tokenizer, ids)]
    whole = " ".join(SENTENCES).split()
    assert len(words) == len(whole)
    assert all(ours == word or "\u2047" in ours for ours, word in zip(words, whole, strict=True))
    # A text before it is cut off again: behind it every sentence follows a space.
    after = [peer.encode("The " + sentence)[len(peer.encode("The")) :] for sentence in SENTENCES]
    assert rows((ids, offsets)) == after
    assert tokenizer.encode_special(SENTENCES[0]) == peer.encode(SENTENCES[0])


def test_pieces_that_tell_no_word_starts(tmp_path):
    """Whitespace is thrown away, or only the end of a word is marked (as in the first GPT): nothing may be guessed."""
    for number, model in enumerate((models.BPE(), models.BPE(end_of_word_suffix="</w>"))):
        peer = tokenizers.Tokenizer(model)
        peer.pre_tokenizer = pre_tokenizers.Whitespace()
        suffix = {"end_of_word_suffix": "</w>"} if number else {}
        peer.train_from_iterator(
            SENTENCES,
            trainers.BpeTrainer(vocab_size=200, special_tokens=SPECIAL, show_progress=False, **suffix),
        )
        peer.save(str(tmp_path / f"{number}.json"))
        tokenizer = load_tokenizer(tmp_path / f"{number}.json")
        assert tokenizer.is_word_start is None
        assert rows(tokenizer.encode(["The cat"])) == [peer.encode("The cat").ids]
        with pytest.raises(UserError, match="starts no word"):
            tokenizer.word(9)


def test_wordpiece_words_are_berts(vocabulary):
    tokenizer = load_tokenizer(vocabulary)
    ids = tokenizer.encode(["unaffable, cat!"])[0]
    assert [tokenizer.tokens(group) for group in groups(tokenizer, ids)] == [
        ["un", "##aff", "##able"], [","], ["cat"], ["!"]
    ]  # fmt: skip


@pytest.mark.parity
def test_they_are_where_transformers_finds_them(built, tmp_path):
    """RobertaTokenizerFast's own word numbers part words and punctuation: a word start of ours is one of them."""
    transformers = pytest.importorskip("transformers")
    for name in ("roberta", "prefixed", "modernbert"):
        peer, tokenizer = built[name]
        theirs = transformers.PreTrainedTokenizerFast(tokenizer_object=peer)
        text = " " + " ".join(SENTENCES)
        encoded = theirs(text, add_special_tokens=False)
        ids, _ = tokenizer.encode(SENTENCES)
        assert encoded["input_ids"] == ids.tolist()
        numbers = np.array(encoded.word_ids(0))
        first = np.flatnonzero(np.diff(numbers, prepend=-1))
        starts = np.flatnonzero(tokenizer.is_word_start[ids])
        assert np.isin(starts, first).all() and len(starts) == len(text.split())


@pytest.mark.parametrize("missing", SPECIAL[1:])
def test_a_byte_level_tokenizer_without_a_special_token_is_refused(built, tmp_path, missing):
    definition = json.loads(built["roberta"][0].to_str())
    definition["added_tokens"] = [token for token in definition["added_tokens"] if token["content"] != missing]
    index = definition["model"]["vocab"].pop(missing)
    definition["model"]["vocab"]["another"] = index
    definition["model"]["unk_token"] = None
    (tmp_path / "tokenizer.json").write_text(json.dumps(definition))
    with pytest.raises(UserError, match=rf"tokenizer\.json: has no .*{missing}.* token"):
        load_tokenizer(tmp_path)


def test_time_of_byte_level_bpe_is_linear_in_the_length_of_a_document(built):
    """HF#28629, which was found with WordPiece."""
    _, tokenizer = built["roberta"]

    def seconds(words):
        text = " ".join(SENTENCES[0].split()[index % 9] + str(index % 97) for index in range(words))
        started = time.process_time()
        tokenizer.encode([text])
        return time.process_time() - started

    seconds(1000)
    small, large = min(seconds(20_000) for _ in range(3)), min(seconds(200_000) for _ in range(2))
    assert large <= 15 * small
