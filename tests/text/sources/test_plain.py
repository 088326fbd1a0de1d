"""JSON lines with errors skipped, and text of sizes that break what holds too much."""

import json
import os
import subprocess
import sys

import pytest

from bert_jax.text.documents import find_files, read_documents
from tests.data.conftest import PEAK_KILOBYTES
from tests.text.sources.corpora import read_all, write


def test_bad_json_lines_are_skipped_one_by_one(tmp_path):
    lines = [
        b'{"text": "one"}',
        b"{not json}",
        b"[1]",
        b'{"body": "x"}',
        b'{"text": null}',
        b'{"text": "a\\ud83d"}',
        b'{"text": "caf\xe9"}',
        b'{"text": "nul \\u0000 spelt"}',
        b'{"text": "raw \0 nul"}',
        b"[" * 100_000,
        b'{"text": ""}',
        b'{"text": "last"}',
    ]
    file = write(tmp_path / "a.jsonl", b"\n".join(lines))
    documents, reported = read_all(file)
    assert documents == ["one", "nul \0 spelt", "", "last"]
    assert len(reported) == 8 and all("a.jsonl" in message and "\n" not in message for message in reported)
    assert [m.split("line ")[1].split(":")[0] for m in reported if "line " in m] == ["2", "3", "4", "5", "6", "10"]


def test_a_bad_line_of_a_part_says_where_the_part_begins(tmp_path):
    text = '{"text": "x"}\n' * 20 + '{"no": 1}\n'
    (tmp_path / "a.jsonl").write_text(text)
    last = find_files([str(tmp_path / "a.jsonl")], 100)[-1]
    _, reported = read_all(last)
    assert len(reported) == 1 and f"from offset {last.start}: field 'text' is missing" in reported[0]
    number = int(reported[0].split("line ")[1].split(" ")[0])
    assert text[last.start :].split("\n")[number - 1] == '{"no": 1}'


def test_columns_are_named_by_the_source(tmp_path):
    (tmp_path / "a.ndjson").write_text(json.dumps({"body": "b", "text": "t"}))
    for source, expected in ((f"{tmp_path},column=body", "b"), (str(tmp_path), "t")):
        (file,) = find_files([source])
        assert file.kind == "jsonl" and list(read_documents(file)) == [expected]


PEAK = f"""
import sys
from bert_jax.text.documents import find_files, read_documents
(file,) = find_files([sys.argv[1]])
before = {PEAK_KILOBYTES}
count = size = 0
for document in read_documents(file, sys.argv[2]):
    count, size = count + 1, size + len(document)
print(count, size, {PEAK_KILOBYTES} - before)
"""


@pytest.mark.parametrize(
    "case, separator, expected, most_megabytes",
    [
        ("a document of 200 MB", "blank_line", (1, 199_999_999), 700),
        ("a line of 50 MB", "line", (2, 50_000_001), 250),
        ("a million lines", "line", (1_000_000, 11_000_000), 20),
    ],
)
def test_sizes_that_break_what_holds_too_much(tmp_path, case, separator, expected, most_megabytes):
    path = tmp_path / "large.txt"
    with open(path, "wb") as stream:
        if case.startswith("a document"):
            for _ in range(20):
                stream.write((b"words " * 16 + b"!!!\n") * 100_000)
        elif case.startswith("a line"):
            stream.write(b"x" * 50_000_000 + b"\ny\n")
        else:
            stream.write(b"hello world\n" * 1_000_000)
    command = [sys.executable, "-c", PEAK, str(path), separator]
    output = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ | {"PYTHONPATH": "."})
    count, size, kilobytes = map(int, output.stdout.split())
    assert (count, size) == expected
    assert kilobytes < most_megabytes << 10
