"""Windowed aggregation the naive way: one row at a time, in Python."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from anabranch.archive.summaries.rollups import Shape
from anabranch.schema import StreamSchema
from anabranch.testing.memory_log import MemoryLog

SCHEMA = StreamSchema.of(
    {"k": "STRING", "g": "DOUBLE", "i": "INT", "b": "BIGINT", "d": "DOUBLE", "m": "DECIMAL(10,2)", "ts": "TIMESTAMP"},
    time="ts",
)
VALUES = ("i", "b", "d", "m")


def some_rows(seed: int, count: int, *, span: int = 1000, start: int = -300, nasty: bool = True) -> pa.Table:
    """Rows in order of time, over `span` µs; with NULLs, NaNs and numbers whose sums need more than 64 bits."""
    draw = np.random.default_rng(seed)
    times = np.sort(draw.integers(start, start + span, count))
    hole = draw.random((5, count)) < (0.2 if nasty else 0)
    large = draw.integers(-(2**62), 2**62, count)
    doubles = (
        np.where(draw.random(count) < 0.02, math.nan, draw.normal(size=count)) if nasty else draw.normal(size=count)
    )
    columns = {
        "k": pa.array(draw.choice(["a", "b", "c"], count), mask=hole[0]),
        "g": pa.array(draw.choice([0.0, -0.0, 1.5, math.nan], count)),
        "i": pa.array(draw.integers(-(2**31), 2**31, count).astype(np.int32), mask=hole[1]),
        "b": pa.array(large, mask=hole[2]),
        "d": pa.array(doubles, mask=hole[3]),
        "m": pa.array(draw.integers(-(10**9), 10**9, count), mask=hole[4]).cast(pa.decimal128(19, 0)),
        "ts": pa.array(times).view(pa.timestamp("us", "UTC")),
    }
    columns["m"] = pa.array(
        [None if v is None else v.scaleb(-2) for v in columns["m"].to_pylist()], pa.decimal128(10, 2)
    )
    return pa.table(columns, schema=SCHEMA.arrow)


def log_of(*tables: pa.Table) -> MemoryLog:
    log = MemoryLog(SCHEMA)
    for table in tables:
        log.append(table)
    return log


def naive(
    table: pa.Table, every: int, keys: Sequence[str], values: Sequence[str], since: int | None, until: int | None
) -> dict[Any, Any]:
    """By (window start, keys): rows, and by value count, sum, min and max; sums as fractions where they are finite."""
    found: dict[Any, Any] = {}
    times = table.column("ts").cast(pa.int64()).to_pylist()
    for time, row in zip(times, table.to_pylist(), strict=True):
        if (since is not None and time < since) or (until is not None and time >= until):
            continue
        group = found.setdefault((time // every * every, *(plain(row[key]) for key in keys)), {"rows": 0})
        group["rows"] += 1
        for value in values:
            if row[value] is not None:
                group.setdefault(value, []).append(row[value])
    return {key: (group["rows"], *(summed(group.get(value, [])) for value in values)) for key, group in found.items()}


def summed(numbers: list[Any]) -> tuple[Any, ...]:
    if not numbers:
        return 0, None, None, None
    real = [n for n in numbers if not is_nan(n)]
    total = math.nan if len(real) < len(numbers) else sum(map(Fraction, numbers))
    # NaN is the largest number, as in Spark.
    return len(numbers), plain(total), plain(min(real) if real else math.nan), plain(max(numbers, key=rank))


def rank(number: Any) -> Any:
    return (1, 0) if is_nan(number) else (0, number)


def is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def plain(value: Any) -> Any:
    """Equal if SQL says equal: NaN is one key, and so is zero."""
    if is_nan(value):
        return "NaN"
    return value + 0.0 if isinstance(value, float) else value


def check(table: pa.Table, shape: Shape, rows: pa.Table, since: int | None = None, until: int | None = None) -> None:
    """Summaries are those of the rows in a range."""
    wanted = naive(rows, shape.every, shape.keys, shape.values, since, until)
    assert same(as_dict(table, shape.keys, shape.values), wanted)
    starts, ends = (table.column(at).cast(pa.int64()).to_numpy() for at in (0, 1))
    assert np.array_equal(ends - starts, np.full(len(starts), shape.every))
    assert table.schema == shape.schema(SCHEMA.arrow)


def as_dict(summaries: pa.Table, keys: Sequence[str], values: Sequence[str]) -> dict[Any, Any]:
    """Summaries in the form of `naive`."""
    rows = [list(column.to_pylist()) for column in summaries.columns]
    rows[0] = summaries.column(0).cast(pa.int64()).to_pylist()
    found = {}
    for row in zip(*rows, strict=True):
        at = 3 + len(keys)
        parts = [row[at + 4 * n : at + 4 * n + 4] for n in range(len(values))]
        key = (row[0], *map(plain, row[2 : at - 1]))
        assert key not in found
        found[key] = (row[at - 1], *(tuple(map(plain, part)) for part in parts))
    return found


def same(got: dict[Any, Any], wanted: dict[Any, Any]) -> bool:
    """All equal, sums of doubles nearly."""
    return list(got) == sorted(wanted, key=order) and all(close(got[key], wanted[key]) for key in wanted)


def order(key: tuple[Any, ...]) -> Any:
    """Windows in order, then keys: NULL first, NaN last."""
    return [(0, 0) if v is None else (2, 0) if v == "NaN" else (1, v) for v in key]


def close(got: Any, wanted: Any) -> bool:
    if isinstance(wanted, tuple):
        return len(got) == len(wanted) and all(map(close, got, wanted))
    if isinstance(got, float) and isinstance(wanted, (int, float, Fraction)):
        return math.isclose(got, wanted, rel_tol=1e-9, abs_tol=1e-9)
    return bool(got == wanted)
