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

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.archive.estimation.strata import KEY, OPEN, OPEN_KEY, ROWS, STRATUM
from anabranch.archive.estimation.sums import Sums, together
from anabranch.archive.facts import Range, with_aside
from anabranch.kernels.hashing import hashes
from anabranch.kernels.spans import pane_runs
from anabranch.kernels.values import frozen, integers
from anabranch.operators.base import HistoryLog, Work
from anabranch.operators.history.bounded import Bounded
from anabranch.operators.history.far import FarRows
from anabranch.operators.history.steps import NO_PERIOD, PeriodStep
from anabranch.operators.state import SavedState

_MOST_STRATA = 64
_ROWS_PER_READ = 1 << 19
CLOSED, OPENED, ENDED = "closed", "opened", "ended"
"""Kinds of steps: sums of strata that are over, with all those that stood apart; sums of rows of the stratum that
goes on; and the sizes of strata that will be over as soon as another row comes."""


class PartTotals:
    """Sums of strata that are over, and of the one that goes on."""

    def __init__(self, bounded: Bounded, confidence: float, work: Work) -> None:
        self._bounded = bounded
        self._work = work
        self._confidence = confidence
        self.closed: Sums | None = None
        self.opened: Sums | None = None
        self.ended: Sums | None = None

    @property
    def empty(self) -> bool:
        return self.closed is None and self.opened is None

    def take(self, step: PeriodStep) -> None:
        sums = step.sums
        if step.kind == ENDED:
            self.ended = _added(self.ended, sums)
            return
        if self.ended is not None or step.kind == CLOSED:
            self._close()
        if step.kind == CLOSED:
            self.closed = _added(self.closed, sums)
        else:
            self.opened = _added(self.opened, sums)

    def _close(self) -> None:
        self.closed = _added(_added(self.closed, self.opened), self.ended)
        self.opened = self.ended = None

    def answer(self, ends: list[int]) -> pa.Table:
        self._tidy()
        sums = _added(self.closed, None if self.opened is None else _open(self.opened))
        if sums is None:
            return self._bounded.schema.empty_table()
        return self._bounded.answer(sums, self._confidence, ends, ends, self._work)

    def follow_with(self, tables: dict[str, pa.Table], ended: Sums | None) -> None:
        """Go on with totals of later rows; `ended`: sizes of what was left open, which is over where they began."""
        self.ended = _added(self.ended, ended)
        for kind, table in tables.items():
            self.take(PeriodStep(NO_PERIOD, kind, table))

    def tables(self) -> dict[str, pa.Table]:
        """What is kept of them."""
        self._tidy()
        parts = {CLOSED: self.closed, OPENED: self.opened, ENDED: self.ended}
        return {name: sums.to_table() for name, sums in parts.items() if sums is not None}

    def _tidy(self) -> None:
        self.closed = None if self.closed is None else _fewer_strata(self.closed)


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
        return SavedState(
            self.totals.tables(),
            {"start": start, "begin": self._begin, "keep": self._keep, "apart": self._apart.tolist()},
        )

    def take_up(self, states: list[SavedState]) -> None:
        """What was kept, by however many tasks."""
        for state in states:
            begin = self._begin
            ended = None if begin is None else self._sizes(begin, state.facts["start"])
            self.totals.follow_with(state.tables, ended)
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
