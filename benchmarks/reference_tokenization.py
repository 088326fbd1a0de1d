"""google-research/bert's tokenization.py and masking, told in plain Python: what `benchmarks/prepare.py` measures."""

import unicodedata
from pathlib import Path

WHITESPACE = " \t\n\r"


class FullTokenizer:
    """Basic tokenization (lower-cased), then WordPiece, a character at a time."""

    def __init__(self, path):
        self.vocabulary = {line: i for i, line in enumerate(Path(path).read_text().splitlines())}

    def tokenize(self, text):
        return [piece for word in basic_tokens(text) for piece in self._pieces(word)]

    def ids(self, tokens):
        return [self.vocabulary[token] for token in tokens]

    def _pieces(self, word):
        if len(word) > 200:
            return ["[UNK]"]
        pieces, start = [], 0
        while start < len(word):
            end = len(word)
            while start < end:
                piece = ("##" if start else "") + word[start:end]
                if piece in self.vocabulary:
                    break
                end -= 1
            if start == end:
                return ["[UNK]"]
            pieces.append(piece)
            start = end
        return pieces


def basic_tokens(text):
    cleaned = []
    for character in text:
        if ord(character) in (0, 0xFFFD) or (character not in WHITESPACE and _category(character).startswith("C")):
            continue
        cleaned.append(" " if character in WHITESPACE or _category(character) == "Zs" else character)
    spaced = "".join(f" {c} " if _is_chinese(ord(c)) else c for c in cleaned)
    tokens = []
    for word in spaced.split():
        word = "".join(c for c in unicodedata.normalize("NFD", word.lower()) if _category(c) != "Mn")
        current = ""
        for character in word:
            if _is_punctuation(character):
                tokens += [current, character] if current else [character]
                current = ""
            else:
                current += character
        if current:
            tokens.append(current)
    return tokens


def mask(tokens, words, most, rng):
    """(tokens with masks, positions, labels): 15 % of all but [CLS] and [SEP]; of those 80 % [MASK], 10 % random."""
    candidates = [i for i, token in enumerate(tokens) if token not in ("[CLS]", "[SEP]")]
    rng.shuffle(candidates)
    positions = sorted(candidates[: min(most, max(1, round(len(tokens) * 0.15)))])
    masked = list(tokens)
    for position in positions:
        if rng.random() < 0.8:
            masked[position] = "[MASK]"
        elif rng.random() < 0.5:
            masked[position] = words[rng.randrange(len(words))]
    return masked, positions, [tokens[position] for position in positions]


def _category(character):
    return unicodedata.category(character)


def _is_punctuation(character):
    code = ord(character)
    ascii_symbol = 33 <= code <= 47 or 58 <= code <= 64 or 91 <= code <= 96 or 123 <= code <= 126
    return ascii_symbol or _category(character).startswith("P")


def _is_chinese(code):
    return (
        0x4E00 <= code <= 0x9FFF
        or 0x3400 <= code <= 0x4DBF
        or 0x20000 <= code <= 0x2A6DF
        or 0x2A700 <= code <= 0x2B81F
        or 0xF900 <= code <= 0xFAFF
        or 0x2F800 <= code <= 0x2FA1F
    )
