"""Memory of Spark's Python workers while many rows go through a window, made, joined and dropped as they come."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import psutil
import pyarrow as pa

import anabranch as ab
from benchmarks.harness import Bar, Report, check, say
from benchmarks.window_join.data import PIECE, Answer, Feed, answer_of
from benchmarks.window_join.oracle import equal_keys

SAMPLE_SECONDS = 0.2
WORKER = "pyspark.worker"
"""What the command line of a worker names; Spark has other Python processes, which plan."""


@dataclass(frozen=True)
class MemorySizes:
    """How much is run through."""

    rows: int
    """Of both streams together."""
    rate: int = 20_000
    """Rows per second of event time and stream."""
    window_seconds: int = 60
    keys: int = 10_000_000
    step: int = 200_000
    """Rows of each stream that are appended before the query is waited for: those of a micro-batch."""


@dataclass
class Watch:
    """The most that Spark's Python workers held at once: the processes that run tasks, and the one they come from."""

    resident: int = 0
    """Pages that processes share, and those of mapped files, count for each of them."""
    anonymous: int = 0
    """Without pages of files that are mapped, which the system takes back when it needs them."""
    processes: int = 0
    _stop: threading.Event = field(default_factory=threading.Event)

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        thread = threading.Thread(target=self._sample, daemon=True)
        thread.start()
        yield
        self._stop.set()
        thread.join()

    def _sample(self) -> None:
        while not self._stop.wait(SAMPLE_SECONDS):
            sizes = [size for process in psutil.Process().children(recursive=True) if (size := _sizes(process))]
            resident, anonymous = (sum(size[i] for size in sizes) for i in (0, 1))
            if resident > self.resident:
                self.resident, self.processes = resident, len(sizes)
            self.anonymous = max(self.anonymous, anonymous)


def _sizes(process: psutil.Process) -> tuple[int, int] | None:
    """Bytes resident, and those of them that are no file's; None if it is no worker, or gone."""
    try:
        if WORKER not in process.cmdline():
            return None
        memory = process.memory_info()
        return memory.rss, memory.rss - memory.shared
    except psutil.Error:
        return None


def measure(root: str, sizes: MemorySizes, report: Report) -> None:
    """Feed a standing join piece by piece, and watch."""
    feed = Feed(sizes.rows // 2, sizes.keys, rate=sizes.rate, seed=3)
    check(sizes.step % PIECE == 0, "rows are appended by whole pieces")
    watch = Watch()
    with ab.open(f"{root}/memory", settings={"batch_rows": sizes.step}) as db:
        for name in feed.names:
            retain = f"RETAIN INTERVAL {3 * sizes.window_seconds} SECONDS"
            db.sql(f"CREATE STREAM {name} ({feed.columns}) TIMESTAMP BY ts {retain}")
        query = db.query(
            f"SELECT A.v, B.v AS w FROM a A, b B WINDOW = INTERVAL {sizes.window_seconds} SECONDS WHERE A.k = B.k",
            name="joined",
        )
        with watch.watching():
            for low in range(0, feed.rows, sizes.step):
                for piece in range(low, min(low + sizes.step, feed.rows), PIECE):
                    for stream, name in enumerate(feed.names):
                        db.append(name, feed.piece(stream, piece))
                query.wait()
                if low % (10 * sizes.step) == 0:
                    say(f"{2 * low:,} of {sizes.rows:,} rows, workers hold {watch.anonymous / 1e6:,.0f} MB at most")
        query.stop()
        answer = query.table()
    got = answer_of([answer.column("v"), answer.column("w")])
    expected = expected_answer(feed, sizes)
    check(got == expected, f"the query over {sizes.rows:,} rows answered {got}, not {expected}")
    # Mapped segments are the system's cache of the log: it takes their pages back when it needs them.
    report.add("memory_of_workers", watch.anonymous / 1e6, "MB", bar=Bar(1000, "at most"))
    report.add("memory_of_workers_with_mapped_files", watch.resident / 1e6, "MB")
    report.notes["memory_of_workers"] = {
        "rows": f"{sizes.rows:,}, of which {2 * sizes.rate * sizes.window_seconds:,} in a window",
        "processes at the highest": watch.processes,
        "results": f"{got.rows:,}",
    }


def expected_answer(feed: Feed, sizes: MemorySizes) -> Answer:
    """By the oracle, a step of the first stream at a time with what of the second is near it."""
    window = sizes.window_seconds * 1000
    reach = -(-sizes.rate * sizes.window_seconds // PIECE) * PIECE
    total = np.zeros(2, np.int64)
    for low in range(0, feed.rows, sizes.step):
        high = min(low + sizes.step, feed.rows)
        a = _rows(feed, 0, low, high)
        b = _rows(feed, 1, max(low - reach - PIECE, 0), min(high + reach + PIECE, feed.rows))
        total += equal_keys([a, b], {(0, 1): window})
    return Answer(*map(int, total))


def _rows(feed: Feed, stream: int, low: int, high: int) -> pa.Table:
    return pa.concat_tables([feed.piece(stream, at) for at in range(low, high, PIECE)])
