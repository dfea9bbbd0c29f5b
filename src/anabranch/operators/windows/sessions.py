"""Sessions: GROUP BY over windows that end with a pause, each group's by itself.

A session of a group is a run of its rows between which no pause is longer than the gap, as Spark's `session_window`
has it: a row exactly the gap after the one before belongs to it. It ends the gap after its last row, and is answered,
once, when the stream's time has passed that: then no row of it can come any more. Sessions are answered in the order
of their ends, then of their keys.

A micro-batch answers the sessions that end from its first time to before its last, whatever rows they are made of, so
the answer does not depend on how the stream is cut. What is kept are partial aggregates of sessions that are open, in a
file for each offset. They are state: a session may go on for as long as its group does not pause, and rows that it
began with may be gone long before it ends. A group that never pauses is one entry that grows in time, not in size.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from anabranch.errors import QueryError
from anabranch.operators.base import MIN_TIME, Inputs, Keeps, Offset, Offsets, Task
from anabranch.operators.windows.explain import explain_session_delay, measure
from anabranch.operators.windows.folding import ALL_GROUPS, Share
from anabranch.operators.windows.of_groups import OfGroups, bound
from anabranch.operators.windows.program import WindowProgram
from anabranch.operators.windows.session_run import SessionRun


@dataclass(frozen=True)
class SessionAggregate(OfGroups):
    """Aggregates of `stream` per group and session; a pause of more than `gap` (µs) ends one.

    `keys`, `aggregates`, `columns`, `filter` and `having` are those of `WindowAggregate`.
    """

    kind: ClassVar[str] = "session_aggregate"
    named_in_a_host: ClassVar[str] = "sessions"
    why_throw: ClassVar[str] = "rows that WHERE dropped"

    stream: str
    gap: int
    keys: tuple[tuple[str, str], ...]
    aggregates: tuple[tuple[str, str, str | None], ...]
    columns: tuple[tuple[str, str], ...]
    time: str
    filter: str | None = None
    having: str | None = None

    def __post_init__(self) -> None:
        if self.gap <= 0:
            raise QueryError("WINDOW_SIZE_INVALID", f"a pause of {self.gap} was asked for, it must be above 0")

    # -- plan and run ------------------------------------------------------------------------------

    def plan(self, start: Offsets, end: Offsets, inputs: Inputs, parallelism: int) -> list[Task]:
        low, high = start[self.stream], end[self.stream]
        if low.row >= high.row and not self._may_close(start, high.time, inputs):
            return []
        return self.tasks(start, end, inputs, parallelism)

    def _may_close(self, start: Offsets, time: int, inputs: Inputs) -> bool:
        """Whether time alone, without new rows, ends a session; or what is open is lost, which the task has to say."""
        low = start[self.stream]
        if low.time == MIN_TIME or time <= low.time:
            return False
        try:
            ends = self._run(low, low, inputs).ends()
        except QueryError:
            return True
        return bool((ends < time).any())

    def run(self, task: Task, inputs: Inputs) -> Iterator[pa.RecordBatch]:
        share = Share(task.detail["part"], task.detail["parts"])
        yield from self._run(task.start[self.stream], task.end[self.stream], inputs, share).batches()

    def _run(self, start: Offset, end: Offset, inputs: Inputs, share: Share = ALL_GROUPS) -> SessionRun:
        return SessionRun(self.program(inputs), repr(self), self.gap, inputs, start, end, share)

    def program(self, inputs: Inputs) -> WindowProgram:
        reader = inputs.readers[self.stream]
        return _bound(self, reader.schema, reader.time_column)

    # -- what it has reached, needs and keeps ------------------------------------------------------

    def due(self, at: Offsets, inputs: Inputs) -> dict[str, int]:
        """When the first of the open sessions is over, if no row comes: just after its end."""
        offset = at[self.stream]
        if offset.time == MIN_TIME:
            return {}
        try:
            ends = self._run(offset, offset, inputs).ends()
        except QueryError:  # the next micro-batch says so
            return {}
        return {self.stream: int(ends.min()) + 1} if len(ends) else {}

    def keeps(self) -> Keeps | None:
        return Keeps("partial aggregates of open sessions", "one entry per group that has not paused yet")

    def explain(self, inputs: Inputs | None = None) -> dict[str, Any]:
        ends = f"ends after a pause of {measure('time', self.gap)}"
        return self.explained({"session": ends}, explain_session_delay(self.gap, self.inputs, inputs))


@functools.lru_cache(maxsize=256)
def _bound(operator: SessionAggregate, source: pa.Schema, time_column: str) -> WindowProgram:
    return bound(operator, source, time_column, "sessions")
