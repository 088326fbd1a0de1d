"""Documents out of text files, streamed: memory is bounded by the largest document, not by the file.

What a corpus may look like (the format of google-research/bert, and wider):
- a blank line, that is a line of only whitespace, ends a document; any number of blank lines in a row counts once;
- a document need not be split into sentences: `sentences.split_sentences` does that, unless told one sentence a line;
- `separator='line'` makes each line a document, `separator='file'` each file;
- JSON lines: one object a line, the document in its field `text_field`.
A document longer than a training example is cut by the preparation, at a token, possibly inside a sentence.
"""

import glob
import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from etils import epath

from bert_jax.errors import UserError

TEXT_SUFFIXES = (".txt", ".md", ".text")
JSON_SUFFIXES = (".jsonl", ".json-lines")
SEPARATORS = ("blank_line", "file", "line")
CHUNK_BYTES = 256 << 10  # stays in the cache: twice as fast as chunks of megabytes
BYTE_ORDER_MARK = b"\xef\xbb\xbf"

# What str.isspace calls whitespace, as UTF-8 and without the newline: on bytes this runs twice as fast as on text.
_SPACE = (
    rb"(?:[ \t\r\f\v\x1c-\x1f]|\xc2[\x85\xa0]|\xe1\x9a\x80|"
    rb"\xe2\x80[\x80-\x8a\xa8\xa9\xaf]|\xe2\x81\x9f|\xe3\x80\x80)"
)
_SPACES_ONLY = re.compile(rb"\n" + _SPACE + rb"+(?=\n|\Z)")
_BLANK_LINES = re.compile(rb"\n\n\n+")  # spelt so that it starts with a literal: 20 times faster than {3,}


@dataclass(frozen=True)
class TextFile:
    """One file of a corpus: its path, its size in bytes and how it is read."""

    path: str
    size: int
    kind: str  # 'text' | 'jsonl'


def find_files(sources: Sequence[str]) -> list[TextFile]:
    """Files of a corpus in the order of `sources`, those of one folder sorted by their path inside it.

    A source is a folder (searched to the bottom for *.txt, *.md, *.text, *.jsonl, *.json-lines; hidden names and
    empty files are passed over), a file (any suffix), or a glob. A file that two sources name is read once.
    Raises UserError, naming the source, where it is missing, unreadable, or holds no byte of text.
    """
    if not sources:
        raise UserError("no source of text given: expected at least one folder, file or glob")
    found: dict[str, TextFile] = {}
    for source in sources:
        try:
            files = _files_of_source(str(source))
        except OSError as error:
            raise UserError(f"{source}: cannot be read ({error.strerror or error})") from error
        found.update((file.path, file) for file in files if file.path not in found)
    return list(found.values())


def read_documents(
    file: TextFile, separator: str = "blank_line", text_field: str = "text", chunk_bytes: int = CHUNK_BYTES
) -> Iterator[str]:
    """Yields the documents of a file; `\\r\\n` becomes `\\n`, a UTF-8 byte order mark is dropped.

    separator (text files only; JSON lines have one document a line): 'blank_line', 'file' or 'line'. Newlines inside
    a document are kept, whitespace-only documents of text files are dropped. A JSON line whose text is empty yields
    an empty document, so that whoever counts can count it.
    Raises UserError for text that is not UTF-8 (file and byte offset), a line that is no JSON object with a text
    under `text_field` (file, line number, fields found), or a file that cannot be read.
    """
    if separator not in SEPARATORS:
        raise UserError(f"separator {separator!r} is unknown: expected one of {', '.join(SEPARATORS)}")
    blocks = _line_blocks(file.path, chunk_bytes)
    if file.kind == "jsonl":
        return _json_documents(blocks, file.path, text_field)
    if separator == "line":
        return _lines(blocks, file.path)
    documents = _split_at_blank_lines(blocks, file.path)
    return documents if separator == "blank_line" else _whole_file(blocks, file.path)


def _files_of_source(source: str) -> list[TextFile]:
    if not epath.Path(source).exists() and "://" not in source and glob.has_magic(source):
        paths = [epath.Path(match) for match in sorted(glob.glob(source, recursive=True))]
        if not paths:
            raise UserError(f"{source}: matches no file")
    else:
        paths = [epath.Path(source)]
        if not paths[0].exists():
            raise UserError(f"{source}: no such file or folder of text")
    files = [file for path in paths for file in (_files_under(path) if path.is_dir() else [_text_file(path)])]
    if not files:
        suffixes = ", ".join("*" + suffix for suffix in TEXT_SUFFIXES + JSON_SUFFIXES)
        raise UserError(f"{source}: holds no text file (expected {suffixes}; a glob names others)")
    files = [file for file in files if file.size]
    if not files:
        raise UserError(f"{source}: holds no text (0 bytes)")
    return files


def _files_under(folder: epath.Path) -> list[TextFile]:
    paths = []
    pending, seen = [folder], {os.path.realpath(folder)}
    while pending:
        for path in pending.pop().iterdir():
            if path.name.startswith("."):
                continue
            if path.is_dir():
                if os.path.realpath(path) not in seen:  # a link back up would lead round for ever
                    seen.add(os.path.realpath(path))
                    pending.append(path)
            elif path.suffix in TEXT_SUFFIXES + JSON_SUFFIXES:
                paths.append(path)
    paths.sort(key=lambda path: path.relative_to(folder).parts)
    return [_text_file(path) for path in paths]


def _text_file(path: epath.Path) -> TextFile:
    # A pipe would block for ever, a dangling link has no text; epath calls a pipe a file.
    if not path.is_file() or (os.path.exists(path) and not os.path.isfile(path)):
        raise UserError(f"{path}: is no regular file")
    kind = "jsonl" if path.suffix in JSON_SUFFIXES else "text"
    return TextFile(str(path), int(path.stat().length), kind)


def _line_blocks(path: str, chunk_bytes: int) -> Iterator[tuple[bytes, int]]:
    """Yields (whole lines, their byte offset in the file); only the last block may lack its final newline.

    A newline byte is never part of a longer UTF-8 character, so a block always decodes by itself.
    """
    pending: list[bytes] = []  # joined once a newline is seen: one endless line costs linear time
    offset = 0
    try:
        with epath.Path(path).open("rb") as stream:
            while chunk := stream.read(chunk_bytes):
                cut = chunk.rfind(b"\n") + 1
                if not cut:
                    pending.append(chunk)
                    continue
                block = b"".join((*pending, chunk[:cut]))
                yield from _without_mark(block, offset)
                offset += len(block)
                pending = [chunk[cut:]]
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror or error})") from error
    if block := b"".join(pending):
        yield from _without_mark(block, offset)


def _without_mark(block: bytes, offset: int) -> Iterator[tuple[bytes, int]]:
    if offset == 0 and block.startswith(BYTE_ORDER_MARK):
        block, offset = block[len(BYTE_ORDER_MARK) :], len(BYTE_ORDER_MARK)
    if block:
        yield block, offset


def _decode(cleaned: bytes, block: bytes, offset: int, path: str) -> str:
    """Text of `cleaned`; where it is not UTF-8, `block` (the same as it stands in the file) gives the offset."""
    try:
        return cleaned.decode()
    except UnicodeDecodeError:
        pass
    try:
        block.decode()
    except UnicodeDecodeError as error:
        where, bad = offset + error.start, block[error.start]
        raise UserError(f"{path}: byte {bad:#04x} at offset {where} is not UTF-8: expected UTF-8 text") from error
    raise AssertionError("cleaning whitespace broke the encoding")


def _clean_newlines(block: bytes) -> bytes:
    """Lines that end in a bare newline, and whitespace-only lines that are empty."""
    if b"\r" in block:
        block = block.replace(b"\r\n", b"\n")
    return _SPACES_ONLY.sub(b"\n", b"\n" + block)[1:]


def _split_at_blank_lines(blocks, path: str) -> Iterator[str]:
    unfinished: list[str] = []  # parts of the document that the next block may continue
    for block, offset in blocks:
        cleaned = _BLANK_LINES.sub(b"\n\n", _clean_newlines(block))
        ended = cleaned.endswith(b"\n\n") or cleaned == b"\n"
        text = _decode(cleaned.removesuffix(b"\n"), block, offset, path)
        # The newline that ended the block before stands in front: one more makes a blank line.
        documents = ("\n" + text).split("\n\n")
        unfinished.append(documents[0])
        if len(documents) > 1:
            yield from _joined(unfinished)
            yield from documents[1:-1]
            unfinished = [documents[-1]]
        if ended:
            yield from _joined(unfinished)
            unfinished = []
    yield from _joined(unfinished)


def _joined(parts: list[str]) -> Iterator[str]:
    document = "".join(parts).strip("\n")
    if document and not document.isspace():
        yield document


def _whole_file(blocks, path: str) -> Iterator[str]:
    return _joined([_decode(_clean_newlines(block), block, offset, path) for block, offset in blocks])


def _lines(blocks, path: str) -> Iterator[str]:
    for block, offset in blocks:
        lines = _decode(_clean_newlines(block), block, offset, path).split("\n")
        yield from (line for line in lines if line and not line.isspace())


def _json_documents(blocks, path: str, text_field: str) -> Iterator[str]:
    number = 0
    for block, offset in blocks:
        for line in _decode(block, block, offset, path).removesuffix("\n").split("\n"):
            number += 1
            if line and not line.isspace():
                yield _json_text(line, f"{path}, line {number}", text_field)


def _json_text(line: str, where: str, text_field: str) -> str:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{where}: is not JSON ({error}): expected one object a line") from error
    if not isinstance(record, dict):
        raise UserError(f"{where}: is a JSON {type(record).__name__}: expected an object with the field {text_field!r}")
    text = record.get(text_field)
    if not isinstance(text, str):
        found = ", ".join(sorted(record)) or "none"
        kind = f"holds {type(text).__name__}" if text_field in record else "is missing"
        raise UserError(f"{where}: field {text_field!r} {kind}: expected text (fields found: {found})")
    try:
        return _clean_newlines(text.encode()).decode()
    except UnicodeEncodeError as error:  # half a surrogate pair, which JSON can spell but UTF-8 cannot
        raise UserError(f"{where}: field {text_field!r} holds half a surrogate pair: expected Unicode text") from error
