"""The one writer of a stream: accept, order, cut into segments, keep no longer than declared.

An append is acknowledged when its rows are on disk. Without skew they go straight into a part of
the open segment. With skew the rows as they arrived are first kept in an *arrival* file, and
enter the log in order once newer rows have shown that nothing older can come; after a crash the
arrival files are taken in again, by the same rule, with the same outcome.

Small parts of the open segment are merged into one file when it is closed, by size, by age or by
the number of parts. Rows keep their numbers, so nobody who reads notices.
"""

from __future__ import annotations

import contextlib
import logging
import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import ipc

from anabranch.clock import Clock, SystemClock
from anabranch.errors import DataError, StreamError
from anabranch.log import lost, retention
from anabranch.log.lock import WriterLock
from anabranch.log.offset import MIN_TIME
from anabranch.log.order import Mask, Order, Times
from anabranch.log.reached import Reached, ReachedMark, reached
from anabranch.log.segment import Segment, chain, open_segment, read_notes, with_columns, write_segment
from anabranch.log.stamps import Stamps, StreamClock
from anabranch.log.storage import Storage
from anabranch.log.stream import INFO, StreamInfo, rejects_info, rejects_storage
from anabranch.log.sums import read_whole
from anabranch.schema import TIME_TYPE
from anabranch.settings import Settings

WATERMARK = "watermark.json"
_DELETES_PER_APPEND = 8
_ARRIVAL = re.compile(r"arrival-([0-9a-f]{16})-([0-9a-f]{10})(?:-([0-9a-f]{16}))?\.arrow")

Position = tuple[Any, ...]
"""How far a producer has come in a stream it reads: a row, a time, and whatever else it has to remember of that."""
Span = tuple[Mapping[str, Position], Mapping[str, Position]]
"""Where a producer's batch begins and ends in each of the streams it takes in."""

_log = logging.getLogger("anabranch.log")


class StreamWriter:
    """Appends to a stream. Safe to use from several threads; one process at a time holds it."""

    def __init__(
        self,
        storage: Storage,
        settings: Settings | None = None,
        clock: Clock | None = None,
        *,
        locked: bool = True,
        computed: bool = False,
    ) -> None:
        """`computed`: the rows are those of a standing query, which can give them again (`begin_again`)."""
        self.info = StreamInfo.load(storage)
        self.storage = self._storage = storage
        self._settings = (settings or Settings()).but(**self.info.own_settings)
        self._feed = self.info.feed
        self._clock = clock or SystemClock()
        self._mutex = threading.RLock()
        self._lock = WriterLock(storage, self.info.name, self._clock) if locked else None
        if self._lock:
            self._lock.take()
        self._stamps = Stamps(storage) if self.info.goes_with_the_clock else None
        self._time = StreamClock(self._clock, self.info.name)
        self._segments = storage.child("segments")
        self._arrivals = storage.child("arrivals")
        self._segments.make()
        self._segments.sweep()
        self._rejects: StreamWriter | None = None
        self._rejected = 0
        self._closed = False
        self._computed = computed
        self._mark = ReachedMark(storage)
        try:
            self._recover()
        except BaseException:
            self._mark.close()
            if self._lock:
                self._lock.release()
            raise

    # -- what it remembers -------------------------------------------------------------------

    def _recover(self) -> None:
        """Find the end of the log, and take in arrivals the last owner had acknowledged."""
        files = self._segments.files()
        whole = [s for n, size in files.items() if (s := Segment.parse(n, size))]
        kept = chain(whole)
        for covered in set(whole) - set(kept):
            self._segments.delete(covered.name)
        self._must_recover = False
        if self._rejects is not None:
            self._rejects.close()
            self._rejects = None
        self.next_row = kept[-1].end if kept else 0
        notes = read_notes(self._segments, kept[-1], self.info.name) if kept else {}
        self._producers: dict[str, int] = notes.get("producers", {})
        self._positions: dict[str, dict[str, Any]] = notes.get("positions", {})
        watermark = (self._storage.read_json(WATERMARK) or {}).get("time", MIN_TIME)
        last_time = kept[-1].time_last if kept else MIN_TIME
        self._order = Order(
            skew=self.info.skew_us,
            newest=max(notes.get("newest", MIN_TIME), last_time),
            released=max(notes.get("released", MIN_TIME), last_time, watermark),
        )
        self._parts: list[Segment] = []
        self._covered: list[str] = []
        for segment in reversed(kept):
            if segment.size >= self._settings["segment_bytes"] or len(self._parts) >= self._settings["segment_parts"]:
                break
            if self._parts and segment.end != self._parts[0].first:
                break  # rows are missing between the two, and a merged segment would hide it
            self._parts.insert(0, segment)
        self._open_since = self._clock.now_us()
        self._last_append = self._clock.now_us()
        self._arrived: int | None = notes.get("arrived")
        mark = self._miss_the_end(files)
        self._held = self.info.schema.arrow.empty_table()
        self._arrival_newest: dict[str, int] = {}
        self._next_arrival = 0
        if self.info.skew_us:
            self._arrivals.make()
            self._arrivals.sweep()
            self._take_in_arrivals(notes, mark)

    def _miss_the_end(self, files: Mapping[str, int]) -> Reached | None:
        """Rows that were in the log and whose segment is lost keep their numbers: nobody gets them again."""
        mark = reached(self._storage)
        named = [segment.end for name in files if (segment := Segment.named(name))]
        kept = lost.kept_from(self._storage) or 0
        row = max([*named, mark.row if mark is not None else 0, kept])
        self.lost_end = lost.Loss(max(self.next_row, kept), row) if row > max(self.next_row, kept) else None
        """The rows at the end of the log that are missing, or None."""
        if row > self.next_row and not (self._computed and self.lost_end):
            self.next_row = row
            self._parts = []
            if mark is not None:
                self._order.newest = max(self._order.newest, mark.newest)
                self._order.released = max(self._order.released, mark.released)
        if self.lost_end is not None:
            _log.warning('%s of stream "%s" are missing', self.lost_end, self.info.name)
        return mark

    def begin_again(self, row: int | None = None) -> None:
        """Before the rows at the end of the log that are missing are computed again: as if they had never been.

        `row`: what number the first of them gets, where that is not the one it had.
        """
        with self._mutex:
            self.lost_end = None
            self.next_row = self.next_row if row is None else row
            if self.next_row < (lost.kept_from(self._storage) or 0):
                lost.keep_from(self._storage, self.next_row)  # nothing is left: all is computed again
            self._order.released = self._order.newest
            self._storage.write_json(WATERMARK, {"time": self._order.released})
            self._note_reached()

    def _notes(self) -> dict[str, Any]:
        return {
            "producers": self._producers,
            "newest": self._order.newest,
            "released": self._order.released,
            "arrivals": self._next_arrival - 1,
            "arrived": self._arrived,
            **({"positions": self._positions} if self._positions else {}),
            **({"held": self._held_arrivals()} if self.info.skew_us else {}),
        }

    def _held_arrivals(self) -> int:
        """How many arrivals have rows that are still to enter the log."""
        return sum(newest > self._order.released for newest in self._arrival_newest.values())

    def _note_reached(self) -> None:
        self._mark.write(Reached(self.next_row, self._order.newest, self._order.released, self._next_arrival))

    # -- appending ---------------------------------------------------------------------------

    def append(
        self, data: Any, *, producer: str | None = None, batch: int | None = None, span: Span | None = None
    ) -> int:
        """Append rows (anything `StreamSchema.conform` takes); returns the number of the next row.

        When it returns, the rows are on disk. With a `producer` and a `batch` number that grows, a
        batch that was appended before is passed over, so a producer may repeat itself after a crash.
        A producer whose rows are a function of other streams says instead which `span` of them it
        has taken in; then what was appended is known by that, however its batches are numbered.
        """
        with self._mutex:
            self._check()
            if (producer is None) != (batch is None and span is None) or not isinstance(batch, int | None):
                raise DataError("BATCH_NUMBER_WANTED", "a producer comes with the whole number of its batch")
            if producer is not None and self._has(producer, batch, span):
                return self.next_row
            self._last_append = self._clock.now_us()
            with self._stamping():
                return self._append(data, producer, batch, span)

    def _append(self, data: Any, producer: str | None, batch: int | None, span: Span | None) -> int:
        now, stamp = self._last_append, self._stamp()
        rows = self.info.schema.conform(data, now_us=stamp)
        if rows.num_rows == 0:
            return self.next_row
        mark = {producer: batch} if producer is not None and batch is not None else {}
        self._arrived = now
        try:
            if self.info.skew_us:
                self._keep_arrival(rows, now, mark)
            else:
                accepted = self._admit(rows, now, producer, batch, span, stamp=stamp)
                self._producers = {**self._producers, **mark}
                if producer is not None and span is not None:
                    self._positions = {**self._positions, producer: {n: list(o) for n, o in span[1].items()}}
                self._write(accepted)
        except BaseException:
            # What is on disk is right; what is in memory may be ahead of it.
            self._must_recover = True
            raise
        return self.next_row

    def _stamping(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext() if self._stamps is None else self._stamps.stamping()

    def _stamp(self) -> int:
        """The time of rows that have none of their own: the clock's, never before what the stream has reached."""
        if self._stamps is None:
            return MIN_TIME
        self._order.released = max(self._order.released, self._stamps.claimed)
        return self._time.now(max(self._order.newest, self._order.released))

    def has(self, producer: str, span: Span) -> bool:
        """Whether what a producer has made of a span of its own streams is in the log already."""
        with self._mutex:
            return self._has(producer, None, span)

    def _has(self, producer: str, batch: int | None, span: Span | None) -> bool:
        """Whether a producer's batch is in the log already."""
        position = self.position(producer)
        if span is None or position is None:
            return batch is not None and batch <= self._producers.get(producer, -1)
        start, end = span
        if all(position[name][:2] >= end[name][:2] for name in end if name in position):
            return True
        if any(position[name][:2] > start[name][:2] for name in start if name in position):
            raise StreamError(
                "BATCH_OVERLAPS",
                f'stream "{self.info.name}" has part of a batch of "{producer}" already',
                detail=f"the batch is from {dict(start)} to {dict(end)}, the log has all up to {position}",
                hint="start the query again: it goes on from where its answers end",
            )
        return False

    def position(self, producer: str) -> dict[str, Position] | None:
        """Up to where a producer has taken in its own streams for the rows it has appended; None: not known."""
        noted = self._positions.get(producer)
        return {name: tuple(position) for name, position in noted.items()} if noted is not None else None

    def batch(self, producer: str) -> int:
        """The number of the last batch of a producer that is in the log, else -1."""
        return self._producers.get(producer, -1)

    def _admit(
        self,
        rows: pa.Table,
        now: int,
        producer: str | None,
        batch: int | None,
        span: Span | None = None,
        stamp: int = MIN_TIME,
    ) -> pa.Table:
        """The rows the stream accepts; the others are kept as rejects, each with its reason."""
        times, known = times_of(rows, self.info.schema.time)
        limit = self._settings["future_limit_seconds"]
        # A stamp of our own may be ahead of the clock if that was set back: no reason to refuse rows.
        latest = max(now + int(limit * 1e6), stamp) if limit else None
        refused = {} if self._feed is None else self._feed.refused(rows)
        if not refused:
            refused = self._order.admit(times, known, latest)
        else:  # the time of a row that is refused moves nothing
            fine = ~np.logical_or.reduce(list(refused.values()))
            among = self._order.admit(times[fine], None if known is None else known[fine], latest)
            for reason, mask in among.items():
                refused[reason] = np.zeros(rows.num_rows, np.bool_)
                refused[reason][fine] = mask
        if not refused:
            return rows
        reasons = np.full(rows.num_rows, None, dtype=object)
        for reason, mask in refused.items():
            reasons[mask] = reason
        bad = pa.array(np.logical_or.reduce(list(refused.values())))
        why = pa.array(reasons[bad.to_numpy(zero_copy_only=False)], pa.string())
        self._reject(rows.filter(bad), why, producer, batch, span)
        return rows.filter(pc.invert(bad))

    def _reject(
        self, rows: pa.Table, reasons: pa.Array, producer: str | None, batch: int | None, span: Span | None
    ) -> None:
        if self._rejects is None:
            storage = rejects_storage(self._storage)
            if not storage.exists(INFO):
                rejects_info(self.info).create(storage)
            elif (known := StreamInfo.load(storage)).schema != (wanted := rejects_info(self.info).schema):
                replace(known, schema=wanted).save(storage)  # the stream got a column
            self._rejects = StreamWriter(storage, self._settings, self._clock, locked=False)
        with self._rejects._stamping():
            stamps = pa.array(np.full(rows.num_rows, self._rejects._stamp())).cast(TIME_TYPE)
            table = rows.append_column("_reason", reasons).append_column("_rejected_at", stamps)
            self._rejects.append(table, producer=producer, batch=batch, span=span)
        self._rejected += rows.num_rows

    def _write(self, rows: pa.Table) -> None:
        """One more part of the open segment, durably."""
        if rows.num_rows == 0:
            return
        if self._lock:
            self._lock.check()
        times = times_of(rows, self.info.schema.time)[0]
        first, last = int(times[0]), int(times[-1])
        self._order.released = max(self._order.released, last if not self.info.skew_us else MIN_TIME)
        if not self._parts:
            self._open_since = self._clock.now_us()
        part = write_segment(self._segments, rows, self.next_row, (first, last), self._notes())
        self.next_row = part.end
        self._note_reached()
        # The rows are safe from here on. Housekeeping that fails (a full disk) is tried again next time.
        with contextlib.suppress(OSError, StreamError):
            self._keep_house(part)

    def _keep_house(self, part: Segment) -> None:
        """Close the open segment if it is large, old or in many parts; let old segments go."""
        if part.size >= self._settings["segment_bytes"] and not self._parts:
            self._clear_covered(_DELETES_PER_APPEND)
            self._retain()
            return
        # First of all: a part left out of the open segment would leave a hole when it is merged.
        self._parts.append(part)
        self._clear_covered(_DELETES_PER_APPEND)
        age = self._clock.now_us() - self._open_since
        if (
            sum(p.size for p in self._parts) >= self._settings["segment_bytes"]
            or len(self._parts) >= self._settings["segment_parts"]
            or age >= self._settings["segment_age_seconds"] * 1e6
        ):
            self.close_segment()

    def close_segment(self) -> None:
        """Merge the parts of the open segment into one file."""
        with self._mutex:
            parts = self._parts
            if len(parts) > 1:
                tables = [open_segment(self._segments, part, self.info.schema.arrow, self.info.name) for part in parts]
                table = pa.concat_tables(tables).combine_chunks()
                times = (parts[0].time_first, parts[-1].time_last)
                write_segment(self._segments, table, parts[0].first, times, self._notes())
                self._covered += [part.name for part in parts]
            self._parts = []
            self._retain()

    def _clear_covered(self, count: int) -> None:
        """Delete a few of the parts that a merged segment stands for; all at once would hold up an append."""
        for name in self._covered[:count]:
            self._segments.delete(name)
        self._covered = self._covered[count:]

    def _retain(self) -> None:
        if self.info.retain_us is None:
            return
        # Parts must not outlive the merged segment that stands for them.
        self._clear_covered(len(self._covered))
        retention.apply(self._storage, self._segments, self.info)

    @property
    def segment_bytes(self) -> int:
        """How large segments are to be."""
        return int(self._settings["segment_bytes"])

    @property
    def closed_end(self) -> int:
        """Up to which row segments are closed."""
        with self._mutex:
            return self._parts[0].first if self._parts else self.next_row

    def closed(self) -> list[Segment]:
        """The segments that are merged with none any more, in order."""
        with self._mutex:
            self._check()
            self._clear_covered(len(self._covered))
            kept = chain(s for n, size in self._segments.files().items() if (s := Segment.parse(n, size)))
            return [segment for segment in kept if segment.end <= self.closed_end]

    def rewrite(self, closed: Sequence[Segment], rows: pa.Table) -> Segment:
        """Other rows in the place of closed segments beside each other: as many, under their numbers.

        The new segment is there before those it stands for go, and knows of producers what the last of them knew.
        """
        notes = read_notes(self._segments, closed[-1], self.info.name)
        times = (closed[0].time_first, closed[-1].time_last)
        segment = write_segment(self._segments, rows, closed[0].first, times, notes)
        with self._mutex:
            if not self._closed and not {old.name for old in closed} & {part.name for part in self._parts}:
                for old in closed:
                    if old != segment:
                        self._segments.delete(old.name)
        return segment

    def let_go(self, closed: Sequence[Segment]) -> None:
        """Delete the first of all closed segments."""
        with self._mutex:
            self._check()
            lost.keep_from(self._storage, closed[-1].end)  # first, so that nobody takes for lost what was let go
            for segment in closed:
                self._segments.delete(segment.name)

    # -- rows that may still be overtaken ----------------------------------------------------

    def _keep_arrival(self, rows: pa.Table, now: int, mark: dict[str, int]) -> None:
        if self._lock:
            self._lock.check()
        number = self._next_arrival
        notes = {b"now": str(now).encode(), **{f"producer:{k}".encode(): str(v).encode() for k, v in mark.items()}}
        table = rows.replace_schema_metadata(notes)

        def write(sink: Any) -> None:
            with ipc.new_file(sink, table.schema) as out:
                out.write_table(table)

        name = self._arrivals.write(write, lambda size, sum: f"arrival-{number:016x}-{size:010x}-{sum:016x}.arrow")
        self._next_arrival = number + 1
        self._note_reached()
        try:
            self._take_in(name, number, rows, now, mark)
        except (OSError, StreamError):
            # The rows are safe in their arrival file, so the append holds; the next one tries again.
            self._must_recover = True

    def _take_in(self, name: str, number: int, rows: pa.Table, now: int, mark: dict[str, int]) -> None:
        """Put the rows of an arrival in order, and release what nothing can overtake any more."""
        self._arrived = now
        accepted = self._admit(rows, now, "arrivals", number)
        self._producers = {**self._producers, **mark}
        self._hold(name, accepted)
        self._release(self._order.floor)

    def _hold(self, name: str, rows: pa.Table) -> None:
        times, _ = times_of(rows, self.info.schema.time)
        self._arrival_newest[name] = int(times.max()) if len(times) else MIN_TIME
        self._held = pa.concat_tables([self._held, rows])

    def _release(self, until: int) -> None:
        """Write held rows up to time `until` to the log, in order."""
        times, _ = times_of(self._held, self.info.schema.time)
        ripe = times <= until
        if ripe.any():
            chosen = np.flatnonzero(ripe)
            rows = self._held.take(pa.array(chosen[np.argsort(times[chosen], kind="stable")]))
            self._order.released = max(self._order.released, until)
            self._write(rows.combine_chunks())
            self._held = self._held.filter(pa.array(~ripe)).combine_chunks()
            for name, newest in list(self._arrival_newest.items()):
                if newest <= self._order.released:
                    self._arrivals.delete(name)
                    del self._arrival_newest[name]

    def _take_in_arrivals(self, notes: Mapping[str, Any], mark: Reached | None) -> None:
        """After a restart: hold again what was held, and take in what came after the last release."""
        taken = notes.get("arrivals", -1)
        there = _arrivals_there(self._arrivals)
        missing = missing_arrivals(self._storage, self.info, notes)
        if missing is not None:
            raise self._arrivals_lost(f"{missing.files} files of {self._arrivals.path} are not there")
        self._next_arrival = max([taken, *there]) + 1
        for number, match in sorted(there.items()):
            table = self._arrival(match)
            about = table.schema.metadata or {}
            rows, now = with_columns(table, self.info.schema.arrow), int(about[b"now"])
            if number > taken:
                producers = {k[9:].decode(): int(v) for k, v in about.items() if k.startswith(b"producer:")}
                self._take_in(match[0], number, rows, now, producers)
            else:
                times, known = times_of(rows, self.info.schema.time)
                limit = self._settings["future_limit_seconds"]
                still = times > self._order.released
                still &= known if known is not None else True
                still &= times <= now + int(limit * 1e6) if limit else True
                for mask in ({} if self._feed is None else self._feed.refused(rows)).values():
                    still &= ~mask
                self._hold(match[0], rows.filter(pa.array(still)))
        self._next_arrival = max(self._next_arrival, mark.arrival if mark else 0)

    def _arrival(self, match: re.Match[str]) -> pa.Table:
        try:
            return read_whole(self._arrivals, match[0], int(match[3], 16) if match[3] else None)
        except ValueError as problem:
            raise self._arrivals_lost(f"{self._arrivals.full(match[0])}: {problem}") from None

    def _arrivals_lost(self, what: str) -> StreamError:
        return StreamError(
            "ROWS_ARE_MISSING",
            f'rows of stream "{self.info.name}" are missing that were appended and not yet put in order (ALLOW SKEW)',
            detail=what,
            hint="anabranch check says what is lost, anabranch check --repair lets the stream go on without",
        )

    def flush(self) -> int:
        """Release every held row now; rows older than the newest of them are late from here on."""
        with self._mutex:
            self._check()
            self._release(self._order.newest)
            return self.next_row

    def release_if_idle(self) -> None:
        """Release held rows of a stream that has been silent for longer than it or the setting allows."""
        idle, limit = self.info.idle_us, self._settings["idle_release_seconds"]
        with self._mutex:
            silent = self._clock.now_us() - self._last_append
            if self._closed or not self._held.num_rows:
                return
            if idle is not None:
                if silent >= idle:
                    self._release(self._order.newest + min(silent - self.info.skew_us, 0))
            elif limit and silent > limit * 1e6:
                self._release(self._order.newest)

    def advance(self, time: int, *, durable: bool = True) -> None:
        """A heartbeat: time has reached `time`, so that windows close though no row comes."""
        with self._mutex:
            self._check()
            self._release(min(time, self._order.newest))
            if self._stamps is not None:
                with self._stamps.claiming(wait=True):
                    self._order.released = max(self._order.released, self._stamps.claimed)
                    self._beat(time, durable)
            else:
                self._beat(time, durable)

    def _beat(self, time: int, durable: bool) -> None:
        if time > self._order.released:
            self._order.released = time
            beat(self._storage, time, self._stamps, durable=durable)

    def claim(self, at_least: int) -> bool:
        """Where only the writer may: time goes on to the clock, if that has reached `at_least`."""
        with self._mutex:
            self._check()
            now = self._stamp()
            if self._stamps is None or now < at_least:
                return False
            self._beat(now, durable=False)
            return True

    def go_on_in_silence(self, at_least: int, opened: int | None = None) -> int | None:
        """IDLE AFTER: time goes on with the clock if that brings it to `at_least`; else when it will, by the clock.

        It goes on from the newest row, and from when that arrived; skew is still allowed for. A stream that never had
        a row has no time to go on from: silent since it was `opened`, it goes where it is wanted.
        """
        with self._mutex:
            self._check()
            assert self.info.idle_us is not None
            now, newest = self._clock.now_us(), self._order.newest
            since = self._arrived if self._arrived is not None else opened if opened is not None else self._last_append
            behind = 0 if newest == MIN_TIME else at_least - newest + self.info.skew_us
            if now < since + max(self.info.idle_us, behind):
                return since + max(self.info.idle_us, behind)
            self.advance(at_least if newest == MIN_TIME else newest + (now - since) - self.info.skew_us)
            return None

    def is_as_left(self) -> bool:
        """Whether the open segment lies in the files that this writer knows: for those who take the lock in turns."""
        with self._mutex:
            return not self._closed and all(self._segments.exists(part.name) for part in self._parts)

    # -- the end -----------------------------------------------------------------------------

    @property
    def held_rows(self) -> int:
        """Rows acknowledged but not yet visible, because older ones may still come."""
        return int(self._held.num_rows)

    @property
    def rejected_rows(self) -> int:
        """Rows this writer has refused since it was opened."""
        return self._rejected

    def close(self, *, release: bool = True) -> None:
        """Give up writing. Held rows are released first unless `release` is False."""
        with self._mutex:
            if self._closed:
                return
            try:
                if release:
                    self._release(self._order.newest)
                self._clear_covered(len(self._covered))
            finally:
                self._closed = True
                self._mark.close()
                if self._rejects is not None:
                    self._rejects.close()
                if self._stamps is not None:
                    self._stamps.close()
                if self._lock:
                    self._lock.release()

    def _check(self) -> None:
        if self._closed:
            raise StreamError("STREAM_IS_CLOSED", f'the writer of stream "{self.info.name}" is closed')
        if self._must_recover:
            self._recover()


def beat(storage: Storage, time: int, stamps: Stamps | None, *, durable: bool) -> None:
    """Write down that time has reached `time`: first where the writer looks, then where readers do."""
    if stamps is not None and storage.is_local:
        stamps.note(time)
    storage.write_json(WATERMARK, {"time": time}, durable=durable)


class MissingArrivals(NamedTuple):
    """How many files of arrivals are not there, and what to record if that is agreed to."""

    files: int
    record: dict[str, Any]


def missing_arrivals(storage: Storage, info: StreamInfo, notes: Mapping[str, Any]) -> MissingArrivals | None:
    """Arrivals that must be there and are not: each since the last release, and as many as the log's notes say."""
    arrivals, agreed, mark = storage.child("arrivals"), lost.lost_arrivals(storage), reached(storage)
    there, taken = _arrivals_there(arrivals), notes.get("arrivals", -1)
    given_up = {number for loss in agreed for number in loss["numbers"]}
    newest = max([taken + 1, mark.arrival if mark else 0, *(number + 1 for number in there)])
    numbers = [n for n in range(taken + 1, newest) if n not in there and n not in given_up]
    wanted = notes.get("held", 0) - sum(loss["held"] for loss in agreed if loss["taken"] == taken)
    held = 0
    for number, match in there.items():
        if number <= taken and held < wanted:
            try:
                rows = read_whole(arrivals, match[0], int(match[3], 16) if match[3] else None)
            except ValueError:
                held += 1  # it is there, and damaged: who takes it in is told
                continue
            held += bool((times_of(rows, info.schema.time)[0] > notes.get("released", MIN_TIME)).any())
    files = len(numbers) + max(wanted - held, 0)
    record = {"taken": taken, "held": max(wanted - held, 0), "numbers": numbers}
    return MissingArrivals(files, record) if files else None


def _arrivals_there(arrivals: Storage) -> dict[int, re.Match[str]]:
    return {int(match[1], 16): match for name in arrivals.files() if (match := _ARRIVAL.fullmatch(name))}


def times_of(rows: pa.Table, column: str) -> tuple[Times, Mask | None]:
    """The times of the rows in microseconds, and where they are known (None: everywhere)."""
    chunked = rows.column(column)
    array = chunked.chunk(0) if chunked.num_chunks == 1 else chunked.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    known = None if array.null_count == 0 else np.asarray(array.is_valid())
    micros = array.view(pa.int64())
    if known is not None:
        micros = micros.fill_null(MIN_TIME)
    return micros.to_numpy(), known
