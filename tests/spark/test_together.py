"""On Spark: many standing queries are one of Spark's, and go on when its JVM is killed."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest

import anabranch as ab
from anabranch.testing import processes
from tests.queries.test_together import told

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("killed")]

BASE = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def rows(first: int, end: int) -> list[dict[str, Any]]:
    return [
        {"k": i % 50, "x": float(i % 97), "t": f"n{i % 7}", "at": BASE + dt.timedelta(milliseconds=100 * i)}
        for i in range(first, end)
    ]


def expected(asked: dict[str, str], count: int, path: Path) -> dict[str, list[Any]]:
    from anabranch.testing.sparkless import SparklessDatabase

    with SparklessDatabase(path, settings={"alone_queries": 0}) as db:
        db.sql("CREATE STREAM s (k INT, x DOUBLE, t STRING, at TIMESTAMP) TIMESTAMP BY at")
        db.append("s", rows(0, count))
        for name, text in asked.items():
            db.query(text, name=name)
        db.catch_up()
        return {name: told(db, name) for name in asked}


def test_many_are_one_query_of_spark_and_outlive_its_jvm(tmp_path: Path) -> None:
    asked = {f"k{i}": f"SELECT k, x, at FROM s WHERE k = {i}" for i in range(20)}
    asked |= {
        f"w{i}": f"SELECT count(*) AS n, sum(x) AS s FROM s WHERE k = {i} WINDOW = INTERVAL 30 SECONDS"
        for i in range(12)
    }
    asked |= {
        "text": "SELECT x FROM s WHERE t LIKE 'n1%' AND x > 20",
        "pairs": "SELECT a.x, b.x AS y, a.at FROM s a, s b WINDOW = INTERVAL 1 SECOND WHERE a.k = b.k AND a.x < b.x",
    }
    with ab.open(tmp_path / "river", settings={"batch_rows": 3000, "warm_up": 0}) as db:
        db.sql("CREATE STREAM s (k INT, x DOUBLE, t STRING, at TIMESTAMP) TIMESTAMP BY at")
        db.append("s", rows(0, 5000))
        first = dict(list(asked.items())[:25])
        db.create_queries(first)
        db.get_query("k3").wait(120)
        assert len(processes.planners()) == 1
        late = dict(list(asked.items())[25:])
        db.create_queries(late)
        db.sql("CREATE CONTINUOUS QUERY one ON HOST host AS SELECT x FROM s WHERE k = 7")
        db.append("s", rows(5000, 8000))
        db.get_query("one").wait(120)
        assert len(processes.planners()) == 1
        db.sql("STOP QUERY k5")
        processes.kill(processes.jvm())
        db.append("s", rows(8000, 10_000))
        db.get_query("one").wait(240)
        assert db.get_query("k5").status == "stopped"
        assert db.get_query("k5").table().num_rows <= 160
        db.sql("START QUERY k5")
        db.get_query("k5").wait(120)
        db.drop_query("k19")
        del asked["k19"]
        answers = {name: told(db, name) for name in asked}
        assert {query.status for query in db.queries()} == {"running"}
    assert answers == expected(asked, 10_000, tmp_path / "alone")
    with ab.open(tmp_path / "river", settings={"warm_up": 0}) as db:
        db.append("s", rows(10_000, 10_100))
        db.get_query("k3").wait(120)
        assert db.get_query("k3").table().num_rows == 202


def test_a_query_moves_between_hosts_while_rows_come_and_others_read_its_answers(tmp_path: Path) -> None:
    asked = {"q": "SELECT k, x, at FROM s WHERE k < 10", "w": "SELECT sum(x) AS s FROM s WINDOW = INTERVAL 10 SECONDS"}
    over = "SELECT count(*) AS n FROM q WINDOW = INTERVAL 10 SECONDS"
    with ab.open(tmp_path / "river", settings={"warm_up": 0}) as db:
        db.sql("CREATE STREAM s (k INT, x DOUBLE, t STRING, at TIMESTAMP) TIMESTAMP BY at")
        queries = [db.query(text, name=name) for name, text in asked.items()]
        above = db.query(over, name="over")
        places = ("crowd", "another", None)
        for part, place in enumerate(places):
            db.append("s", rows(2000 * part, 2000 * (part + 1)))
            for query in queries:
                db.sql(f"ALTER QUERY {query.name} {f'ON HOST {place}' if place else 'ALONE'}")
                assert query.host == place
        db.append("s", rows(6000, 8000))
        for query in (*queries, above):
            query.wait(60)
        answers = {name: told(db, name) for name in (*asked, "over")}
        assert above.status == "running"
        assert db.check().fine
    assert answers == expected({**asked, "over": over}, 8000, tmp_path / "alone")
