"""Which basic window each tuple belongs to, and which basic windows are complete.

L. Golab, S. Garg and M. T. Özsu, "On Indexing Sliding Windows over On-line Data Streams" (2003), §1.1 and 3.3.

Basic windows are numbered: k holds the tuples number k·b ≤ n < (k + 1)·b of a count-based window, or those with a
time k·b ≤ t < (k + 1)·b, in µs from 1970. How the stream is divided into batches makes no difference.
"""

from __future__ import annotations

import datetime
from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from anabranch.windows.basic.values import Codes

Rows = NDArray[np.int64]


class Pieces(NamedTuple):
    """A batch cut into basic windows."""

    rows: Rows | None
    """The rows of the batch that are kept, basic window by basic window; None: all, as they come."""
    numbers: list[int]
    """The basic windows that get rows, ascending."""
    bounds: list[int]
    """numbers[i] gets rows[bounds[i] : bounds[i + 1]]."""
    times: list[int | None]
    """The oldest time of each piece."""


class Cutter(ABC):
    """What has come so far, as far as it matters for cutting."""

    def __init__(self, length: int) -> None:
        self.length = length
        self.complete = 0
        """Basic windows below this number are complete."""
        self.began: int | None = None
        """What `complete` was when the first tuple or heartbeat came."""
        self.late = 0
        """Tuples refused because their basic window was complete."""

    @abstractmethod
    def cut(self, size: int, valid: NDArray[np.bool_] | None, times: Codes | None) -> Pieces:
        """Cut a batch of `size` tuples; those not valid (NULL) are left out."""

    def advance(self, time: int) -> None:
        """No more tuples before this time, less the delay, will come."""
        raise ValueError("only windows over time have a clock to advance")


class RowCutter(Cutter):
    """Count-based: every `length` tuples, NULL or not, are a basic window."""

    def __init__(self, length: int) -> None:
        super().__init__(length)
        self.began = 0
        self._rows = 0

    def cut(self, size: int, valid: NDArray[np.bool_] | None, times: Codes | None) -> Pieces:
        first, self._rows = self._rows, self._rows + size
        self.complete = self._rows // self.length
        if size == 0:
            return Pieces(None, [], [0], [])
        numbers = range(first // self.length, (self._rows - 1) // self.length + 1)
        bounds = [0, *(k * self.length - first for k in numbers[1:]), size]
        firsts: list[int | None] = [None] * len(numbers) if times is None else times[bounds[:-1]].tolist()
        if valid is None:
            return Pieces(None, list(numbers), bounds, firsts)
        rows = np.flatnonzero(valid)
        return Pieces(rows, list(numbers), np.searchsorted(rows, bounds).tolist(), firsts)


class TimeCutter(Cutter):
    """Time-based: a basic window is complete `delay` after its end, by the latest time seen.

    Until then tuples may come for it in any order; afterwards they are late.
    """

    def __init__(self, length: int, delay: int = 0) -> None:
        super().__init__(length)
        self._delay = delay
        self._latest: int | None = None

    def advance(self, time: int) -> None:
        self._begin(time)
        assert self._latest is not None
        self._latest = max(self._latest, time)
        self.complete = (self._latest - self._delay) // self.length

    def cut(self, size: int, valid: NDArray[np.bool_] | None, times: Codes | None) -> Pieces:
        if times is None:
            raise ValueError("a window over time needs the times of the tuples")
        if size == 0:
            return Pieces(None, [], [0], [])
        self._begin(int(times[0]))
        assert self._latest is not None
        numbers = times // self.length
        keep = valid
        in_order = int(times[0]) >= self._latest and bool((times[1:] >= times[:-1]).all())
        if in_order:
            self._latest = int(times[-1])
        else:
            latest = np.maximum.accumulate(np.maximum(times, self._latest))
            late = numbers < (latest - self._delay) // self.length
            self.late += int(late.sum())
            self._latest = int(latest[-1])
            keep = ~late if keep is None else keep & ~late
        self.complete = (self._latest - self._delay) // self.length
        rows = None if keep is None or keep.all() else np.flatnonzero(keep)
        if not in_order:
            rows = np.arange(size) if rows is None else rows
            rows = rows[np.argsort(numbers[rows], kind="stable")]
        if rows is not None:
            numbers, times = numbers[rows], times[rows]
        if not len(numbers):
            return Pieces(rows, [], [0], [])
        firsts = np.append(0, np.flatnonzero(numbers[1:] != numbers[:-1]) + 1)
        oldest = times[firsts] if in_order else np.minimum.reduceat(times, firsts)
        return Pieces(rows, numbers[firsts].tolist(), [*firsts.tolist(), len(numbers)], oldest.tolist())

    def _begin(self, time: int) -> None:
        """The window begins where the first tuple or heartbeat leaves it."""
        if self._latest is None:
            self._latest = time
            self.began = self.complete = (time - self._delay) // self.length


def make_cutter(
    size: int | datetime.timedelta, basic_windows: int, unit: str, delay: int | datetime.timedelta = 0
) -> Cutter:
    """What cuts a stream for a window of this size."""
    whole = _microseconds(size)
    if basic_windows < 1 or whole < 1 or whole % basic_windows:
        raise ValueError(f"a window of {size} cannot be divided into {basic_windows} equal basic windows")
    if unit == "time":
        return TimeCutter(whole // basic_windows, _microseconds(delay))
    if unit != "rows":
        raise ValueError(f"unit is 'rows' or 'time', not {unit!r}")
    if delay:
        raise ValueError("a window of rows takes them in order of arrival: it has no delay")
    return RowCutter(whole // basic_windows)


def _microseconds(size: int | datetime.timedelta) -> int:
    """A length of time in µs."""
    return size // datetime.timedelta(microseconds=1) if isinstance(size, datetime.timedelta) else size
