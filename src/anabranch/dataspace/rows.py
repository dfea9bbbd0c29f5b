"""What a data set is made of: numbered rows that never change, and of which there may be more later."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.dataspace.columns import key_numbers
from anabranch.log.offset import End

_CLUSTER = 1 << 17
"""Rows no further apart than this are fetched together."""
_SCAN = 1 << 20


class Rows(Protocol):
    """Numbered rows from somewhere; safe to use from several threads."""

    @property
    def schema(self) -> pa.Schema: ...

    @property
    def left_out(self) -> tuple[str, ...]:
        """Columns that cannot be served."""
        ...

    @property
    def identity(self) -> str:
        """Differs once row numbers mean other rows."""
        ...

    @property
    def time_column(self) -> str | None:
        """The column that is known to be the rows' time, in order."""
        ...

    def first(self) -> int:
        """The number of the oldest row that is there."""
        ...

    def end(self) -> End:
        """How far they have come; with MIN_TIME where rows must be looked at to know the time."""
        ...

    def read(self, start: int, end: int, columns: list[str]) -> pa.Table:
        """Rows start ≤ n < end, mapped where possible."""
        ...

    def values(self, column: str, start: int, end: int) -> Iterator[pa.ChunkedArray]:
        """One column, in pieces: for a look at all of it once."""
        ...

    def extent(self, column: str, start: int, end: int) -> tuple[float, float] | None:
        """The least and the greatest of a key column's values, None if there are none."""
        ...


def scanned_extent(rows: Rows, column: str, start: int, end: int) -> tuple[float, float] | None:
    """The extent of a column found by looking at every row."""
    extent: tuple[float, float] | None = None
    for values in rows.values(column, start, end):
        numbers = key_numbers(values)
        numbers = numbers[~np.isnan(numbers)]
        if len(numbers):
            extent = wider(extent, (float(numbers.min()), float(numbers.max())))
    return extent


def read_values(rows: Rows, column: str, start: int, end: int) -> Iterator[pa.ChunkedArray]:
    """One column of rows that are mapped."""
    for at in range(start, end, _SCAN):
        yield rows.read(at, min(at + _SCAN, end), [column]).column(0)


def wider(extent: tuple[float, float] | None, other: tuple[float, float] | None) -> tuple[float, float] | None:
    """The extent around two."""
    if extent is None or other is None:
        return extent or other
    return min(extent[0], other[0]), max(extent[1], other[1])


class Readable(Protocol):
    """Numbered rows, as far as fetching some of them goes; every reader of a log is one."""

    @property
    def schema(self) -> pa.Schema: ...

    def read(self, start: int, end: int, columns: list[str]) -> pa.Table: ...


def take(rows: Readable, numbers: NDArray[np.int64], columns: list[str]) -> pa.Table:
    """Rows by their ascending numbers; only the parts that hold them are looked at."""
    batches: list[pa.RecordBatch] = []
    breaks = np.flatnonzero(np.diff(numbers // _CLUSTER)) + 1
    for cluster in np.split(numbers, breaks) if len(numbers) else []:
        begin = int(cluster[0])
        for batch in rows.read(begin, int(cluster[-1]) + 1, columns).to_batches():
            wanted = cluster[np.searchsorted(cluster, begin) : np.searchsorted(cluster, begin + batch.num_rows)]
            if len(wanted):
                batches.append(batch.take(pa.array(wanted - begin)))
            begin += batch.num_rows
    schema = pa.schema([rows.schema.field(name) for name in columns])
    return pa.Table.from_batches(batches, schema)
