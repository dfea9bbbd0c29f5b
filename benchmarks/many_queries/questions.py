"""The rows, the questions about them, and what each of them wants: counted by NumPy, without the system."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

STREAM = (
    "CREATE STREAM s (k INT, code INT, b BIGINT, x DOUBLE, y DOUBLE, t STRING, flag BOOLEAN, at TIMESTAMP) "
    "TIMESTAMP BY at"
)
KEYS = 20_000
CODES = 2_000
BASE_US = 1_767_225_600_000_000


def rows(first: int, count: int, per_second: int) -> pa.Table:
    """Rows by number: 8 columns, `per_second` of them in a second of their own time."""
    chance = np.random.default_rng(first)
    code = chance.integers(0, CODES, count)
    times = BASE_US + (np.arange(first, first + count) * 1_000_000) // per_second
    return pa.table(
        {
            "k": pa.array(chance.integers(0, KEYS, count), pa.int32()),
            "code": pa.array(code, pa.int32()),
            "b": chance.integers(0, 1 << 40, count),
            "x": chance.random(count),
            "y": chance.normal(size=count),
            "t": pa.DictionaryArray.from_arrays(pa.array(code, pa.int32()), _TEXTS).cast(pa.string()),
            "flag": pa.array(chance.random(count) < 0.5),
            "at": pa.array(times).cast(pa.timestamp("us", "UTC")),
        }
    )


_TEXTS = pa.array([f"machine-{code:04d}" for code in range(CODES)])
Columns = dict[str, Any]


class Question(NamedTuple):
    """A SELECT, and how many rows of a part of the stream it selects; None: it is no selection."""

    sql: str
    wanted: Callable[[Columns], int] | None = None


def indexable(number: int) -> Question:
    """A selection that is looked up: one of each kind in turn."""
    chance = random.Random(number)
    k, code, x = chance.randrange(KEYS), chance.randrange(CODES), round(chance.uniform(0, 0.999), 4)
    some = sorted({chance.randrange(KEYS) for _ in range(4)})
    kind = number % 6
    if kind == 0:
        return Question(f"SELECT k, x, at FROM s WHERE k = {k}", lambda c: int((c["k"] == k).sum()))
    if kind == 1:
        listed = ", ".join(map(str, some))
        return Question(f"SELECT k, x, at FROM s WHERE k IN ({listed})", lambda c: int(np.isin(c["k"], some).sum()))
    if kind == 2:
        high = x + 0.0001
        return Question(
            f"SELECT k, x, at FROM s WHERE x >= {x} AND x < {high:.4f}",
            lambda c: int(((c["x"] >= x) & (c["x"] < float(f"{high:.4f}"))).sum()),
        )
    if kind == 3:
        return Question(
            f"SELECT t, y, at FROM s WHERE t LIKE 'machine-{code:04d}%' AND flag",
            lambda c: int(((c["code"] == code) & c["flag"]).sum()),
        )
    if kind == 4:
        return Question(
            f"SELECT k, y, at FROM s WHERE code = {code} AND y > 1",
            lambda c: int(((c["code"] == code) & (c["y"] > 1)).sum()),
        )
    return Question(
        f"SELECT t, x, at FROM s WHERE {k} = k AND x IS NOT NULL AND b >= 0", lambda c: int((c["k"] == k).sum())
    )


def mixed(number: int) -> Question:
    """Selections of all kinds, windowed aggregates and medians of one key, and conditions that nobody can look up."""
    kind, chance = number % 20, random.Random(number)
    k, code = chance.randrange(KEYS), chance.randrange(CODES)
    if kind < 4:
        return Question(f"SELECT count(*) AS n, avg(x) AS x FROM s WHERE code = {code} WINDOW = INTERVAL 10 SECONDS")
    if kind == 4:
        return Question(f"SELECT median(x) AS x FROM s WHERE code = {code} WINDOW = INTERVAL 10 SECONDS")
    if kind == 5 and number < 200:
        return Question(
            f"SELECT k, x, at FROM s WHERE abs(y) > {3 + number % 7}",
            lambda c: int((np.abs(c["y"].astype(float)) > 3 + number % 7).sum()),
        )
    if kind == 6:
        return (
            Question(
                f"SELECT k, x, at FROM s WHERE k = {k} OR k = {k + 1}", lambda c: int(np.isin(c["k"], [k, k + 1]).sum())
            )
            if number < 200
            else indexable(number)
        )
    return indexable(number)


def columns_of(table: pa.Table) -> Columns:
    return {name: table.column(name).to_numpy() for name in ("k", "code", "x", "y", "b", "flag")}
