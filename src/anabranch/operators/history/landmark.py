"""Landmark queries: aggregates since a time in the past, answered again and again as time goes on.

Query 1 of S. Chandrasekaran and M. Franklin (2004): a running count since the beginning of the rush hour, every
fifteen minutes. It begins in history and goes on with live rows; rows have the same numbers in both, so nothing is
missing or counted twice at the seam. Of history a reducer may read a part, live rows are all counted.

What is kept are totals, in a file for each offset: rows are needed only once. An answer is of the groups that had a row
since the one before, the Store is of all groups.
"""

from __future__ import annotations

import datetime
import functools
import itertools
from collections.abc import Iterable, Iterator
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
    time_of_row,
)
from anabranch.operators.history.bounded import LAST, Bounded, bind_bounded, column_of, refuse_questions, with_time
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
    counted,
    heading,
    is_sent,
    received,
    sent,
)
from anabranch.operators.state import SavedState, StateFiles
from anabranch.operators.windows.explain import measure
from anabranch.operators.windows.program import Grouping, WindowProgram, bind_program

ROWS_PER_TASK = 500_000
"""Below this, starting another task costs more than it gains."""
_ROWS_PER_BATCH = 1 << 17
_FAR = "history"
"""Under which name it is kept which rows lie far out."""
_TOLD = "told"
"""Files that say which answer was the last."""


@dataclass(frozen=True)
class Landmark(Operator):
    """Aggregates of the rows of `stream` from `since` (µs) on, at multiples of `every`, of groups with rows since then.

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
    why_store: ClassVar[str] = "the newest answer of each group"

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
        asked = self._asked(start, end, inputs)
        if asked is None:
            return []
        self._note_told(asked, end[self.stream], inputs)
        first, last = self._rows(start, end, inputs)
        if first >= last and asked.newest == asked.told:
            return []
        if first < self.live_from and inputs.scratch is not None:
            self._far(inputs, first, last)  # before the first task looks
        parts = max(1, min(parallelism, (last - first) // ROWS_PER_TASK)) if inputs.gathers else 1
        cuts = {(first + (last - first) * i // parts) // STRATUM * STRATUM for i in range(1, parts)}
        edges = [first, *sorted(cut for cut in cuts if first < cut < last), max(first, last)]
        ranges = list(itertools.pairwise(edges))
        return [
            Task(dict(start), dict(end), {"rows": rows, "part": i, "parts": len(ranges), "asked": asdict(asked)})
            for i, rows in enumerate(ranges)
        ]

    def _asked(self, start: Offsets, end: Offsets, inputs: Inputs) -> Asked | None:
        """The answers of a micro-batch; None if there is nothing to count either."""
        low, high = start[self.stream], end[self.stream]
        if high.time < self.since or (self._last is not None and low.time >= self._last):
            return None
        after, told = max(low.time, self.since), self._told(low, inputs)
        return Asked(self.every, after, high.time, told, high.every, self._last, self._drawn(low, high, inputs))

    def _drawn(self, start: Offset, end: Offset, inputs: Inputs) -> int:
        """Up to which time estimates of groups change without rows of theirs: until the first live row is counted."""
        if self.reducer is None or start.row > self.live_from:
            return MIN_TIME
        return end.time if end.row <= self.live_from else time_of_row(inputs.readers[self.stream], self.live_from)

    # -- the last answer ---------------------------------------------------------------------------

    def _told(self, at: Offset, inputs: Inputs) -> int:
        """The time of the last answer at an offset; that from which rows count, if there was none."""
        if at.time < self.since:
            return self.since
        states = None if inputs.scratch is None else self._noted(inputs).load(_name(at))
        return self._told_at_pace(at) if states is None else int(states[0].facts["told"])

    def _told_at_pace(self, at: Offset) -> int:
        """The same if as many were left out as in the newest micro-batch."""
        if self._last is not None and at.time >= self._last:
            return self._last
        return max(at.time // (self.every * at.every) * self.every * at.every, self.since)

    def _note_told(self, asked: Asked, end: Offset, inputs: Inputs) -> None:
        """Where more or fewer are left out than before, keep which was the last."""
        if inputs.scratch is not None and asked.newest != self._told_at_pace(end):
            self._noted(inputs).save(_name(end), "", 0, 1, SavedState({}, {"told": asked.newest}))

    def _noted(self, inputs: Inputs) -> StateFiles:
        return StateFiles(inputs.scratch, _TOLD, f"{self!r} {inputs.readers[self.stream].identity}")

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
        asked = Asked(**task.detail["asked"])
        tally = self._tally(inputs, end.keep, first, last)
        if part == 0:
            self._take_up(tally, start, inputs, self._counted(start, inputs))
            asked = replace(asked, drawn=max(asked.drawn, tally.totals.drawn))
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
            for _ in counted(tally.totals, _into(made, steps), asked):
                pass  # who has the steps of all tasks answers
            for step in made:
                yield from sent(step)
        if parts == 1 and last == first:
            return
        if inputs.scratch is not None or parts == 1:
            state = tally.state(first, made if part > 0 else None)
            self._files(inputs).save(str(self._counted(end, inputs)), str(start.row), part, parts, state)
            inputs.work.keeps(state.rows, state.nbytes)

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

    def _files(self, inputs: Inputs) -> StateFiles:
        return StateFiles(inputs.scratch, self.kind, f"{self!r} {inputs.readers[self.stream].identity}")

    def _kept_row(self, at: Offset, inputs: Inputs) -> int:
        """The number that the totals at an offset are kept by, also when the last row that counts is gone."""
        final = self._files(inputs).newest() if self._last is not None and at.time >= self._last else None
        return self._counted(at, inputs) if final is None else int(final)

    def _take_up(self, tally: Tally, start: Offset, inputs: Inputs, row: int) -> None:
        """Go on with what was kept at the start; if it is lost, count the rows before again."""
        if start.time == MIN_TIME or start.time < self.since:
            return
        states = self._files(inputs).load(str(row))
        if states is not None:
            tally.take_up(states, start.time)
            return
        since = self._first_counted(row, inputs)
        if since is None:
            raise QueryError(
                "TOTALS_LOST",
                f'the totals kept so far are lost, and the first rows of stream "{self.stream}" are gone',
                hint="drop the query and create it again: it counts the rows there are",
            )
        again = self._tally(inputs, start.keep, since, row)
        steps = again.steps(since, row, start.time)
        asked = self._at_rest(start, inputs)
        for _ in counted(again.totals, steps, replace(asked, drawn=self._drawn(Offset(since), start, inputs))):
            pass  # it was answered before
        tally.take_up([again.state(since, None)], start.time)

    def _at_rest(self, at: Offset, inputs: Inputs) -> Asked:
        """What is asked where all is answered."""
        return Asked(self.every, at.time, at.time, self._told(at, inputs))

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
        """The next answer, if a row came since the last one."""
        offset = at[self.stream]
        if offset.time < self.since or (self._last is not None and offset.time >= self._last):
            return {}
        reader, newest = inputs.readers[self.stream], self._counted(offset, inputs) - 1
        if newest < 0:
            return {}
        # Of a row that is gone nobody knows: a version that kept one row less let it go.
        if newest >= reader.first_row() and time_of_row(reader, newest) < self._told(offset, inputs):
            return {}
        return {self.stream: self.reached(at)}

    def store(self, at: Offsets, inputs: Inputs) -> pa.Table:
        """The newest answer, of all groups."""
        offset = at.get(self.stream, Offset())
        told = self._told(offset, inputs)
        if told <= self.since:
            return self.schema(inputs).empty_table()
        row = self._kept_row(offset, inputs)
        tally = self._tally(inputs, offset.keep, row, row)
        self._take_up(tally, offset, inputs, row)
        steps = tally.steps(row, row, offset.time)
        for _ in counted(tally.totals, steps, self._at_rest(offset, inputs)):
            pass  # nothing is answered that was not before
        return tally.totals.shown(told)

    def needs(self, at: Offsets) -> dict[str, Floor]:
        """Rows that are not counted yet, and the last one that is: the others are in the totals."""
        row, time = at[self.stream].row, at[self.stream].time
        ends = self.until is not None and self._last is not None and self.until <= time < self._last
        return {self.stream: Floor(row=row, time=self.until if ends else None, before=1)}

    def keeps(self) -> Keeps | None:
        part = "" if self.reducer is None else ", of up to a hundred parts of history"
        return Keeps("totals, and those of the last answer", f"one entry per group{part}")

    def explain(self, inputs: Inputs | None = None) -> dict[str, Any]:
        keeps = self.keeps()
        assert keeps is not None
        told: dict[str, Any] = {
            "operator": self.kind,
            "inputs": list(self.inputs),
            "since": _stamp(self.since),
            "until": None if self.until is None else _stamp(self.until),
            "every": measure("time", self.every),
            "answers": "groups with rows since the answer before",
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
            aggregates=(*operator.aggregates, _newest(time_column)),
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
    aggregates = (*operator.aggregates, _newest(time_column))
    return bind_bounded(source, operator.keys, aggregates, columns, operator.filter, *more)


def _newest(time_column: str) -> tuple[str, str, str]:
    """Each group's newest row, besides what is asked."""
    return LAST, "max", f"`{time_column.replace('`', '``')}`"


def _into(made: list[PeriodStep], steps: Iterable[PeriodStep]) -> Iterator[PeriodStep]:
    """Steps, and a list of them."""
    for step in steps:
        made.append(step)
        yield step


def _name(at: Offset) -> str:
    """A name for what is kept at an offset, be it only time that has gone on."""
    return f"{at.row}-{at.time}"


def _stamp(time: int) -> str:
    return str(datetime.datetime.fromtimestamp(time / 1e6, datetime.UTC).replace(tzinfo=None))
