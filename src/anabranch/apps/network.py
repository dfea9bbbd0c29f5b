"""Watching a network: the application of Babu and Widom (2001, §3).

An internet provider records the packet headers of two links, one to a customer (PTc) and one of
its backbone (PTb), and asks standing questions about them. The links are simulated; everything
else is the database as anyone would use it.
"""

from __future__ import annotations

import bisect
import math
import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from anabranch.sources import Packets
from anabranch.sources.generator import Link

if TYPE_CHECKING:
    from anabranch.database import Database
    from anabranch.queries import Query

LINK_OF: dict[str, Link] = {"PTc": "customer", "PTb": "backbone"}
BIG = 1_490
_MEAN_LENGTH = 620
_COLUMNS = "saddr STRING, daddr STRING, id BIGINT, length INT, ts TIMESTAMP"
_TICK = 0.1
_LONGEST_US = 500_000
"""The most time one append covers, also after the machine was busy with something else."""


class Question(NamedTuple):
    """A standing query and what it is for."""

    name: str
    stream: str
    what: str
    select: str


def questions(rate: int) -> tuple[Question, ...]:
    """The standing queries, with thresholds that fit the rate of the links."""
    return (
        Question(
            "load",
            "PTb",
            "overloaded seconds of the backbone (Q1)",
            "SELECT window_end, sum(length) AS bytes FROM PTb WINDOW = INTERVAL 1 SECOND "
            f"HAVING sum(length) > {load_threshold(rate)}",
        ),
        Question(
            "talkers",
            "PTb",
            "top senders of the last 10 seconds",
            "SELECT saddr, count(*) AS packets, sum(length) AS bytes FROM PTb "
            "WINDOW = INTERVAL 10 SECONDS SLIDE INTERVAL 1 SECOND "
            f"GROUP BY saddr HAVING count(*) > {talker_threshold(rate)}",
        ),
        Question(
            "big",
            "PTc",
            "the customer's biggest packets",
            f"SELECT saddr, daddr, length, ts FROM PTc WHERE length > {BIG}",
        ),
        Question(
            "share",
            "PTb",
            "how much of the backbone's traffic is the customer's (Q2)",
            "SELECT (SELECT count(*) FROM PTc C, PTb B WINDOW = INTERVAL 1 SECOND "
            "WHERE C.saddr = B.saddr AND C.daddr = B.daddr AND C.id = B.id) / "
            "(SELECT count(*) FROM PTb) AS fraction EMIT EVERY INTERVAL 1 SECOND",
        ),
    )


def load_threshold(rate: int) -> int:
    """Bytes a second above which the backbone is overloaded: a third more than it usually carries."""
    return round(rate * _MEAN_LENGTH * 1.35)


def talker_threshold(rate: int) -> int:
    """Packets in 10 seconds above which a host is a talker: 1.2 % of the link."""
    return max(1, round(rate * 10 * 0.012))


def declare(db: Database) -> None:
    """Create the two streams, if they are not there yet."""
    for stream in LINK_OF:
        db.sql(f"CREATE STREAM IF NOT EXISTS {stream} ({_COLUMNS}) TIMESTAMP BY ts")


def ask(db: Database, question: Question) -> Query:
    """Start a standing query, if it is not standing yet."""
    return db.query(question.select, name=question.name)


class Appended(NamedTuple):
    """One append: the time of its newest row, and when (monotonic seconds) it began."""

    newest_us: int
    at: float


class Feeder:
    """Appends what the two links carry, in real time, from a thread of its own."""

    def __init__(self, db: Database, rate: int, seed: int = 1) -> None:
        # Writers of its own choosing: asking the database for one waits while Spark starts.
        self._writers = {stream: db.writer(stream) for stream in LINK_OF}
        self._rate = rate
        self._packets = Packets(seed)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="feeder", daemon=True)
        self._appends: dict[str, list[Appended]] = {stream: [] for stream in LINK_OF}
        self.rows = 0
        self.started = time.monotonic()
        self.stopped: float | None = None
        self.failure: BaseException | None = None

    def start(self) -> None:
        self.started = time.monotonic()
        self._thread.start()

    def stop(self) -> None:
        """No more rows; returns when the last append is done."""
        self._stop.set()
        self._thread.join()

    @property
    def seconds(self) -> float:
        return (time.monotonic() if self.stopped is None else self.stopped) - self.started

    def appended_at(self, stream: str, time_us: int) -> float | None:
        """When the append began that brought a stream's time to `time_us`; None if it was too long ago."""
        appends = self._appends[stream]
        place = bisect.bisect_left(appends, time_us, key=lambda append: append.newest_us)
        return appends[place].at if 0 < place < len(appends) else None

    def _run(self) -> None:
        try:
            at = time.time_ns() // 1_000
            while not self._stop.wait(_TICK):
                now = time.time_ns() // 1_000
                while at < now and not self._stop.is_set():
                    end = min(now, at + _LONGEST_US)
                    for stream, link in LINK_OF.items():
                        self._append(stream, self._packets.batch(at, end, self._rate, link))
                    at = end
        except Exception as error:
            self.failure = error
        finally:
            self.stopped = time.monotonic()

    def _append(self, stream: str, rows: pa.Table) -> None:
        if not rows.num_rows:
            return
        began = time.monotonic()
        self._writers[stream].append(rows)
        self.rows += rows.num_rows
        appends = self._appends[stream]
        appends.append(Appended(_us(rows.column("ts"))[-1].as_py(), began))
        if len(appends) > 4_000:
            del appends[:2_000]


class Watcher:
    """Reads a query's answers as they come and notes how old they are when they do."""

    def __init__(self, db: Database, query: str, stream: str, feeder: Feeder) -> None:
        self._db, self._query, self._stream, self._feeder = db, query, stream, feeder
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name=f"watch {query}", daemon=True)
        self.rows = 0
        self.latencies: deque[float] = deque(maxlen=50_000)
        self.counts_from = float("inf")
        """Appends before this moment (monotonic) are history for the query: their age says nothing."""
        self.failure: BaseException | None = None

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping = True

    @property
    def recent(self) -> float | None:
        """The age of the newest answer when it came (seconds)."""
        return self.latencies[-1] if self.latencies else None

    def _run(self) -> None:
        try:
            for batch in self._db.follow(self._query, 0):
                if self._stopping:
                    return
                self._note(batch, time.monotonic())
        except Exception as error:
            if not self._stopping:
                self.failure = error

    def _note(self, batch: pa.RecordBatch, now: float) -> None:
        if not batch.num_rows:
            return
        self.rows += batch.num_rows
        times = _us(batch.column(_time_column(batch.schema.names)))
        moments = {self._feeder.appended_at(self._stream, t) for t in times.unique().to_pylist()}
        self.latencies.extend(now - at for at in sorted(m for m in moments if m is not None) if at >= self.counts_from)


def percentile(values: Sequence[float], share: float) -> float | None:
    """The smallest value that at least this share of the values do not exceed.

    >>> percentile([3.0, 1.0, 4.0, 2.0], 0.5)
    2.0
    """
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * share) - 1)] if ordered else None


def _time_column(names: list[str]) -> str:
    return next(name for name in ("_time", "window_end", "ts") if name in names)


def _us(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    return column.cast(pa.int64())
