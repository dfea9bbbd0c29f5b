"""Bars of windowed standing queries, against Spark.

Spark has no sliding median: the peer asks `percentile(v, 0.5)` of the window's rows at each slide, over cached rows
in order, so that each core reads its share of the window and no other blocks. Overlapping windows it has: `window(ts,
size, slide)` copies a row into each window it belongs to. They are asked as one batch job, the fastest way it has.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import parquet

from anabranch.database import Database
from anabranch.queries import Query
from anabranch.schema import TIME_TYPE
from benchmarks.harness import Bar, Report, check, median, say
from benchmarks.pipeline import _batches
from benchmarks.progress import MicroBatch, steady_rate
from benchmarks.spark_peer import SETTINGS
from benchmarks.windows.subjects import Ints

START = 1_700_000_000_000_000
SECOND = 1_000_000
KEYS = 10_000
SPAN = 400
"""Seconds of event time of the overlapping windows' rows."""
SIZE = 100
"""Seconds; they slide by one."""
APPEND_ROWS = 500_000


@dataclass(frozen=True)
class SparkSizes:
    """How much is run through."""

    median_rows: int
    median_windows: tuple[tuple[int, int], ...]
    """(size, slide) in rows; the bar is on the first."""
    peer_slides: int
    overlap_rows: int
    peer_rows: int
    batch_rows: int
    rounds: int


@dataclass(frozen=True)
class Ran:
    """One run of a standing query."""

    seconds: float
    """From the call that starts it until it has taken in all rows."""
    batches: list[MicroBatch]
    answer: pa.Table


def peer_session(db: Database) -> Any:
    """A session of the same JVM with the settings that suit Spark's own queries."""
    session = db.spark.newSession()
    cores = int(session.sparkContext.defaultParallelism)
    for name, value in {**SETTINGS, "spark.sql.shuffle.partitions": str(cores)}.items():
        session.conf.set(name, value)
    return session


def spread(session: Any, file: Path, order: str) -> Any:
    """Rows in memory, an even share of every window on each core, in order so that blocks can be skipped."""
    cores = int(session.sparkContext.defaultParallelism)
    cached = session.read.parquet(str(file)).repartition(cores).sortWithinPartitions(order).cache()
    cached.count()
    return cached


def run_query(db: Database, sql: str, rows: int) -> Ran:
    began = time.time()
    query: Query = db.query(sql, name="measured")
    query.wait()
    seconds = time.time() - began
    batches = _batches(query, rows)
    query.stop()
    answer = query.table()
    db.drop_query("measured")
    return Ran(seconds, batches, answer)


# -- median --------------------------------------------------------------------------------------------


def sliding_median(db: Database, session: Any, root: Path, sizes: SparkSizes, report: Report) -> None:
    """Slides/s of a standing median, and of Spark asked again at each slide."""
    values = np.random.default_rng(2).normal(size=sizes.median_rows)
    db.sql("CREATE STREAM measures (v DOUBLE, ts TIMESTAMP) TIMESTAMP BY ts")
    for low in range(0, len(values), APPEND_ROWS):
        part = values[low : low + APPEND_ROWS]
        times = pa.array(START + np.arange(low, low + len(part)) * 100).cast(TIME_TYPE)
        db.append("measures", pa.table({"v": part, "ts": times}))
    parquet.write_table(pa.table({"n": np.arange(len(values)), "v": values}), root / "values.parquet")
    cached = spread(session, root / "values.parquet", "n")
    speedups = []
    for size, slide in sizes.median_windows:
        _median_once(db, values, size, slide)  # compiles, and starts what Spark starts
        _spark_medians(cached, values, size, slide, sizes.peer_slides)
        ours, peers = [], []
        for _ in range(sizes.rounds):
            ran = _median_once(db, values, size, slide)
            ours.append(steady_rate(ran.batches, len(values), sizes.batch_rows) / slide)
            peers.append(_spark_medians(cached, values, size, slide, sizes.peer_slides))
            say(f"median of {size:,} rows, slide {slide:,}: {ours[-1]:,.0f} slides/s, Spark {peers[-1]:,.1f}")
        ratio = median(a / b for a, b in zip(ours, peers, strict=True))
        speedups.append(ratio)
        name = f"sql_median_{size}_rows_slide_{slide}"
        report.add(name, median(ours), "slides/s", peer=median(ours) / ratio)
    cached.unpersist()
    report.add("sql_median_speedup", speedups[0], "×", bar=Bar(20, "at least"))


def _median_once(db: Database, values: NDArray[np.float64], size: int, slide: int) -> Ran:
    sql = f"SELECT window_end, median(v) AS m FROM measures WINDOW = {size} ROWS SLIDE {slide} ROWS"
    ran = run_query(db, sql, len(values))
    ends, medians = (ran.answer.column(name).to_numpy() for name in ("window_end", "m"))
    every = np.arange(slide, len(values) + 1, slide)
    check(np.array_equal(ends, every), "the median missed a window, or gave one twice")
    for i in np.unique(np.linspace(0, len(ends) - 1, 50).astype(int)):
        wanted = np.median(values[max(ends[i] - size, 0) : ends[i]])
        check(abs(medians[i] - wanted) <= 1e-12, f"the median of the window that ends at row {ends[i]} is wrong")
    return ran


def _spark_medians(cached: Any, values: NDArray[np.float64], size: int, slide: int, slides: int) -> float:
    """Slides/s."""
    from pyspark.sql import functions as f

    ends = [len(values) - (slides - i - 1) * slide for i in range(slides)]
    began = time.perf_counter()
    answers = [
        cached.where(f"n >= {end - size} AND n < {end}").agg(f.expr("percentile(v, 0.5)")).first()[0] for end in ends
    ]
    seconds = time.perf_counter() - began
    wanted = np.median(values[ends[-1] - size : ends[-1]])
    check(abs(answers[-1] - wanted) <= 1e-12, "the peer's median is wrong")
    return slides / seconds


# -- overlapping windows -----------------------------------------------------------------------------------


def overlaps(db: Database, session: Any, root: Path, sizes: SparkSizes, report: Report) -> None:
    """Rows/s of count, sum and avg per key over windows of which each row is in a hundred."""
    random = np.random.default_rng(1)
    rows = sizes.overlap_rows
    times = np.sort(random.integers(0, SPAN * SECOND, rows))
    keys, values = random.integers(0, KEYS, rows), random.normal(size=rows)
    table = pa.table({"k": keys, "v": values, "ts": pa.array(START + times).cast(TIME_TYPE)})
    db.sql("CREATE STREAM keyed (k BIGINT, v DOUBLE, ts TIMESTAMP) TIMESTAMP BY ts")
    for low in range(0, rows, APPEND_ROWS):
        db.append("keyed", table.slice(low, APPEND_ROWS))
    parquet.write_table(table.slice(0, sizes.peer_rows), root / "keyed.parquet")
    cached = spread(session, root / "keyed.parquet", "ts")
    whole, steady, peers = [], [], []
    for number in range(sizes.rounds):
        ran = run_query(db, OVERLAPS, rows)
        _check_overlaps(ran.answer, times, keys, values)
        whole.append(rows / ran.seconds)
        steady.append(steady_rate(ran.batches, rows, sizes.batch_rows))
        say(f"windows of 100 s every second, 10,000 keys: {whole[-1]:,.0f} rows/s whole, {steady[-1]:,.0f} steady")
        if number == 0:
            _check_spark_overlaps(cached, times[: sizes.peer_rows])
        peers.append(spark_windows(cached, sizes.peer_rows, 100, ("k",)))
        say(f"the same in Spark, first {sizes.peer_rows:,} rows: {peers[-1]:,.0f} rows/s")
    ratio = median(a / b for a, b in zip(whole, peers, strict=True))
    report.add("overlaps_steady_rows_per_second", median(steady), "rows/s")
    report.add("overlaps_speedup", ratio, "×")
    report.add("overlaps_rows_per_second", median(whole), "rows/s", bar=Bar(1e6, "at least"))
    for count in (10, 100):
        speed = median(spark_windows(cached, sizes.peer_rows, count, ()) for _ in range(sizes.rounds))
        report.add(f"spark_window_{count}_overlaps", 1e9 / speed, "ns/tuple")
    cached.unpersist()


OVERLAPS = (
    "SELECT k, window_end, count(*) AS n, sum(v) AS total, avg(v) AS mean FROM keyed "
    f"WINDOW = INTERVAL {SIZE} SECONDS SLIDE INTERVAL 1 SECOND GROUP BY k"
)


def _check_overlaps(answer: pa.Table, times: Ints, keys: Ints, values: NDArray[np.float64]) -> None:
    """Every count, sum and mean of every complete window."""
    place = times // SECOND * KEYS + keys
    counts, sums = (np.bincount(place, w, SPAN * KEYS).reshape(SPAN, KEYS) for w in (None, values))
    counts, sums = (np.vstack([np.zeros((1, KEYS)), np.cumsum(each, axis=0)]) for each in (counts, sums))
    last = int(times[-1]) // SECOND
    ends = np.arange(int(times[0]) // SECOND + 1, last + 1)
    n, total = (each[ends] - each[np.maximum(ends - SIZE, 0)] for each in (counts, sums))
    got_end = answer.column("window_end").cast(pa.int64()).to_numpy() // SECOND - START // SECOND - ends[0]
    at = got_end, answer.column("k").to_numpy()
    check(answer.num_rows == np.count_nonzero(n), "a window and key is missing from the answer, or there twice")
    check(np.array_equal(answer.column("n").to_numpy(), n[at]), "a count of overlapping windows is wrong")
    close = {"total": total[at], "mean": total[at] / n[at]}
    right = all(np.allclose(answer.column(name).to_numpy(), wanted, atol=1e-6) for name, wanted in close.items())
    check(right, "a sum or mean of overlapping windows is wrong")


def _windowed(cached: Any, count: int, keys: tuple[str, ...]) -> Any:
    from pyspark.sql import functions as f

    window = f.window("ts", f"{SIZE} seconds", f"{SIZE // count} seconds")
    return cached.groupBy(window, *keys).agg(f.count("*").alias("n"), f.sum("v"), f.avg("v"))


def spark_windows(cached: Any, rows: int, count: int, keys: tuple[str, ...]) -> float:
    """Rows/s of Spark's own overlapping windows, each row in `count` of them, as one batch job."""
    began = time.perf_counter()
    _windowed(cached, count, keys).write.format("noop").mode("overwrite").save()
    return rows / (time.perf_counter() - began)


def _check_spark_overlaps(cached: Any, times: Ints) -> None:
    got = _windowed(cached, 100, ("k",)).selectExpr("sum(n)").first()[0]
    check(got == len(times) * SIZE, "the peer's windows do not hold each row a hundred times")
