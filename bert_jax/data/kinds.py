"""The kinds of example: which pieces of text they are made of, and what is written of a row."""

from dataclasses import dataclass

import numpy as np

from bert_jax.data import contiguous
from bert_jax.data.examples import Account, Rows, assemble, concatenate, segment_ids, token_types
from bert_jax.data.packing import best_fit
from bert_jax.data.pairs import as_pieces, make_pairs
from bert_jax.data.records import Field, id_type
from bert_jax.errors import UserError

KINDS = ("pairs", "sop", "full_sentences", "doc_sentences", "packed")
PIECES = ("documents", "doc_sentences", "pairs", "sop")
# Label of a row or piece, and the names of its two values, by the kind of piece.
LABELS = {
    "pairs": ("next_sentence_label", ("next", "random")),
    "sop": ("sentence_order_label", ("in_order", "swapped")),
}
_WITHOUT_LABEL = {
    "full_sentences": contiguous.full_sentences,
    "doc_sentences": contiguous.doc_sentences,
    "documents": contiguous.documents,
}
LEAST_LENGTH = 8
MOST_PIECES = 255  # segment ids are bytes
TOKENS_A_PIECE = 16  # rows have room for length / 16 pieces


@dataclass(frozen=True)
class ExampleConfig:
    """What examples are made. `pieces` and `piece_length` (0: the row's) are for kind 'packed' only."""

    kind: str = "pairs"
    length: int = 128
    passes: int = 1
    short_probability: float = 0.1
    pieces: str = "documents"
    piece_length: int = 0

    def check(self):
        """Raises UserError for settings that make no sense or contradict each other, naming them."""
        for name, value, known in (("kind", self.kind, KINDS), ("pieces", self.pieces, PIECES)):
            if value not in known:
                raise UserError(f"{name}: found {value!r}, expected one of {', '.join(known)}")
        limits = [("length", LEAST_LENGTH, 2**16), ("passes", 1, 1000), ("short_probability", 0, 1)]
        for name, least, most in limits:
            if not least <= getattr(self, name) <= most:
                raise UserError(f"{name}: found {getattr(self, name)}, expected {least} to {most}")
        if self.kind != "packed" and (self.pieces != "documents" or self.piece_length):
            raise UserError(f"pieces and piece_length are for kind 'packed': found them with kind {self.kind!r}")
        if self.piece_length and not LEAST_LENGTH <= self.piece_length <= self.length:
            raise UserError(f"piece_length: found {self.piece_length}, expected {LEAST_LENGTH} to length {self.length}")
        if self.passes > 1 and self.piece_kind not in LABELS:
            raise UserError(
                f"passes: found {self.passes}, expected 1 for {self.piece_kind!r}: each pass would cut the same rows "
                "(masks are drawn anew in training anyway)"
            )

    @property
    def piece_kind(self):
        return self.pieces if self.kind == "packed" else self.kind

    @property
    def label_values(self):
        """The names of the label's two values, or None for kinds without one."""
        return LABELS[self.piece_kind][1] if self.piece_kind in LABELS else None

    @property
    def most_pieces(self):
        """How many pieces a row holds at most."""
        return min(MOST_PIECES, max(2, self.length // TOKENS_A_PIECE)) if self.kind == "packed" else 1


def example_fields(config, vocab_size):
    """The features of the data set: ids are uint16 where the vocabulary allows, else int32."""
    made = [Field("input_ids", id_type(vocab_size), config.length)]
    if config.label_values:
        name, values = LABELS[config.piece_kind]
        made.append(Field(name, "uint8", config.most_pieces) if config.kind == "packed" else Field(name, labels=values))
        made.append(Field("token_type_ids", "uint8", config.length))
    if config.kind == "packed":
        made.append(Field("segment_ids", "uint8", config.length))
    return tuple(made)


def make_rows(block, config, rng):
    """The rows of a block in their final, shuffled order: (Rows, Account). All is a function of block and rng state."""
    length = config.piece_length or config.length
    pieces, account = _plan(block, config, length, rng)
    if config.kind != "packed":
        return Rows(pieces.take(rng.permutation(len(pieces))), np.arange(len(pieces) + 1)), account
    row = best_fit(pieces.lengths, config.length, config.most_pieces)
    n_rows = int(row.max(initial=-1)) + 1
    place = rng.permutation(n_rows)[row]
    order = np.lexsort((rng.random(len(pieces)), place))  # in a row, too, long pieces do not always come first
    return Rows(pieces.take(order), np.searchsorted(place[order], np.arange(n_rows + 1))), account


def write_rows(ids, rows, config, cls_id, sep_id, pad_id):
    """The columns of the rows: name -> array, for the fields of `example_fields`."""
    columns = {"input_ids": assemble(ids, rows, config.length, cls_id, sep_id, pad_id)}
    if config.label_values:
        label = rows.pieces.label
        if config.kind == "packed":
            counts = np.diff(rows.first)
            label = np.zeros((len(rows), config.most_pieces), np.uint8)
            label[np.arange(config.most_pieces) < counts[:, None]] = rows.pieces.label
        columns |= {LABELS[config.piece_kind][0]: label, "token_type_ids": token_types(rows, config.length)}
    if config.kind == "packed":
        columns["segment_ids"] = segment_ids(rows, config.length)
    return columns


def _plan(block, config, length, rng):
    """(Pieces, Account) of all passes."""
    kind = config.piece_kind
    if kind == "pairs":
        pairs, account = make_pairs(block, length, config.short_probability, config.passes, rng)
        return as_pieces(pairs), account
    if kind == "sop":
        plans = [
            contiguous.sentence_order_pairs(block, length, config.short_probability, rng) for _ in range(config.passes)
        ]
        return concatenate([pieces for pieces, _ in plans]), sum((spent for _, spent in plans), Account())
    return _WITHOUT_LABEL[kind](block, length)
