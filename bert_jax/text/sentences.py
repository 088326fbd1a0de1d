"""Sentences out of documents, whatever their layout."""

import re
from collections.abc import Sequence

import numpy as np
import sentencex

from bert_jax.errors import UserError

# Hard-wrapped prose keeps to some 80 columns and never passes this; a paragraph on one line nearly always does.
WRAP_COLUMNS = 120
WRAP_CHARACTERS = 20_000  # of a document show how it is wrapped
WINDOW = 20_000  # characters of a paragraph that are split at a time

# Whitespace of several bytes: sentencex 1.0.32 panics on some text with an initial beside one. One by one they are
# replaced ten times as fast as by a regular expression.
_WIDE_SPACES = "\x85\xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u2029\u202f\u205f\u3000"

_LANGUAGE = re.compile(r"[a-z]{2,3}")


def split_sentences(
    documents: Sequence[str], language: str = "en", one_per_line: bool = False
) -> tuple[list[str], np.ndarray]:
    """Sentences of all documents, flat, and int64 offsets: document i owns sentences[offsets[i] : offsets[i + 1]].

    language: an ISO 639 code, as sentencex takes it (a language without rules of its own is split by those of a
    relative or by general ones). Blank lines always end a sentence. A single newline does where lines are paragraphs,
    and does not in hard-wrapped prose, where it stands for a space: which of both a document is, the length of its
    first lines tells (`WRAP_COLUMNS`). With one_per_line the lines are the sentences and nothing else is split.
    Sentences are stripped and hold no newline; those of only whitespace are dropped, nothing else is lost.
    Raises UserError for what is no language code.
    """
    if not _LANGUAGE.fullmatch(language):
        raise UserError(f"language {language!r} is no ISO 639 code: expected one such as 'en'")
    sentences: list[str] = []
    offsets = np.zeros(len(documents) + 1, np.int64)
    for index, document in enumerate(documents):
        pieces = document.split("\n") if one_per_line else _segment(document, language)
        sentences += filter(None, map(str.strip, pieces))
        offsets[index + 1] = len(sentences)
    return sentences, offsets


def _segment(document: str, language: str) -> list[str]:
    """sentencex ends a sentence at a blank line and reads a single newline as a space."""
    if not document.isascii():
        for space in _WIDE_SPACES:
            document = document.replace(space, " ")
    if "\n" not in document:
        return _segment_paragraphs(document, language)
    beginning = document[:WRAP_CHARACTERS]
    long = sum(length for length in map(len, beginning.split("\n")) if length > WRAP_COLUMNS)
    if 2 * long > len(beginning):
        return _segment_paragraphs(document.replace("\n", "\n\n"), language)
    return [piece.replace("\n", " ") for piece in _segment_paragraphs(document, language)]


def _has_long_paragraph(text: str) -> bool:
    """Whether a stretch of more than WINDOW characters has no blank line in it."""
    start = 0
    while len(text) - start > WINDOW:
        end = text.rfind("\n\n", start, start + WINDOW + 2)
        if end < 0:
            return True
        start = end + 2
    return False


def _segment_paragraphs(text: str, language: str) -> list[str]:
    """sentencex takes a time that grows with the square of a paragraph's length: long ones go through in windows."""
    if not _has_long_paragraph(text):
        return sentencex.segment(language, text)
    pieces = []
    for paragraph in text.split("\n\n"):
        start = 0
        while len(paragraph) - start > WINDOW:
            window = paragraph[start : start + WINDOW]
            found = sentencex.segment(language, window)
            if len(found) > 1:  # the last one may go on behind the window
                pieces += found[:-1]
                start += window.rindex(found[-1])
            else:  # no end in sight: cut at a space, or anywhere
                cut = window.rfind(" ") + 1 or WINDOW
                pieces.append(window[:cut])
                start += cut
        pieces += sentencex.segment(language, paragraph[start:])
    return pieces
