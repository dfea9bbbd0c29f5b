"""Running totals of rows that are all read, with the types of windowed aggregates.

Rows are folded in segments: of one period of time and one stretch of row numbers. A segment is folded row by row,
and totals add segment after segment. So sums of doubles come out the same to the last bit, however rows were cut
into batches and tasks.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.archive.estimation.strata import STRATUM
from anabranch.kernels.spans import LEVELS
from anabranch.kernels.values import integers, one_array
from anabranch.operators.base import LogReader, Work
from anabranch.operators.history.steps import NO_PERIOD, PeriodStep
from anabranch.operators.state import SavedState
from anabranch.operators.windows.program import WindowProgram, kept_rows
from anabranch.windows.panes.partials import Shelf

Ints = NDArray[np.int64]

_STRATA_PER_READ = 8


class ExactTotals:
    """One entry per group: what all segments so far add up to."""

    def __init__(self, program: WindowProgram, entries: pa.Table | None = None) -> None:
        self._program = program
        self._entries = program.partials.schema.empty_table() if entries is None else entries

    @property
    def empty(self) -> bool:
        return bool(self._entries.num_rows == 0)

    def take(self, step: PeriodStep) -> None:
        """Add segments, one after the other."""
        segments = np.unique(one_array(step.table.column("node")).to_numpy())
        if len(segments) == 0:
            return
        numbered = np.searchsorted(segments, one_array(step.table.column("node")).to_numpy()) + 1
        shelf = Shelf()
        shelf.add(self._entries)
        shelf.add(_with_nodes(step.table, numbered * LEVELS))
        nodes = np.arange(len(segments) + 1) * LEVELS
        (self._entries,) = self._program.partials.combine(
            shelf, nodes, np.array([0, len(nodes)]), np.zeros(1, np.int64)
        )

    def answer(self, ends: list[int]) -> pa.Table:
        groups = self._entries.num_rows
        again = pa.array(np.tile(np.arange(groups), len(ends)))
        times = np.repeat(np.array(ends, np.int64), groups)
        return self._program.answer(self._entries.take(again), times, 0, times)

    @property
    def entries(self) -> pa.Table:
        return self._entries


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
        segments = _renumbered([empty, *(step.table for step in steps or [])])
        totals = {} if steps is not None else {"totals": self.totals.entries}
        return SavedState({"segments": segments, "open": self._open, **totals}, {"open": self._open_segment})

    def take_up(self, states: list[SavedState]) -> None:
        """What was kept, by however many tasks."""
        for state in states:
            if "totals" in state.tables:
                self.totals = ExactTotals(self._program, state.tables["totals"])
            self.totals.take(PeriodStep(NO_PERIOD, "segments", state.tables["segments"]))
            segment = state.facts["open"]
            self._open, self._open_segment = state.tables["open"], None if segment is None else tuple(segment)


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
