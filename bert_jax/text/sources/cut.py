"""Large files cut into parts that different processes read: every document lies in exactly one part.

A part of text begins where a document does, so reading it needs to know nothing of its neighbours.
"""

import bz2
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import BinaryIO

from bert_jax.text.sources import storage, tfds
from bert_jax.text.sources.compressed import MAGIC_BYTES, find_bz2_stream, find_codec
from bert_jax.text.sources.lines import SPACE
from bert_jax.text.sources.source import TextFile

CHUNK_BYTES = 1 << 20
# A stream of a multistream dump holds 100 pages, and its second one begins after the header. Streams that a parallel
# compressor makes hold 900 kB and begin anywhere: after so many of them it is taken to be such a file, and not cut.
STREAMS_TRIED = 8

# Each takes at least the byte before the boundary, so that the next one is always a later one.
_BLANK_LINE = re.compile(rb"\n" + SPACE + rb"*\n")
# A line that may become blank; the end may cut a character.
_OPEN_LINE = re.compile(rb"\n" + SPACE + rb"*(?:[\xc2\xe1\xe2\xe3][\x80-\xbf]?)?\Z")
_LINE = re.compile(rb"\n")
_PAGE = re.compile(rb"[\s>](?=<page>)")
_DOC = re.compile(rb"\n(?=<doc )")
_LONGEST_MARK = 16  # bytes that may straddle two chunks


def cut_file(file: TextFile, part_bytes: int, separator: str) -> list[TextFile]:
    """Parts of about part_bytes, at least one; a small file, or one that cannot be cut, is its only part."""
    if file.size <= part_bytes:
        return [file]
    if file.kind == "parquet":
        return _cut_row_groups(file, part_bytes)
    if file.kind == "arrow":
        from bert_jax.text.sources import tables  # pyarrow takes half a second to import

        return _cut_evenly(file, tables.arrow_batch_count(file.path), part_bytes)
    if file.kind == "tfds":
        return _cut_evenly(file, tfds.record_count(file.path), part_bytes)
    boundary = {"jsonl": _LINE, "mediawiki": _PAGE, "wikiextractor": _DOC}.get(file.kind)
    if file.kind == "text" and separator != "file":
        boundary = _LINE if separator == "line" else _BLANK_LINE
    if boundary is None:
        return [file]
    with storage.open_file(file.path) as stream:
        codec = find_codec(stream.read(MAGIC_BYTES))
        if codec is None:
            starts = list(_starts(stream, file.size, part_bytes, boundary))
        elif codec.name == "bz2" and file.kind == "mediawiki":
            starts = list(_stream_starts(stream, file.size, part_bytes))
        else:
            starts = [0]
    return _parts(file, starts)


def _parts(file: TextFile, starts: list[int]) -> list[TextFile]:
    """Byte ranges that begin at `starts`; the last one is open, so that it sees how the file ends."""
    if len(starts) == 1:
        return [file]
    last = file.part(starts[-1], None, file.size - starts[-1])
    return [*(file.part(start, stop, stop - start) for start, stop in pairwise(starts)), last]


def _starts(stream: BinaryIO, size: int, part_bytes: int, boundary: re.Pattern) -> Iterator[int]:
    start = 0
    while start is not None and start < size:
        yield start
        start = _next_boundary(stream, start + part_bytes, boundary)


def _next_boundary(stream: BinaryIO, position: int, boundary: re.Pattern) -> int | None:
    """Where the first match of `boundary` that begins at position - 1 or later ends; None where there is none."""
    position -= 1
    stream.seek(position)
    kept = b""  # the end of what was read, where a match may begin
    while chunk := stream.read(CHUNK_BYTES):
        data = kept + chunk
        if match := boundary.search(data):
            return position - len(kept) + match.end()
        position += len(chunk)
        kept = _open_end(data, boundary)
    return None


def _open_end(data: bytes, boundary: re.Pattern) -> bytes:
    if boundary is not _BLANK_LINE:
        return data[-_LONGEST_MARK:]
    last = data.rfind(b"\n")
    return data[last:] if last >= 0 and _OPEN_LINE.match(data, last) else b""


def _stream_starts(stream: BinaryIO, size: int, part_bytes: int) -> Iterator[int]:
    """Starts of streams, part_bytes apart, that begin with a page."""
    start, tried = 0, 0
    position = part_bytes
    yield start
    while position < size and (found := find_bz2_stream(stream, position)) is not None:
        if _begins_with_page(stream, found):
            yield found
            position, tried = found + part_bytes, 0
        else:
            position, tried = found + 1, tried + 1
            if tried == STREAMS_TRIED:
                return


def _begins_with_page(stream: BinaryIO, start: int) -> bool:
    stream.seek(start)
    decompressor, head = bz2.BZ2Decompressor(), b""
    while len(head) < 1000 and not decompressor.eof and (data := stream.read(64 << 10)):
        try:
            head += decompressor.decompress(data, 1000)
        except OSError:
            return False
    return head.lstrip().startswith(b"<page>")


def _cut_row_groups(file: TextFile, part_bytes: int) -> list[TextFile]:
    from bert_jax.text.sources import tables

    sizes = tables.parquet_row_groups(file.path)
    parts, start, held = [], 0, 0
    for group, size in enumerate(sizes):
        if held and held + size > part_bytes:
            parts.append(file.part(start, group, held))
            start, held = group, 0
        held += size
    parts.append(file.part(start, len(sizes), held))  # of a damaged file, the reader says what is wrong
    return parts if len(parts) > 1 else [file]


def _cut_evenly(file: TextFile, count: int | None, part_bytes: int) -> list[TextFile]:
    """Ranges of `count` records of about the same size; None: they cannot be reached one by one."""
    n_parts = min(-(-file.size // part_bytes), count or 1)
    if n_parts < 2:
        return [file]
    edges = [count * part // n_parts for part in range(n_parts + 1)]
    bytes_edges = [file.size * edge // count for edge in edges]
    return [
        file.part(start, stop, end - begin)
        for (start, stop), (begin, end) in zip(pairwise(edges), pairwise(bytes_edges), strict=True)
    ]
