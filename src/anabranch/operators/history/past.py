"""The rows of history that a join asks for: read in part, filtered, with their keys."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from anabranch.kernels.sampling import key_lots
from anabranch.kernels.values import frozen, integers
from anabranch.operators.base import HistoryLog, Piece, Work
from anabranch.operators.columns import Bound
from anabranch.operators.history.equal import keys_of
from anabranch.operators.history.slices import PastRows
from anabranch.operators.windows.program import kept_rows

_ROWS_OF_LOG = 1 << 14
"""The log is mapped: a few of its rows cost no more than their share."""


@dataclass(frozen=True)
class PastProgram:
    """What is read of history."""

    filter: Bound | None
    keys: tuple[Bound, ...]
    types: tuple[pa.DataType, ...]
    by: str | None
    """The column whose values are kept whole by a reduced read."""
    reads: list[str]


class PastReader:
    """Reads rows of history before a row number."""

    def __init__(self, program: PastProgram, log: HistoryLog, end: int, work: Work) -> None:
        self._program = program
        self._log = log
        self._work = work
        self._end = end

    def row_at(self, time: int) -> int:
        if self._program.by is None:
            return self._log.row_at_time(time, self._end)
        # To find the very row all times of a file are read, which is more than part of its rows.
        pieces = self._log.pieces(self._log.first_row(), self._end)
        return next((piece.first for piece in pieces if piece.time_last >= time), self._end)

    def piece(self, start: int, rows: int) -> Piece | None:
        if start >= self._log.first_logged_row():
            rows = min(rows, _ROWS_OF_LOG)
        pieces = self._log.pieces(start, min(start + rows, self._end)) if start < self._end else []
        return pieces[0] if pieces else None

    def read(self, start: int, end: int, keep: float, since: int) -> PastRows:
        program = self._program
        table = self._log.read_sample(start, end, program.reads, keep, program.by, again=True)
        self._work.rows_read += table.num_rows
        self._work.bytes_read += table.nbytes
        times = integers(table.column(self._log.time_column))
        if len(times) and times[0] < since:  # where a portion begins, its file begins earlier
            table = table.slice(int(np.searchsorted(times, since)))
        if program.filter is not None:
            table = table.filter(pa.array(kept_rows(program.filter, table)))
        keys, present = keys_of([key.evaluate(table) for key in program.keys], list(program.types), table.num_rows)
        if not present.all():
            table = table.filter(pa.array(present))
        times = frozen(np.asarray(integers(table.column(self._log.time_column))))
        return PastRows(keys, times, None if program.by is None else key_lots(table.column(program.by), self._log.seed))
