"""Vocabularies: the same file every time, of the size asked for, as good as `tokenizers`' own."""

import collections
import gzip
import hashlib
import itertools
import json

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from sentencepiece import sentencepiece_model_pb2

from bert_jax.__main__ import main
from bert_jax.text.counts import count_words, split_words
from bert_jax.text.documents import find_files
from bert_jax.text.sampling import set_quotas
from bert_jax.text.tokenizer import load_tokenizer
from bert_jax.text.vocab import KINDS, measure
from bert_jax.text.wordpiece import bert_normalizer, bert_splitter
from bert_jax.text.wordpiece_trainer import SPECIAL_TOKENS, train_wordpiece
from tests.text.conftest import made_up_sentences


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    for index in range(3):
        (folder / f"{index}.txt").write_text("\n\n".join(made_up_sentences(400, index)), encoding="utf-8")
    return folder


def run(*arguments):
    return main(["vocab", *map(str, arguments)])


def is_character(piece):
    return len(piece.removeprefix("##")) == 1


def plain_merges(word_counts, size):
    """Byte-pair merges as the paper describes them, everything counted anew at each step."""
    words = {word: [c if i == 0 else "##" + c for i, c in enumerate(word)] for word in word_counts}
    vocabulary = [
        piece for piece in train_wordpiece(word_counts, size) if piece in SPECIAL_TOKENS or is_character(piece)
    ]
    while len(vocabulary) < size:
        counts = collections.Counter()
        for word, pieces in words.items():
            for pair in itertools.pairwise(pieces):
                counts[pair] += word_counts[word]
        best = min(counts, key=lambda p: (-counts[p], vocabulary.index(p[0]), vocabulary.index(p[1])), default=None)
        if best is None or counts[best] < 2:
            break
        joined = best[0] + best[1][2:]
        if joined not in vocabulary:
            vocabulary.append(joined)
        for pieces in words.values():
            i = 0
            while i < len(pieces) - 1:
                if (pieces[i], pieces[i + 1]) == best:
                    pieces[i : i + 2] = [joined]
                i += 1
    return vocabulary


@settings(max_examples=60, deadline=None)
@given(
    counts=st.dictionaries(st.text("abc", min_size=1, max_size=7), st.integers(1, 5), min_size=1, max_size=25),
    size=st.integers(17, 60),
)
def test_merges_are_those_of_a_recount_at_every_step(counts, size):
    assert train_wordpiece(counts, size) == plain_merges(counts, size)


@settings(max_examples=100, deadline=None)
@given(text=st.text("aB.,'-\u00e9e\u0301\u4e2d\u1680\u200d\x0b\x1c\x85\u2028\u00a0 \n\t\u03a3\ud55c", max_size=60))
def test_counting_distinct_words_equals_pretokenizing_the_text(tmp_path_factory, text):
    path = tmp_path_factory.getbasetemp() / "counted.txt"
    path.write_text(text, encoding="utf-8", newline="")
    if not text:
        return
    whole = bert_normalizer(True).normalize_str(text)
    expected = collections.Counter(w for w, _ in tokenizers.pre_tokenizers.BertPreTokenizer().pre_tokenize_str(whole))
    found = split_words(count_words(set_quotas(find_files([str(path)])), "file"), bert_splitter(True))
    assert found == expected


@pytest.mark.parametrize("kind, name", KINDS.items())
def test_the_same_file_at_every_run_and_for_any_number_of_workers(corpus, tmp_path, capsys, kind, name):
    digests = set()
    for attempt, workers in enumerate((1, 2, 1)):
        out = tmp_path / str(attempt)
        assert run(f"--source={corpus}", "--size=300", f"--out={out}", f"--kind={kind}", f"--workers={workers}") == 0
        digests.add(hashlib.sha256((out / name).read_bytes()).hexdigest())
    assert len(digests) == 1
    assert load_tokenizer(out).size == 300
    printed = capsys.readouterr().out
    assert "vocabulary of 300 tokens" in printed and "tokens a word" in printed and "smaller" not in printed


def test_special_tokens_come_first_and_both_forms_of_letters(corpus, tmp_path):
    out = tmp_path / "vocab.txt"
    assert run(f"--source={corpus}", "--size=300", f"--out={out}", "--workers=1") == 0
    tokens = out.read_text(encoding="utf-8").split("\n")[:-1]
    assert tokens[:5] == ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    assert {"a", "##a", ".", "the"} <= set(tokens) and "##." not in tokens and "\u00e9" not in tokens
    tokenizer = load_tokenizer(out)
    assert tokenizer.lower_case and tokenizer.pad_id == 0 and tokenizer.mask_id == 4
    assert tokenizer.unk_id not in tokenizer.encode(made_up_sentences(50))[0]


def test_cased_and_kept_accents(corpus, tmp_path, capsys):
    assert run(f"--source={corpus}", "--size=300", f"--out={tmp_path / 'cased'}", "--cased", "--workers=1") == 0
    cased = load_tokenizer(tmp_path / "cased")
    assert not cased.lower_case and cased.tokens(cased.encode(["The caf\u00e9"])[0]) == ["The", "caf\u00e9"]
    assert run(f"--source={corpus}", "--size=300", f"--out={tmp_path / 'kept'}", "--keep_accents", "--workers=1") == 0
    kept = load_tokenizer(tmp_path / "kept")
    assert kept.tokens(kept.encode(["The CAF\u00c9"])[0]) == ["the", "caf\u00e9"]
    for wrong in ("--cased", f"--out={tmp_path / 'x.txt'}", "--kind=sentencepiece"):
        assert run(f"--source={corpus}", f"--out={tmp_path / 'x'}", "--keep_accents", wrong) == 2
    assert "--keep_accents: expected" in capsys.readouterr().err


def test_only_byte_level_keeps_case_unasked(corpus, tmp_path):
    for kind in KINDS:
        assert run(f"--source={corpus}", "--size=300", f"--out={tmp_path / kind}", f"--kind={kind}", "--workers=1") == 0
        tokenizer = load_tokenizer(tmp_path / kind)
        assert tokenizer.lower_case == (kind != "bytelevel_bpe")
        assert tokenizer.decode(tokenizer.encode(["The"])[0]).strip() == ("the" if tokenizer.lower_case else "The")


def test_sentencepiece_bpe_is_no_unigram_model(corpus, tmp_path):
    types = []
    for kind in ("sentencepiece", "sentencepiece_bpe"):
        out = tmp_path / f"{kind}.model"
        assert run(f"--source={corpus}", "--size=300", f"--out={out}", f"--kind={kind}", "--workers=1") == 0
        model = sentencepiece_model_pb2.ModelProto.FromString(out.read_bytes())
        types.append(model.trainer_spec.model_type)
        assert str(tmp_path) not in str(model.trainer_spec) and not model.trainer_spec.input
    assert types == [1, 2]  # UNIGRAM, BPE


def test_sources_are_those_of_prepare(corpus, tmp_path, capsys):
    """Compressed files, columns by name, what cannot be read."""
    texts = [(corpus / f"{index}.txt").read_text(encoding="utf-8") for index in range(3)]
    folder = tmp_path / "other"
    folder.mkdir()
    with gzip.open(folder / "0.txt.gz", "wt", encoding="utf-8") as file:
        file.write(texts[0])
    rows = [json.dumps({"body": part}) for part in texts[1].split("\n\n")]
    (folder / "1.jsonl").write_text("\n".join(rows))
    (folder / "2.txt").write_text(texts[2], encoding="utf-8")
    plain, mixed = tmp_path / "plain.txt", tmp_path / "mixed.txt"
    assert run(f"--source={corpus}", "--size=300", f"--out={plain}") == 0
    sources = [f"--source={folder / '*.txt*'}", f"--source={folder / '1.jsonl'},column=body"]
    assert run(*sources, "--size=300", f"--out={mixed}", "--workers=1") == 0
    assert mixed.read_bytes() == plain.read_bytes()
    capsys.readouterr()
    (folder / "3.txt").write_bytes(b"caf\xe9\nthe cat\n")
    assert run(f"--source={folder / '*.txt'}", "--size=99", f"--out={tmp_path / 'bad.txt'}", "--workers=1") == 2
    error = capsys.readouterr().err
    assert "3.txt" in error and error.count("\n") == 1
    arguments = (f"--source={folder / '*.txt'}", "--size=99", f"--out={tmp_path / 'ok.txt'}", "--workers=1")
    assert run(*arguments, "--on_error=skip") == 0
    assert "skipped 1 unreadable" in capsys.readouterr().err


def test_an_existing_output_is_kept(corpus, tmp_path, capsys):
    out = tmp_path / "vocab.txt"
    arguments = (f"--source={corpus}", f"--out={out}", "--workers=1")
    assert run(*arguments, "--size=200") == 0
    content = out.read_bytes()
    assert run(*arguments, "--size=200") == 0  # the same again is no conflict
    assert run(*arguments, "--size=210") == 2
    assert out.read_bytes() == content
    error = capsys.readouterr().err
    assert "vocab.txt: exists and holds something else" in error and error.count("\n") == 1


def test_a_tiny_corpus_explains_a_smaller_size(tmp_path, capsys):
    (tmp_path / "a.txt").write_text("the cat sat on the mat")
    assert run(f"--source={tmp_path}", "--size=1000", f"--out={tmp_path / 'v.txt'}", "--workers=1") == 0
    printed = capsys.readouterr().out
    assert "smaller than --size=1000: the text has no more pieces that occur twice" in printed
    assert run(f"--source={tmp_path}", "--size=1000", f"--out={tmp_path / 's'}", "--kind=sentencepiece") == 0
    assert "smaller than --size=1000" in capsys.readouterr().out


def test_bad_arguments_are_one_line(corpus, tmp_path, capsys):
    (tmp_path / "dots.txt").write_text("\u200b \u200d")
    cases = [
        ("--size=3", f"--source={corpus}", f"--out={tmp_path / 'v'}", "vocabulary size 3 is too small"),
        ("--size=9", "--kind=sentencepiece", f"--source={corpus}", f"--out={tmp_path / 'v'}", "size 9 does not fit"),
        ("--size=99", "--kind=bytelevel_bpe", f"--source={corpus}", f"--out={tmp_path / 'v'}", "expected at least 261"),
        (
            "--size=9",
            "--kind=sentencepiece_bpe",
            f"--source={corpus}",
            f"--out={tmp_path / 'v'}",
            "size 9 does not fit",
        ),
        ("--kind=bytelevel_bpe", f"--source={corpus}", f"--out={tmp_path / 'v.txt'}", "a file that ends in .json"),
        (f"--source={corpus},colour=red", f"--out={tmp_path / 'v'}", "option 'colour' is unknown"),
        ("--size=-1", f"--source={corpus}", f"--out={tmp_path / 'v'}", "--size=-1: expected a positive number"),
        (f"--source={tmp_path / 'none'}", f"--out={tmp_path / 'v'}", "none: no such file or folder"),
        (f"--source={corpus}", f"--out={tmp_path / 'v.json'}", r"expected a folder, or a file that ends in .txt"),
        (f"--source={tmp_path / 'dots.txt'}", f"--out={tmp_path / 'v'}", "holds no words"),
    ]
    for *arguments, message in cases:
        assert run(*arguments, "--workers=1") == 2
        error = capsys.readouterr().err
        assert message in error and error.count("\n") == 1, error
    assert not (tmp_path / "v").exists()


@pytest.mark.parametrize(
    "kind, length",
    [("wordpiece", 2_000_000), ("sentencepiece", 100_000), ("sentencepiece_bpe", 100_000), ("bytelevel_bpe", 500_000)],
)
def test_long_lines_train_too(tmp_path, kind, length):
    """sentencepiece#214: lines over its limit are dropped, and when all are long nothing is left."""
    line = " ".join(made_up_sentences(10_000))
    for index, joint in enumerate((" ", " ", "")):  # the third has no space to split at
        (tmp_path / f"{index}.txt").write_text(line.replace(" ", joint)[:length], encoding="utf-8")
    out = tmp_path / "out"
    assert run(f"--source={tmp_path}", "--size=300", f"--out={out}", f"--kind={kind}", "--workers=1") == 0
    tokenizer = load_tokenizer(out)
    assert tokenizer.size == 300 and tokenizer.unk_id not in tokenizer.encode(made_up_sentences(20))[0]


@pytest.mark.slow
def test_it_is_as_good_as_the_vocabulary_of_tokenizers(shared_data, tmp_path):
    """Mean tokens a word on held-out articles within 2 % of a WordPieceTrainer vocabulary of the same size."""
    leads = json.loads((shared_data / "wiki_vital_summaries" / "summaries_en-us.json").read_bytes())
    documents = [article["extract"] for article in leads.values()]
    parts = {"train": documents[::2], "held": documents[1::2]}
    for name, texts in parts.items():
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    counts = [count_words(set_quotas(find_files([str(tmp_path / f"{name}.jsonl")]))) for name in parts]
    train, held = (split_words(words, bert_splitter(True)) for words in counts)
    peer = tokenizers.Tokenizer(tokenizers.models.WordPiece(unk_token="[UNK]"))
    peer.normalizer = bert_normalizer(True)
    peer.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    trainer = tokenizers.trainers.WordPieceTrainer(
        vocab_size=8192, special_tokens=[*SPECIAL_TOKENS], show_progress=False
    )
    peer.train_from_iterator(parts["train"], trainer)
    figures = {}
    theirs = sorted(peer.get_vocab(), key=peer.get_vocab().get)
    for name, tokens in {"ours": train_wordpiece(train, 8192), "theirs": theirs}.items():
        assert len(tokens) == 8192
        (tmp_path / f"{name}.txt").write_text("".join(token + "\n" for token in tokens), encoding="utf-8")
        figures[name] = measure(load_tokenizer(tmp_path / f"{name}.txt"), held)
    assert figures["ours"][0] <= 1.02 * figures["theirs"][0]
    assert figures["ours"][1] <= figures["theirs"][1] + 0.002
