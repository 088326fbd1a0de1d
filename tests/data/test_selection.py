"""Which documents are taken: weights of sources, duplicates and filters, from text to report."""

import re

import numpy as np
import pytest

from bert_jax.data.prepare import PrepareConfig, prepare
from bert_jax.data.selection import source_rates
from bert_jax.errors import UserError
from tests.data.conftest import corpus, texts_of


def prepare_sources(tmp_path, vocabulary, sources, **settings):
    defaults = {"length": 32, "held_out": 0.0, "fast": False, "kind": "doc_sentences"}
    return prepare(PrepareConfig(tuple(sources), str(vocabulary), str(tmp_path / "out"), **defaults | settings))


def words_in(prepared, pattern):
    return sum(len(re.findall(pattern, text)) for text in texts_of(prepared, "train"))


def test_weights_are_shares_of_words_and_nothing_is_repeated(tmp_path, vocabulary):
    """Twice as much text of w1 as of w2, and both asked for as 2.5 : 0.8."""
    for word, documents in (("w1", 2000), ("w2", 1000)):
        lengths = np.random.default_rng(0).integers(5, 25, documents)
        (tmp_path / f"{word}.txt").write_text("\n\n".join(" ".join([word] * n) for n in lengths))
    sources = [f"{tmp_path / 'w1.txt'},weight=2.5", f"{tmp_path / 'w2.txt'},weight=0.8"]
    prepared = prepare_sources(tmp_path, vocabulary, sources)
    ones, twos = words_in(prepared, r"\bw1\b"), words_in(prepared, r"\bw2\b")
    assert ones / twos == pytest.approx(2.5 / 0.8, rel=0.1)
    rates = prepared.report["share_taken_of_sources"]
    assert rates[str(tmp_path / "w1.txt")] == 1.0 and 0.6 < rates[str(tmp_path / "w2.txt")] < 0.7
    words = prepared.report["words_of_sources"]
    assert ones == words[str(tmp_path / "w1.txt")] and twos < words[str(tmp_path / "w2.txt")]


def test_the_source_with_least_text_for_its_weight_is_taken_whole():
    class OfSource:
        def __init__(self, source, words):
            self.source, self.words = source, words

    runs = [OfSource(0, 500), OfSource(1, 100), OfSource(0, 500), OfSource(2, 50)]
    assert source_rates(runs, [1.0, 1.0, 1.0]) == pytest.approx((0.05, 0.5, 1.0))
    assert source_rates(runs, [20.0, 1.0, 0.5]) == pytest.approx((1.0, 0.5, 0.5))
    assert source_rates(runs, [None, None, None]) == ()


def test_a_weight_for_one_source_only_is_refused(tmp_path, vocabulary):
    for name in ("a", "b"):
        (tmp_path / f"{name}.txt").write_text("w1 w2.")
    with pytest.raises(UserError, match=r"b.txt has no weight, others have"):
        prepare_sources(tmp_path, vocabulary, [f"{tmp_path / 'a.txt'},weight=1", str(tmp_path / "b.txt")])


def test_of_equal_documents_one_is_kept(tmp_path, vocabulary):
    """cases A23, at the size of documents; copies lie in different files and runs."""
    documents = corpus(np.random.default_rng(0), 40).split("\n\n")
    (tmp_path / "a.txt").write_text("\n\n".join(documents[:30]))
    (tmp_path / "b.txt").write_text("\n\n".join(documents[20:] + documents[:5]))
    sources = [str(tmp_path / "a.txt"), str(tmp_path / "b.txt")]
    prepared = prepare_sources(tmp_path, vocabulary, sources, duplicates="exact", block_bytes=4000)
    assert prepared.report["documents"] == 40
    assert prepared.report["left_out"] == {"duplicates": 15}


def test_nearly_equal_documents_are_found_and_different_ones_stay(tmp_path, vocabulary):
    pytest.importorskip("datasketch", reason="extra [clean] is not installed")
    rng = np.random.default_rng(0)
    different = [" ".join(f"w{w}" for w in rng.integers(0, 300, 200)) for _ in range(30)]
    one_word_changed = [" ".join([*text.split()[:100], "another", *text.split()[101:]]) for text in different[:10]]
    half_changed = [" ".join(text.split()[:100] + different[-1].split()[100:]) for text in different[10:15]]
    (tmp_path / "a.txt").write_text("\n\n".join(different + one_word_changed + half_changed + different[:3]))
    prepared = prepare_sources(tmp_path, vocabulary, [str(tmp_path / "a.txt")], duplicates="near", block_bytes=20_000)
    assert prepared.report["left_out"] == {"duplicates": 3, "near duplicates": 10}
    assert prepared.report["documents"] == 35


def test_documents_of_other_lengths_and_languages_are_left_out_and_counted(tmp_path, vocabulary):
    pytest.importorskip("py3langid", reason="extra [clean] is not installed")
    english = "This is a sentence in plain English, and it is followed by another one."
    german = "Dies ist ein Satz auf Deutsch, und gleich danach folgt noch ein zweiter."
    (tmp_path / "a.txt").write_text("\n\n".join([english] * 6 + [german] * 4 + ["w1", "w2 " * 200]))
    limits = {"least_characters": 10, "most_characters": 400}
    prepared = prepare_sources(tmp_path, vocabulary, [str(tmp_path / "a.txt")], languages=("en",), **limits)
    assert prepared.report["documents"] == 6
    assert prepared.report["left_out"] == {"other language": 4, "too short": 1, "too long": 1}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"least_characters": 10, "most_characters": 5}, "most_characters 5 is below least_characters 10"),
        ({"most_characters": -1}, "expected 0 or more"),
        ({"duplicates": "fuzzy"}, "duplicates: found 'fuzzy', expected one of keep, exact, near"),
        ({"on_error": "ignore"}, "on_error: found 'ignore', expected one of fail, skip"),
    ],
)
def test_settings_that_make_no_sense_are_named(tmp_path, vocabulary, settings, message):
    (tmp_path / "a.txt").write_text("w1.")
    with pytest.raises(UserError, match=re.escape(message)):
        prepare_sources(tmp_path, vocabulary, [str(tmp_path / "a.txt")], **settings)


def test_a_language_that_the_detector_does_not_know_is_refused(tmp_path, vocabulary):
    pytest.importorskip("py3langid", reason="extra [clean] is not installed")
    (tmp_path / "a.txt").write_text("w1.")
    with pytest.raises(UserError, match=r"languages: found 'xx', expected some of .*, af, "):
        prepare_sources(tmp_path, vocabulary, [str(tmp_path / "a.txt")], languages=("xx",))


def test_what_cannot_be_read_is_skipped_and_counted(tmp_path, vocabulary):
    (tmp_path / "a.txt").write_bytes(b"w1 w2.\n\nw3 \xff w4.\n\nw5 w6.\n")
    (tmp_path / "b.jsonl").write_text('{"text": "w7 w8."}\n{"text": 3}\nnot json\n{"text": "w9."}\n')
    prepared = prepare_sources(tmp_path, vocabulary, [str(tmp_path / "*")], on_error="skip")
    assert prepared.report["documents"] == 4
    assert prepared.report["left_out"] == {"unreadable": 3}
    assert any("byte 0xff" in message for message in prepared.report["skipped"])
    assert any("left out, 3 places" in warning for warning in prepared.report["warnings"])
