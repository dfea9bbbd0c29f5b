"""How much of history the next micro-batch reads: what the query's reducer says, told how things stand.

The decision is made once, before the micro-batch, and stands in its end offset (`Offset.keep`), so the
micro-batch reads the same rows when it is run again.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

from anabranch.archive.reducers import Seen, keep_of, reducer_of
from anabranch.log.offset import End
from anabranch.operators.base import Operator


class _Came(NamedTuple):
    """Live rows that came between two looks."""

    first: int
    end: int
    since: float
    at: float

    def when(self, row: int) -> float:
        """About when a row came: nobody looks while a micro-batch runs, and they are taken to have come evenly."""
        return self.since + (self.at - self.since) * (row - self.first + 1) / (self.end - self.first + 1)


class Reducing:
    """The reducer of a standing query, if it has one, with what it is told."""

    def __init__(self, operator: Operator) -> None:
        spec = operator.reduction()
        self._reducer = None if spec is None else reducer_of(spec)
        self._live_from = operator.history_end()
        self._looked: tuple[int, float] | None = None
        self._came: list[_Came] = []
        self._disk = _DiskWait()
        self._rows_read = 0

    @property
    def wanted(self) -> bool:
        return self._reducer is not None

    def look(self, end: End) -> None:
        """Remember when rows came."""
        now = time.monotonic()
        row, since = self._looked or (0, now)
        if end.row > row:
            self._came.append(_Came(row, end.row, since, now))
        self._looked = (end.row, now)

    def lag(self, begin: End) -> float:
        """For how many seconds the oldest live row that is not taken in yet has been waiting."""
        oldest = max(begin.row, self._live_from)
        while self._came and self._came[0].end <= oldest:
            self._came.pop(0)
        return time.monotonic() - self._came[0].when(max(oldest, self._came[0].first)) if self._came else 0.0

    def keep(self, begin: End, end: End) -> float:
        """The fraction of history that the micro-batch from `begin` to `end` reads."""
        if self._reducer is None:
            return 1.0
        seen = Seen(
            time_first=begin.time,
            time_last=end.time,
            newest=end.time,
            rows_read=self._rows_read,
            lag=self.lag(begin),
            disk_wait=self._disk.share(),
        )
        keep = keep_of(self._reducer, seen)
        self._rows_read += int((end.row - begin.row) * keep)
        return keep

    def most(self, begin: End, rows: int, keep: float) -> int:
        """How many rows a micro-batch takes in: more of history where it reads less of it."""
        history = self._live_from - begin.row
        return rows if history <= 0 or keep <= 0 else min(max(int(rows / max(keep, 0.001)), rows), max(history, rows))


class _DiskWait:
    """The share of the processors' time that went into waiting for the disk since the last look."""

    def __init__(self) -> None:
        self._before: Any = None

    def share(self) -> float:
        import psutil  # only where somebody reduces

        now: Any = psutil.cpu_times()
        if self._before is None:
            self._before = now
            return 0.0
        waited = getattr(now, "iowait", 0.0) - getattr(self._before, "iowait", 0.0)
        passed = sum(now) - sum(self._before)
        if passed < 0.1:
            return 0.0
        self._before = now
        return min(max(float(waited / passed), 0.0), 1.0)
