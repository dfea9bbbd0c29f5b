"""Files as numbered rows: Parquet, CSV and Arrow, one after the other in the order they were first seen.

A file that is there keeps its place; new ones come behind. What is not Arrow already is decoded a
piece at a time, when it is first read, and then mapped (`blocks`). A file that was removed or
rewritten ends what can be read there: its rows and those behind it are an error from then on.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from pyarrow import ipc

from anabranch.dataspace.blocks import BlockCache
from anabranch.dataspace.columns import conformed, is_key_type, key_matrix, served_schema
from anabranch.dataspace.rows import Rows, scanned_extent, wider
from anabranch.errors import DataError, StreamError
from anabranch.log.offset import End

_PIECE_ROWS = 1 << 20
_LOOK_SECONDS = 0.1
_DECODED_ROWS = 1 << 16
PARQUET, CSV, ARROW = (".parquet", ".pq"), (".csv", ".csv.gz"), (".arrow", ".feather")
SUFFIXES = PARQUET + CSV + ARROW


@dataclass(frozen=True)
class _Piece:
    """Part of a file: what is decoded at once."""

    path: str
    groups: tuple[int, ...]
    first: int
    rows: int
    extents: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Of the columns whose statistics the file has."""


class FileRows:
    """The rows of a list of files that may grow."""

    time_column = None

    def __init__(
        self, name: str, files: Callable[[], list[str]], cache: BlockCache, missing: tuple[str, ...] = ()
    ) -> None:
        """`files` says which there are; `missing` are columns of the data set that its files do not hold."""
        self._name = name
        self._files = files
        self._cache = cache
        self._mutex = threading.RLock()
        self._pieces: list[_Piece] = []
        self._known: dict[str, tuple[int, int]] = {}
        self._first_rows: dict[str, int] = {}
        self._lost: StreamError | None = None
        self._lost_from = 0
        self._looked = 0.0
        listed = files()
        if not listed:
            raise DataError("DATA_SET_NOT_READABLE", f'data set "{name}" has no files yet')
        self.schema, left_out = served_schema(_schema_of(listed[0]))
        self.left_out = (*left_out, *missing)
        if not self.schema.names:
            raise DataError("DATA_SET_NOT_READABLE", f'data set "{name}" has no column that can be served')
        self.identity = hashlib.sha256(f"{os.path.abspath(listed[0])}|{self.schema}".encode()).hexdigest()[:16]
        for path in listed:
            self._add(path)

    # -- which files there are ---------------------------------------------------------------

    def _add(self, path: str) -> None:
        stamp = _stamp(path)
        assert stamp is not None
        first = self.rows_so_far
        _check_columns(path, _schema_of(path), self.schema)
        self._pieces += self._pieces_of(path, first)
        self._known[path], self._first_rows[path] = stamp, first

    @property
    def rows_so_far(self) -> int:
        return self._pieces[-1].first + self._pieces[-1].rows if self._pieces else 0

    def _pieces_of(self, path: str, first: int) -> Iterator[_Piece]:
        if not path.endswith(PARQUET):
            piece = _Piece(path, (), first, 0)
            rows = self._mapped(piece).num_rows
            if rows:
                yield _Piece(path, (), first, rows)
            return
        metadata = pq.read_metadata(path)
        groups: list[int] = []
        rows = 0
        for group in range(metadata.num_row_groups):
            groups.append(group)
            rows += metadata.row_group(group).num_rows
            if rows and (rows >= _PIECE_ROWS or group == metadata.num_row_groups - 1):
                yield _Piece(path, tuple(groups), first, rows, _statistics(path, metadata, groups, self.schema))
                first, groups, rows = first + rows, [], 0

    def _refresh(self) -> None:
        """Look for new files, and whether those known are as they were; not more often than is useful."""
        if self._lost is not None or time.monotonic() - self._looked < _LOOK_SECONDS:
            return
        for path, stamp in self._known.items():
            if _stamp(path) != stamp:
                name = os.path.basename(path)
                self._lost = StreamError(
                    "DATA_SET_CHANGED",
                    f'file {name} of data set "{self._name}" was removed or rewritten',
                    detail=f"rows from number {self._first_rows[path]} on cannot be read any more",
                    hint="only add files to a data set that is served; restart the server to serve it anew",
                )
                self._lost_from = self._first_rows[path]
                return
        for path in self._files():
            if path not in self._known:
                try:
                    self._add(path)
                except (DataError, OSError):
                    break  # still being written, perhaps: it is looked at again, and those behind it wait
        self._looked = time.monotonic()

    def first(self) -> int:
        return 0

    def end(self) -> End:
        with self._mutex:
            self._refresh()
            return End(self.rows_so_far)

    # -- rows --------------------------------------------------------------------------------

    def read(self, start: int, end: int, columns: list[str]) -> pa.Table:
        with self._mutex:
            if end > self.rows_so_far:
                self._refresh()
            self._check(end)
            at = max(bisect_right(self._pieces, start, key=lambda p: p.first) - 1, 0)
            parts = []
            for piece in self._pieces[at:]:
                if piece.first >= end or start >= end:
                    break
                low, high = max(start - piece.first, 0), min(end - piece.first, piece.rows)
                if low < high:
                    parts.append(self._mapped(piece).select(columns).slice(low, high - low))
        if not parts:
            return pa.schema([self.schema.field(name) for name in columns]).empty_table()
        return pa.concat_tables(parts)

    def _check(self, end: int) -> None:
        if self._lost is not None and end > self._lost_from:
            raise self._lost

    def _mapped(self, piece: _Piece) -> pa.Table:
        """The rows of a piece, decoded if they are not yet."""
        try:
            name = _name_of(piece)
            kept = self._cache.get(name)
            if kept is not None:
                return kept
            if piece.path.endswith(ARROW) and _schema_of(piece.path).equals(self.schema):
                return self._cache.map(name, piece.path)
            tables = (conformed(t, self.schema, os.path.basename(piece.path)) for t in self._decoded(piece))
            return self._cache.put(name, self.schema, tables)
        except (pa.ArrowException, OSError) as problem:
            raise _unreadable(piece.path, problem) from None

    def values(self, column: str, start: int, end: int) -> Iterator[pa.ChunkedArray]:
        """Of pieces that are not decoded yet, only this column is."""
        for piece in list(self._pieces):
            low, high = max(start - piece.first, 0), min(end - piece.first, piece.rows)
            if low >= high:
                continue
            if piece.groups and self._cache.get(_name_of(piece)) is None:
                with self._mutex:
                    self._check(piece.first + high)
                tables = [conformed(t, self._only(column), piece.path) for t in self._decoded(piece, [column])]
                yield pa.concat_tables(tables).column(0).slice(low, high - low)
            else:
                yield self.read(piece.first + low, piece.first + high, [column]).column(0)

    def _only(self, column: str) -> pa.Schema:
        return pa.schema([self.schema.field(column)])

    def _decoded(self, piece: _Piece, columns: list[str] | None = None) -> Iterator[pa.Table]:
        if piece.path.endswith(PARQUET):
            with pq.ParquetFile(piece.path, memory_map=True) as file:
                batches = file.iter_batches(_DECODED_ROWS, list(piece.groups), columns or self.schema.names)
                yield from (pa.Table.from_batches([batch]) for batch in batches)
        elif piece.path.endswith(CSV):
            with pyarrow.csv.open_csv(piece.path) as file:
                yield from (pa.Table.from_batches([batch]) for batch in file)
        else:
            with ipc.open_file(pa.memory_map(piece.path)) as file:
                for i in range(file.num_record_batches):
                    yield pa.Table.from_batches([file.get_batch(i)])

    def extent(self, column: str, start: int, end: int) -> tuple[float, float] | None:
        """From the statistics of files that have them."""
        extent: tuple[float, float] | None = None
        for piece in list(self._pieces):
            low, high = max(start, piece.first), min(end, piece.first + piece.rows)
            if low >= high:
                continue
            if column in piece.extents and high - low == piece.rows:
                extent = wider(extent, piece.extents[column])
            else:
                source: Rows = self
                extent = wider(extent, scanned_extent(source, column, low, high))
        return extent


def _name_of(piece: _Piece) -> str:
    return f"{piece.path}|{piece.groups}"


def _stamp(path: str) -> tuple[int, int] | None:
    try:
        state = os.stat(path)
    except OSError:
        return None
    return state.st_size, state.st_mtime_ns


def _schema_of(path: str) -> pa.Schema:
    try:
        if path.endswith(PARQUET):
            return pq.read_schema(path)
        if path.endswith(CSV):
            with pyarrow.csv.open_csv(path) as file:
                return file.schema
        with ipc.open_file(pa.memory_map(path)) as file:
            return file.schema.remove_metadata()
    except (pa.ArrowException, OSError) as problem:
        raise _unreadable(path, problem) from None


def _unreadable(path: str, problem: Exception) -> DataError:
    said = str(problem).splitlines()
    return DataError(
        "FILE_NOT_READABLE", f"{os.path.basename(path)} cannot be read", detail=said[0][:300] if said else None
    )


def _check_columns(path: str, given: pa.Schema, wanted: pa.Schema) -> None:
    conformed(given.empty_table(), wanted, os.path.basename(path))


def _statistics(
    path: str, metadata: pq.FileMetaData, groups: list[int], schema: pa.Schema
) -> dict[str, tuple[float, float]]:
    """The extents that a Parquet file says its row groups have, for the key columns it says it of."""
    arrow = metadata.schema.to_arrow_schema()
    places = {metadata.schema.column(i).path: i for i in range(metadata.num_columns)}
    extents: dict[str, tuple[float, float]] = {}
    for column in (f.name for f in schema if is_key_type(f.type) and f.name in places):
        ends = []
        for group in groups:
            said = metadata.row_group(group).column(places[column]).statistics
            if said is None or not said.has_min_max:
                break
            ends += [said.min, said.max]
        else:
            try:
                table = pa.table({column: pa.array(ends, arrow.field(column).type)})
                kind = pa.schema([schema.field(column)])
                numbers = key_matrix(conformed(table, kind, path), (column,))
                extents[column] = (float(numbers.min()), float(numbers.max()))
            except (pa.ArrowException, DataError, TypeError, ValueError):
                continue  # a type whose statistics are not values of it: rows are looked at instead
    return extents
