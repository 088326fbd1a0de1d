"""Books: licences, headers and Markdown go; the book stays."""

import pytest

from bert_jax.errors import UserError
from bert_jax.text.documents import TextFile, find_files, read_documents
from bert_jax.text.sources.book import clean_book
from tests.text.sources.corpora import documents_of_parts, read_all, unpacked, write

BODY = "CHAPTER I\n\nIt was a dark night;\nthe rain fell.\n\nCHAPTER II\n\nMorning came."
MODERN = f"""The Project Gutenberg EBook of A Night, by N. Body

This eBook is for the use of anyone anywhere at no cost.

*** START OF THIS PROJECT GUTENBERG EBOOK A NIGHT
OF RAIN ***

Produced by Some One and the Online
Distributed Proofreading Team at a site

{BODY}

End of the Project Gutenberg EBook of A Night, by N. Body

*** END OF THIS PROJECT GUTENBERG EBOOK A NIGHT ***
START: FULL LICENSE
"""
NEWEST = f"""\ufeffThe Project Gutenberg eBook of A Night

*** START OF THE PROJECT GUTENBERG EBOOK A NIGHT ***

{BODY}

*** END OF THE PROJECT GUTENBERG EBOOK A NIGHT ***

Updated editions will replace the previous one.
"""
OLD = f"""**The Project Gutenberg Etext of A Night, by N. Body**

Copyright laws are changing all over the world.

***START**THE SMALL PRINT!**FOR PUBLIC DOMAIN ETEXTS**START***
Why is this "Small Print!" statement here?
*END*THE SMALL PRINT! FOR PUBLIC DOMAIN ETEXTS*Ver.04.29.93*END*

{BODY}

End of Project Gutenberg's Etext of A Night
"""
HEADED = "# Title: A Night\n\n## Author: N. Body\n\n## Year: 1899\n\n-------\n\n" + BODY.replace(
    "CHAPTER", "##  CHAPTER"
).replace("dark", "_dark_")


@pytest.mark.parametrize("text", [MODERN, NEWEST, OLD, HEADED, MODERN.replace("\n", "\r\n")])
def test_only_the_book_is_left_and_it_is_found_by_content(tmp_path, text):
    file = write(tmp_path / "night.txt", text)
    assert file.kind == "book"
    assert [document.strip() for document in read_documents(file)] == [BODY]


def test_other_text_is_no_book_unless_told(tmp_path):
    text = "# A heading\n\nText with *stars*.\n\n-------\n\nMore, of a project that Gutenberg inspired."
    file = write(tmp_path / "notes.md", text)
    assert file.kind == "text" and len(list(read_documents(file))) == 4
    (told,) = find_files([f"{tmp_path / 'notes.md'},kind=book"])
    documents = list(read_documents(told))
    assert len(documents) == 1 and documents[0].startswith("A heading\n\nText with stars.")


@pytest.mark.parametrize(
    "marked, plain",
    [
        ("## Heading ##\ntext", "Heading\ntext"),
        ("a *b* **c** ***d*** _e_ __f__ end", "a b c d e f end"),
        ("over _two\nlines_ here", "over two\nlines here"),
        ("not _over\n\na_ paragraph", "not _over\n\na_ paragraph"),
        ("2 * 3 * 4 and snake_case_name is", "2 * 3 * 4 and snakecasename is"),
        ("pretty _un_reasonable", "pretty unreasonable"),
        ("a\n\n* * *\n\nb\n\n-----\n\nc", "a\n\n\n\nb\n\n\n\nc"),
        ("> quoted\n> more", "quoted\nmore"),
        ("[link](http://x/y) ![image](a.png) [Illustration: A cat\nsat]", "link  "),
        (r"1833\. 5 \* 6 \_x\_", "1833. 5 * 6 _x_"),
        ("--said he-- [sic] #1", "--said he-- [sic] #1"),
    ],
)
def test_markdown_goes(marked, plain):
    assert clean_book(marked).strip("\n") == plain.strip("\n")


@pytest.mark.parametrize(
    "mark", ["*", "_", "**", "[", "[a](", "![", "> ", "# ", "\\", "- ", "*** START OF THE PROJECT "]
)
def test_unclosed_marks_take_linear_time(mark):
    import time

    def seconds(n):
        start = time.perf_counter()
        clean_book(mark * n + "\n" + (mark + "word \n") * n)
        return time.perf_counter() - start

    seconds(1000)
    assert seconds(40_000) < 20 * max(seconds(10_000), 0.01)


def test_a_book_is_never_read_in_parts(tmp_path):
    write(tmp_path / "night.txt", NEWEST * 30)
    assert len(documents_of_parts(tmp_path / "night.txt", 100)) == 1
    with pytest.raises(UserError, match=r"night\.txt: is one document"):
        list(read_documents(TextFile(str(tmp_path / "night.txt"), 10, "book", start=5)))


def test_a_line_that_is_not_utf8_costs_only_itself(tmp_path):
    file = write(tmp_path / "night.txt", NEWEST.encode().replace(b"the rain", b"\xe9 rain"))
    documents, reported = read_all(file)
    assert len(reported) == 1 and documents[0].strip() == BODY.replace("\nthe rain fell.", "")


def test_the_real_books(shared_data, tmp_path_factory):
    folder = unpacked(shared_data, tmp_path_factory, "books_classic")
    files = find_files([str(folder)])
    assert len(files) == 61 and {file.kind for file in files} == {"book"}
    words = marks = 0
    for file in files:
        documents = list(read_documents(file))
        assert len(documents) == 1
        text = documents[0]
        assert not any(mark in text for mark in ("# Title:", "## ", "-------", "Gutenberg EBook", "Gutenberg eBook"))
        words += len(text.split())
        marks += sum(text.count(mark) for mark in "*_#")
    assert 0.995 * 5_448_711 < words < 5_448_711
    assert marks < 300  # of 11,000: stars of footnotes, and emphasis that begins or ends with a space
