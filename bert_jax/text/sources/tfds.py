"""Texts out of a TFDS data set that is prepared on disk, without TensorFlow and without importing TFDS.

A prepared data set is a folder with features.json, dataset_info.json and shards of serialized tf.train.Example in
ArrayRecord or TFRecord. `tfds:NAME/CONFIG` is looked up where TFDS keeps such folders. Importing TFDS costs 1.2 s and
building a data set needs TensorFlow; reading one needs 40 lines of protocol buffer.
"""

import json
import os
import re
import struct
from collections.abc import Iterator

from bert_jax.errors import UserError
from bert_jax.text.sources import storage
from bert_jax.text.sources.compressed import CHUNK_BYTES
from bert_jax.text.sources.lines import clean_document
from bert_jax.text.sources.source import TFDS_PREFIX, Report, Source, TextFile, one_line

FEATURES, INFO = "features.json", "dataset_info.json"
DATA_VARIABLE = "TFDS_DATA_DIR"
DEFAULT_DATA = "~/tensorflow_datasets"
# Data sets whose text is not under 'text'.
COLUMNS = {"pg19": "book_text"}
FORMATS = ("array_record", "tfrecord")
RECORDS = 64  # read at a time

_VERSION = re.compile(r"\d+\.\d+\.\d+")
_MARKERS = re.compile(r"\n?_START_ARTICLE_\n[^\n]*|\n?_START_SECTION_\n[^\n]*|\n?(_START_PARAGRAPH_)\n?|(_NEWLINE_)")


def is_prepared(folder: str) -> bool:
    return storage.exists(storage.join(folder, FEATURES)) and storage.exists(storage.join(folder, INFO))


def find_prepared(source: Source) -> str:
    """The folder of the newest prepared version of `tfds:NAME[/CONFIG][:VERSION]`.

    Raises UserError, which says how to prepare it, where there is none.
    """
    name, _, version = source.path.removeprefix(TFDS_PREFIX).partition(":")
    root = os.environ.get(DATA_VARIABLE) or os.path.expanduser(DEFAULT_DATA)
    folder = storage.join(root, name.strip("/"))
    found = []
    # A data set without configs has its versions right below its name, one with has them a level deeper.
    for path in storage.matches(storage.join(folder, "*")) + storage.matches(storage.join(folder, "*/*")):
        number = path.rstrip("/").rpartition("/")[2]
        if _VERSION.fullmatch(number) and (not version or number == version) and is_prepared(path):
            found.append((path.count("/"), [int(part) for part in number.split(".")], path))
    shallow = [item for item in found if item[0] == min(found)[0]] if found else []
    folders = {os.path.dirname(path) for _, _, path in shallow}
    if len(folders) == 1:
        return max(shallow, key=lambda item: item[1])[2]
    if folders:
        configs = ", ".join(sorted(os.path.basename(path) for path in folders))
        raise UserError(
            f"{source.path}: has several configs under {folder} ({configs}): name one, as {source.path}/NAME"
        )
    raise UserError(
        f"{source.path}: no prepared data set under {folder}: prepare it with `tfds build {name}` (needs TensorFlow: "
        f"pip install 'bert-jax[tfds]'), set {DATA_VARIABLE} to where it is, or name its folder"
    )


def find_shards(folder: str, source: Source, index: int) -> list[TextFile]:
    """The shards of the source's split, in order.

    Raises UserError for a split or column that the data set lacks, naming those it has, and for a missing shard.
    """
    info, features = _read_json(storage.join(folder, INFO)), _read_json(storage.join(folder, FEATURES))
    column = _column(folder, features, source.column, info.get("name", ""))
    splits = {split.get("name"): split for split in info.get("splits", [])}
    if source.split not in splits:
        raise UserError(
            f"{folder}: has no split {source.split!r} (splits found: {', '.join(sorted(splits)) or 'none'})"
        )
    file_format = info.get("fileFormat") or "tfrecord"
    if file_format not in FORMATS:
        raise UserError(f"{folder}: its shards are {file_format}: expected one of {', '.join(FORMATS)}")
    split = splits[source.split]
    count = len(split.get("shardLengths", []))
    template = split.get("filepathTemplate") or "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}"
    files = []
    for shard in range(count):
        values = {"DATASET": info.get("name", ""), "SPLIT": source.split, "FILEFORMAT": file_format}
        values |= {"SHARD_INDEX": f"{shard:05d}", "NUM_SHARDS": f"{count:05d}"}
        values["SHARD_X_OF_Y"] = f"{shard:05d}-of-{count:05d}"
        path = storage.join(folder, re.sub(r"\{(\w+)\}", lambda match: values.get(match[1], match[0]), template))
        if not storage.exists(path):
            raise UserError(f"{path}: shard {shard + 1} of {count} is missing")
        files.append(TextFile(path, storage.file_size(path), "tfds", index, column))
    return files


def record_count(path: str) -> int | None:
    """Records of an ArrayRecord shard; None of a damaged one, and of TFRecord, which is read from its start only."""
    if "array_record" not in os.path.basename(path):
        return None
    try:
        reader = _array_record_reader(path)
        count = reader.num_records()
        reader.close()
        return count
    except (RuntimeError, UserError):  # the reading says what is wrong
        return None


def read_shard(file: TextFile, report: Report) -> Iterator[str]:
    """Texts of records file.start to file.stop; those of wiki40b without its markers, titles and headings.

    A record that is damaged, or that is no example with a text under file.column, is reported.
    """
    if "array_record" in os.path.basename(file.path):
        records = _array_records(file, report)
    else:
        records = _tfrecords(file, report)
    for number, record in records:
        where = f"{file.path}, record {number}"
        try:
            found = feature_bytes(record, file.column)
            if found is None:
                report(f"{where}: holds no text under {file.column!r}")
                continue
            text = clean_document(found.decode())
        except UnicodeDecodeError as error:
            report(f"{where}: byte {found[error.start]:#04x} at offset {error.start} of its text is not UTF-8")
        except (ValueError, IndexError):
            report(f"{where}: is no serialized tf.train.Example")
        else:
            yield plain_wiki40b(text) if "_START_ARTICLE_" in text else text


def plain_wiki40b(text: str) -> str:
    """Paragraphs as lines, sections set apart by a blank line; titles and headings dropped, as in other Wikipedias."""

    def replacement(match: re.Match) -> str:
        return "\n" if match[1] or match[2] else "\n\n"

    return re.sub(r"\n\n\n+", "\n\n", _MARKERS.sub(replacement, text)).strip("\n")


def feature_bytes(example: bytes, name: str) -> bytes | None:
    """The first value of the bytes feature `name` in a serialized tf.train.Example; None where there is none.

    Raises ValueError or IndexError where the bytes are no such message.
    """
    wanted = name.encode()
    for features in _fields(example, 1):
        for entry in _fields(features, 1):
            if next(_fields(entry, 1), b"") == wanted:
                feature = next(_fields(entry, 2), b"")
                values = next(_fields(feature, 1), None)
                return None if values is None else next(_fields(values, 1), b"")
    return None


def _fields(message: bytes, number: int) -> Iterator[bytes]:
    """Payloads of the length-delimited fields `number` of a protocol buffer message."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        kind = tag & 7
        if kind == 2:
            size, at = _varint(message, at)
            if at + size > len(message):
                raise ValueError("field beyond the end")
            if tag >> 3 == number:
                yield message[at : at + size]
            at += size
        elif kind == 0:
            _, at = _varint(message, at)
        elif kind in (1, 5):
            at += 8 if kind == 1 else 4
        else:
            raise ValueError(f"wire type {kind}")


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7


def _array_record_reader(path: str):
    from array_record.python.array_record_module import ArrayRecordReader

    if storage.is_remote(path):
        raise UserError(f"{path}: ArrayRecord is read from local files only: copy the data set's folder here first")
    try:
        return ArrayRecordReader(path, options="readahead_buffer_size:0", file_reader_buffer_size=CHUNK_BYTES)
    except RuntimeError as error:
        raise UserError(f"{path}: is no readable ArrayRecord file ({one_line(error)})") from error


def _array_records(file: TextFile, report: Report) -> Iterator[tuple[int, bytes]]:
    try:
        reader = _array_record_reader(file.path)
        stop = reader.num_records() if file.stop is None else file.stop
    except (RuntimeError, UserError) as error:
        return report(str(error) if isinstance(error, UserError) else f"{file.path}: is damaged ({one_line(error)})")
    damage: list[str] = []

    def note(message: str) -> None:
        damage.append(message)
        report(message)

    for start in range(file.start, stop, RECORDS):
        yield from _batch(reader, start, min(stop, start + RECORDS), file.path, note)
    try:
        reader.close()
    except RuntimeError as error:  # said again; or for the first time, where the table of records is damaged
        if not damage:
            report(f"{file.path}: is damaged ({one_line(error)})")


def _batch(reader, start: int, stop: int, path: str, report: Report) -> Iterator[tuple[int, bytes]]:
    """Records start to stop; where they cannot be read together, one by one."""
    try:
        yield from enumerate(reader.read(start, stop), start)
        return
    except RuntimeError as error:
        if stop - start == 1:
            return report(f"{path}, record {start}: is damaged ({one_line(error)})")
    for number in range(start, stop):
        yield from _batch(reader, number, number + 1, path, report)


def _tfrecords(file: TextFile, report: Report) -> Iterator[tuple[int, bytes]]:
    """A record is its length (8 bytes), a checksum of that (4), the data, and a checksum of those (4)."""
    number = offset = 0
    with storage.open_file(file.path) as stream:
        while header := stream.read(12):
            size = struct.unpack("<Q", header[:8])[0] if len(header) == 12 else -1
            if size < 0 or offset + 16 + size > file.size:
                return report(f"{file.path}, record {number} at offset {offset}: is cut off or damaged")
            record = stream.read(size)
            stream.read(4)
            yield number, record
            number, offset = number + 1, offset + 16 + size


def _column(folder: str, features: dict, column: str, name: str) -> str:
    known = features.get("featuresDict", {}).get("features", {})
    texts = [key for key, value in known.items() if _is_text(value)]
    column = COLUMNS.get(name, column) if column == "text" and column not in texts else column
    if column not in texts:
        others = ", ".join(sorted(set(known) - set(texts))) or "none"
        found = ", ".join(sorted(texts)) or "none"
        raise UserError(f"{folder}: has no text under {column!r} (features with text: {found}; others: {others})")
    return column


def _is_text(feature: dict) -> bool:
    if feature.get("pythonClassName", "").endswith(".text_feature.Text"):
        return True
    tensor = feature.get("tensor", {})
    return tensor.get("dtype") in ("string", "object") and not tensor.get("shape", {}).get("dimensions")


def _read_json(path: str) -> dict:
    try:
        with storage.open_file(path) as stream:
            return json.load(stream)
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: is not readable as JSON ({error})") from error
