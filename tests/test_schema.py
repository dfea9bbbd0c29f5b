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
from anabranch.schema import StreamSchema, arrow_type, sql_type

COLUMNS = {
    "d": "DECIMAL(10,2)", "f": "FLOAT", "day": "DATE", "i": "INT", "b": "BIGINT", "t": "STRING", "ok": "BOOLEAN",
    "x": "DOUBLE", "ts": "TIMESTAMP",
    "l": "ARRAY<DECIMAL(5,1)>", "o": "STRUCT<a: INT, `b c`: ARRAY<TIMESTAMP>, z: STRUCT<q: STRING>>",
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
    ([{"l": [1, None, Decimal("2.5")]}, {"l": ()}, {}], "l", [[Decimal("1.0"), None, Decimal("2.5")], [], None]),
    ([{"l": [0.5]}, {"l": None}], "l", [[Decimal("0.5")], None]),
    ({"l": pa.array([[1], None, []], pa.large_list(pa.int64()))}, "l", [[Decimal("1.0")], None, []]),
    ({"l": pa.array([[1, 2], None], pa.list_(pa.int8(), 2))}, "l", [[Decimal("1.0"), Decimal("2.0")], None]),
    ({"l": pa.array([[9], [1], [2]]).slice(1, 1)}, "l", [[Decimal("1.0")]]),
    (
        [{"o": {"b c": ["2026-01-01T00:00:00.123456"], "a": 1}}, {"o": {}}, {"o": None}],
        "o",
        [{"a": 1, "b c": [MOMENT], "z": None}, {"a": None, "b c": None, "z": None}, None],
    ),
    (pd.DataFrame({"o": [{"a": 2.0, "z": {"q": "x"}}, None]}), "o", [{"a": 2, "b c": None, "z": {"q": "x"}}, None]),
    (pl.DataFrame({"o": [{"z": {"q": "ü"}, "b c": [MOMENT]}]}), "o", [{"a": None, "b c": [MOMENT], "z": {"q": "ü"}}]),
    (pd.DataFrame({"l": [[1.5], None]}), "l", [[Decimal("1.5")], None]),
    (
        {"o": pa.StructArray.from_arrays([pa.array([2**40, 1])], ["a"], mask=pa.array([True, False]))},
        "o",
        [None, {"a": 1, "b c": None, "z": None}],
    ),
    ({"o": pa.array([{"a": 1}, {"a": 2}]).slice(1)}, "o", [{"a": 2, "b c": None, "z": None}]),
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
    ([{"l": [0.25]}], 'TYPE_MISMATCH column "l[]" is DECIMAL(5,1), got double. Detail: digits would be lost'),
    ([{"l": 1}], 'TYPE_MISMATCH column "l" is ARRAY<DECIMAL(5,1)>, got int. Detail: an array is written as a list'),
    ([{"l": {"a": 1}}], 'TYPE_MISMATCH column "l" is ARRAY<DECIMAL(5,1)>, got dict. Detail: an array is written as a'),
    (
        [{"o": [1]}],
        'TYPE_MISMATCH column "o" is STRUCT<a: INT, `b c`: ARRAY<TIMESTAMP>, z: STRUCT<q: STRING>>, got list',
    ),
    ([{"o": {"A": 1}}], 'COLUMN_NOT_FOUND field "A" is not in column "o". Hint: there are: a, b c, z'),
    ([{"o": {"b c": [5]}}], 'TYPE_MISMATCH column "o.b c[]" is TIMESTAMP, got int64. Detail: a number is not a time'),
    (
        [{"o": {"z": {"q": 1}}}],
        'TYPE_MISMATCH column "o.z.q" is STRING, got int64. Detail: values of this kind are not',
    ),
    ([{"l": [1, "a"]}], 'TYPE_MISMATCH column "l[]" holds values that do not fit together, DECIMAL(5,1) is wanted'),
    ({"o": pa.array([{"z": {"p": 1}}])}, 'COLUMN_NOT_FOUND field "p" is not in column "o.z". Hint: there are: q'),
    (
        {"l": pa.array([{"z": 1}])},
        'TYPE_MISMATCH column "l" is ARRAY<DECIMAL(5,1)>, got struct<z: int64>. Detail: on',
    ),
    (
        pd.DataFrame({"o": [[1]]}),
        'TYPE_MISMATCH column "o" is STRUCT<a: INT, `b c`: ARRAY<TIMESTAMP>, z: STRUCT<q: STRING>>, g',
    ),
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


TYPES = [
    ("ARRAY<INT>", "ARRAY<INT>"),
    (" array < struct< a int, `b``c`: decimal ( 10 , 2 ) > > ", "ARRAY<STRUCT<a: INT, `b``c`: DECIMAL(10,2)>>"),
    ("STRUCT<a: ARRAY<ARRAY<text>>, s STRUCT<x: real>>", "STRUCT<a: ARRAY<ARRAY<STRING>>, s: STRUCT<x: FLOAT>>"),
]  # fmt: skip


@pytest.mark.parametrize(("written", "told"), TYPES)
def test_a_type_is_told_as_it_can_be_read(written: str, told: str) -> None:
    assert sql_type(arrow_type(written)) == told
    assert arrow_type(told) == arrow_type(written)


@pytest.mark.parametrize(
    "written",
    ["ARRAY", "ARRAY<>", "ARRAY<INT", "ARRAY<INT>>", "ARRAY<INT, INT>", "ARRAY<`INT`>", "STRUCT<>", "STRUCT<a>",
     "STRUCT<a INT,>", "STRUCT<1a: INT>", "MAP<INT, INT>", "ARRAY<MAP<INT, INT>>", "STRUCT<a: INT NOT NULL>",
     "ARRAY<DECIMAL(50, 1)>", "ARRAY<INT;>", ""],
)  # fmt: skip
def test_what_is_no_type_is_told(written: str) -> None:
    with pytest.raises(DataError, match="TYPE_NOT_SUPPORTED"):
        arrow_type(written)


def test_types_are_not_nested_without_end() -> None:
    assert sql_type(arrow_type("ARRAY<" * 32 + "INT" + ">" * 32)).count("<") == 32
    with pytest.raises(DataError, match="TYPE_NOT_SUPPORTED a type is nested more than 32 deep"):
        arrow_type("ARRAY<" * 33 + "INT" + ">" * 33)
    with pytest.raises(DataError, match='COLUMN_EXISTS field "A" is declared twice'):
        arrow_type("STRUCT<a: INT, A: INT>")
