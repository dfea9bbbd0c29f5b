"""Views on Spark: its JVM is killed, micro-batches fail and are cut anew, and each view is what its SELECT gives."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.spark.test_engine_lost import play

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


@pytest.mark.long
def test_views_go_on_after_their_jvm_was_killed_and_after_a_failure_whose_cause_is_gone(tmp_path: Path) -> None:
    play(
        """
        db = ab.open(path)
        db.sql("CREATE TABLE t (k INT PRIMARY KEY, v BIGINT)")
        db.sql("CREATE STREAM s (n BIGINT, k INT)")
        db.sql("CREATE MATERIALIZED VIEW per AS SELECT t.k, count(*) AS n, min(s.n) AS least, max(t.v) AS v "
               "FROM s JOIN t ON s.k = t.k GROUP BY t.k ACCEPT UNBOUNDED")
        db.sql("CREATE MATERIALIZED VIEW total AS SELECT count(*) AS n, sum(v) AS v FROM t")
        db.sql("CREATE MATERIALIZED VIEW of_per AS SELECT count(*) AS groups, sum(n) AS n FROM per")
        query = db.query("SELECT k, v FROM t WHERE v > 5 EMIT CHANGES", name="dear")
        views = [db.view(name) for name in ("per", "total", "of_per")]

        def check(n, v):
            for view in views:
                view.wait(300)
            query.wait(300)
            per = db.table("per").to_pylist()
            assert [(row["k"], row["n"], row["least"], row["v"]) for row in per] == [
                (k, n // 10, k, v + k) for k in range(5)
            ], per
            assert db.table("total").to_pylist() == [{"n": 5, "v": 5 * v + 10}]
            assert db.table("of_per").to_pylist() == [{"groups": 5, "n": n // 2}]
            assert query.store().to_pylist() == [{"k": k, "v": v + k} for k in range(5) if v + k > 5]

        def more(first, v):
            db.append("s", {"n": list(range(first, first + 100)), "k": [n % 10 for n in range(100)]})
            db.upsert("t", {"k": list(range(5)), "v": [v + k for k in range(5)]})

        more(0, 1)
        check(100, 1)
        kill(jvm())
        more(100, 4)
        check(200, 4)
        db.upsert("t", {"k": [7, 8], "v": [2**62, 2**62]})
        error = error_of(lambda: db.view("total").wait(300))
        assert error.name == "SUM_OVERFLOW", error
        assert db.view("total").query.status == "failed"
        db.delete("t", {"k": [7, 8]})
        db.sql("START QUERY total.changes")
        check(200, 4)
        db.close()
        """,
        str(tmp_path),
    )
