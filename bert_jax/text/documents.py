"""Documents out of the files of a corpus, streamed: memory is bounded by the largest document, not by the file.

What a corpus may be made of, each kind found out by content and name, and each read through gzip, bz2, zstd and xz:
- text (*.txt, *.md, *.text; the format of google-research/bert, and wider): a blank line, that is a line of only
  whitespace, ends a document, any number of them in a row counts once; `separator='line'` makes each line a document,
  `separator='file'` each file. A document need not be split into sentences: `sentences.split_sentences` does that;
- jsonl (*.jsonl, *.json-lines, *.ndjson): one object a line, the document in the field that the source names;
- parquet and arrow (pyarrow): a row is a document; wikiextractor and mediawiki: an article; book: a file;
- tfds: a record of a prepared TFDS data set.
The readers and what each keeps and drops are in `bert_jax.text.sources`.
A document longer than a training example is cut by the preparation, at a token, possibly inside a sentence.
"""

from collections.abc import Callable, Iterator, Sequence

from bert_jax.errors import UserError
from bert_jax.text.sources.book import read_book
from bert_jax.text.sources.compressed import CHUNK_BYTES
from bert_jax.text.sources.cut import cut_file
from bert_jax.text.sources.find import find_source_files
from bert_jax.text.sources.mediawiki import read_mediawiki
from bert_jax.text.sources.plain import read_jsonl, read_text
from bert_jax.text.sources.source import (
    KINDS,
    Source,
    TextFile,
    check_weights,
    parse_source,
    raise_user_error,
    require_whole,
)
from bert_jax.text.sources.wikiextractor import read_wikiextractor

SEPARATORS = ("blank_line", "file", "line")
ON_ERROR = ("fail", "skip")  # what a verb does with what cannot be read

__all__ = [
    "KINDS",
    "ON_ERROR",
    "SEPARATORS",
    "Source",
    "TextFile",
    "check_weights",
    "find_files",
    "parse_source",
    "read_documents",
]


def find_files(
    sources: Sequence[str | Source], part_bytes: int | None = None, separator: str = "blank_line"
) -> list[TextFile]:
    """Files of a corpus in the order of `sources`, those of one source sorted by path, parts of one by position.

    A source is a folder (searched to the bottom; hidden names and empty files are passed over), a file (any suffix),
    a glob, each local or a URL that fsspec reads (gs://...), or `tfds:NAME/CONFIG`; as text it is read by
    `parse_source`. A file that two sources name is read once.
    part_bytes: files larger than that are cut into parts of about that size where their kind can be cut exactly:
    uncompressed text and JSON lines, WikiExtractor files, XML dumps (uncompressed or multistream bz2), Parquet, Arrow
    files, ArrayRecord. The documents of all parts are those of the file, each once, provided that `separator` is the
    one that they are read with.
    Raises UserError, naming the source, where it is missing, unreadable, or holds no byte of text.
    """
    _check_separator(separator)
    files = find_source_files(sources)
    if part_bytes is None:
        return files
    if part_bytes < 1:
        raise ValueError(f"part_bytes {part_bytes}: expected at least 1")
    return [part for file in files for part in cut_file(file, part_bytes, separator)]


def read_documents(
    file: TextFile,
    separator: str = "blank_line",
    chunk_bytes: int = CHUNK_BYTES,
    on_error: Callable[[str], None] | None = None,
) -> Iterator[str]:
    """Yields the documents of a file or part; `\\r\\n` becomes `\\n`, a UTF-8 byte order mark is dropped.

    separator: of text files only. Newlines inside a document are kept, whitespace-only documents of text files are
    dropped. A record or article whose text is empty yields an empty document, so that whoever counts can count it.
    on_error: called with one line for each thing that cannot be read (a line that is not UTF-8, a record without text,
    a damaged page, the rest of a truncated archive, a file that is no text), which is then skipped. Without it that
    line is raised as UserError. It names the file and the offset, line or record. An unknown column is always raised.
    """
    _check_separator(separator)
    report = on_error or raise_user_error
    if file.kind == "text":
        if separator == "file":
            require_whole(file)
        return read_text(file, separator, report, chunk_bytes)
    if file.kind == "jsonl":
        return read_jsonl(file, report, chunk_bytes)
    if file.kind == "wikiextractor":
        return read_wikiextractor(file, report, chunk_bytes)
    if file.kind == "mediawiki":
        return read_mediawiki(file, report, chunk_bytes)
    if file.kind == "book":
        return read_book(file, report, chunk_bytes)
    if file.kind in ("parquet", "arrow"):
        from bert_jax.text.sources import tables  # pyarrow takes half a second to import

        return (tables.read_parquet if file.kind == "parquet" else tables.read_arrow)(file, report)
    if file.kind == "tfds":
        from bert_jax.text.sources.tfds import read_shard

        return read_shard(file, report)
    raise UserError(f"{file.path}: kind {file.kind!r} is unknown: expected one of {', '.join(KINDS)}")


def _check_separator(separator: str) -> None:
    if separator not in SEPARATORS:
        raise UserError(f"separator {separator!r} is unknown: expected one of {', '.join(SEPARATORS)}")
