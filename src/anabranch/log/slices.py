"""The answers of many queries in one log, and one query's part of it as a stream of its own.

A row of such a log holds answers that have the same columns: `payload` is a table in Arrow's format, ordered by
member; `index` says which of its rows are whose: three integers for each member, its number, the number of its first
row among all its answers, and how many they are. A member's Stream is what its numbers count: from 0, without gaps,
whatever else is in the log.
"""

from __future__ import annotations

import bisect
import threading
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import ipc

from anabranch.errors import StreamError
from anabranch.log import lost
from anabranch.log.followed import Followed
from anabranch.log.offset import MIN_TIME, End
from anabranch.log.reader import StreamReader
from anabranch.log.storage import Storage
from anabranch.log.stream import StreamInfo
from anabranch.schema import ARRIVAL_COLUMN, TIME_TYPE, StreamSchema

HOST, MEMBER, SINCE = "host", "member", "since"
"""Options of a stream that is part of a log of many: the directory beside its own, which part, since which row."""
SCHEMA = StreamSchema(
    pa.schema([(ARRIVAL_COLUMN, TIME_TYPE), ("index", pa.binary()), ("payload", pa.binary())]), ARRIVAL_COLUMN
)
"""The columns of a log of many."""

Index = NDArray[np.int64]
"""A row for each member: its number, the number of its first row, how many rows."""


def sliced(rows: pa.Table, members: NDArray[np.int64], counts: NDArray[np.int64]) -> tuple[bytes, bytes]:
    """`index` and `payload` of rows that are ordered by member; their first numbers are still to be filled in."""
    index = np.zeros((len(members), 3), np.int64)
    index[:, 0], index[:, 2] = members, counts
    sink = pa.BufferOutputStream()
    rows = rows.combine_chunks()
    with ipc.new_stream(sink, rows.schema) as out:
        out.write_table(rows)
    return index.tobytes(), sink.getvalue().to_pybytes()


def index_of(data: bytes) -> Index:
    return np.frombuffer(data, np.int64).reshape(-1, 3)


def slices_of(log: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    """Rows of a log of many, taken apart: members by number, with their rows."""
    for index, payload in zip(log.column("index"), log.column("payload"), strict=True):
        rows, place = ipc.open_stream(payload.as_buffer()).read_all(), 0
        for member, _, count in index_of(index.as_buffer()).tolist():
            yield member, rows.slice(place, count)
            place += count


class Slice(NamedTuple):
    """Rows of one member in one row of the log."""

    first: int
    """Its number among the member's answers."""
    rows: int
    log_row: int
    place: int
    """Where they begin in the payload."""

    @property
    def end(self) -> int:
        return self.first + self.rows


class SliceReader(Followed):
    """A member's part of a log of many, read like any stream (`log.reader.StreamReader`)."""

    has_archives = False

    def __init__(self, storage: Storage, info: StreamInfo) -> None:
        super().__init__(storage, info)
        self._log = StreamReader(storage.beside(info.options[HOST]))
        self._member = int(info.options[MEMBER])
        self._scanned = int(info.options.get(SINCE, 0))
        self._slices: list[Slice] = []
        self._newest: tuple[int, int] = (0, MIN_TIME)
        self._mutex = threading.RLock()

    @property
    def skew_us(self) -> int:
        return 0

    @property
    def identity(self) -> str:
        return f"{self._log.identity}#{self._member}"

    @property
    def bytes_read(self) -> int:
        return self._log.bytes_read

    # -- how far it has come -------------------------------------------------------------------------

    def refresh(self) -> None:
        """Look what has been added."""
        with self._mutex:
            end = self._log.end().row
            first = self._log.first_row()
            if first > self._scanned:
                self._scanned = first
            if end <= self._scanned:
                return
            column = self._log.read(self._scanned, end, ["index"]).column(0)
            for log_row, data in enumerate(column, self._scanned):
                index = index_of(data.as_buffer())
                at = int(np.searchsorted(index[:, 0], self._member))
                if at < len(index) and index[at, 0] == self._member:
                    place = int(index[:at, 2].sum())
                    self._slices.append(Slice(int(index[at, 1]), int(index[at, 2]), log_row, place))
            self._scanned = end
            self._forget_gone(first)

    def _forget_gone(self, first: int) -> None:
        """What retention has removed from the log."""
        gone = bisect.bisect_left(self._slices, first, key=lambda part: part.log_row)
        if gone:
            del self._slices[:gone]

    def end(self) -> End:
        self.refresh()
        with self._mutex:
            if not self._slices:
                return End(0)
            last = self._slices[-1]
            if last.end != self._newest[0]:
                self._newest = (last.end, int(self._rows(last).column(self.time_column)[-1].value))
            return End(*self._newest)

    def arrived(self) -> int | None:
        return None

    def first_row(self) -> int:
        self.refresh()
        return self._slices[0].first if self._slices else 0

    def first_logged_row(self) -> int:
        return self.first_row()

    def gaps(self) -> list[lost.Loss]:
        """Rows that are in no slice: none, unless the log itself has gaps."""
        self.refresh()
        pairs = zip(self._slices, self._slices[1:], strict=False)
        return [lost.Loss(a.end, b.first) for a, b in pairs if b.first > a.end]

    # -- rows ----------------------------------------------------------------------------------------

    def _rows(self, part: Slice) -> pa.Table:
        payload = self._log.read(part.log_row, part.log_row + 1, ["payload"]).column(0)[0].as_buffer()
        return ipc.open_stream(payload).read_all().slice(part.place, part.rows)

    def read(self, start: int, end: int, columns: list[str] | None = None) -> pa.Table:
        """Rows numbered start ≤ n < end, in order."""
        schema = self.schema if columns is None else pa.schema([self.schema.field(c) for c in columns])
        if start >= end:
            return schema.empty_table()
        with self._mutex:
            if not self._slices or self._slices[-1].end < end:
                self.refresh()
            slices = list(self._slices)
        at = max(bisect.bisect_right(slices, start, key=lambda part: part.first) - 1, 0)
        pieces, place = [], start
        for part in slices[at:]:
            if part.first >= end or part.end <= start:
                continue
            if part.first > place:
                break
            low, high = max(start, part.first), min(end, part.end)
            pieces.append(self._rows(part).slice(low - part.first, high - low).select(schema.names).cast(schema))
            place = high
        if place < end:
            gone = bool(slices) and place < slices[0].first
            rows = lost.Loss(place, min(end, slices[0].first) if gone else end)
            raise StreamError(
                "ROWS_ARE_GONE" if gone else "ROWS_ARE_MISSING",
                f'{rows} of stream "{self.info.name}" {"were removed by retention" if gone else "are missing"}',
                hint="start from a later row" if gone else "anabranch check says what else is",
            )
        return pa.concat_tables(pieces)

    def row_at_time(self, time: int, end: int) -> int:
        """The number of the first row below `end` whose time is ≥ `time`, else `end`."""
        self.refresh()
        slices = [part for part in self._slices if part.first < end]
        at = bisect.bisect_left(slices, time, key=lambda part: int(self._rows(part).column(self.time_column)[-1].value))
        if at >= len(slices):
            return end
        times = self._rows(slices[at]).column(self.time_column).combine_chunks()
        array = pa.concat_arrays(times.chunks) if isinstance(times, pa.ChunkedArray) else times
        place = int(np.searchsorted(array.view(pa.int64()).to_numpy(), time))
        return min(slices[at].first + place, end)

    def size(self) -> int:
        """About how many bytes of the log are its rows: as many for each as for the newest."""
        self.refresh()
        if not self._slices:
            return 0
        newest = self._slices[-1]
        return int(sum(part.rows for part in self._slices) * self._rows(newest).nbytes // newest.rows)
