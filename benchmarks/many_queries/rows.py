"""Rows of the two streams that are asked about, by number, the same whenever they are made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

STREAMS = (
    "CREATE STREAM s (k INT, code INT, b BIGINT, x DOUBLE, y DOUBLE, t STRING, flag BOOLEAN, at TIMESTAMP) "
    "TIMESTAMP BY at; "
    "CREATE STREAM e (k INT, level INT, at TIMESTAMP) TIMESTAMP BY at"
)
KEYS = 20_000
CODES = 2_000
LEVELS = 10
LARGEST_B = 1 << 40
NULLS = 0.01
"""The part of y that is NULL."""
EVENTS = 100
"""A row of e comes for so many of s."""
BASE_MS = 1_767_225_600_000
TEXTS = np.array([f"machine-{code:04d}" for code in range(CODES)])

Columns = dict[str, NDArray[Any]]


def rows(first: int, count: int, per_second: int) -> pa.Table:
    """Rows of s by number: 8 columns, `per_second` of them in a second of their own time."""
    chance = np.random.default_rng(first)
    code = chance.integers(0, CODES, count)
    return pa.table(
        {
            "k": pa.array(chance.integers(0, KEYS, count), pa.int32()),
            "code": pa.array(code, pa.int32()),
            "b": chance.integers(0, LARGEST_B, count),
            "x": chance.random(count),
            "y": pa.array(chance.normal(size=count), mask=chance.random(count) < NULLS),
            "t": pa.DictionaryArray.from_arrays(pa.array(code, pa.int32()), _TEXTS).cast(pa.string()),
            "flag": pa.array(chance.random(count) < 0.5),
            "at": _times(np.arange(first, first + count), per_second),
        }
    )


def events(first: int, count: int, per_second: int) -> pa.Table:
    """The rows of e that come while those rows of s do."""
    numbers = np.arange(-(-first // EVENTS), -(-(first + count) // EVENTS)) * EVENTS
    chance = np.random.default_rng([first, 1])
    return pa.table(
        {
            "k": pa.array(chance.integers(0, KEYS, len(numbers)), pa.int32()),
            "level": pa.array(chance.integers(0, LEVELS, len(numbers)), pa.int32()),
            "at": _times(numbers, per_second),
        }
    )


_TEXTS = pa.array(TEXTS)


def _times(numbers: NDArray[np.int64], per_second: int) -> pa.Array:
    """Whole milliseconds, as fine as Flink's event time goes."""
    return pa.array((BASE_MS + numbers * 1000 // per_second) * 1000).cast(pa.timestamp("us", "UTC"))


class Fed(NamedTuple):
    """All rows of both streams, as NumPy reads them; `at` is in milliseconds, and a NULL of y is NaN."""

    s: Columns
    e: Columns

    @classmethod
    def of(cls, s: Sequence[pa.Table], e: Sequence[pa.Table]) -> Fed:
        return cls(_columns(s), _columns(e))


def _columns(tables: Sequence[pa.Table]) -> Columns:
    whole = pa.concat_tables(tables)
    columns = {name: whole.column(name).to_numpy() for name in whole.column_names if name not in ("t", "at")}
    return {**columns, "at": whole.column("at").cast(pa.int64()).to_numpy() // 1000}
