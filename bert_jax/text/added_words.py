"""Words that a vocabulary did not have: where they go, and what rows of the embedding table they start from.

A word becomes an ordinary piece that its tokenizer finds by the rule it has always had: WordPiece takes the longest
piece that fits (so longer words that start with the new one are spelt with it, too), byte-level BPE takes a part of the
text that is a piece as a whole (`ignore_merges`, as in Llama 3) and spells all others as before.
"""

import copy
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bert_jax.errors import UserError
from bert_jax.text.backends import HuggingFaceTokens
from bert_jax.text.byte_level import piece_text
from bert_jax.text.tokenizer import Tokenizer
from bert_jax.text.wordpiece import MAX_WORD_CHARS, PLACEHOLDER


@dataclass(frozen=True)
class AddedWord:
    """piece: as the vocabulary spells it. placeholder: the [unusedN] whose id it took, or '' for a new id."""

    piece: str
    id: int
    placeholder: str


def require_extensible(tokenizer: Tokenizer) -> HuggingFaceTokens:
    """The backend of a tokenizer to which words can be added; UserError for another kind."""
    backend = tokenizer.backend
    kind = backend.definition["model"]["type"] if isinstance(backend, HuggingFaceTokens) else "SentencePiece"
    if kind != "WordPiece" and not (kind == "BPE" and backend.byte_level):
        raise UserError(f"{backend.path}: is a {kind} tokenizer: words can be added to WordPiece and byte-level BPE")
    return backend


def piece_of_word(tokenizer: Tokenizer, word: str) -> str:
    """The one piece that would spell the word; UserError where there can be none."""
    backend = require_extensible(tokenizer)
    parts = backend.splitter.split(word)
    if len(parts) != 1:
        raise UserError(f"{word!r} is {len(parts)} words to this tokenizer ({' | '.join(parts)}): expected one")
    if not backend.byte_level and len(parts[0]) > MAX_WORD_CHARS:
        raise UserError(f"a word of {len(parts[0])} characters: expected at most {MAX_WORD_CHARS}")
    return parts[0]


def word_of_piece(tokenizer: Tokenizer, piece: str) -> str:
    """The text of a word's piece, whether the vocabulary has it or not: 'cat' of 'cat' or 'Ġcat'."""
    return piece_text(piece).removeprefix(" ") if tokenizer.backend.byte_level else piece


def frequent_words(tokenizer: Tokenizer, word_counts: Mapping[str, int], number: int) -> list[str]:
    """Pieces for the `number` most frequent words that take several pieces or are unknown; ties in order of text.

    word_counts: the tokenizer's own words (`backend.splitter`). A word has a letter, and starts a word:
    the parts of byte-level BPE that follow no space are left out. There may be fewer.
    """
    backend = require_extensible(tokenizer)
    start = "Ġ" if backend.byte_level else ""
    longest = None if backend.byte_level else MAX_WORD_CHARS
    known = set(backend.pieces)
    pieces = [
        piece
        for piece, _ in sorted(word_counts.items(), key=lambda item: (-item[1], item[0]))
        if piece.startswith(start) and piece not in known and (longest is None or len(piece) <= longest)
    ]
    words = [word_of_piece(tokenizer, piece) for piece in pieces]
    return [piece for piece, word in zip(pieces, words, strict=True) if any(map(str.isalpha, word))][:number]


def extend_tokenizer(tokenizer: Tokenizer, pieces: Sequence[str]) -> tuple[Tokenizer, list[AddedWord]]:
    """The tokenizer with these pieces added, and where each one went; every other id keeps its piece.

    pieces: distinct ones that the vocabulary lacks, as `piece_of_word` gives them. They take the ids of [unusedN] in
    ascending order while there are any, then new ids at the end. UserError where a word would not be found whole.
    """
    backend = require_extensible(tokenizer)
    known, twice = set(backend.pieces) & set(pieces), len(pieces) - len(set(pieces))
    if known or twice:
        raise UserError(f"{min(known)!r} is in the vocabulary" if known else f"{twice} words are given twice")
    slots = [index for index, piece in enumerate(backend.pieces) if PLACEHOLDER.fullmatch(piece)]
    ids = [*slots, *range(tokenizer.size, tokenizer.size + len(pieces))]
    added = [
        AddedWord(piece, index, backend.pieces[index] if index < tokenizer.size else "")
        for piece, index in zip(pieces, ids, strict=False)
    ]
    extended = Tokenizer(HuggingFaceTokens(_with_words(backend.definition, added), backend.path, backend.state[-1]))
    _check(tokenizer, extended, added)
    return extended, added


def grow_table(table: np.ndarray, old: Tokenizer, new: Tokenizer) -> np.ndarray:
    """The table of the extended vocabulary: rows of unchanged pieces bit-identical, new ones the mean of old rows.

    table: [V, D], V = old.size (or [V]: the decoder's bias), of any float type, which is kept; it is not changed. A new
    word's row is the mean of the rows of the pieces that spelled it before, as in Gee et al. 2022, "Fast Vocabulary
    Transfer for Language Model Compression" (EMNLP industry track); the row of the unknown token where none did.
    That also holds for the [unusedN] rows that words took: they were never trained.
    Raises UserError where the table is not of the old vocabulary, or the new one does not extend it.
    """
    if table.ndim == 0 or len(table) != old.size:
        raise UserError(f"a table of shape {table.shape}: expected {old.size} rows, one an id of the old vocabulary")
    if new.size < old.size:
        raise UserError(f"the new vocabulary has {new.size} ids, the old one {old.size}: expected as many or more")
    before, after = old.tokens(range(old.size)), new.tokens(range(new.size))
    fresh = [index for index in range(old.size) if before[index] != after[index]]
    for index in fresh:
        if not PLACEHOLDER.fullmatch(before[index]):
            raise UserError(f"id {index} is {before[index]!r} in the old vocabulary, {after[index]!r} in the new one")
    fresh += range(old.size, new.size)
    grown = np.concatenate([table, np.zeros((new.size - old.size, *table.shape[1:]), table.dtype)])
    ids, offsets = old.encode([new.word(index) for index in fresh])
    for row, index in enumerate(fresh):
        pieces = ids[offsets[row] : offsets[row + 1]]
        if not len(pieces):
            raise UserError(f"{after[index]!r} (id {index}) has no piece in the old vocabulary")
        grown[index] = table[pieces].astype(np.float64).mean(axis=0).astype(table.dtype)
    return grown


def _with_words(definition: dict, added: Sequence[AddedWord]) -> str:
    definition = copy.deepcopy(definition)
    model = definition["model"]
    replaced = {word.placeholder for word in added}
    tokens = [token for token in definition["added_tokens"] if token["content"] not in replaced]
    definition["added_tokens"] = tokens
    # `tokenizers` numbers added tokens that the model lacks from the model's size on, which is about to change
    vocabulary = model["vocab"] | {token["content"]: token["id"] for token in tokens}
    for word in added:
        vocabulary.pop(word.placeholder, None)
        vocabulary[word.piece] = word.id
    model["vocab"] = vocabulary
    if model["type"] == "BPE":
        model["ignore_merges"] = True
    return json.dumps(definition)


def _check(old: Tokenizer, new: Tokenizer, added: Sequence[AddedWord]) -> None:
    """What was promised: the other ids have their pieces, and each word is found whole."""
    expected = old.backend.pieces + [""] * (new.size - old.size)
    for word in added:
        expected[word.id] = word.piece
    if new.backend.pieces != expected:
        raise UserError(f"{old.backend.path}: its tokenizer gives other ids to its pieces once words are added")
    words = [word_of_piece(new, word.piece) for word in added]
    new.check_fast(words)
    ids, offsets = new.encode(words)
    for row, word in enumerate(added):
        if ids[offsets[row] : offsets[row + 1]].tolist() != [word.id]:
            raise UserError(f"{old.backend.path}: its tokenizer does not find {word.piece!r} whole once it is added")
