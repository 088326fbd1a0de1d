"""Packed rows, and the same pieces in rows of their own."""

import numpy as np

LENGTH = 24
# Lengths of the pieces of each row; the third row is full, the last ends in padding.
ROWS = ((9, 5, 10), (12, 10), (24,), (3, 4, 2, 6))
SLOTS = 5  # for labels; no row has as many pieces


def pack(pieces, rows, slots=SLOTS):
    """The batch of `pieces` (dicts of 1-d arrays and a label) in rows: `rows` holds lists of indices into them."""
    batch = {name: np.zeros((len(rows), LENGTH), np.int32) for name in ("input_ids", "token_type_ids", "segment_ids")}
    batch["next_sentence_label"] = np.zeros((len(rows), slots), np.int32)
    for row, members in enumerate(rows):
        start = 0
        for number, member in enumerate(members):
            piece = pieces[member]
            place = slice(start, start + len(piece["input_ids"]))
            batch["input_ids"][row, place] = piece["input_ids"]
            batch["token_type_ids"][row, place] = piece["token_type_ids"]
            batch["segment_ids"][row, place] = number + 1
            batch["next_sentence_label"][row, number] = piece["label"]
            start = place.stop
    return batch


def alone(pieces):
    """The batch of the pieces in rows of their own, unpacked."""
    batch = pack(pieces, [[n] for n in range(len(pieces))])
    labels = batch["next_sentence_label"][:, 0]
    return {name: batch[name] for name in ("input_ids", "token_type_ids")} | {"next_sentence_label": labels}


def random_pieces(vocab_size, rows=ROWS, seed=0, first_id=5, cls_id=1, sep_id=2):
    """(pieces, rows for `pack`): [CLS] words [SEP], of these lengths, ids from `first_id` up."""
    rng = np.random.default_rng(seed)
    pieces, members = [], []
    for lengths in rows:
        members.append(list(range(len(pieces), len(pieces) + len(lengths))))
        for length in lengths:
            ids = rng.integers(first_id, vocab_size, length)
            ids[0], ids[-1] = cls_id, sep_id
            types = (np.arange(length) > length // 2).astype(np.int32)
            pieces.append({"input_ids": ids, "token_type_ids": types, "label": int(rng.integers(2))})
    return pieces, members


def places(rows):
    """(index of the piece, row, slice of the row) for each piece, of `rows` that hold lists of lengths."""
    found = []
    for row, lengths in enumerate(rows):
        ends = np.cumsum(lengths)
        found += [(row, slice(int(end - length), int(end))) for end, length in zip(ends, lengths, strict=True)]
    return [(index, row, place) for index, (row, place) in enumerate(found)]
