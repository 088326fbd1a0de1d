"""Pairs against the paper's algorithm told in plain Python, and the properties that every pairing has."""

import itertools
import random
import tarfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from bert_jax.data import pairs as pairing
from bert_jax.data.examples import Account, Rows, assemble, make_block, segment_ids, token_types
from bert_jax.text.sentences import split_sentences
from tests.data.blocks import block_of, corpora
from tests.data.reference_pairs import RandomChoices, paper_pairs, truncate

LENGTH = 32


def as_lists(block):
    sentences = [
        block.ids[start:end].tolist() for start, end in zip(block.sentences[:-1], block.sentences[1:], strict=True)
    ]
    return [sentences[start:end] for start, end in zip(block.documents[:-1], block.documents[1:], strict=True)]


class SameChoices:
    """The decisions that the code under test was given; of truncation, how many tokens go at the front."""

    def __init__(self, decisions, fronts):
        self.decisions, self.fronts = decisions, fronts

    def target(self, document, longest):
        return int(self.decisions.target[document])

    def a_sentences(self, start, n_sentences):
        return 1 + int(self.decisions.a_share[start] * (n_sentences - 1))

    def random_next(self, start):
        return bool(self.decisions.random_next[start])

    def other_document(self, start, document, n_documents):
        partner = int(self.decisions.partner[start])
        return partner + (partner >= document)

    def other_start(self, start, n_sentences):
        return int(self.decisions.start_share[start] * n_sentences)

    def from_front(self, start, side):
        self.fronts[side] -= 1
        return self.fronts[side] >= 0


class AllFromTheBack:
    """An rng whose coins never choose the front."""

    def binomial(self, n, p):
        return np.zeros_like(n)


@settings(max_examples=200, deadline=None)
@given(corpora.filter(lambda documents: len(documents) > 1), st.integers(0, 2**32 - 1))
def test_same_decisions_give_the_papers_pairs(sentence_lengths, seed):
    block = block_of(sentence_lengths)
    decisions = pairing.draw_decisions(block, LENGTH, 0.3, np.random.default_rng(seed))
    pairs, _ = pairing.plan_pairs(block, LENGTH, decisions, AllFromTheBack())
    expected = paper_pairs(as_lists(block), LENGTH, SameChoices(decisions, {"a": 0, "b": 0}))
    assert [
        (list(range(a, a + n)), list(range(b, b + m)), bool(is_random))
        for a, n, b, m, is_random in zip(
            pairs.a_start, pairs.a_length, pairs.b_start, pairs.b_length, pairs.is_random, strict=True
        )
    ] == [pair[1:] for pair in expected]


def test_truncation_takes_as_many_from_each_side_as_one_at_a_time():
    lengths = np.array([(a, b) for a in range(1, 40) for b in range(1, 40)])
    for room in (5, 8, 29):
        a_cut, b_cut = pairing._truncation(lengths[:, 0], lengths[:, 1], room)
        for (a, b), ours in zip(lengths.tolist(), zip(a_cut.tolist(), b_cut.tolist(), strict=True), strict=True):
            tokens_a, tokens_b = [0] * a, [0] * b
            truncate(tokens_a, tokens_b, room, 0, SameChoices(None, {"a": 0, "b": 0}))
            assert ours == (a - len(tokens_a), b - len(tokens_b))


def test_truncated_tokens_leave_either_end_by_a_coin_each():
    block = block_of([[10, 4 * LENGTH]] * 2000)
    decisions = pairing.draw_decisions(block, LENGTH, 0.0, np.random.default_rng(0))
    decisions.random_next[:] = False
    pairs, _ = pairing.plan_pairs(block, LENGTH, decisions, np.random.default_rng(1))
    cut = 10 + 4 * LENGTH - (LENGTH - 3)
    from_front = pairs.b_start - block.sentences[1::2]
    # A keeps its 10 tokens, all that goes is B's.
    assert (pairs.a_length == 10).all() and (pairs.b_length == LENGTH - 3 - 10).all()
    observed = np.bincount(from_front, minlength=cut + 1)
    expected = stats.binom.pmf(np.arange(cut + 1), cut, 0.5) * len(pairs)
    kept = expected >= 5
    assert stats.chisquare(observed[kept], expected[kept] * observed[kept].sum() / expected[kept].sum()).pvalue > 1e-3


@settings(max_examples=100, deadline=None)
@given(corpora.filter(lambda documents: len(documents) > 1), st.integers(0, 2**32 - 1), st.integers(1, 3))
def test_properties_of_every_pairing(sentence_lengths, seed, passes):
    block = block_of(sentence_lengths)
    pairs, account = pairing.make_pairs(block, LENGTH, 0.1, passes, np.random.default_rng(seed))
    assert account.tokens_in == passes * len(block.ids)
    assert account.tokens_in + account.borrowed == account.tokens_out + account.truncated
    assert account.without_partner == 0
    total = pairs.a_length + pairs.b_length
    assert total.sum() == account.tokens_out
    assert (pairs.a_length >= 1).all() and (pairs.b_length >= 1).all() and (total <= LENGTH - 3).all()
    document_of_token = np.repeat(
        np.repeat(np.arange(len(block.documents) - 1), np.diff(block.documents)), np.diff(block.sentences)
    )
    for start, length in ((pairs.a_start, pairs.a_length), (pairs.b_start, pairs.b_length)):
        assert (document_of_token[start] == document_of_token[start + length - 1]).all()
    same_document = document_of_token[pairs.a_start] == document_of_token[pairs.b_start]
    np.testing.assert_array_equal(same_document, pairs.is_random == 0)
    assert (pairs.b_start > pairs.a_start)[pairs.is_random == 0].all()


def test_without_truncation_every_token_is_used_once():
    """Put-back included: A segments and true next segments tile the corpus."""
    rng = np.random.default_rng(0)
    block = block_of([rng.integers(1, 5, 50).tolist() for _ in range(20)])
    decisions = pairing.draw_decisions(block, 200, 0.0, np.random.default_rng(1))
    decisions.target[:] = 60  # of a row of 200: nothing needs to be cut
    pairs, account = pairing.plan_pairs(block, 200, decisions, np.random.default_rng(2))
    assert account.truncated == 0
    used = np.zeros(len(block.ids), int)
    for i in range(len(pairs)):
        used[pairs.a_start[i] : pairs.a_start[i] + pairs.a_length[i]] += 1
        if not pairs.is_random[i]:
            used[pairs.b_start[i] : pairs.b_start[i] + pairs.b_length[i]] += 1
    assert (used == 1).all()


def test_one_document_has_no_random_next_and_drops_lone_sentences():
    """cases A10: true next sentences must not be labelled random for want of another document."""
    block = block_of([[7] * 40 + [100]])
    for seed in range(20):  # 8 chunks of 5 sentences, and the long one by itself
        pairs, account = pairing.make_pairs(block, LENGTH, 0.0, 1, np.random.default_rng(seed))
        assert (pairs.is_random == 0).all() and len(pairs) == 8
        assert account == Account(
            tokens_in=380, tokens_out=8 * 29, truncated=8 * 6, without_partner=100, chunks_without_partner=1
        )
    pairs, account = pairing.make_pairs(block_of([[5]]), LENGTH, 0.1, 1, np.random.default_rng(0))
    assert len(pairs) == 0 and account.without_partner == 5 and account.chunks_without_partner == 1


def test_empty_sentences_and_documents_are_dropped_and_counted():
    """cases A7 and A9: what is empty only after tokenization."""
    ids = np.arange(6, dtype=np.uint16)
    sentences = np.array([0, 0, 2, 2, 5, 5, 5, 6])  # lengths 0 2 0 3 0 0 1
    documents = np.array([0, 3, 4, 4, 6, 7])  # [0 2 0] [3] [] [0 0] [1]
    block, empty_sentences, empty_documents = make_block(ids, sentences, documents)
    assert (empty_sentences, empty_documents) == (4, 2)
    assert as_lists(block) == [[[0, 1]], [[2, 3, 4]], [[5]]]
    pairs, account = pairing.make_pairs(block, LENGTH, 0.1, 2, np.random.default_rng(0))
    assert len(pairs) == 6 and account.tokens_out == 12 + account.borrowed


def test_nothing_at_all_gives_no_pairs():
    nothing = np.zeros(1, np.int64)
    block, *_ = make_block(np.zeros(0, np.uint16), nothing, nothing)
    pairs, account = pairing.make_pairs(block, LENGTH, 0.1, 1, np.random.default_rng(0))
    assert len(pairs) == 0 and account == Account()


def test_rows_are_cls_a_sep_b_sep_padding():
    block = block_of([[3, 9, 4], [30], [2, 2]])
    ids = (block.ids + 1000).astype(np.uint16)
    pairs, _ = pairing.make_pairs(block, LENGTH, 0.5, 3, np.random.default_rng(0))
    rows = Rows(pairing.as_pieces(pairs), np.arange(len(pairs) + 1))
    input_ids = assemble(ids, rows, LENGTH, cls_id=7, sep_id=8, pad_id=9)
    types, segments = token_types(rows, LENGTH), segment_ids(rows, LENGTH)
    assert input_ids.dtype == np.uint16 and types.dtype == segments.dtype == np.uint8
    for i in range(len(pairs)):
        a = ids[pairs.a_start[i] : pairs.a_start[i] + pairs.a_length[i]].tolist()
        b = ids[pairs.b_start[i] : pairs.b_start[i] + pairs.b_length[i]].tolist()
        padding = LENGTH - 3 - len(a) - len(b)
        assert input_ids[i].tolist() == [7, *a, 8, *b, 8] + [9] * padding
        assert types[i].tolist() == [0] * (len(a) + 2) + [1] * (len(b) + 1) + [0] * padding
        assert segments[i].tolist() == [1] * (LENGTH - padding) + [0] * padding


def test_a_seed_decides_everything_and_each_pass_pairs_anew():
    rng = np.random.default_rng(3)
    block = block_of([rng.integers(1, 20, 60).tolist() for _ in range(8)])
    first, again, other = (
        pairing.make_pairs(block, LENGTH, 0.1, 1, np.random.default_rng(seed))[0] for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first.a_start, again.a_start)
    np.testing.assert_array_equal(first.b_start, again.b_start)
    assert sorted(first.a_start.tolist()) != sorted(other.a_start.tolist())
    one_pass, two_passes = (pairing.make_pairs(block, LENGTH, 0.1, n, np.random.default_rng(1))[0] for n in (1, 2))
    as_set = lambda pairs: set(zip(pairs.a_start.tolist(), pairs.b_start.tolist(), strict=True))  # noqa: E731
    assert as_set(one_pass) < as_set(two_passes)
    assert len(as_set(two_passes)) > 1.7 * len(as_set(one_pass))


@pytest.fixture(scope="module")
def books(shared_data):
    """Blocks of real prose: paragraphs' sentences, a word a token."""
    documents = []
    with tarfile.open(shared_data / "books_classic.tar.gz") as archive:
        for member in archive:
            if member.name.endswith(".md") and len(documents) < 12:
                documents.append(archive.extractfile(member).read().decode()[:200_000])
    sentences, offsets = split_sentences(documents)
    lengths = [len(sentence.split()) for sentence in sentences]
    chapters = [lengths[start:end] for start, end in itertools.pairwise(offsets)]
    # Many documents, so that decisions taken once a document are seen often enough.
    return block_of([chapter[i : i + 40] for chapter in chapters for i in range(0, len(chapter), 40)])


def test_real_books_are_paired_as_the_paper_would(books):
    ours, _ = pairing.make_pairs(books, 128, 0.1, 4, np.random.default_rng(0))
    documents = as_lists(books)
    theirs = [
        pair for seed in range(4) for pair in paper_pairs(documents, 128, RandomChoices(random.Random(seed), 0.1))
    ]
    a, b = (np.array([len(pair[side]) for pair in theirs]) for side in (1, 2))
    is_random = np.array([pair[3] for pair in theirs])
    assert abs(len(ours) / len(theirs) - 1) < 0.02
    for mine, reference in (
        (ours.a_length, a),
        (ours.b_length, b),
        (ours.a_length + ours.b_length, a + b),
        (ours.a_length[ours.is_random == 1], a[is_random]),
        (ours.b_length[ours.is_random == 0], b[~is_random]),
    ):
        assert stats.ks_2samp(mine, reference).pvalue > 1e-3
    table = [[ours.is_random.sum(), len(ours) - ours.is_random.sum()], [is_random.sum(), (~is_random).sum()]]
    assert stats.chi2_contingency(table).pvalue > 1e-3
    assert 0.5 < ours.is_random.mean() < 0.6  # a chunk of one sentence can only be random


def test_a_tenth_of_documents_is_short_and_half_of_the_nexts_random():
    block = block_of([[1] * 300] * 2000)
    decisions = pairing.draw_decisions(block, 128, 0.1, np.random.default_rng(0))
    short = decisions.target < 125
    assert stats.binomtest(int(short.sum()), 2000, 0.1 * 123 / 124).pvalue > 1e-3
    assert decisions.target.min() >= 2 and decisions.target.max() == 125
    assert stats.ks_1samp(decisions.target[short], stats.randint(2, 125).cdf).pvalue > 1e-3
    pairs, _ = pairing.plan_pairs(block, 128, decisions, np.random.default_rng(1))
    assert stats.binomtest(int(pairs.is_random.sum()), len(pairs), 0.5).pvalue > 1e-3
