"""Sentences out of documents, whatever their layout."""

import re
from collections.abc import Sequence

import numpy as np
import sentencex

from bert_jax.errors import UserError

# Hard-wrapped prose keeps to some 80 columns and never passes this; a paragraph on one line nearly always does.
WRAP_COLUMNS = 120

_LANGUAGE = re.compile(r"[a-z]{2,3}")


def split_sentences(
    documents: Sequence[str], language: str = "en", one_per_line: bool = False
) -> tuple[list[str], np.ndarray]:
    """Sentences of all documents, flat, and int64 offsets: document i owns sentences[offsets[i] : offsets[i + 1]].

    language: an ISO 639 code, as sentencex takes it (a language without rules of its own is split by those of a
    relative or by general ones). Blank lines always end a sentence. A single newline does where lines are paragraphs,
    and does not in hard-wrapped prose, where it stands for a space: which of both a document is, the length of its
    lines tells (`WRAP_COLUMNS`). With one_per_line the lines are the sentences and nothing else is split.
    Sentences are stripped and hold no newline; those of only whitespace are dropped, nothing else is lost.
    Raises UserError for what is no language code.
    """
    if not _LANGUAGE.fullmatch(language):
        raise UserError(f"language {language!r} is no ISO 639 code: expected one such as 'en'")
    sentences: list[str] = []
    offsets = np.zeros(len(documents) + 1, np.int64)
    for index, document in enumerate(documents):
        if one_per_line:
            pieces = document.split("\n")
        elif "\n" not in document:
            pieces = sentencex.segment(language, document)
        else:
            pieces = _segment_lines(document, language)
        sentences += [sentence for piece in pieces if (sentence := piece.strip())]
        offsets[index + 1] = len(sentences)
    return sentences, offsets


def _segment_lines(document: str, language: str) -> list[str]:
    """sentencex ends a sentence at a blank line and reads a single newline as a space."""
    lengths = [len(line) for line in document.split("\n")]
    long = sum(length for length in lengths if length > WRAP_COLUMNS)
    if 2 * long > len(document):
        return sentencex.segment(language, document.replace("\n", "\n\n"))
    return [piece.strip().replace("\n", " ") for piece in sentencex.segment(language, document)]
