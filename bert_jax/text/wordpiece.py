"""BERT's WordPiece as Hugging Face `tokenizers` spells it, from the pieces of a vocab.txt.

The rules are those of google-research/bert's tokenization.py, with one difference that Hugging Face made and that
everybody's published figures carry: a word of more than 100 characters becomes [UNK], not one of more than 200.
Lower-casing also strips accents, as in the original, so with an uncased vocabulary Hangul falls apart into jamo
([UNK] with the published vocabularies) and the Japanese が and か become one; `strip_accents=False` keeps them apart.
Control, format and private characters (Unicode Cc, Cf, Co by the tables of `tokenizers`, but for tab and newlines) and
U+FFFD vanish: text of nothing else has no ids. (The original removes Cc and Cf only.)
"""

import re
from collections.abc import Sequence
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from bert_jax.errors import UserError
from bert_jax.text.splitting import Splitter

MAX_WORD_CHARS = 100

# Names of the five special tokens: BERT's, then those of RoBERTa, XLNet and SentencePiece models.
SPECIAL_NAMES = {
    "pad": ("[PAD]", "<pad>"),
    "unk": ("[UNK]", "<unk>"),
    "cls": ("[CLS]", "<cls>", "<s>"),
    "sep": ("[SEP]", "<sep>", "</s>"),
    "mask": ("[MASK]", "<mask>"),
}
PLACEHOLDER = re.compile(r"\[unused\d+\]|<unused_?\d+>")  # rows that a vocabulary keeps free

_SENTENCEPIECE_LINE = re.compile(r".*\t-?\d+(\.\d+)?(e-?\d+)?")
_EXPECTED = "expected a vocab.txt with one WordPiece token a line"


def find_special(pieces: Sequence[str], path: str) -> dict[str, str]:
    """The vocabulary's own names of 'pad', 'unk', 'cls', 'sep' and 'mask'; a missing one raises UserError."""
    present = set(pieces)
    names = {}
    for role, candidates in SPECIAL_NAMES.items():
        names[role] = next((name for name in candidates if name in present), None)
        if names[role] is None:
            wanted = " or ".join(candidates)
            raise UserError(f"{path}: has no {wanted} token: expected a vocabulary with all five special tokens")
    return names


def read_vocabulary(path: str | Path) -> list[str]:
    """Tokens of a vocab.txt in the order of their ids; UserError for whatever else the file may be."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}): {_EXPECTED}") from error
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: is binary or not UTF-8 (offset {error.start}): {_EXPECTED}") from error
    if "\0" in text:
        raise UserError(f"{path}: is a binary file: {_EXPECTED}")
    if not text.strip():
        raise UserError(f"{path}: is empty: {_EXPECTED}")
    tokens = [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]
    scored = sum(_SENTENCEPIECE_LINE.fullmatch(token) is not None for token in tokens)
    if 2 * scored > len(tokens):
        raise UserError(f"{path}: is a SentencePiece .vocab (token, tab, score): expected its .model, or a vocab.txt")
    _check_tokens(tokens, path)
    return tokens


def _check_tokens(tokens: list[str], path) -> None:
    lines: dict[str, int] = {}
    for number, token in enumerate(tokens, 1):
        if not token:
            raise UserError(f"{path}: line {number} is empty: {_EXPECTED}")
        if token in lines:
            raise UserError(f"{path}: token {token!r} stands on lines {lines[token]} and {number}: expected it once")
        lines[token] = number


def looks_uncased(tokens: Sequence[str]) -> bool:
    """Whether no token but the special and placeholder ones holds an upper-case ASCII letter."""
    special = {name for names in SPECIAL_NAMES.values() for name in names}
    upper = re.compile("[A-Z]")
    return not any(
        upper.search(token) and token not in special and not PLACEHOLDER.fullmatch(token) for token in tokens
    )


def bert_normalizer(lower_case: bool, strip_accents: bool | None = None) -> normalizers.Normalizer:
    """BERT's clean-up; strip_accents None follows lower_case."""
    return normalizers.BertNormalizer(
        clean_text=True, handle_chinese_chars=True, strip_accents=strip_accents, lowercase=lower_case
    )


def bert_splitter(lower_case: bool, strip_accents: bool | None = None) -> Splitter:
    """BERT's words: punctuation and CJK characters stand alone."""
    return Splitter(bert_normalizer(lower_case, strip_accents), pre_tokenizers.BertPreTokenizer())


def build_wordpiece(tokens: Sequence[str], lower_case: bool, strip_accents: bool | None, path: str) -> Tokenizer:
    """The tokenizer that transformers' BertTokenizer builds from the same vocabulary."""
    names = find_special(tokens, path)
    ids = {token: index for index, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.WordPiece(ids, unk_token=names["unk"], max_input_chars_per_word=MAX_WORD_CHARS))
    tokenizer.normalizer = bert_normalizer(lower_case, strip_accents)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(prefix="##")
    cls, sep = names["cls"], names["sep"]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{cls}:0 $A:0 {sep}:0",
        pair=f"{cls}:0 $A:0 {sep}:0 $B:1 {sep}:1",
        special_tokens=[(cls, ids[cls]), (sep, ids[sep])],
    )
    tokenizer.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in names.values()])
    return tokenizer
