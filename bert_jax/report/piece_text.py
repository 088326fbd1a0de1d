"""The text that each token of a row stands for, so that the tokens one after another read as the text."""

import codecs
import re

from bert_jax.text.byte_level import byte_of_character

_BYTE_PIECE = re.compile("<0x([0-9A-Fa-f]{2})>")  # SentencePiece's, for characters without a piece


def texts_of_tokens(tokenizer, ids):
    """One text a token: a list of strings; a token that starts a word has a space before it.

    Special tokens stand as they are called. Of a character whose bytes are several tokens, the last of these has it,
    the others show their bytes (hexadecimal, in ⟨⟩): of which one may be masked.
    """
    special = named_ids(tokenizer)
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    texts = []
    for index, piece in zip(ids.tolist(), tokenizer.tokens(ids), strict=True):
        if index in special:
            decoder.reset()
            texts.append(f" {piece}")
            continue
        raw = _bytes_of(tokenizer.backend, piece)
        texts.append(decoder.decode(raw) or "⟨" + raw.hex(" ").upper() + "⟩")
    return texts


def named_ids(tokenizer):
    """The ids that stand for no text: the special ones, but for the bytes that SentencePiece counts among them."""
    special = tokenizer.special_ids
    pieces = zip(special.tolist(), tokenizer.tokens(special), strict=True)
    return {index for index, piece in pieces if not _BYTE_PIECE.fullmatch(piece)}


def _bytes_of(backend, piece):
    if backend.byte_level:
        table = byte_of_character()
        if all(character in table for character in piece):
            return bytes(table[character] for character in piece)
        return piece.encode()  # an added token, such as a run of spaces
    if backend.word_prefix is None:
        return f" {piece}".encode()
    prefix, starts = backend.word_prefix
    if not starts:  # WordPiece marks the pieces that go on
        return (piece.removeprefix(prefix) if piece.startswith(prefix) else f" {piece}").encode()
    if byte := _BYTE_PIECE.fullmatch(piece):
        return bytes([int(byte[1], 16)])
    return piece.replace(prefix, " ").encode()
