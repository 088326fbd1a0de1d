"""Parts of a file together hold its documents, each once, wherever the cuts fall."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_jax.errors import UserError
from bert_jax.text.documents import find_files, read_documents
from bert_jax.text.sources import cut
from tests.text.sources.corpora import COMPRESS, documents_of_parts, flat, random_words

# Everything that may make a line blank, and characters of 1 to 4 bytes.
ALPHABET = "ab\n\n\n\n\r \t\x0b\x1c\x85\u00a0\u1680\u2003\u2028\u3000\u00e9\u4e2d\U0001f600"


@settings(max_examples=400, deadline=None)
@given(
    text=st.text(ALPHABET, min_size=1, max_size=80),
    separator=st.sampled_from(["blank_line", "line", "file"]),
    part_bytes=st.integers(1, 60),
    mark=st.booleans(),
)
def test_parts_of_text_are_the_whole(tmp_path_factory, text, separator, part_bytes, mark):
    path = tmp_path_factory.mktemp("cut") / "a.txt"
    path.write_bytes((b"\xef\xbb\xbf" if mark else b"") + text.encode())
    (whole,) = find_files([str(path)])
    parts = find_files([str(path)], part_bytes, separator)
    assert sum(part.size for part in parts) == whole.size
    assert flat([read_documents(part, separator) for part in parts]) == list(read_documents(whole, separator))


@settings(max_examples=200, deadline=None)
@given(
    text=st.text("ab\n\n\r \t\x85\u00a0\u3000\u4e2d", min_size=30, max_size=300),
    part_bytes=st.integers(1, 40),
    chunk=st.integers(1, 9),
)
def test_boundaries_are_found_across_reads(tmp_path_factory, text, part_bytes, chunk):
    path = tmp_path_factory.mktemp("cut") / "a.txt"
    path.write_bytes(text.encode())
    usual = find_files([str(path)], part_bytes)
    before, cut.CHUNK_BYTES = cut.CHUNK_BYTES, chunk
    try:
        assert find_files([str(path)], part_bytes) == usual
    finally:
        cut.CHUNK_BYTES = before


@settings(max_examples=100, deadline=None)
@given(texts=st.lists(st.text(max_size=20), min_size=1, max_size=30), part_bytes=st.integers(1, 300))
def test_parts_of_json_lines_are_the_whole(tmp_path_factory, texts, part_bytes):
    path = tmp_path_factory.mktemp("cut") / "a.jsonl"
    texts = [text.replace("\r", "") for text in texts]
    path.write_text("".join(json.dumps({"text": text}, ensure_ascii=False) + "\n" for text in texts))
    (whole,) = find_files([str(path)])
    assert flat(documents_of_parts(path, part_bytes)) == list(read_documents(whole))
    assert len(list(read_documents(whole))) == len(texts)


def test_parts_are_about_as_large_as_asked(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("\n\n".join(random_words(seed, 20) for seed in range(2000)))
    parts = find_files([str(path)], 10_000)
    assert all(10_000 <= part.size < 11_000 for part in parts[:-1]) and len(parts) > 15
    assert [part.start for part in parts[1:]] == [part.stop for part in parts[:-1]]
    assert parts[0].start == 0 and parts[-1].stop is None
    assert len(find_files([str(path)], path.stat().st_size)) == 1


@pytest.mark.parametrize("suffix", COMPRESS)
def test_compressed_text_is_not_cut(tmp_path, suffix):
    path = tmp_path / f"a.txt.{suffix}"
    path.write_bytes(COMPRESS[suffix](("\n\n".join(random_words(seed, 20) for seed in range(200))).encode()))
    assert len(documents_of_parts(path, 100)) == 1


def test_one_document_larger_than_several_parts(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("first\n\n" + "x" * 5_000_000 + "\n\nlast")
    assert [len(part) for part in documents_of_parts(path, 100_000)] == [2, 1]


def test_a_file_that_is_one_document_is_not_cut(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("a\n\n" * 100)
    assert len(find_files([str(path)], 10, "file")) == 1
    part = find_files([str(path)], 10)[1]
    with pytest.raises(UserError, match=r"a\.txt: is one document and cannot be read in parts"):
        read_documents(part, "file")


def test_many_files_keep_their_order(tmp_path):
    for name in "cab":
        (tmp_path / f"{name}.txt").write_text("\n\n".join(f"{name}{i}" for i in range(50)))
    parts = find_files([str(tmp_path / "c.txt"), str(tmp_path)], 40)
    expected = [f"{name}{i}" for name in "cab" for i in range(50)]
    assert flat([read_documents(part) for part in parts]) == expected
    assert {part.source for part in parts[:3]} == {0} and parts[-1].source == 1
