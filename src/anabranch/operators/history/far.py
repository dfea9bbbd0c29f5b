"""Rows of history that lie far out, which a standing query counts whatever it leaves out.

Which rows those are depends on how runs are cut (`archive.facts`), and runs are joined while a query goes on. So a
query looks once, before its first micro-batch, and keeps what it found beside its totals: from then on that is part of
what it is, as the number of the row is where history ends. Micro-batches that are run again find the same rows.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from anabranch.archive.facts import Ranges, from_text, to_text, united
from anabranch.kernels.values import integers
from anabranch.operators.base import HistoryLog
from anabranch.operators.state import SavedState

_ROWS_PER_LOOK = 1 << 19
"""Below this, looking costs more than what is found."""


class _Span(NamedTuple):
    """Between which values the rows start ≤ n < end lie that do not lie far out, by column."""

    start: int
    end: int
    ranges: Ranges
    told: bool
    """False if not all files say which of their rows lie far out."""


@dataclass(frozen=True)
class FarRows:
    """Rows that lie far out, in the order of their numbers, which are a first column; and what is known of others."""

    rows: pa.Table
    spans: tuple[_Span, ...]

    def between(self, start: int, end: int) -> pa.Table:
        """Those of the rows start ≤ n < end."""
        first, last = np.searchsorted(integers(self.rows.column("_row")), [start, end])
        return self.rows.slice(first, last - first)

    def spans_of(self, start: int, end: int) -> tuple[int, int]:
        """Which of the spans have some of the rows start ≤ n < end."""
        ends, starts = [span.end for span in self.spans], [span.start for span in self.spans]
        return bisect.bisect_right(ends, start), bisect.bisect_left(starts, end)

    def ranges(self, first: int, last: int) -> Ranges:
        """The ranges of all other rows of the spans numbered first ≤ n < last."""
        return united(self.rows.column_names[1:], (span.ranges for span in self.spans[first:last]))

    def told(self, start: int, end: int) -> bool:
        """Whether of all rows start ≤ n < end it is known which lie far out."""
        first, last = self.spans_of(start, end)
        return all(span.told for span in self.spans[first:last])

    def state(self) -> SavedState:
        """As it is kept."""
        spans = [(span.start, span.end, to_text(span.ranges).decode(), span.told) for span in self.spans]
        return SavedState({"rows": self.rows}, {"spans": spans})


def kept_far(state: SavedState) -> FarRows:
    """What `FarRows.state` gave."""
    spans = tuple(_Span(start, end, from_text(text.encode()), told) for start, end, text, told in state.facts["spans"])
    return FarRows(state.tables["rows"], spans)


def look_for_far(log: HistoryLog, start: int, end: int, columns: list[str], keep: float, by: str | None) -> FarRows:
    """Look which of the rows start ≤ n < end lie far out now, as for a read that keeps so much."""
    spans, tables = [], []
    for low, high in _looks(log, start, end):
        aside = log.aside(low, high, columns, keep, by)
        spans.append(_Span(low, high, aside.ranges, aside.told))
        tables.append(aside.rows)
    if not tables:
        fields = [pa.field("_row", pa.int64()), *(log.schema.field(name) for name in columns)]
        return FarRows(pa.schema(fields).empty_table(), ())
    rows = pa.concat_tables(tables).combine_chunks()
    return FarRows(rows.take(pa.array(np.argsort(integers(rows.column("_row"))))), tuple(spans))


def _looks(log: HistoryLog, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Stretches that are looked through at once: files, small ones together."""
    low = start
    pieces = log.pieces(start, end) if start < end else []
    for piece in pieces:
        if piece.end - low >= _ROWS_PER_LOOK or piece is pieces[-1]:
            yield low, piece.end
            low = piece.end
