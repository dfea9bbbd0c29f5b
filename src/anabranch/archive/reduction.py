"""What a reducer is: the code that says, again and again while a scan goes on, how much of it may be left out.

S. Chandrasekaran and M. Franklin, Remembrance of Streams Past (VLDB 2004), section 3: every scan of
history has such a function, which gives the fraction to drop, or the span of the windows to summarise.
"""

from __future__ import annotations

import datetime
import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from anabranch.errors import QueryError


@dataclass(frozen=True)
class Seen:
    """What a reducer is told before each piece is read. Times are microseconds since 1970."""

    time_first: int | None
    time_last: int | None
    """Between these times lies what is read next; None if that is not known."""
    newest: int
    """How far the stream has come."""
    rows_read: int = 0
    bytes_read: int = 0
    """By this scan so far."""
    lag: float = 0.0
    """Seconds that live rows have been waiting."""
    disk_wait: float = 0.0
    """The share of the time lately that was spent waiting for the disk, 0 to 1."""
    rows: pa.Table | None = None
    """What was just read, for reducers with `needs_rows`."""


class Reducer:
    """Base of all reducers, and of your own; see docs/reducers.md."""

    by: str | None = None
    """A column whose values are kept whole or not at all; None: rows are kept one by one."""
    needs_rows: ClassVar[bool] = False
    """True if `Seen.rows` should hold the rows that were just read."""
    stateless: ClassVar[bool] = False
    """True if the same `Seen` always gives the same answer, so that a scan may be planned at once."""

    def reduce(self, seen: Seen) -> float | datetime.timedelta:
        """The fraction of the next piece to drop, 0 to 1, or the span of the windows to summarise it by."""
        raise NotImplementedError(f"{type(self).__name__} has no reduce")


def checked_reduction(name: str, reduction: Any) -> float | datetime.timedelta:
    """What a reducer gave, if it is something a scan can follow."""
    if isinstance(reduction, datetime.timedelta):
        if reduction > datetime.timedelta(0):
            return reduction
        raise _unusable(name, f"the span {reduction}", "a span above zero")
    if isinstance(reduction, (int, float, np.number)) and not isinstance(reduction, bool):
        fraction = float(reduction)
        if math.isfinite(fraction) and 0 <= fraction <= 1:
            return fraction
        raise _unusable(name, str(reduction), "the fraction to drop, from 0 to 1")
    raise _unusable(name, repr(reduction), "the fraction to drop, from 0 to 1, or a datetime.timedelta")


def keep_of(reducer: Reducer, seen: Seen) -> float:
    """The fraction of the next piece to read, for scans that take samples.

    >>> class Half(Reducer):
    ...     def reduce(self, seen: Seen) -> float:
    ...         return 0.5
    >>> keep_of(Half(), Seen(None, None, newest=0))
    0.5
    """
    name = type(reducer).__name__
    reduction = checked_reduction(name, reducer.reduce(seen))
    if isinstance(reduction, datetime.timedelta):
        raise _unusable(name, f"the span {reduction}", "the fraction to drop: this read takes samples, not summaries")
    return 1.0 - reduction


def _unusable(name: str, got: str, wanted: str) -> QueryError:
    return QueryError(
        "REDUCER_FAILED", f'reducer "{name}" gave {got}, wanted {wanted}', hint="mend its reduce, or use another"
    )
