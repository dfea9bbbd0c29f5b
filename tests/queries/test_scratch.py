"""What queries say that they keep: rows and bytes, also after a micro-batch in which nothing was done."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path

import pytest

from anabranch.testing.sparkless import SparklessDatabase

QUERIES = {
    "windows": "SELECT k, count(*) AS n FROM s WINDOW = INTERVAL 1 MINUTE SLIDE INTERVAL 10 SECONDS GROUP BY k",
    "medians": "SELECT k, median(v) AS m FROM s WINDOW = INTERVAL 1 MINUTE SLIDE INTERVAL 10 SECONDS GROUP BY k",
    "top": "SELECT k, v FROM s WINDOW = INTERVAL 1 MINUTE SLIDE INTERVAL 10 SECONDS ORDER BY v DESC LIMIT 3",
    "changes": "SELECT k, count(*) AS n FROM s WINDOW = INTERVAL 10 SECONDS GROUP BY k EMIT CHANGES",
    "join": "SELECT s.k, t.w FROM s, t WINDOW = INTERVAL 1 MINUTE WHERE s.k = t.k",
    "counted": "SELECT s.k, count(*) AS n FROM s, t WINDOW = INTERVAL 1 MINUTE WHERE s.k = t.k GROUP BY s.k "
    "EMIT EVERY INTERVAL 10 SECONDS",
    "totals": "SELECT k, count(*) AS n FROM s SINCE TIMESTAMP '2026-01-01' GROUP BY k EMIT EVERY INTERVAL 10 SECONDS",
    "merged": "SELECT s.k, t.w FROM s MERGE JOIN t ON within(s.v, t.w, 0) WITH (policy = 'nearest', window = 50)",
}


@pytest.fixture
def db(tmp_path: Path) -> Iterator[SparklessDatabase]:
    with SparklessDatabase(tmp_path / "db") as database:
        database.sql("CREATE STREAM s (k INT, v INT, ts TIMESTAMP) TIMESTAMP BY ts")
        database.sql("CREATE STREAM t (k INT, w INT, ts TIMESTAMP) TIMESTAMP BY ts")
        yield database


def fill(db: SparklessDatabase, first: int, last: int) -> None:
    times = [f"2026-01-01 00:00:{second:02}" for second in range(first, last)]
    db.append("s", [{"k": i % 3, "v": i, "ts": time} for i, time in enumerate(times, first)])
    db.append("t", [{"k": i % 3, "w": 1000 + i, "ts": time} for i, time in enumerate(times, first)])


@pytest.mark.slow
@pytest.mark.parametrize("name", QUERIES)
def test_the_scratch_has_rows_and_bytes(db: SparklessDatabase, name: str) -> None:
    query = db.query(QUERIES[name], name=name)
    fill(db, 0, 20)
    db.catch_up()
    fill(db, 20, 40)
    db.catch_up()
    kept = query.stats()["scratch"]
    assert kept["rows"] > 0
    assert kept["bytes"] > 0
    db.advance("s", dt.datetime(2026, 1, 1, 0, 0, 39, 500_000, dt.UTC))
    db.catch_up()
    assert query.stats()["scratch"]["rows"] > 0


def test_a_selection_keeps_nothing(db: SparklessDatabase) -> None:
    query = db.query("SELECT k FROM s WHERE v > 3", name="q")
    fill(db, 0, 20)
    db.catch_up()
    assert query.stats()["scratch"] == {"rows": 0, "bytes": 0, "why": "nothing is kept"}
