"""Windowed queries the naive way: every window recomputed from all rows, in pure Python.

And the same queries the hard way: their operators driven through micro-batches cut at random, with
scratch lost, processes gone and batches run twice.
"""

from __future__ import annotations

import datetime as dt
import math
import random
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

import pyarrow as pa

from anabranch.schema import StreamSchema
from anabranch.testing import OperatorHarness

Row = dict[str, Any]
Bag = Counter[tuple[Any, ...]]
Order = tuple[str, bool, bool]
"""A column, whether descending, whether NULL first."""

# -- windows and their aggregates --------------------------------------------------------------------


def answer(
    rows: list[Row],
    unit: str,
    size: int,
    slide: int,
    keys: list[str],
    aggregates: list[tuple[str, str | None]],
    reached: int,
    where: Callable[[Row], bool] = lambda row: True,
) -> list[tuple[Any, ...]]:
    """(window end, keys…, aggregates…) of every window complete at `reached`, in order. Rows have `t` in µs."""
    out = []
    for end, members in windows(rows, unit, size, slide, reached, where):
        groups: dict[tuple[Any, ...], list[Row]] = {}
        for row in members:
            groups.setdefault(tuple(_same(row[k]) for k in keys), []).append(row)
        for key in sorted(groups, key=lambda key: [_rank(part) for part in key]):
            values = [_aggregate(f, arg, groups[key]) for f, arg in aggregates]
            out.append((end, *(_plain(part) for part in key), *values))
    return out


def windows(
    rows: list[Row], unit: str, size: int, slide: int, reached: int, where: Callable[[Row], bool] = lambda row: True
) -> list[tuple[int, list[Row]]]:
    """The end and the rows of every window that is complete at `reached` and holds any row."""
    at = [n if unit == "rows" else row["t"] for n, row in enumerate(rows)]
    ends = {e for a in at for e in range((a // slide + 1) * slide, a + size + 1, slide) if e <= reached}
    return [(e, [r for a, r in zip(at, rows, strict=True) if e - size <= a < e and where(r)]) for e in sorted(ends)]


def sessions(
    rows: list[Row],
    gap: int,
    keys: list[str],
    aggregates: list[tuple[str, str | None]],
    reached: int,
    where: Callable[[Row], bool] = lambda row: True,
) -> list[tuple[Any, ...]]:
    """(first time, end, keys…, aggregates…) of every session that is over once time has reached `reached`, in order."""
    found: dict[tuple[Any, ...], list[list[Row]]] = {}
    for row in filter(where, rows):
        runs = found.setdefault(tuple(_same(row[k]) for k in keys), [])
        if not runs or row["t"] - runs[-1][-1]["t"] > gap:
            runs.append([])
        runs[-1].append(row)
    over = [(run[-1]["t"] + gap, key, run) for key, runs in found.items() for run in runs]
    over = sorted((s for s in over if s[0] < reached), key=lambda s: (s[0], [_rank(part) for part in s[1]]))
    return [
        (run[0]["t"], end, *(_plain(part) for part in key), *(_aggregate(f, arg, run) for f, arg in aggregates))
        for end, key, run in over
    ]


def last_rows(
    rows: list[Row],
    count: int,
    keys: list[str],
    aggregates: list[tuple[str, str | None]],
    where: Callable[[Row], bool] = lambda row: True,
) -> list[tuple[Any, ...]]:
    """(first row, row after the last, keys…, aggregates…) of each row that `where` keeps and the last of its key."""
    seen: dict[tuple[Any, ...], list[tuple[int, Row]]] = {}
    out = []
    for number, row in enumerate(rows):
        if not where(row):
            continue
        key = tuple(_same(row[k]) for k in keys)
        window = [*seen.get(key, []), (number, row)][-count:]
        seen[key] = window
        values = [_aggregate(f, arg, [row for _, row in window]) for f, arg in aggregates]
        out.append((window[0][0], number + 1, *(_plain(part) for part in key), *values))
    return out


def _same(value: Any) -> Any:
    """NaN as one value, and one zero."""
    if isinstance(value, float):
        return ("nan",) if math.isnan(value) else value + 0.0
    return value


def _plain(value: Any) -> Any:
    return math.nan if value == ("nan",) else value


def _rank(value: Any) -> tuple[int, Any]:
    if value is None:
        return (0, 0)
    if value == ("nan",):
        return (2, 0)
    return (1, value.encode() if isinstance(value, str) else value)


def _aggregate(function: str, argument: str | None, rows: list[Row]) -> Any:
    if argument is None:
        return len(rows)
    values = [row[argument] for row in rows if row[argument] is not None]
    name, _, parameter = function.rstrip(")").partition("(")
    if name == "count":
        return len(values)
    if name in ("count_distinct", "approx_count_distinct"):
        return len({_same(v) for v in values})
    if not values:
        return None
    if function in ("min", "max"):
        ranked = sorted(values, key=lambda v: _rank(_same(v)))
        return ranked[0 if function == "min" else -1]
    if name in ("median", "percentile"):
        return _percentile(values, float(parameter or 0.5))
    if name in ("percentile_disc", "approx_percentile"):
        return _percentile_disc(values, float(parameter))
    if name == "mode":
        often = Counter(map(_same, values))
        return _plain(min((v for v, n in often.items() if n == max(often.values())), key=_rank))
    if function == "sum" and isinstance(values[0], int | Decimal):
        return sum(values)
    numbers = [float(v) for v in values]
    if function == "sum" or function == "avg":
        total = math.fsum(numbers) if all(map(math.isfinite, numbers)) else sum(numbers)
        return total if function == "sum" else total / len(numbers)
    population = function.endswith("_pop")
    if len(numbers) == 1 and not population:
        return None
    if not all(map(math.isfinite, numbers)):
        return math.nan
    exact = [Fraction(v) for v in numbers]
    variance = float(statistics.pvariance(exact) if population else statistics.variance(exact))
    return math.sqrt(variance) if function.startswith("stddev") else variance


def _ordered(values: list[Any]) -> list[Any]:
    return [_plain(v) for v in sorted(map(_same, values), key=_rank)]


def _percentile(values: list[Any], fraction: float) -> float:
    """Between the two values beside the place, as Spark weighs them."""
    ordered = [float(v) for v in _ordered(values)]
    position = (len(values) - 1) * fraction
    lower, upper = math.floor(position), math.ceil(position)
    low, high = ordered[lower], ordered[upper]
    if lower == upper or low == high:
        return low
    return (upper - position) * low + (position - lower) * high


def _percentile_disc(values: list[Any], fraction: float) -> Any:
    """The first value up to which there is the fraction of all of them."""
    return next(v for n, v in enumerate(_ordered(values), 1) if n >= len(values) * fraction)


# -- rows, sets and changes --------------------------------------------------------------------------


def in_order(rows: list[Row], order: Sequence[Order], limit: int | None = None) -> list[Row]:
    """ORDER BY and LIMIT; rows that are equal in it stay as they are."""
    for column, descending, nulls_first in reversed(order):
        known = [row for row in rows if row[column] is not None]
        unknown = [row for row in rows if row[column] is None]
        known.sort(key=lambda row: _rank(_same(row[column])), reverse=descending)
        rows = unknown + known if nulls_first else known + unknown
    return rows[:limit]


def set_answer(operation: str, keep_all: bool, left: Bag, right: Bag) -> Bag:
    """INTERSECT, EXCEPT or UNION of two bags of rows."""
    if not keep_all:
        left, right = Counter(set(left)), Counter(set(right))
    if operation == "intersect":
        return left & right
    if operation == "except":
        return left - right
    return left + right if keep_all else left | right


def bag(rows: Iterable[Sequence[Any]]) -> Bag:
    """Rows without an order; NaN is one value, and there is one zero."""
    return Counter(tuple(map(_same, row)) for row in rows)


def changes(answers: Mapping[int, Bag], slide: int, reached: int) -> list[tuple[int, Bag, Bag]]:
    """(window end, deleted, inserted) at every end where the answer is not that of the window before."""
    ends = sorted({e for end in answers for e in (end, end + slide) if e <= reached})
    pairs = [(end, answers.get(end - slide, Bag()), answers.get(end, Bag())) for end in ends]
    return [(end, before - now, now - before) for end, before, now in pairs if before != now]


# -- operators driven the hard way -------------------------------------------------------------------

COLUMNS = {
    "n": "INT",
    "i": "INT",
    "x": "DOUBLE",
    "s": "STRING",
    "d": "DECIMAL(9,2)",
    "b": "BOOLEAN",
    "day": "DATE",
    "at": "TIMESTAMP",
    "ok": "BOOLEAN",
    "ts": "TIMESTAMP",
}
STREAM = StreamSchema.of(COLUMNS, time="ts")
SHAPES = [(1, 1), (10, 10), (12, 4), (10, 4), (7, 3), (40, 5), (64, 3), (3, 10), (4, 6)]
"""Size and slide of windows: tumbling, sliding, with a slide that does not divide, with gaps."""

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_VALUES: dict[str, list[Any]] = {
    "i": [None, -(10**9), -3, -1, 0, 0, 1, 2, 7, 1000, 1001, 2**31 - 1],
    "x": [None, 0.0, -0.0, 0.1, 0.1, 1.5, -2.5, 1e300, -1e-9, math.nan, math.inf, -math.inf],
    "s": [
        None,
        "",
        "a",
        "aa",
        "é",
        "z",
        "Z",
        "a long one that is in no short buffer",
        *(f"a{n:02}" for n in range(20)),
    ],
    "d": [None, Decimal("-1.25"), Decimal("0.00"), Decimal("0.10"), Decimal("7.30"), Decimal("9999999.99")],
    "b": [None, True, False],
    "day": [None, dt.date(1969, 12, 31), dt.date(2026, 1, 1), dt.date(2026, 1, 2)],
    "at": [None, *(_EPOCH + dt.timedelta(microseconds=t) for t in (-7, 0, 5, 10**15))],
    "ok": [None, True, True, True, False],
}


def some_rows(count: int, chance: random.Random, begin: int = 1_000) -> list[Row]:
    """Rows of all types full of NULL and odd numbers; several of one instant, or all; silences."""
    steps = chance.choice([[0], [0, 0, 1, 1, 2, 3], [0, 1, 5], [1], [0, 0, 0, 1, 2, 60], [200]])
    few = {name: chance.sample(values, chance.randint(1, len(values))) for name, values in _VALUES.items()}
    rows, time = [], begin
    for n in range(count):
        time += chance.choice(steps)
        row = {name: chance.choice(values) for name, values in few.items()}
        rows.append(at_time({**row, "n": n}, time))
    return rows


def at_time(row: Row, time: int) -> Row:
    """The row at another time (µs)."""
    return row | {"t": time, "ts": _EPOCH + dt.timedelta(microseconds=time)}


def table_of(rows: list[Row]) -> pa.Table:
    columns = {name: pa.array([row[name] for row in rows], STREAM.arrow.field(name).type) for name in COLUMNS}
    return pa.table(columns, schema=STREAM.arrow)


class Step(NamedTuple):
    """A micro-batch: it answered every `every`-th window that ends after `before`, up to `after`, on the axis."""

    before: int
    after: int
    every: int
    answer: pa.Table

    def asks(self, end: int, slide: int) -> bool:
        return self.before < end <= self.after and end % (self.every * slide) == 0


class Drive:
    """Feeds an operator rows, heartbeats and faults in an order drawn by lot."""

    def __init__(
        self,
        harness: OperatorHarness,
        chance: random.Random,
        *,
        every: Sequence[int] = (1,),
        faults: Sequence[Callable[[], Any]] = (),
    ) -> None:
        self.steps: list[Step] = []
        self._harness = harness
        self._chance = chance
        self._every = every
        self._faults = (*faults, harness.forget, harness.restart, harness.replay, harness.replay)

    def play(self, streams: Mapping[str, list[Row]], beat: int) -> list[Step]:
        """Take in all rows, and then a heartbeat `beat` after the last of them."""
        waiting = {name: list(rows) for name, rows in streams.items()}
        tables = {name: table_of(rows) for name, rows in streams.items()}
        while any(waiting.values()):
            for name in [name for name in waiting if self._chance.random() < 0.7]:
                self._feed(name, waiting[name], tables[name])
            self._step(rows=self._chance.choice([None, None, 1, 4, 15]))
        end = max((row["t"] for rows in streams.values() for row in rows), default=0) + beat
        for name in streams:
            self._harness.advance(name, end)
        while len(self.steps) < 2 or self.steps[-1].before != self.steps[-1].after or self._behind(streams):
            self._step(rows=None)
        return self.steps

    def _feed(self, name: str, waiting: list[Row], table: pa.Table) -> None:
        count = min(self._chance.choice([0, 1, 3, 10, 40]), len(waiting))
        self._harness.push(name, table.slice(table.num_rows - len(waiting), count))
        del waiting[:count]
        if waiting and self._chance.random() < 0.3:
            self._harness.advance(name, waiting[0]["t"] - self._chance.choice([0, 0, 1, 30]))

    def _behind(self, streams: Mapping[str, list[Row]]) -> bool:
        return any(self._harness.offsets[name].row < len(rows) for name, rows in streams.items())

    def _step(self, rows: int | None) -> None:
        harness, chance = self._harness, self._chance
        before = self._axis()
        harness.every = chance.choice(self._every)
        answer = harness.step(parallelism=chance.randint(1, 3), rows=rows)
        self.steps.append(Step(before, self._axis(), harness.every, answer))
        for fault in self._faults:
            if chance.random() < 0.12:
                fault()

    def _axis(self) -> int:
        operator: Any = self._harness.operator
        by_rows = getattr(operator, "inner", operator).unit == "rows"
        offsets = [self._harness.offsets[name] for name in operator.inputs]
        return min(offset.row if by_rows else offset.time for offset in offsets)


def told(steps: Iterable[Step]) -> pa.Table:
    """All answers."""
    return pa.concat_tables([step.answer for step in steps])
