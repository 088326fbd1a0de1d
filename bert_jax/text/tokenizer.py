"""One interface over vocab.txt (WordPiece), tokenizer.json and SentencePiece's .model."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bert_jax.errors import UserError
from bert_jax.text.backends import HuggingFaceTokens, SentencePieceTokens
from bert_jax.text.byte_level import piece_text
from bert_jax.text.output import write_once
from bert_jax.text.wordpiece import PLACEHOLDER, build_wordpiece, looks_uncased, read_vocabulary

_EXPECTED = "expected a vocab.txt, a tokenizer.json, a SentencePiece .model, or a folder that holds one"


class Tokenizer:
    """Text to ids and back. It can be pickled: a worker process gets one that gives the same ids.

    size: number of ids (highest id + 1).
    pad_id, unk_id, cls_id, sep_id, mask_id: the special tokens, found by name.
    special_ids: int32 [n], ascending: those five and whatever else the vocabulary marks as special.
    ordinary_ids: int32 [m], ascending: ids that are neither special nor placeholders such as [unused7].
    is_word_start: bool [size], False for a piece that continues a word; None where the pieces do not tell. Words are
        what BERT's rules part for WordPiece (punctuation stands alone), and what whitespace parts for Ġ and ▁ pieces;
        a piece of whitespace, such as a newline, starts a word as what follows it has no mark of its own.
    lower_case: whether text is lower-cased.
    is_fast: whether nanotoken encodes.
    backend: what encodes, one of the classes of backends.py.
    """

    def __init__(self, backend: HuggingFaceTokens | SentencePieceTokens):
        self.backend = backend
        self._pieces = backend.pieces
        ids = {piece: index for index, piece in enumerate(backend.pieces)}
        self.size = len(backend.pieces)
        self.lower_case = backend.lower_case
        self.pad_id, self.unk_id, self.cls_id, self.sep_id, self.mask_id = (
            ids[backend.names[role]] for role in ("pad", "unk", "cls", "sep", "mask")
        )
        self.special_ids = np.array(sorted(ids[name] for name in backend.special_names), np.int32)
        not_ordinary = {i for i, piece in enumerate(self._pieces) if not piece or PLACEHOLDER.fullmatch(piece)}
        not_ordinary.update(self.special_ids.tolist())
        self.ordinary_ids = np.array([i for i in range(self.size) if i not in not_ordinary], np.int32)
        self.is_word_start = None
        if backend.word_prefix is not None:
            self.is_word_start = np.array([self._starts_word(piece) for piece in self._pieces], bool)
            self.is_word_start[self.special_ids] = True
            # For WordPiece a whole word is unknown; where a mark starts words it is a character, after that mark.
            self.is_word_start[self.unk_id] = not backend.word_prefix[1]

    @property
    def is_fast(self) -> bool:
        return self.backend.fast is not None

    def encode(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Ids of many texts: uint32 [total], and int64 offsets [n + 1]: text i has ids[offsets[i] : offsets[i + 1]].

        No special token is added, and one spelt out in a text is ordinary text: no text can yield a special id but
        unk_id. One thread. A text may have no id at all: whitespace, or only characters that BERT's clean-up removes.
        Texts are parts of a longer one, as sentences are: to tokenizers that write a space as part of the next word
        (byte-level BPE, SentencePiece) each one continues after a space, whether they add it to a text or not.
        """
        return self.backend.encode(texts)

    def encode_with_spans(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """What `encode` gives, and int32 spans [total, 2]: an id stands for text[start : end].

        Spans rise, and lie within the text. One may be empty, or have the whitespace before its word; pieces of one
        character, such as bytes, all have the whole character. For texts of a page, not of a corpus: `encode` is
        faster.
        """
        return self.backend.encode_with_spans(texts)

    def encode_special(self, text: str) -> list[int]:
        """Ids of one text in which special tokens are meant as such ("The [MASK] sat."); none is added."""
        return self.backend.encode_special(text)

    def check_fast(self, texts: Sequence[str]) -> bool:
        """Whether nanotoken is in use and gives these texts the ids of `tokenizers`; dropped with a warning if not."""
        return self.backend.check_fast(texts)

    def decode(self, ids: Sequence[int] | np.ndarray) -> str:
        """Text of some ids, as close to the original as the tokenizer allows; UserError for an id it does not have."""
        return self.backend.decode(self._checked(ids))

    def tokens(self, ids: Sequence[int] | np.ndarray) -> list[str]:
        """The pieces of some ids; UserError for an id that the tokenizer does not have."""
        return [self._pieces[index] for index in self._checked(ids)]

    def word(self, index: int) -> str:
        """The text of a piece that starts a word, such as 'cat' of 'Ġcat'; UserError for one that starts none."""
        piece = self.tokens([index])[0]
        if self.is_word_start is None or not self.is_word_start[index] or index in self.special_ids:
            raise UserError(f"piece {piece!r} (id {index}) starts no word")
        if self.backend.byte_level:
            return piece_text(piece).removeprefix(" ")
        prefix, starts = self.backend.word_prefix
        return piece.removeprefix(prefix) if starts else piece

    def save(self, folder: str | Path) -> None:
        """Writes what `load_tokenizer(folder)` needs to be the same, in Hugging Face's layout where it has one.

        Files that hold the same already are left alone; UserError, and nothing written, if one holds something else.
        """
        write_once(folder, self.backend.files())

    def _starts_word(self, piece: str) -> bool:
        if self.backend.byte_level:
            return piece_text(piece)[:1].isspace()
        prefix, starts = self.backend.word_prefix
        return piece.startswith(prefix) == starts or piece[:1].isspace()

    def _checked(self, ids) -> list[int]:
        ids = np.asarray(ids, np.int64)
        wrong = ids[(ids < 0) | (ids >= self.size)]
        if len(wrong):
            raise UserError(f"id {wrong[0]} is outside the vocabulary: expected 0 to {self.size - 1}")
        return ids.tolist()

    def __reduce__(self):
        return _rebuild, (type(self.backend), self.backend.state)


def load_tokenizer(
    path: str | Path, lower_case: bool | None = None, strip_accents: bool | None = None, fast: bool | None = None
) -> Tokenizer:
    """The tokenizer of a file or folder, with its special tokens checked.

    path: a vocab.txt, a tokenizer.json, a SentencePiece .model, or a folder with one of them (looked for in the order
    tokenizer.json, vocab.txt, *.model), whose tokenizer_config.json tells do_lower_case and strip_accents.
    lower_case, strip_accents: None takes what the files say; a vocab.txt alone is uncased when it holds no upper-case
    letter; accents are stripped where text is lower-cased, as in the original BERT (wordpiece.py on Hangul and kana).
    fast: whether nanotoken encodes WordPiece: None if it is installed, True must, False must not. It is compared with
    `tokenizers` on adversarial text at every load and given up with a warning if one id differs.
    Raises UserError, naming the file, for the wrong kind of file and for a missing special token.
    """
    path = Path(path)
    config = {}
    if path.is_dir():
        config = _read_config(path / "tokenizer_config.json")
        path = _file_in_folder(path)
    if not path.exists():
        raise UserError(f"{path}: no such tokenizer: {_EXPECTED}")
    if path.suffix == ".model":
        if fast:
            raise UserError(f"{path}: is a SentencePiece model: the fast path is for WordPiece")
        backend = SentencePieceTokens(_read(path), str(path))
        _refuse_changes(backend, lower_case, strip_accents)
        return Tokenizer(backend)
    asked = lower_case, strip_accents
    lower_case = config.get("do_lower_case") if lower_case is None else lower_case
    strip_accents = config.get("strip_accents") if strip_accents is None else strip_accents
    if path.suffix == ".json":
        definition = _json_object(_read(path), path)
        normalizer = definition.get("normalizer") or {}
        if normalizer.get("type") != "BertNormalizer":
            backend = HuggingFaceTokens(json.dumps(definition), str(path), fast)
            _refuse_changes(backend, *asked)
            return Tokenizer(backend)
        changes = {"lowercase": lower_case, "strip_accents": strip_accents}
        definition["normalizer"] = normalizer | {key: value for key, value in changes.items() if value is not None}
        return Tokenizer(HuggingFaceTokens(json.dumps(definition), str(path), fast))
    tokens = read_vocabulary(path)
    lower_case = looks_uncased(tokens) if lower_case is None else lower_case
    definition = build_wordpiece(tokens, lower_case, strip_accents, str(path)).to_str()
    return Tokenizer(HuggingFaceTokens(definition, str(path), fast))


def _refuse_changes(backend, lower_case: bool | None, strip_accents: bool | None) -> None:
    if strip_accents is not None or lower_case not in (None, backend.lower_case):
        raise UserError(
            f"{backend.path}: its normalizer is its own (lower_case={backend.lower_case}): "
            "lower_case and strip_accents can be set for BERT's only"
        )


def _file_in_folder(folder: Path) -> Path:
    models = sorted(folder.glob("*.model"))
    candidates = [folder / "tokenizer.json", folder / "vocab.txt", *models]
    found = [path for path in candidates if path.is_file()]
    if not found:
        raise UserError(f"{folder}: is a folder without a tokenizer: {_EXPECTED}")
    if found[0] in models and len(models) > 1:
        raise UserError(f"{folder}: holds {len(models)} .model files: expected one, or the path of the one meant")
    return found[0]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror or error})") from error


def _read_config(path: Path) -> dict:
    return _json_object(_read(path), path) if path.exists() else {}


def _json_object(content: bytes, path: Path) -> dict:
    try:
        value = json.loads(content)
    except ValueError as error:
        raise UserError(f"{path}: is not JSON ({error})") from error
    if not isinstance(value, dict):
        raise UserError(f"{path}: is a JSON {type(value).__name__}: expected an object")
    return value


def _rebuild(backend, state):
    return Tokenizer(backend(*state))
