"""Windowed aggregate: GROUP BY over sliding or tumbling windows of one stream, in time or in rows.

Rows are folded once, into panes; windows are combined from panes (`windows.panes.axis`). A time window
[e - size, e) is answered once, when no row older than e can come; a window of rows when row e - 1
is there. Rows come out ordered by (e, group keys), and only for windows and groups that hold rows.

The answer is the same to the last bit however the stream was cut into batches and tasks: a pane
is folded in row order, a window combined in an order given by the numbers of its panes.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import pyarrow as pa

from anabranch.operators.base import MIN_TIME, Floor, Inputs, Keeps, LogReader, Offset, Offsets, Task, Work
from anabranch.operators.windows.explain import explain_delay, explain_values, is_of_values, measure
from anabranch.operators.windows.program import ROW_TIME, Grouping, WindowProgram, bind_program, gather
from anabranch.operators.windows.run import Asked, WindowRun, WindowShare
from anabranch.operators.windows.values import Hints
from anabranch.operators.windows.windowed import WindowedOperator

ROWS_PER_TASK = 500_000
"""A batch is cut into tasks only if each gets about this many rows."""


@dataclass(frozen=True)
class WindowAggregate(WindowedOperator):
    """Aggregates of `stream` per window and group.

    `size` and `slide` are microseconds or rows; `keys` are (name, SQL), `aggregates` are (name,
    function, SQL of the argument or None), `columns` are the answer's (name, SQL over the names of
    keys and aggregates, window_start, window_end and _time). `filter` is WHERE, `having` HAVING.
    """

    kind: ClassVar[str] = "window_aggregate"
    why_store: ClassVar[str] = "the newest window"

    stream: str
    unit: Literal["time", "rows"]
    size: int
    slide: int
    keys: tuple[tuple[str, str], ...]
    aggregates: tuple[tuple[str, str, str | None], ...]
    columns: tuple[tuple[str, str], ...]
    time: str
    filter: str | None = None
    having: str | None = None
    order: tuple[tuple[str, bool, bool], ...] = ()
    limit: int | None = None
    index: str | None = None
    storage: str | None = None

    def condition(self) -> tuple[str | None, str]:
        return self.filter, self.stream

    def canonical(self) -> WindowAggregate:
        from anabranch.operators.canonical import conjunction, numbered

        columns, time = numbered(self.columns, self.time)
        return replace(self, columns=columns, time=time, filter=conjunction(self.filter))

    def schema(self, inputs: Inputs) -> pa.Schema:
        return self._program(inputs).schema

    # -- plan --------------------------------------------------------------------------------------

    def plan(self, start: Offsets, end: Offsets, inputs: Inputs, parallelism: int) -> list[Task]:
        low, high = start[self.stream], end[self.stream]
        if low.row >= high.row and not self._may_close(low, high, inputs.readers[self.stream]):
            return []
        cuts = [low, *self._cuts(low, high, inputs.readers[self.stream], parallelism), high]
        last = len(cuts) - 2
        if last == 0 and inputs.gathers and self.keys:
            parts = max(1, min(parallelism, (high.row - low.row) // ROWS_PER_TASK))
            return [Task({self.stream: low}, {self.stream: high}, {"part": i, "parts": parts}) for i in range(parts)]
        return [
            Task({self.stream: a}, {self.stream: b}, {"last": i == last})
            for i, (a, b) in enumerate(itertools.pairwise(cuts))
        ]

    def _may_close(self, low: Offset, high: Offset, reader: LogReader) -> bool:
        """Whether time alone, without new rows, completes a window that holds rows."""
        if self.unit == "rows" or low.time == MIN_TIME or high.time < self.panes.next_end(low.time):
            return False
        oldest = self.panes.first_needed(low.time) * self.panes.length
        return reader.row_at_time(oldest, low.row) < low.row

    def _cuts(self, low: Offset, high: Offset, reader: LogReader, parallelism: int) -> list[Offset]:
        """Offsets inside the batch, on the end of a window and at least a window apart.

        Each task is then a batch of its own. What it needs of the panes before its start it
        computes again, which is less than its own work; tumbling windows need nothing. Where
        windows are longer, groups are shared out among the tasks instead.
        """
        rows = high.row - low.row
        count = min(parallelism, rows // ROWS_PER_TASK)
        cuts: list[Offset] = []
        previous = None
        for i in range(1, count):
            row = low.row + rows * i // count
            if self.unit == "rows":
                axis = row // self.slide * self.slide
                cut = Offset(axis, low.time, high.every)
                previous = low.row if previous is None else previous
            else:
                axis = _time_of(reader, row) // self.slide * self.slide
                cut = Offset(reader.row_at_time(axis, high.row), axis, high.every)
                previous = _time_of(reader, low.row) if previous is None else previous
            before = cuts[-1] if cuts else low
            if axis - previous >= self.size and before.row < cut.row < high.row and cut.time >= before.time:
                cuts.append(cut)
                previous = axis
        return cuts

    # -- run ---------------------------------------------------------------------------------------

    def run(self, task: Task, inputs: Inputs) -> Iterator[pa.RecordBatch]:
        start, end, detail = task.start[self.stream], task.end[self.stream], task.detail
        share = WindowShare(end.every, detail.get("part", 0), detail.get("parts", 1), Hints(self.storage, self.index))
        run = WindowRun([Asked(self.panes, self._program(inputs))], inputs, start, end, share)
        yield from run.batches(keep=detail.get("last", True))

    def gather(self, answers: pa.Table, work: Work | None = None) -> pa.Table:
        return gather(answers, self.order, self.limit)

    def _program(self, inputs: Inputs) -> WindowProgram:
        reader = inputs.readers[self.stream]
        return _kept(self, reader.schema, reader.time_column)

    def program(self, source: pa.Schema, time_column: str) -> WindowProgram:
        """What it does, bound to the columns of its stream."""
        columns = self.columns
        if self.time == ROW_TIME and ROW_TIME not in dict(columns):
            columns = (*columns, (ROW_TIME, ROW_TIME))
        return bind_program(
            Grouping(
                keys=self.keys,
                aggregates=self.aggregates,
                columns=columns,
                where=self.filter,
                having=self.having,
                order=self.order,
                limit=self.limit,
            ),
            source=source,
            stream=self.stream,
            time_column=time_column,
            by_rows=self.unit == "rows",
            identity=repr(self),
        )

    # -- what it has reached, needs and keeps ------------------------------------------------------

    def needs(self, at: Offsets) -> dict[str, Floor]:
        """The panes of every window that is not yet answered."""
        offset = at[self.stream]
        if self.unit == "rows":
            row = self.panes.first_needed(offset.row) * self.panes.length
            return {self.stream: Floor(row=min(max(row, 0), offset.row))}
        if offset.time == MIN_TIME:
            return {self.stream: Floor(row=offset.row, time=MIN_TIME)}
        time = self.panes.first_needed(offset.time) * self.panes.length
        return {self.stream: Floor(row=offset.row, time=time)}

    def keeps(self) -> Keeps | None:
        count, length = self.panes.per_window, measure(self.unit, self.panes.length)
        values = any(is_of_values(function) for _, function, _ in self.aggregates)
        return Keeps(
            what="partial aggregates per pane and group" + (", the window's values under an index" if values else ""),
            bound=f"{count} pane{'s' if count > 1 else ''} of {length}, and the one being filled",
        )

    def explain(self, inputs: Inputs | None = None) -> dict[str, Any]:
        keeps = self.keeps()
        told = {
            "operator": self.kind,
            "inputs": list(self.inputs),
            "window": {"size": measure(self.unit, self.size), "slide": measure(self.unit, self.slide)},
            "basic_window": measure(self.unit, self.panes.length),
            "filter": self.filter,
            "keys": dict(self.keys),
            "aggregates": {name: f"{function} of {sql or '*'}" for name, function, sql in self.aggregates},
            "having": self.having,
            "order": [f"{sql}{' DESC' if down else ''}" for sql, down, _ in self.order],
            "limit": self.limit,
            "columns": dict(self.columns),
            "time": self.time,
            "mode": "4: windows in, windows out",
        }
        program = None if inputs is None else self._program(inputs)
        told |= explain_values(self.aggregates, Hints(self.storage, self.index), program, self.panes, inputs)
        told |= explain_delay(self.unit, self.slide, self.inputs, inputs)
        return {**told, "keeps": None if keeps is None else {"what": keeps.what, "bound": keeps.bound}}


@functools.lru_cache(maxsize=256)
def _kept(operator: WindowAggregate, source: pa.Schema, time_column: str) -> WindowProgram:
    return operator.program(source, time_column)


def _time_of(reader: LogReader, row: int) -> int:
    time: int = reader.read(row, row + 1, [reader.time_column]).column(0)[0].value
    return time
