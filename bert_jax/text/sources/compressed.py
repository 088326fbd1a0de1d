"""Bytes of a file, decompressed on the way: gzip, bz2, zstd and xz are told by their first bytes, not by the name.

A file may hold several members (gzip) or streams (bz2, xz) or frames (zstd) one after the other, as `cat a.gz b.gz` and
parallel compressors make them. Where bytes are missing, because an archive is cut off or corrupt, the iterator says
so by GAP: what the reader has of an unfinished document is then no whole document.
"""

import bz2
import lzma
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

import zstandard

from bert_jax.text.sources import storage
from bert_jax.text.sources.source import Report, TextFile

GAP = None
CHUNK_BYTES = 256 << 10  # stays in the cache: twice as fast as chunks of megabytes
# One call gives at most so much, however well it is compressed (zstd alone cannot be told, so it is fed little).
PIECE_BYTES = 1 << 20
BZ2_BLOCK = b"1AY&SY"  # the first block of a stream follows its header, four bytes such as BZh9
MAGIC_BYTES = 10

_FAILURES = (zlib.error, lzma.LZMAError, zstandard.ZstdError, OSError, EOFError, ValueError)


@dataclass(frozen=True)
class Codec:
    """A compression: how a member begins, what reads one, and how many bytes to feed it at a time."""

    name: str
    begins: Callable[[bytes], bool]
    decompressor: Callable[[], object]
    feed: Callable[[object, bytes], Iterator[bytes]]
    feed_bytes: int = 64 << 10


def _feed_limited(decompressor, data: bytes) -> Iterator[bytes]:
    yield decompressor.decompress(data, PIECE_BYTES)
    while not decompressor.needs_input and not decompressor.eof:
        yield decompressor.decompress(b"", PIECE_BYTES)


def _feed_zlib(decompressor, data: bytes) -> Iterator[bytes]:
    piece = decompressor.decompress(data, PIECE_BYTES)
    yield piece
    while decompressor.unconsumed_tail or len(piece) == PIECE_BYTES:
        piece = decompressor.decompress(decompressor.unconsumed_tail, PIECE_BYTES)
        yield piece


def _feed_whole(decompressor, data: bytes) -> Iterator[bytes]:
    yield decompressor.decompress(data)


def _begins_bz2(head: bytes) -> bool:
    return head[:3] == b"BZh" and head[3:4].isdigit() and head[4:10] in (BZ2_BLOCK, b"\x17rE8P\x90")  # or an empty one


CODECS = (
    Codec("gzip", lambda head: head[:2] == b"\x1f\x8b", lambda: zlib.decompressobj(31), _feed_zlib, 16 << 10),
    Codec("bz2", _begins_bz2, bz2.BZ2Decompressor, _feed_limited),
    Codec(
        "zstd",
        lambda head: head[:4] == b"\x28\xb5\x2f\xfd" or (0x50 <= head[0] <= 0x5F and head[1:4] == b"\x2a\x4d\x18"),
        lambda: zstandard.ZstdDecompressor(max_window_size=1 << 31).decompressobj(),
        _feed_whole,
        feed_bytes=16 << 10,
    ),
    Codec("xz", lambda head: head[:6] == b"\xfd7zXZ\x00", lzma.LZMADecompressor, _feed_limited),
)


def find_codec(head: bytes) -> Codec | None:
    """The compression whose file begins with `head` (10 bytes are enough), or None."""
    return next((codec for codec in CODECS if head and codec.begins(head)), None)


def read_pieces(file: TextFile, report: Report, chunk_bytes: int = CHUNK_BYTES) -> Iterator[bytes | None]:
    """Bytes file.start to file.stop (as stored), decompressed, in pieces; GAP where bytes are missing.

    What cannot be read is told to `report`, which may raise. A corrupt stream of a bz2 file with several is skipped;
    of other archives all that follows the damage is lost, and some kilobytes before it. gzip notices damage late, by
    the checksum at its end: what comes between may be garbage.
    """
    try:
        with storage.open_file(file.path) as stream:
            codec = find_codec(stream.read(MAGIC_BYTES))
            stream.seek(file.start)
            if codec:
                yield from _decompressed(stream, codec, file, report)
            else:
                yield from _plain(stream, file, chunk_bytes)
    except OSError as error:
        report(f"{file.path}: cannot be read ({error.strerror or error})")
        yield GAP


def read_head(path: str, size: int) -> bytes:
    """The first `size` bytes of a file, decompressed; fewer where it is shorter or damaged."""
    with storage.open_file(path) as stream:
        codec = find_codec(stream.read(MAGIC_BYTES))
        stream.seek(0)
        if not codec:
            return stream.read(size)
        head = b""
        for piece in _decompressed(stream, codec, TextFile(path, 0, "text"), lambda message: None):
            head += piece or b""
            if piece is GAP or len(head) >= size:
                break
        return head[:size]


def find_bz2_stream(stream: BinaryIO, start: int, stop: int | None = None) -> int | None:
    """Offset of the first bz2 stream that begins in [start, stop), or None. Leaves the file position anywhere.

    Its ten first bytes occur by chance once in 2^76 bytes.
    """
    stream.seek(start)
    position, kept = start, b""
    while chunk := stream.read(1 << 20):
        data = kept + chunk
        at = data.find(BZ2_BLOCK)
        while at >= 0:
            if at >= 4 and _begins_bz2(data[at - 4 : at + 6]):
                found = position - len(kept) + at - 4
                return found if stop is None or found < stop else None
            at = data.find(BZ2_BLOCK, at + 1)
        position += len(chunk)
        kept = data[-(MAGIC_BYTES - 1) :]
        if stop is not None and position - len(kept) >= stop:
            return None
    return None


def _plain(stream: BinaryIO, file: TextFile, chunk_bytes: int) -> Iterator[bytes]:
    left = file.stop - file.start if file.stop is not None else None
    while chunk := stream.read(chunk_bytes if left is None else min(left, chunk_bytes)):
        if left is not None:
            left -= len(chunk)
        yield chunk


def _decompressed(stream: BinaryIO, codec: Codec, file: TextFile, report: Report) -> Iterator[bytes | None]:
    position, data = file.start, b""  # offset of data[0]; data: read, not yet decompressed
    while file.stop is None or position < file.stop:
        while len(data) < MAGIC_BYTES and (more := stream.read(codec.feed_bytes)):
            data += more
        kept = data.lstrip(b"\0")  # archives may be padded to a block of the medium
        position, data = position + len(data) - len(kept), kept
        if not data:
            if not (data := stream.read(codec.feed_bytes)):
                return
            continue
        member = position
        decompressor = codec.decompressor()
        try:
            if not codec.begins(data):
                raise ValueError(f"bytes that are no {codec.name} data follow the last member")
            while not decompressor.eof:
                data = data or stream.read(codec.feed_bytes)
                if not data:
                    raise EOFError("it ends too early: the file is truncated")
                position += len(data)
                given, data = data, b""
                yield from codec.feed(decompressor, given)
        except _FAILURES as error:
            report(
                f"{file.path}: {codec.name} data that begins at offset {member} is damaged near {position} ({error})"
            )
            yield GAP
            found = find_bz2_stream(stream, member + 1, file.stop) if codec.name == "bz2" else None
            if found is None:
                return
            stream.seek(found)
            position, data = found, b""
        else:
            data = decompressor.unused_data
            position -= len(data)
