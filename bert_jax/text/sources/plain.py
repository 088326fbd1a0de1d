"""Documents of plain text files and of JSON lines."""

import json
import re
from collections.abc import Iterator

from bert_jax.text.sources.compressed import CHUNK_BYTES, GAP
from bert_jax.text.sources.lines import clean_document, clean_newlines, decode_lines, line_blocks
from bert_jax.text.sources.source import Report, TextFile

_BLANK_LINES = re.compile(rb"\n\n\n+")  # spelt so that it starts with a literal: 20 times faster than {3,}


def read_text(file: TextFile, separator: str, report: Report, chunk_bytes: int = CHUNK_BYTES) -> Iterator[str]:
    """Documents of a text file: what a blank line ends, each line, or (`separator='file'`) all of it.

    A line with bytes that are no text is left out of its document; a document that missing bytes cut is left out.
    """
    blocks = line_blocks(file, report, chunk_bytes)
    if separator == "line":
        return _lines(blocks, file.path, report)
    if separator == "file":
        return _whole_file(blocks, file.path, report)
    return _split_at_blank_lines(blocks, file.path, report)


def read_jsonl(file: TextFile, report: Report, chunk_bytes: int = CHUNK_BYTES) -> Iterator[str]:
    """The text under file.column of each line; an empty one is yielded, so that whoever counts can count it."""
    number, gaps = 0, file.start > 0
    for block in line_blocks(file, report, chunk_bytes):
        if block is GAP:
            gaps = True
            continue
        lines, offset = block
        text = decode_lines(lines, offset, file.path, report, instead=b"\n").removesuffix("\n")
        for line in text.split("\n"):
            number += 1
            if line and not line.isspace():
                where = f"line {number}" if not gaps else f"line {number} from offset {file.start}"
                yield from _json_text(line, f"{file.path}, {where}", file.column, report)


def _split_at_blank_lines(blocks, path: str, report: Report) -> Iterator[str]:
    unfinished: list[str] = []  # parts of the document that the next block may continue
    lost = False  # bytes are missing: what comes up to the next blank line is the rest of a document
    for block in blocks:
        if block is GAP:
            unfinished, lost = [], True
            continue
        text = decode_lines(*block, path, report, _single_blank_lines)
        if not text:  # none of its lines was good
            continue
        ended = text.endswith("\n\n") or text == "\n"
        # The newline that ended the block before stands in front: one more makes a blank line.
        documents = ("\n" + text.removesuffix("\n")).split("\n\n")
        if not lost:
            unfinished.append(documents[0])
        if len(documents) > 1:
            yield from joined(unfinished)
            yield from documents[1:-1]
            unfinished, lost = [documents[-1]], False
        if ended:
            yield from joined(unfinished)
            unfinished, lost = [], False
    yield from joined(unfinished)


def _single_blank_lines(block: bytes) -> bytes:
    return _BLANK_LINES.sub(b"\n\n", clean_newlines(block))


def joined(parts: list[str]) -> Iterator[str]:
    """The document that the parts make, unless it is only whitespace."""
    document = "".join(parts).strip("\n")
    if document and not document.isspace():
        yield document


def _whole_file(blocks, path: str, report: Report) -> Iterator[str]:
    parts = []
    for block in blocks:
        if block is GAP:
            return
        parts.append(decode_lines(*block, path, report, clean_newlines))
    yield from joined(parts)


def _lines(blocks, path: str, report: Report) -> Iterator[str]:
    for block in blocks:
        if block is not GAP:
            lines = decode_lines(*block, path, report, clean_newlines).split("\n")
            yield from (line for line in lines if line and not line.isspace())


def _json_text(line: str, where: str, column: str, report: Report) -> Iterator[str]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        return report(f"{where}: is not JSON ({error}): expected one object a line")
    if not isinstance(record, dict):
        return report(f"{where}: is a JSON {type(record).__name__}: expected an object with the field {column!r}")
    text = record.get(column)
    if not isinstance(text, str):
        found = ", ".join(sorted(record)) or "none"
        kind = f"holds {type(text).__name__}" if column in record else "is missing"
        return report(f"{where}: field {column!r} {kind}: expected text (fields found: {found})")
    try:
        yield clean_document(text)
    except UnicodeEncodeError:  # half a surrogate pair, which JSON can spell but UTF-8 cannot
        report(f"{where}: field {column!r} holds half a surrogate pair: expected Unicode text")
