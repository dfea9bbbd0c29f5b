"""Reading a stream: by row number, by time, or as it grows. Any number of readers, any process."""

from __future__ import annotations

import bisect
import threading
import time as _time
from collections import OrderedDict

import numpy as np
import pyarrow as pa

from anabranch.errors import StreamError
from anabranch.log import lost
from anabranch.log.followed import Followed
from anabranch.log.offset import MIN_TIME, End, Piece
from anabranch.log.reached import reached
from anabranch.log.segment import Segment, chain, open_segment, read_notes
from anabranch.log.storage import Storage
from anabranch.log.stream import StreamInfo
from anabranch.log.writer import WATERMARK

SETTLED_NS = 50_000_000
"""A directory's time of change is trusted only when it is this old: two changes may share one tick."""
_OPEN_SEGMENTS = 128
_LOOKS = 6
"""How often a directory is listed until the list has all segments: one that changes meanwhile may miss some."""
_PATIENCE_SECONDS = 2.0
"""How long rows that are wanted are looked for before they count as missing."""


class _NotThere(Exception):
    """Rows that are wanted and in no segment."""

    def __init__(self, rows: lost.Loss) -> None:
        self.rows = rows


class StreamReader(Followed):
    """A view of a stream that follows it as it grows. Several threads may read with it."""

    def __init__(self, storage: Storage) -> None:
        super().__init__(storage, StreamInfo.load(storage))
        self._segments = storage.child("segments")
        self._chain: list[Segment] = []
        self._first = 0
        self._end = 0
        self._known_gaps: list[lost.Loss] = []
        self._seen: int | None = None
        self._open: OrderedDict[Segment, pa.Table] = OrderedDict()
        self._mutex = threading.Lock()
        self.bytes_read = 0

    @property
    def skew_us(self) -> int:
        return self.info.skew_us

    @property
    def identity(self) -> str:
        """The same for readers of the same rows only: a stream that was made anew has another one."""
        return f"{self._storage.address}@{self.info.id or self._made}"

    # -- how far the stream has come ---------------------------------------------------------

    def refresh(self) -> None:
        """Look which segments there are now."""
        changed = self._segments.changed()
        if changed is not None and changed == self._seen:
            return
        self._look()
        self._close_gone()
        settled = changed is not None and _time.time_ns() - changed > SETTLED_NS
        self._seen = changed if settled else None

    def _look(self) -> None:
        """The segments that are there; a list that was made while they changed, and missed some, is made again."""
        for attempt in range(_LOOKS):
            mark = reached(self._storage)  # before the list, which has every row that it tells of
            files = self._segments.files()
            kept = lost.kept_from(self._storage)  # after it: what the list has not was let go
            segments = chain(s for name, size in files.items() if (s := Segment.parse(name, size)))
            first = kept if kept is not None else 0
            if kept is None and self.info.retain_us is not None and segments:
                first = segments[0].first  # retention of an older version, which left no mark
            # A segment that is not whole was: its rows are missing, and count.
            end = max([first, mark.row if mark else 0, *(s.end for name in files if (s := Segment.named(name)))])
            gaps = _gaps(segments, first, end)
            if end >= self._end and (not gaps or gaps == self._known_gaps):
                break
            _time.sleep(0.001 * attempt)
        self._chain, self._first, self._end, self._known_gaps = segments, first, end, gaps

    def _close_gone(self) -> None:
        """Let go of files that retention or merging has removed: while they are mapped, the disk keeps them."""
        there = set(self._chain)
        with self._mutex:
            for segment in [mapped for mapped in self._open if mapped not in there]:
                del self._open[segment]

    @property
    def has_archives(self) -> bool:
        """Whether rows are read that only archives hold."""
        return False

    def end(self) -> End:
        """How far the stream has come."""
        # The heartbeat is read first: every row before it is then surely among the segments.
        beat = self._storage.read_json(WATERMARK)
        self.refresh()
        time = self._chain[-1].time_last if self._chain else MIN_TIME
        return End(self._end, max(time, beat["time"]) if beat else time)

    def arrived(self) -> int | None:
        """When, by the clock, the rows came that are the newest; None if it is not known."""
        self.refresh()
        arrived = read_notes(self._segments, self._chain[-1], self.info.name).get("arrived") if self._chain else None
        return None if arrived is None else int(arrived)

    def first_row(self) -> int:
        """The number of the oldest row still kept."""
        if not self._chain:
            self.refresh()
        return self._first

    def gaps(self) -> list[lost.Loss]:
        """The rows between the first and the last that no whole segment holds; they are missing if it stays so."""
        self.refresh()
        return self._known_gaps

    def first_logged_row(self) -> int:
        """The number of the oldest row that is not only in an archive."""
        return self.first_row()

    # -- rows --------------------------------------------------------------------------------

    def read(self, start: int, end: int, columns: list[str] | None = None) -> pa.Table:
        """Rows numbered start ≤ n < end, in order; mapped, so only what is touched is read.

        Rows that retention has taken are an error, and so are those that are missing, never silently left out.
        """
        deadline = None
        while True:
            try:
                return self._read(start, end, columns)
            except (FileNotFoundError, _NotThere) as problem:
                # The writer merged parts in the meantime: the rows are in a new file, or soon will be in our list.
                now = _time.monotonic()
                deadline = deadline or now + _PATIENCE_SECONDS
                if now > deadline:
                    raise self.missing(
                        problem.rows if isinstance(problem, _NotThere) else lost.Loss(start, end)
                    ) from None
                if isinstance(problem, _NotThere):
                    _time.sleep(0.01)
                self.look_again()

    def _read(self, start: int, end: int, columns: list[str] | None) -> pa.Table:
        self.look_up_to(end if start < end else 0)
        schema = self.schema if columns is None else pa.schema([self.schema.field(c) for c in columns])
        if start >= end:
            return schema.empty_table()
        chain = self._chain  # another thread may look again meanwhile
        if start < self._first and (not chain or start < chain[0].first):
            raise self._gone(lost.Loss(start, min(end, self._first)))
        pieces = []
        place = start
        at = bisect.bisect_right(chain, start, key=lambda s: s.first) - 1
        for segment in chain[max(at, 0) :]:
            if segment.first >= end:
                break
            if segment.end <= start:
                continue
            if segment.first > place:
                raise _NotThere(lost.Loss(place, segment.first))
            low, high = max(start, segment.first), min(end, segment.end)
            table = self._table(segment)
            if columns is not None:
                table = table.select(columns)
            pieces.append(table.slice(low - segment.first, high - low))
            self.bytes_read += segment.size * (high - low) // segment.rows
            place = high
        if place < end:
            raise _NotThere(lost.Loss(place, end))
        return pa.concat_tables(pieces)

    def _gone(self, rows: lost.Loss) -> StreamError:
        agreed = [loss for loss in lost.losses(self._storage) if loss.first < rows.end and rows.first < loss.end]
        if agreed:
            return StreamError(
                "ROWS_ARE_GONE",
                f'{rows} of stream "{self.info.name}" were given up with what was lost ({agreed[-1]})',
                hint=f"start from row {self._first}",
            )
        return StreamError(
            "ROWS_ARE_GONE",
            f'{rows} of stream "{self.info.name}" were removed by retention',
            hint="raise RETAIN, or start from a later row",
        )

    def missing(self, rows: lost.Loss) -> StreamError:
        """The error for rows that were there and are in no file now."""
        torn = []
        for name, size in sorted(self._segments.files().items()):
            segment = Segment.named(name)
            if segment is not None and segment.size != size and segment.first < rows.end and rows.first < segment.end:
                torn.append(f"{self._segments.full(name)} has {size} of {segment.size} bytes")
        return StreamError(
            "ROWS_ARE_MISSING",
            f'{rows} of stream "{self.info.name}" are missing',
            detail="; ".join(torn) or f"no file of {self._segments.path} holds them",
            hint="anabranch check says what else is, anabranch check --repair what can be done",
        )

    def look_up_to(self, end: int) -> None:
        """Whoever asks for rows below `end` knows that they are there: look again if we do not."""
        for attempt in range(_LOOKS):
            if not end or self._end >= end:
                return
            _time.sleep(0.001 * attempt)
            self.look_again()

    def look_again(self) -> None:
        """Look, though nothing seems to have changed."""
        self._seen = None
        self.refresh()

    def pieces(self, start: int, end: int) -> list[Piece]:
        """How the rows start ≤ n < end lie in segments."""
        return [
            Piece(max(segment.first, start), min(segment.end, end), segment.time_first, segment.time_last)
            for segment in self._chain
            if max(segment.first, start) < min(segment.end, end)
        ]

    def bytes_of(self, start: int, end: int) -> int:
        """About how many bytes of segments hold the rows start ≤ n < end."""
        rows = ((segment, min(segment.end, end) - max(segment.first, start)) for segment in self._chain)
        return sum(segment.size * max(count, 0) // segment.rows for segment, count in rows)

    def _table(self, segment: Segment) -> pa.Table:
        with self._mutex:
            table = self._open.get(segment)
            if table is not None:
                self._open.move_to_end(segment)
                return table
        table = open_segment(self._segments, segment, self.schema, self.info.name)
        with self._mutex:
            self._open[segment] = table
            if len(self._open) > _OPEN_SEGMENTS:
                self._open.popitem(last=False)
        return table

    def row_at_time(self, time: int, end: int) -> int:
        """The number of the first row below `end` whose time is ≥ `time`, else `end`."""
        self.look_up_to(end)
        chain = self._chain
        at = bisect.bisect_left(chain, time, key=lambda s: s.time_last)
        if at >= len(chain) or chain[at].first >= end:
            return end
        segment = chain[at]
        if segment.time_first >= time:
            return min(segment.first, end)
        column = self.read(segment.first, segment.end, [self.time_column]).column(0)
        times = pa.concat_arrays(column.chunks) if column.num_chunks != 1 else column.chunk(0)
        place = int(np.searchsorted(times.view(pa.int64()).to_numpy(), time, side="left"))
        return min(segment.first + place, end)

    def size(self) -> int:
        """Bytes on disk."""
        self.refresh()
        return sum(s.size for s in self._chain)


def _gaps(segments: list[Segment], first: int, end: int) -> list[lost.Loss]:
    """The rows between two that no segment of a chain holds."""
    gaps = []
    place = first
    for segment in segments:
        if segment.first > place:
            gaps.append(lost.Loss(place, segment.first))
        place = max(place, segment.end)
    return [*gaps, lost.Loss(place, end)] if place < end else gaps
