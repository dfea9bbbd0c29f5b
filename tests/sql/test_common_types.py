"""Columns of two types beside each other mean what they mean in Spark: in sets, merges and joins with the past."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from anabranch.schema import arrow_type
from anabranch.testing.sparkless import SparklessDatabase

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
PAIRS: list[tuple[str, Any, str, Any, str]] = [
    ("INT", 5, "DECIMAL(10,2)", Decimal("5.00"), "DECIMAL(12,2)"),
    ("BIGINT", 5, "DECIMAL(38,10)", Decimal("5"), "DECIMAL(38,10)"),
    ("DECIMAL(9,3)", Decimal("5.500"), "DECIMAL(12,1)", Decimal("5.5"), "DECIMAL(14,3)"),
    ("DECIMAL(12,3)", Decimal("1.004"), "DECIMAL(38,2)", Decimal("1.00"), "DECIMAL(38,2)"),
    ("DECIMAL(12,3)", Decimal("-1.005"), "DECIMAL(38,2)", Decimal("-1.01"), "DECIMAL(38,2)"),
    ("BIGINT", 16777217, "FLOAT", 16777216.0, "FLOAT"),
    ("INT", 16777217, "FLOAT", 16777216.0, "FLOAT"),
    ("DECIMAL(10,2)", Decimal("0.10"), "DOUBLE", 0.1, "DOUBLE"),
    ("DECIMAL(10,2)", Decimal("0.50"), "FLOAT", 0.5, "DOUBLE"),
]
"""Types and values that Spark finds equal, and the type it finds them equal in."""


@pytest.fixture(params=PAIRS, ids=lambda pair: f"{pair[0]} and {pair[2]}: {pair[1]}")
def db(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SparklessDatabase]:
    one, value, other, equal, _ = request.param
    with SparklessDatabase(tmp_path / "river") as database:
        database.sql(f"CREATE STREAM a (v {one}, ts TIMESTAMP) TIMESTAMP BY ts")
        database.sql(f"CREATE STREAM b (v {other}, ts TIMESTAMP) TIMESTAMP BY ts")
        database.sql("CREATE ARCHIVE ON b USING plain")
        database.append("b", [{"v": equal, "ts": START}])
        database.append("a", [{"v": value, "ts": START + dt.timedelta(seconds=1)}])
        for name in "ab":
            database.advance(name, START + dt.timedelta(minutes=5))
        yield database


def rows(db: SparklessDatabase, select: str) -> pa.Table:
    query = db.query(select)
    db.catch_up()
    return query.table()


def test_a_set_operation_compares_in_the_type_of_spark(db: SparklessDatabase, request: pytest.FixtureRequest) -> None:
    window = "WINDOW = INTERVAL 1 MINUTE"
    found = rows(db, f"SELECT v FROM a {window} INTERSECT SELECT v FROM b {window}")
    assert found.num_rows == 1
    assert found.schema.field("v").type == arrow_type(request.node.callspec.params["db"][4])
    assert rows(db, f"SELECT v FROM a {window} EXCEPT SELECT v FROM b {window}").num_rows == 0
    assert rows(db, f"SELECT v FROM a {window} UNION SELECT v FROM b {window}").num_rows == 1


def test_a_window_join_a_merge_and_a_join_with_the_past_find_equal_what_spark_does(db: SparklessDatabase) -> None:
    joined = "SELECT a.ts FROM a, b WINDOW = INTERVAL 1 HOUR WHERE a.v = b.v"
    merged = "SELECT a.ts FROM a MERGE JOIN b ON within(a.ts, b.ts, INTERVAL 1 MINUTE) AND a.v = b.v"
    for select in (joined, merged):
        assert rows(db, select).num_rows == 1, select
    db.append("a", [{"v": db.reader("a").read(0, 1).column("v")[0].as_py(), "ts": START + dt.timedelta(days=1)}])
    for name in "ab":
        db.advance(name, START + dt.timedelta(days=3))
    past = "SELECT a.ts FROM a JOIN ARCHIVE b LAST 1 INTERVAL 1 DAY WITHIN INTERVAL 1 HOUR ON a.v = b.v"
    assert rows(db, past).num_rows == 1
