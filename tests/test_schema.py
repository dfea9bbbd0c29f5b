"""What may be appended: values keep their meaning, or the whole append is refused with the column's name."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from anabranch.errors import DataError
from anabranch.schema import StreamSchema

COLUMNS = {
    "d": "DECIMAL(10,2)", "f": "FLOAT", "day": "DATE", "i": "INT", "b": "BIGINT", "t": "STRING", "ok": "BOOLEAN",
    "x": "DOUBLE", "ts": "TIMESTAMP",
}  # fmt: skip
SCHEMA = StreamSchema.of(COLUMNS, "ts")
MOMENT = dt.datetime(2026, 1, 1, 0, 0, 0, 123456, tzinfo=dt.UTC)

KEPT: list[tuple[Any, str, list[Any]]] = [
    ([{"d": 5}], "d", [Decimal("5.00")]),
    ([{"d": 1.5}], "d", [Decimal("1.50")]),
    ([{"d": Decimal("1.25")}], "d", [Decimal("1.25")]),
    ([{"f": 0.5}], "f", [0.5]),
    ({"f": [float("inf"), None]}, "f", [float("inf"), None]),
    ([{"day": dt.datetime(2026, 1, 1, tzinfo=dt.UTC)}], "day", [dt.date(2026, 1, 1)]),
    ([{"i": 2.0}], "i", [2]),
    ([{"x": 1}], "x", [1.0]),
    ({"i": pd.array([1, None], dtype="Int64")}, "i", [1, None]),
    ([{}, {}], "i", [None, None]),
    (pd.DataFrame({"t": pd.Categorical(["a", "b"])}), "t", ["a", "b"]),
    (pl.DataFrame({"t": pl.Series(["a", None], dtype=pl.Categorical)}), "t", ["a", None]),
    ({"t": pa.array(["a"], pa.large_string())}, "t", ["a"]),
    ({"ts": ["2026-01-01T00:00:00.123456789Z"]}, "ts", [MOMENT]),
    ({"ts": ["2026-01-01 02:00:00.123456+02:00", "2026-01-01 00:00:00.123456"]}, "ts", [MOMENT, MOMENT]),
    ({"ts": pa.array([-1], pa.timestamp("ns"))}, "ts", [dt.datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=dt.UTC)]),
    ({"ts": [dt.date(2026, 1, 1)]}, "ts", [dt.datetime(2026, 1, 1, tzinfo=dt.UTC)]),
]

REFUSED: list[tuple[Any, str]] = [
    ([{"d": 1.009}], 'TYPE_MISMATCH column "d" is DECIMAL(10,2), got double. Detail: digits would be lost'),
    ([{"d": 10**9}], 'TYPE_MISMATCH column "d" is DECIMAL(10,2), got int64'),
    ([{"f": 1e300}], 'TYPE_MISMATCH column "f" is FLOAT, got double. Detail: a number is too large for FLOAT'),
    ([{"day": MOMENT}], 'TYPE_MISMATCH column "day" is DATE, got timestamp[us, tz=UTC]. Detail: a time of day'),
    ([{"b": dt.timedelta(1)}], 'TYPE_MISMATCH column "b" is BIGINT, got duration[us]'),
    ([{"i": True}], 'TYPE_MISMATCH column "i" is INT, got bool'),
    ([{"ok": 1}], 'TYPE_MISMATCH column "ok" is BOOLEAN, got int64'),
    ([{"i": "5"}], 'TYPE_MISMATCH column "i" is INT, got string. Detail: text is not converted'),
    ([{"t": 5}], 'TYPE_MISMATCH column "t" is STRING, got int64'),
    ({"i": 1}, "DATA_NOT_UNDERSTOOD this dict cannot be read as rows"),
    ({"i": [1, 2], "t": ["a"]}, "DATA_NOT_UNDERSTOOD this dict cannot be read as rows"),
    (pd.DataFrame({"t": ["a", 1, None]}), "DATA_NOT_UNDERSTOOD this DataFrame cannot be read as rows"),
    (pd.DataFrame({"t": ["\ud800"]}), "DATA_NOT_UNDERSTOOD this DataFrame cannot be read as rows"),
    (pd.DataFrame([[1, 2]], columns=["i", "i"]), "DATA_NOT_UNDERSTOOD this DataFrame cannot be read as rows"),
]


@pytest.mark.parametrize(("data", "column", "values"), KEPT, ids=range(len(KEPT)))
def test_a_value_keeps_its_meaning(data: Any, column: str, values: list[Any]) -> None:
    assert SCHEMA.conform(data).column(column).to_pylist() == values


@pytest.mark.parametrize(("data", "said"), REFUSED, ids=range(len(REFUSED)))
def test_a_value_that_would_change_is_refused(data: Any, said: str) -> None:
    with pytest.raises(DataError) as caught:
        SCHEMA.conform(data)
    assert str(caught.value).startswith(said)
