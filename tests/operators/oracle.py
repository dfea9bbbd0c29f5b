"""Windowed aggregates the naive way: every window recomputed from all rows, in pure Python."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

Row = dict[str, Any]


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
    at = [n if unit == "rows" else row["t"] for n, row in enumerate(rows)]
    ends = {e for a in at for e in range((a // slide + 1) * slide, a + size + 1, slide) if e <= reached}
    out = []
    for end in sorted(ends):
        groups: dict[tuple[Any, ...], list[Row]] = {}
        for a, row in zip(at, rows, strict=True):
            if end - size <= a < end and where(row):
                groups.setdefault(tuple(_same(row[k]) for k in keys), []).append(row)
        for key in sorted(groups, key=lambda key: [_rank(part) for part in key]):
            values = [_aggregate(f, arg, groups[key]) for f, arg in aggregates]
            out.append((end, *(_plain(part) for part in key), *values))
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
    if function == "count":
        return len(values)
    if not values:
        return None
    if function in ("min", "max"):
        ranked = sorted(values, key=lambda v: _rank(_same(v)))
        return ranked[0 if function == "min" else -1]
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
