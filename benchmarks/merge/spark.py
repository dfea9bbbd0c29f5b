"""The merge as a standing query on Spark that catches up on streams that are there already."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from anabranch.database import Database
from anabranch.schema import TIME_TYPE
from benchmarks.harness import Bar, Report, check, median, say
from benchmarks.merge.data import TOLERANCE, Disorder, MergeFeed, keys_of
from benchmarks.merge.kernel import merge
from benchmarks.merge.paper import SHARES
from benchmarks.window_join.data import PIECE, START, Answer, answer_of
from benchmarks.window_join.runs import run_ours

EVERY = 1_000_000
"""Microseconds between rounds that are due; the default."""
MICROSECONDS_APART = 10
NAMES = ("merge_a", "merge_b")


@dataclass(frozen=True)
class Timed:
    """Both streams with the times of their records, and what a standing query answers once it has caught up."""

    rows: int
    tables: list[pa.Table]
    window: int

    @classmethod
    def make(cls, rows: int, window: int) -> Timed:
        feed = MergeFeed(rows, Disorder.of(SHARES[0], window))
        times = pa.array(START * 1000 + np.arange(rows) * MICROSECONDS_APART).cast(TIME_TYPE)
        return cls(rows, [feed.table(i).append_column("ts", times) for i in (0, 1)], window)

    def expected(self, known: int) -> Answer:
        """Records older than `known` are there to be merged."""
        times = [table.column("ts").cast(pa.int64()).to_numpy() for table in self.tables]
        keys = [keys_of(table) for table in self.tables]
        found = merge(keys, self.window, self.window // 5, times, EVERY, known)
        numbers = [table.column("id").to_numpy() for table in self.tables]
        return answer_of([numbers[0][found.left], numbers[1][found.right]])


def merge_sql(window: int) -> str:
    return (
        f"SELECT a.id AS v0, b.id AS v1 FROM {NAMES[0]} a MERGE JOIN {NAMES[1]} b "
        f"ON within(a.k, b.k, {TOLERANCE}) WITH (window = {window}, step = {window // 5})"
    )


def measure(db: Database, rows: int, batch_rows: int, window: int, rounds: int, report: Report) -> None:
    timed = Timed.make(rows, window)
    for name, table in zip(NAMES, timed.tables, strict=True):
        db.sql(f"CREATE STREAM {name} (k DOUBLE, v DOUBLE, id BIGINT, ts TIMESTAMP) TIMESTAMP BY ts")
        for low in range(0, rows, PIECE):
            db.append(name, table.slice(low, PIECE))
    expected = timed.expected(min(db.reader(name).end().time for name in NAMES))
    check(expected.rows > 0, "nothing merges")
    ran = []
    for number in range(1 + rounds):
        each = run_ours(db, merge_sql(window), NAMES, timed, batch_rows, expected)
        if number:
            say(f"standing query, {batch_rows:,} rows of each stream per micro-batch: {each}")
            ran.append(each)
    report.add("standing_query", median(each.joined for each in ran), "records/s", bar=Bar(3e6, "at least"))
    report.add("standing_query_whole", median(each.whole for each in ran), "records/s")
    report.add("standing_query_steady", median(each.steady for each in ran), "records/s")
