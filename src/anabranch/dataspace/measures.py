"""What is known of a data set's columns, brought up to date as rows come: extents, and whether times are in order."""

from __future__ import annotations

import threading
from bisect import bisect_left
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from anabranch.dataspace.rows import Rows, wider
from anabranch.kernels.values import integers
from anabranch.log.offset import MIN_TIME

_STEP = 1 << 16


@dataclass
class _Extent:
    done: int = 0
    ends: tuple[float, float] | None = None


@dataclass
class _Times:
    """A time column: whether it never goes back and has no NULL, and the last time of each step."""

    done: int = 0
    newest: int = MIN_TIME
    in_order: bool = True
    bounds: list[int] = field(default_factory=list)
    lasts: list[int] = field(default_factory=list)


class Measures:
    """Extents of key columns and the order of time columns of some rows."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._extents: dict[str, _Extent] = {}
        self._times: dict[str, _Times] = {}
        self._mutex = threading.Lock()

    def extent(self, column: str, end: int) -> tuple[float, float] | None:
        """The least and greatest value among the rows below `end`, or among more of them."""
        with self._mutex:
            known = self._extents.setdefault(column, _Extent())
            start = max(known.done, self._rows.first())
            if end > start:
                known.ends = wider(known.ends, self._rows.extent(column, start, end))
                known.done = end
            return known.ends

    def in_order(self, column: str, end: int) -> bool:
        """Whether the times of the rows below `end` never go back."""
        return column == self._rows.time_column or self._measured(column, end).in_order

    def newest(self, column: str, end: int) -> int:
        """The time of row end - 1, in a column whose times are in order."""
        if end <= self._rows.first():
            return MIN_TIME
        return int(integers(self._rows.read(end - 1, end, [column]).column(0))[0])

    def row_at_time(self, column: str, time: int, end: int) -> int:
        """The first row below `end` at `time` or later, in a column whose times are in order; else `end`."""
        times = self._measured(column, end)
        at = bisect_left(times.lasts, time)
        if at == len(times.bounds):
            return end
        start = max(times.bounds[at - 1] if at else 0, self._rows.first())
        block = integers(self._rows.read(start, times.bounds[at], [column]).column(0))
        return min(start + int(np.searchsorted(block, time)), end)

    def _measured(self, column: str, end: int) -> _Times:
        with self._mutex:
            known = self._times.setdefault(column, _Times())
            start = max(known.done, self._rows.first())
            for values in self._rows.values(column, start, end) if known.in_order else ():
                self._take_in(known, values, max(known.done, start))
                if not known.in_order:
                    break
            return known

    @staticmethod
    def _take_in(known: _Times, values: pa.ChunkedArray, first: int) -> None:
        times = integers(values)
        known.in_order = not (values.null_count or times[0] < known.newest or (np.diff(times) < 0).any())
        for at in range(0, len(times), _STEP):
            upto = min(at + _STEP, len(times))
            known.bounds.append(first + upto)
            known.lasts.append(int(times[upto - 1]))
        known.newest, known.done = int(times[-1]), first + len(times)
