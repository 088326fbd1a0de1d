"""Kinds that lose no text: against the papers' rules told sentence by sentence, and what holds for every text."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from bert_jax.data import contiguous
from bert_jax.data.examples import make_block
from tests.data.blocks import block_of, corpora, segments_of

LENGTH = 32


def sentences_by_hand(sentence_lengths, room):
    """Documents as lists of sentences, each a list of tokens, those that are too long in parts."""
    token, documents = 0, []
    for lengths in sentence_lengths:
        documents.append([])
        for length in lengths:
            sentence = list(range(token, token + length))
            documents[-1] += [sentence[i : i + room] for i in range(0, length, room)]
            token += length
    return documents


def full_sentences_by_hand(sentence_lengths):
    """RoBERTa's rule, a sentence at a time."""
    rows, row, used = [], [], 1
    for document in sentences_by_hand(sentence_lengths, LENGTH - 2):
        opens = True
        for sentence in document:
            needed = len(sentence) + (1 if opens or not row else 0)
            if used + needed > LENGTH:
                rows.append(row)
                row, used, opens = [], 1, True
                needed = len(sentence) + 1
            if opens:
                row.append([])
            row[-1] += sentence
            used += needed
            opens = False
    return [*rows, row] if row else rows


@settings(max_examples=200, deadline=None)
@given(corpora)
def test_full_sentences_are_those_of_a_walk_by_hand(sentence_lengths):
    pieces, account = contiguous.full_sentences(block_of(sentence_lengths), LENGTH)
    assert segments_of(pieces) == full_sentences_by_hand(sentence_lengths)
    assert pieces.lengths.max() <= LENGTH
    assert account.tokens_in == account.tokens_out == sum(map(sum, sentence_lengths))


@settings(max_examples=200, deadline=None)
@given(corpora)
def test_doc_sentences_are_those_of_a_walk_by_hand(sentence_lengths):
    expected = []
    for document in sentences_by_hand(sentence_lengths, LENGTH - 2):
        row = []
        for sentence in document:
            if len(row) + len(sentence) > LENGTH - 2:
                expected.append([row])
                row = []
            row = row + sentence
        expected.append([row])
    pieces, account = contiguous.doc_sentences(block_of(sentence_lengths), LENGTH)
    assert segments_of(pieces) == expected
    assert account.tokens_in == account.tokens_out


@settings(max_examples=100, deadline=None)
@given(corpora)
def test_documents_are_cut_into_full_pieces_and_a_rest(sentence_lengths):
    pieces, account = contiguous.documents(block_of(sentence_lengths), LENGTH)
    expected = [
        [document[i : i + LENGTH - 2]]
        for document in (list(itertools.chain(*sentences)) for sentences in sentences_by_hand(sentence_lengths, 1000))
        for i in range(0, len(document), LENGTH - 2)
    ]
    assert segments_of(pieces) == expected
    assert account.tokens_in == account.tokens_out


@settings(max_examples=200, deadline=None)
@given(corpora, st.integers(0, 2**32 - 1))
def test_sentence_order_pairs_are_neighbours_of_one_document(sentence_lengths, seed):
    """cases A12: a document of one sentence is split, never paired with another; only lone tokens are dropped."""
    block = block_of(sentence_lengths)
    pieces, account = contiguous.sentence_order_pairs(block, LENGTH, 0.2, np.random.default_rng(seed))
    document_of = np.repeat(np.arange(len(sentence_lengths)), [sum(lengths) for lengths in sentence_lengths])
    used = []
    for (first, second), swapped in zip(segments_of(pieces), pieces.label, strict=True):
        a, b = (second, first) if swapped else (first, second)
        assert a and b and a[-1] + 1 == b[0] and document_of[a[0]] == document_of[b[-1]]
        used += a + b
    assert used == sorted(used) and len(used) == account.tokens_out
    assert account.tokens_in == account.tokens_out + account.without_partner == len(block.ids)
    assert account.without_partner == account.chunks_without_partner
    assert pieces.token_type.tolist() == [0, 1] * len(pieces)
    assert not len(pieces) or pieces.lengths.max() <= LENGTH


def test_half_of_the_sentence_orders_are_swapped_and_the_cut_falls_on_sentences():
    block = block_of([[3] * 400] * 50)
    pieces, _ = contiguous.sentence_order_pairs(block, LENGTH, 0.0, np.random.default_rng(0))
    assert stats.binomtest(int(pieces.label.sum()), len(pieces), 0.5).pvalue > 1e-3
    assert (pieces.length % 3 == 0).all()
    assert (pieces.lengths == 27 + 3)[:-50].mean() > 0.95  # nine sentences of three tokens fit, a tenth does not


@pytest.mark.parametrize("kind", ["full_sentences", "doc_sentences", "documents"])
def test_no_text_gives_no_pieces(kind):
    nothing = np.zeros(1, np.int64)
    block, *_ = make_block(np.zeros(0, np.uint16), nothing, nothing)
    pieces, account = getattr(contiguous, kind)(block, LENGTH)
    assert len(pieces) == 0 and account.tokens_in == 0
    pieces, _ = contiguous.sentence_order_pairs(block, LENGTH, 0.1, np.random.default_rng(0))
    assert len(pieces) == 0
