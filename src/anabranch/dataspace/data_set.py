"""A data set as a server sees it: numbered rows with their keys, extents, time and range queries."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.dataspace.columns import chosen_keys, key_matrix
from anabranch.dataspace.measures import Measures
from anabranch.dataspace.range_index import LARGEST_RUN, Corners, Cube, RangeIndex
from anabranch.dataspace.rows import Rows, take
from anabranch.errors import DataError, did_you_mean
from anabranch.log.offset import MIN_TIME, End
from anabranch.schema import sql_type

_MOST_INDEXES = 4
"""Combinations of keys that have an index at the same time; the one used longest ago makes way."""


class DataSet:
    """Rows under a name; safe to use from several threads."""

    def __init__(self, name: str, rows: Rows, keys: tuple[str, ...] | None = None) -> None:
        self.name = name
        self.keys = chosen_keys(rows.schema, keys, name)
        self._rows = rows
        self._measures = Measures(rows)
        self._indexes: OrderedDict[tuple[str, ...], _Index] = OrderedDict()
        self._mutex = threading.Lock()

    @property
    def schema(self) -> pa.Schema:
        return self._rows.schema

    @property
    def identity(self) -> str:
        """Another one once row numbers mean other rows."""
        return self._rows.identity

    # -- what is known of it -----------------------------------------------------------------

    def describe(self) -> dict[str, Any]:
        """Columns, keys with their extents, rows, and time, as plain data."""
        end = self._rows.end().row
        kinds = {field.name: field.type for field in self.schema}
        times = {n: self._measures.in_order(n, end) for n, kind in kinds.items() if pa.types.is_timestamp(kind)}
        return {
            "dataset": self.name,
            "identity": self.identity,
            "rows": end,
            "first": self._rows.first(),
            "columns": [[name, sql_type(kind)] for name, kind in kinds.items()],
            "keys": list(self.keys),
            "extents": {key: _finite(self._measures.extent(key, end)) for key in self.keys},
            "time": self._rows.time_column or next((name for name, in_order in times.items() if in_order), None),
            "in_order": times,
            "left_out": list(self._rows.left_out),
        }

    def position(self, time: str | None = None) -> dict[str, Any]:
        """How far it has come: rows, and the time reached in a time column whose times are in order."""
        reached = self.end(time)
        return {
            "identity": self.identity,
            "rows": reached.row,
            "first": self._rows.first(),
            "time": None if reached.time == MIN_TIME else reached.time,
        }

    def end(self, time: str | None = None) -> End:
        """The same as an offset."""
        reached = self._rows.end()
        if time is None:
            return End(reached.row)
        self._check_time(time, reached.row)
        if time == self._rows.time_column:
            return reached
        return End(reached.row, self._measures.newest(time, reached.row))

    def row_at_time(self, column: str, time: int, end: int) -> int:
        """The first row below `end` whose time is `time` or later, else `end`."""
        end = min(end, self._rows.end().row)
        self._check_time(column, end)
        return self._measures.row_at_time(column, time, end)

    def _check_time(self, column: str, end: int) -> None:
        self.check_columns([column])
        if not pa.types.is_timestamp(self.schema.field(column).type):
            kind = sql_type(self.schema.field(column).type)
            raise DataError("TIME_TYPE_MISMATCH", f'column "{column}" is {kind}, a time column is TIMESTAMP')
        if not self._measures.in_order(column, end):
            raise DataError(
                "TIME_NOT_IN_ORDER",
                f'times in column "{column}" of data set "{self.name}" go back, or some are NULL',
                hint="sort the data set by it, or leave TIMESTAMP BY out to have rows in the order they are stored",
            )

    # -- rows --------------------------------------------------------------------------------

    def check_columns(self, columns: list[str]) -> None:
        for name in columns:
            if name not in self.schema.names:
                raise DataError(
                    "COLUMN_NOT_FOUND",
                    f'data set "{self.name}" has no column "{name}"',
                    hint=did_you_mean(name, self.schema.names),
                )

    def read(self, start: int, end: int, columns: list[str] | None = None) -> pa.Table:
        """Rows start ≤ n < end, mapped where possible."""
        return self._rows.read(start, end, self.schema.names if columns is None else columns)

    def take(self, numbers: NDArray[np.int64], columns: list[str]) -> pa.Table:
        """Rows by ascending numbers."""
        return take(self._rows, numbers, columns)

    def ranges(
        self,
        keys: tuple[str, ...],
        lows: Corners,
        highs: Corners,
        limit: int,
        below: int | None = None,
        without: Cube | None = None,
        after: NDArray[np.int64] | None = None,
    ) -> list[tuple[NDArray[np.int64], bool]]:
        """Numbers of rows inside cubes over some keys, see `RangeIndex.query_many`."""
        return self._index(keys).grown().query_many(lows, highs, limit, below, without, after)

    def prepare(self, keys: tuple[str, ...]) -> bool:
        """Take in some of the rows that the index over these keys lacks; True while there are more."""
        return self._index(keys).grow()

    def _index(self, keys: tuple[str, ...]) -> _Index:
        for key in keys:
            if key not in self.keys:
                raise DataError(
                    "KEY_NOT_FOUND",
                    f'data set "{self.name}" has no key "{key}"',
                    hint=did_you_mean(key, self.keys),
                )
        with self._mutex:
            index = self._indexes.pop(keys, None) or _Index(self._rows, keys)
            self._indexes[keys] = index
            while len(self._indexes) > _MOST_INDEXES:
                self._indexes.popitem(last=False)
            return index


class _Index:
    """The index over some keys of rows, which grows when it is used."""

    def __init__(self, rows: Rows, keys: tuple[str, ...]) -> None:
        self._rows = rows
        self._keys = keys
        self._index = RangeIndex(len(keys), begin=rows.first())
        self._mutex = threading.Lock()

    def grow(self) -> bool:
        """Take in one run of the rows that are missing; True if some are left."""
        end = self._rows.end().row
        with self._mutex:
            at = self._index.rows
            if at >= end:
                return False
            block = self._rows.read(at, min(at + LARGEST_RUN, end), list(self._keys))
            self._index.extend(key_matrix(block, self._keys))
            return self._index.rows < end

    def grown(self) -> RangeIndex:
        """With every row there is now."""
        while self.grow():
            pass
        return self._index


def _finite(extent: tuple[float, float] | None) -> tuple[float | None, float | None] | None:
    """An extent as JSON has it: no end where values are infinite."""
    if extent is None:
        return None
    low, high = (end if np.isfinite(end) else None for end in extent)
    return low, high
