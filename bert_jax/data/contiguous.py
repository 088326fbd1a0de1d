"""Examples that keep the text in its order and lose none of it: full sentences, sentences of one document, documents
as they are, and sentence-order pairs.

A sentence that no row can hold is cut into parts that fill rows, the last part being a sentence of its own. As in
pairs.py, where an example that starts at some sentence would end is worked out for all starts at once.
"""

import numpy as np

from bert_jax.data.examples import Account, Block, Pieces, one_segment_pieces
from bert_jax.data.pairs import chain


def full_sentences(block, length):
    """Rows full of sentences that run on across documents, with a [SEP] at each document's end: (Pieces, Account).

    Source: Liu et al. 2019 (RoBERTa), section 4.2, "FULL-SENTENCES": as many whole sentences as fit.
    """
    room = length - 2
    block = _split_sentences(block, room)
    bounds, document_of = block.sentences, _document_of(block)
    # A row from sentence s to before e takes [CLS], its tokens, and a [SEP] for each document that it touches.
    taken_before_end = bounds[1:] + document_of
    start = np.arange(len(document_of))
    following = np.searchsorted(taken_before_end, room + bounds[:-1] + document_of, side="right")
    start = chain(following)
    # The segments of a row: cut where it starts, and where a document does.
    cuts = np.union1d(start, block.documents[:-1])
    tokens = bounds[np.append(cuts, len(document_of))]
    first = np.searchsorted(cuts, np.append(start, len(document_of)))
    return _account_for(block, Pieces(tokens[:-1], np.diff(tokens), np.zeros(len(cuts), np.uint8), first))


def doc_sentences(block, length):
    """As many whole sentences as fit into a row, never of two documents: (Pieces, Account).

    Source: Liu et al. 2019 (RoBERTa), section 4.2, "DOC-SENTENCES".
    """
    block = _split_sentences(block, length - 2)
    bounds = block.sentences
    start, end = _whole_sentences(block, np.full(len(bounds) - 1, length - 2))
    return _account_for(block, one_segment_pieces(bounds[start], bounds[end] - bounds[start]))


def documents(block, length):
    """Documents cut, at tokens, into pieces that fill a row, and a rest: (Pieces, Account). It is for packing."""
    bounds, _ = _split(block.sentences[block.documents], length - 2)
    return _account_for(block, one_segment_pieces(bounds[:-1], np.diff(bounds)))


def sentence_order_pairs(block, length, short_probability, rng):
    """Two consecutive segments of a document, in order (label 0) or swapped (1, half of them): (Pieces, Account).

    As whole sentences as fit, or as fit into a shorter target with `short_probability`, are cut in two after a random
    one. A sentence that stands alone is cut at a token; no other document is ever its partner. A lone token has no
    order: it is dropped and counted.
    Source: Lan et al. 2020 (ALBERT), section 3.1; google-research/albert create_pretraining_data.py.
    """
    room = length - 3
    block = _split_sentences(block, room)
    bounds, document_of = block.sentences, _document_of(block)
    n_documents = len(block.documents) - 1
    is_short = rng.random(n_documents) < short_probability
    target = np.where(is_short, rng.integers(2, room, n_documents, endpoint=True), room)
    start, end = _whole_sentences(block, target[document_of])
    share, swapped = rng.random(len(start)), (rng.random(len(start)) < 0.5).astype(np.uint8)
    n_sentences = end - start
    n_tokens = bounds[end] - bounds[start]
    at_sentence = bounds[start + 1 + (share * (n_sentences - 1)).astype(np.int64)]
    at_token = bounds[start] + 1 + (share * (n_tokens - 1)).astype(np.int64)
    cut = np.where(n_sentences > 1, at_sentence, at_token)
    a_start, a_length, b_length = bounds[start], cut - bounds[start], bounds[end] - cut
    segment_start, segment_length = np.stack([a_start, cut], axis=1), np.stack([a_length, b_length], axis=1)
    order = np.stack([swapped, 1 - swapped], axis=1).astype(np.int64)
    pieces = Pieces(
        start=np.take_along_axis(segment_start, order, axis=1).ravel(),
        length=np.take_along_axis(segment_length, order, axis=1).ravel(),
        token_type=np.tile(np.array([0, 1], np.uint8), len(start)),
        first=np.arange(0, 2 * len(start) + 1, 2),
        label=swapped,
    )
    lone = n_tokens < 2
    return _account_for(block, pieces.take(np.flatnonzero(~lone)), lone=int(lone.sum()))


def _account_for(block, pieces, lone=0):
    account = Account(
        tokens_in=len(block.ids),
        tokens_out=int(pieces.length.sum()),
        without_partner=lone,
        chunks_without_partner=lone,
    )
    account.check()
    return pieces, account


def _document_of(block):
    """Which document each sentence belongs to."""
    return np.repeat(np.arange(len(block.documents) - 1), np.diff(block.documents))


def _whole_sentences(block, target):
    """(start, end) of runs of sentences of one document: as many as hold `target[start]` tokens, one at least."""
    bounds = block.sentences
    start = np.arange(len(bounds) - 1)
    most = np.searchsorted(bounds, bounds[:-1] + target, side="right") - 1
    following = np.minimum(np.maximum(most, start + 1), block.documents[1:][_document_of(block)])
    start = chain(following)
    return start, following[start]


def _split_sentences(block, room):
    """The block with sentences of at most `room` tokens."""
    bounds, new_place = _split(block.sentences, room)
    return Block(block.ids, bounds, new_place[block.documents])


def _split(bounds, room):
    """Ranges cut into parts of `room`, the last one shorter: (the new bounds, which of them each old bound is)."""
    parts = -(-np.diff(bounds) // room)
    new_place = np.concatenate([[0], np.cumsum(parts)])
    part = np.arange(new_place[-1]) - np.repeat(new_place[:-1], parts)
    return np.append(np.repeat(bounds[:-1], parts) + room * part, bounds[-1]), new_place
