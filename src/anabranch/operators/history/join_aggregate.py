"""Aggregates of live rows that were also seen in portions of history, one period after the other.

A period is answered when all its rows, and all of history that they may meet, are there. If history is reduced,
only the rows of some keys are known: they are a sample of keys, and answers have bounds.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.archive.estimation.sums import Sums
from anabranch.archive.facts import Range, ranges_of
from anabranch.archive.reducers import Spec
from anabranch.errors import QueryError
from anabranch.kernels.hashing import hashes
from anabranch.kernels.spans import LEVELS, pane_runs
from anabranch.kernels.values import frozen, integers, one_array
from anabranch.operators.base import MIN_TIME, Floor, Inputs, Keeps, Offset, Offsets, Operator, Task, Work, time_of_row
from anabranch.operators.columns import Bound
from anabranch.operators.history.bounded import Bounded, bind_bounded, refuse_questions, with_time
from anabranch.operators.history.join import PORTIONS, HistoryJoin, live_with_found, with_found
from anabranch.operators.windows.explain import measure
from anabranch.operators.windows.program import Grouping, WindowProgram, bind_program
from anabranch.windows.panes.axis import window_starts

_ROWS_PER_BATCH = 1 << 17


@dataclass(frozen=True)
class HistoryJoinAggregate(Operator):
    """Aggregates of what `join` finds, per period of `every` (µs) and group.

    `keys` are (name, SQL), `aggregates` (name, function, SQL of the argument or None), both over the live columns,
    _portions and _matches; `columns` are the answer's (name, SQL over keys, aggregates, window_start, window_end and
    _time), and `having` is over the same. With a reducer each column is a key or aggregate, and x has x_low and x_high
    beside it, which hold with `confidence`.
    """

    kind: ClassVar[str] = "history_join_aggregate"
    named_in_a_host: ClassVar[str] = "history"
    reads_history: ClassVar[bool] = True
    why_store: ClassVar[str] = "the newest window"

    join: HistoryJoin
    every: int
    keys: tuple[tuple[str, str], ...]
    aggregates: tuple[tuple[str, str, str | None], ...]
    columns: tuple[tuple[str, str], ...]
    time: str
    confidence: float = 0.95
    having: str | None = None

    def __post_init__(self) -> None:
        if self.every <= 0:
            raise QueryError("WINDOW_SIZE_INVALID", f"a period of {self.every} was asked for, it must be above 0")

    def archives_wanted(self) -> tuple[str, ...]:
        return self.join.archives_wanted()

    def reduction(self) -> Spec | None:
        return self.join.reducer

    @property
    def inputs(self) -> tuple[str, ...]:
        return self.join.inputs

    def schema(self, inputs: Inputs) -> pa.Schema:
        self.join.schema(inputs)
        return self._bounded(inputs).schema if self.join.reducer is not None else self._program(inputs).schema

    def _program(self, inputs: Inputs) -> WindowProgram:
        reader = inputs.readers[self.join.stream]
        return _exact(self, reader.schema, reader.time_column)

    def _bounded(self, inputs: Inputs) -> Bounded:
        return _in_part(self, inputs.readers[self.join.stream].schema)

    def beginning(self, inputs: Inputs) -> dict[str, Offset]:
        return self.join.beginning(inputs)

    # -- plan --------------------------------------------------------------------------------------

    def plan(self, start: Offsets, end: Offsets, inputs: Inputs, parallelism: int) -> list[Task]:
        until = self._whole(end)
        if until == MIN_TIME or until == self._whole(start):
            return []
        reader = inputs.readers[self.join.stream]
        first, last = self._begin(start, end, inputs), reader.row_at_time(until, end[self.join.stream].row)
        tasks = self.join.planned(first, last, start, end, inputs, parallelism)
        if len(tasks) < 2:
            return tasks
        # Each task takes whole periods, so that no group is in two.
        cuts = {first, last}
        for task in tasks[1:]:
            row = task.detail["rows"][0]
            time = int(integers(reader.read(row, row + 1, [reader.time_column]).column(0))[0])
            cuts.add(min(max(reader.row_at_time(time // self.every * self.every, last), first), last))
        ranges = list(zip(sorted(cuts)[:-1], sorted(cuts)[1:], strict=True))
        return [Task(dict(start), dict(end), {"rows": rows, "last": rows == ranges[-1]}) for rows in ranges]

    def _whole(self, at: Offsets) -> int:
        """The end of the last period that can be answered."""
        time = self.join.reached(at)
        return time if time == MIN_TIME else time // self.every * self.every

    def _begin(self, start: Offsets, end: Offsets, inputs: Inputs) -> int:
        """The first live row of the first period that is not answered yet."""
        name = self.join.stream
        reader, row = inputs.readers[name], start[name].row
        own = self.join.history == name
        since = self._whole(start)
        if since == MIN_TIME:
            row = row if own else reader.first_logged_row()
            if row >= end[name].row:
                return end[name].row
            time = int(integers(reader.read(row, row + 1, [reader.time_column]).column(0))[0])
            since = time // self.every * self.every
        begin = reader.row_at_time(since, end[name].row)
        return begin if own else max(begin, min(reader.first_logged_row(), end[name].row))

    # -- run ---------------------------------------------------------------------------------------

    def run(self, task: Task, inputs: Inputs) -> Iterator[pa.RecordBatch]:
        answers = self._with_bounds(task, inputs) if self.join.reducer is not None else self._exactly(task, inputs)
        for table in answers:
            yield from table.to_batches(max_chunksize=_ROWS_PER_BATCH)

    def _matched(self, task: Task, inputs: Inputs, reads: list[str]) -> Iterator[tuple[pa.Table, NDArray[np.int64]]]:
        """Live rows that were met, and their times."""
        time = inputs.readers[self.join.stream].time_column
        first, last = task.detail["rows"]
        for table, counts in self.join.found(task, inputs, first, last, reads):
            met = self.join.met(counts)
            rows = with_found(table.filter(pa.array(met)), counts[:, met], self.join.keep(task.end))
            if rows.num_rows:
                yield rows, frozen(integers(rows.column(time)))

    def _exactly(self, task: Task, inputs: Inputs) -> Iterator[pa.Table]:
        program = self._program(inputs)
        period = program.partials.schema.empty_table()
        found_columns = set(live_with_found(pa.schema([])).names)
        for rows, times in self._matched(task, inputs, [name for name in program.reads if name not in found_columns]):
            panes, bounds = pane_runs(times, self.every)
            keys = [key.evaluate(rows) for key in program.keys]
            values = [value.evaluate(rows) for value in program.arguments]
            entries = program.partials.fold(period, panes, bounds, keys, values)
            # The last period may go on with the next rows.
            split = int(np.searchsorted(one_array(entries.column("node")).to_numpy(), panes[-1] * LEVELS))
            yield self._finished(program, entries.slice(0, split))
            period = entries.slice(split)
        yield self._finished(program, period)

    def _finished(self, program: WindowProgram, entries: pa.Table) -> pa.Table:
        ends = (one_array(entries.column("node")).to_numpy() // LEVELS + 1) * self.every
        return program.answer(entries, ends, self.every, ends)

    def _with_bounds(self, task: Task, inputs: Inputs) -> Iterator[pa.Table]:
        bounded, keep = self._bounded(inputs), self.join.keep(task.end)
        by = self.join.by(inputs)
        found_columns = set(live_with_found(pa.schema([])).names)
        reads = [name for name in [*bounded.reads, *by.columns] if name not in found_columns]
        time = inputs.readers[self.join.stream].time_column
        first, last = task.detail["rows"]
        period, sums = 0, None
        for table, counts in self.join.found(task, inputs, first, last, list(dict.fromkeys(reads))):
            met = self.join.met(counts)
            panes, bounds = pane_runs(frozen(integers(table.column(time))), self.every)
            for pane, low, high in zip(panes.tolist(), bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
                if sums is not None and period != pane:
                    yield self._estimated(bounded, sums, period, keep, inputs.work)
                    sums = None
                live, mine = table.slice(low, high - low), met[low:high]
                more = self._sums(bounded, live, mine, counts[:, low:high], keep, by)
                period, sums = pane, more if sums is None else sums + more
        if sums is not None:
            yield self._estimated(bounded, sums, period, keep, inputs.work)

    def _sums(
        self,
        bounded: Bounded,
        live: pa.Table,
        met: NDArray[np.bool_],
        counts: NDArray[np.int64],
        keep: float,
        by: Bound,
    ) -> Sums:
        """The sums of live rows that were met; of all of them, kept or not, it is known how far they reach."""
        rows = with_found(live.filter(pa.array(met)), counts[:, met], keep)
        ranges = None
        if bounded.estimates:
            known = {**ranges_of(live), PORTIONS: Range(0, self.join.portions)}
            ranges = bounded.ranges(rows.schema, known)
        sample = rows.add_column(0, "_row", pa.array(np.arange(rows.num_rows)))
        return bounded.sums(sample, 0, live.num_rows, keep, hashes(by.evaluate(rows)), open=True, ranges=ranges)

    def _estimated(self, bounded: Bounded, sums: Sums, period: int, keep: float, work: Work) -> pa.Table:
        ends = np.array([(period + 1) * self.every])
        starts = window_starts(ends, self.every).tolist()
        return bounded.answer(sums, self.confidence, starts, ends.tolist(), work, keep)

    # -- what it has reached, needs and keeps ------------------------------------------------------

    def reached(self, end: Offsets) -> int:
        """The end of the next period: no answer comes before that."""
        whole = self._whole(end)
        return whole if whole == MIN_TIME else whole + self.every

    def due(self, at: Offsets, inputs: Inputs) -> dict[str, int]:
        """The end of the first period that has live rows and is not answered."""
        row = self._begin(at, at, inputs)
        if row >= at[self.join.stream].row:
            return {}
        end = (time_of_row(inputs.readers[self.join.stream], row) // self.every + 1) * self.every
        return {self.join.history: self.join.history_due(end), self.join.stream: end}

    def current(self, reached: int, newest: int, every: int = 1) -> int:
        return reached - self.every

    def needs(self, at: Offsets) -> dict[str, Floor]:
        return self.join.needs_from(self._whole(at), at)

    def keeps(self) -> Keeps | None:
        inner = self.join.keeps()
        assert inner is not None
        return Keeps(inner.what, f"{inner.bound}, and of one period of {measure('time', self.every)}")

    def explain(self, inputs: Inputs | None = None) -> dict[str, Any]:
        keeps = self.keeps()
        assert keeps is not None
        bounds = {} if self.join.reducer is None else {"bounds": f"hold with {self.confidence:.0%} confidence"}
        return {
            "operator": self.kind,
            "inputs": list(self.inputs),
            "join": self.join.explain(inputs),
            "period": measure("time", self.every),
            "keys": dict(self.keys),
            "aggregates": {name: f"{function} of {sql or '*'}" for name, function, sql in self.aggregates},
            **bounds,
            "having": self.having,
            "columns": dict(self.columns),
            "time": self.time,
            "keeps": {"what": keeps.what, "bound": keeps.bound},
        }

    def to_json(self) -> dict[str, Any]:
        return {**super().to_json(), "join": self.join.to_json()}


@functools.lru_cache(maxsize=256)
def _exact(operator: HistoryJoinAggregate, source: pa.Schema, time_column: str) -> WindowProgram:
    program = bind_program(
        Grouping(
            keys=operator.keys,
            aggregates=operator.aggregates,
            columns=with_time(operator.columns, operator.time),
            having=operator.having,
        ),
        source=live_with_found(source),
        stream=operator.join.stream,
        time_column=time_column,
        identity=repr(operator),
    )
    refuse_questions(program, operator.aggregates)
    return program


@functools.lru_cache(maxsize=256)
def _in_part(operator: HistoryJoinAggregate, source: pa.Schema) -> Bounded:
    columns = with_time(operator.columns, operator.time)
    return bind_bounded(live_with_found(source), operator.keys, operator.aggregates, columns, None)
