"""Sentences: nothing lost in any layout, and each layout read as it is meant."""

import numpy as np
import pytest
import sentencex
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_jax.errors import UserError
from bert_jax.text.documents import find_files, read_documents
from bert_jax.text.sentences import WINDOW, WRAP_COLUMNS, split_sentences

THREE = ["Mr. Smith went to Washington.", "He did not stay long!", "Why should he?"]


def squeezed(text):
    return "".join(text.split())


@settings(max_examples=300, deadline=None)
@given(
    documents=st.lists(st.text("aB. !?\n\n\"'\u3002\u4e2d\u200d\u2028\u00e9\t", max_size=80), max_size=5),
    one_per_line=st.booleans(),
)
def test_no_text_is_lost(documents, one_per_line):
    sentences, offsets = split_sentences(documents, one_per_line=one_per_line)
    assert offsets.dtype == np.int64 and offsets[0] == 0 and offsets[-1] == len(sentences)
    assert len(offsets) == len(documents) + 1
    for document, start, end in zip(documents, offsets, offsets[1:], strict=False):
        assert squeezed("".join(sentences[start:end])) == squeezed(document)
    assert all(sentence.strip() == sentence and sentence and "\n" not in sentence for sentence in sentences)


def test_every_layout_of_the_same_text_gives_the_same_sentences():
    one_paragraph = " ".join(THREE)
    wrapped = "Mr. Smith went\nto Washington. He did\nnot stay long! Why\nshould he?"
    one_a_line = "\n".join(THREE)
    sentences, offsets = split_sentences([one_paragraph, wrapped, one_a_line])
    assert sentences == THREE * 3
    assert offsets.tolist() == [0, 3, 6, 9]


def test_lines_that_are_paragraphs_end_a_sentence_and_wrapped_lines_do_not():
    paragraph = "It was a bright cold day in April, and the clocks were striking thirteen " * 3
    assert len(paragraph) > WRAP_COLUMNS
    sentences, _ = split_sentences([f"A heading\n{paragraph}\n{paragraph}"])
    assert sentences == ["A heading", paragraph.strip(), paragraph.strip()]
    wrapped = "It was a bright cold day in April,\nand the clocks were striking thirteen"
    assert split_sentences([wrapped])[0] == [wrapped.replace("\n", " ")]


def test_a_blank_line_inside_a_document_ends_a_sentence():
    assert split_sentences(["First half\n\nsecond half\n\n\nthird"])[0] == ["First half", "second half", "third"]


def test_one_sentence_a_line_splits_nothing_else():
    sentences, offsets = split_sentences(["A b. C d.\n  \nE f.", "", "\n"], one_per_line=True)
    assert sentences == ["A b. C d.", "E f."]
    assert offsets.tolist() == [0, 2, 2, 2]


def test_no_documents():
    sentences, offsets = split_sentences([])
    assert sentences == [] and offsets.tolist() == [0]


def test_an_unknown_kind_of_language_is_refused():
    with pytest.raises(UserError, match="language 'English' is no ISO 639 code"):
        split_sentences(["x"], language="English")
    assert split_sentences(["これは本です。あれは犬です。"], "ja")[0] == ["これは本です。", "あれは犬です。"]


def test_real_text_keeps_every_character(shared_data):
    file = find_files([str(shared_data / "wikitext2" / "wikitext-2-raw-test.txt")])[0]
    documents = list(read_documents(file))
    sentences, offsets = split_sentences(documents)
    assert squeezed("".join(sentences)) == squeezed("".join(documents))
    assert 8_000 < len(sentences) < 15_000  # 241,211 tokens at some 25 a sentence
    assert (np.diff(offsets) > 0).all()


def test_wide_spaces_beside_initials_do_not_stop_the_splitter():
    """sentencex 1.0.32 panics on such text, which Wikipedia is full of: "J.<no-break space>K. Rowling"."""
    for space in "\x85\xa0\u1680\u2000\u2007\u200a\u2028\u2029\u202f\u205f\u3000":
        for text in (f"B{space}.中", f"x{space}B. y", f"J.{space}K. Rowling wrote it.", f"{space}B.{space}c\nd"):
            sentences, _ = split_sentences([text])
            assert "".join("".join(sentences).split()) == "".join(text.split())


def test_a_long_paragraph_is_split_as_a_short_one_in_windows(monkeypatch):
    """sentencex 1.0.32 takes 29 s for a paragraph of 8 MB, and four times that for twice as much: it gets little."""
    given = []
    monkeypatch.setattr(
        "bert_jax.text.sentences.sentencex.segment",
        lambda language, text, segment=sentencex.segment: given.append(len(text)) or segment(language, text),
    )
    sentences = [f"Sentence number {i} was written by J. K. Smith, Ph.D., in 1999." for i in range(60_000)]
    assert split_sentences([" ".join(sentences)])[0] == sentences
    assert max(given) <= WINDOW and sum(given) < 1.1 * len(" ".join(sentences))
    short = ["A short paragraph. It has two sentences."] * 1000
    assert len(split_sentences(["\n\n".join([*short, " ".join(sentences), *short])])[0]) == 60_000 + 4 * 1000
    assert max(given) <= WINDOW


def test_a_paragraph_without_an_end_of_sentence_is_cut_at_a_space():
    text = "word " * WINDOW
    found, _ = split_sentences([text])
    assert len(found) >= 5 and all(len(sentence) < WINDOW and set(sentence.split()) == {"word"} for sentence in found)
    found, _ = split_sentences(["x" * (3 * WINDOW + 5)])
    assert [len(sentence) for sentence in found] == [WINDOW] * 3 + [5]
