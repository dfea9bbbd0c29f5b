"""One task of a windowed aggregate: from an offset to an offset of its stream."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.kernels.hashing import hashes_of_rows
from anabranch.kernels.spans import LEVELS, pane_runs
from anabranch.kernels.values import Column, frozen, integers, one_array
from anabranch.operators.base import MIN_TIME, Inputs, Offset
from anabranch.operators.windows.program import WindowProgram, kept_rows
from anabranch.operators.windows.values import NO_HINTS, Hints, WindowValues, live
from anabranch.windows.panes.axis import Nodes, Panes, children, node_end, node_start
from anabranch.windows.panes.partials import Shelf
from anabranch.windows.panes.scratch import Scratch

_ROWS_PER_READ = 1 << 21
_ROWS_PER_BATCH = 1 << 17


@dataclass(frozen=True)
class WindowShare:
    """Which windows and groups a task answers: every k-th window, and groups by the hash of their keys."""

    every: int = 1
    part: int = 0
    parts: int = 1
    hints: Hints = NO_HINTS

    @property
    def suffix(self) -> str:
        return "" if self.parts == 1 else f"-{self.part}-of-{self.parts}"


class Asked(NamedTuple):
    """Windows that are answered, and how."""

    panes: Panes
    program: WindowProgram


class WindowRun:
    """Folds the rows of a task block by block and answers windows as they complete.

    The axis is time or the row number. Panes below `_closed` are complete; the pane being filled is
    in `_open`. Windows up to `_answered` on the axis are answered.

    Windows of several sizes may be asked for: they share the panes, which are as long for all of them, and all
    programs fold the same. An index of values is kept for one size only.
    """

    def __init__(self, asked: Sequence[Asked], inputs: Inputs, start: Offset, end: Offset, share: WindowShare) -> None:
        self._panes, program = asked[0]
        self._several = asked
        self._program = program
        self._reader = inputs.readers[program.stream]
        self._work = inputs.work
        self._start, self._end = start, end
        self._share = share
        self._memory = inputs.window_memory
        schema = program.partials.schema
        name = program.fingerprint + share.suffix
        folder = inputs.folder(name)
        self._scratch = None if folder is None else Scratch(folder, schema)
        self._shelf = Shelf()
        self._fresh: list[pa.Table] = []
        self._open: pa.Table = schema.empty_table()
        self._values: WindowValues | None = None

    def batches(self, keep: bool) -> Iterator[pa.RecordBatch]:
        """The answer; with `keep`, leaves in the scratch what the next batch begins with."""
        if self._start.time == MIN_TIME and self._end.row <= self._start.row and not self._program.by_rows:
            return
        self._answered = begin = self._axis(self._start)
        reached = max(begin, self._end.row if self._program.by_rows else self._end.time)
        row = self._recall(begin, reached)
        if self._program.questions:
            self._values = self._live_values(begin, row)
        first = self._closed
        for low, high in _blocks(row, self._end.row):
            axis, times = self._fold(low, high)
            if high == self._end.row:
                axis = reached
            for table in self._advance(axis, low, times):
                yield from table.to_batches(max_chunksize=_ROWS_PER_BATCH)
        if keep and self._scratch is not None:
            self._keep(self._scratch, begin, first, reached)
            if self._values is not None and not self._values.crowded:
                self._work.keeps(self._values.rows, self._values.nbytes)
                live.put(self._scratch.name, self._values)

    def _axis(self, offset: Offset) -> int:
        if self._program.by_rows:
            return offset.row
        if offset.time != MIN_TIME:
            return offset.time
        # Nothing was seen yet: the first row says when the stream begins.
        times = self._reader.read(offset.row, offset.row + 1, [self._program.time_column]).column(0)
        return int(times[0].value)

    def _row_of_pane(self, pane: int) -> int:
        at = pane * self._panes.length
        if self._program.by_rows:
            return min(max(at, self._reader.first_row()), self._start.row)
        return self._reader.row_at_time(at, self._start.row)

    # -- what was folded before ----------------------------------------------------------------------

    def _recall(self, begin: int, reached: int) -> int:
        """Take up what earlier batches left, and say from which row on to fold."""
        pane, oldest = self._panes.of(begin), self._first_needed(begin)
        self._closed = pane
        wanted = self._wanted(begin, reached, oldest, pane)
        if len(wanted):
            tables = self._scratch.nodes(wanted) if self._scratch else None
            if tables is None:
                self._closed = oldest
                row = self._row_of_pane(oldest)
                if row < self._row_of_pane(pane):
                    return row
            for table in tables or []:
                self._shelf.add(table)
        opened = self._scratch.open_pane(self._start.row, pane) if self._scratch else None
        if opened is None:
            return self._row_of_pane(max(pane, oldest))
        row, self._open = opened
        return row

    def _wanted(self, begin: int, reached: int, oldest: int, pane: int) -> Nodes:
        """The nodes before `pane` that windows, or nodes, of this task are made of."""
        if oldest >= pane:
            return np.zeros(0, np.int64)
        high = self._panes.of(reached)
        nodes = children(max((panes for panes, _ in self._several), key=lambda p: p.top).straddling(oldest, pane, high))
        for panes, _ in self._several:
            ends = panes.ends(begin, reached, np.zeros(0, np.int64), pane)
            nodes = np.union1d(nodes, panes.cover(ends)[0])
        return nodes[node_end(nodes) <= pane]

    def _live_values(self, begin: int, row: int) -> WindowValues:
        """The index of the window that is open at `begin`, with the rows before `row` taken in."""
        program, panes = self._program, self._panes
        first = self._row_of_pane(panes.first_needed(begin))
        values = live.take(self._scratch.name) if self._scratch else None
        if values is None or values.reached > begin or not first <= values.next_row <= self._start.row:
            values = WindowValues(panes, program.questions, program.partials.key_types, self._share.hints)
            values.next_row = first
        values.limit(self._memory)
        for low, high in _blocks(values.next_row, row):
            if low < high:
                rows = self._read(low, high)
                self._take(values, rows, low, high)
                values.reach(min(rows.reached, begin))
        return values

    def _take(self, values: WindowValues, rows: _Rows, low: int, high: int) -> None:
        """Give the index the rows that it has not seen."""
        if values.next_row > low:
            rows = rows.since(values.next_row)
        if high > values.next_row:
            values.take(rows.axis, rows.keys, rows.arguments, high)

    # -- folding rows ----------------------------------------------------------------------------------

    def _read(self, low: int, high: int) -> _Rows:
        """The rows low ≤ n < high that this task folds."""
        program, work = self._program, self._work
        table = self._reader.read(low, high, program.reads)
        work.rows_read += table.num_rows
        work.bytes_read += table.nbytes
        times = integers(table.column(program.time_column))
        numbers = np.arange(low, low + table.num_rows)
        reached = high if program.by_rows else int(times[-1])
        if program.where is not None:
            keep = kept_rows(program.where, table)
            if not keep.all():
                table, numbers = table.filter(pa.array(keep)), numbers[keep]
                work.rows_thrown += self._counted(~keep[max(self._start.row - low, 0) :])
        axis = numbers if program.by_rows else integers(table.column(program.time_column))
        if all(panes.per_slide > panes.per_window for panes, _ in self._several):
            numbered = axis // self._panes.length
            used = np.logical_or.reduce([panes.used(numbered) for panes, _ in self._several])
            if not used.all():
                work.rows_thrown += self._counted(~used & (numbers >= self._start.row))
                table, numbers, axis = table.filter(pa.array(used)), numbers[used], axis[used]
        keys: list[Column] = [key.evaluate(table) for key in program.keys]
        if self._share.parts > 1:
            own = hashes_of_rows(keys, table.num_rows) % np.uint64(self._share.parts) == self._share.part
            mine = pa.array(own)
            table, numbers, axis = table.filter(mine), numbers[own], axis[own]
            keys = [key.filter(mine) for key in keys]
        arguments: list[Column] = [value.evaluate(table) for value in program.arguments]
        return _Rows(axis, numbers, keys, arguments, times, reached)

    def _counted(self, thrown: NDArray[np.bool_]) -> int:
        """Rows thrown are counted by the first of the tasks that share them."""
        return int(np.count_nonzero(thrown)) if self._share.part == 0 else 0

    def _fold(self, low: int, high: int) -> tuple[int, NDArray[np.int64]]:
        """Fold rows low ≤ n < high; gives how far the axis has come, and the times of all rows."""
        if low >= high:
            return self._answered, np.zeros(0, np.int64)
        rows = self._read(low, high)
        panes, bounds = pane_runs(frozen(rows.axis), self._panes.length)
        self._open = self._program.partials.fold(self._open, panes, bounds, rows.keys, rows.arguments)
        if self._values is not None:
            self._take(self._values, rows, low, high)
        return rows.reached, rows.times

    # -- answering windows -----------------------------------------------------------------------------

    def _advance(self, axis: int, low: int, times: NDArray[np.int64]) -> Iterator[pa.Table]:
        """Close the panes before `axis` and answer the windows that end at or before it."""
        high = self._panes.of(axis)
        nodes = one_array(self._open.column("node")).to_numpy()
        split = int(np.searchsorted(nodes, high * LEVELS))
        done, self._open = self._open.slice(0, split), self._open.slice(split)
        if len(self._several) == 1 and self._panes.per_window == 1:
            if done.num_rows:
                ends = (nodes[:split] // LEVELS + 1) * self._panes.length
                wanted = self._wants(self._panes, ends)
                done = done if wanted.all() else done.filter(pa.array(wanted))
                yield self._answer(self._several[0], done, ends[wanted], low, times)
        else:
            yield from self._slide(done, np.unique(nodes[:split] // LEVELS), high, axis, low, times)
        if self._values is not None:
            self._values.reach(axis)
            self._values.fit()
        self._closed, self._answered = max(self._closed, high), max(self._answered, axis)

    def _slide(
        self, done: pa.Table, filled: NDArray[np.int64], high: int, axis: int, low: int, times: NDArray[np.int64]
    ) -> Iterator[pa.Table]:
        self._shelve(done)
        oldest = self._first_needed(self._answered)
        for level in range(1, max(panes.top for panes, _ in self._several) + 1):
            index = np.unique(np.append(self._closed, filled) >> 2 * level)
            parents = index[(index < high >> 2 * level) & (index << 2 * level >= oldest)] * LEVELS + level
            parts = children(parents)
            for table in self._program.partials.combine(self._shelf, parts, np.arange(0, len(parts) + 1, 4), parents):
                self._shelve(table)
        before = self._closed if oldest < self._closed else None
        for asked in self._several:
            panes = asked.panes
            ends = panes.ends(self._answered, axis, filled, before)
            ends = ends[self._wants(panes, ends * panes.length)]
            if len(ends):
                members, bounds = panes.cover(ends)
                for table in self._program.partials.combine(self._shelf, members, bounds, ends):
                    at = one_array(table.column("node")).to_numpy() * panes.length
                    yield self._answer(asked, table, at, low, times)
        needed = self._first_needed(max(axis, self._answered))
        self._shelf.forget_before(needed)
        self._fresh = [table for table in self._fresh if _starts(table)[-1] >= needed]

    def _shelve(self, table: pa.Table) -> None:
        if table.num_rows:
            self._shelf.add(table)
            self._fresh.append(table)

    def _first_needed(self, axis: int) -> int:
        """The first pane of all windows that are not complete at `axis`."""
        return min(panes.first_needed(axis) for panes, _ in self._several)

    def _wants(self, panes: Panes, ends: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which windows are to be answered: every k-th one."""
        wanted: NDArray[np.bool_] = ends % (panes.slide * self._share.every) == 0
        return wanted

    def _answer(
        self, asked: Asked, entries: pa.Table, ends: NDArray[np.int64], low: int, times: NDArray[np.int64]
    ) -> pa.Table:
        at = times[ends - 1 - low] if self._program.by_rows else ends
        values = [] if self._values is None else self._ask(self._values, entries, ends)
        return asked.program.answer(entries, ends, asked.panes.size, at, values, partial=self._share.parts > 1)

    def _ask(self, values: WindowValues, entries: pa.Table, ends: NDArray[np.int64]) -> list[pa.Array]:
        """Window by window, what the index says of each group; entries stand in the order of windows."""
        groups = values.ids(self._program.partials.keys(entries), entries.num_rows)
        first = np.flatnonzero(np.diff(ends, prepend=ends[0] - 1)) if len(ends) else np.zeros(0, np.int64)
        asked = []
        for low, high in itertools.pairwise([*first.tolist(), len(ends)]):
            values.reach(int(ends[low]))
            asked.append(values.ask(groups[low:high]))
        return values.answers(asked or [values.ask(groups)])

    # -- what the next batch begins with ---------------------------------------------------------------

    def _keep(self, scratch: Scratch, begin: int, first: int, reached: int) -> None:
        high, oldest = self._panes.of(reached), self._first_needed(reached)
        low = max(first, oldest)
        if low < high:
            entries = pa.concat_tables([self._program.partials.schema.empty_table(), *self._fresh])
            scratch.keep_nodes(low, high, oldest, entries.filter(pa.array(_starts(entries) >= oldest)))
        if self._open.num_rows:
            scratch.keep_open(self._end.row, high, self._open)
        scratch.clean(self._start.row, self._first_needed(begin))
        self._work.keeps(*scratch.size())


class _Rows(NamedTuple):
    """Rows that are folded, and the times of all rows they were taken from."""

    axis: NDArray[np.int64]
    numbers: NDArray[np.int64]
    keys: list[Column]
    arguments: list[Column]
    times: NDArray[np.int64]
    reached: int

    def since(self, row: int) -> _Rows:
        at = int(np.searchsorted(self.numbers, row))
        keys, arguments = [k.slice(at) for k in self.keys], [a.slice(at) for a in self.arguments]
        return self._replace(axis=self.axis[at:], numbers=self.numbers[at:], keys=keys, arguments=arguments)


def _starts(entries: pa.Table) -> Nodes:
    return node_start(one_array(entries.column("node")).to_numpy())


def _blocks(begin: int, end: int) -> list[tuple[int, int]]:
    """Row ranges to read one after the other; one, empty, if there is nothing to read."""
    cuts = [*range(begin, end, _ROWS_PER_READ), end]
    return list(itertools.pairwise(cuts)) or [(begin, end)]
