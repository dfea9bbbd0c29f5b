"""Range queries on a stream, wherever it is: a data server answers them, or an index over the log here."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Protocol, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.dataspace.columns import ROW, key_matrix
from anabranch.dataspace.range_index import RangeIndex
from anabranch.dataspace.rows import take

Corner = NDArray[np.float64]

_BLOCK = 1 << 18
_KEPT_INDICES = 8


class Ranges(Protocol):
    """Answers range queries."""

    def query_rows(
        self,
        low: Corner,
        high: Corner,
        limit: int,
        columns: list[str],
        below: int | None = None,
        without: tuple[Corner, Corner] | None = None,
        after: int = -1,
    ) -> tuple[pa.Table, bool]:
        """The first records inside a cube, in order, with their number as column `_row`; and whether there are more.

        Only rows numbered above `after` and below `below`, and none inside the cube `without`.
        """
        ...


class _Reader(Protocol):
    """What is asked of a stream's log, see `operators.base.LogReader`."""

    @property
    def identity(self) -> str: ...
    @property
    def schema(self) -> pa.Schema: ...
    def first_row(self) -> int: ...
    def read(self, start: int, end: int, columns: list[str] | None = None) -> pa.Table: ...


def ranges_of(reader: _Reader, keys: Sequence[str]) -> Ranges:
    """Range queries over these columns of a stream."""
    remote = getattr(reader, "ranges", None)
    if remote is not None:
        return cast(Ranges, remote(tuple(keys)))
    return _Local(reader, tuple(keys))


_indices: OrderedDict[tuple[str, tuple[str, ...]], tuple[int, RangeIndex]] = OrderedDict()
_lock = threading.Lock()


class _Local:
    """An index over the rows of a log, kept in this process and extended as far as it is asked about."""

    def __init__(self, reader: _Reader, keys: tuple[str, ...]) -> None:
        self._reader = reader
        self._keys = keys

    def query_rows(
        self,
        low: Corner,
        high: Corner,
        limit: int,
        columns: list[str],
        below: int | None = None,
        without: tuple[Corner, Corner] | None = None,
        after: int = -1,
    ) -> tuple[pa.Table, bool]:
        assert below is not None
        first, index = self._index(below)
        numbers, more = index.query(low, high, limit, below - first, without, after - first if after >= 0 else -1)
        names = list(dict.fromkeys(columns))
        table = take(self._reader, numbers + first, names)
        return table.add_column(0, ROW, pa.array(numbers + first)), more

    def _index(self, below: int) -> tuple[int, RangeIndex]:
        """The index over rows below a number, and the number its first row has."""
        name = (self._reader.identity, self._keys)
        with _lock:
            first, index = _indices.pop(name, (self._reader.first_row(), RangeIndex(len(self._keys))))
            while first + index.rows < below:
                begin = first + index.rows
                rows = self._reader.read(begin, min(begin + _BLOCK, below), list(self._keys))
                index.extend(key_matrix(rows, self._keys))
            _indices[name] = (first, index)
            while len(_indices) > _KEPT_INDICES:
                _indices.popitem(last=False)
        return first, index
