"""What turns text into ids: Hugging Face `tokenizers`, sped up by nanotoken for WordPiece, and SentencePiece.

Both backends have the same attributes and methods, and `tokenizer.Tokenizer` holds one of them:
pieces, special_names, lower_case, word_prefix, byte_level, state; encode, encode_with_spans, encode_special, decode,
files.
"""

import itertools
import json
import os
import re
import warnings
from collections.abc import Sequence

import numpy as np
import sentencepiece
import tokenizers
from sentencepiece import sentencepiece_model_pb2

from bert_jax.errors import UserError
from bert_jax.text.adversarial import ADVERSARIAL_SAMPLE
from bert_jax.text.splitting import Splitter
from bert_jax.text.wordpiece import find_special

# Preparation runs one process a core: threads inside each would only fight, and deadlock after a fork.
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

BATCH_TEXTS = 64  # an Encoding is many times its ids: few of them stay in the cache, 1.3 times as fast as all at once
LONG_TEXT = 20_000  # characters; `tokenizers` slows down on longer texts


class HuggingFaceTokens:
    """Any tokenizer.json; texts of a WordPiece one go through nanotoken when it is installed and agrees.

    Literal special tokens in text are ordinary text to `encode`: to `tokenizers` by `encode_special_tokens`. nanotoken
    always reads them as the token, so a text whose ids hold a special one and that spells it is done again.
    `encode` puts a space before texts where the first word would else lack the mark that tells a word's start.
    """

    def __init__(self, definition: str, path: str, fast: bool | None = None):
        try:
            self.tokenizer = tokenizers.Tokenizer.from_str(definition)
        except Exception as error:  # the binding raises plain Exception
            raise UserError(f"{path}: is no tokenizer.json of Hugging Face tokenizers ({error})") from error
        self.tokenizer.no_truncation()
        self.tokenizer.no_padding()
        self.tokenizer.encode_special_tokens = True
        self.path = path
        self.pieces = _pieces_by_id(self.tokenizer.get_vocab(with_added_tokens=True))
        self.definition = json.loads(self.tokenizer.to_str())
        self.names = find_special(self.pieces, path)
        added = self.tokenizer.get_added_tokens_decoder().values()
        self.special_names = sorted({*self.names.values(), *(token.content for token in added if token.special)})
        self.lower_case = _lower_cases(self.definition["normalizer"])
        self.splitter, self.word_prefix = _splitter(self.tokenizer, self.definition["model"])
        self.byte_level = self.word_prefix == ("Ġ", True)
        self._is_special = np.isin(self.pieces, self.special_names)
        kinds = [(self.definition[part] or {}).get("type") for part in ("normalizer", "pre_tokenizer")]
        self._words_stand_alone = kinds == ["BertNormalizer", "BertPreTokenizer"]  # none looks across a space
        self._recognising = None
        self.state = (definition, path, fast)
        self.fast = _load_nanotoken(self.tokenizer.to_str(), self.definition["model"]["type"], path, fast)
        self.check_fast(ADVERSARIAL_SAMPLE)

    def encode(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        if self.fast is not None:
            return self._encode_fast(texts)
        if lead := self.splitter.lead:
            texts = [lead + text if text and not text.startswith(" ") else text for text in texts]
        return self._encode_exactly(texts)

    def encode_with_spans(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        rows, spans, lead = [], [np.zeros((0, 2), np.int32)], self.splitter.lead
        for text in texts:
            shift = len(lead) if lead and text and not text.startswith(" ") else 0
            encoding = self.tokenizer.encode(lead + text if shift else text, add_special_tokens=False)
            rows.append(encoding.ids)
            spans.append(np.maximum(np.array(encoding.offsets, np.int32).reshape(-1, 2) - shift, 0))
        return *_flat(rows), np.concatenate(spans)

    def check_fast(self, texts: Sequence[str]) -> bool:
        """Whether nanotoken is in use and gives these texts the ids of `tokenizers`; if not, it is not used again."""
        if self.fast is None:
            return False
        pairs = zip(self._encode_fast(texts), self._encode_exactly(texts), strict=True)
        if not all(np.array_equal(ours, theirs) for ours, theirs in pairs):
            self.fast = None
            self.state = (*self.state[:-1], False)  # nor by a copy in another process
            warnings.warn(f"{self.path}: nanotoken and tokenizers disagree: nanotoken is not used", stacklevel=2)
        return self.fast is not None

    def encode_special(self, text: str) -> list[int]:
        if self._recognising is None:
            self._recognising = tokenizers.Tokenizer.from_str(self.tokenizer.to_str())
        return self._recognising.encode(text, add_special_tokens=False).ids

    def decode(self, ids: Sequence[int]) -> str:
        return self.tokenizer.decode(ids, skip_special_tokens=False)

    def files(self) -> dict[str, bytes]:
        """The folder that transformers and `load_tokenizer` read, as name: content."""
        wordpiece = self.definition["model"]["type"] == "WordPiece"
        normalizer = self.definition["normalizer"] or {}
        config = {f"{role}_token": name for role, name in self.names.items()}
        config["tokenizer_class"] = "BertTokenizer" if wordpiece else "PreTrainedTokenizerFast"
        if normalizer.get("type") == "BertNormalizer":
            config["do_lower_case"] = normalizer["lowercase"]
            config["strip_accents"] = normalizer["strip_accents"]
            config["tokenize_chinese_chars"] = normalizer["handle_chinese_chars"]
        files = {
            "tokenizer.json": self.tokenizer.to_str(pretty=True),
            "tokenizer_config.json": json.dumps(config, indent=2, sort_keys=True) + "\n",
        }
        if wordpiece:
            files["vocab.txt"] = "".join(piece + "\n" for piece in self.pieces)
        return {name: text.encode() for name, text in files.items()}

    def _encode_exactly(self, texts):
        parts, ends = texts, None
        if self._words_stand_alone and max(map(len, texts), default=0) > LONG_TEXT:
            split = [_at_spaces(text) for text in texts]
            parts, ends = list(itertools.chain.from_iterable(split)), np.cumsum([0, *map(len, split)])
        rows = []
        for start in range(0, len(parts), BATCH_TEXTS):
            batch = self.tokenizer.encode_batch_fast(parts[start : start + BATCH_TEXTS], add_special_tokens=False)
            rows += [encoding.ids for encoding in batch]
        ids, offsets = _flat(rows)
        return (ids, offsets) if ends is None else (ids, offsets[ends])

    def _encode_fast(self, texts):
        ids, offsets = self.fast.encode_batch(texts, add_special_tokens=False, parallel=False)
        hits = np.flatnonzero(self._is_special[ids])
        rows = np.unique(np.searchsorted(offsets, hits, side="right") - 1)
        rows = [row for row in rows.tolist() if any(name in texts[row] for name in self.special_names)]
        if not rows:
            return ids, offsets
        return _replace_rows(ids, offsets, rows, *self._encode_exactly([texts[row] for row in rows]))


class SentencePieceTokens:
    """A SentencePiece model; specials are CONTROL pieces, which no text can spell.

    Models that were trained with them as user-defined symbols, which text can spell, are read as if they were control.
    """

    word_prefix = ("▁", True)
    byte_level = False
    fast = None

    def __init__(self, model: bytes, path: str):
        if not model:  # which SentencePiece would load
            raise UserError(f"{path}: is empty: expected a SentencePiece .model")
        proto = sentencepiece_model_pb2.ModelProto()
        try:
            proto.ParseFromString(model)
            sentencepiece.SentencePieceProcessor(model_proto=model)
        except Exception as error:  # protobuf's DecodeError or sentencepiece's RuntimeError
            raise UserError(f"{path}: is no SentencePiece model ({error}): expected the .model file") from error
        self.path = path
        self.pieces = [piece.piece for piece in proto.pieces]
        self.names = find_special(self.pieces, path)
        kinds = sentencepiece_model_pb2.ModelProto.SentencePiece
        named = set(self.names.values())
        for piece in proto.pieces:
            if piece.piece in named and piece.type == kinds.USER_DEFINED:
                piece.type = kinds.CONTROL
        ordinary = (kinds.NORMAL, kinds.USER_DEFINED)
        self.special_names = sorted(named | {piece.piece for piece in proto.pieces if piece.type not in ordinary})
        self.lower_case = proto.normalizer_spec.name.endswith("_cf")
        self.processor = sentencepiece.SentencePieceProcessor(model_proto=proto.SerializeToString())
        proto.normalizer_spec.add_dummy_prefix = True  # ▁ also before the first word of a text that `encode` takes
        self._continuing = sentencepiece.SentencePieceProcessor(model_proto=proto.SerializeToString())
        self._spelt = re.compile("(" + "|".join(map(re.escape, sorted(named, key=len, reverse=True))) + ")")
        self.state = (model, path)

    def encode(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        return _flat(self._continuing.encode(list(texts), num_threads=1))

    def encode_with_spans(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        rows, spans = [], [np.zeros((0, 2), np.int32)]
        for text, found in zip(texts, self._continuing.encode(list(texts), out_type="proto"), strict=True):
            rows.append([piece.id for piece in found.pieces])
            # It counts bytes: of each byte the number of its character.
            lengths = [len(character.encode()) for character in text]
            character_of = np.append(np.repeat(np.arange(len(text)), lengths), len(text))
            ends = np.cumsum([0, *lengths])
            begins = character_of[[piece.begin for piece in found.pieces]]
            spans.append(
                np.stack([begins, np.searchsorted(ends, [piece.end for piece in found.pieces])], 1, dtype=np.int32)
            )
        return *_flat(rows), np.concatenate(spans)

    def check_fast(self, texts: Sequence[str]) -> bool:
        return False

    def encode_special(self, text: str) -> list[int]:
        ids = []
        for index, part in enumerate(self._spelt.split(text)):
            ids += [self.processor.piece_to_id(part)] if index % 2 else self.processor.encode(part)
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        return self.processor.decode(list(ids))

    def files(self) -> dict[str, bytes]:
        return {"spiece.model": self.state[0]}


def _pieces_by_id(vocabulary: dict[str, int]) -> list[str]:
    pieces = [""] * (max(vocabulary.values(), default=-1) + 1)  # an id without a piece keeps ''
    for piece, index in vocabulary.items():
        pieces[index] = piece
    return pieces


def _lower_cases(normalizer: dict | None) -> bool:
    if normalizer is None:
        return False
    if normalizer["type"] == "Sequence":
        return any(_lower_cases(part) for part in normalizer["normalizers"])
    return normalizer["type"] == "Lowercase" or bool(normalizer.get("lowercase"))


def _splitter(tokenizer, model: dict) -> tuple[Splitter, tuple[str, bool] | None]:
    """How texts become words, and (prefix, whether a piece that has it starts a word), None where pieces do not tell.

    Whether a space becomes part of the next word, which Ġ and ▁ show, is tried out, as normalizers, pre-tokenizers and
    their options all have a say: ByteLevel, Metaspace, Llama's Replace. Where the first word of a text gets the mark
    only behind a space, the splitter's lead is that space.
    """
    parts = tokenizer.normalizer, tokenizer.pre_tokenizer
    if model["type"] == "WordPiece":
        return Splitter(*parts), (model["continuing_subword_prefix"], False)
    for lead in ("", " "):
        splitter = Splitter(*parts, lead)
        for mark in ("Ġ", "▁"):
            if "".join(splitter.split("a b")) == f"{mark}a{mark}b":
                return splitter, (mark, True)
    return Splitter(*parts), None


def _load_nanotoken(definition: str, model_type: str, path: str, fast: bool | None):
    if fast is False or (fast is None and model_type != "WordPiece"):
        return None
    if model_type != "WordPiece":
        raise UserError(f"{path}: is a {model_type} tokenizer: the fast path is for WordPiece")
    try:
        import nanotoken
    except ImportError as error:
        if fast is None:
            return None
        raise UserError("nanotoken is not installed: expected pip install 'bert-jax[fast]'") from error
    try:
        return nanotoken.WordPieceTokenizer.from_json(definition)
    except nanotoken.UnsupportedTokenizerError as error:
        if fast is None:
            return None
        raise UserError(f"{path}: nanotoken cannot run it ({error})") from error


def _at_spaces(text: str) -> list[str]:
    """The text in parts of some LONG_TEXT characters, each but the first starting with a space."""
    parts, start = [], 0
    while (cut := text.find(" ", start + LONG_TEXT)) >= 0:
        parts.append(text[start:cut])
        start = cut
    return [*parts, text[start:]]


def _flat(rows: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    offsets = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, rows), np.int64, len(rows)), out=offsets[1:])
    return np.fromiter(itertools.chain.from_iterable(rows), np.uint32, int(offsets[-1])), offsets


def _replace_rows(ids, offsets, rows: list[int], new_ids, new_offsets) -> tuple[np.ndarray, np.ndarray]:
    """Flat ids where each of `rows` (ascending) is exchanged for the next row of new_ids."""
    parts, end = [], 0
    lengths = np.diff(offsets)
    lengths[rows] = np.diff(new_offsets)
    for index, row in enumerate(rows):
        parts += [ids[end : offsets[row]], new_ids[new_offsets[index] : new_offsets[index + 1]]]
        end = offsets[row + 1]
    replaced = np.zeros_like(offsets)
    np.cumsum(lengths, out=replaced[1:])
    return np.concatenate([*parts, ids[end:]]), replaced
