"""The files that sources come to, each with its kind: by its first bytes, and by its name where those leave it open."""

import os
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from bert_jax.errors import UserError
from bert_jax.text.sources import storage, tfds
from bert_jax.text.sources.book import is_book
from bert_jax.text.sources.compressed import read_head
from bert_jax.text.sources.lines import SNIFF_BYTES
from bert_jax.text.sources.source import TFDS_PREFIX, Source, TextFile, parse_source

TEXT_SUFFIXES = (".txt", ".md", ".text")
JSON_SUFFIXES = (".jsonl", ".json-lines", ".ndjson")
TABLE_SUFFIXES = (".parquet", ".arrow", ".feather")
COMPRESSED_SUFFIXES = (".gz", ".bz2", ".zst", ".xz")

# Dumps are called ...pages-articles1.xml-p1p41242.bz2, WikiExtractor's files wiki_00: without a suffix.
_DUMP_NAME = re.compile(r"\.xml(-p\d+p\d+[\w-]*)?$")
_ARROW_STREAM = re.compile(rb"\xff\xff\xff\xff..[\0-\x0f]\0", re.S)
_REMOTE_THREADS = 16


def find_source_files(sources: Sequence[str | Source]) -> list[TextFile]:
    """Files of all sources, in their order; a file that two of them name is read once, for the first."""
    if not sources:
        raise UserError("no source of text given: expected at least one folder, file or glob")
    found: dict[str, TextFile] = {}
    for index, source in enumerate(sources):
        source = source if isinstance(source, Source) else parse_source(os.fspath(source))
        try:
            files = _files_of_source(source, index)
        except OSError as error:
            raise UserError(f"{source.path}: cannot be read ({error.strerror or error})") from error
        found.update((file.path, file) for file in files if file.path not in found)
    return list(found.values())


def find_kind(path: str) -> str:
    """The kind of a file, '' where nothing but its being named says that it is text. Raises OSError."""
    name = _bare_name(path)
    head = read_head(path, SNIFF_BYTES)
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if head[:4] == b"PAR1":
        return "parquet"
    if head[:6] == b"ARROW1" or (name.endswith(TABLE_SUFFIXES[1:]) and _ARROW_STREAM.match(head)):
        return "arrow"
    if re.search(rb"<mediawiki[\s>]", head[:2000]):
        return "mediawiki"
    if re.match(rb"<doc id=[^\n>]*>", start):
        return "wikiextractor"
    if name.endswith(JSON_SUFFIXES) or ("." not in name and start.startswith(b'{"')):
        return "jsonl"
    if name.endswith(TEXT_SUFFIXES):
        return "book" if is_book(head.decode(errors="replace")) else "text"
    if re.search(r"\.(array_record|tfrecord)(-|$)", name):
        return "tfds"
    if name.endswith(TABLE_SUFFIXES):
        return name.rsplit(".", 1)[1].replace("feather", "arrow")  # damaged: the reader says how
    return ""


def _files_of_source(source: Source, index: int) -> list[TextFile]:
    path = source.path
    if path.startswith(TFDS_PREFIX):
        return tfds.find_shards(tfds.find_prepared(source), source, index)
    if storage.exists(path):
        paths = [path]
    elif any(mark in path for mark in "*?["):
        paths = storage.matches(path)
        if not paths:
            raise UserError(f"{path}: matches no file")
    else:
        raise UserError(f"{path}: no such file or folder of text")
    files = [file for each in paths for file in _files_of_path(each, source, index)]
    if not files:
        suffixes = ", ".join("*" + suffix for suffix in TEXT_SUFFIXES + JSON_SUFFIXES + TABLE_SUFFIXES)
        raise UserError(
            f"{path}: holds no text file (expected {suffixes}, also compressed, WikiExtractor's or MediaWiki's files, "
            "or a prepared TFDS data set; a glob names others)"
        )
    files = [file for file in files if file.size]
    if not files:
        raise UserError(f"{path}: holds no text (0 bytes)")
    return files


def _files_of_path(path: str, source: Source, index: int) -> list[TextFile]:
    if not storage.is_folder(path):
        return [_text_file(path, source, index)]
    if tfds.is_prepared(path):
        return tfds.find_shards(path, source, index)
    paths = [each for each in storage.files_under(path) if _may_be_text(each)]
    if storage.is_remote(path):  # each costs a round trip
        with ThreadPoolExecutor(_REMOTE_THREADS) as threads:
            files = list(threads.map(lambda each: _text_file(each, source, index, named=False), paths))
    else:
        files = [_text_file(each, source, index, named=False) for each in paths]
    return [file for file in files if file.kind]


def _may_be_text(path: str) -> bool:
    name = _bare_name(path)
    return (
        "." not in name
        or name.endswith(TEXT_SUFFIXES + JSON_SUFFIXES + TABLE_SUFFIXES)
        or bool(_DUMP_NAME.search(name))
    )


def _text_file(path: str, source: Source, index: int, named: bool = True) -> TextFile:
    """The file; its kind is '' where it only lies in a folder of text and is none."""
    if not named and not storage.is_remote(path) and "." not in _bare_name(path) and not os.path.isfile(path):
        return TextFile(path, 0, "")
    size = storage.file_size(path)
    kind = source.kind or (find_kind(path) if size else "text")
    return TextFile(path, size, kind or ("text" if named else ""), index, source.column)


def _bare_name(path: str) -> str:
    name = path.rstrip("/").rpartition("/")[2]
    for suffix in COMPRESSED_SUFFIXES:
        name = name.removesuffix(suffix)
    return name
