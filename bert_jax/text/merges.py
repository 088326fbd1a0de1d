"""Byte-pair merges of counted words: what WordPiece and byte-level BPE vocabularies are made of.

Counts are exact integers and ties go to the pair whose symbols are older, so the result depends on the counts alone:
not on the order of words, on hashes or on threads. Pure Python suffices because a merge touches only the words that
hold the pair.
"""

import collections
import heapq
import itertools
from collections.abc import Callable, Mapping

from bert_jax.errors import UserError

MIN_PAIR_COUNT = 2
MAX_WORDS = 1_000_000  # distinct words, the most frequent ones: bounds time and memory, costs only rare words


def most_frequent(word_counts: Mapping[str, int]) -> list[tuple[str, int]]:
    """(word, count) of the MAX_WORDS most frequent words, ties in the order of text; UserError where there is none."""
    items = sorted(word_counts.items(), key=lambda item: (-item[1], item[0]))[:MAX_WORDS]
    if not items:
        raise UserError("the corpus holds no words to train a vocabulary on")
    return items


def merge_pairs(
    words: list[list[int]], counts: list[int], symbols: list[str], room: int, continued: Callable[[str], str] = str
) -> list[tuple[int, int]]:
    """Appends to `symbols` what the most frequent neighbours join to, until there are `room`; returns the pairs.

    words: each one's symbols as indices into `symbols`; changed in place. counts: how often each word occurs.
    continued: the form in which a symbol stands behind another one in the joined text (WordPiece drops its ##).
    The pairs come in the order of their merges. Two of them may join to the same symbol (a + bc, ab + c), so there
    may be more pairs than new symbols. It ends early where no pair occurs MIN_PAIR_COUNT times.
    """
    ids = {symbol: index for index, symbol in enumerate(symbols)}
    merges = []
    pair_counts: dict[tuple[int, int], int] = collections.defaultdict(int)
    holders: dict[tuple[int, int], list[int]] = collections.defaultdict(list)  # words that hold or once held the pair
    for index, (word, count) in enumerate(zip(words, counts, strict=True)):
        for pair in itertools.pairwise(word):
            _add(pair, count, index, pair_counts, holders)
    heap = [(-count, pair) for pair, count in pair_counts.items()]
    heapq.heapify(heap)
    while heap and len(symbols) < room:
        count, pair = heapq.heappop(heap)
        current = pair_counts[pair]
        if -count != current:  # it fell since it was pushed; had it risen, it would have been pushed again
            if 0 < current < -count:
                heapq.heappush(heap, (-current, pair))
            continue
        if current < MIN_PAIR_COUNT:
            break
        merges.append(pair)
        text = symbols[pair[0]] + continued(symbols[pair[1]])
        joined = ids.setdefault(text, len(symbols))
        if joined == len(symbols):
            symbols.append(text)
        risen = set()
        for index in holders.pop(pair):
            _join(words[index], pair, joined, counts[index], index, pair_counts, holders, risen)
        del pair_counts[pair]  # should it arise anew, it is counted anew
        for other in risen:
            heapq.heappush(heap, (-pair_counts[other], other))
    return merges


def _join(word, pair, joined, count, index, pair_counts, holders, risen) -> None:
    """Joins the pair wherever `word` holds it and keeps the books of the neighbouring pairs."""
    left, right = pair
    place = 0
    while place < len(word) - 1:
        if word[place] == left and word[place + 1] == right:
            if place > 0:
                before = word[place - 1]
                pair_counts[before, left] -= count
                _add((before, joined), count, index, pair_counts, holders)
                risen.add((before, joined))
            if place + 2 < len(word):
                after = word[place + 2]
                pair_counts[right, after] -= count
                _add((joined, after), count, index, pair_counts, holders)
                risen.add((joined, after))
            word[place : place + 2] = [joined]
        place += 1


def _add(pair, count, index, pair_counts, holders) -> None:
    pair_counts[pair] += count
    indices = holders[pair]
    if not indices or indices[-1] != index:  # a long word may hold a pair a hundred times: it is visited once
        indices.append(index)
