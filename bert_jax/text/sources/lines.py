"""Blocks of whole lines of UTF-8 text out of the pieces of a file, and what to do with bytes that are not text."""

import re
from collections.abc import Iterator

from bert_jax.text.sources.compressed import CHUNK_BYTES, GAP, read_head, read_pieces
from bert_jax.text.sources.source import Report, TextFile

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
SNIFF_BYTES = 64 << 10
# The share of bytes that cannot be text from which on a file is none at all, instead of a text with bad lines.
NO_TEXT_SHARE = 0.1
NO_TEXT_BYTES = 16

_OTHER_MARKS = (
    (b"\xff\xfe\0\0", "UTF-32"),
    (b"\0\0\xfe\xff", "UTF-32"),
    (b"\xff\xfe", "UTF-16"),
    (b"\xfe\xff", "UTF-16"),
)
_CONTROL = re.compile("[\0-\x08\x0e-\x1a\x7f\ufffd]")
# What str.isspace calls whitespace, as UTF-8 and without the newline: on bytes this runs twice as fast as on text.
SPACE = (
    rb"(?:[ \t\r\f\v\x1c-\x1f]|\xc2[\x85\xa0]|\xe1\x9a\x80|"
    rb"\xe2\x80[\x80-\x8a\xa8\xa9\xaf]|\xe2\x81\x9f|\xe3\x80\x80)"
)
_SPACES_ONLY = re.compile(rb"\n" + SPACE + rb"+(?=\n|\Z)")


def line_blocks(file: TextFile, report: Report, chunk_bytes: int = CHUNK_BYTES) -> Iterator[tuple[bytes, int] | None]:
    """Yields (whole lines, the offset of the first in the decompressed file), or GAP where bytes are missing.

    Only the last block may lack its final newline; a line that a gap cuts is dropped on both sides of it. A newline
    byte is never part of a longer UTF-8 character, so a block always decodes by itself. A byte order mark is dropped.
    A file that is not UTF-8 text at all is reported as a whole and yields nothing.
    """
    if reason := _no_text(file.path):
        if file.start == 0:  # of several parts, the first says so
            report(f"{file.path}: {reason}")
        return
    pending: list[bytes] = []  # joined once a newline is seen: one endless line costs linear time
    offset, lost = file.start, False
    for piece in read_pieces(file, report, chunk_bytes):
        if piece is GAP:
            offset += sum(map(len, pending))
            pending, lost = [], True
            yield GAP
            continue
        if lost:
            skipped = piece.find(b"\n") + 1
            offset += skipped or len(piece)
            if not skipped:
                continue
            piece, lost = piece[skipped:], False
        cut = piece.rfind(b"\n") + 1
        if not cut:
            pending.append(piece)
            continue
        block = b"".join((*pending, piece[:cut]))
        yield from _without_mark(block, offset)
        offset += len(block)
        pending = [piece[cut:]]
    if block := b"".join(pending):
        yield from _without_mark(block, offset)


def decode_lines(block: bytes, offset: int, path: str, report: Report, clean=bytes, instead: bytes = b"") -> str:
    """The text of clean(block). Lines that are no text are reported and replaced by `instead`.

    No text is what is not UTF-8, and a NUL byte: those come from binary files and from UTF-16.
    """
    try:
        if b"\0" not in block:
            return clean(block).decode()
    except UnicodeDecodeError:
        pass
    return clean(_good_lines(block, offset, path, report, instead)).decode()


def clean_newlines(block: bytes) -> bytes:
    """Lines that end in a bare newline, and whitespace-only lines that are empty."""
    if b"\r" in block:
        block = block.replace(b"\r\n", b"\n")
    return _SPACES_ONLY.sub(b"\n", b"\n" + block)[1:]


def clean_document(text: str) -> str:
    """The same for a text that has come out of a record. Raises UnicodeEncodeError for half a surrogate pair."""
    if "\n" not in text and "\r" not in text:
        text.encode()
        return text
    return clean_newlines(text.encode()).decode()


def _good_lines(block: bytes, offset: int, path: str, report: Report, instead: bytes) -> bytes:
    kept = []
    for line in re.findall(rb"[^\n]*\n|[^\n]+", block):
        bad = line.find(b"\0")
        reason = "a NUL byte"
        try:
            line.decode()
        except UnicodeDecodeError as error:
            if bad < 0 or error.start < bad:
                bad, reason = error.start, f"byte {line[error.start]:#04x}"
        if bad < 0:
            kept.append(line)
        else:
            wrong = "is not text" if reason == "a NUL byte" else "is not UTF-8"
            report(f"{path}: {reason} at offset {offset + bad} {wrong}: expected UTF-8 text")
            kept.append(instead)
        offset += len(line)
    return b"".join(kept)


def _no_text(path: str) -> str:
    """Why the file is no UTF-8 text at all, or ''. A file that cannot be opened is left to the reading."""
    try:
        head = read_head(path, SNIFF_BYTES)
    except OSError:
        return ""
    for mark, name in _OTHER_MARKS:
        if head.startswith(mark):
            return f"is {name} (byte order mark at offset 0): expected UTF-8 text; convert it, as with iconv -t UTF-8"
    text = head[: len(head) - 3].decode(errors="replace")  # the end may cut a character
    bad = _CONTROL.findall(text)
    if len(bad) < NO_TEXT_BYTES or len(bad) <= NO_TEXT_SHARE * len(head):
        return ""
    first = len(text[: text.index(bad[0])].encode())
    return f"byte {head[first]:#04x} at offset {first} is not UTF-8 text, nor is much of what follows: no text file"


def _without_mark(block: bytes, offset: int) -> Iterator[tuple[bytes, int]]:
    if offset == 0 and block.startswith(BYTE_ORDER_MARK):
        block, offset = block[len(BYTE_ORDER_MARK) :], len(BYTE_ORDER_MARK)
    if block:
        yield block, offset
