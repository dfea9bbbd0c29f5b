"""What Spark computes of a standing query depends on its rows alone, whatever the clock says."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from sqlglot import exp

import anabranch as ab
from anabranch.errors import AnabranchError
from anabranch.sql import parse
from anabranch.sql.checking.safety import check_tree
from anabranch.sql.statements import SelectOnce

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("spark")

TEXTS = [
    "2026-01-01 10:00:00", "2026-11-31 00:00:00", "2026-02-30", "2024-02-29", "2026", "2026-1", "2026-1-2", "2026-1-2 ",
    "2026-1-2 3:4:5", "2026-01-01T10:00", "2026-01-01T10", "2026-01-01 10:00:00.", "2026-01-01 10:00:00.1234567",
    "2026-01-01 10:00:00Z", "2026-01-01 10:00:00 UTC", "2026-01-01 10:00:00 CET", "2026-01-01 10:00:00+02:00",
    "2026-01-01 10:00:00 +2", "2026-01-01 10:00:00 UTC+2", "2026-01-01 10:00:00 GMT+02:00", "2026-01-01 10:00:00+19:00",
    "2026-01-01 10:00:00 PST", "2026-01-01 10:00:00 Mars/Olympus", "2026-01-01 24:00:00", "2026-01-01 10:60:00",
    "2026-13-01", "10:00:00", "T10:00", "24:00:00", ":10", "abc", "", "epoch", "now", "12026-01-01", "999-01-01",
    "2026-01-01 abc", "2026-01-01Tabc", "2026-00-01", "2026-01-00", "0000-02-29", "1900-02-29", "today CET", "now UTC",
    "-0001", "epoch UTC", "Tomorrow", "today Mars/Olympus", "2026-01-01 10:00 utc", "2026-01-01 10Z", "2026-",
    "2026-01-01 10:", "2026-01-01 10 CET",
]  # fmt: skip


@pytest.fixture
def db(tmp_path: Path) -> Iterator[ab.Database]:
    with ab.open(tmp_path / "river", settings={"warm_up": 0}) as database:
        database.sql("CREATE STREAM s (v STRING, x DATE, ts TIMESTAMP) TIMESTAMP BY ts")
        yield database


@pytest.mark.parametrize("kind", ["TIMESTAMP", "DATE", "TIMESTAMP_NTZ"])
def test_the_literals_that_spark_takes_are_taken(spark: SparkSession, kind: str) -> None:
    wrong = []
    for text in TEXTS:
        statement = parse(f"SELECT {kind} '{text}' AS x FROM s")[0]
        assert isinstance(statement, SelectOnce)
        assert isinstance(statement.select.tree, exp.Select)
        try:
            check_tree(statement.select, standing=False)
            ours = True
        except AnabranchError:
            ours = False
        try:
            spark.sql(f"SELECT {kind} '{text}' AS x")
            theirs = True
        except Exception:
            theirs = False
        if ours != theirs:
            wrong.append((text, ours, theirs))
    assert wrong == []


def test_a_time_of_day_in_a_column_is_no_time_whenever_it_is_read(db: ab.Database) -> None:
    start = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    texts = ["10:00:00", "now", "T10:00", "2026-01-01 10:00:00+02:00", " 2026-01-02", None, "\x0110:00"]
    db.append("s", [{"v": v, "x": dt.date(2026, 1, 3), "ts": start} for v in texts])
    q = db.query(
        "SELECT CAST(v AS TIMESTAMP) AS a, to_timestamp(v) AS b, timestamp(v) AS c, CAST(concat('', v) AS TIMESTAMP) "
        "AS d, timestamp(x) AS e, ts FROM s",
        name="q",
    )
    found = q.wait(60).table()
    at = [None, None, None, start.replace(hour=8), start.replace(day=2), None, None]
    for name in "abcd":
        assert found.column(name).to_pylist() == at, name
    assert found.column("e").to_pylist() == [start.replace(day=3)] * len(texts)


@pytest.mark.parametrize(
    "expression",
    [
        "hour(v)", "date_trunc('DAY', v)", "v > ts", "ts = concat(v, '')", "CAST(array(v) AS ARRAY<TIMESTAMP>)[0]",
        "ts > '10:00:00'", "ts > 'now'", "x = 'today'", "x > concat('to', 'day')", "CAST(concat('no', 'w') AS DATE)",
        "coalesce(v, ts) > ts",
    ],
)  # fmt: skip
def test_a_text_that_is_silently_a_time_of_today_is_refused(db: ab.Database, expression: str) -> None:
    with pytest.raises(AnabranchError, match="FUNCTION_NOT_REPEATABLE"):
        db.query(f"SELECT {expression} AS a, ts FROM s")
    assert db.sql("SHOW QUERIES").table().num_rows == 0


@pytest.mark.parametrize(
    "expression",
    ["ts > '2026-01-01'", "x = '2026-01-01'", "soundex(v) = 'now'", "CAST(soundex(v) AS DATE)", "x > concat(v, '')"],
)
def test_what_needs_no_clock_is_computed(db: ab.Database, expression: str) -> None:
    assert db.dataframe(f"SELECT soundex(v) AS s, {expression} AS a, ts FROM s").columns == ["s", "a", "ts"]


def test_a_variant_is_no_answer_but_what_is_read_from_it(db: ab.Database) -> None:
    db.append("s", [{"v": '{"a": 1}', "ts": dt.datetime(2026, 1, 1, tzinfo=dt.UTC)}, {"v": None}])
    for answer in ("parse_json(v)", "array(parse_json(v))"):
        with pytest.raises(AnabranchError, match='TYPE_NOT_SUPPORTED column "x" of the answer is VARIANT'):
            db.sql(f"SELECT {answer} AS x FROM s")
    found = db.sql("SELECT variant_get(parse_json(v), '$.a', 'int') AS x FROM s").table()
    assert found.column("x").to_pylist() == [1, None][: found.num_rows]
