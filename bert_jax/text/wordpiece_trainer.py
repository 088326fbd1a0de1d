"""A WordPiece vocabulary from word counts, the same one every time.

The algorithm is that of `tokenizers`' WordPieceTrainer (byte-pair merges of the most frequent neighbours, pieces that
continue a word spelt ##), whose result differs from run to run because it breaks ties by hash order. Here the list
depends on the counts alone (merges.py). 8,192 tokens of the 9 MB sample corpus take 2-3 s, less than `tokenizers`
takes (5 s). SentencePiece's BPE with its pieces respelt as ## is faster yet (0.5 s) and as good
(1.314 tokens a held-out word, both), but meets the size only by cutting to it and may change with its next release.
"""

import collections
from collections.abc import Mapping

from bert_jax.errors import UserError
from bert_jax.text.merges import merge_pairs, most_frequent
from bert_jax.text.wordpiece import MAX_WORD_CHARS

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
CHARACTER_COVERAGE = 0.9999  # at the least: a word with a character outside the alphabet becomes [UNK]


def train_wordpiece(word_counts: Mapping[str, int], size: int) -> list[str]:
    """The vocabulary: special tokens (ids 0 to 4), single characters X and ##X, then merged pieces as they came.

    word_counts: words as BERT's pre-tokenizer splits them. At most `size` tokens come back; fewer when no pair of
    pieces occurs twice any more. Raises UserError where `size` leaves no room for characters, or no word is given.
    """
    if size < len(SPECIAL_TOKENS) + 2:
        raise UserError(f"vocabulary size {size} is too small: expected at least {len(SPECIAL_TOKENS) + 2}")
    items = most_frequent({word: count for word, count in word_counts.items() if 0 < len(word) <= MAX_WORD_CHARS})
    symbols = _alphabet(items, size - len(SPECIAL_TOKENS))
    ids = {symbol: index for index, symbol in enumerate(symbols)}
    words, counts = [], []
    for word, count in items:
        spelt = [ids.get(char if place == 0 else "##" + char) for place, char in enumerate(word)]
        if None not in spelt:
            words.append(spelt)
            counts.append(count)
    merge_pairs(words, counts, symbols, size - len(SPECIAL_TOKENS), continued=lambda piece: piece.removeprefix("##"))
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
