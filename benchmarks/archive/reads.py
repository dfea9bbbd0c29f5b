"""Figures 10 and 12, and the reads of Table 1: bytes and time of a query at every reduction, for every layout.

Bytes are counted by the reader, footers included, and no footer is known before. Time is that of count and sum in
SQL, footers known. Spark's own sample of the plain table is timed in the same run.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from anabranch.database import Database
from benchmarks.archive.data import (
    COLUMN,
    HYBRIDS,
    LAZY,
    REDUCTIONS,
    VACUUMED,
    VARIANTS,
    Totals,
    Tuples,
    Values,
    archive_all,
    check_totals,
    forget_footers,
    question,
    reader_of,
    stream_of,
)
from benchmarks.archive.paper import READS, query_seconds
from benchmarks.harness import Bar, Report, check, median, say
from benchmarks.spark_peer import SETTINGS

FIRST = f"{LAZY}_first"
ALLOWED = 0.02
"""Of the full read, beside what is kept."""
HIGHEST = REDUCTIONS[-1]
LAZY_REDUCTIONS = (0.2, 0.4, 0.6, 0.8, 0.9, 0.99)
"""Of the lazy design, whose archive is made anew for each."""
SLOW, FAST = 5, 15
"""Rounds per chosen round: few of reads of everything, more of those that take milliseconds."""


@dataclass(frozen=True)
class Read:
    """A query at one reduction."""

    variant: str
    reduction: float
    bytes: int
    share: float
    """Bytes, of those that the layout's own full read takes."""
    formula: float
    """Table 1 in B."""
    seconds: float | None
    paper_seconds: float
    """Figure 10."""


def measure(db: Database, prefix: str, tuples: Tuples, run_rows: int, rounds: int, report: Report) -> list[Read]:
    """All layouts; those that reads do not change first."""
    expected = tuples.totals()
    values = tuples.values()
    reads: list[Read] = []
    for variant in VARIANTS:
        if variant.name != LAZY:
            reads += _curve(db, stream_of(prefix, variant.name), variant.name, values, expected, rounds)
    reads += _lazy(db, stream_of(prefix, LAZY), run_rows, values, expected, rounds)
    _add_figures(db, prefix, reads, expected, rounds, report)
    return reads


def _curve(db: Database, stream: str, name: str, values: Values, expected: Totals, rounds: int) -> list[Read]:
    full = counted(db, stream, name, 0.0, values)
    reads = []
    for reduction in REDUCTIONS:
        taken = full if reduction == 0 else counted(db, stream, name, reduction, values)
        seconds = timed(db, question(stream, name, reduction), expected, rounds)
        reads.append(_read(name, reduction, taken, full, seconds))
    say(f"reads, {name}: " + ", ".join(f"{r.reduction:.0%} {r.share:.3f}" for r in reads))
    return reads


def _read(name: str, reduction: float, taken: int, full: int, seconds: float | None) -> Read:
    formula = READS[name](1 - reduction)
    return Read(name, reduction, taken, taken / full, formula, seconds, query_seconds(name, reduction))


def _lazy(db: Database, stream: str, run_rows: int, values: Values, expected: Totals, rounds: int) -> list[Read]:
    """The first read of a fresh archive, which marks; the second; and those after the vacuumer was there."""
    variant = next(each for each in VARIANTS if each.name == LAZY)
    full = counted(db, stream, LAZY, 0.0, values)
    plain = timed(db, question(stream, LAZY, 0.0), expected, rounds)
    reads = [_read(name, 0.0, full, full, plain) for name in (FIRST, LAZY, VACUUMED)]
    for reduction in LAZY_REDUCTIONS:
        sql = question(stream, LAZY, reduction)
        db.drop_archive(stream, LAZY)
        archive_all(db, stream, variant, run_rows)
        db.sql(question(stream, LAZY, 0.0))  # its footers are known from here on, as for the others
        first, second = _once(db, sql), _once(db, sql)
        taken = counted(db, stream, LAZY, reduction, values)
        # A mark is one small file for all runs, where the paper writes every block once more.
        marks = Path(reader_of(db, stream, LAZY).storage.path) / "marks" / "marks.json"
        check(marks.exists(), "the first reduced read marked nothing")
        reads.append(_read(FIRST, reduction, taken + marks.stat().st_size, full, first))
        reads.append(_read(LAZY, reduction, taken, full, second))
        db.archive(stream, LAZY).vacuum()
        taken = counted(db, stream, LAZY, reduction, values)
        reads.append(_read(VACUUMED, reduction, taken, full, timed(db, sql, expected, rounds)))
    say(f"reads, {VACUUMED}: " + ", ".join(f"{r.reduction:.0%} {r.share:.3f}" for r in reads if r.variant == VACUUMED))
    return reads


def _once(db: Database, sql: str) -> float:
    began = time.perf_counter()
    db.sql(sql)
    return time.perf_counter() - began


def counted(db: Database, stream: str, archive: str, reduction: float, values: Values) -> int:
    """Bytes of a reduced read with no footer known; its rows are compared with the tuples themselves."""
    reader = reader_of(db, stream, archive)
    forget_footers()
    found = reader.read_sample(0, len(values), [COLUMN], 1 - reduction)
    numbers = found.column("_row").to_numpy()
    right = bool((found.column(COLUMN).to_numpy() == values[numbers]).all() and (np.diff(numbers) > 0).all())
    check(right, f"a read of {archive} at {reduction:.0%} gave other rows than there are")
    share, spread = len(numbers) / len(values), (reduction * (1 - reduction) / len(values)) ** 0.5
    check(abs(share - (1 - reduction)) <= 6 * spread, f"a read of {archive} at {reduction:.0%} gave {share:.2%}")
    return reader.bytes_read


def timed(db: Database, sql: str, expected: Totals, rounds: int) -> float:
    """Seconds of a question in SQL once it was asked before; its answer is checked."""
    check_totals(db.sql(sql).table(), expected, sql, reduced="REDUCE" in sql)
    taken: list[float] = []
    until = SLOW * rounds
    while len(taken) < until:
        began = time.perf_counter()
        db.sql(sql)
        taken.append(time.perf_counter() - began)
        until = FAST * rounds if median(taken) < 0.1 else SLOW * rounds
        if sum(taken) > rounds:
            break
    return median(taken)


def spark_sample(db: Database, stream: str, expected: Totals, rounds: int) -> dict[str, float]:
    """Seconds of Spark's own sample and of its full count and sum, over the files of the plain archive."""
    from pyspark.sql import functions as f

    session = db.spark.newSession()
    for name, value in SETTINGS.items():
        session.conf.set(name, value)
    files = [str(path) for path in Path(reader_of(db, stream, "plain").storage.path, "table").glob("*.parquet")]
    rows = session.read.parquet(*files)
    asked: dict[str, Callable[[], pa.Table]] = {
        "sample": lambda: rows.sample(1 - HIGHEST).agg(f.count("*"), f.sum(COLUMN)).collect()[0],
        "full": lambda: rows.agg(f.count("*"), f.sum(COLUMN)).collect()[0],
    }
    taken = {}
    for name, ask in asked.items():
        count, total = ask()
        if name == "full":
            check(Totals(count, total) == expected, f"Spark counts {count} and sums {total}, not {expected}")
        else:
            part = (1 - HIGHEST) * expected.rows
            check(abs(count - part) < 8 * part**0.5, f"Spark's sample has {count} rows, not about {part:.0f}")
        seconds = []
        for _ in range(SLOW * rounds):
            began = time.perf_counter()
            ask()
            seconds.append(time.perf_counter() - began)
        taken[name] = median(seconds)
    return taken


def _add_figures(db: Database, prefix: str, reads: list[Read], expected: Totals, rounds: int, report: Report) -> None:
    for name in HYBRIDS:
        beside = [r.share - (1 - r.reduction) for r in reads if r.variant == name]
        bar = None if name == "blocks_10" else Bar(ALLOWED, "at most")
        report.add(f"bytes_beside_what_is_kept_{name}", max(beside), "of the full read", bar=bar)
    best = {name: next(r for r in reads if r.variant == name and r.reduction == HIGHEST) for name in HYBRIDS}
    name = min(best, key=lambda each: best[each].seconds or 0.0)
    # The full scan is the same question with nothing dropped; all rows can be read in other ways, too.
    ways = {
        "reduced by 0": next(r.seconds or 0.0 for r in reads if r.variant == name and r.reduction == 0),
        "without REDUCE BY": timed(db, question(stream_of(prefix, name), name, None), expected, rounds),
        "plain archive": next(r.seconds or 0.0 for r in reads if r.variant == "plain" and r.reduction == 0),
    }
    report.notes["full_scan_seconds"] = {way: round(seconds, 4) for way, seconds in ways.items()}
    fast = best[name].seconds or 0.0
    peer = spark_sample(db, stream_of(prefix, "plain"), expected, rounds)
    say(f"99 % reduction: {1000 * fast:.1f} ms ({name}); full scans {report.notes['full_scan_seconds']}; Spark {peer}")
    own = ways["reduced by 0"]
    report.add("query_at_99_percent", 1 / fast, "queries/s", peer=1 / own, bar=Bar(20, "at least"))
    spark = 1 / peer["sample"]
    report.add("query_at_99_percent_against_spark", 1 / fast, "queries/s", peer=spark, bar=Bar(10, "at least"))
    report.add("query_at_99_percent_against_plain_archive", 1 / fast, "queries/s", peer=1 / ways["plain archive"])
    report.add("query_at_99_percent_against_plain_sql", 1 / fast, "queries/s", peer=1 / ways["without REDUCE BY"])
    report.notes["spark_seconds"] = {way: round(seconds, 4) for way, seconds in peer.items()}
    report.notes["fastest_layout_at_99_percent"] = name
