"""Documents as token ids -> the paper's sentence pairs, by array operations over one block of documents.

Source: Devlin et al. 2019, section 3.1 and appendix A.2; google-research/bert `create_pretraining_data.py`.

Google's code walks each document sentence by sentence. The same walk is taken here without a step per sentence: a
chunk is fixed by the sentence it starts with, and so are its random decisions, each start being used at most once in a
pass. So the decisions of *every possible* start are drawn and worked out at once, and only the chain "where does the
next chunk start" is followed one by one.
"""

from dataclasses import dataclass, fields

import numpy as np

from bert_jax.data.examples import Account, Pieces

SPECIAL_TOKENS_A_PAIR = 3  # [CLS] A [SEP] B [SEP]


@dataclass(frozen=True)
class Decisions:
    """All that is random in one pass over a block of D documents and S sentences.

    target: tokens to collect for a pair, int64 [D]. Of a chunk that starts at sentence s: a_share[s] in [0, 1) says how
    many of its n sentences A takes (1 + floor(share * (n - 1))), random_next[s] whether B is random when both are
    possible, partner[s] in [0, D - 1) which *other* document it comes from, start_share[s] in [0, 1) at which of its
    sentences it starts.
    """

    target: np.ndarray
    a_share: np.ndarray
    random_next: np.ndarray
    partner: np.ndarray
    start_share: np.ndarray


@dataclass(frozen=True)
class Pairs:
    """n sentence pairs as places in a block's ids, int64 [n] each; is_random, uint8 [n]: the NSP label, 1 = random."""

    a_start: np.ndarray
    a_length: np.ndarray
    b_start: np.ndarray
    b_length: np.ndarray
    is_random: np.ndarray

    def __len__(self):
        return len(self.is_random)


def draw_decisions(block, length, short_probability, rng):
    """The Decisions of one pass; with `short_probability` a document's target is uniform in [2, length - 3]."""
    n_documents, n_sentences = len(block.documents) - 1, len(block.sentences) - 1
    longest = length - SPECIAL_TOKENS_A_PAIR
    is_short = rng.random(n_documents) < short_probability
    return Decisions(
        target=np.where(is_short, rng.integers(2, longest, n_documents, endpoint=True), longest),
        a_share=rng.random(n_sentences),
        random_next=rng.random(n_sentences) < 0.5,
        partner=rng.integers(0, max(n_documents - 1, 1), n_sentences),
        start_share=rng.random(n_sentences),
    )


def plan_pairs(block, length, decisions, rng):
    """One pass over the block: (Pairs in document order, Account). `rng` only draws which end truncation takes from.

    Every sentence is used exactly once as A or as the true next B: where B is random, the chunk's sentences after A are
    put back and start the next chunk. In a block of one document there is no random B: the label is 0 wherever a chunk
    has two sentences or more, and a chunk of one sentence is dropped and counted.
    """
    bounds, first_sentence = block.sentences, block.documents
    n_documents = len(first_sentence) - 1
    account = Account(tokens_in=len(block.ids))
    document_of = np.repeat(np.arange(n_documents), np.diff(first_sentence))
    start = np.arange(len(document_of))

    # What each chunk would be, for every sentence that it could start with.
    end = _collect(bounds, start, decisions.target[document_of], first_sentence[document_of + 1])
    n_collected = end - start
    a_end = start + 1 + (decisions.a_share * (n_collected - 1)).astype(np.int64)
    lone = n_collected == 1
    is_random = (lone | decisions.random_next) & (n_documents > 1)
    following = np.where(is_random, a_end, end)

    start = chain(following)
    if n_documents == 1:
        dropped = start[lone[start]]
        account.chunks_without_partner = len(dropped)
        account.without_partner = int((bounds[dropped + 1] - bounds[dropped]).sum())
        start = start[~lone[start]]
    a_end, is_random = a_end[start], is_random[start]
    b_first, b_end = a_end.copy(), end[start]

    # B from elsewhere: another document, from a sentence of it on, as much as A left room for.
    at = start[is_random]
    other = decisions.partner[at] + (decisions.partner[at] >= document_of[at])
    n_sentences = first_sentence[other + 1] - first_sentence[other]
    b_first[is_random] = first_sentence[other] + (decisions.start_share[at] * n_sentences).astype(np.int64)
    room = decisions.target[document_of[at]] - (bounds[a_end[is_random]] - bounds[at])
    b_end[is_random] = _collect(bounds, b_first[is_random], room, first_sentence[other + 1])

    a_length, b_length = bounds[a_end] - bounds[start], bounds[b_end] - bounds[b_first]
    a_cut, b_cut = _truncation(a_length, b_length, length - SPECIAL_TOKENS_A_PAIR)
    account.borrowed = int(b_length[is_random].sum())
    account.truncated = int(a_cut.sum() + b_cut.sum())
    pairs = Pairs(
        # Each token taken off comes from the front or from the back by a coin of its own.
        a_start=bounds[start] + rng.binomial(a_cut, 0.5),
        a_length=a_length - a_cut,
        b_start=bounds[b_first] + rng.binomial(b_cut, 0.5),
        b_length=b_length - b_cut,
        is_random=is_random.astype(np.uint8),
    )
    account.tokens_out = int(pairs.a_length.sum() + pairs.b_length.sum())
    account.check()
    return pairs, account


def make_pairs(block, length, short_probability, passes, rng):
    """The pairs of a block in the order of its documents: (Pairs, Account).

    Each of the `passes` (the paper's dupe_factor) pairs the whole block anew. All is a function of the block and of the
    state of `rng` alone.
    """
    plans, account = [], Account()
    for _ in range(passes):
        pairs, spent = plan_pairs(block, length, draw_decisions(block, length, short_probability, rng), rng)
        plans.append(pairs)
        account = account + spent
    return Pairs(*(np.concatenate([getattr(plan, f.name) for plan in plans]) for f in fields(Pairs))), account


def as_pieces(pairs):
    """The pairs as Pieces of two segments, of token types 0 and 1."""
    return Pieces(
        start=np.stack([pairs.a_start, pairs.b_start], axis=1).ravel(),
        length=np.stack([pairs.a_length, pairs.b_length], axis=1).ravel(),
        token_type=np.tile(np.array([0, 1], np.uint8), len(pairs)),
        first=np.arange(0, 2 * len(pairs) + 1, 2),
        label=pairs.is_random,
    )


def _collect(bounds, first, tokens, limit):
    """Where a run of sentences from `first` ends: at least one, until it holds `tokens` or reaches sentence `limit`."""
    enough = np.searchsorted(bounds, bounds[first] + tokens)
    return np.minimum(np.maximum(enough, first + 1), limit)


def chain(following):
    """The starts reached from 0 by start -> following[start]: the only step taken one example at a time."""
    step = following.tolist()
    reached, at, end = [], 0, len(step)
    while at < end:
        reached.append(at)
        at = step[at]
    return np.array(reached, np.int64)


def _truncation(a_length, b_length, room):
    """How many tokens A and B lose until both fit into `room`, one at a time from the longer, B where they are equal.

    The longer one first shrinks to the other's length; from then on they take turns, B first.
    """
    excess = np.maximum(a_length + b_length - room, 0)
    difference = a_length - b_length
    a_first = np.minimum(np.maximum(difference, 0), excess)
    b_first = np.minimum(np.maximum(-difference, 0), excess)
    rest = excess - a_first - b_first
    return a_first + rest // 2, b_first + (rest + 1) // 2
