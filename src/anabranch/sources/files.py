"""Files as streams: CSV, JSON, Parquet and Arrow, read block by block so that memory stays flat.

A file's columns are matched to the stream's by name. A row that cannot be read stops the reading
with the file's name and the line, so that it can be mended; nothing is guessed and nothing skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import IO, Any

import pyarrow as pa

from anabranch.errors import DataError, did_you_mean
from anabranch.schema import StreamSchema
from anabranch.sources.base import END, NewValue, Reading, Source
from anabranch.sources.csv_rows import read_csv
from anabranch.sources.json_rows import read_json
from anabranch.sources.raw import STDIN, format_of, open_bytes, seekable

BATCH_ROWS = 65_536


def read_parquet(name: str, reader: Any, schema: StreamSchema) -> Iterator[pa.Table]:
    """The row groups of a Parquet file, a batch at a time."""
    import pyarrow.parquet as pq

    with _readable(name, "Parquet", seekable(reader)) as file:
        try:
            parquet = pq.ParquetFile(file)
            _check_columns(name, parquet.schema_arrow.names, schema)
            for batch in parquet.iter_batches(BATCH_ROWS):
                yield pa.Table.from_batches([batch])
        except (pa.ArrowException, OSError) as problem:
            raise _unreadable(name, "Parquet", problem) from None


def read_arrow(name: str, reader: Any, schema: StreamSchema) -> Iterator[pa.Table]:
    """The batches of an Arrow IPC file or stream."""
    with _readable(name, "Arrow", seekable(reader)) as file:
        try:
            is_file = file.read(6) == b"ARROW1"
            file.seek(0)
            if is_file:
                batches = pa.ipc.open_file(file)
                _check_columns(name, batches.schema.names, schema)
                for i in range(batches.num_record_batches):
                    yield pa.Table.from_batches([batches.get_batch(i)])
            else:
                stream = pa.ipc.open_stream(file)
                _check_columns(name, stream.schema.names, schema)
                for batch in stream:
                    yield pa.Table.from_batches([batch])
        except (pa.ArrowException, OSError) as problem:
            raise _unreadable(name, "Arrow", problem) from None


FORMATS: dict[str, Callable[[str, Any, StreamSchema], Iterator[pa.Table]]] = {
    "csv": read_csv,
    "json": read_json,
    "parquet": read_parquet,
    "arrow": read_arrow,
}
"""Every format a file may have; JSON is one object per line or one array of objects."""


def open_file(path: str, schema: StreamSchema, format: str | None = None) -> Iterator[pa.Table]:
    """The rows of a file (`-`: standard input) as tables with the names of the stream's columns.

    Without `format` the file's name tells, and if it does not, its first bytes do. gzip is unpacked.
    """
    reader = open_bytes(path)
    name = "standard input" if path == STDIN else path
    with reader:
        chosen = format or format_of(path, reader)
        if chosen not in FORMATS:
            raise DataError("FORMAT_NOT_KNOWN", f'format "{chosen}" is not known', hint=did_you_mean(chosen, FORMATS))
        try:
            yield from FORMATS[chosen](name, reader, schema)
        except EOFError as problem:
            raise DataError("FILE_NOT_READABLE", f"{name} ends in the middle", detail=str(problem)) from None


class FileSource(Source):
    """A file as a stream data type: every value is a table of rows, then END."""

    def __init__(self, schema: StreamSchema, path: str, format: str | None = None) -> None:
        self._schema, self._path, self._format = schema, path, format
        self._tables: Iterator[pa.Table] | None = None

    def init_stream(self) -> None:
        self._tables = open_file(self._path, self._schema, self._format)

    def read_stream(self) -> Reading:
        table = next(self._tables, None) if self._tables is not None else None
        return END if table is None else NewValue(table)

    def close_stream(self) -> None:
        self._tables = None


def _readable(name: str, kind: str, file: IO[bytes]) -> IO[bytes]:
    head = file.read(1)
    if not head:
        raise DataError("FILE_NOT_READABLE", f"{name} is empty, {kind} is wanted")
    file.seek(0)
    return file


def _unreadable(name: str, kind: str, problem: Exception) -> DataError:
    return DataError("FILE_NOT_READABLE", f"{name} cannot be read as {kind}", detail=str(problem).splitlines()[0])


def _check_columns(name: str, columns: list[str], schema: StreamSchema) -> None:
    for column in columns:
        if column not in schema.names:
            raise DataError(
                "COLUMN_NOT_FOUND",
                f'{name}: column "{column}" is not in the stream',
                hint=did_you_mean(column, schema.names),
            )
    if schema.time not in columns and not schema.stamped_on_arrival:
        raise DataError("COLUMN_MISSING", f'{name} has no column "{schema.time}", the time of the stream')
