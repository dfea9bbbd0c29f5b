"""Landmark queries: aggregates since a time in the past, answered again and again as time goes on.

Query 1 of S. Chandrasekaran and M. Franklin (2004): a running count since the beginning of the rush hour, every
fifteen minutes. It begins in history and goes on with live rows; rows have the same numbers in both, so nothing is
missing or counted twice at the seam. Of history a reducer may read a part, live rows are all counted.

What is kept are totals, in a file for each offset: rows are needed only once.
"""

from __future__ import annotations

import datetime
import functools
import itertools
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

import pyarrow as pa

from anabranch.archive.estimation.strata import STRATUM
from anabranch.archive.reducers import Spec, reducer_of
from anabranch.errors import QueryError
from anabranch.operators.base import (
    MIN_TIME,
    Floor,
    Inputs,
    Keeps,
    KnownStreams,
    Offset,
    Offsets,
    Operator,
    Task,
    Work,
    first_time,
)
from anabranch.operators.history.bounded import Bounded, bind_bounded, column_of, refuse_questions, with_time
from anabranch.operators.history.exact_totals import ExactTally, ExactTotals
from anabranch.operators.history.far import FarRows, kept_far, look_for_far
from anabranch.operators.history.part_totals import PartTally, PartTotals
from anabranch.operators.history.reading import LEAST, HistoryReadings
from anabranch.operators.history.steps import (
    Asked,
    PeriodStep,
    Tally,
    Totals,
    answered,
    heading,
    is_sent,
    received,
    sent,
)
from anabranch.operators.state import StateFiles
from anabranch.operators.windows.explain import measure
from anabranch.operators.windows.program import Grouping, WindowProgram, bind_program

ROWS_PER_TASK = 500_000
"""Below this, starting another task costs more than it gains."""
_ROWS_PER_BATCH = 1 << 17
_FAR = "history"
"""Under which name it is kept which rows lie far out."""


@dataclass(frozen=True)
class Landmark(Operator):
    """Aggregates of the rows of `stream` from `since` (µs) on, per group, at each multiple of `every` after that.

    `keys` are (name, SQL), `aggregates` (name, function, SQL of the argument or None), `columns` the answer's
    (name, SQL over keys, aggregates and _time), and `having` is over the same. Only rows before `until` count, and the
    last answer is the first that is not before it. With a `reducer`, part of the rows before number `live_from` is
    read; then each column is a key or aggregate, and x has x_low and x_high beside it, which hold with `confidence`.
    """

    kind: ClassVar[str] = "landmark"
    named_in_a_host: ClassVar[str] = "totals"
    scratch_is_state: ClassVar[bool] = True
    reads_history: ClassVar[bool] = True
    begins_by_itself: ClassVar[bool] = True
    why_store: ClassVar[str] = "the newest answer"

    stream: str
    since: int
    keys: tuple[tuple[str, str], ...]
    aggregates: tuple[tuple[str, str, str | None], ...]
    columns: tuple[tuple[str, str], ...]
    time: str
    every: int
    filter: str | None = None
    until: int | None = None
    reducer: Spec | None = None
    live_from: int = 0
    confidence: float = 0.95
    having: str | None = None

    def __post_init__(self) -> None:
        if self.every <= 0:
            raise QueryError("WINDOW_SIZE_INVALID", f"a period of {self.every} was asked for, it must be above 0")

    def settled(self, streams: KnownStreams, *, once: bool = False) -> Landmark:
        """What is history is decided when the query is made."""
        return replace(self, live_from=streams.end_of(self.stream).row)

    def reduction(self) -> Spec | None:
        return self.reducer

    def history_end(self) -> int:
        return self.live_from

    def notices(self, inputs: Inputs) -> list[tuple[str, str]]:
        """That the query begins at a time of which the first rows are gone."""
        reader = inputs.readers[self.stream]
        first = reader.first_row()
        begins = first_time(reader, MIN_TIME, first + 1) if 0 < first < self.live_from else None
        if begins is None or begins <= self.since:
            return []
        text = f'of "{self.stream}" the rows before {_stamp(begins)} are gone, it begins there'
        return [("history_begins_late", text)]

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.stream,)

    def schema(self, inputs: Inputs) -> pa.Schema:
        reader = inputs.readers[self.stream]
        return self._bound(reader.schema, reader.time_column).schema

    def beginning(self, inputs: Inputs) -> dict[str, Offset]:
        """The first row that counts, be it in the archive or still to come."""
        reader = inputs.readers[self.stream]
        end = getattr(reader, "end", None)
        return {self.stream: Offset(reader.row_at_time(self.since, 2**62 if end is None else end().row))}

    # -- plan --------------------------------------------------------------------------------------

    def plan(self, start: Offsets, end: Offsets, inputs: Inputs, parallelism: int) -> list[Task]:
        asked = self._asked(start, end)
        if asked is None:
            return []
        first, last = self._rows(start, end, inputs)
        if first >= last and not asked.any:
            return []
        if first < self.live_from and inputs.scratch is not None:
            self._far(inputs, first, last)  # before the first task looks
        parts = max(1, min(parallelism, (last - first) // ROWS_PER_TASK)) if inputs.gathers else 1
        cuts = {(first + (last - first) * i // parts) // STRATUM * STRATUM for i in range(1, parts)}
        edges = [first, *sorted(cut for cut in cuts if first < cut < last), max(first, last)]
        ranges = list(itertools.pairwise(edges))
        return [
            Task(dict(start), dict(end), {"rows": rows, "part": i, "parts": len(ranges)})
            for i, rows in enumerate(ranges)
        ]

    def _asked(self, start: Offsets, end: Offsets) -> Asked | None:
        """The answers of a micro-batch; None if there is nothing to count either."""
        low, high = start[self.stream], end[self.stream]
        if high.time < self.since or (self._last is not None and low.time >= self._last):
            return None
        return Asked(self.every, max(low.time, self.since), high.time, high.every, self._last)

    @property
    def _last(self) -> int | None:
        """The time of the last answer."""
        return None if self.until is None else -(-self.until // self.every) * self.every

    def _rows(self, start: Offsets, end: Offsets, inputs: Inputs) -> tuple[int, int]:
        """The rows of a micro-batch that count."""
        low, high = start[self.stream], end[self.stream]
        first = low.row
        if low.time < self.since:
            first = max(first, inputs.readers[self.stream].row_at_time(self.since, high.row))
        return first, self._counted(high, inputs)

    def _counted(self, at: Offset, inputs: Inputs) -> int:
        """All rows that count at an offset are before this one."""
        if self.until is None or at.time < self.until:
            return at.row
        return inputs.readers[self.stream].row_at_time(self.until, at.row)

    # -- run ---------------------------------------------------------------------------------------

    def run(self, task: Task, inputs: Inputs) -> Iterator[pa.RecordBatch]:
        reader = inputs.readers[self.stream]
        start, end = task.start[self.stream], task.end[self.stream]
        (first, last), part, parts = task.detail["rows"], task.detail["part"], task.detail["parts"]
        asked = self._asked(task.start, task.end)
        assert asked is not None
        files = StateFiles(inputs.scratch, self.kind, f"{self!r} {reader.identity}")
        tally = self._tally(inputs, end.keep, first, last)
        if part == 0:
            self._take_up(tally, files, start, inputs)
        steps = tally.steps(first, last, end.time if part == parts - 1 else None)
        made: list[PeriodStep] = []
        if parts == 1:
            for table in answered(tally.totals, steps, asked):
                yield from table.to_batches(max_chunksize=_ROWS_PER_BATCH)
        else:
            if part == 0:
                yield from heading(asdict(asked) | {"time": reader.time_column}, reader.schema)
                for step in tally.kept():
                    yield from sent(step)
            for step in steps:
                yield from sent(step)
                tally.totals.take(step)
                made.append(step)
        if parts == 1 and last == first:
            return
        if inputs.scratch is not None or parts == 1:
            state = tally.state(first, made if part > 0 else None)
            files.save(str(self._counted(end, inputs)), str(start.row), part, parts, state)
            inputs.work.scratch_rows, inputs.work.scratch_bytes = state.rows, state.nbytes

    def gather(self, answers: pa.Table, work: Work | None = None) -> pa.Table:
        if not is_sent(answers):
            return answers
        about, source, steps = received(answers)
        time_column = about.pop("time")
        program = self._bound(source, time_column)
        totals: Totals
        if isinstance(program, WindowProgram):
            totals = ExactTotals(program)
        else:
            totals = PartTotals(program, self.confidence, work or Work())
        return pa.concat_tables([program.schema.empty_table(), *answered(totals, steps, Asked(**about))])

    def _take_up(self, tally: Tally, files: StateFiles, start: Offset, inputs: Inputs) -> None:
        """Go on with what was kept at the start; if it is lost, count the rows before again."""
        if start.time == MIN_TIME or start.time < self.since:
            return
        row = self._counted(start, inputs)
        states = files.load(str(row))
        if states is not None:
            tally.take_up(states)
            return
        since = self._first_counted(row, inputs)
        if since is None:
            raise QueryError(
                "TOTALS_LOST",
                f'the totals kept so far are lost, and the first rows of stream "{self.stream}" are gone',
                hint="drop the query and create it again: it counts the rows there are",
            )
        again = self._tally(inputs, start.keep, since, row)
        for step in again.steps(since, row, start.time):
            again.totals.take(step)
        tally.take_up([again.state(since, None)])

    def _first_counted(self, row: int, inputs: Inputs) -> int | None:
        """The first of the rows before `row` that count; None if rows are gone that may have."""
        reader = inputs.readers[self.stream]
        first, counted = reader.first_row(), reader.row_at_time(self.since, row)
        return None if first > 0 and counted <= first else counted

    def _tally(self, inputs: Inputs, keep: float, first: int, last: int) -> Tally:
        """What reads and sums up the rows first ≤ n < last."""
        log = inputs.history(self.stream)
        program = self._bound(log.schema, log.time_column)
        if isinstance(program, WindowProgram):
            return ExactTally(program, log, self.every, inputs.work)
        assert self.reducer is not None
        reducer = reducer_of(self.reducer)
        readings = HistoryReadings(log, self.live_from, keep, reducer, column_of(reducer.by, log.schema))
        far, totals = self._far(inputs, first, last), PartTotals(program, self.confidence, inputs.work)
        return PartTally(totals, program, log, self.every, readings, far, inputs.work)

    def _far(self, inputs: Inputs, first: int, last: int) -> FarRows | None:
        """Which rows of history lie far out, as was found before the first micro-batch; None if it does not matter.

        Of what is asked once nothing is kept, and only the rows first ≤ n < last are looked through.
        """
        log = inputs.history(self.stream)
        program = self._bound(log.schema, log.time_column)
        if isinstance(program, WindowProgram) or not program.estimates or first > self.live_from:
            return None
        assert self.reducer is not None
        by = column_of(reducer_of(self.reducer).by, log.schema)
        if inputs.scratch is None:
            return look_for_far(log, first, min(last, self.live_from), program.reads, LEAST, by)
        files = StateFiles(inputs.scratch, "far", f"{self!r} {log.identity}")
        states = files.load(_FAR)
        if states is not None:
            return kept_far(states[0])
        begin = max(log.row_at_time(self.since, self.live_from), log.first_row())
        far = look_for_far(log, begin, self.live_from, program.reads, LEAST, by)
        files.save(_FAR, _FAR, 0, 1, far.state())
        return far

    def _bound(self, source: pa.Schema, time_column: str) -> WindowProgram | Bounded:
        return (_exact if self.reducer is None else _in_part)(self, source, time_column)

    # -- what it has reached, needs and keeps ------------------------------------------------------

    def reached(self, end: Offsets) -> int:
        """The time of the next answer."""
        time = end[self.stream].time
        return time if time == MIN_TIME else (max(time, self.since) // self.every + 1) * self.every

    def due(self, at: Offsets, inputs: Inputs) -> dict[str, int]:
        """The next answer, once a row counts."""
        offset = at[self.stream]
        if offset.time < self.since or (self._last is not None and offset.time >= self._last):
            return {}
        first = self._first_counted(offset.row, inputs)
        if first is not None and first >= self._counted(offset, inputs):
            return {}
        return {self.stream: self.reached(at)}

    def current(self, reached: int, newest: int, every: int = 1) -> int:
        """The newest answer."""
        return newest

    def needs(self, at: Offsets) -> dict[str, Floor]:
        """Rows that are not counted yet; the others are in the totals, which have the number of the last of them."""
        row, time = at[self.stream].row, at[self.stream].time
        ends = self.until is not None and self._last is not None and self.until <= time < self._last
        return {self.stream: Floor(row=row, time=self.until if ends else None)}

    def keeps(self) -> Keeps | None:
        part = "" if self.reducer is None else ", of up to a hundred parts of history"
        return Keeps("totals", f"one entry per group{part}")

    def explain(self, inputs: Inputs | None = None) -> dict[str, Any]:
        keeps = self.keeps()
        assert keeps is not None
        told: dict[str, Any] = {
            "operator": self.kind,
            "inputs": list(self.inputs),
            "since": _stamp(self.since),
            "until": None if self.until is None else _stamp(self.until),
            "every": measure("time", self.every),
            "filter": self.filter,
            "keys": dict(self.keys),
            "aggregates": {name: f"{function} of {sql or '*'}" for name, function, sql in self.aggregates},
            "having": self.having,
            "columns": dict(self.columns),
            "time": self.time,
        }
        if self.reducer is not None:
            told["reducer"] = f"{self.reducer[0]}{self.reducer[1]!r}"
            told["history"] = f"rows before number {self.live_from}"
            told["bounds"] = f"hold with {self.confidence:.0%} confidence"
        return {**told, "keeps": {"what": keeps.what, "bound": keeps.bound}}


@functools.lru_cache(maxsize=256)
def _exact(operator: Landmark, source: pa.Schema, time_column: str) -> WindowProgram:
    program = bind_program(
        Grouping(
            keys=operator.keys,
            aggregates=operator.aggregates,
            columns=with_time(operator.columns, operator.time),
            where=operator.filter,
            having=operator.having,
        ),
        source=source,
        stream=operator.stream,
        time_column=time_column,
        identity=repr(operator),
    )
    refuse_questions(program, operator.aggregates)
    return program


@functools.lru_cache(maxsize=256)
def _in_part(operator: Landmark, source: pa.Schema, time_column: str) -> Bounded:
    assert operator.reducer is not None
    by = column_of(reducer_of(operator.reducer).by, source)
    columns = with_time(operator.columns, operator.time)
    more = [time_column, *([by] if by is not None else [])]
    return bind_bounded(source, operator.keys, operator.aggregates, columns, operator.filter, *more)


def _stamp(time: int) -> str:
    return str(datetime.datetime.fromtimestamp(time / 1e6, datetime.UTC).replace(tzinfo=None))
