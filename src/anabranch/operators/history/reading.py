"""How much of history a landmark query reads: what the micro-batch says, or by age, each file for itself."""

from __future__ import annotations

import functools

from anabranch.archive.reducers import Age, Reducer, Seen, keep_of
from anabranch.kernels.values import integers
from anabranch.operators.base import HistoryLog
from anabranch.operators.history.part_totals import PartRead

LEAST = 0.001
"""Of rows that are not read at all nothing could be said, so some always are."""


class HistoryReadings:
    """Rows before `live_from` are history, of which a fraction `keep` is read; the others are live."""

    def __init__(self, log: HistoryLog, live_from: int, keep: float, reducer: Reducer, by: str | None) -> None:
        self._log = log
        self._live_from = live_from
        self._keep = keep
        self._reducer = reducer
        self.by = by

    def between(self, start: int, end: int) -> list[PartRead]:
        middle = min(max(start, self._live_from), end)
        reads = self._past(start, middle) if start < middle else []
        return [*reads, PartRead(middle, end, 1.0)] if middle < end else reads

    def _past(self, start: int, end: int) -> list[PartRead]:
        if not isinstance(self._reducer, Age):
            return [PartRead(start, end, max(self._keep, LEAST))]
        pieces = self._log.pieces(start, end)
        seen = [Seen(piece.time_first, piece.time_last, newest=self._newest) for piece in pieces]
        return [
            PartRead(piece.first, piece.end, max(keep_of(self._reducer, was_seen), LEAST))
            for piece, was_seen in zip(pieces, seen, strict=True)
        ]

    @functools.cached_property
    def _newest(self) -> int:
        """The time at which history ends: age counts from there, in whichever micro-batch history is read."""
        last = self._log.read(self._live_from - 1, self._live_from, [self._log.time_column])
        return int(integers(last.column(0))[0])
