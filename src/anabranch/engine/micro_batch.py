"""Where a micro-batch ends: decided here for whatever runs it, and written down before it runs.

The rows there are, what the query has taken in, and its limits go in; an offset for each stream comes out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from anabranch.log.offset import End
from anabranch.operators.offset import Offset, Offsets, offsets_from_json
from anabranch.operators.pace import Pace

Ends = Mapping[str, End]
"""How far each stream has come."""


class Log(Protocol):
    """What is asked of a stream to cut it."""

    def offset_at(self, row: int, limit: End) -> End: ...

    def row_at_time(self, time: int, end: int) -> int: ...


@dataclass(frozen=True)
class Limits:
    """How much a micro-batch takes in.

    `rows`: at most so many of each stream (None: all there are). `together`: where one stream has more, the
    others go no further in time than it, so that rows that are joined meet in the same micro-batch.
    """

    rows: Mapping[str, int | None]
    pace: Pace = field(default_factory=Pace)
    together: bool = True


def end_of_batch(begin: Offsets, ends: Ends, logs: Mapping[str, Log], limits: Limits) -> dict[str, Offset]:
    """Where the micro-batch that starts at `begin` ends; a stream that has not moved stays where it was."""
    reached = {name: _limited(begin[name], ends[name], logs[name], limits.rows[name], limits.pace) for name in begin}
    return _aligned(begin, ends, reached, logs) if limits.together else reached


def end_as_before(begin: Offsets, ends: Iterable[Mapping[str, Any]]) -> dict[str, Offset] | None:
    """Where the micro-batch that starts at `begin` ended when it was run before; None where it was not.

    >>> end_as_before({"s": Offset(5)}, [{"s": [3, 0]}, {"s": [5, 0]}, {"s": [9, 0]}])["s"].row
    5
    """
    for saved in ends:
        end = offsets_from_json(saved)
        if any(end[name].place > offset.place or not offset.has_begun for name, offset in begin.items()):
            return end
    return None


def _limited(begin: Offset, end: End, log: Log, most: int | None, pace: Pace) -> Offset:
    waiting = end.row - begin.row
    if most is not None and waiting > most:
        end = log.offset_at(begin.row + most, end)
    row, time = max(begin.row, end.row), max(begin.time, end.time)
    if (row, time) == begin.place and begin.has_begun:
        return begin
    return Offset(row, time, pace.next(begin.every, waiting, most or waiting))


def _aligned(begin: Offsets, ends: Ends, reached: dict[str, Offset], logs: Mapping[str, Log]) -> dict[str, Offset]:
    """Where a stream was cut short, the others go no further in time than it; little has to be kept for later."""
    cut = [offset.time for name, offset in reached.items() if offset.row < ends[name].row]
    if len(reached) == 1 or not cut:
        return reached
    time, aligned = min(cut), dict(reached)
    for name, offset in reached.items():
        if offset.time > time and offset.row > begin[name].row:
            row = max(begin[name].row, logs[name].row_at_time(time + 1, offset.row))
            if row < offset.row:
                at = logs[name].offset_at(row, offset.place) if row > begin[name].row else begin[name].place
                aligned[name] = Offset(row, max(begin[name].time, at.time), offset.every)
    return aligned
