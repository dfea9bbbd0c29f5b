"""Merges that the oracle and the operator both can read, rows for them, and how the two are compared."""

from __future__ import annotations

import datetime as dt
import functools
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, Literal, NamedTuple

from anabranch.operators.merge.operator import Merge
from anabranch.operators.offset import Offset
from anabranch.testing import OperatorHarness
from tests.operators.join_oracle import Condition, Feed, told
from tests.operators.join_rows import COLUMNS, EPOCH, SCHEMA, Row, rows_of
from tests.operators.merge_oracle import LAST, MAX_TIME, Options, Out, Policy, Record, cgm

Rows = Mapping[str, Row]
"""One row of each source, by alias; all columns of a source without a partner are NULL."""
Join = Literal["inner", "left", "full", "anti"]
Answer = list[tuple[int | None, ...]]
"""Row numbers in each source, and the time."""

NOTHING: Row = dict.fromkeys([*COLUMNS, "t"])
KINDS: dict[Join, set[str]] = {"inner": {"pair"}, "left": {"pair", "a"}, "full": {"pair", "a", "b"}, "anti": {"a"}}


class Value(NamedTuple):
    """An expression over the sources, in SQL and in Python."""

    sql: str
    of: Callable[[Rows], Any]


class Key(NamedTuple):
    """within(left, right, tolerance)."""

    left: Value
    right: Value
    tolerance: float | str


def column(alias: str, name: str) -> Value:
    return Value(f"`{alias}.{name}`", lambda rows: rows[alias][name])


def same(name: str, tolerance: float | str, left: str = "A", right: str = "B") -> Key:
    """A column of the same name on both sides."""
    return Key(column(left, name), column(right, name), tolerance)


def equal(name: str, left: str = "A", right: str = "B") -> tuple[Value, Value]:
    return column(left, name), column(right, name)


@dataclass(frozen=True)
class Case:
    """A merge; keys, equalities and kinds of joins stand for the second source, the third and so on."""

    keys: tuple[tuple[Key, ...], ...]
    by: tuple[tuple[tuple[Value, Value], ...], ...] = ((),)
    joins: tuple[Join, ...] = ("inner",)
    where: tuple[Condition, ...] = ()
    policy: Policy = "first"
    window: int = 8
    step: int = 2
    every: int | None = None
    delta: float | None = None
    over: int = 20
    streams: str = "st"
    memory: int = 64 << 20
    pace: Literal["time", "rows"] = "time"
    wait: int | None = None

    @property
    def aliases(self) -> str:
        return "ABCD"[: len(self.streams)]

    def operator(self) -> Merge:
        """The operator, which answers with the row number in each source and the time."""
        told = self.aliases[:-1] if self.joins[-1] == "anti" else self.aliases
        return Merge(
            sources=tuple(zip(self.aliases, self.streams, strict=True)),
            keys=tuple(tuple((k.left.sql, k.right.sql, k.tolerance) for k in keys) for keys in self.keys),
            by=tuple(tuple((left.sql, right.sql) for left, right in pairs) for pairs in self.by),
            joins=self.joins,
            conditions=tuple(condition.sql for condition in self.where),
            columns=(*((alias, f"`{alias}.n`") for alias in told), ("_time", "_time")),
            time="_time",
            policy=self.policy,
            window=self.window,
            step=self.step,
            every=self.every,
            delta=self.delta,
            over=self.over,
            memory=self.memory,
            pace=self.pace,
            wait=self.wait,
        )

    def harness(self, **more: Any) -> OperatorHarness:
        return OperatorHarness(self.operator(), dict.fromkeys(self.streams, SCHEMA), **more)

    def options(self, place: int, tolerances: tuple[Any, ...] | None = None) -> Options:
        tolerances = tuple(key.tolerance for key in self.keys[place]) if tolerances is None else tolerances
        by_rows = self.pace == "rows" and place == 0
        return Options(
            tolerances, self.policy, self.window, self.step, self.every, self.delta, self.over, wait=self.wait or 0,
            by_rows=by_rows,
        )  # fmt: skip


# -- what the oracle says ----------------------------------------------------------------------------


class Left(NamedTuple):
    """What came out of the merges so far: row numbers, the time it shows, when the next merge reads it, and it came."""

    rows: tuple[int | None, ...]
    shown: int
    time: int
    own: int = 0


class Seen(NamedTuple):
    """What a merge knows of its streams: up to which time, up to which time all that came, and times of their rows."""

    time: int
    sure: int
    rows: Mapping[str, list[tuple[int, int, int]]]
    """Of each row that is taken in when it is read, when it came, and what it shows."""


def seen_until(case: Case, streams: Mapping[str, list[Row]], t: int) -> Seen:
    """Paced by time, all there is; rounds go as far as they may."""
    rows = {name: [(row["t"], row["t"], row["t"]) for row in streams[name]] for name in case.streams}
    return Seen(t, t, rows)


def seen_at(case: Case, streams: Mapping[str, list[Row]], at: Mapping[str, Offset]) -> Seen:
    """Paced by rows: the n-th rows of all streams are read together, and of one that is ahead a few rows more."""
    ahead, counts = 2 * case.window, {name: at[name].row for name in case.streams}
    together, ended = min(counts.values()), all(at[name].time == MAX_TIME for name in case.streams)
    times = [max(streams[name][i]["t"] for name in counts) for i in range(together)]
    newest = max((streams[name][count - 1]["t"] for name, count in counts.items() if count), default=0)
    rows: dict[str, list[tuple[int, int, int]]] = {}
    for name, count in counts.items():
        rows[name] = []
        for i, row in enumerate(streams[name][: count if ended else min(count, together + ahead)]):
            time = times[i] if i < together else LAST if ended else MAX_TIME
            own = max(row["t"], (times + [LAST] * count)[i - ahead]) if i >= ahead else row["t"]
            rows[name].append((time, own, newest))
    next_ones = [streams[name][together]["t"] for name, count in counts.items() if count > together]
    missing = [at[n].time for n, count in counts.items() if count == together and at[n].time != MAX_TIME]
    # The next row of a stream can be read when that many rows before it all streams were together.
    nexts = {name: ([-(2**63)] * ahead + times + [MAX_TIME])[min(n, together + ahead)] for name, n in counts.items()}
    sure = min(max(at[name].time, time) for name, time in nexts.items())
    return Seen(MAX_TIME if ended else max([-(2**63), *next_ones, *missing]), sure, rows)


def answer(case: Case, streams: Mapping[str, list[Row]], t: int = MAX_TIME, seen: Seen | None = None) -> Answer:
    """All answer rows once every stream is known up to `t`: one merge after the other, then WHERE."""
    seen = seen or seen_until(case, streams, t)
    tables = [streams[name] for name in case.streams]
    left = [Left((n,), shown, time, own) for n, (time, own, shown) in enumerate(seen.rows[case.streams[0]])]
    for place in range(len(tables) - 1):
        left = _merged(case, place, tables, left, seen)
    named = [(one, _rows(case, tables, one.rows)) for one in left]
    shown = len(tables) - (case.joins[-1] == "anti")
    return [
        (*one.rows[:shown], one.shown)
        for one, rows in named
        if all(condition.holds({**rows, "_time": {"t": one.shown}}) is True for condition in case.where)
    ]


def _merged(case: Case, place: int, tables: list[list[Row]], left: list[Left], seen: Seen) -> list[Left]:
    right = [Left((n,), shown, time, own) for n, (time, own, shown) in enumerate(seen.rows[case.streams[place + 1]])]
    a, b, tolerances = _records(case, place, tables, left, right)
    t = seen.time if place == 0 else min(seen.time, seen.sure)
    found = cgm(a, b, case.options(place, tolerances), t, seen.sure)
    nothing = (None,) * (place + 1)
    return [
        Left((*(nothing if out.a is None else left[out.a].rows), out.b), out.time, _read_at(out))
        for out in found
        if out.kind in KINDS[case.joins[place]]
    ]


def keyed(case: Case, streams: Mapping[str, list[Row]]) -> tuple[list[Record], list[Record], tuple[Any, ...]]:
    """The records of a merge of two streams, and the tolerances of their keys."""
    tables = [streams[name] for name in case.streams]
    left, right = ([Left((row["n"],), row["t"], row["t"]) for row in table] for table in tables)
    return _records(case, 0, tables, left, right)


def _records(
    case: Case, place: int, tables: list[list[Row]], left: list[Left], right: list[Left]
) -> tuple[list[Record], list[Record], tuple[Any, ...]]:
    alias = case.aliases[place + 1]
    rows = tables[place + 1]
    sides = [[_rows(case, tables, one.rows) for one in left], [{alias: rows[n]} for n in range(len(right))]]
    columns = [_keys(key, *sides) for key in case.keys[place]]
    a_keys, b_keys = ([list(column[side]) for column in columns] for side in (0, 1))
    a_by, b_by = ([[pair[side].of(rows) for rows in sides[side]] for pair in case.by[place]] for side in (0, 1))
    a, b = (
        [
            Record(n, one.time, tuple(key[n] for key in keys), tuple(value[n] for value in by), one.shown, one.own)
            for n, one in enumerate(records)
        ]
        for records, keys, by in ((left, a_keys, a_by), (right, b_keys, b_by))
    )
    return a, b, tuple(tolerance for _, _, tolerance in columns)


def _keys(key: Key, left: Sequence[Rows], right: Sequence[Rows]) -> tuple[list[Any], list[Any], Any]:
    """The keys of both sides and the tolerance: exact, unless one side is floating."""
    a, b = [key.left.of(rows) for rows in left], [key.right.of(rows) for rows in right]
    exact = not any(isinstance(value, float) for value in (*a, *b))
    number = Fraction if exact else float
    tolerance = number(str(key.tolerance))
    return [_number(v, number) for v in a], [_number(v, number) for v in b], tolerance


def _read_at(out: Out) -> int:
    return min(out.stamp[0], LAST)


def _rows(case: Case, tables: list[list[Row]], numbers: Sequence[int | None]) -> dict[str, Row]:
    return {
        alias: NOTHING if number is None else table[number]
        for alias, table, number in zip(case.aliases, tables, numbers, strict=False)
    }


def _number(value: Any, number: Callable[[Any], Any]) -> Any:
    """A key as a merge compares it: numbers as they are, times in µs, dates in days."""
    if isinstance(value, dt.datetime):
        value = (value - EPOCH) // dt.timedelta(microseconds=1)
    elif isinstance(value, dt.date):
        value = (value - EPOCH.date()).days
    return None if value is None else number(value)


# -- rows --------------------------------------------------------------------------------------------

GROUPS: list[list[str | None]] = [["a"], ["a", "b"], ["a", "b", None], ["a", "b", "c", "", None]]


def some_streams(names: str, chance: random.Random, most: int) -> dict[str, list[Row]]:
    """Streams that tell of the same world, each at its own rate, in its own disorder and with its own gaps."""
    base = chance.choice([1_000, 1_000, 0, -37, 10**15])
    per_time = chance.choice([0.5, 1.0, 1.0, 4.0])
    odd = chance.choice([0.0, 0.0, 0.05, 0.3])
    groups = chance.choice(GROUPS)
    return {name: _some_rows(chance, most, base, per_time, odd, groups) for name in sorted(set(names))}


def _some_rows(
    chance: random.Random, most: int, base: int, per_time: float, odd: float, groups: list[str | None]
) -> list[Row]:
    count = chance.choice([most, most, most, most, most // 2, 1, 0])
    steps = chance.choice([[1], [1], [0, 1, 1, 2], [0, 0, 0, 1, 2, 60], [3], [0], [0, 5]])
    disorder = chance.choice([0.0, 0.02, 0.2, 1.0])
    time, times = base + chance.choice([0, 0, 0, 3, 20]), []
    for _ in range(count):
        times.append(time)
        time += chance.choice(steps)
    values = [_value((t - base) * per_time, disorder, chance) for t in times]
    columns: dict[str, list[Any]] = {
        "i": [int(v) for v in values],
        "x": [v + chance.choice([0.0, 0.0, 0.1, -0.2, 0.3]) for v in values],
        "at": [EPOCH + dt.timedelta(seconds=v) for v in values],
        # Beside what rises with time there are keys that do not, for unsorted streams and second keys.
        "l": [chance.randrange(6) for _ in values],
        "f": [chance.randrange(16) / 4 for _ in values],
        "day": [EPOCH.date() + dt.timedelta(days=chance.randrange(-3, 6)) for _ in values],
        "d": [Decimal(chance.randrange(-50, 300)) / 100 for _ in values],
        "c": [Decimal(chance.randrange(-5_000, 30_000)) / 10_000 for _ in values],
        "h": [chance.randrange(3) for _ in values],
        "s": [chance.choice(groups) for _ in values],
        "ok": [chance.random() < 0.7 for _ in values],
    }
    for name in ("i", "x", "at", "l", "f", "day", "d", "c", "h", "s"):
        nothing = [None, float("nan"), float("inf"), -float("inf")] if name in "xf" else [None]
        columns[name] = [chance.choice(nothing) if chance.random() < odd else v for v in columns[name]]
    return rows_of(times, **columns)


def _value(v: float, disorder: float, chance: random.Random) -> float:
    return v + chance.randrange(-25, 26) if chance.random() < disorder else v + chance.choice([0, 0, 0, 0.25, -0.5])


# -- the two compared --------------------------------------------------------------------------------


def check(case: Case, streams: Mapping[str, list[Row]], chance: random.Random, **more: Any) -> OperatorHarness:
    """Drive the merge over the streams to their end and compare each micro-batch with the oracle."""
    harness = case.harness(**more)
    feed = Feed(harness, chance)
    if chance.random() < 0.7:
        feed.play(streams, chance.choice([1, 7, 1_000]))
        feed.play({name: [] for name in streams}, MAX_TIME)
    else:
        feed.play(streams, MAX_TIME - max((row["t"] for rows in streams.values() for row in rows), default=0))
    timed = functools.cache(lambda t: answer(case, streams, t))

    def wanted(at: Mapping[str, Offset]) -> Answer:
        """What has come out at an offset."""
        if case.pace == "time":
            return timed(min(at[name].time for name in case.streams))
        return by_rows(tuple((name, at[name]) for name in streams))

    by_rows = functools.cache(lambda at: answer(case, streams, seen=seen_at(case, streams, dict(at))))
    for number, (start, end, found) in enumerate(feed.batches):
        before = min(start[name].time for name in case.streams)
        assert wanted(end)[: len(wanted(start))] == wanted(start), "the oracle takes back what it said"
        # What leaves when the streams have ended is not older than what had been reached before.
        new = [(*row, max(time or 0, before)) for *row, time in wanted(end)[len(wanted(start)) :]]
        assert told(found) == new, f"micro-batch {number} to {end} of {case.operator()}"
    assert len(told(harness.answers())) == len(wanted(harness.offsets))
    return harness
