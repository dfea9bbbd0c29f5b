"""Values, without Spark: each line is an expression over one row and what it gives."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from anabranch.expressions import compile
from anabranch.schema import TIME_TYPE
from tests.expressions import nasty

NAN = float("nan")
ROW = pa.table(
    {
        "length": pa.array([1500], pa.int32()),
        "tiny": pa.array([127], pa.int8()),
        "big": pa.array([2**63 - 1], pa.int64()),
        "ratio": pa.array([2.5], pa.float64()),
        "nan": pa.array([NAN], pa.float64()),
        "single": pa.array([0.1], pa.float32()),
        "saddr": ["10.1.2.3"],
        "word": ["é😀x"],
        "nothing": pa.array([None], pa.int32()),
        "yes": [True],
        "unknown": pa.array([None], pa.bool_()),
        "ts": pa.array([-1], pa.int64()).cast(TIME_TYPE),
        "day": pa.array([dt.date(2020, 2, 29)]),
    }
)

EXPECTED: list[tuple[str, Any]] = [
    ("length + 2147483647", -2147482149),
    ("big + 1", -(2**63)),
    ("tiny + 1Y", -128),
    ("length / 1000", 1.5),
    ("length / 0", None),
    ("length % 0", None),
    ("-7 % 3", -1),
    ("-7 DIV 2", -3),
    ("length * 1.5", Decimal("2250.0")),
    ("ratio * 1.5", 3.75),
    ("nan = nan", True),
    ("nan > 1e300", True),
    ("nan < 0", False),
    ("0 < nan", True),
    ("single = 0.1", False),
    ("length > 1499.5", True),
    ("length = 1500.0", True),
    ("nothing = nothing", None),
    ("nothing <=> NULL", True),
    ("yes OR unknown", True),
    ("yes AND unknown", None),
    ("NOT yes AND unknown", False),
    ("length IN (1, NULL)", None),
    ("length IN (1500, NULL)", True),
    ("length NOT IN (1, 2)", True),
    ("length BETWEEN 1500 AND 1500", True),
    ("saddr LIKE '10.%'", True),
    ("saddr LIKE '10_1%'", True),
    ("saddr NOT LIKE '%4'", True),
    ("word LIKE '__x'", True),
    ("CASE WHEN unknown = TRUE THEN 1 ELSE 2 END", 2),
    ("CASE length WHEN 1500 THEN 'full' END", "full"),
    ("IF(length > 1000, 'big', 'small')", "big"),
    ("COALESCE(nothing, 7)", 7),
    ("NULLIF(length, 1500)", None),
    ("GREATEST(nothing, 3, length)", 1500),
    ("LEAST(ratio, nan)", 2.5),
    ("GREATEST(ratio, nan) = nan", True),
    ("ABS(-3)", 3),
    ("ROUND(ratio)", 3.0),
    ("ROUND(-2.5D)", -3.0),
    ("FLOOR(-0.5D)", -1),
    ("SQRT(ratio * 10)", 5.0),
    ("isnan(nan)", True),
    ("isnan(CAST(NULL AS DOUBLE))", False),
    ("LENGTH(word)", 3),
    ("CONCAT(saddr, ':', length)", "10.1.2.3:1500"),
    ("saddr || NULL", None),
    ("SUBSTRING(saddr, 1, 2)", "10"),
    ("SUBSTRING(saddr, -3, 2)", "2."),
    ("SUBSTRING(word, -9, 8)", "é😀"),
    ("TRIM('  a ')", "a"),
    ("REPLACE(saddr, '.', '')", "10123"),
    ("CAST(1e10 AS INT)", 2**31 - 1),
    ("CAST(nan AS BIGINT)", 0),
    ("CAST(length AS TINYINT)", -36),
    ("CAST(length AS STRING)", "1500"),
    ("CAST(ts AS DATE)", dt.date(1969, 12, 31)),
    ("ts < '1970-01-01'", True),
    ("ts + INTERVAL 1 SECOND", nasty.moment("1970-01-01T00:00:00.999999")),
    ("DATE_TRUNC('HOUR', ts)", nasty.moment("1969-12-31T23:00:00")),
    ("YEAR(ts)", 1969),
    ("SECOND(ts)", 59),
    ("DAY(day)", 29),
    ("UNIX_MICROS(ts)", -1),
    ("UNIX_SECONDS(ts)", -1),
    ("UNIX_TIMESTAMP(ts)", 0),
    ("6 & 3", 2),
    ("(6 ^ 3) | 8", 13),
    ("~0", -1),
]


@pytest.mark.parametrize(("text", "expected"), EXPECTED, ids=[text for text, _ in EXPECTED])
def test_value_of_one_row(text: str, expected: Any) -> None:
    assert compile(text, ROW.schema).evaluate(ROW).to_pylist() == [expected]


SHAPES = [
    "i + l",
    "s || s2",
    "i IN (1, 7)",
    "CASE WHEN b THEN i ELSE i2 END",
    "COALESCE(s, 'x')",
    "d > d2",
    "7",
    "NULL",
]


@pytest.mark.parametrize("text", SHAPES)
def test_chunks_slices_and_whole_columns_give_the_same(text: str) -> None:
    table = nasty.table()
    compiled = compile(text, table.schema)
    expected = compiled.evaluate(table.combine_chunks())
    chunked, rows = compiled.evaluate(table), table.num_rows
    assert len(expected) == len(chunked) == rows
    # As text, since NaN is not equal to itself.
    assert str(chunked.to_pylist()) == str(expected.to_pylist())
    part = compiled.evaluate(table.slice(13, 40))
    assert str(part.to_pylist()) == str(expected.to_pylist()[13:53])


@pytest.mark.parametrize("text", SHAPES)
def test_a_table_without_rows_gives_no_values_of_the_same_type(text: str) -> None:
    schema = nasty.table().schema
    for empty in (schema.empty_table(), pa.Table.from_batches([], schema)):
        compiled = compile(text, schema)
        values = compiled.evaluate(empty)
        assert len(values) == 0
        assert values.type == compiled.type


def test_a_constant_is_repeated_for_every_row() -> None:
    compiled = compile("1 + 1", ROW.schema)
    assert compiled.columns == ()
    assert compiled.evaluate(pa.table({"other": [1, 2, 3]})).to_pylist() == [2, 2, 2]


@pytest.mark.parametrize("type", [pa.large_string(), pa.dictionary(pa.int32(), pa.string())])
def test_text_in_another_layout_is_text(type: pa.DataType) -> None:
    table = pa.table({"s": pa.array(["a", None, "b"]).cast(type)})
    compiled = compile("s", table.schema)
    assert compiled.type == pa.string()
    assert compiled.evaluate(table).to_pylist() == ["a", None, "b"]
    assert compile("s = 'a'", table.schema).evaluate(table).to_pylist() == [True, None, False]


def test_calendar_holds_far_outside_the_range_of_arrow() -> None:
    far = pa.table({"ts": pa.array([2**62, -(2**62)], pa.int64()).cast(TIME_TYPE)})
    assert compile("YEAR(ts)", far.schema).evaluate(far).to_pylist() == [148108, -144169]


def test_time_moved_past_its_end_is_an_error_not_another_time() -> None:
    last = pa.table({"ts": pa.array([2**63 - 1], pa.int64()).cast(TIME_TYPE)})
    with pytest.raises(pa.ArrowInvalid):
        compile("ts + INTERVAL 1 SECOND", last.schema).evaluate(last)
