"""Rows for tests of joins, and conditions over them that stand in SQL and in Python side by side.

In the SQL of a condition the sources are called A, B and C. Arithmetic and comparisons are those of
Spark: whole numbers wrap around, NaN equals itself and is above all others, NULL makes NULL.
"""

from __future__ import annotations

import datetime as dt
import math
import random
import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from anabranch.schema import StreamSchema

Row = dict[str, Any]
Truth = bool | None

COLUMNS = {
    "n": "INT",
    "h": "SMALLINT",
    "i": "INT",
    "l": "BIGINT",
    "f": "FLOAT",
    "x": "DOUBLE",
    "s": "STRING",
    "d": "DECIMAL(9,2)",
    "c": "DECIMAL(12,4)",
    "day": "DATE",
    "at": "TIMESTAMP",
    "ok": "BOOLEAN",
    "ts": "TIMESTAMP",
    "u": "DECIMAL(16,15)",
    "v": "DECIMAL(38,20)",
    "w": "DECIMAL(38,10)",
}
SCHEMA = StreamSchema.of(COLUMNS, time="ts")
"""`n` is the number of the row in its stream; decimals of many digits are for merges, and NULL elsewhere."""

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
SECOND = dt.timedelta(seconds=1)
_VALUES: dict[str, list[Any]] = {
    "h": [None, -1, 0, 1, 2, 3, 7],
    "i": [None, -3, -1, 0, 0, 1, 1, 2, 3, 7, 2**31 - 1, -(2**31), 2**24 + 1],
    "l": [None, -1, 0, 1, 1, 2, 3, 7, 2**31 - 1, 2**24 + 1, 2**53, 2**53 + 1, 2**63 - 1, -(2**63)],
    "f": [None, 0.0, -0.0, 0.5, 1.0, 2.0, 3.0, 0.10000000149011612, math.nan, math.inf, 2.0**24, 2.0**31],
    "x": [None, 0.0, -0.0, 0.1, 0.3, 0.5, 1.0, 2.0, 2.5, 3.0, 2.0**53, 1e300, math.nan, math.inf, -math.inf],
    "s": [None, "", "a", "a", "b", "aa", "é", "z", "Z", "a long one that is in no short buffer", *"cdefghijk"],
    "d": [None, *map(Decimal, ("-1.25", "0.00", "0.10", "0.03", "1.00", "2.00", "9999999.99"))],
    "c": [
        None,
        *map(Decimal, ("-1.2500", "0.0000", "0.1000", "0.0300", "0.1001", "1.0000", "2.0000", "99999999.9999")),
    ],
    "day": [None, dt.date(1969, 12, 31), dt.date(1970, 1, 1), dt.date(2026, 1, 2)],
    "at": [None, *(EPOCH + t * SECOND for t in (-7, 0, 1, 4, 5, 86_400, 10**9))],
    "ok": [None, True, True, False],
}
_STEPS = [[0], [0, 0, 1, 1, 2, 3], [0, 0, 1, 1, 2, 3], [0, 1, 5], [1], [0, 0, 0, 1, 2, 60]]


def some_values(chance: random.Random) -> list[Row]:
    """What rows hold: a few small numbers in all columns alike, so that rows meet, and a few with odd values."""
    plain = [_alike(chance.randrange(4)) for _ in range(chance.choice([1, 2, 3, 6]))]
    odd = [{name: chance.choice(of) for name, of in _VALUES.items()} for _ in range(chance.choice([0, 1, 3, 8]))]
    return plain * chance.choice([1, 2, 4]) + odd


def _alike(v: int) -> Row:
    number = Decimal(v)
    day = dt.date(1970, 1, 1 + v)
    whole = {"h": v, "i": v, "l": v, "f": float(v), "x": float(v), "d": number, "c": number}
    return {**whole, "s": "abcd"[v], "day": day, "at": EPOCH + v * SECOND, "ok": v > 0}


def some_rows(count: int, chance: random.Random, begin: int = 1_000, values: list[Row] | None = None) -> list[Row]:
    """Rows full of odd numbers, several of one instant, or all, and now and then a silence."""
    steps = chance.choice(_STEPS)
    time, times = begin, []
    for _ in range(count):
        time += chance.choice(steps)
        times.append(time)
    chosen = [chance.choice(values or some_values(chance)) for _ in times]
    return rows_of(times, **{name: [row[name] for row in chosen] for name in _VALUES})


def rows_of(times: Sequence[int], **columns: Any) -> list[Row]:
    """Rows at these times (µs); a column is given as one value or one per row, and is NULL if it is not given."""
    values = {
        name: given if isinstance(given, list) else [given] * len(times)
        for name, given in (dict.fromkeys(COLUMNS) | columns).items()
        if name not in ("n", "ts")
    }
    return [
        {"n": n, "t": t, "ts": EPOCH + dt.timedelta(microseconds=t), **{name: of[n] for name, of in values.items()}}
        for n, t in enumerate(times)
    ]


def table_of(rows: list[Row]) -> pa.Table:
    arrays = {name: pa.array([row[name] for row in rows], SCHEMA.arrow.field(name).type) for name in COLUMNS}
    return pa.table(arrays, schema=SCHEMA.arrow)


# -- what Spark's operators mean ---------------------------------------------------------------------


def _ranks(a: Any, b: Any) -> tuple[Any, Any]:
    """Both values as something that compares as Spark compares them."""
    if isinstance(a, float) or isinstance(b, float):
        left, right = ((1, 0.0) if math.isnan(v) else (0, v) for v in (float(a), float(b)))
        return left, right
    return (a.encode(), b.encode()) if isinstance(a, str) else (a, b)


def _known(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *values: None if any(v is None for v in values) else function(*values)


equal = _known(lambda a, b: _ranks(a, b)[0] == _ranks(a, b)[1])
less = _known(lambda a, b: _ranks(a, b)[0] < _ranks(a, b)[1])
at_most = _known(lambda a, b: _ranks(a, b)[0] <= _ranks(a, b)[1])
invert = _known(lambda a: not a)


def both(a: Truth, b: Truth) -> Truth:
    return False if a is False or b is False else None if a is None or b is None else True


def either(a: Truth, b: Truth) -> Truth:
    found: Truth = invert(both(invert(a), invert(b)))
    return found


def between(value: Any, low: Any, high: Any) -> Truth:
    return both(at_most(low, value), at_most(value, high))


def wrapped(value: Any, bits: int = 32) -> Any:
    """What is left of a whole number in so many bits."""
    return (value + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1) if isinstance(value, int) else value


plus = _known(lambda a, b, bits=32: wrapped(a + b, bits))
minus = _known(lambda a, b, bits=32: wrapped(a - b, bits))
times = _known(lambda a, b, bits=32: wrapped(a * b, bits))
size = _known(lambda a, bits=32: wrapped(abs(a), bits))
single = _known(lambda a: float(np.float32(a)))
"""A number as FLOAT, in which Spark compares and adds whole numbers and FLOAT."""


# -- conditions --------------------------------------------------------------------------------------


class Template(NamedTuple):
    """A condition over the sources A, B and C, or as many as it takes."""

    sql: str
    holds: Callable[..., Truth]

    @property
    def sources(self) -> int:
        return max("ABC".index(letter) for letter in re.findall(r"`([ABC])\.", self.sql)) + 1

    def named(self, *aliases: str) -> tuple[str, Callable[[Any], Truth]]:
        """Its SQL and meaning with A, B and C called otherwise."""
        names = dict(zip("ABC", aliases, strict=False))
        sql = re.sub(r"`([ABC])\.", lambda found: f"`{names[found[1]]}.", self.sql)
        return sql, lambda rows: self.holds(*(rows[alias] for alias in aliases))


EQUALITIES = [
    Template("`A.i` = `B.i`", lambda a, b: equal(a["i"], b["i"])),
    Template("`B.s` = `A.s`", lambda a, b: equal(a["s"], b["s"])),
    Template("`A.d` = `B.d`", lambda a, b: equal(a["d"], b["d"])),
    Template("`A.at` = `B.at`", lambda a, b: equal(a["at"], b["at"])),
    Template("`A.x` = `B.x`", lambda a, b: equal(a["x"], b["x"])),
    Template("`A.ok` = `B.ok`", lambda a, b: equal(a["ok"], b["ok"])),
    Template("`A.day` = `B.day`", lambda a, b: equal(a["day"], b["day"])),
    Template("`A.ts` = `B.ts`", lambda a, b: equal(a["ts"], b["ts"])),
    Template("`A.h` = `B.i`", lambda a, b: equal(a["h"], b["i"])),
    Template("`A.i` = `B.l`", lambda a, b: equal(a["i"], b["l"])),
    Template("`A.l` = `B.h`", lambda a, b: equal(a["l"], b["h"])),
    Template("`A.d` = `B.c`", lambda a, b: equal(a["d"], b["c"])),
    Template("`A.i` = `B.d`", lambda a, b: equal(a["i"], b["d"])),
    Template("`A.f` = `B.x`", lambda a, b: equal(a["f"], b["x"])),
    Template("`A.f` = `B.f`", lambda a, b: equal(a["f"], b["f"])),
    Template("`A.i` = `B.x`", lambda a, b: equal(a["i"], b["x"])),
    Template("`A.l` = `B.x`", lambda a, b: equal(a["l"], b["x"])),
    Template("`A.i` = `B.i` + 1", lambda a, b: equal(a["i"], plus(b["i"], 1))),
    Template("`A.i` - 1 = `B.l` * 2", lambda a, b: equal(minus(a["i"], 1), times(b["l"], 2, 64))),
    Template("`A.l` = `B.l`", lambda a, b: equal(a["l"], b["l"])),
    Template("`A.i` = `B.f`", lambda a, b: equal(single(a["i"]), b["f"])),
    Template("`A.f` = `B.l`", lambda a, b: equal(a["f"], single(b["l"]))),
]
BANDS = [
    Template(
        "`A.i` BETWEEN `B.i` - 2 AND `B.i` + 2",
        lambda a, b: between(a["i"], minus(b["i"], 2), plus(b["i"], 2)),
    ),
    Template("abs(`A.i` - `B.i`) <= 2", lambda a, b: at_most(size(minus(a["i"], b["i"])), 2)),
    Template("abs(`A.i` - `B.i`) < 2", lambda a, b: less(size(minus(a["i"], b["i"])), 2)),
    Template("2 >= abs(`A.l` - `B.i`)", lambda a, b: at_most(size(minus(a["l"], b["i"], 64), 64), 2)),
    Template(
        "`A.l` BETWEEN `B.l` - 1 AND `B.l` + 3",
        lambda a, b: between(a["l"], minus(b["l"], 1, 64), plus(b["l"], 3, 64)),
    ),
    Template(
        "`A.x` BETWEEN `B.x` - 0.5D AND `B.x` + 2",
        lambda a, b: between(a["x"], minus(b["x"], 0.5), plus(b["x"], 2)),
    ),
    Template("abs(`A.x` - `B.x`) <= 0.2D", lambda a, b: at_most(size(minus(a["x"], b["x"])), 0.2)),
    Template("`A.x` - `B.x` BETWEEN -1 AND 0", lambda a, b: between(minus(a["x"], b["x"]), -1, 0)),
    Template(
        "`A.d` BETWEEN `B.d` - 1.1 AND `B.d` + 1",
        lambda a, b: between(a["d"], minus(b["d"], Decimal("1.1")), plus(b["d"], 1)),
    ),
    Template(
        "`A.at` BETWEEN `B.at` - INTERVAL 5 SECONDS AND `B.at` + INTERVAL 1 SECOND",
        lambda a, b: between(a["at"], minus(b["at"], 5 * SECOND), plus(b["at"], SECOND)),
    ),
    Template(
        "`A.ts` BETWEEN `B.ts` - INTERVAL 2 MICROSECONDS AND `B.ts`",
        lambda a, b: between(a["ts"], minus(b["ts"], dt.timedelta(microseconds=2)), b["ts"]),
    ),
    Template("`A.i` BETWEEN `B.i` AND `B.l`", lambda a, b: between(a["i"], b["i"], b["l"])),
    Template("`A.i` BETWEEN `B.i` + 2 AND `B.i` - 2", lambda a, b: between(a["i"], plus(b["i"], 2), minus(b["i"], 2))),
    Template("`B.h` BETWEEN `A.h` - 1 AND `A.h`", lambda a, b: between(b["h"], minus(a["h"], 1), a["h"])),
    Template("abs(`A.i` - `B.f`) <= 0.5D", lambda a, b: at_most(size(single(minus(single(a["i"]), b["f"]))), 0.5)),
    Template(
        "`A.l` BETWEEN `B.f` - 1 AND `B.f` + 1",
        lambda a, b: between(single(a["l"]), single(minus(b["f"], 1.0)), single(plus(b["f"], 1.0))),
    ),
]
COMPARISONS = [
    Template("`A.i` < `B.i`", lambda a, b: less(a["i"], b["i"])),
    Template("`A.x` <= `B.x`", lambda a, b: at_most(a["x"], b["x"])),
    Template("`A.x` > `B.i`", lambda a, b: less(b["i"], a["x"])),
    Template("`A.s` >= `B.s`", lambda a, b: at_most(b["s"], a["s"])),
    Template("`A.d` < `B.c`", lambda a, b: less(a["d"], b["c"])),
    Template("`A.c` <= `B.d`", lambda a, b: at_most(a["c"], b["d"])),
    Template("`A.at` > `B.at`", lambda a, b: less(b["at"], a["at"])),
    Template("`A.ts` < `B.ts`", lambda a, b: less(a["ts"], b["ts"])),
    Template("`A.n` < `B.n`", lambda a, b: less(a["n"], b["n"])),
    Template("`A.i` <> `B.i`", lambda a, b: invert(equal(a["i"], b["i"]))),
    Template("`A.x` <> `B.x`", lambda a, b: invert(equal(a["x"], b["x"]))),
    Template("`A.i` <= `B.f`", lambda a, b: at_most(single(a["i"]), b["f"])),
    Template("`A.i` * 2 > `B.l` + 1", lambda a, b: less(plus(b["l"], 1, 64), times(a["i"], 2))),
]
RESIDUALS = [
    Template(
        "`A.i` = `B.i` OR `A.s` = `B.s`",
        lambda a, b: either(equal(a["i"], b["i"]), equal(a["s"], b["s"])),
    ),
    Template("NOT (`A.i` = `B.i`)", lambda a, b: invert(equal(a["i"], b["i"]))),
    Template("`A.i` <=> `B.i`", lambda a, b: (a["i"] is None and b["i"] is None) or equal(a["i"], b["i"]) is True),
    Template("`A.i` IS NULL OR `B.ok`", lambda a, b: either(a["i"] is None, b["ok"])),
    Template("`A.ok`", lambda a: a["ok"]),
    Template("`A.i` > 0", lambda a: less(0, a["i"])),
    Template("`A.h` + `B.h` = 3", lambda a, b: equal(plus(a["h"], b["h"], 16), 3)),
    Template("coalesce(`A.i`, 0) = coalesce(`B.i`, 0)", lambda a, b: (a["i"] or 0) == (b["i"] or 0)),
]
TRIPLES = [
    Template("`A.h` + `B.h` > `C.h`", lambda a, b, c: less(c["h"], plus(a["h"], b["h"], 16))),
    Template("`A.h` + `B.h` = `C.i`", lambda a, b, c: equal(plus(a["h"], b["h"], 16), c["i"])),
    Template("`B.i` BETWEEN `A.i` AND `C.i`", lambda a, b, c: between(b["i"], a["i"], c["i"])),
    Template(
        "`A.i` = `B.i` OR `B.i` = `C.i`",
        lambda a, b, c: either(equal(a["i"], b["i"]), equal(b["i"], c["i"])),
    ),
    Template(
        "greatest(`A.i`, `B.i`) < `C.i`",
        lambda a, b, c: less(max((v["i"] for v in (a, b) if v["i"] is not None), default=None), c["i"]),
    ),
]
FAMILIES: dict[str, list[Template]] = {
    "equality": EQUALITIES,
    "band": BANDS,
    "comparison": COMPARISONS,
    "residual": RESIDUALS,
    "triple": TRIPLES,
}
