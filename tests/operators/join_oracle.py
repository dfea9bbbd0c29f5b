"""Window joins the naive way: every combination of rows, every constraint and condition checked on its own.

And the same joins the hard way: their operator driven through micro-batches cut at random, over
streams that run ahead, lag behind and stall, with scratch lost, processes gone and batches run twice.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import pyarrow as pa

from anabranch.operators.join.operator import WindowJoin
from anabranch.operators.offset import Offset
from anabranch.testing import OperatorHarness
from tests.operators.join_rows import SCHEMA, Row, table_of

Window = tuple[int, int, int, int]
"""Sources i and j with the least and most that time(j) − time(i) may be; for rows i, j, n, n."""
Streams = Mapping[str, list[Row]]
Offsets = Mapping[str, Offset]
Answer = list[tuple[Any, ...]]
"""Row numbers in each source, and the time of the answer row."""


class Filter(NamedTuple):
    """What rows of one source must be, in SQL and in Python."""

    sql: str
    holds: Callable[[Row], bool | None]


class Condition(NamedTuple):
    """What rows of several sources must be, in SQL and in Python (rows by alias)."""

    sql: str
    holds: Callable[[Mapping[str, Row]], bool | None]


class Source(NamedTuple):
    """A stream under an alias."""

    alias: str
    stream: str
    filter: Filter | None = None


class Result(NamedTuple):
    """One row of each source; `time` is that of the newest."""

    time: int
    rows: tuple[int, ...]


@dataclass(frozen=True)
class Join:
    """A join as the oracle and the operator both can read it."""

    sources: tuple[Source, ...]
    windows: tuple[Window, ...]
    conditions: tuple[Condition, ...] = ()
    unit: Literal["time", "rows"] = "time"
    order: Literal["arrival", "time"] = "arrival"

    def operator(self, **more: Any) -> WindowJoin:
        """The operator, which answers with the row number in each source and the time."""
        return WindowJoin(
            sources=tuple((s.alias, s.stream, s.filter.sql if s.filter else None) for s in self.sources),
            unit=self.unit,
            windows=self.windows,
            conditions=tuple(condition.sql for condition in self.conditions),
            columns=(*((s.alias, f"`{s.alias}.n`") for s in self.sources), ("_time", "_time")),
            time="_time",
            order=self.order,
            **more,
        )

    def harness(self, **more: Any) -> OperatorHarness:
        return OperatorHarness(self.operator(), {source.stream: SCHEMA for source in self.sources}, **more)


def join_of(
    streams: Sequence[str], windows: Sequence[Window], conditions: Sequence[Condition] = (), **more: Any
) -> Join:
    """A join of streams, the first of which gets the alias A."""
    sources = tuple(Source(alias, stream) for alias, stream in zip("ABCDEFGH", streams, strict=False))
    return Join(sources, tuple(windows), tuple(conditions), **more)


def uniform(count: int, size: int) -> list[Window]:
    """WINDOW = size, for every pair of sources."""
    return [(i, j, -size, size) for i in range(count) for j in range(i + 1, count)]


def rows_windows(count: int, size: int) -> list[Window]:
    """WINDOW = size ROWS."""
    return [(i, j, size, size) for i in range(count) for j in range(i + 1, count)]


# -- the oracle --------------------------------------------------------------------------------------


def results(join: Join, streams: Streams) -> list[Result]:
    """All results there are, by the time of their newest row and then by row numbers."""
    tables = [streams[source.stream] for source in join.sources]
    sees = _within_rows(tables) if join.unit == "rows" else _within_time(tables)
    found: list[Result] = []

    def extend(chosen: tuple[int, ...]) -> None:
        place = len(chosen)
        if place == len(tables):
            rows = {source.alias: table[n] for source, table, n in zip(join.sources, tables, chosen, strict=True)}
            if all(condition.holds(rows) is True for condition in join.conditions):
                found.append(Result(max(row["t"] for row in rows.values()), chosen))
            return
        wanted = join.sources[place].filter
        for n, row in enumerate(tables[place]):
            more = (*chosen, n)
            if (wanted is None or wanted.holds(row) is True) and all(
                sees(i, more[i], j, more[j], low, high) for i, j, low, high in join.windows if max(i, j) == place
            ):
                extend(more)

    extend(())
    return sorted(found)


def _within_time(tables: list[list[Row]]) -> Callable[[int, int, int, int, int, int], bool]:
    def sees(i: int, n: int, j: int, m: int, low: int, high: int) -> bool:
        return bool(low <= tables[j][m]["t"] - tables[i][n]["t"] <= high)

    return sees


def _within_rows(tables: list[list[Row]]) -> Callable[[int, int, int, int, int, int], bool]:
    def position(i: int, n: int) -> tuple[int, int, int]:
        return (tables[i][n]["t"], i, n)

    def sees(i: int, n: int, j: int, m: int, low: int, high: int) -> bool:
        (i, n), (j, m) = sorted([(i, n), (j, m)], key=lambda row: position(*row))
        before = sum(position(i, k) < position(j, m) for k in range(len(tables[i])))
        return before - high <= n

    return sees


def batch(join: Join, found: list[Result], start: Offsets, end: Offsets) -> Answer:
    """Of all results, what the micro-batch from one offset to another answers, row for row."""
    streams = {source.stream for source in join.sources}
    if join.order == "time":
        before, after = (min(at[stream].time for stream in streams) for at in (start, end))
        return [(*result.rows, result.time) for result in found if before <= result.time < after]
    newest = max(start[stream].time for stream in streams)
    taken, there = ([at[source.stream].row for source in join.sources] for at in (start, end))
    return [
        (*result.rows, max(result.time, newest))
        for result in found
        if all(n < m for n, m in zip(result.rows, there, strict=True))
        and any(n >= m for n, m in zip(result.rows, taken, strict=True))
    ]


def reach(join: Join) -> list[list[int]]:
    """For sources i and j the most that time(j) − time(i) can be in a result, over any path of windows."""
    places = range(len(join.sources))
    far = 2**80
    most = [[0 if i == j else far for j in places] for i in places]
    for i, j, low, high in join.windows:
        most[i][j], most[j][i] = min(most[i][j], high), min(most[j][i], -low)
    for k in places:
        for i in places:
            for j in places:
                most[i][j] = min(most[i][j], most[i][k] + most[k][j])
    return most


def oldest_needed(join: Join, at: Offsets, stream: str) -> int:
    """The time from which on a stream's rows can still be in a result that was not answered."""
    most, places = reach(join), range(len(join.sources))
    reached = [at[source.stream].time for source in join.sources]
    if join.order == "time":
        reached = [min(reached)] * len(reached)
    needed = [reached[j] - most[i][j] for i in places for j in places if i != j and join.sources[i].stream == stream]
    return min([*needed, *([min(reached)] if join.order == "time" else [])])


def told(answer: pa.Table) -> Answer:
    """An answer as the oracle writes it."""
    return list(zip(*(column.cast(pa.int64()).to_pylist() for column in answer.columns), strict=True))


# -- the operator driven the hard way ----------------------------------------------------------------


class Batch(NamedTuple):
    """A micro-batch, from where to where it went and what it answered."""

    start: dict[str, Offset]
    end: dict[str, Offset]
    answer: pa.Table


class Feed:
    """Feeds a join rows, heartbeats and faults in an order drawn by lot."""

    def __init__(self, harness: OperatorHarness, chance: random.Random, *, faults: float = 0.1) -> None:
        self.batches: list[Batch] = []
        self._harness = harness
        self._chance = chance
        self._chance_of_fault = faults

    def play(self, streams: Streams, beat: int = 1_000) -> list[Batch]:
        """Take in all rows, and then a heartbeat `beat` after the last of them."""
        waiting = dict(streams)
        # 0 stalls until the others are through, 2 runs far ahead of them.
        eager = {name: self._chance.choice([0.0, 0.3, 0.5, 0.5, 0.9, 2.0]) for name in streams}
        while any(waiting.values()):
            stuck = all(eager[name] == 0.0 for name, rows in waiting.items() if rows)
            for name, rows in waiting.items():
                if rows and (stuck or self._chance.random() < eager[name]):
                    waiting[name] = self._push(name, rows, whole=eager[name] == 2.0)
            self._step(self._chance.choice([None, None, 1, 4, 15]))
        end = max((row["t"] for rows in streams.values() for row in rows), default=0) + beat
        for name in streams:
            self._harness.advance(name, end)
        at = None
        while at != self._harness.offsets:
            at = self._harness.offsets
            self._step(self._chance.choice([None, 20]))
        return self.batches

    def _push(self, name: str, rows: list[Row], *, whole: bool) -> list[Row]:
        count = len(rows) if whole else self._chance.choice([0, 1, 3, 5, 20])
        self._harness.push(name, table_of(rows[:count]))
        rest = rows[count:]
        if rest and self._chance.random() < 0.2:
            self._harness.advance(name, rest[0]["t"] - self._chance.choice([0, 0, 1, 30]))
        return rest

    def _step(self, rows: int | None) -> None:
        start = self._harness.offsets
        answer = self._harness.step(parallelism=self._chance.randint(1, 3), rows=rows)
        self.batches.append(Batch(start, self._harness.offsets, answer))
        for fault in (self._harness.replay, self._harness.forget, self._harness.restart, self._harness.replay):
            if self._chance.random() < self._chance_of_fault:
                fault()


def check(join: Join, streams: Streams, chance: random.Random, **more: Any) -> list[Result]:
    """Drive the join over the streams and compare each micro-batch with the oracle; gives all results."""
    found = results(join, streams)
    batches = Feed(join.harness(**more), chance).play(streams)
    for number, (start, end, answer) in enumerate(batches):
        assert told(answer) == batch(join, found, start, end), f"micro-batch {number} from {start} to {end} of {join}"
    assert sum(answer.num_rows for _, _, answer in batches) == len(found)
    return found
