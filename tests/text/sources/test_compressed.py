"""Archives: every compression, several members, and damage of every sort."""

import bz2
import gzip
import io
import itertools
import lzma
import os
import tracemalloc

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_jax.errors import UserError
from bert_jax.text.documents import TextFile, read_documents
from bert_jax.text.sources.compressed import BZ2_BLOCK, GAP, find_bz2_stream, read_head, read_pieces
from bert_jax.text.sources.source import raise_user_error
from tests.text.sources.corpora import COMPRESS, random_words, read_all, write

LINES = [random_words(seed, 40) for seed in range(2000)]
TEXT = "\n\n".join(LINES)


@pytest.mark.parametrize("suffix", COMPRESS)
def test_every_compression_is_told_by_its_bytes(tmp_path, suffix):
    data = COMPRESS[suffix](TEXT.encode())
    for name in (f"a.txt.{suffix}", "b.txt"):  # the second says nothing of being compressed
        file = write(tmp_path / name, data)
        assert file.kind == "text" and file.size == len(data)
        assert list(read_documents(file)) == LINES


@pytest.mark.parametrize("suffix", COMPRESS)
@settings(max_examples=20, deadline=None)
@given(cuts=st.lists(st.integers(0, 5000), max_size=5))
def test_members_one_after_the_other_are_one_text(tmp_path_factory, suffix, cuts):
    text = TEXT[:5000].encode()
    edges = [0, *sorted(cuts), len(text)]
    members = b"".join(COMPRESS[suffix](text[a:b]) for a, b in itertools.pairwise(edges))
    path = tmp_path_factory.mktemp("members") / "a"
    path.write_bytes(members)
    assert b"".join(read_pieces(TextFile(str(path), 1, "text"), raise_user_error)) == text


@pytest.mark.parametrize("suffix", COMPRESS)
def test_a_truncated_archive(tmp_path, suffix):
    data = COMPRESS[suffix](TEXT.encode())
    file = write(tmp_path / f"cut.txt.{suffix}", data[: int(len(data) * 0.9)])
    with pytest.raises(UserError, match=rf"cut\.txt\.{suffix}: \w+ data .*offset 0 is damaged near \d+ \(.*truncated"):
        list(read_documents(file))
    documents, reported = read_all(file)
    assert len(reported) == 1
    # What comes is whole documents from the start (bz2 and xz give theirs in blocks, so fewer).
    assert documents == LINES[: len(documents)]
    assert len(documents) > 1000 or suffix in ("bz2", "xz")


@pytest.mark.parametrize("suffix", COMPRESS)
def test_a_corrupt_archive(tmp_path, suffix):
    data = bytearray(COMPRESS[suffix](TEXT.encode()))
    middle = len(data) // 2
    data[middle : middle + 50] = os.urandom(50)
    file = write(tmp_path / f"bad.txt.{suffix}", bytes(data))
    with pytest.raises(UserError, match=rf"bad\.txt\.{suffix}: \w+ data .* is damaged near \d+"):
        list(read_documents(file))
    documents, reported = read_all(file)
    # gzip notices late, so garbage may come before; the others check each block, and give only what was written.
    assert reported and (suffix == "gz" or documents == LINES[: len(documents)])


def test_a_checksum_that_does_not_fit_is_damage(tmp_path):
    data = bytearray(gzip.compress(TEXT.encode()))
    data[-8] ^= 1
    file = write(tmp_path / "a.txt.gz", bytes(data))
    documents, reported = read_all(file)
    assert documents == LINES[: len(documents)] and len(documents) > 1800
    assert len(reported) == 1 and "damaged" in reported[0]


def test_bytes_after_the_last_member(tmp_path):
    padded = write(tmp_path / "padded.txt.gz", gzip.compress(b"one") + b"\0" * 1000)
    assert list(read_documents(padded)) == ["one"]
    followed = write(tmp_path / "followed.txt.gz", gzip.compress(b"one\n\n") + b"not compressed")
    assert read_all(followed)[0] == ["one"]
    with pytest.raises(UserError, match="bytes that are no gzip data follow"):
        list(read_documents(followed))


def test_a_corrupt_stream_of_a_bz2_file_costs_no_other(tmp_path):
    streams = [bz2.compress(f"{name} first\n\n{name} second\n\n".encode()) for name in ("a", "b", "c")]
    streams[1] = streams[1][:30] + b"\xff" * 8 + streams[1][38:]
    file = write(tmp_path / "a.txt.bz2", b"".join(streams))
    documents, reported = read_all(file)
    # What follows a gap is taken up at the next start of a document.
    assert documents == ["a first", "a second", "c second"] and len(reported) == 1
    assert f"begins at offset {len(streams[0])}" in reported[0]


def test_no_piece_is_large_however_well_it_is_compressed(tmp_path):
    size = 60 << 20
    for suffix in ("gz", "bz2", "xz"):
        path = tmp_path / f"zeros.{suffix}"
        with {"gz": gzip.open, "bz2": bz2.open, "xz": lzma.open}[suffix](path, "wb") as stream:
            for _ in range(size >> 20):
                stream.write(b"a" * (1 << 20))
        tracemalloc.start()
        assert sum(len(piece) for piece in read_pieces(TextFile(str(path), 1, "text"), raise_user_error)) == size
        top = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert top < 12 << 20, suffix


def test_zstd_of_any_kind_of_frame(tmp_path):
    text = TEXT.encode()
    unknown_size = zstandard.ZstdCompressor(write_content_size=False).compress(text)
    skippable = b"\x50\x2a\x4d\x18" + (4).to_bytes(4, "little") + b"meta"
    buffer = io.BytesIO()
    long_window = zstandard.ZstdCompressionParameters.from_level(3, window_log=28, enable_ldm=True)
    with zstandard.ZstdCompressor(compression_params=long_window).stream_writer(buffer, closefd=False) as stream:
        stream.write(text)
    for data in (unknown_size, skippable + unknown_size, buffer.getvalue()):
        assert list(read_documents(write(tmp_path / "a.txt.zst", data))) == LINES


def test_a_bz2_stream_is_found_wherever_it_begins(tmp_path):
    first, second = bz2.compress(os.urandom(3000)), bz2.compress(b"x")
    stream = io.BytesIO(first + second)
    assert find_bz2_stream(stream, 0) == 0
    assert find_bz2_stream(stream, 1) == len(first)
    assert find_bz2_stream(stream, len(first)) == len(first)
    assert find_bz2_stream(stream, 1, len(first)) is None
    assert find_bz2_stream(stream, len(first) + 1) is None
    # across the border of two reads, and not where only the block's mark stands
    for pad in range((1 << 20) - 12, (1 << 20) + 3):
        assert find_bz2_stream(io.BytesIO(BZ2_BLOCK + b"." * pad + second), 0) == pad + len(BZ2_BLOCK)


def test_a_head_is_what_the_archive_begins_with(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(gzip.compress(b"0123456789" * 100))
    assert read_head(str(path), 15) == b"012345678901234"
    path.write_bytes(gzip.compress(b"0123456789" * 100)[:20])
    assert read_head(str(path), 15) == b"" or b"0123456789".startswith(read_head(str(path), 5))
    path.write_bytes(b"plain")
    assert read_head(str(path), 15) == b"plain"


def test_a_gap_is_told_apart_from_no_bytes(tmp_path):
    assert list(read_pieces(TextFile(str(tmp_path / "gone"), 1, "text"), lambda message: None)) == [GAP]
