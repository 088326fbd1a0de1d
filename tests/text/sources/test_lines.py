"""Lines of text, and what is no text."""

import pytest

from bert_jax.errors import UserError
from bert_jax.text.documents import find_files, read_documents
from tests.text.sources.corpora import documents_of_parts, read_all, write


def test_latin_1_in_the_middle_costs_its_lines(tmp_path):
    text = b"good one\nline\n\nbefore\ncaf\xe9 noir\nafter\n\n\xe9t\xe9\n\nlast"
    file = write(tmp_path / "mixed.txt", text)
    with pytest.raises(UserError, match=r"mixed\.txt: byte 0xe9 at offset 25 is not UTF-8"):
        list(read_documents(file))
    documents, reported = read_all(file)
    assert documents == ["good one\nline", "before\nafter", "last"]
    assert [message.split(": ", 1)[1] for message in reported] == [
        "byte 0xe9 at offset 25 is not UTF-8: expected UTF-8 text",
        "byte 0xe9 at offset 39 is not UTF-8: expected UTF-8 text",
    ]


@pytest.mark.parametrize("chunk", [1, 5, 1000])
@pytest.mark.parametrize("separator", ["blank_line", "line", "file"])
def test_what_is_skipped_does_not_depend_on_the_chunks(tmp_path, chunk, separator):
    text = b"a\n\xff\nb\n\n\xff\n\n\0c\n\nd\n\xff"
    file = write(tmp_path / "a.txt", text)
    expected = {"blank_line": ["a\nb", "d"], "line": ["a", "b", "d"], "file": ["a\nb\n\n\n\nd"]}[separator]
    documents, reported = read_all(file, separator=separator, chunk_bytes=chunk)
    assert documents == expected and len(reported) == 4


def test_a_nul_byte_is_named(tmp_path):
    file = write(tmp_path / "nul.txt", b"one\n\ntw\0o\n\nthree")
    with pytest.raises(UserError, match=r"nul\.txt: a NUL byte at offset 7 is not text"):
        list(read_documents(file))
    assert read_all(file)[0] == ["one", "three"]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_other_unicode_encodings_are_named(tmp_path, encoding):
    mark = {"utf-16-le": b"\xff\xfe", "utf-16-be": b"\xfe\xff"}.get(encoding, b"")
    file = write(tmp_path / "wide.txt", mark + ("one\n\ntwo \u4e2d\u6587\n" * 50).encode(encoding))
    with pytest.raises(UserError, match=rf"wide\.txt: is {encoding[:6].upper()} \(byte order mark at offset 0\)"):
        list(read_documents(file))
    documents, reported = read_all(file)
    assert documents == [] and len(reported) == 1


@pytest.mark.parametrize(
    "data",
    [
        bytes(range(256)) * 300,
        b"\x89PNG\r\n\x1a\n" + bytes(range(128, 256)) * 50,
        "текст без метки".encode("koi8-r") * 500,
        "no mark".encode("utf-16-le") * 1000,
    ],
)
def test_a_binary_file_in_a_folder_is_reported_once(tmp_path, data):
    write(tmp_path / "a.txt", "good")
    write(tmp_path / "b.txt", data)
    good, binary = find_files([str(tmp_path)])
    assert list(read_documents(good)) == ["good"]
    documents, reported = read_all(binary)
    assert documents == [] and len(reported) == 1 and "no text file" in reported[0] and "at offset" in reported[0]
    with pytest.raises(UserError, match=r"b\.txt: byte 0x.. at offset \d+"):
        list(read_documents(binary))
    assert documents_of_parts(tmp_path / "b.txt", 1000, on_error=reported.append)[0] == [] and len(reported) == 2


def test_foreign_scripts_and_odd_characters_are_text(tmp_path):
    # What tools have lost or taken for binary: joiners, private use, noncharacters, a mark inside the text.
    texts = [
        "\u200d",
        "\u0dc3\u0dca\u200d\u0dbb",
        "\ud55c\uad6d\uc5b4",
        "\u304b\u3099",
        "\ue000\uf8ff",
        "\ufdd0\uffff\U0010ffff",
        "a\ufeffb",
        "\x01\x02 control",
        "\u202eright to left",
        "[SEP] [MASK]",
        "\ufffd",
    ]
    file = write(tmp_path / "odd.txt", "\n\n".join(texts))
    assert list(read_documents(file)) == texts


def test_a_ten_megabyte_word(tmp_path):
    word = "x" * 10_000_000
    file = write(tmp_path / "word.txt", f"one\n\n{word}\n\ntwo")
    assert list(read_documents(file)) == ["one", word, "two"]
    bad = write(tmp_path / "bad.txt", b"one\n\n" + word.encode() + b"\xff\n\ntwo")
    documents, reported = read_all(bad)
    assert documents == ["one", "two"] and "offset 10000005" in reported[0]
