"""Our side of a window join: streams filled from a feed, a standing query run over them, its answer checked.

Three speeds are taken. *Joined* is what bars are about: from the start of the query's first micro-batch to the end of
its last one, when the last answer is in the log. *Whole* also has what comes before, from the call that makes the
query. *Steady* leaves the first micro-batch out.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Protocol

from anabranch.database import Database
from anabranch.queries import Query
from benchmarks.harness import check
from benchmarks.progress import MicroBatch, progress_of
from benchmarks.window_join.data import Answer, Feed, answer_of

Windows = Mapping[tuple[int, int], int]
"""Milliseconds for each bound pair of streams."""


@dataclass(frozen=True)
class Ran:
    """One run of a join, ours or a peer's, its answer checked."""

    rows: int
    """Of all streams together."""
    first_rows: int
    """Those of the first micro-batch."""
    whole_seconds: float
    batches: list[MicroBatch]

    @property
    def joined(self) -> float:
        """Rows/s from the start of the first micro-batch to the end of the last."""
        return self.rows / (self.batches[-1].end - self.batches[0].began)

    @property
    def whole(self) -> float:
        return self.rows / self.whole_seconds

    @property
    def steady(self) -> float:
        """Rows/s after the first micro-batch; that of all of them if there is no other."""
        seconds = self.batches[-1].end - self.batches[0].end
        return (self.rows - self.first_rows) / seconds if seconds else self.joined

    def __str__(self) -> str:
        return f"{self.joined:,.0f} rows/s ({self.whole:,.0f} whole, {self.steady:,.0f} steady)"


def fill(db: Database, prefix: str, feed: Feed) -> list[str]:
    """Make the streams of a feed, and give their names."""
    names = [f"{prefix}_{name}" for name in feed.names]
    for number, name in enumerate(names):
        db.sql(f"CREATE STREAM {name} ({feed.columns}) TIMESTAMP BY ts")
        for piece in feed.pieces(number):
            db.append(name, piece)
    return names


def all_pairs(streams: int, window: int) -> dict[tuple[int, int], int]:
    """The same window for every pair."""
    return dict.fromkeys(combinations(range(streams), 2), window)


def join_sql(names: Sequence[str], windows: Windows) -> str:
    """The join of streams on equal keys, giving k and the values of all streams."""
    aliases = "ABCD"[: len(names)]
    sizes = {pair: f"INTERVAL {window // 1000} SECONDS" for pair, window in windows.items()}
    if windows == all_pairs(len(names), next(iter(windows.values()))):
        window = f"WINDOW = {next(iter(sizes.values()))}"
    else:
        window = " AND ".join(f"WINDOW({aliases[i]}, {aliases[j]}) = {size}" for (i, j), size in sizes.items())
    values = ", ".join(f"{alias}.v AS v{number}" for number, alias in enumerate(aliases))
    sources = ", ".join(f"{name} {alias}" for name, alias in zip(names, aliases, strict=True))
    equal = " AND ".join(f"{a}.k = {b}.k" for a, b in pairwise(aliases))
    return f"SELECT A.k, {values} FROM {sources} {window} WHERE {equal}"


class Rows(Protocol):
    """Streams that have as many rows each."""

    @property
    def rows(self) -> int: ...


def run_ours(db: Database, sql: str, names: Sequence[str], feed: Rows, batch_rows: int, expected: Answer) -> Ran:
    """A standing query over streams that are there already, in micro-batches of `batch_rows` rows of each."""
    db.settings.change(batch_rows=batch_rows)
    began = time.time()
    query = db.query(sql, name="measured")
    query.wait()
    seconds = time.time() - began
    batches = _batches(query, names, feed.rows)
    query.stop()
    answer = query.table()
    got = answer_of([answer.column(name) for name in answer.column_names if name[0] in "vw"])
    check(got == expected, f"the standing query answered {got}, not {expected}")
    db.drop_query("measured")
    first = sum(row for row, *_ in json.loads(batches[0].end_offset).values())
    return Ran(feed.rows * len(names), first, seconds, batches)


def _batches(query: Query, names: Sequence[str], rows: int) -> list[MicroBatch]:
    """The reports of a query that has caught up; the last one comes a moment after `wait`."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        found = progress_of(query)
        reached = json.loads(found[-1].end_offset) if found else {}
        if all(reached.get(name, [0])[0] >= rows for name in names):
            return found
        time.sleep(0.01)
    raise TimeoutError("Spark reported no progress for the last micro-batch")
