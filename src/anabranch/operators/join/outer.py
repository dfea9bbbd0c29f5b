"""Window joins that answer for rows that meet nothing, or anything at all: LEFT, RIGHT, FULL, SEMI and ANTI.

A row has no partner once none can come any more: when the other stream has gone on past its window. Rows stand in the
order of time, so these are all up to some number, which follows from an offset; what a micro-batch answers for are the
rows between the numbers of its start and its end. They are looked up once more among all rows that their windows had,
which the log still holds. So nothing is remembered of who has met whom, and it is the same however rows were cut.

Of a semi join a row is answered with its first partner. One that was there before may have had a partner already:
so it is looked up among the rows that were.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.kernels.values import frozen
from anabranch.log.offset import MAX_TIME
from anabranch.operators.base import MIN_TIME, Floor, Inputs, Keeps, Offsets, Operator, Task, Work, time_of_row
from anabranch.operators.join.operator import WindowJoin
from anabranch.operators.join.rows import NO_ROW
from anabranch.operators.join.run import JoinRun, Reach, Results, in_order, joined
from anabranch.operators.join.windows import FOREVER

Ints = NDArray[np.int64]
Kind = Literal["left", "right", "full", "semi", "anti"]

_UNMATCHED: dict[Kind, tuple[int, ...]] = {"left": (0,), "right": (1,), "full": (0, 1), "semi": (), "anti": (0,)}
"""The sources whose rows are answered if they have no partner."""
_SAID: dict[Kind, str] = {
    "left": "pairs, and rows of the first without a partner, NULL beside them, once their window has passed",
    "right": "pairs, and rows of the second without a partner, NULL beside them, once their window has passed",
    "full": "pairs, and rows of both without a partner, NULL beside them, once their window has passed",
    "semi": "rows of the first, each with its first partner",
    "anti": "rows of the first that have no partner, once their window has passed",
}


@dataclass(frozen=True)
class OuterJoin(Operator):
    """Results of `join`, of two streams with a window of time, and rows of either without a partner, as `side` says.

    The conditions of `join` say who is a partner, and so does the filter of a source whose rows are not answered
    without one. What is answered is the columns of `join`, where all of `where` is true, NULLs beside a row included.
    """

    kind: ClassVar[str] = "outer_join"
    named_in_a_host: ClassVar[str] = "join"
    why_throw: ClassVar[str] = "rows that WHERE dropped, or that had no partner and are not asked for without one"

    join: WindowJoin
    side: Kind
    where: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[tuple[str, str], ...]:
        return self.join.columns

    @property
    def time(self) -> str:
        return self.join.time

    @property
    def inputs(self) -> tuple[str, ...]:
        return self.join.inputs

    def aliases(self) -> tuple[str, ...]:
        return self.join.aliases()

    def conditions_by_source(self) -> tuple[tuple[str | None, str], ...]:
        return self.join.conditions_by_source()

    def canonical(self) -> OuterJoin:
        from anabranch.operators.join.canonical import canonical_outer

        return canonical_outer(self)

    def however_cut(self) -> OuterJoin:
        return replace(self, join=self.join.however_cut())

    def schema(self, inputs: Inputs) -> pa.Schema:
        return self.join.schema(inputs)

    # -- plan --------------------------------------------------------------------------------------

    def plan(self, start: Offsets, end: Offsets, inputs: Inputs, parallelism: int) -> list[Task]:
        # The first partner of a row may be found at another time than the next.
        tasks = self.join.tasks(start, end, inputs, parallelism, by_time=self.side != "semi")
        if tasks or not any(low < high for low, high in self._passing(start, end, inputs)):
            return tasks
        return [Task(dict(start), dict(end), {"live": True})]

    def _passing(self, start: Offsets, end: Offsets, inputs: Inputs) -> list[tuple[int, int]]:
        """The rows of each source without whose partners it goes, and whose windows pass in a micro-batch."""
        return [
            (self._passed(source, start, inputs), self._passed(source, end, inputs)) for source in _UNMATCHED[self.side]
        ]

    def _passed(self, source: int, at: Offsets, inputs: Inputs) -> int:
        """Rows of a source before this number are there, and their windows have passed."""
        sides = self.join.sides(at, inputs)
        mine, others = (self.join.sources[place][1] for place in (source, 1 - source))
        reached = sides[others].time
        if reached == MIN_TIME:
            return inputs.readers[mine].first_row()
        lasts = self._stays(source) if self.join.ordered else self._latest(source)
        return _row_at(inputs, mine, reached - lasts, sides[mine].row)

    def _latest(self, source: int) -> int:
        """How much later than a row of the source its partner may be at most; less than 0: only earlier."""
        return self.join.most()[source][1 - source]

    def _stays(self, source: int) -> int:
        """How long after a row of the source it is known that it has no partner."""
        return max(self._latest(source), 0)

    # -- run ---------------------------------------------------------------------------------------

    def run(self, task: Task, inputs: Inputs) -> Iterator[pa.RecordBatch]:
        run = self.join.started(task, inputs)
        runs = [run]
        if self.side == "semi":
            found = self._first(run, runs, task, inputs)
        else:
            pairs = iter(()) if self.side == "anti" else run.results()
            found = _in_turn(pairs, self._unmatched(runs, task, inputs))
        yield from self.join.answered(found, run, task, inputs, self.where)
        if task.detail.get("live"):
            for each in runs:
                each.keep()

    def _unmatched(self, runs: list[JoinRun], task: Task, inputs: Inputs) -> Results:
        """Rows without a partner whose windows pass, with the time at which they do."""
        since, until = task.detail.get("since", -FOREVER), task.detail.get("until", FOREVER)
        parts: list[Results] = []
        passing = self._passing(task.start, task.end, inputs)
        for source, (low, high) in zip(_UNMATCHED[self.side], passing, strict=True):
            stays, stream = self._stays(source), self.join.sources[source][1]
            low = max(low, _row_at(inputs, stream, since - stays, high))
            high = min(high, _row_at(inputs, stream, until - stays, high))
            if low >= high:
                continue
            run = self._looking(source, task.end, task, inputs)
            runs.append(run)
            for drivers in run.rows_between(source, low, high):
                alone = ~run.meet(drivers)
                rows = drivers.kept.rows[alone]
                parts.append(_alone(source, rows, drivers.kept.times[alone] + stays))
        return in_order(joined(parts, 2))

    def _looking(self, source: int, at: Offsets, task: Task, inputs: Inputs) -> JoinRun:
        """A run that looks rows of a source up among those of the other that are there at some offsets."""
        sides = self.join.sides(at, inputs)
        ends = [sides[stream] for _, stream, _ in self.join.sources]
        rows, times = [end.row for end in ends], [end.time for end in ends]
        reach = Reach(rows, rows, times, times, ordered=False)
        # Who looks back has older rows in its index than who looks for what has come.
        return self.join.searching(reach, task, inputs, purpose=f"looks back from {source} ")

    def _first(self, run: JoinRun, runs: list[JoinRun], task: Task, inputs: Inputs) -> Iterator[Results]:
        """Of the rows that meet others the first result of each, if there was none before."""
        seen = _Seen(self._oldest_met(task, inputs))
        before = self.join.sides(task.start, inputs)[self.join.sources[0][1]].row
        earlier = self._looking(0, task.start, task, inputs)
        runs.append(earlier)
        for results in run.results():
            first = results.at(np.sort(np.unique(results.rows[0], return_index=True)[1]))
            first = first.at(~seen.add(first.rows[0]))
            old = np.flatnonzero(first.rows[0] < before)
            fresh = np.ones(len(first), np.bool_)
            if len(old):
                rows, back = np.unique(first.rows[0][old], return_inverse=True)
                fresh[old] = ~earlier.meet(earlier.rows_at(0, frozen(rows)))[back]
            first = first.at(fresh)
            if len(first):
                yield _alone(0, first.rows[0], first.times)

    def _oldest_met(self, task: Task, inputs: Inputs) -> int:
        """No row of the first source before this number meets anything new."""
        mine, others = (stream for _, stream, _ in self.join.sources)
        low, high = (self.join.sides(at, inputs) for at in (task.start, task.end))
        if low[others].row >= high[others].row:
            return low[mine].row
        time = time_of_row(inputs.readers[others], low[others].row) - self._latest(0)
        return _row_at(inputs, mine, time, low[mine].row)

    def gather(self, answers: pa.Table, work: Work | None = None) -> pa.Table:
        return self.join.gather(answers, work)

    # -- what it has reached, needs and keeps ------------------------------------------------------

    def reached(self, end: Offsets) -> int:
        return self.join.reached(end)

    def due(self, at: Offsets, inputs: Inputs) -> dict[str, int]:
        """A row waits until the other stream has passed its window; in order of time, until both have."""
        due = self.join.due(at, inputs)
        sides = self.join.sides(at, inputs)
        for source in _UNMATCHED[self.side]:
            mine, others = (self.join.sources[place][1] for place in (source, 1 - source))
            row = self._passed(source, at, inputs)
            if row >= sides[mine].row:
                continue
            time = time_of_row(inputs.readers[mine], row)
            if self.join.ordered:
                over = time + self._stays(source) + 1
                due = {name: min(due.get(name, over), over) for name in self.inputs}
            else:
                over = time + self._latest(source) + 1
                due[others] = min(due.get(others, over), over)
        return due

    def needs(self, at: Offsets) -> dict[str, Floor]:
        """Rows that wait, and all rows that those may have met."""
        needs = self.join.needs(at)
        most = self.join.most()
        reached = min(at[name].time for name in self.inputs)
        for source in _UNMATCHED[self.side] or (0,):
            others = self.join.sources[1 - source][1]
            time = needs[others].time
            assert time is not None
            if time != MIN_TIME:
                known = reached - self._stays(source) if self.join.ordered else at[others].time - self._latest(source)
                time = min(time, known - most[1 - source][source])
            needs[others] = needs[others]._replace(time=time)
        return needs

    def keeps(self) -> Keeps | None:
        return Keeps("rows of the windows, indexed by what joins them", "the rows inside the windows, twice as long")

    def explain(self, inputs: Inputs | None = None) -> dict[str, Any]:
        keeps = self.keeps()
        assert keeps is not None
        return {
            **self.join.explain(inputs),
            "operator": self.kind,
            "side": self.side,
            "answers": _SAID[self.side],
            "where": list(self.where),
            "keeps": {"what": keeps.what, "bound": keeps.bound},
        }

    def to_json(self) -> dict[str, Any]:
        return {**super().to_json(), "join": self.join.to_json()}


class _Seen:
    """Which rows from a number on were seen."""

    def __init__(self, first: int) -> None:
        self._first = first
        self._mask = np.zeros(0, np.bool_)

    def add(self, rows: Ints) -> NDArray[np.bool_]:
        """Of some different rows, which were seen before."""
        places = rows - self._first
        if len(places) and int(places.max()) >= len(self._mask):
            more = np.zeros(int(places.max()) + 1, np.bool_)
            self._mask = np.concatenate([self._mask, more])
        before = self._mask[places]
        self._mask[places] = True
        return before


def _in_turn(pairs: Iterator[Results], alone: Results) -> Iterator[Results]:
    """Pairs, which come in order of time, and rows without a partner, put in order."""
    for results in pairs:
        ready = int(np.searchsorted(alone.times, results.times[-1], "right"))
        yield in_order(joined([results, alone.between(0, ready)], 2)) if ready else results
        alone = alone.between(ready, len(alone))
    if len(alone):
        yield alone


def _alone(source: int, rows: Ints, times: Ints) -> Results:
    """Rows of a source with none beside them."""
    none = np.full(len(rows), NO_ROW)
    return Results([rows, none] if source == 0 else [none, rows], times)


def _row_at(inputs: Inputs, stream: str, time: int, end: int) -> int:
    """The first row of a stream below `end` that is not older than a time, which may lie beyond all there are."""
    return inputs.readers[stream].row_at_time(min(max(time, MIN_TIME), MAX_TIME), end)
