"""Byte-level BPE, ModernBERT's kind: every text has ids, and gets itself back from them.

A text's UTF-8 bytes are written as 256 printable characters (GPT-2's table; a space is Ġ) and merged inside the parts
that GPT-2's expression cuts: a word with the space before it, a number, punctuation. So a piece that starts with Ġ
starts a word, and the first word of a text is spelt like all others only behind a space: `Tokenizer.encode` puts one.
"""

import functools
import json
from collections.abc import Mapping

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from bert_jax.errors import UserError
from bert_jax.text.merges import merge_pairs, most_frequent
from bert_jax.text.splitting import Splitter

# As in ModernBERT's tokenizer.json: behind the ordinary pieces, in this order.
SPECIAL_TOKENS = ("[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]")
MAX_WORD_CHARS = 300  # longer "words" are data, not language: they are counted in parts of this length


def byte_level_splitter() -> Splitter:
    """Composed characters, as in ModernBERT (the same letter has the same bytes), cut by GPT-2's expression."""
    return Splitter(normalizers.NFC(), pre_tokenizers.ByteLevel(add_prefix_space=False), lead=" ")


@functools.cache
def byte_of_character() -> dict[str, int]:
    """GPT-2's table: 256 printable characters and the bytes that they stand for.

    Bytes that are printable in Latin-1 stand for themselves, the others take the characters from U+0100 on, in order.
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    table = {chr(byte): byte for byte in printable}
    return table | {chr(0x100 + index): byte for index, byte in enumerate(others)}


def piece_text(piece: str) -> str:
    """The text of a piece; bytes that are no whole character are left out. One that is no bytes stands for itself."""
    table = byte_of_character()
    if not all(char in table for char in piece):  # an added token, such as a run of spaces
        return piece
    return bytes(table[char] for char in piece).decode(errors="ignore")


def train_byte_level(word_counts: Mapping[str, int], size: int) -> str:
    """The tokenizer.json: pieces of one byte, merged pieces as they came, then SPECIAL_TOKENS; `size` ids in all.

    word_counts: words as `byte_level_splitter` cuts them (with Ġ). The merges are those of `tokenizers`' BpeTrainer
    given the same counts; 50,000 ids of 60 MB of books and Wikipedia take 16 s once they are counted. Fewer ids where
    no pair of pieces occurs twice any more; UserError where `size` leaves no room for the bytes, or no word is given.
    """
    alphabet = sorted(byte_of_character())
    room = size - len(SPECIAL_TOKENS)
    if room < len(alphabet):
        expected = len(alphabet) + len(SPECIAL_TOKENS)
        raise UserError(f"vocabulary size {size} is too small: expected at least {expected} (256 bytes and specials)")
    ids = {char: index for index, char in enumerate(alphabet)}
    words, counts = [], []
    for word, count in most_frequent(word_counts):
        for start in range(0, len(word), MAX_WORD_CHARS):
            words.append([ids[char] for char in word[start : start + MAX_WORD_CHARS]])
            counts.append(count)
    pieces = list(alphabet)
    merges = merge_pairs(words, counts, pieces, room)
    return _definition(pieces, [(pieces[left], pieces[right]) for left, right in merges])


def _definition(pieces: list[str], merges: list[tuple[str, str]]) -> str:
    ids = {piece: index for index, piece in enumerate([*pieces, *SPECIAL_TOKENS])}
    tokenizer = Tokenizer(models.BPE(ids, merges))
    splitter = byte_level_splitter()
    tokenizer.normalizer, tokenizer.pre_tokenizer = splitter.normalizer, splitter.pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[("[CLS]", ids["[CLS]"]), ("[SEP]", ids["[SEP]"])],
    )
    # lstrip: in "The [MASK] sat" the space belongs to the word that the mask stands for
    tokenizer.add_special_tokens(
        [AddedToken(name, special=True, normalized=False, lstrip=name == "[MASK]") for name in SPECIAL_TOKENS]
    )
    return json.dumps(json.loads(tokenizer.to_str()), ensure_ascii=False, indent=2)
