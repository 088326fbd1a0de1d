"""MediaWiki dumps: pages, namespaces, streams, damage, and a real one."""

import bz2
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_jax.errors import UserError
from bert_jax.text.documents import find_files, read_documents
from tests.text.sources.corpora import (
    DUMP_END,
    DUMP_HEADER,
    documents_of_parts,
    dump_page,
    flat,
    random_words,
    read_all,
    write,
)

PAGES = [dump_page(f"Seite {i}", f"'''Nr {i}''' ist & bleibt: {random_words(i, 60)}.") for i in range(60)]
EXPECTED = [f"Nr {i} ist & bleibt: {random_words(i, 60)}." for i in range(60)]
DUMP = DUMP_HEADER + "".join(PAGES) + DUMP_END


def multistream(pages_a_stream):
    """As the Wikimedia dumps are made: the header, some pages each, and the end, every one a stream."""
    groups = ["".join(PAGES[i : i + pages_a_stream]) for i in range(0, len(PAGES), pages_a_stream)]
    return [bz2.compress(text.encode()) for text in (DUMP_HEADER, *groups, DUMP_END)]


@pytest.mark.parametrize("chunk", [1, 100, 1 << 20])
def test_only_articles_are_documents(tmp_path, chunk):
    pages = [
        dump_page("Weiter", "#REDIRECT [[Ziel]]", extra='    <redirect title="Ziel" />\n'),
        dump_page("Alt", "#WEITERLEITUNG [[Ziel]]"),
        dump_page("Benutzer:A", "Hallo, hier bin ich.", namespace="2"),
        dump_page("Vorlage:B", "Text einer Vorlage.", namespace="10"),
        dump_page("Stil", "body { color: red }", model="css"),
        dump_page("Liste", "* nur\n* eine Liste"),
        dump_page("Artikel", "[[Datei:x.jpg|mini|Ein Bild]] Ein [[Wort|Satz]].\n[[Kategorie:Y]]\n\n== A ==\nZwei."),
        "  <page>\n    <title>Leer</title>\n    <ns>0</ns>\n    <revision>\n      <text deleted='deleted' />\n"
        "    </revision>\n  </page>\n",
    ]
    file = write(tmp_path / "dump.xml", DUMP_HEADER + "".join(pages) + DUMP_END)
    assert file.kind == "mediawiki"
    assert list(read_documents(file, chunk_bytes=chunk)) == ["", "Ein Satz.\n\nZwei."]


def test_dumps_without_namespace_elements(tmp_path):
    pages = [dump_page("Datei:Bild.jpg", "Ein Bild."), dump_page("Artikel", "Ein Artikel.")]
    text = re.sub(r" *<ns>0</ns>\n", "", DUMP_HEADER + "".join(pages) + DUMP_END)
    assert list(read_documents(write(tmp_path / "old.xml", text))) == ["Ein Artikel."]


@settings(max_examples=25, deadline=None)
@given(pages=st.integers(1, 60), part_bytes=st.integers(1, 20_000))
def test_parts_of_a_multistream_dump_are_the_whole(tmp_path_factory, pages, part_bytes):
    path = tmp_path_factory.mktemp("dump") / "pages-articles-multistream.xml.bz2"
    path.write_bytes(b"".join(multistream(pages)))
    assert flat(documents_of_parts(path, part_bytes)) == EXPECTED


def test_a_part_may_be_a_single_stream(tmp_path):
    path = tmp_path / "pages-articles-multistream.xml.bz2"
    path.write_bytes(b"".join(multistream(7)))
    parts = documents_of_parts(path, 1)
    assert [len(part) for part in parts] == [0, *[7] * 8, 4]  # first the header


@settings(max_examples=25, deadline=None)
@given(part_bytes=st.integers(1, 30_000))
def test_parts_of_a_plain_dump_are_the_whole(tmp_path_factory, part_bytes):
    path = tmp_path_factory.mktemp("dump") / "pages-articles.xml"
    path.write_text(DUMP)
    assert flat(documents_of_parts(path, part_bytes)) == EXPECTED


def test_streams_that_do_not_begin_with_pages_are_not_cut(tmp_path):
    data = DUMP.encode()
    path = tmp_path / "a.xml.bz2"
    path.write_bytes(b"".join(bz2.compress(data[i : i + 700]) for i in range(0, len(data), 700)))
    assert documents_of_parts(path, 1000) == [EXPECTED]
    path.write_bytes(bz2.compress(data))
    assert documents_of_parts(path, 1000) == [EXPECTED]


def test_a_corrupt_stream_costs_its_pages(tmp_path):
    streams = multistream(10)
    streams[3] = streams[3][:200] + b"\xff" * 20 + streams[3][220:]
    file = write(tmp_path / "dump.xml.bz2", b"".join(streams))
    with pytest.raises(UserError, match=rf"dump.xml.bz2: bz2 data that begins at offset {len(b''.join(streams[:3]))}"):
        list(read_documents(file))
    documents, reported = read_all(file)
    assert documents == EXPECTED[:20] + EXPECTED[30:] and len(reported) == 1


@pytest.mark.parametrize("cut", [0.5, 0.77])
@pytest.mark.parametrize("compressed", [False, True])
def test_a_truncated_dump(tmp_path, cut, compressed):
    if compressed:
        data = b"".join(multistream(5))
        file = write(tmp_path / "dump.xml.bz2", data[: int(len(data) * cut)])
    else:
        file = write(tmp_path / "dump.xml", DUMP[: int(len(DUMP) * cut)])
    with pytest.raises(UserError, match=r"dump\.xml.*truncated"):
        list(read_documents(file))
    documents, reported = read_all(file)
    assert documents == EXPECTED[: len(documents)] and 60 * cut - 7 < len(documents) < 60 * cut + 2
    assert len(reported) == 1


def test_a_dump_cut_between_two_pages(tmp_path):
    file = write(tmp_path / "dump.xml", DUMP_HEADER + "".join(PAGES))
    documents, reported = read_all(file)
    assert documents == EXPECTED and len(reported) == 1 and "ends without </mediawiki>" in reported[0]


def test_a_page_that_is_no_xml_costs_only_itself(tmp_path):
    bad = PAGES[3].replace("</title>", "</titel>")
    file = write(tmp_path / "dump.xml", DUMP.replace(PAGES[3], bad))
    with pytest.raises(
        UserError, match=rf"dump.xml, page at offset {DUMP.index(PAGES[3]) + 2}: is not well-formed XML"
    ):
        list(read_documents(file))
    assert read_all(file)[0] == EXPECTED[:3] + EXPECTED[4:]


def test_what_is_no_dump_is_named(tmp_path):
    (file,) = find_files([f"{write(tmp_path / 'a.txt', 'just text').path},kind=mediawiki"])
    with pytest.raises(UserError, match=r"a\.txt: holds no <page>: expected a MediaWiki XML dump"):
        list(read_documents(file))
    empty = write(tmp_path / "empty.xml", DUMP_HEADER + DUMP_END)
    assert list(read_documents(empty)) == []


def test_a_page_of_twelve_megabytes(tmp_path):
    text = "Ein Satz mit [[Wort|Worten]].\n\n" * 400_000
    file = write(tmp_path / "dump.xml", DUMP_HEADER + dump_page("Gross", text) + DUMP_END)
    (document,) = read_documents(file)
    assert document.count("Ein Satz mit Worten.") == 400_000


def test_the_real_dump(shared_data):
    files = find_files([str(shared_data / "enwiki_dump_sample")])
    assert [file.kind for file in files] == ["mediawiki"] * 2
    documents = list(read_documents(files[0]))
    assert len(documents) == 106  # of 206 pages, 100 are redirects
    assert sum(not document for document in documents) == 1  # a list of anthropologists
    characters = sum(map(len, documents))
    assert 2_300_000 < characters < 2_900_000  # mwparserfromhell: 3.38 million with references, captions and lists
    assert documents[0].startswith(
        "Anarchism is a political philosophy that advocates self-governed societies based on"
    )
    documents += read_documents(files[1])
    remaining = {mark: sum(document.count(mark) for document in documents) for mark in MARKUP}
    assert {mark: count for mark, count in remaining.items() if count} == {"|": 5}  # of 73,000 in the wikitext


MARKUP = (
    "[[",
    "]]",
    "{{",
    "}}",
    "{|",
    "|",
    "<ref",
    "</",
    "''",
    "&nbsp;",
    "&amp;",
    "&lt;",
    "==",
    "__",
    "thumb|",
    "Category:",
)


def test_the_fake_wikipedia_of_tfds(shared_data):
    folder = shared_data / "tfds_fake_wikipedia"
    for name in ("enwiki_fake.xml", "enwiki_fake.xml.bz2"):
        (file,) = find_files([str(folder / name)])
        documents = list(read_documents(file))
        assert len(documents) == 2 and documents[0] == "Machine translation is translation using a machine."
    assert len([d for file in find_files([str(folder / "*.xml.bz2")]) for d in read_documents(file)]) == 4
