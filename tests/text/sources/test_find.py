"""Which files a source comes to, and of which kind each is."""

import os

import pytest

from bert_jax.errors import UserError
from bert_jax.text.documents import Source, find_files, read_documents
from tests.text.sources.corpora import COMPRESS, DUMP_END, DUMP_HEADER

DOC = '<doc id="1" url="u" title="T">\nT\nText of the article that is long enough to be no heading at all.\n</doc>\n'
CONTENTS = {
    "a.txt": ("plain", "text"),
    "b.md": ("# Title: T\n\n## Author: A\n\n-------\nbook", "book"),
    "c.jsonl": ('{"text": "x"}', "jsonl"),
    "d.ndjson": ('{"text": "x"}', "jsonl"),
    "e.text": (DOC, "wikiextractor"),
    "wiki_00": (DOC, "wikiextractor"),
    "wiki_01": ('{"text": "x"}', "jsonl"),
    "dump.xml": (DUMP_HEADER + DUMP_END, "mediawiki"),
    "enwiki-pages-articles1.xml-p1p41242": (DUMP_HEADER + DUMP_END, "mediawiki"),
    "enwiki-pages-articles1.xml-p10p302-shortened": (DUMP_HEADER + DUMP_END, "mediawiki"),
    "damaged.parquet": ("not parquet", "parquet"),
    "damaged.arrow": ("not arrow", "arrow"),
}
NO_TEXT = {"LICENSE": "free", "Makefile": "all:", "x.csv": "1,2", "x.json": "{}", "x.xml": "<rss></rss>", "x.py": "1"}


@pytest.mark.parametrize("suffix", ["", *COMPRESS])
def test_kinds_are_told_by_content_and_name(tmp_path, suffix):
    for name, content in [*((name, content) for name, (content, _) in CONTENTS.items()), *NO_TEXT.items()]:
        path = tmp_path / (f"{name}.{suffix}" if suffix else name)
        path.write_bytes(COMPRESS[suffix](content.encode()) if suffix else content.encode())
    found = {os.path.basename(file.path).removesuffix(f".{suffix}"): file.kind for file in find_files([str(tmp_path)])}
    assert found == {name: kind for name, (_, kind) in CONTENTS.items()}


def test_a_file_that_is_named_is_text_whatever_its_name(tmp_path):
    for name, content in NO_TEXT.items():
        (tmp_path / name).write_text(content)
        (file,) = find_files([str(tmp_path / name)])
        assert file.kind == "text" and list(read_documents(file)) == [content]


def test_the_kind_and_column_of_the_source_hold(tmp_path):
    (tmp_path / "a.txt").write_text('{"body": "x"}')
    (file,) = find_files([Source(str(tmp_path), kind="jsonl", column="body")])
    assert (file.kind, file.column) == ("jsonl", "body") and list(read_documents(file)) == ["x"]
    (file,) = find_files([f"{tmp_path},kind=jsonl,column=body"])
    assert (file.kind, file.column) == ("jsonl", "body")


def test_files_know_their_source(tmp_path):
    for name in ("a/1.txt", "a/2.txt", "b/1.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    files = find_files([f"{tmp_path}/b,weight=2", str(tmp_path / "*"), str(tmp_path / "a" / "**")])
    assert [(os.path.relpath(file.path, tmp_path), file.source) for file in files] == [
        ("b/1.txt", 0),
        ("a/1.txt", 1),
        ("a/2.txt", 1),
    ]


def test_pipes_and_dangling_links(tmp_path):
    (tmp_path / "a.txt").write_text("x")
    os.mkfifo(tmp_path / "pipe")  # without a suffix nothing says that it is meant
    assert len(find_files([str(tmp_path)])) == 1
    (tmp_path / "gone.txt").symlink_to(tmp_path / "nowhere")
    with pytest.raises(UserError, match=r"gone\.txt: is no regular file"):
        find_files([str(tmp_path)])


def test_paths_may_be_objects(tmp_path):
    (tmp_path / "a.txt").write_text("x")
    assert len(find_files([tmp_path])) == 1
