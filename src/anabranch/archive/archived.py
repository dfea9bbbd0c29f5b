"""Reading an archive: all rows in order, or those that a reduced read keeps, for as few bytes as its layout allows."""

from __future__ import annotations

import bisect
import contextlib
import itertools
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from anabranch.archive.declaration import ROW, ArchiveInfo
from anabranch.archive.facts import Aside, Ranges, united
from anabranch.archive.files import RunFile, by_number, table_schema
from anabranch.archive.layouts import COPY, PRIMARY, Layout, ReadPlace, layout_of
from anabranch.archive.marks import mark
from anabranch.archive.runs import Run
from anabranch.archive.table import RunTable
from anabranch.errors import DataError, StreamError
from anabranch.kernels.sampling import Lots, kept, key_lots, lots
from anabranch.kernels.values import integers
from anabranch.log.lost import Loss
from anabranch.log.offset import Piece
from anabranch.log.storage import Storage

_LOOKS = 4
"""How often rows are looked for whose files went away."""
_KEPT_ASIDE, _KEPT_ASIDE_ROWS = 4096, 1 << 19
"""Runs of which rows that lie far out are held, and how many rows of all of them."""
_KEPT_RUNS = 6
"""Runs, or what is kept of them, that were just put in order: a scan in slices comes back to them."""


class _Part(NamedTuple):
    """What a reduced read keeps of a run, in order, with the lots."""

    keep: float
    rows: pa.Table
    drawn: Lots | None
    """None: everything was kept, and nobody asked for the lots."""

    def gives(self, keep: float) -> bool:
        """Whether what another read keeps is here, and can be told."""
        return self.keep >= keep and (self.drawn is not None or keep >= 1)


class ArchiveReader:
    """The rows of one archive. `refresh` says what is there; reading may be done by several threads."""

    def __init__(self, storage: Storage, info: ArchiveInfo, schema: pa.Schema, time_column: str) -> None:
        self.info = info
        self.bytes_read = 0
        """Bytes of files that were read, footers included."""
        self.storage = storage
        self._schema = table_schema(schema)
        self._time_column = time_column
        self._tables: dict[str, RunTable] = {}
        self._copies: dict[str, dict[int, Run]] = {}
        self._layout: Layout = layout_of(info, time_column, storage)
        self._mutex = threading.RLock()
        self._parts: OrderedDict[tuple[str, str, tuple[str, ...], str | None], _Part] = OrderedDict()
        self._aside: OrderedDict[tuple[str, str, tuple[str, ...]], Aside] = OrderedDict()
        self._aside_rows = 0
        self.refresh()

    @property
    def layout(self) -> Layout:
        return self._layout

    def refresh(self) -> None:
        """Look what is archived by now."""
        with self._mutex:
            self._layout = layout_of(self.info, self._time_column, self.storage)
            for name in self._layout.tables():
                table = self._tables.get(name)
                if table is None:
                    table = RunTable(self.storage.child(name))
                    if not table.exists():
                        continue
                    self._tables[name] = table
                try:
                    table.refresh()
                except DataError:
                    if name == PRIMARY:
                        raise
                    del self._tables[name]  # a copy that is made anew just now
                    self._copies.pop(name, None)
                    continue
                if name != PRIMARY:
                    self._copies[name] = {run.first: run for run in table.runs}
            for gone in self._copies.keys() - set(self._layout.tables()):
                del self._copies[gone], self._tables[gone]

    @property
    def block(self) -> float:
        """The part of the rows that a block has: no reduced read touches less."""
        return self._layout.block

    def tables(self) -> dict[str, RunTable]:
        return self._tables

    @property
    def runs(self) -> list[Run]:
        """The runs of all rows."""
        table = self._tables.get(PRIMARY)
        return table.runs if table is not None else []

    @property
    def first(self) -> int:
        return self.runs[0].first if self.runs else self.end

    @property
    def end(self) -> int:
        """Up to which row the stream is archived."""
        table = self._tables.get(PRIMARY)
        return self.info.first_row if table is None or table.end is None else table.end

    def _between(self, start: int, end: int) -> list[Run]:
        runs = self.runs
        at = max(bisect.bisect_right(runs, start, key=lambda r: r.first) - 1, 0)
        between = []
        for run in runs[at:]:
            if run.first >= end:
                break
            if run.end > start:
                between.append(run)
        return between

    def _covering(self, start: int, end: int) -> list[Run]:
        """The runs of all those rows; that some are gone is an error, never silently missing."""
        runs = self._between(start, end)
        if start < end and (not runs or runs[0].first > start or runs[-1].end < end):
            raise StreamError(
                "ROWS_ARE_GONE",
                f'rows {start} to {end} of stream "{self.info.stream}" are not all in its archive "{self.info.name}"',
                hint="raise KEEP, or start from a later row",
            )
        for before, after in itertools.pairwise(runs):
            if before.end != after.first:
                raise self._missing(Loss(before.end, after.first), f"no file of {self.storage.path} holds them")
        return runs

    def _missing(self, rows: Loss, detail: str) -> StreamError:
        return StreamError(
            "ROWS_ARE_MISSING",
            f'{rows} of stream "{self.info.stream}" are missing from its archive "{self.info.name}"',
            detail=detail,
            hint="anabranch check says what else is, anabranch check --repair what can be done",
        )

    def pieces(self, start: int, end: int) -> list[Piece]:
        """The runs between two rows, cut to them."""
        return [
            Piece(max(run.first, start), min(run.end, end), run.time_first, run.time_last)
            for run in self._between(start, end)
        ]

    def files(self, since: int | None, until: int | None) -> list[str]:
        """The files that hold all rows of the times since ≤ t < until, and others."""
        table = self.storage.child(PRIMARY)
        return [
            table.full(run.path)
            for run in self.runs
            if (since is None or run.time_last >= since) and (until is None or run.time_first < until)
        ]

    # -- all rows ----------------------------------------------------------------------------------

    def read(self, start: int, end: int, columns: Sequence[str]) -> pa.Table:
        """Rows numbered start ≤ n < end, in order."""
        return self._looking_again(lambda: self._read(start, end, columns))

    def _read(self, start: int, end: int, columns: Sequence[str]) -> pa.Table:
        pieces = []
        for run in self._covering(start, end):
            low, high = max(start, run.first), min(end, run.end)
            rows, _ = self._whole_part(ReadPlace(PRIMARY, run, run.blocks), columns, 1.0, None)
            pieces.append(rows.select(list(columns)).slice(low - run.first, high - low))
        schema = pa.schema([self._schema.field(name) for name in columns])
        return pa.concat_tables(pieces) if pieces else schema.empty_table()

    def _blocks(self, choice: ReadPlace, low: int, high: int, columns: Sequence[str]) -> pa.Table:
        """Rows of blocks in order, with their numbers in a first column."""
        try:
            file = RunFile(self.storage.child(choice.table), choice.run)
            groups = file.groups(choice.blocks)
            if self._layout.in_order(choice.table) and (low > choice.run.first or high < choice.run.end):
                groups = file.span(groups, low, high)
            wanted = [ROW, *(name for name in columns if name != ROW)]
            table = file.read(groups, wanted, self._schema)
            ordered = by_number(table, choice.run)
        except FileNotFoundError:
            raise
        except (pa.ArrowException, OSError, IndexError, SystemError) as problem:
            raise StreamError(
                "SEGMENT_IS_DAMAGED",
                f'{Loss(choice.run.first, choice.run.end)} of stream "{self.info.stream}" cannot be read from its '
                f'archive "{self.info.name}"',
                detail=f"{self.storage.child(choice.table).full(choice.run.path)}: {problem}",
                hint="anabranch check says what else is damaged, anabranch check --repair what can be done",
            ) from None
        with self._mutex:
            self.bytes_read += file.bytes_read
        return ordered

    # -- reduced reads -----------------------------------------------------------------------------

    def read_sample(
        self, start: int, end: int, columns: Sequence[str], keep: float, by: str | None = None, again: bool = False
    ) -> pa.Table:
        """Those of the rows start ≤ n < end that a reduced read keeps, with their numbers in a first column.

        `again`: rows of the same files will be wanted soon, so what is decoded of them is held for a while.
        """
        return self._looking_again(lambda: self._read_sample(start, end, columns, keep, by, again))

    def _read_sample(
        self, start: int, end: int, columns: Sequence[str], keep: float, by: str | None, again: bool
    ) -> pa.Table:
        wanted = list(dict.fromkeys([*columns, *([by] if by is not None else [])]))
        runs = self._covering(start, end)
        parts, taken = [], []
        for run in runs:
            choice = self._choose(run, keep, by)
            taken.append(choice.table)
            if choice.blocks:
                parts.append(self._kept(choice, max(start, run.first), min(end, run.end), wanted, keep, by, again))
        if self._layout.name == "on_read_modify" and by is None and keep < 1 and runs:
            self._mark(runs, taken, keep)
        schema = pa.schema([self._schema.field(name) for name in (ROW, *columns)])
        return pa.concat_tables([part.select(schema.names) for part in parts]) if parts else schema.empty_table()

    def aside(self, start: int, end: int, columns: Sequence[str], keep: float, by: str | None = None) -> Aside:
        """Of the rows start ≤ n < end those that lie far out, and the ranges of the others.

        `keep` and `by` are those of the read it is for, which has the same files open.
        """
        for _ in range(_LOOKS):
            try:
                return self._all_aside(start, end, columns, keep, by)
            except FileNotFoundError:
                self.refresh()
        return self._all_aside(start, end, columns, keep, by)

    def _all_aside(self, start: int, end: int, columns: Sequence[str], keep: float, by: str | None) -> Aside:
        tables: list[pa.Table] = []
        ranges: list[Ranges] = []
        told = True
        for run in self._covering(start, end):
            aside = self._aside_of(self._choose(run, keep, by), columns)
            ranges.append(aside.ranges)
            told &= aside.told
            rows = aside.rows
            if start > run.first or end < run.end:
                numbers = integers(rows.column(ROW))
                rows = rows.filter(pa.array((numbers >= start) & (numbers < end)))
            tables.append(rows)
        schema = pa.schema([self._schema.field(name) for name in (ROW, *columns)])
        return Aside(pa.concat_tables(tables) if tables else schema.empty_table(), united(columns, ranges), told)

    def _aside_of(self, choice: ReadPlace, columns: Sequence[str]) -> Aside:
        key = (choice.table, choice.run.path, tuple(columns))
        with self._mutex:
            aside = self._aside.get(key)
            if aside is not None:
                self._aside.move_to_end(key)
                return aside
        file = RunFile(self.storage.child(choice.table), choice.run)
        rows = file.read(file.apart(), [ROW, *columns], self._schema)
        aside = Aside(rows, file.ranges(columns), file.has_facts)
        with self._mutex:
            self.bytes_read += file.bytes_read
            if key not in self._aside:  # another thread may have been faster
                self._aside_rows += aside.rows.num_rows
            self._aside[key] = aside
            while len(self._aside) > 1 and (len(self._aside) > _KEPT_ASIDE or self._aside_rows > _KEPT_ASIDE_ROWS):
                self._aside_rows -= self._aside.popitem(last=False)[1].rows.num_rows
        return aside

    def without_facts(self) -> int:
        """How many runs do not say which of their rows lie far out."""
        table = self.storage.child(PRIMARY)
        return sum(not RunFile(table, run).has_facts for run in self.runs)

    def _choose(self, run: Run, keep: float, by: str | None) -> ReadPlace:
        if keep <= 0:
            return ReadPlace(PRIMARY, run, 0)
        return self._layout.choose(run, keep, by, self._copies)

    def _kept(
        self, choice: ReadPlace, low: int, high: int, columns: Sequence[str], keep: float, by: str | None, again: bool
    ) -> pa.Table:
        some = low > choice.run.first or high < choice.run.end
        if (some or again) and not self._layout.in_order(choice.table):
            rows, drawn = self._whole_part(choice, columns, keep, by)
        else:
            rows = self._blocks(choice, low, high, columns)
            drawn = self._drawn(rows, by) if keep < 1 else None
        if some:
            numbers = integers(rows.column(ROW))
            first, last = np.searchsorted(numbers, [low, high])
            rows, drawn = rows.slice(first, last - first), None if drawn is None else drawn[first:last]
        if drawn is None:
            return rows
        chosen = kept(drawn, keep)
        return rows if chosen.all() else rows.filter(pa.array(chosen))

    def _drawn(self, rows: pa.Table, by: str | None) -> Lots:
        if by is None:
            return lots(integers(rows.column(ROW)), self.info.seed)
        return key_lots(rows.column(by), self.info.seed)

    def _whole_part(
        self, choice: ReadPlace, columns: Sequence[str], keep: float, by: str | None
    ) -> tuple[pa.Table, Lots | None]:
        """The rows that are kept of a run whose blocks all have rows of any time: who wants some pays for all."""
        key = (choice.table, choice.run.path, tuple(columns), by)
        with self._mutex:
            part = self._parts.get(key)
            if part is not None and part.gives(keep):
                self._parts.move_to_end(key)
                return part.rows, part.drawn
        rows = self._blocks(choice, choice.run.first, choice.run.end, columns)
        drawn = None
        if keep < 1:
            drawn = self._drawn(rows, by)
            chosen = kept(drawn, keep)
            rows, drawn = rows.filter(pa.array(chosen)), drawn[chosen]
        with self._mutex:
            self._parts[key] = _Part(keep, rows, drawn)
            self._parts.move_to_end(key)
            if len(self._parts) > _KEPT_RUNS:
                self._parts.popitem(last=False)
        return rows, drawn

    def _mark(self, runs: Sequence[Run], taken: Sequence[str], keep: float) -> None:
        """Rows that this read left out are dead from now on, except where the copy had too little."""
        from_copy = sum(table == COPY for table in taken)
        missed = len(taken) - from_copy if COPY in self._copies else 0
        marked = [run.first for run, table in zip(runs, taken, strict=True) if table == COPY or not missed]
        with contextlib.suppress(OSError, StreamError):  # who may only read does so without a mark
            mark(self.storage, marked, keep, from_copy=from_copy, from_original=missed)

    def sample_bytes(self, start: int, end: int, columns: Sequence[str], keep: float, by: str | None = None) -> int:
        """About how many bytes a reduced read touches: from the sizes of files, without opening any."""
        total = 0.0
        share = (len(columns) + 1) / len(self._schema)
        for run in self._between(start, end):
            choice = self._choose(run, keep, by)
            part = 1.0
            if self._layout.in_order(choice.table):
                part = (min(end, run.end) - max(start, run.first)) / run.rows
            total += choice.run.size * share * part * choice.blocks / max(choice.run.blocks, 1)
        return int(total)

    # -- times -------------------------------------------------------------------------------------

    def row_at_time(self, time: int) -> int:
        """The first archived row whose time is at least `time`, else `end`."""
        runs = self.runs
        at = bisect.bisect_left(runs, time, key=lambda r: r.time_last)
        if at == len(runs):
            return self.end
        run = runs[at]
        if run.time_first >= time:
            return run.first
        times = integers(self.read(run.first, run.end, [self._time_column]).column(0))
        return run.first + int(np.searchsorted(times, time, side="left"))

    def _looking_again(self, read: Callable[[], pa.Table]) -> pa.Table:
        """A file that the vacuumer or compactor took away meanwhile is looked up again."""
        for _ in range(_LOOKS):
            try:
                return read()
            except FileNotFoundError as problem:
                gone = problem
                self.refresh()
        run = next((run for run in self.runs if run.path in str(gone)), None)
        raise self._missing(Loss(run.first, run.end) if run else Loss(self.first, self.end), str(gone))
