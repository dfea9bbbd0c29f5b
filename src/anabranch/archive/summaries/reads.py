"""Summaries of any range of a stream: from what is summarised already, and from rows for the rest.

What had to be read from rows, or made from finer summaries, is kept for the next time, whole windows only.
Windows that a range begins or ends in the middle of are made from finer summaries or rows each time, so that the
summaries of a range say exactly what its rows say.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from anabranch.archive.summaries.lazy import LazySummaries, SummarySource
from anabranch.archive.summaries.rollups import Shape, combine, selected, summarise, window_of
from anabranch.archive.summaries.time_spans import Span, whole_windows, within, without
from anabranch.kernels.values import integers
from anabranch.log.offset import End
from anabranch.schema import TIME_TYPE

_ROWS_AT_ONCE = 1 << 20


class Rows(Protocol):
    """What is asked of a stream's log and archive."""

    @property
    def schema(self) -> pa.Schema: ...

    @property
    def time_column(self) -> str: ...

    def read(self, start: int, end: int, columns: list[str] | None = None) -> pa.Table: ...

    def row_at_time(self, time: int, end: int) -> int: ...

    def first_row(self) -> int: ...


@dataclass(frozen=True)
class Summarised:
    """The summaries of a range, and what it took to have them."""

    shape: Shape
    table: pa.Table
    rows_read: int
    """Rows of the stream."""
    summaries_read: int
    """Rows of summaries."""

    @property
    def rows_there(self) -> int:
        """How many rows the range has."""
        return pc.sum(self.table.column(self.shape.rows_at)).as_py() or 0

    @property
    def fraction(self) -> float:
        """What was read, of rows and summaries alike, as a part of the rows there are."""
        return min((self.rows_read + self.summaries_read) / self.rows_there, 1.0) if self.rows_there else 1.0


def summaries_for(
    reader: Rows,
    since: int | None,
    until: int | None,
    shape: Shape,
    end: End,
    store: LazySummaries | None = None,
    others: Sequence[SummarySource] = (),
) -> Summarised:
    """The summaries of the rows before `end` with since ≤ time < until (None: all there are).

    `others` are further places with summaries, such as those a standing query fills.
    """
    span, whole = _ranges(reader, since, until, shape.every, end)
    pieces: list[tuple[Span, pa.Table]] = []
    left, summaries_read, kept = [span] if span[0] < span[1] else [], 0, []
    for source, finer in _candidates(shape, store, others):
        covered = source.covered(finer)
        for part in [part for hole in left for part in within(hole, covered)]:
            part = whole_windows(part, finer.every)
            summaries = source.read(finer, part) if part[0] < part[1] else None
            if summaries is not None:
                summaries_read += summaries.num_rows
                pieces.append((part, selected(combine(summaries, finer, shape.every, shape.keys), finer, shape)))
                kept += [part] if finer == shape else []
        left = [rest for hole in left for rest in without(hole, [part for part, _ in pieces])]
    rows_read = 0
    for part in left:
        for rows in _chunks(reader, part, shape, end.row):
            rows_read += rows.num_rows
            pieces.append((part, summarise(rows, reader.time_column, shape.every, shape.keys, shape.values)))
    pieces.sort(key=lambda piece: piece[0])
    empty = shape.schema(reader.schema).empty_table()
    table = combine([empty, *(piece for _, piece in pieces)], shape)
    if store is not None:
        for part in without(whole, kept) if whole[0] < whole[1] else []:
            store.add(shape, part, _windows_of(table, part))
    return Summarised(shape, table, rows_read, summaries_read)


def _ranges(reader: Rows, since: int | None, until: int | None, every: int, end: End) -> tuple[Span, Span]:
    """The times to summarise, and of these the whole windows that will never have other rows than now."""
    first = reader.first_row()
    if end.row <= first:
        return (0, 0), (0, 0)
    oldest, newest = (
        int(integers(reader.read(row, row + 1, [reader.time_column]).column(0))[0]) for row in (first, end.row - 1)
    )
    # Where older rows were removed, the first window is not whole any more; else it is, and so are empty ones.
    low = window_of(oldest, every) if first == 0 else oldest
    low = low if since is None else max(low, since)
    high = max(newest + 1, end.time)
    high = high if until is None else min(high, until)
    return (low, high), whole_windows((low, min(high, end.time)), every)


def _candidates(
    shape: Shape, store: LazySummaries | None, others: Sequence[SummarySource]
) -> list[tuple[SummarySource, Shape]]:
    """Where summaries that make the wanted ones may be: the same shape first, then those with the fewest rows."""
    sources: list[SummarySource] = [*([store] if store is not None else []), *others]
    candidates = [(source, other) for source in sources for other in source.shapes() if other.makes(shape)]
    return sorted(
        candidates, key=lambda candidate: (candidate[1] != shape, -candidate[1].every, len(candidate[1].keys))
    )


def _chunks(reader: Rows, span: Span, shape: Shape, end: int) -> Iterator[pa.Table]:
    """The rows of a span, cut by row number alone: so a window's doubles are added in the same order each time."""
    start, stop = reader.row_at_time(span[0], end), reader.row_at_time(span[1], end)
    columns = list(dict.fromkeys([reader.time_column, *shape.keys, *shape.values]))
    wanted = pa.schema([reader.schema.field(name) for name in columns])
    while start < stop:
        upto = min((start // _ROWS_AT_ONCE + 1) * _ROWS_AT_ONCE, stop)
        rows = reader.read(start, upto, columns)
        yield rows if rows.schema.equals(wanted) else rows.cast(wanted)
        start = upto


def _windows_of(summaries: pa.Table, span: Span) -> pa.Table:
    low, high = (pa.scalar(time, pa.int64()).cast(TIME_TYPE) for time in span)
    starts = summaries.column(0)
    return summaries.filter(pc.and_(pc.greater_equal(starts, low), pc.less(starts, high)))
