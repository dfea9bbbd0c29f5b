"""Periods: what a tree changes from one period of the streams' time to the next, however micro-batches were cut.

What is in a period are the rows that are older than its end, and the windows that are over by then. Periods in which
nothing comes or goes are passed over.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from anabranch.kernels.values import integers
from anabranch.operators.base import MIN_TIME, Inputs, Offsets, time_of_row
from anabranch.operators.tree.changes import Changes, together
from anabranch.operators.tree.entering import (
    Taken,
    at_time,
    from_parts,
    from_streams,
    least_stay,
    rows_streams,
    times_of_parts,
    window_by_window,
)
from anabranch.operators.tree.remembered import Memory


def whole_periods(every: int, at: Offsets) -> int:
    """The end of the last period that all streams have passed."""
    time = min(offset.time for offset in at.values())
    return time if time == MIN_TIME else time // every * every


@dataclass(frozen=True)
class Periods:
    """See the module; `every` is in µs."""

    nodes: str
    every: int

    def steps(self, memory: Memory, start: Offsets, end: Taken, inputs: Inputs) -> Iterator[tuple[Taken, Changes]]:
        """Up to the end of each period in which anything happens, what it changes."""
        if end.time == MIN_TIME:
            return
        parts, times_of = from_parts(self.nodes, memory.taken, end, inputs), times_of_parts(self.nodes)
        moments = {name: integers(changes.rows.column(times_of[name])) for name, changes in parts.items()}
        at = memory.taken
        while (time := self._next(at, end, moments, memory, inputs)) is not None and time <= end.time:
            until = Taken(at_time(time, end.streams, inputs), end.parts, time)
            came = from_streams(self.nodes, at, until, inputs)
            for name, changes in parts.items():
                there = (moments[name] > at.time) & (moments[name] <= time)
                if there.any():
                    came[name] = changes.filter(there)
            windows = window_by_window(came, times_of, time, least_stay(self.nodes))
            changed = [memory.flow.take(some, min(moment, time)) for moment, some in windows]
            yield until, together(changed, memory.flow.schema).consolidated()
            at = until

    def _next(
        self, at: Taken, end: Taken, moments: dict[str, np.ndarray], memory: Memory, inputs: Inputs
    ) -> int | None:
        """The end of the next period in which a row or window comes, or something goes."""
        known = [
            time_of_row(inputs.readers[name], at.streams[name].row) // self.every + 1
            for name in rows_streams(self.nodes)
            if at.streams[name].row < end.streams[name].row
        ]
        for times in moments.values():
            later = times[times > at.time]
            if len(later):
                known.append(-(-int(later.min()) // self.every))
        goes = memory.flow.due(at.time)
        if goes is not None:
            known.append(-(-goes // self.every))
        return min(known) * self.every if known else None
