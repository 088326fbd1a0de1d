"""Text to a tokenizer's own words: what its model spells in pieces, each by itself."""

from dataclasses import dataclass

from tokenizers.normalizers import Normalizer
from tokenizers.pre_tokenizers import PreTokenizer


@dataclass(frozen=True)
class Splitter:
    """The normalizer and pre-tokenizer of a tokenizer, and what it puts in front of a text. It can be pickled."""

    normalizer: Normalizer | None
    pre_tokenizer: PreTokenizer | None
    lead: str = ""

    def split(self, text: str) -> list[str]:
        text = self.lead + text
        if self.normalizer is not None:
            text = self.normalizer.normalize_str(text)
        if self.pre_tokenizer is None:
            return [text]
        return [part for part, _ in self.pre_tokenizer.pre_tokenize_str(text)]
