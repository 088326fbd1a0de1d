"""What an example is made of: documents as token ids, pieces of text cut out of them, and rows of pieces.

    piece   [CLS] segment [SEP] segment [SEP] ...     what the model reads as one text
    row     one piece, or in packed data several, then padding

Pieces and rows are plans, arrays of places in a block's ids; `assemble`, `token_types` and `segment_ids` write them.
"""

from dataclasses import dataclass, fields

import numpy as np


@dataclass(frozen=True)
class Block:
    """Documents as flat arrays: no sentence and no document is empty.

    ids: the tokens of all documents, [T]; sentences: where each sentence starts in `ids`, and the end, int64 [S + 1];
    documents: where each document starts in `sentences`, and the end, int64 [D + 1].
    """

    ids: np.ndarray
    sentences: np.ndarray
    documents: np.ndarray


@dataclass
class Account:
    """Where every token went, in tokens: `tokens_in + borrowed == tokens_out + truncated + without_partner`.

    Special tokens are not counted. A pass over the corpus counts its tokens in once more.
    """

    tokens_in: int = 0
    borrowed: int = 0  # tokens of random B segments: they also occur where they come from
    tokens_out: int = 0
    truncated: int = 0
    without_partner: int = 0  # too little text for two segments: see chunks_without_partner
    chunks_without_partner: int = 0  # lone sentences without another document, lone tokens; not part of the balance

    def __add__(self, other):
        return Account(**{f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self)})

    def check(self):
        """Raises AssertionError where tokens appeared or vanished: a bug, never the user's doing."""
        entered, left = self.tokens_in + self.borrowed, self.tokens_out + self.truncated + self.without_partner
        assert entered == left, f"token account does not balance: {entered} in, {left} out or dropped: {self}"


@dataclass(frozen=True)
class Pieces:
    """n pieces of text as places in a block's ids.

    start, length: the segments of all pieces, flat, int64 [M]; token_type: theirs, uint8 [M]; first: int64 [n + 1],
    piece i has the segments first[i] to first[i + 1], one at least; label: uint8 [n], or None where there is none.
    """

    start: np.ndarray
    length: np.ndarray
    token_type: np.ndarray
    first: np.ndarray
    label: np.ndarray | None = None

    def __len__(self):
        return len(self.first) - 1

    @property
    def lengths(self):
        """Tokens of each piece, special ones included: int64 [n]."""
        return 1 + np.diff(np.concatenate([[0], np.cumsum(self.length + 1)])[self.first])

    def take(self, index):
        """The pieces at `index`, an array of integers, in its order."""
        counts = np.diff(self.first)[index]
        first = _ends(counts)
        segments = np.repeat(self.first[:-1][index] - first[:-1], counts) + np.arange(first[-1])
        label = None if self.label is None else self.label[index]
        return Pieces(self.start[segments], self.length[segments], self.token_type[segments], first, label)


def one_segment_pieces(start, length):
    """Pieces of one segment each, without labels."""
    return Pieces(start, length, np.zeros(len(start), np.uint8), np.arange(len(start) + 1))


def concatenate(parts):
    """The pieces of several plans over one block, one after another."""
    ends = _ends([len(part.start) for part in parts])
    firsts = [part.first[:-1] + shift for part, shift in zip(parts, ends[:-1], strict=True)]
    label = None if parts[0].label is None else np.concatenate([part.label for part in parts])
    names = ("start", "length", "token_type")
    return Pieces(*(np.concatenate([getattr(part, name) for part in parts]) for name in names),
                  np.concatenate([*firsts, ends[-1:]]), label)  # fmt: skip


@dataclass(frozen=True)
class Rows:
    """R rows: row r holds the pieces first[r] to first[r + 1], one at least; first: int64 [R + 1]."""

    pieces: Pieces
    first: np.ndarray

    def __len__(self):
        return len(self.first) - 1

    @property
    def lengths(self):
        """Tokens of each row that are not padding: int64 [R]."""
        return np.diff(_ends(self.pieces.lengths)[self.first])

    def slice(self, start, stop):
        """The rows from `start` to before `stop`."""
        first = self.first[start : stop + 1]
        return Rows(self.pieces.take(np.arange(first[0], first[-1])), first - first[0])


def make_block(ids, sentences, documents):
    """A Block without the empty sentences and documents of the input, and how many of each were dropped.

    Empty after tokenization, that is: a line of zero-width joiners is text, yet has no tokens.
    """
    filled = np.diff(sentences) > 0
    # Dropping an empty sentence leaves the tokens where they are; only the offsets thin out.
    kept_sentences = np.append(sentences[:-1][filled], sentences[-1])
    kept_before = np.concatenate([[0], np.cumsum(filled)])
    kept_documents = kept_before[documents]
    kept_documents = kept_documents[np.append(True, kept_documents[1:] != kept_documents[:-1])]
    return Block(ids, kept_sentences, kept_documents), int((~filled).sum()), len(documents) - len(kept_documents)


def assemble(ids, rows, length, cls_id, sep_id, pad_id):
    """The input ids of the rows written out, [R, length] of the type of `ids`."""
    pieces = rows.pieces
    opens = np.zeros(len(pieces.start), np.int64)
    opens[pieces.first[:-1]] = 1  # [CLS] goes before these segments
    widths = opens + pieces.length + 1
    ends = np.cumsum(widths)
    starts = ends - widths
    # The token at place p of all rows' text, padding left out, is that of the block at p + shift.
    shift = pieces.start - starts - opens
    text = ids.take(np.repeat(shift, widths) + np.arange(widths.sum()), mode="clip")
    text[starts[pieces.first[:-1]]] = cls_id
    text[ends - 1] = sep_id
    return _padded(text, rows, length, pad_id)


def token_types(rows, length):
    """The token types of the rows, uint8 [R, length]; 0 at padding."""
    pieces = rows.pieces
    widths = pieces.length + 1
    widths[pieces.first[:-1]] += 1
    return _padded(np.repeat(pieces.token_type, widths), rows, length, 0)


def segment_ids(rows, length):
    """Which piece of its row each token is of, from 1, uint8 [R, length]; 0 at padding."""
    number = np.arange(len(rows.pieces)) - np.repeat(rows.first[:-1], np.diff(rows.first)) + 1
    return _padded(np.repeat(number.astype(np.uint8), rows.pieces.lengths), rows, length, 0)


def _padded(text, rows, length, padding):
    """A value for each token of all rows, one row after another, as [R, length]."""
    is_text_RxL = np.arange(length) < rows.lengths[:, None]
    values_RxL = np.full(is_text_RxL.shape, padding, text.dtype)
    values_RxL[is_text_RxL] = text
    return values_RxL


def _ends(counts):
    """Where each of a run of parts starts, and the end: int64 [n + 1]."""
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
