"""A column of text out of Parquet and Arrow files (pyarrow), a batch of rows at a time."""

from collections.abc import Callable, Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from bert_jax.errors import UserError
from bert_jax.text.sources import storage
from bert_jax.text.sources.lines import clean_document
from bert_jax.text.sources.source import Report, TextFile, one_line

ROWS = 256  # a batch of the longest articles is still only some megabytes
ARROW_FILE_MAGIC = b"ARROW1"


def read_parquet(file: TextFile, report: Report) -> Iterator[str]:
    """Texts of row groups file.start to file.stop. What is damaged costs the rest of its row group.

    Raises UserError, whatever `report` does, where there is no column of text of that name.
    """
    try:
        with storage.open_file(file.path) as stream:
            table = pq.ParquetFile(stream)
            _check_column(table.schema_arrow, file)
            for group in range(file.start, table.num_row_groups if file.stop is None else file.stop):
                batches = table.iter_batches(ROWS, row_groups=[group], columns=[file.column])
                yield from _texts(batches, f"{file.path}, row group {group}", file.column, report)
    except (pa.ArrowException, OSError) as error:
        report(f"{file.path}: is no readable Parquet file ({one_line(error)})")


def read_arrow(file: TextFile, report: Report) -> Iterator[str]:
    """Texts of an Arrow IPC file (record batches file.start to file.stop) or stream; raises as read_parquet."""
    try:
        with storage.open_file(file.path) as stream:
            yield from _texts(_arrow_batches(stream, file), file.path, file.column, report)
    except (pa.ArrowException, OSError) as error:
        report(f"{file.path}: is no readable Arrow file ({one_line(error)})")


def parquet_row_groups(path: str) -> list[int]:
    """Compressed bytes of each row group; none where the file is damaged."""
    try:
        with storage.open_file(path) as stream:
            metadata = pq.ParquetFile(stream).metadata
    except (pa.ArrowException, OSError):
        return []
    groups = [metadata.row_group(index) for index in range(metadata.num_row_groups)]
    return [sum(group.column(c).total_compressed_size for c in range(group.num_columns)) for group in groups]


def arrow_batch_count(path: str) -> int | None:
    """How many record batches can be read each by itself; None in a stream, or where the file is damaged."""
    try:
        with storage.open_file(path) as stream:
            return pa.ipc.open_file(stream).num_record_batches
    except (pa.ArrowException, OSError):
        return None


def _arrow_batches(stream, file: TextFile) -> Iterator[pa.RecordBatch]:
    random_access = stream.read(len(ARROW_FILE_MAGIC)) == ARROW_FILE_MAGIC
    stream.seek(0)
    reader = pa.ipc.open_file(stream) if random_access else pa.ipc.open_stream(stream)
    _check_column(reader.schema, file)
    if not random_access:
        return iter(reader)
    stop = reader.num_record_batches if file.stop is None else file.stop
    return (reader.get_batch(index) for index in range(file.start, stop))


def _check_column(schema: pa.Schema, file: TextFile) -> None:
    """A wrong column is the user's mistake, not damage: always an error."""
    if file.column not in schema.names:
        raise UserError(f"{file.path}: has no column {file.column!r} (columns found: {', '.join(schema.names)})")
    found = schema.field(file.column).type
    values = found.value_type if pa.types.is_dictionary(found) else found
    tests: list[Callable] = [pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view]
    tests += [pa.types.is_binary, pa.types.is_large_binary]
    if not any(test(values) for test in tests):
        raise UserError(f"{file.path}: column {file.column!r} holds {found}: expected text")


def _texts(batches: Iterator[pa.RecordBatch], where: str, column: str, report: Report) -> Iterator[str]:
    row = 0
    while True:
        try:
            batch = next(batches, None)
        except (pa.ArrowException, OSError) as error:
            return report(f"{where}: is damaged after row {row} ({one_line(error)})")
        if batch is None:
            return
        for value in batch.column(batch.schema.get_field_index(column)):
            yield from _text(value, f"{where}, row {row}: column {column!r}", report)
            row += 1


def _text(value: pa.Scalar, where: str, report: Report) -> Iterator[str]:
    try:
        text = value.as_py()
        text = text.decode() if isinstance(text, bytes) else text
        if text is None:
            return report(f"{where} is null: expected text")
        yield clean_document(text)
    except UnicodeDecodeError as error:
        report(f"{where}: byte {error.object[error.start]:#04x} at offset {error.start} of it is not UTF-8")
