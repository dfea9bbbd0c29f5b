"""Windowed rows: the rows inside each window themselves, in the order asked for.

As answers (windowed input and output, mode 4 of L. Golab, S. Garg and M. T. Özsu, 2003, §4.1) every
window is written out in full. As changes, a row is told once when it comes into the window and once
when it leaves it, which costs what is new, not what is old.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.kernels.values import integers, one_array
from anabranch.operators.base import MIN_TIME, Floor, Inputs, Keeps, LogReader, Offset, Offsets, Task
from anabranch.operators.columns import Bound, bind, columns_of, project
from anabranch.operators.live import Live
from anabranch.operators.windows.explain import explain_delay, measure
from anabranch.operators.windows.newest import newest_window
from anabranch.operators.windows.ordering import ranks
from anabranch.operators.windows.program import WINDOW_END, WINDOW_START, kept_rows
from anabranch.operators.windows.ring import WindowRing
from anabranch.operators.windows.windowed import WindowedOperator, window_due
from anabranch.schema import TIME_TYPE
from anabranch.windows.panes.axis import window_starts

CHANGE = "_change"
INSERT, DELETE = "insert", "delete"
_ROWS_PER_BATCH = 1 << 17
_ROWS_PER_READ = 1 << 19

live_rings: Live[WindowRing] = Live()


@dataclass(frozen=True)
class WindowRows(WindowedOperator):
    """Rows of `stream` per window.

    `columns` are (name, SQL over the stream's columns, window_start and window_end). If `time` is
    not among them it is added as the last column: the window's end, or for windows of rows the time
    of the window's last row. `order` are (SQL, descending, nulls first); rows that are equal in it
    stay in the order they came. With `changes` a column `_change` says what happened to a row.
    """

    kind: ClassVar[str] = "window_rows"
    why_store: ClassVar[str] = "the newest window"

    stream: str
    unit: Literal["time", "rows"]
    size: int
    slide: int
    columns: tuple[tuple[str, str], ...]
    time: str
    filter: str | None = None
    order: tuple[tuple[str, bool, bool], ...] = ()
    limit: int | None = None
    changes: bool = False
    index: str | None = None
    storage: str | None = None
    ring: str | None = None

    @property
    def ordered_by_ring(self) -> bool:
        """True if the order is read from a ring index: to find the first few rows, or because the query says so."""
        asked = self.limit is not None or self.index is not None or self.ring is not None
        return bool(self.order) and not self.changes and asked

    def canonical(self) -> WindowRows:
        from anabranch.operators.canonical import conjunction, numbered

        columns, time = numbered(self.columns, self.time)
        return replace(self, columns=columns, time=time, filter=conjunction(self.filter))

    def schema(self, inputs: Inputs) -> pa.Schema:
        return self._program(inputs).schema

    def plan(self, start: Offsets, end: Offsets, inputs: Inputs, parallelism: int) -> list[Task]:
        low, high = start[self.stream], end[self.stream]
        if low.row >= high.row and (self.unit == "rows" or high.time <= low.time):
            return []
        return [Task({self.stream: low}, {self.stream: high})]

    def run(self, task: Task, inputs: Inputs) -> Iterator[pa.RecordBatch]:
        start, end = task.start[self.stream], task.end[self.stream]
        if self.unit == "time" and start.time == MIN_TIME and end.row <= start.row:
            return
        run = _Run(self, self._program(inputs), inputs, start, end)
        if self.changes:
            tables = run.changes()
        elif self.ordered_by_ring:
            tables = run.answers_by_ring(end.every)
        else:
            tables = run.answers(end.every)
        for table in tables:
            yield from table.to_batches(max_chunksize=_ROWS_PER_BATCH)

    def _program(self, inputs: Inputs) -> _Program:
        reader = inputs.readers[self.stream]
        return _bound(self, reader.schema, reader.time_column)

    # -- what it has reached, needs and keeps ------------------------------------------------------

    def first_axis(self, begin: int) -> int:
        """Where the rows begin that an answer after `begin` may hold, or tell the end of."""
        return self.panes.next_end(begin) - self.size - (self.slide if self.changes else 0)

    def due(self, at: Offsets, inputs: Inputs) -> dict[str, int]:
        return window_due(self, at, inputs, self.size + (self.slide if self.changes else 0))

    def needs(self, at: Offsets) -> dict[str, Floor]:
        offset = at[self.stream]
        if self.unit == "rows":
            return {self.stream: Floor(row=min(max(self.first_axis(offset.row), 0), offset.row))}
        if offset.time == MIN_TIME:
            return {self.stream: Floor(row=offset.row, time=MIN_TIME)}
        return {self.stream: Floor(row=offset.row, time=self.first_axis(offset.time))}

    def keeps(self) -> Keeps | None:
        if not self.ordered_by_ring:
            return None
        return Keeps("a ring index of the window's rows, in memory", f"the rows of {measure(self.unit, self.size)}")

    def _explain_index(self) -> dict[str, Any]:
        if self.ordered_by_ring:
            hinted = self.index is not None or self.ring is not None
            why = "the hint says so" if hinted else "the first rows in order are found without looking at the others"
            return {"storage": "LIST", "index": self.index or "T", "ring": self.ring or "DB", "why": why}
        if self.changes:
            return {"storage": "LIST", "index": None, "why": "rows come and go in the order of time"}
        return {
            "storage": "LIST",
            "index": None,
            "why": "every window is written out, sorting it costs less",
        }

    def store(self, at: Offsets, inputs: Inputs) -> pa.Table | None:
        """What the changes have led to, where it answers with changes."""
        if not self.changes:
            return None
        rows = replace(self, changes=False)
        return newest_window(rows, at, inputs) if at else rows.schema(inputs).empty_table()

    def explain(self, inputs: Inputs | None = None) -> dict[str, Any]:
        keeps = self.keeps()
        return {
            "operator": self.kind,
            "inputs": list(self.inputs),
            "window": {"size": measure(self.unit, self.size), "slide": measure(self.unit, self.slide)},
            "filter": self.filter,
            "columns": dict(self.columns),
            "order": [f"{sql}{' DESC' if down else ''}" for sql, down, _ in self.order],
            "limit": self.limit,
            "answers": "changes" if self.changes else "every window in full",
            "time": self.time,
            "mode": "4: windows in, windows out" if not self.changes else "2: windows in, changes out",
            "class": "needs the rows of the window",
            **self._explain_index(),
            **explain_delay(self.unit, self.slide, self.inputs, inputs),
            "keeps": None if keeps is None else {"what": keeps.what, "bound": keeps.bound},
        }


@dataclass(frozen=True)
class _Program:
    """Windowed rows bound to the columns of their stream."""

    time_column: str
    reads: list[str]
    where: Bound | None
    order: tuple[tuple[Bound, bool, bool], ...]
    columns: tuple[Bound, ...]
    schema: pa.Schema
    adds_time: bool
    tells_window: bool
    """Whether a column besides the time says which window a row is told of: then it is another row in each."""


@functools.lru_cache(maxsize=256)
def _bound(operator: WindowRows, source: pa.Schema, time_column: str) -> _Program:
    axis = pa.int64() if operator.unit == "rows" else TIME_TYPE
    inner = source
    for name in (WINDOW_START, WINDOW_END):
        if name not in source.names:
            inner = inner.append(pa.field(name, axis))
    columns = tuple(bind(sql, inner) for _, sql in operator.columns)
    where = None if operator.filter is None else bind(operator.filter, source)
    order = tuple((bind(sql, source), down, nulls) for sql, down, nulls in operator.order)
    fields = [(name, column.type) for (name, _), column in zip(operator.columns, columns, strict=True)]
    adds_time = operator.time not in dict(operator.columns)
    if adds_time:
        fields.append((operator.time, TIME_TYPE))
    if operator.changes:
        fields.append((CHANGE, pa.string()))
    used = [*columns, *(value for value, _, _ in order), *([where] if where else [])]
    compared = [column for (name, _), column in zip(operator.columns, columns, strict=True) if name != operator.time]
    compared_names = {name for column in compared for name in column.columns}
    tells_window = bool({WINDOW_START, WINDOW_END} - {*source.names} & compared_names)
    reads = columns_of(used, source, time_column)
    return _Program(time_column, reads, where, order, columns, pa.schema(fields), adds_time, tells_window)


class _Run:
    """One task: the rows it may need are read once, windows are slices of them."""

    def __init__(self, operator: WindowRows, program: _Program, inputs: Inputs, start: Offset, end: Offset) -> None:
        self._operator, self._program = operator, program
        self._by_rows = operator.unit == "rows"
        self._reader: LogReader = inputs.readers[operator.stream]
        self._work = inputs.work
        self._scratch = inputs.scratch
        self._start, self._end = start, end
        self._begin = self._first_axis()
        self._reached = max(self._begin, end.row if self._by_rows else end.time)

    def _first_axis(self) -> int:
        if self._by_rows:
            return self._start.row
        if self._start.time != MIN_TIME:
            return self._start.time
        return int(self._times(self._start.row, self._start.row + 1)[0])

    def _times(self, low: int, high: int) -> NDArray[np.int64]:
        return integers(self._reader.read(low, high, [self._program.time_column]).column(0))

    # -- rows ------------------------------------------------------------------------------------------

    def _rows(self) -> tuple[pa.Table, NDArray[np.int64]]:
        """The rows that windows or changes of this task may need, and where they are on the axis."""
        low = self._row_at(self._operator.first_axis(self._begin), self._end.row)
        table, axis, _ = self._block(low, self._end.row)
        return table, axis

    def _row_at(self, axis: int, end: int) -> int:
        """The first row below `end` at or after a point of the axis."""
        if self._by_rows:
            return min(max(axis, self._reader.first_row()), end)
        return self._reader.row_at_time(axis, end)

    def _block(self, low: int, high: int) -> tuple[pa.Table, NDArray[np.int64], NDArray[np.int64]]:
        """The rows low ≤ n < high that WHERE lets through, where they are on the axis, and their numbers."""
        table = self._reader.read(low, high, self._program.reads)
        self._work.rows_read += table.num_rows
        self._work.bytes_read += table.nbytes
        numbers = np.arange(low, low + table.num_rows)
        if self._program.where is not None:
            keep = kept_rows(self._program.where, table)
            self._work.rows_thrown += int(np.count_nonzero(~keep[max(self._start.row - low, 0) :]))
            table, numbers = table.filter(pa.array(keep)), numbers[keep]
        return table, numbers if self._by_rows else integers(table.column(self._time)), numbers

    @property
    def _time(self) -> str:
        return self._program.time_column

    def _sorted(self, table: pa.Table) -> NDArray[np.int64]:
        """All rows in the order asked for, those that are equal in it as they came."""
        keys = [ranks(value.evaluate(table), down, nulls) for value, down, nulls in reversed(self._program.order)]
        return np.lexsort(keys) if keys else np.arange(table.num_rows)

    # -- answers ---------------------------------------------------------------------------------------

    def answers(self, every: int) -> Iterator[pa.Table]:
        """Every window in full."""
        operator = self._operator
        if operator.panes.next_end(self._begin) > self._reached:
            return
        table, axis = self._rows()
        panes = np.unique(axis // operator.panes.length)
        ends = operator.panes.ends(self._begin, self._reached, panes, None) * operator.panes.length
        ends = ends[ends % (operator.slide * every) == 0]
        order = self._sorted(table)
        stamps = self._stamps(ends)
        lows, highs = np.searchsorted(axis, ends - operator.size), np.searchsorted(axis, ends)
        for end, stamp, low, high in zip(*(a.tolist() for a in (ends, stamps, lows, highs)), strict=True):
            if operator.order:
                chosen = order[(order >= low) & (order < high)]
            else:
                chosen = np.arange(low, high)
            chosen = chosen[: operator.limit]
            count = len(chosen)
            yield self._project(table.take(pa.array(chosen)), np.full(count, end), np.full(count, stamp), None)

    def changes(self) -> Iterator[pa.Table]:
        """Rows as they come into the window and leave it; at each end first those that leave."""
        operator = self._operator
        slide, size = operator.slide, operator.size
        if self._program.tells_window:
            yield from self._changes_of_all()
            return
        if operator.limit is not None:
            yield from self._limited_changes()
            return
        if operator.panes.next_end(self._begin) > self._reached:
            return
        table, axis = self._rows()
        rank = np.empty(table.num_rows, np.int64)
        rank[self._sorted(table)] = np.arange(table.num_rows)
        comes = (axis // slide + 1) * slide
        leaves = ((axis + size) // slide + 1) * slide
        held = operator.panes.used(axis // operator.panes.length)
        first = operator.panes.next_end(self._begin)
        new = np.flatnonzero(held & (comes >= first) & (comes <= self._reached))
        gone = np.flatnonzero(held & (leaves >= first) & (leaves <= self._reached))
        rows, ends = np.concatenate([gone, new]), np.concatenate([leaves[gone], comes[new]])
        inserted = np.arange(len(rows)) >= len(gone)
        sequence = np.lexsort((rank[rows], inserted, ends))
        rows, ends, inserted = rows[sequence], ends[sequence], inserted[sequence]
        for low in range(0, len(rows), _ROWS_PER_BATCH):
            part = slice(low, low + _ROWS_PER_BATCH)
            yield self._project(table.take(pa.array(rows[part])), ends[part], self._stamps(ends[part]), inserted[part])

    def _limited_changes(self) -> Iterator[pa.Table]:
        """With LIMIT a row may come and go while it is in the window: windows are compared."""
        operator = self._operator
        before = operator.panes.next_end(self._begin) - operator.slide
        if before + operator.slide > self._reached:
            return
        table, axis = self._rows()
        order = self._sorted(table)
        near = np.concatenate([(axis // operator.slide + 1) * operator.slide, self._leaving(axis)])
        ends = np.unique(near[(near > before) & (near <= self._reached)])
        shown = self._first_rows(order, axis, before)
        for end in ends.tolist():
            # Between the ends at which rows come or go the answer stays as it is.
            now = self._first_rows(order, axis, end)
            gone, new = shown[~np.isin(shown, now)], now[~np.isin(now, shown)]
            shown = now
            rows = np.concatenate([gone, new])
            if len(rows):
                at = np.full(len(rows), end)
                inserted = np.arange(len(rows)) >= len(gone)
                yield self._project(table.take(pa.array(rows)), at, self._stamps(at), inserted)

    def _changes_of_all(self) -> Iterator[pa.Table]:
        """Where rows tell their window none stays as it is: the answer before goes, and this one comes."""
        operator = self._operator
        before = operator.panes.next_end(self._begin) - operator.slide
        if before + operator.slide > self._reached:
            return
        table, axis = self._rows()
        order = self._sorted(table)
        panes = np.unique(axis // operator.panes.length)
        held = operator.panes.ends(before - 1, self._reached, panes, None) * operator.panes.length
        ends = np.union1d(held, held + operator.slide)
        for end in ends[(ends > before) & (ends <= self._reached)].tolist():
            for told_of, inserted in ((end - operator.slide, False), (end, True)):
                rows = self._first_rows(order, axis, told_of)
                if count := len(rows):
                    stamps = self._stamps(np.full(count, end))
                    yield self._project(
                        table.take(pa.array(rows)), np.full(count, told_of), stamps, np.full(count, inserted)
                    )

    def answers_by_ring(self, every: int) -> Iterator[pa.Table]:
        """Every window in full, or its first rows, as a ring index finds them."""
        operator, program = self._operator, self._program
        ring, name = self._live_ring()
        panes: set[int] = set()
        for low in range(ring.next_row, self._end.row, _ROWS_PER_READ):
            table, axis, numbers = self._block(low, min(low + _ROWS_PER_READ, self._end.row))
            key = program.order[0][0].evaluate(table)
            ring.take(axis, numbers, key, min(low + _ROWS_PER_READ, self._end.row))
            panes.update(np.unique(axis // operator.panes.length).tolist())
            del table
        held = np.union1d(np.array(sorted(panes), np.int64), ring.panes())
        ends = operator.panes.ends(self._begin, self._reached, held, None) * operator.panes.length
        ends = ends[ends % (operator.slide * every) == 0]
        for end, stamp in zip(ends.tolist(), self._stamps(ends).tolist(), strict=True):
            ring.reach(end)
            rows = ring.first(operator.limit)
            if len(rows) == 0:
                continue
            table = self._reader.read(int(rows[0]), int(rows[-1]) + 1, program.reads)
            table = table.take(pa.array(rows - rows[0]))
            table = table.take(pa.array(self._sorted(table)[: operator.limit]))
            count = table.num_rows
            yield self._project(table, np.full(count, end), np.full(count, stamp), None)
        ring.reach(self._reached)
        if name is not None:
            self._work.keeps(ring.rows, ring.nbytes)
            live_rings.put(name, ring)

    def _live_ring(self) -> tuple[WindowRing, str | None]:
        """The ring of the window that is open at the start, or a new one."""
        operator = self._operator
        first = self._row_at(operator.first_axis(self._begin), self._start.row)
        name = None if self._scratch is None else f"{self._scratch}\n{operator!r}"
        ring = None if name is None else live_rings.take(name)
        if ring is None or ring.reached > self._begin or not first <= ring.next_row <= self._start.row:
            value, down, nulls_first = self._program.order[0]
            index, kind = operator.index or "T", (operator.ring or "DB").replace("PLAIN", "plain")
            ring = WindowRing(operator.panes, value.type, down, nulls_first, index, kind)
            ring.next_row = first
        return ring, name

    def _leaving(self, axis: NDArray[np.int64]) -> NDArray[np.int64]:
        return ((axis + self._operator.size) // self._operator.slide + 1) * self._operator.slide

    def _first_rows(self, order: NDArray[np.int64], axis: NDArray[np.int64], end: int) -> NDArray[np.int64]:
        low, high = np.searchsorted(axis, end - self._operator.size), np.searchsorted(axis, end)
        return order[(order >= low) & (order < high)][: self._operator.limit]

    def _stamps(self, ends: NDArray[np.int64]) -> NDArray[np.int64]:
        """The time of the answer for each window end."""
        if not self._by_rows or len(ends) == 0:
            return ends
        first = int(ends[0]) - 1
        return self._times(first, int(ends[-1]))[ends - 1 - first]

    def _project(
        self,
        table: pa.Table,
        ends: NDArray[np.int64],
        stamps: NDArray[np.int64],
        inserted: NDArray[np.bool_] | None,
    ) -> pa.Table:
        program, operator = self._program, self._operator
        axis = pa.int64() if self._by_rows else TIME_TYPE
        starts = window_starts(ends, operator.size, self._by_rows)
        for name, values in ((WINDOW_START, starts), (WINDOW_END, ends)):
            if name not in table.column_names:
                table = table.append_column(name, pa.array(values, pa.int64()).view(axis))
        plain = pa.schema(list(program.schema)[: len(program.columns)])
        answer = project(table, program.columns, plain)
        times = pa.array(stamps, pa.int64()).view(TIME_TYPE)
        if program.adds_time:
            answer = answer.append_column(operator.time, times)
        elif inserted is not None:  # the time of a change is that of the window it comes with
            answer = answer.set_column(answer.column_names.index(operator.time), operator.time, times)
        if inserted is not None:
            words = pa.array([DELETE, INSERT]).take(pa.array(inserted.astype(np.int8)))
            answer = answer.append_column(CHANGE, words)
        return pa.Table.from_arrays([one_array(c) for c in answer.columns], schema=program.schema)
