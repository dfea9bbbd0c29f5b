"""A stream's log in memory, to test operators without files."""

from __future__ import annotations

import uuid
from typing import Any

import numpy as np
import pyarrow as pa

from anabranch.archive.estimation.strata import STRATUM
from anabranch.archive.facts import Aside, aside_of
from anabranch.kernels.sampling import kept, key_lots, lots_between
from anabranch.log.offset import End
from anabranch.operators.base import MIN_TIME, Offset, Piece
from anabranch.schema import StreamSchema


class MemoryLog:
    """Rows of one stream; what operators ask of a log, they can ask of this.

    >>> log = MemoryLog(StreamSchema.of({"v": "INT", "ts": "TIMESTAMP"}, time="ts"))
    >>> log.append({"v": [1, 2], "ts": ["2026-01-01 00:00:00", "2026-01-01 00:00:01"]})
    2
    >>> log.read(1, 2, ["v"]).to_pydict()
    {'v': [2]}
    """

    def __init__(self, schema: StreamSchema) -> None:
        self._schema = schema
        self._table: pa.Table = schema.arrow.empty_table()
        self._times = np.zeros(0, np.int64)
        self._identity = f"memory {uuid.uuid4()}"

    @property
    def schema(self) -> pa.Schema:
        return self._schema.arrow

    @property
    def time_column(self) -> str:
        return self._schema.time

    @property
    def skew_us(self) -> int:
        return 0

    @property
    def has_archives(self) -> bool:
        return False

    @property
    def identity(self) -> str:
        return self._identity

    def append(self, data: Any) -> int:
        """Add rows, which must not be older than those before; gives the number of rows so far."""
        more = self._schema.conform(data)
        times = more.column(self.time_column).cast(pa.int64()).to_numpy()
        all_times = np.concatenate([self._times, times])
        if np.any(np.diff(all_times) < 0):
            raise ValueError("time went back")
        self._table, self._times = pa.concat_tables([self._table, more]), all_times
        return len(self._times)

    def offset(self, row: int | None = None) -> Offset:
        """The offset after a number of rows, by default all."""
        row = self._table.num_rows if row is None else row
        return Offset(row, int(self._times[row - 1]) if row else MIN_TIME)

    def end(self) -> End:
        """How far it goes."""
        return self.offset().place

    def read(self, start: int, end: int, columns: list[str] | None = None) -> pa.Table:
        rows = self._table.slice(start, max(end - start, 0))
        return rows if columns is None else rows.select(columns)

    def row_at_time(self, time: int, end: int) -> int:
        return min(int(np.searchsorted(self._times, time, side="left")), end)

    def first_row(self) -> int:
        return 0

    def first_logged_row(self) -> int:
        return 0

    def noted(self, name: str) -> None:
        """Nothing lies beside it."""

    def only(self, archive: str) -> MemoryLog:
        return self

    @property
    def seed(self) -> int:
        return 0

    def read_sample(
        self, start: int, end: int, columns: list[str], keep: float, by: str | None = None, again: bool = False
    ) -> pa.Table:
        rows = self._table.slice(start, max(end - start, 0))
        drawn = lots_between(start, start + rows.num_rows, self.seed) if by is None else key_lots(rows.column(by), 0)
        numbers = pa.array(np.arange(start, start + rows.num_rows))
        return rows.select(columns).add_column(0, "_row", numbers).filter(pa.array(kept(drawn, keep)))

    def aside(self, start: int, end: int, columns: list[str], keep: float, by: str | None = None) -> Aside:
        return aside_of(self._table, 0, start, min(end, self._table.num_rows), columns, STRATUM)

    def sample_bytes(self, start: int, end: int, columns: list[str], keep: float, by: str | None = None) -> int:
        return int(self.read(start, end, columns).nbytes)

    def pieces(self, start: int, end: int) -> list[Piece]:
        """All in one; a test may want them smaller."""
        end = min(end, self._table.num_rows)
        if start >= end:
            return []
        return [Piece(start, end, int(self._times[start]), int(self._times[end - 1]))]
