"""Documents: streamed reading against a whole-file reference, and every bad input."""

import json
import os
import tracemalloc
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_jax.errors import UserError
from bert_jax.text.documents import TextFile, find_files, read_documents

# Everything that str.isspace knows, what only splitlines takes for a newline, and characters of 1 to 4 bytes.
ALPHABET = "ab\n\n\n\r \t\x0b\x0c\x1c\x85\u00a0\u1680\u2003\u2028\u202f\u205f\u3000\u00e9\u4e2d\U0001f600\u200b"


def write(path, data):
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return find_files([str(path)])[0]


def reference(text, separator):
    """Plain Python over the whole text, line by line: google-research/bert's reading of a blank line."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    lines = text.split("\n")
    if separator == "line":
        return [line for line in lines if line.strip()]
    groups, group = [], []
    for line in lines:
        if line.strip() or separator == "file":
            group.append(line if line.strip() else "")
        else:
            groups.append(group)
            group = []
    documents = ["\n".join(group).strip("\n") for group in [*groups, group]]
    return [document for document in documents if document.strip()]


def inner_spaces(documents, separator):
    """Blank lines inside a whole-file document keep their number, not their spaces; its first and last line may."""
    return [d.strip() for d in documents] if separator == "file" else [d.strip(" \t") for d in documents]


@settings(max_examples=300, deadline=None)
@given(
    text=st.text(ALPHABET, max_size=60),
    separator=st.sampled_from(["blank_line", "line", "file"]),
    chunk=st.integers(1, 9),
    mark=st.booleans(),
)
def test_streaming_equals_a_whole_file_reference(tmp_path_factory, text, separator, chunk, mark):
    if not text:
        return
    path = tmp_path_factory.mktemp("documents") / "a.txt"
    path.write_bytes((b"\xef\xbb\xbf" if mark else b"") + text.encode())
    found = list(read_documents(TextFile(str(path), 1, "text"), separator, chunk_bytes=chunk))
    expected = reference(text, separator)
    assert inner_spaces(found, separator) == inner_spaces(expected, separator)


@pytest.mark.parametrize("chunk", [1, 2, 3, 5, 64, 1 << 20])
def test_separators_and_characters_may_straddle_chunks(tmp_path, chunk):
    text = "\ufeffone \u4e2d\u6587\r\nstill one\r\n \t \r\n\r\n\r\ntwo \U0001f600\n\u3000\nthree"
    file = write(tmp_path / "a.txt", text)
    assert list(read_documents(file, chunk_bytes=chunk)) == ["one \u4e2d\u6587\nstill one", "two \U0001f600", "three"]
    assert list(read_documents(file, "line", chunk_bytes=chunk))[-1] == "three"
    assert next(read_documents(file, "file", chunk_bytes=chunk)).count("\n") == 7


@pytest.mark.parametrize("chunk", [1, 7, 1 << 20])
def test_text_that_is_not_utf8_names_file_and_offset(tmp_path, chunk):
    good = "caf\u00e9\r\n\r\n\r\nmore \u4e2d\n".encode()
    file = write(tmp_path / "bad.txt", b"\xef\xbb\xbf" + good + b"ab\xff\n\ntail")
    with pytest.raises(UserError, match=rf"bad\.txt: byte 0xff at offset {3 + len(good) + 2} is not UTF-8"):
        list(read_documents(file, chunk_bytes=chunk))


def test_a_file_cut_inside_a_character_is_not_utf8(tmp_path):
    file = write(tmp_path / "cut.txt", "good\n\u4e2d".encode()[:-1])
    with pytest.raises(UserError, match=r"offset 5 is not UTF-8"):
        list(read_documents(file))


def test_json_lines(tmp_path):
    records = [{"text": "one\r\n\r\n\r\ntwo"}, {"text": ""}, {"text": "\u4e2d\U0001f600", "id": 3}]
    text = "".join(json.dumps(record) + "\n" for record in records) + "\n"
    file = write(tmp_path / "a.jsonl", text)
    for chunk in (1, 13, 1 << 20):
        assert list(read_documents(file, chunk_bytes=chunk)) == ["one\n\n\ntwo", "", "\u4e2d\U0001f600"]
    named = write(tmp_path / "b.json-lines", '{"body": "x"}')
    assert list(read_documents(replace(named, column="body"))) == ["x"]


@pytest.mark.parametrize(
    "line, message",
    [
        ("{not json}", "line 3: is not JSON"),
        ("[1]", "line 3: is a JSON list: expected an object with the field 'text'"),
        (
            '{"title": "a", "body": "b"}',
            r"line 3: field 'text' is missing: expected text \(fields found: body, title\)",
        ),
        ('{"text": null}', "line 3: field 'text' holds NoneType"),
        ('{"text": "a\\ud83d"}', "line 3: field 'text' holds half a surrogate pair"),
    ],
)
def test_a_bad_json_line_is_named(tmp_path, line, message):
    file = write(tmp_path / "a.jsonl", '{"text": "x"}\n\n' + line + '\n{"text": "y"}\n')
    with pytest.raises(UserError, match=rf"a\.jsonl, {message}"):
        list(read_documents(file, chunk_bytes=5))


def test_find_files_sorts_and_skips(tmp_path):
    for name in (
        "b.txt",
        "a/z.md",
        "a/y.text",
        "c.jsonl",
        "d.json-lines",
        ".hidden.txt",
        ".git/x.txt",
        "e.csv",
        "a.txt",
    ):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text('{"text": "x"}')
    (tmp_path / "empty.txt").touch()
    (tmp_path / "a" / "loop").symlink_to(tmp_path)
    files = find_files([str(tmp_path)])
    names = [os.path.relpath(file.path, tmp_path) for file in files]
    assert names == ["a/y.text", "a/z.md", "a.txt", "b.txt", "c.jsonl", "d.json-lines"]
    assert [file.kind for file in files] == ["text"] * 4 + ["jsonl"] * 2
    assert {file.size for file in files} == {13}
    # one file or a glob may have any suffix; what two sources name is read once; sources keep their order
    again = find_files([str(tmp_path / "e.csv"), str(tmp_path / "*.txt"), str(tmp_path / "b.txt")])
    assert [os.path.basename(file.path) for file in again] == ["e.csv", "a.txt", "b.txt"]


def test_sources_without_text_are_named(tmp_path):
    (tmp_path / "none").mkdir()
    (tmp_path / "none" / "picture.png").write_bytes(b"x")
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "a.txt").touch()
    os.mkfifo(tmp_path / "pipe.txt")
    cases = [
        (str(tmp_path / "missing"), "missing: no such file or folder"),
        (str(tmp_path / "*.nothing"), "nothing: matches no file"),
        (str(tmp_path / "none"), "none: holds no text file"),
        (str(tmp_path / "empty"), "empty: holds no text"),
        (str(tmp_path / "empty" / "a.txt"), r"a\.txt: holds no text"),
        (str(tmp_path / "pipe.txt"), r"pipe\.txt: is no regular file"),
    ]
    for source, message in cases:
        with pytest.raises(UserError, match=message):
            find_files([source])
    with pytest.raises(UserError, match="no source"):
        find_files([])


def test_an_unreadable_file_is_a_user_error(tmp_path):
    with pytest.raises(UserError, match=r"gone\.txt: cannot be read"):
        list(read_documents(TextFile(str(tmp_path / "gone.txt"), 3, "text")))
    with pytest.raises(UserError, match="separator 'page' is unknown"):
        read_documents(TextFile("a", 1, "text"), "page")


def test_memory_does_not_grow_with_the_file(tmp_path):
    def peak(megabytes):
        file = write(tmp_path / f"{megabytes}.txt", (b"word " * 200 + b"\n\n") * (1000 * megabytes))
        tracemalloc.start()
        assert sum(1 for _ in read_documents(file)) == 1000 * megabytes
        top = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return top

    assert peak(12) < 1.2 * peak(3)
