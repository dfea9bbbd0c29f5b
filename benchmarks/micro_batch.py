"""What a micro-batch costs that has hardly a row, and how long a row takes to a subscriber."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from anabranch.database import Database
from anabranch.queries import Query
from benchmarks.harness import Bar, Report, check, median, percentile, say
from benchmarks.packets import CREATE, LENGTH_ABOVE, START, Packets
from benchmarks.progress import MicroBatch, progress_of

WARM_UP = 10
FEED_ROWS = 1000
FEED_EVERY = 0.05
PHASES = ("triggerExecution", "addBatch", "walCommit", "commitOffsets", "latestOffset", "queryPlanning", "getBatch")


def fixed_cost(db: Database, count: int, report: Report) -> None:
    """One row at a time, each waited for: what Spark says its micro-batch took."""
    db.sql(CREATE.format(name="singles"))
    query = db.query(
        "SELECT saddr, count(*) AS n FROM singles WINDOW = INTERVAL 10 SECONDS "
        f"WHERE length > {LENGTH_ABOVE} GROUP BY saddr",
        name="single_counts",
    )
    rows = Packets(count + WARM_UP, 1, count + WARM_UP)
    taken = []
    for table in rows.batches():
        began = time.perf_counter()
        db.append("singles", table)
        query.wait()
        taken.append((time.perf_counter() - began) * 1000)
    # A window of ten rows is answered when the first row after it has come.
    check(query.stats()["rows_in"] == rows.rows, "the query did not take in every single row")
    batches = _newest(query, count)
    say(f"{count} micro-batches of one row")
    phases = {name: [b.milliseconds.get(name, 0) for b in batches] for name in PHASES}
    report.add("fixed_cost_median", median(phases["triggerExecution"]), "ms", bar=Bar(200, "at most"))
    report.add("append_to_wait_median", median(taken[WARM_UP:]), "ms")
    report.notes["fixed_cost_ms"] = {
        name: f"median {median(values):.0f}, p90 {percentile(values, 0.9):.0f}" for name, values in phases.items()
    }
    query.drop()


def _newest(query: Query, count: int) -> list[MicroBatch]:
    """The reports of the last `count` micro-batches; they come a moment after the answers."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        found = progress_of(query)
        # Two rows may share a micro-batch only while it is being started, which is not counted.
        if len(found) > count:
            return found[-count:]
        time.sleep(0.01)
    raise TimeoutError(f"Spark reported fewer than {count} micro-batches")


def latency(db: Database, seconds: float, report: Report) -> None:
    """From the call of `append` to the moment a subscriber of a standing SELECT has the rows."""
    db.sql("CREATE STREAM feed (ts TIMESTAMP, number BIGINT, length INT) TIMESTAMP BY ts")
    query = db.query(f"SELECT ts, number, length FROM feed WHERE length > {LENGTH_ABOVE}", name="fed")
    feeder = _Feeder(db)
    feeder.append()
    query.wait()
    subscriber = _Subscriber(query)
    subscriber.start()
    warm_up = min(2.0, seconds / 3)
    feeder.run(warm_up + seconds)
    query.wait()
    subscriber.finish(feeder.kept_rows)
    check(subscriber.numbers() == feeder.kept, "the subscriber did not get every row once and in order")
    late = max(feeder.lateness) * 1000
    say(f"{len(feeder.called)} appends of {FEED_ROWS} rows, each at most {late:.0f} ms after its time")
    first = next(n for n, at in enumerate(feeder.called) if at >= feeder.called[1] + warm_up)
    waited = [subscriber.seen[n] - feeder.called[n] for n in range(first, len(feeder.called))]
    report.add("latency_p50", percentile(waited, 0.5), "s", bar=Bar(0.5, "at most"))
    report.add("latency_p99", percentile(waited, 0.99), "s", bar=Bar(1.2, "at most"))
    report.add("fed_rows_per_second", feeder.rate(), "rows/s")
    query.stop()
    query.drop()


class _Feeder:
    """Appends FEED_ROWS rows every FEED_EVERY seconds, by the clock: a late append makes the next one early."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._random = np.random.default_rng(1)
        self.called: list[float] = []
        """When each append was called."""
        self.kept: list[int] = []
        """The numbers of the rows the query lets through."""
        self.lateness: list[float] = [0.0]

    @property
    def kept_rows(self) -> int:
        return len(self.kept)

    def append(self) -> None:
        first = len(self.called) * FEED_ROWS
        numbers = np.arange(first, first + FEED_ROWS)
        lengths = self._random.integers(40, 1500, FEED_ROWS).astype(np.int32)
        times = pa.array(START + numbers * 50).cast(pa.timestamp("us", tz="UTC"))
        table = pa.table({"ts": times, "number": numbers, "length": lengths})
        self.kept += numbers[lengths > LENGTH_ABOVE].tolist()
        self.called.append(time.perf_counter())
        self._db.append("feed", table)

    def run(self, seconds: float) -> None:
        began = time.perf_counter()
        for turn in range(round(seconds / FEED_EVERY)):
            due = began + turn * FEED_EVERY
            time.sleep(max(due - time.perf_counter(), 0))
            self.lateness.append(time.perf_counter() - due)
            self.append()

    def rate(self) -> float:
        return (len(self.called) - 2) * FEED_ROWS / (self.called[-1] - self.called[1])


class _Subscriber(threading.Thread):
    """Follows a query and notes when it saw the last row of each append."""

    def __init__(self, query: Query) -> None:
        super().__init__(name="subscriber", daemon=True)
        self._batches: Iterator[pa.RecordBatch] = query.stream(follow=True)
        self._got: list[pa.Array] = []
        self._rows = 0
        self._more = threading.Condition()
        self.seen: dict[int, float] = {}

    def run(self) -> None:
        for batch in self._batches:
            now = time.perf_counter()
            numbers = batch.column("number")
            with self._more:
                for append in np.unique(numbers.to_numpy() // FEED_ROWS).tolist():
                    self.seen[append] = now
                self._got.append(numbers)
                self._rows += len(numbers)
                self._more.notify_all()

    def finish(self, rows: int) -> None:
        """Until that many rows were seen."""
        with self._more:
            check(self._more.wait_for(lambda: self._rows >= rows, 30), "the subscriber missed rows")

    def numbers(self) -> list[int]:
        return pa.concat_arrays(self._got).to_pylist()  # type: ignore[no-any-return]
