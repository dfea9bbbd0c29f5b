"""Filter and tumbling count per key through a standing query, against Spark Structured Streaming.

Both read the same rows, in micro-batches of the same number of rows, on one warm JVM, and both
write their answers to disk. Rounds take turns. Two speeds are compared: *whole*, from the call
that starts the query to the moment the last row is in the answer, and *steady*, from the end of
the first micro-batch to the end of the last one that has rows, by Spark's own progress reports.
"""

from __future__ import annotations

import json
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

import anabranch as ab
from anabranch.database import Database
from anabranch.queries import Query
from benchmarks import micro_batch
from benchmarks.harness import Bar, Report, check, median, say
from benchmarks.packets import CREATE, LENGTH_ABOVE, Packets
from benchmarks.progress import MicroBatch, keep_progress, progress_of, steady_rate
from benchmarks.spark_peer import SparkPeer

PEER = "Spark Structured Streaming over Parquet"
SELECT = (
    "SELECT saddr, window_end, count(*) AS n FROM packets WINDOW = INTERVAL 10 SECONDS "
    f"WHERE length > {LENGTH_ABOVE} GROUP BY saddr"
)
APPEND_ROWS = 100_000

Answer = dict[tuple[int, str], int]


@dataclass(frozen=True)
class Sizes:
    """How much is run through, and how often."""

    rows: int
    batch_rows: int
    rounds: int
    single_rows: int
    """Micro-batches of one row, for the fixed cost."""
    feed_seconds: float
    """How long rows are fed at 20k rows/s, for the latency."""
    event_seconds: float = 1000
    """The span of event time, whatever the number of rows: about a hundred windows."""


FULL = Sizes(rows=10_000_000, batch_rows=1_000_000, rounds=3, single_rows=100, feed_seconds=20)
QUICK = Sizes(rows=1_000_000, batch_rows=100_000, rounds=2, single_rows=50, feed_seconds=6)


def run(sizes: Sizes) -> Report:
    report = Report(PEER, sizes)
    settings = {"batch_rows": sizes.batch_rows}
    with (
        tempfile.TemporaryDirectory(prefix="bench-pipeline-") as root,
        ab.open(f"{root}/river", settings=settings) as db,
    ):
        keep_progress(db)
        _throughput(db, sizes, Path(root), report)
        micro_batch.fixed_cost(db, sizes.single_rows, report)
        micro_batch.latency(db, sizes.feed_seconds, report)
    return report


def _throughput(db: Database, sizes: Sizes, root: Path, report: Report) -> None:
    packets = Packets(sizes.rows, min(APPEND_ROWS, sizes.batch_rows), sizes.event_seconds)
    peer = SparkPeer(db.spark.newSession(), root / "spark")
    say(f"writing {sizes.rows:,} rows to a stream, and to Parquet for the peer")
    db.sql(CREATE.format(name="packets"))
    for table in packets.batches():
        db.append("packets", table)
    peer.fill(packets.batches(), sizes.batch_rows)
    expected = packets.expected()

    say("checking both answers")
    _ours(db, "checked", sizes, expected)
    _peers(peer, "checked", sizes, expected)
    ours, peers = [], []
    for number in range(sizes.rounds):
        ours.append(_ours(db, f"round{number}", sizes, expected))
        say(f"round {number + 1}: ours {_text(ours[-1])} rows/s")
        peers.append(_peers(peer, f"round{number}", sizes, expected))
        say(f"round {number + 1}: peer {_text(peers[-1])} rows/s")
    both = list(zip(ours, peers, strict=True))
    for i, name in enumerate(("whole", "steady")):
        speed = median(o.speeds[i] for o in ours)
        ratio = median(o.speeds[i] / p.speeds[i] for o, p in both)
        report.add(f"{name}_rows_per_second", speed, "rows/s", peer=speed / ratio, bar=Bar(2, "at least"))
    first = median(o.first for o in ours)
    report.add("start_to_first_batch", first, "s", peer=first / median(o.first / p.first for o, p in both))
    report.notes["micro_batch_ms_of_the_last_round"] = {
        "ours": _breakdown(ours[-1].batches),
        "peer": _breakdown(peers[-1].batches),
    }


@dataclass(frozen=True)
class Round:
    """One run of one of the two, its answer checked."""

    speeds: tuple[float, float]
    """Rows/s, whole and steady."""
    first: float
    """Seconds until the first micro-batch was done."""
    batches: list[MicroBatch]


def _ours(db: Database, name: str, sizes: Sizes, expected: Answer) -> Round:
    began = time.time()
    db.sql(f"CREATE CONTINUOUS QUERY {name} AS {SELECT}")
    query = db.get_query(name)
    query.wait()
    seconds = time.time() - began
    batches = _batches(query, sizes.rows)
    query.stop()
    answer = query.table()
    _check("the standing query", answer.column("window_end"), answer.column("saddr"), answer.column("n"), expected)
    db.drop_query(name)
    return _round(sizes, began, seconds, batches)


def _batches(query: Query, rows: int) -> list[MicroBatch]:
    """The progress reports of a query that has caught up; the last one comes a moment after `wait`."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        found = progress_of(query)
        if found and next(iter(json.loads(found[-1].end_offset).values()))[0] >= rows:
            return found
        time.sleep(0.01)
    raise TimeoutError("Spark reported no progress for the last micro-batch")


def _peers(peer: SparkPeer, name: str, sizes: Sizes, expected: Answer) -> Round:
    began = time.time()
    batches = peer.run(name)
    seconds = batches[-1].end - began
    answer = peer.answer(name)
    _check("the peer", answer.column("window_end"), answer.column("saddr"), answer.column("n"), expected)
    peer.forget(name)
    return _round(sizes, began, seconds, batches)


def _round(sizes: Sizes, began: float, seconds: float, batches: list[MicroBatch]) -> Round:
    speeds = sizes.rows / seconds, steady_rate(batches, sizes.rows, sizes.batch_rows)
    return Round(speeds, batches[0].end - began, batches)


def _check(who: str, ends: pa.ChunkedArray, keys: pa.ChunkedArray, counts: pa.ChunkedArray, expected: Answer) -> None:
    micros = ends.cast(pa.timestamp("us", tz="UTC")).cast(pa.int64()).to_pylist()
    got = dict(zip(zip(micros, keys.to_pylist(), strict=True), counts.to_pylist(), strict=True))
    check(len(got) == len(micros), f"{who} answered a window and key more than once")
    check(got == expected, f"{who} answered {len(got)} counts, not the {len(expected)} expected ones")


def _breakdown(batches: list[MicroBatch]) -> str:
    """The medians of all micro-batches but the first."""
    names = sorted({name for b in batches[1:] for name in b.milliseconds})
    middle: dict[str, Any] = {n: round(median(b.milliseconds.get(n, 0) for b in batches[1:])) for n in names}
    return ", ".join(f"{name} {value}" for name, value in sorted(middle.items(), key=lambda item: -item[1]))


def _text(round: Round) -> str:
    return f"{round.speeds[0]:,.0f} whole, {round.speeds[1]:,.0f} steady"
