"""The answers of many queries in one log, and one query's part of it as a stream of its own.

A row of such a log holds answers that have the same columns: `payload` is a table in Arrow's format, ordered by
member; `index` says which of its rows are whose: three integers for each member, its number, the number of its first
row among all its answers, and how many they are. A member's Stream is what its numbers count: from 0, without gaps,
whatever else is in the log.

What nobody can read any more is taken out of such a log (`clearing`), which keeps its rows and all numbers: so where
answers of a member lie is looked up in the index of the row that holds them, whenever they are read.
"""

from __future__ import annotations

import bisect
import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import ipc

from anabranch.errors import StreamError
from anabranch.log import lost
from anabranch.log.followed import Followed
from anabranch.log.offset import MIN_TIME, End, Piece
from anabranch.log.reader import StreamReader
from anabranch.log.retired import Retired
from anabranch.log.storage import Storage
from anabranch.log.stream import FIRST, HOST, MEMBER, SINCE, StreamInfo
from anabranch.schema import ARRIVAL_COLUMN, TIME_TYPE, StreamSchema

SCHEMA = StreamSchema(
    pa.schema([(ARRIVAL_COLUMN, TIME_TYPE), ("index", pa.binary()), ("payload", pa.binary())]), ARRIVAL_COLUMN
)
"""The columns of a log of many."""

Index = NDArray[np.int64]
"""A row for each member: its number, the number of its first row, how many rows."""
_ENTRY_BYTES = 24
UNFINISHED = -1
"""In place of the number of the first row, before there is one: something is still to be done with the rows."""

T = TypeVar("T")


Payload = bytes | memoryview


def sliced(rows: pa.Table, members: NDArray[np.int64], counts: NDArray[np.int64]) -> tuple[bytes, Payload]:
    """`index` and `payload` of rows that are ordered by member; their first numbers are still to be filled in."""
    index = np.zeros((len(members), 3), np.int64)
    index[:, 0], index[:, 2] = members, counts
    sink = pa.BufferOutputStream()
    rows = rows.combine_chunks()
    with ipc.new_stream(sink, rows.schema) as out:
        out.write_table(rows)
    return index.tobytes(), memoryview(sink.getvalue())


def row_of_log(index: bytes, payload: Payload) -> pa.RecordBatch:
    """A row of a log of many, whose time is given to it when it goes there; the payload is not copied."""
    ends = pa.py_buffer(np.array([0, len(payload)], np.int32))
    payloads = pa.Array.from_buffers(pa.binary(), 1, [None, ends, pa.py_buffer(payload)])
    time = pa.array([0]).cast(SCHEMA.arrow.field(0).type)
    return pa.RecordBatch.from_arrays([time, pa.array([index], pa.binary()), payloads], schema=SCHEMA.arrow)


def index_of(data: bytes) -> Index:
    return np.frombuffer(data, np.int64).reshape(-1, 3)


def entries_of(indices: pa.ChunkedArray) -> tuple[NDArray[np.int64], Index]:
    """The entries of many rows' indices one after the other, and in which of those rows each is."""
    values = indices.chunk(0) if indices.num_chunks == 1 else pa.concat_arrays(indices.chunks)
    _, offsets, data = values.buffers()
    places = np.frombuffer(offsets, np.int32)[values.offset : values.offset + len(values) + 1].astype(np.int64)
    entries = index_of(data[: places[-1]] if data else b"")[places[0] // _ENTRY_BYTES :]
    return np.repeat(np.arange(len(values)), np.diff(places) // _ENTRY_BYTES), entries


def payload_rows(payload: Any) -> pa.Table:
    """The answers in a payload."""
    return ipc.open_stream(payload).read_all()


def slices_of(log: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    """Rows of a log of many, taken apart: members by number, with their rows."""
    for index, payload in zip(log.column("index"), log.column("payload"), strict=True):
        if not len(payload.as_buffer()):
            continue
        rows, place = payload_rows(payload.as_buffer()), 0
        for member, _, count in index_of(index.as_buffer()).tolist():
            if count:
                yield member, rows.slice(place, count)
            place += count


class Slice(NamedTuple):
    """Rows of one member in one row of the log."""

    first: int
    """Its number among the member's answers."""
    rows: int
    log_row: int

    @property
    def end(self) -> int:
        return self.first + self.rows


class _NotThere(Exception):
    """The log has not the answers that it had where it had them: they were let go, or lost and computed again."""

    def __init__(self, rows: lost.Loss) -> None:
        self.rows = rows


class SliceReader(Followed):
    """A member's part of a log of many, read like any stream (`log.reader.StreamReader`)."""

    def __init__(self, storage: Storage, info: StreamInfo, reached: Callable[[], int] = lambda: MIN_TIME) -> None:
        """`reached`: the time that the member has come to, as its host has written down."""
        super().__init__(storage, info)
        self._log = StreamReader(storage.beside(info.options[HOST]))
        self._retired = Retired(storage.beside(info.options[HOST]))
        self._reached = reached
        self._member = int(info.options[MEMBER])
        self._since = self._scanned = int(info.options.get(SINCE, 0))
        self._before = int(info.options.get(FIRST, 0))
        self._slices: list[Slice] = []
        self._first = 0
        self._newest: tuple[int, int] = (self._before, MIN_TIME)
        self._mutex = threading.RLock()

    @property
    def has_archives(self) -> bool:
        """Whether rows are read that only archives hold."""
        return False

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
            self._scanned = max(self._scanned, self._log.first_row())
            if end > self._scanned:
                rows, entries = entries_of(self._log.read(self._scanned, end, ["index"]).column(0))
                mine = np.flatnonzero((entries[:, 0] == self._member) & (entries[:, 2] > 0))
                for place in mine.tolist():
                    _, first, count = entries[place].tolist()
                    self._slices.append(Slice(self._before + first, count, self._scanned + int(rows[place])))
                self._scanned = end
            self._forget_gone()

    def _forget_gone(self) -> None:
        """What retention has let go: looked up after the log, in which it may be missing already."""
        retired = self._retired.first(self._member)
        self._first = max(self._first, self._before + retired if retired else 0)
        gone = bisect.bisect_right(self._slices, self._first, key=lambda part: part.end)
        if gone:
            self._slices = self._slices[gone:]

    def end(self) -> End:
        # First the time that was claimed: all answers before it are then surely in the log.
        reached = self._reached()
        self.refresh()
        with self._mutex:
            if self._slices:
                last = self._slices[-1]
                if last.end != self._newest[0]:
                    newest = self._looking_again(lambda: self._newest_time(self._slices[-1]))
                    self._newest = (last.end, max(self._newest[1], newest))
            self._newest = (self._newest[0], max(self._newest[1], reached))
            return End(*self._newest)

    def arrived(self) -> int | None:
        return None

    def first_row(self) -> int:
        self.refresh()
        with self._mutex:
            return self._first_known()

    def _first_known(self) -> int:
        return max(self._first, self._slices[0].first if self._slices else self._before)

    def first_logged_row(self) -> int:
        return self.first_row()

    def gaps(self) -> list[lost.Loss]:
        """Rows that are in no slice: none, unless the log itself has gaps."""
        self.refresh()
        pairs = zip(self._slices, self._slices[1:], strict=False)
        return [lost.Loss(a.end, b.first) for a, b in pairs if b.first > a.end]

    # -- rows ----------------------------------------------------------------------------------------

    def _rows(self, part: Slice) -> pa.Table:
        row = self._log.read(part.log_row, part.log_row + 1, ["index", "payload"])
        index = index_of(row.column(0)[0].as_buffer())
        at = int(np.searchsorted(index[:, 0], self._member))
        if at == len(index) or index[at].tolist() != [self._member, part.first - self._before, part.rows]:
            raise _NotThere(lost.Loss(part.first, part.end))
        return payload_rows(row.column(1)[0].as_buffer()).slice(int(index[:at, 2].sum()), part.rows)

    def _gone(self, rows: lost.Loss) -> StreamError:
        return StreamError(
            "ROWS_ARE_GONE",
            f'{rows} of stream "{self.info.name}" were removed by retention',
            hint="raise RETAIN, or start from a later row",
        )

    def missing(self, rows: lost.Loss) -> StreamError:
        """The error for rows that were there and are in no file now."""
        return StreamError(
            "ROWS_ARE_MISSING",
            f'{rows} of stream "{self.info.name}" are missing',
            hint="anabranch check says what else is",
        )

    def read(self, start: int, end: int, columns: list[str] | None = None) -> pa.Table:
        """Rows numbered start ≤ n < end, in order."""
        return self._looking_again(lambda: self._read(start, end, columns))

    def _looking_again(self, action: Callable[[], T]) -> T:
        """What an action gives; after another look through the log if answers are not where they were."""
        try:
            return action()
        except _NotThere:
            with self._mutex:
                self._slices, self._scanned = [], self._since
                self.look_again()
        try:
            return action()
        except _NotThere as problem:
            raise self.missing(problem.rows) from None

    def _read(self, start: int, end: int, columns: list[str] | None) -> pa.Table:
        schema = self.schema if columns is None else pa.schema([self.schema.field(c) for c in columns])
        if start >= end:
            return schema.empty_table()
        self.look_up_to(end)
        with self._mutex:
            slices, first = self._slices, self._first_known()
        if start < first:
            raise self._gone(lost.Loss(start, min(end, first)))
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
            raise _NotThere(lost.Loss(place, end))
        return pa.concat_tables(pieces)

    def look_up_to(self, end: int) -> None:
        """Whoever asks for rows below `end` knows that they are there: look again if we do not."""
        with self._mutex:
            if not self._slices or self._slices[-1].end < end:
                self.refresh()

    def row_at_time(self, time: int, end: int) -> int:
        """The number of the first row below `end` whose time is ≥ `time`, else `end`."""
        self.refresh()
        return self._looking_again(lambda: self._row_at_time(time, end))

    def _newest_time(self, part: Slice) -> int:
        return int(self._rows(part).column(self.time_column)[-1].value)

    def _row_at_time(self, time: int, end: int) -> int:
        with self._mutex:
            slices = [part for part in self._slices if part.first < end]
        at = bisect.bisect_left(slices, time, key=self._newest_time)
        if at >= len(slices):
            return end
        times = self._rows(slices[at]).column(self.time_column).combine_chunks()
        array = pa.concat_arrays(times.chunks) if isinstance(times, pa.ChunkedArray) else times
        place = int(np.searchsorted(array.view(pa.int64()).to_numpy(), time))
        return min(slices[at].first + place, end)

    def look_again(self) -> None:
        """Look, though nothing seems to have changed."""
        self._log.look_again()
        self.refresh()

    def pieces(self, start: int, end: int) -> list[Piece]:
        """How the rows start ≤ n < end lie in the log."""
        return self._looking_again(lambda: self._pieces(start, end))

    def _pieces(self, start: int, end: int) -> list[Piece]:
        with self._mutex:
            slices = [part for part in self._slices if max(part.first, start) < min(part.end, end)]
        pieces = []
        for part in slices:
            times = self._rows(part).column(self.time_column)
            pieces.append(Piece(max(part.first, start), min(part.end, end), times[0].value, times[-1].value))
        return pieces

    def bytes_of(self, start: int, end: int) -> int:
        """About how many bytes of the log hold the rows start ≤ n < end: as many for each as for the newest."""
        return self._looking_again(lambda: self._bytes_of(start, end))

    def _bytes_of(self, start: int, end: int) -> int:
        with self._mutex:
            newest = self._slices[-1] if self._slices else None
        return 0 if newest is None else int((end - start) * self._rows(newest).nbytes // newest.rows)

    def size(self) -> int:
        """About how many bytes of the log are its rows."""
        self.refresh()
        with self._mutex:
            rows = sum(part.rows for part in self._slices)
        return self.bytes_of(0, rows)
