"""Running totals of rows that are all read, with the types of windowed aggregates.

Rows are folded in segments: of one period of time and one stretch of row numbers. A segment is folded row by row,
and totals add segment after segment. So sums of doubles come out the same to the last bit, however rows were cut
into batches and tasks.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.archive.estimation.strata import STRATUM
from anabranch.kernels.spans import LEVELS
from anabranch.kernels.values import integers, one_array
from anabranch.operators.base import MIN_TIME, LogReader, Work
from anabranch.operators.history.steps import NO_PERIOD, PeriodStep
from anabranch.operators.state import SavedState
from anabranch.operators.windows.program import WindowProgram, kept_rows
from anabranch.windows.panes.partials import Shelf

Ints = NDArray[np.int64]

_STRATA_PER_READ = 8
_PLACE = "__place"


class ExactTotals:
    """One entry per group: what all segments so far add up to."""

    def __init__(self, program: WindowProgram, entries: pa.Table | None = None) -> None:
        self._program = program
        self._entries = program.partials.schema.empty_table() if entries is None else entries
        self._shown = program.partials.schema.empty_table()
        """The entries as they were answered last: those of groups that are new since then are missing at the end."""
        self.told: int | None = None
        self.drawn = MIN_TIME

    @property
    def empty(self) -> bool:
        return bool(self._entries.num_rows == 0)

    @property
    def entries(self) -> pa.Table:
        return self._entries

    def take(self, step: PeriodStep) -> None:
        """Add segments, one after the other."""
        self._entries = self._with(self._entries, step.table)

    def _with(self, entries: pa.Table, segments: pa.Table) -> pa.Table:
        nodes = one_array(segments.column("node")).to_numpy()
        numbers = np.unique(nodes)
        if len(numbers) == 0:
            return entries
        shelf = Shelf()
        shelf.add(entries)
        shelf.add(_with_nodes(segments, (np.searchsorted(numbers, nodes) + 1) * LEVELS))
        every = np.arange(len(numbers) + 1) * LEVELS
        (together,) = self._program.partials.combine(shelf, every, np.array([0, len(every)]), np.zeros(1, np.int64))
        return together

    def answer(self, end: int, since: int, whole: bool) -> pa.Table:
        return self._told_of(self._entries.filter(pa.array(self._times(self._entries) >= since)), end)

    def _told_of(self, entries: pa.Table, end: int) -> pa.Table:
        times = np.full(entries.num_rows, end, np.int64)
        return self._program.answer(entries, times, 0, times)

    def _times(self, entries: pa.Table) -> Ints:
        """When the newest row of each group came."""
        newest, numbers = self._program.aggregates[-1]
        assert newest is not None
        states = self._program.partials.state_columns(entries)
        return integers(newest.finish([states[number] for number in numbers]))

    # -- the last answer ---------------------------------------------------------------------------

    def mark(self, end: int) -> None:
        self._shown, self.told = self._entries, end

    def shown(self, end: int) -> pa.Table:
        return self._told_of(self._shown, end)

    @property
    def groups_shown(self) -> int:
        return int(self._shown.num_rows)

    def changed(self) -> pa.Table:
        """The entries of the last answer that are others now, with their places."""
        there = self._shown.num_rows
        assert self.told is not None
        places = np.flatnonzero(self._times(self._entries.slice(0, there)) >= self.told)
        return self._shown.take(pa.array(places)).append_column(_PLACE, pa.array(places))

    def remember(self, told: int, there: int, changed: pa.Table) -> None:
        """The last answer again: that of a time, about so many groups, of which some have changed since."""
        entries = changed.drop_columns([_PLACE])
        where = np.arange(there)
        where[integers(changed.column(_PLACE))] = there + np.arange(changed.num_rows)
        both = pa.concat_tables([self._entries.slice(0, there), entries])
        self._shown, self.told = both.take(pa.array(where)), told

    def follow_with(self, segments: pa.Table) -> None:
        """Go on with segments of later rows; some may have been there when it was answered last."""
        if self.told is not None and segments.num_rows:
            before = pa.array(self._times(segments) < self.told)
            self._shown = self._with(self._shown, segments.filter(before))
        self._entries = self._with(self._entries, segments)


class ExactTally:
    """Reads rows and folds them into segments; the last one stays open for the rows to come."""

    def __init__(self, program: WindowProgram, reader: LogReader, every: int, work: Work) -> None:
        self._program = program
        self._reader = reader
        self._every = every
        self._work = work
        self.totals = ExactTotals(program)
        self._open: pa.Table = program.partials.schema.empty_table()
        self._open_segment: tuple[int, int] | None = None
        """Its period, and its stretch of row numbers."""

    def steps(self, start: int, end: int, upto: int | None) -> Iterator[PeriodStep]:
        """The segments of the rows start ≤ n < end that are over once time has reached `upto`.

        None: others go on with the next rows, and all segments are over.
        """
        for low, high in _blocks(start, end):
            yield from self._fold(low, high)
        if self._open_segment is not None and (upto is None or (self._open_segment[0] + 1) * self._every <= upto):
            yield PeriodStep(self._open_segment[0], "segments", self._open)
            self._open, self._open_segment = self._program.partials.schema.empty_table(), None

    def _fold(self, low: int, high: int) -> Iterator[PeriodStep]:
        program = self._program
        table = self._reader.read(low, high, program.reads)
        self._work.rows_read += table.num_rows
        self._work.bytes_read += table.nbytes
        rows = np.arange(low, low + table.num_rows)
        if program.where is not None:
            keep = kept_rows(program.where, table)
            table, rows = table.filter(pa.array(keep)), rows[keep]
            self._work.rows_thrown += int(np.count_nonzero(~keep))
        if len(rows) == 0:
            return
        periods = integers(table.column(program.time_column)) // self._every
        stretches = rows // STRATUM
        changes = np.flatnonzero((np.diff(periods) != 0) | (np.diff(stretches) != 0)) + 1
        first = np.append(0, changes)
        bounds = np.append(first, len(rows))
        segments = list(zip(periods[first].tolist(), stretches[first].tolist(), strict=True))
        goes_on = self._open_segment == segments[0]
        if self._open_segment is not None and not goes_on:
            segments.insert(0, self._open_segment)
        numbers = np.arange(len(segments) - len(first), len(segments))
        keys = [key.evaluate(table) for key in program.keys]
        values = [value.evaluate(table) for value in program.arguments]
        entries = program.partials.fold(self._open, numbers, bounds, keys, values)
        yield from self._complete(entries, segments)

    def _complete(self, entries: pa.Table, segments: list[tuple[int, int]]) -> Iterator[PeriodStep]:
        """All but the last segment, by period."""
        nodes = one_array(entries.column("node")).to_numpy() // LEVELS
        at = 0
        for period, group in itertools.groupby(range(len(segments) - 1), key=lambda i: segments[i][0]):
            end = int(np.searchsorted(nodes, list(group)[-1], side="right"))
            yield PeriodStep(period, "segments", entries.slice(at, end - at))
            at = end
        last = entries.slice(at)
        self._open, self._open_segment = _with_nodes(last, np.zeros(last.num_rows, np.int64)), segments[-1]

    # -- state -------------------------------------------------------------------------------------

    def kept(self) -> list[PeriodStep]:
        """The totals as steps, for whoever goes on with them."""
        return [PeriodStep(NO_PERIOD, "segments", self.totals.entries)]

    def state(self, start: int, steps: list[PeriodStep] | None) -> SavedState:
        """The totals, or where a task had none to go on with, its segments one by one."""
        empty = self._program.partials.schema.empty_table()
        tables = {"segments": _renumbered([empty, *(step.table for step in steps or [])]), "open": self._open}
        facts: dict[str, Any] = {"open": self._open_segment}
        if steps is None:
            tables["totals"] = self.totals.entries
            if self.totals.told is not None:
                tables["changed"] = self.totals.changed()
                facts |= {"told": self.totals.told, "shown": self.totals.groups_shown}
        return SavedState(tables, facts)

    def take_up(self, states: list[SavedState], at: int) -> None:
        for state in states:
            if "totals" in state.tables:
                self.totals = ExactTotals(self._program, self._fitting(state.tables["totals"], at))
            if "changed" in state.tables:
                facts = state.facts
                self.totals.remember(facts["told"], facts["shown"], state.tables["changed"])
            self.totals.follow_with(self._fitting(state.tables["segments"], at))
            segment = state.facts["open"]
            self._open = self._fitting(state.tables["open"], at)
            self._open_segment = None if segment is None else tuple(segment)

    def _fitting(self, entries: pa.Table, at: int) -> pa.Table:
        """Entries of version 0.1 do not say when the newest row came: any time since the last answer will do."""
        fields = list(self._program.partials.schema)[entries.num_columns :]
        for place, field in enumerate(fields, start=1):
            known = at if place == len(fields) else 1  # before the time, how many rows have one
            entries = entries.append_column(field, pa.array(np.full(entries.num_rows, known, np.int64)))
        return entries


def _with_nodes(entries: pa.Table, nodes: Ints) -> pa.Table:
    return entries.set_column(0, entries.schema.field(0), pa.array(nodes, pa.int64()))


def _renumbered(tables: list[pa.Table]) -> pa.Table:
    """Entries of several tables one after the other, their segments numbered on."""
    numbered, base = [], 0
    for table in tables:
        nodes = one_array(table.column("node")).to_numpy()
        _, places = np.unique(nodes, return_inverse=True)
        numbered.append(_with_nodes(table, (places + base) * LEVELS))
        base += int(places.max(initial=-1)) + 1
    return pa.concat_tables(numbered).combine_chunks()


def _blocks(start: int, end: int) -> Iterator[tuple[int, int]]:
    """Row ranges to read, cut where stretches of numbers are."""
    size = STRATUM * _STRATA_PER_READ
    cuts = [start, *range((start // size + 1) * size, end, size), end]
    return itertools.pairwise(cuts) if start < end else iter(())
