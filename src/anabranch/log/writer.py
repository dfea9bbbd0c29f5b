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
import re
import threading
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import ipc

from anabranch.clock import Clock, SystemClock
from anabranch.errors import DataError, StreamError
from anabranch.log import retention
from anabranch.log.lock import WriterLock
from anabranch.log.offset import MIN_TIME
from anabranch.log.order import Mask, Order, Times
from anabranch.log.segment import Segment, chain, open_segment, read_notes, with_columns, write_segment
from anabranch.log.storage import Storage
from anabranch.log.stream import INFO, StreamInfo, rejects_info
from anabranch.schema import TIME_TYPE
from anabranch.settings import Settings

WATERMARK = "watermark.json"
_DELETES_PER_APPEND = 8
_ARRIVAL = re.compile(r"arrival-([0-9a-f]{16})-([0-9a-f]{10})\.arrow")


class StreamWriter:
    """Appends to a stream. Safe to use from several threads; one process at a time holds it."""

    def __init__(
        self, storage: Storage, settings: Settings | None = None, clock: Clock | None = None, *, locked: bool = True
    ) -> None:
        self.info = StreamInfo.load(storage)
        self._storage = storage
        self._settings = (settings or Settings()).but(**self.info.options)
        self._clock = clock or SystemClock()
        self._mutex = threading.RLock()
        self._lock = WriterLock(storage, self.info.name, self._clock) if locked else None
        if self._lock:
            self._lock.take()
        self._segments = storage.child("segments")
        self._arrivals = storage.child("arrivals")
        self._segments.make()
        self._segments.sweep()
        self._rejects: StreamWriter | None
        self._rejected = 0
        self._closed = False
        self._recover()

    # -- what it remembers -------------------------------------------------------------------

    def _recover(self) -> None:
        """Find the end of the log, and take in arrivals the last owner had acknowledged."""
        found = self._segments.files()
        whole = [s for n, size in found.items() if (s := Segment.parse(n, size))]
        kept = chain(whole)
        for covered in set(whole) - set(kept):
            self._segments.delete(covered.name)
        self._must_recover = False
        self._rejects = None
        self.next_row = kept[-1].end if kept else 0
        notes = read_notes(self._segments, kept[-1]) if kept else {}
        self._producers: dict[str, int] = notes.get("producers", {})
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
            self._parts.insert(0, segment)
        self._open_since = self._clock.now_us()
        self._last_append = self._clock.now_us()
        self._held = self.info.schema.arrow.empty_table()
        self._arrival_newest: dict[str, int] = {}
        self._next_arrival = 0
        if self.info.skew_us:
            self._arrivals.make()
            self._arrivals.sweep()
            self._take_in_arrivals(notes.get("arrivals", -1))

    def _notes(self) -> dict[str, Any]:
        return {
            "producers": self._producers,
            "newest": self._order.newest,
            "released": self._order.released,
            "arrivals": self._next_arrival - 1,
        }

    # -- appending ---------------------------------------------------------------------------

    def append(self, data: Any, *, producer: str | None = None, batch: int | None = None) -> int:
        """Append rows (anything `StreamSchema.conform` takes); returns the number of the next row.

        When it returns, the rows are on disk. With a `producer` and a `batch` number that grows, a
        batch that was appended before is passed over, so a producer may repeat itself after a crash.
        """
        with self._mutex:
            self._check()
            if (producer is None) != (batch is None) or not isinstance(batch, int | None):
                raise DataError("BATCH_NUMBER_WANTED", "a producer comes with the whole number of its batch")
            if producer is not None and batch is not None and batch <= self._producers.get(producer, -1):
                return self.next_row
            now = self._clock.now_us()
            self._last_append = now
            # Arrival times must not go back, even if the machine's clock does.
            rows = self.info.schema.conform(data, now_us=max(now, self._order.newest, self._order.released))
            if rows.num_rows == 0:
                return self.next_row
            mark = {producer: batch} if producer is not None and batch is not None else {}
            try:
                if self.info.skew_us:
                    self._keep_arrival(rows, now, mark)
                else:
                    accepted = self._admit(rows, now, producer, batch)
                    self._producers = {**self._producers, **mark}
                    self._write(accepted)
            except BaseException:
                # What is on disk is right; what is in memory may be ahead of it.
                self._must_recover = True
                raise
            return self.next_row

    def _admit(self, rows: pa.Table, now: int, producer: str | None, batch: int | None) -> pa.Table:
        """The rows the stream accepts; the others are kept as rejects, each with its reason."""
        times, known = times_of(rows, self.info.schema.time)
        limit = self._settings["future_limit_seconds"]
        refused = self._order.admit(times, known, now + int(limit * 1e6) if limit else None)
        if not refused:
            return rows
        reasons = np.full(rows.num_rows, None, dtype=object)
        for reason, mask in refused.items():
            reasons[mask] = reason
        bad = pa.array(np.logical_or.reduce(list(refused.values())))
        self._reject(
            rows.filter(bad), pa.array(reasons[bad.to_numpy(zero_copy_only=False)], pa.string()), producer, batch
        )
        return rows.filter(pc.invert(bad))

    def _reject(self, rows: pa.Table, reasons: pa.Array, producer: str | None, batch: int | None) -> None:
        if self._rejects is None:
            storage = self._storage.child("rejects")
            if not storage.exists(INFO):
                rejects_info(self.info).create(storage)
            elif (known := StreamInfo.load(storage)).schema != (wanted := rejects_info(self.info).schema):
                replace(known, schema=wanted).save(storage)  # the stream got a column
            self._rejects = StreamWriter(storage, self._settings, self._clock, locked=False)
        # The time of the rejects stream must not go back either, even if the machine's clock does.
        now = max(self._clock.now_us(), self._rejects._order.newest)
        stamps = pa.array(np.full(rows.num_rows, now)).cast(TIME_TYPE)
        table = rows.append_column("_reason", reasons).append_column("_rejected_at", stamps)
        self._rejects.append(table, producer=producer, batch=batch)
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
                tables = [open_segment(self._segments, part, self.info.schema.arrow) for part in parts]
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

        name = self._arrivals.write(write, lambda size: f"arrival-{number:016x}-{size:010x}.arrow")
        self._next_arrival = number + 1
        try:
            self._take_in(name, number, rows, now, mark)
        except (OSError, StreamError):
            # The rows are safe in their arrival file, so the append holds; the next one tries again.
            self._must_recover = True

    def _take_in(self, name: str, number: int, rows: pa.Table, now: int, mark: dict[str, int]) -> None:
        """Put the rows of an arrival in order, and release what nothing can overtake any more."""
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

    def _take_in_arrivals(self, taken: int) -> None:
        """After a restart: hold again what was held, and take in what came after the last release."""
        for name, size in sorted(self._arrivals.files().items()):
            match = _ARRIVAL.fullmatch(name)
            if match is None or int(match[2], 16) != size:
                continue
            number = int(match[1], 16)
            self._next_arrival = max(self._next_arrival, number + 1)
            table = ipc.open_file(self._arrivals.open_file(name)).read_all()
            notes = table.schema.metadata or {}
            rows, now = with_columns(table, self.info.schema.arrow), int(notes[b"now"])
            if number > taken:
                mark = {k[9:].decode(): int(v) for k, v in notes.items() if k.startswith(b"producer:")}
                self._take_in(name, number, rows, now, mark)
            else:
                times, known = times_of(rows, self.info.schema.time)
                limit = self._settings["future_limit_seconds"]
                still = times > self._order.released
                still &= known if known is not None else True
                still &= times <= now + int(limit * 1e6) if limit else True
                self._hold(name, rows.filter(pa.array(still)))
        self._next_arrival = max(self._next_arrival, taken + 1)

    def flush(self) -> int:
        """Release every held row now; rows older than the newest of them are late from here on."""
        with self._mutex:
            self._check()
            self._release(self._order.newest)
            return self.next_row

    def release_if_idle(self) -> None:
        """Release held rows of a stream that has been silent for longer than the setting allows."""
        limit = self._settings["idle_release_seconds"]
        with self._mutex:
            if (
                limit
                and not self._closed
                and self._held.num_rows
                and (self._clock.now_us() - self._last_append > limit * 1e6)
            ):
                self._release(self._order.newest)

    def advance(self, time: int, *, durable: bool = True) -> None:
        """A heartbeat: time has reached `time`, so that windows close though no row comes."""
        with self._mutex:
            self._check()
            self._release(min(time, self._order.newest))
            if time > self._order.released:
                self._order.released = time
                self._storage.write_json(WATERMARK, {"time": time}, durable=durable)

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
                if self._rejects is not None:
                    self._rejects.close()
                if self._lock:
                    self._lock.release()

    def _check(self) -> None:
        if self._closed:
            raise StreamError("STREAM_IS_CLOSED", f'the writer of stream "{self.info.name}" is closed')
        if self._must_recover:
            self._recover()


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
