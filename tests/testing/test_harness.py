"""The operator harness and the database without Spark, as tools of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from anabranch.errors import QueryError
from anabranch.operators.windows.aggregate import WindowAggregate
from anabranch.schema import StreamSchema
from anabranch.testing import ManualClock, OperatorHarness
from anabranch.testing.sparkless import NeedsSpark, SparklessDatabase

SCHEMA = StreamSchema.of({"v": "INT", "ts": "TIMESTAMP"}, time="ts")
COUNT = WindowAggregate("s", "time", 1_000_000, 1_000_000, (), (("n", "count", None),), (("n", "n"),), "_time")


@pytest.mark.parametrize("on_disk", [False, True])
def test_steps_take_what_was_pushed_since(tmp_path: Path, on_disk: bool) -> None:
    harness = OperatorHarness(COUNT, {"s": SCHEMA}, directory=tmp_path if on_disk else None)
    assert harness.push("s", [{"v": i, "ts": f"2026-01-01 00:00:0{i}"} for i in range(4)]) == 4
    assert harness.step(rows=1).num_rows == 0
    assert harness.step(rows=2).column("n").to_pylist() == [1, 1]
    assert harness.step().column("n").to_pylist() == [1]
    assert harness.offsets["s"].row == 4
    harness.restart()
    harness.advance("s", 1_767_225_600_000_000 + 4_000_000)
    assert harness.step().column("n").to_pylist() == [1]
    assert harness.answers().column("n").to_pylist() == [1, 1, 1, 1]
    assert harness.work.rows_read == 4


def test_scratch_that_is_lost_is_read_again() -> None:
    harness = OperatorHarness(COUNT, {"s": SCHEMA})
    harness.push("s", [{"v": i, "ts": "2026-01-01 00:00:00"} for i in range(10)])
    harness.step()
    harness.forget()
    harness.push("s", [{"v": 1, "ts": "2026-01-01 00:00:01"}])
    assert harness.step().column("n").to_pylist() == [10]
    assert harness.work.rows_read == 21


def test_database_without_spark_runs_when_told(tmp_path: Path) -> None:
    with SparklessDatabase(tmp_path / "db", clock=ManualClock("2026-01-01")) as db:
        db.sql("CREATE STREAM s (v INT); CREATE CONTINUOUS QUERY q AS SELECT v * 2 AS w FROM s WHERE v > 1")
        db.sql("INSERT INTO s VALUES (1), (2), (3)")
        query = db.get_query("q")
        assert query.table().num_rows == 0
        db.catch_up()
        assert query.wait(1).table().column("w").to_pylist() == [4, 6]
        assert db.sql("SELECT count(*) AS n FROM s WINDOW = 3 ROWS").table().column("n").to_pylist() == [3]
        with pytest.raises(NeedsSpark):
            db.sql("SELECT v FROM s ORDER BY v")


def test_failing_query_is_told_and_can_go_on(tmp_path: Path) -> None:
    with SparklessDatabase(tmp_path / "db", clock=ManualClock("2026-01-02")) as db:
        db.sql("CREATE STREAM s (v BIGINT, ts TIMESTAMP) TIMESTAMP BY ts")
        query = db.query("SELECT sum(v) AS total FROM s WINDOW = INTERVAL 1 SECOND", name="q")
        big = 2**63 - 1
        db.append("s", {"v": [big, 1, 0], "ts": ["2026-01-01 00:00:00"] * 2 + ["2026-01-01 00:00:01"]})
        db.catch_up()
        assert query.status == "failed"
        with pytest.raises(QueryError, match="SUM_OVERFLOW"):
            query.wait(1)
