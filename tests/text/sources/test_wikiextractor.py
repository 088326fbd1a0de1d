"""WikiExtractor's output, made up and real."""

import pytest

from bert_jax.errors import UserError
from bert_jax.text.documents import find_files, read_documents
from bert_jax.text.sources.wikiextractor import is_heading
from tests.text.sources.corpora import COMPRESS, documents_of_parts, flat, read_all, unpacked, write

ARTICLES = """<doc id="12" url="https://en.wikipedia.org/wiki?curid=12" title="Cats &amp; &quot;dogs&quot;">
Cats & "dogs"

Cats are small animals, and 2 &lt; 3, as everybody who has ever counted them knows.
Etymology and use.
The word is old. Nobody knows how old.

</doc>
<doc id="13" url="https://en.wikipedia.org/wiki?curid=13" title="Empty">
Empty

</doc>
<doc id="14" revid="9" url="u" title="Last">
Last
One paragraph with many more words than a heading would ever have.
</doc>
"""
EXPECTED = [
    "Cats are small animals, and 2 < 3, as everybody who has ever counted them knows.\n"
    "The word is old. Nobody knows how old.",
    "",
    "One paragraph with many more words than a heading would ever have.",
]


@pytest.mark.parametrize("chunk", [1, 3, 17, 1 << 20])
def test_titles_and_headings_go_paragraphs_stay(tmp_path, chunk):
    file = write(tmp_path / "AA" / "wiki_00", ARTICLES)
    assert file.kind == "wikiextractor"
    documents = list(read_documents(file, chunk_bytes=chunk))
    assert documents == EXPECTED


@pytest.mark.parametrize(
    "line, heading",
    [
        ("History.", True),
        ("Use in mathematics, logic and science.", True),
        ("1970–1985: Early life.", True),
        ("He was born. He died.", False),
        ("Is it so?", False),
        ("No full stop", False),
        ("This short paragraph of some ten or eleven words is none.", False),
        ("x" * 100 + ".", False),
    ],
)
def test_the_rule_for_headings(line, heading):
    assert is_heading(line) == heading


def test_folders_by_content_and_compressed_and_json(tmp_path):
    write(tmp_path / "AA" / "wiki_00", ARTICLES)
    write(tmp_path / "AA" / "wiki_01.bz2", COMPRESS["bz2"](ARTICLES.encode()))
    write(tmp_path / "AB" / "wiki_00", '{"id": "1", "text": "from json"}\n')
    write(tmp_path / "AB" / "LICENSE", "not part of the corpus")
    files = find_files([str(tmp_path)])
    assert [file.kind for file in files] == ["wikiextractor", "wikiextractor", "jsonl"]
    assert [document for file in files for document in read_documents(file)] == [*EXPECTED, *EXPECTED, "from json"]


@pytest.mark.parametrize(
    "text, message, kept",
    [
        (ARTICLES.rsplit("</doc>", 1)[0], "ends inside article 'Last'", EXPECTED[:2]),
        (ARTICLES.replace("</doc>\n", "", 1), "line 8: article 'Cats & \"dogs\"' is not closed", EXPECTED[1:]),
        (ARTICLES + "stray\ntext\n", "line 17: text outside of <doc", EXPECTED),
        (ARTICLES + "</doc>\n", "line 17: </doc> without <doc", EXPECTED),
    ],
)
@pytest.mark.parametrize("chunk", [1, 1 << 20])
def test_broken_articles_are_named_and_cost_no_other(tmp_path, text, message, kept, chunk):
    file = write(tmp_path / "wiki_00", text)
    with pytest.raises(UserError, match=f"wiki_00(, |: ){message}"):
        list(read_documents(file, chunk_bytes=chunk))
    documents, reported = read_all(file, chunk_bytes=chunk)
    assert documents == kept and len(reported) == 1


def test_parts_are_the_whole(tmp_path):
    path = tmp_path / "wiki_00"
    path.write_text(ARTICLES * 50)
    for part_bytes in (1, 100, 1000, 9999):
        assert flat(documents_of_parts(path, part_bytes)) == EXPECTED * 50


def test_the_real_shards(shared_data, tmp_path_factory):
    folder = unpacked(shared_data, tmp_path_factory, "wiki_en_2015")
    files = find_files([str(folder)])
    assert len(files) == 29 and {file.kind for file in files} == {"wikiextractor"}
    documents = [document for file in files for document in read_documents(file)]
    assert len(documents) == 1926
    words = sum(len(document.split()) for document in documents)
    assert 0.97 * 4_732_310 < words < 4_732_310  # the count in SOURCES.md has the titles and headings in it
    assert sum(document.count("</doc>") + document.count("<doc ") for document in documents) == 0
    assert not any(line.startswith("References.") for document in documents for line in document.split("\n"))
