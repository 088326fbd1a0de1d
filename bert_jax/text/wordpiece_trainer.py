"""A WordPiece vocabulary from word counts, the same one every time.

The algorithm is that of `tokenizers`' WordPieceTrainer (byte-pair merges of the most frequent neighbours, pieces that
continue a word spelt ##), whose result differs from run to run because it breaks ties by hash order. Here counts are
exact integers and ties go to the pair whose symbols are older, so the list depends on the counts alone. Pure Python
suffices because a merge touches only the words that hold the pair: 8,192 tokens of the 9 MB sample corpus take 2-3 s,
less than `tokenizers` takes (5 s). SentencePiece's BPE with its pieces respelt as ## is faster yet (0.5 s) and as good
(1.314 tokens a held-out word, both), but meets the size only by cutting to it and may change with its next release.
"""

import collections
import heapq
import itertools
from collections.abc import Mapping

from bert_jax.errors import UserError
from bert_jax.text.wordpiece import MAX_WORD_CHARS

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
CHARACTER_COVERAGE = 0.9999  # at the least: a word with a character outside the alphabet becomes [UNK]
MAX_WORDS = 1_000_000  # distinct words, the most frequent ones: bounds time and memory, costs only rare words
MIN_PAIR_COUNT = 2


def train_wordpiece(word_counts: Mapping[str, int], size: int) -> list[str]:
    """The vocabulary: special tokens (ids 0 to 4), single characters X and ##X, then merged pieces as they came.

    word_counts: words as BERT's pre-tokenizer splits them. At most `size` tokens come back; fewer when no pair of
    pieces occurs twice any more. Raises UserError where `size` leaves no room for characters, or no word is given.
    """
    if size < len(SPECIAL_TOKENS) + 2:
        raise UserError(f"vocabulary size {size} is too small: expected at least {len(SPECIAL_TOKENS) + 2}")
    items = [item for item in word_counts.items() if 0 < len(item[0]) <= MAX_WORD_CHARS]
    items.sort(key=lambda item: (-item[1], item[0]))
    items = items[:MAX_WORDS]
    if not items:
        raise UserError("the corpus holds no words to train a vocabulary on")
    symbols = _alphabet(items, size - len(SPECIAL_TOKENS))
    ids = {symbol: index for index, symbol in enumerate(symbols)}
    words, counts = [], []
    for word, count in items:
        spelt = [ids.get(char if place == 0 else "##" + char) for place, char in enumerate(word)]
        if None not in spelt:
            words.append(spelt)
            counts.append(count)
    _merge(words, counts, symbols, ids, size - len(SPECIAL_TOKENS))
    return [*SPECIAL_TOKENS, *symbols]


def _alphabet(items: list[tuple[str, int]], room: int) -> list[str]:
    """Single-character pieces, most frequent first; ##X only where X occurs in words of several characters.

    Those that cover the text take up to half of the room (Chinese needs it), rare ones no more than a twentieth.
    """
    frequency: collections.Counter = collections.Counter()
    inside = set()
    for word, count in items:
        for char in word:
            frequency[char] += count
        if len(word) > 1:
            inside.update(word)
    wanted = CHARACTER_COVERAGE * sum(frequency.values())
    first, rest, covered = [], [], 0
    for char, count in sorted(frequency.items(), key=lambda item: (-item[1], item[0])):
        forms = 1 + (char in inside)
        if len(first) + len(rest) + forms > max(2, room // 2 if covered < wanted else room // 20):
            break
        covered += count
        first.append(char)
        if char in inside:
            rest.append("##" + char)
    return first + rest


def _merge(words: list[list[int]], counts: list[int], symbols: list[str], ids: dict[str, int], room: int) -> None:
    """Appends to `symbols` what the most frequent neighbours join to, until there are `room`; changes `words`."""
    pair_counts: dict[tuple[int, int], int] = collections.defaultdict(int)
    holders: dict[tuple[int, int], list[int]] = collections.defaultdict(list)  # words that hold or once held the pair
    for index, (word, count) in enumerate(zip(words, counts, strict=True)):
        for pair in itertools.pairwise(word):
            pair_counts[pair] += count
            holders[pair].append(index)
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
        text = symbols[pair[0]] + symbols[pair[1]].removeprefix("##")
        joined = ids.setdefault(text, len(symbols))  # two pairs may join to one piece: a+bc, ab+c
        if joined == len(symbols):
            symbols.append(text)
        risen = set()
        for index in holders.pop(pair):
            _join(words[index], pair, joined, counts[index], index, pair_counts, holders, risen)
        pair_counts[pair] = 0
        for other in risen:
            heapq.heappush(heap, (-pair_counts[other], other))


def _join(word, pair, joined, count, index, pair_counts, holders, risen) -> None:
    """Joins the pair wherever `word` holds it and keeps the books of the neighbouring pairs."""
    left, right = pair
    place = 0
    while place < len(word) - 1:
        if word[place] == left and word[place + 1] == right:
            if place > 0:
                before = word[place - 1]
                pair_counts[before, left] -= count
                _add((before, joined), count, index, pair_counts, holders, risen)
            if place + 2 < len(word):
                after = word[place + 2]
                pair_counts[right, after] -= count
                _add((joined, after), count, index, pair_counts, holders, risen)
            word[place : place + 2] = [joined]
        place += 1


def _add(pair, count, index, pair_counts, holders, risen) -> None:
    pair_counts[pair] += count
    holders[pair].append(index)
    risen.add(pair)
