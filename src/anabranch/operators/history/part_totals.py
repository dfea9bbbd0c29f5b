"""Running totals of rows of which history is read in part, for answers with bounds.

Strata are stretches of row numbers (`archive.strata`). At the end of a period of time, all strata are over but
the one that the last row read lies in: of that, only the rows before the end of the period count, and how many
they are is not known without looking for the row, which would read what was to be left out. So its rows stand
apart until a row of a later stratum comes. All this follows from the rows that are read, not from how they were
cut into batches and tasks.

As history grows, neighbouring strata are taken together, so that there are never many. That is allowed, since
lots of rows are drawn one by one: the rows read of two strata are a random sample of both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from anabranch.archive.estimation.extremes import Extremes
from anabranch.archive.estimation.strata import KEY, OPEN, OPEN_KEY, ROWS, STRATUM
from anabranch.archive.estimation.sums import Sums, together
from anabranch.archive.facts import Range, with_aside
from anabranch.kernels.hashing import hashes
from anabranch.kernels.spans import pane_runs
from anabranch.kernels.values import frozen, integers
from anabranch.operators.base import MIN_TIME, HistoryLog, Work
from anabranch.operators.history.bounded import Bounded
from anabranch.operators.history.far import FarRows
from anabranch.operators.history.steps import NO_PERIOD, PeriodStep
from anabranch.operators.state import SavedState
from anabranch.schema import TIME_TYPE

_MOST_STRATA = 64
_ROWS_PER_READ = 1 << 19
_SHOWN = "shown "
"""Before the names of tables of what was answered last."""
CLOSED, OPENED, ENDED = "closed", "opened", "ended"
"""Kinds of steps: sums of strata that are over, with all those that stood apart; sums of rows of the stratum that
goes on; and the sizes of strata that will be over as soon as another row comes."""


class _Parts(NamedTuple):
    """Sums of strata that are over, of the one that goes on, and sizes."""

    closed: Sums | None = None
    opened: Sums | None = None
    ended: Sums | None = None

    def after(self, step: PeriodStep) -> _Parts:
        sums = step.sums
        if step.kind == ENDED:
            return self._replace(ended=_added(self.ended, sums))
        over = self._over() if self.ended is not None or step.kind == CLOSED else self
        if step.kind == CLOSED:
            return over._replace(closed=_added(over.closed, sums))
        return over._replace(opened=_added(over.opened, sums))

    def _over(self) -> _Parts:
        return _Parts(_added(_added(self.closed, self.opened), self.ended))

    def followed_by(self, later: Iterable[tuple[str, pa.Table]], ended: Sums | None) -> _Parts:
        """With those of later rows; `ended`: sizes of what was left open, which is over where they began."""
        parts = self._replace(ended=_added(self.ended, ended))
        for kind, table in later:
            parts = parts.after(PeriodStep(NO_PERIOD, kind, table))
        return parts

    @property
    def tidy(self) -> _Parts:
        return self if self.closed is None else self._replace(closed=_fewer_strata(self.closed))

    @property
    def sums(self) -> Sums | None:
        return _added(self.closed, None if self.opened is None else _open(self.opened))

    @property
    def newest(self) -> int | None:
        """The time of the newest row that was read."""
        extremes = [sums.extremes[-1] for sums in (self.closed, self.opened) if sums is not None]
        times = [pc.max(kept.values.cast(pa.int64())).as_py() for kept in extremes if kept is not None]
        return max((time for time in times if time is not None), default=None)

    def tables(self) -> dict[str, pa.Table]:
        named = zip((CLOSED, OPENED, ENDED), self, strict=True)
        return {name: sums.to_table() for name, sums in named if sums is not None}


class PartTotals:
    """What all rows read so far add up to, as parts of it."""

    def __init__(self, bounded: Bounded, confidence: float, work: Work) -> None:
        self._bounded = bounded
        self._work = work
        self._confidence = confidence
        self._parts = _Parts()
        self._shown = self._parts
        """The same when it was answered last."""
        self.told: int | None = None
        self.drawn = MIN_TIME

    @property
    def empty(self) -> bool:
        return self._parts.closed is None and self._parts.opened is None

    def take(self, step: PeriodStep) -> None:
        self._parts = self._parts.after(step)

    def answer(self, end: int, since: int, whole: bool) -> pa.Table:
        parts = self._parts.tidy
        if not whole:
            return self._told_of(parts, end, since)
        unchanged = parts.newest is None or parts.newest < since
        return self._bounded.schema.empty_table() if unchanged else self._told_of(parts, end)

    def _told_of(self, parts: _Parts, end: int, since: int = MIN_TIME) -> pa.Table:
        if parts.sums is None:
            return self._bounded.schema.empty_table()
        return self._bounded.answer(parts.sums, self._confidence, [end], [end], self._work, since=since)

    def mark(self, end: int) -> None:
        self._parts = self._parts.tidy
        self._shown, self.told = self._parts, end

    def shown(self, end: int) -> pa.Table:
        return self._told_of(self._shown, end)

    # -- what is kept ------------------------------------------------------------------------------

    def tables(self) -> dict[str, pa.Table]:
        return self._parts.tidy.tables()

    def state(self) -> SavedState:
        """What there is, and what was answered last if that is another."""
        tables, facts = (
            self.tables(),
            {"told": self.told, "drawn": self.drawn, "changed": self._shown is not self._parts},
        )
        if facts["changed"]:
            tables |= {f"{_SHOWN}{name}": table for name, table in self._shown.tidy.tables().items()}
        return SavedState(tables, facts)

    def follow_with(self, state: SavedState, ended: Sums | None, at: int) -> None:
        """Go on with what was kept of later rows, up to the time `at`."""
        tables = {name: _fitting(table, len(self._bounded.aggregates), at) for name, table in state.tables.items()}
        now = [(name, table) for name, table in tables.items() if not name.startswith(_SHOWN)]
        shown = [(name.removeprefix(_SHOWN), table) for name, table in tables.items() if name.startswith(_SHOWN)]
        changed = state.facts.get("changed", True)
        alike = self._shown is self._parts and not changed
        parts = self._parts.followed_by(now, ended)
        self._shown = parts if alike else self._shown.followed_by(shown if changed else now, ended)
        self._parts, self.told = parts, state.facts.get("told")
        self.drawn = max(self.drawn, state.facts.get("drawn", MIN_TIME))


def _fitting(table: pa.Table, functions: int, at: int) -> pa.Table:
    """Sums of version 0.1 do not say when the newest row came: any time since the last answer will do."""
    sums = Sums.from_table(table)
    if len(sums.functions) == functions:
        return table
    groups = np.arange(sums.groups)
    times = pa.array(np.full(sums.groups, at)).cast(TIME_TYPE)
    return replace(
        sums,
        functions=(*sums.functions, "max"),
        powers=(*sums.powers, None),
        extremes=(*sums.extremes, Extremes("max", groups, times, sums.groups)),
        ends=(*sums.ends, None),
        whole_numbers=(*sums.whole_numbers, False),
    ).to_table()


class PartRead(NamedTuple):
    """Rows start ≤ n < end, and which fraction of them is read."""

    start: int
    end: int
    keep: float


class Readings(Protocol):
    """How much is read of which rows."""

    @property
    def by(self) -> str | None:
        """The column whose values are kept whole."""
        ...

    def between(self, start: int, end: int) -> list[PartRead]: ...


class PartTally:
    """Reads samples and sums them up by stratum."""

    def __init__(
        self,
        totals: PartTotals,
        bounded: Bounded,
        log: HistoryLog,
        every: int,
        readings: Readings,
        far: FarRows | None,
        work: Work,
    ) -> None:
        self.totals = totals
        self._bounded = bounded
        self._log = log
        self._every = every
        self._readings = readings
        self._far = far
        """Rows that are read in any case; None if nothing is summed up."""
        self._work = work
        self._begin: int | None = None
        """The first row of what is not over; None if nothing is open."""
        self._keep = 1.0
        self._apart = np.zeros(0, np.int64)
        """Of what is not over, the rows that lie far out."""
        self._ranges: dict[tuple[int, int], list[Range]] = {}

    def steps(self, start: int, end: int, upto: int | None) -> Iterator[PeriodStep]:
        for reading in self._readings.between(start, end):
            for low, high in self._blocks(reading):
                yield from self._sum_up(reading._replace(start=low, end=high))
        if upto is None:
            yield from self._end_at(end)

    def _end_at(self, row: int) -> Iterator[PeriodStep]:
        """The size of what is open, if anything is, so that it ends with a row."""
        if self._begin is not None:
            yield PeriodStep(NO_PERIOD, ENDED, self._sizes(self._begin, row))
            self._begin, self._apart = None, self._apart[:0]

    def _sizes(self, begin: int, row: int) -> Sums:
        fields = [pa.field("_row", pa.int64()), *(self._log.schema.field(name) for name in self._bounded.reads)]
        return self._sums(pa.schema(fields).empty_table(), begin, row, self._keep, np.zeros(0, bool))

    def _blocks(self, reading: PartRead) -> Iterator[tuple[int, int]]:
        """Row ranges to read, each with whole files if they are not too large."""
        most = int(_ROWS_PER_READ / max(reading.keep, 1e-6))
        low = reading.start
        for piece in self._log.pieces(reading.start, reading.end):
            high = piece.end
            while high - low > most:
                middle = max(low + most, low + 1)
                yield low, middle
                low = middle
            if high - low > most // 2 or high == reading.end:
                yield low, high
                low = high
        if low < reading.end:
            yield low, reading.end

    def _sum_up(self, reading: PartRead) -> Iterator[PeriodStep]:
        if self._keep != reading.keep:
            yield from self._end_at(reading.start)
        if self._begin is None and reading.keep < 1:
            self._begin, self._keep = reading.start, reading.keep
        sample, far = self._read(reading)
        self._work.rows_read += sample.num_rows
        self._work.bytes_read += sample.nbytes
        times = integers(sample.column(self._log.time_column))
        panes, bounds = pane_runs(frozen(times), self._every)
        for i, period in enumerate(panes.tolist()):
            low, high = int(bounds[i]), int(bounds[i + 1])
            yield from self._of_period(period, sample.slice(low, high - low), far[low:high], reading.keep)

    def _read(self, reading: PartRead) -> tuple[pa.Table, NDArray[np.bool_]]:
        """What is read of rows, in order, and which of them lie far out."""
        start, end, keep = reading
        sample = self._log.read_sample(start, end, self._bounded.reads, keep, self._readings.by)
        apart = None if self._far is None or keep >= 1 else self._far.between(start, end)
        if apart is None or not apart.num_rows:
            return sample, np.zeros(sample.num_rows, bool)
        rows, far = with_aside(sample, apart)
        order = np.argsort(integers(rows.column("_row")))
        return rows.take(pa.array(order)), far[order]

    def _of_period(self, period: int, part: pa.Table, far: NDArray[np.bool_], keep: float) -> Iterator[PeriodStep]:
        rows = integers(part.column("_row"))
        if self._begin is None:
            yield PeriodStep(period, CLOSED, self._sums(part, int(rows[0]), int(rows[-1]) + 1, keep, far))
            return
        over = int(rows[-1]) // STRATUM * STRATUM
        if over > self._begin:
            count = int(np.searchsorted(rows, over))
            yield PeriodStep(period, CLOSED, self._sums(part.slice(0, count), self._begin, over, keep, far[:count]))
            rows, part, far = rows[count:], part.slice(count), far[count:]
            self._begin, self._apart = over, self._apart[:0]
        stratum = self._begin // STRATUM + 1
        yield PeriodStep(period, OPENED, self._sums(part, self._begin, stratum * STRATUM, keep, far, sized=False))
        self._apart = np.append(self._apart, rows[far])

    def _sums(
        self, part: pa.Table, start: int, end: int, keep: float, far: NDArray[np.bool_], *, sized: bool = True
    ) -> Sums:
        by = self._readings.by
        units = None if by is None or keep >= 1 else hashes(part.column(by))
        return self._bounded.sums(
            part,
            start,
            end,
            keep,
            units,
            sized=sized,
            far=far,
            earlier=self._apart if sized else None,
            ranges=None if self._far is None or keep >= 1 else self._ranges_of(self._far, start, end),
            told=self._far is None or self._far.told(start, end),
        )

    def _ranges_of(self, far: FarRows, start: int, end: int) -> list[Range]:
        """Between which values the arguments of all rows lie that do not lie far out."""
        spans = far.spans_of(start, end)
        if spans not in self._ranges:
            self._ranges[spans] = self._bounded.ranges(self._log.schema, far.ranges(*spans))
        return self._ranges[spans]

    # -- state -------------------------------------------------------------------------------------

    def kept(self) -> list[PeriodStep]:
        """The totals as steps, for whoever goes on with them."""
        return [PeriodStep(NO_PERIOD, kind, table) for kind, table in self.totals.tables().items()]

    def state(self, start: int, steps: list[PeriodStep] | None) -> SavedState:
        """The totals, which those of several tasks add up to."""
        state = self.totals.state()
        state.facts |= {"start": start, "begin": self._begin, "keep": self._keep, "apart": self._apart.tolist()}
        return state

    def take_up(self, states: list[SavedState], at: int) -> None:
        for state in states:
            begin = self._begin
            ended = None if begin is None else self._sizes(begin, state.facts["start"])
            self.totals.follow_with(state, ended, at)
            self._begin, self._keep = state.facts["begin"], state.facts["keep"]
            # None were counted apart by a version that did not look for them.
            self._apart = np.array(state.facts.get("apart", []), np.int64)


def _added(first: Sums | None, second: Sums | None) -> Sums | None:
    if first is None or second is None:
        return second if first is None else first
    return first + second


def _open(sums: Sums) -> Sums:
    """The same where it is not known how many rows there are."""
    strata = sums.strata
    partly = strata.keep < 1  # what lies far out is all read
    kind = np.where(partly & (strata.kind == ROWS), OPEN, np.where(strata.kind == KEY, OPEN_KEY, strata.kind))
    return replace(sums, strata=strata._replace(kind=kind, there=np.where(partly, 0, strata.there)))


def _fewer_strata(sums: Sums) -> Sums:
    """Strata taken together in twos, fours and so on, where there are many.

    Their numbers stay those of the first of them, so it makes no difference whether that was done before.
    """
    kind, _, unit, _, _ = sums.strata
    rows = (kind == ROWS) & (unit >= 0)
    if not rows.any():
        return sums
    size = 1
    while int(unit[rows].max()) // size - int(unit[rows].min()) // size >= _MOST_STRATA:
        size *= 2
    if size == 1:
        return sums
    return together([replace(sums, strata=sums.strata._replace(unit=np.where(rows, unit // size * size, unit)))])
