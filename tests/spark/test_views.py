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


@pytest.mark.long
def test_what_is_asked_anew_goes_on_after_its_jvm_was_killed_and_can_be_stopped_meanwhile(tmp_path: Path) -> None:
    play(
        """
        db = ab.open(path)
        db.sql("CREATE TABLE t (k INT PRIMARY KEY, v BIGINT, x DOUBLE)")
        db.sql("CREATE STREAM s (n BIGINT, k INT)")
        db.sql("CREATE MATERIALIZED VIEW per AS SELECT initcap(concat('k', t.k)) AS k, count(*) AS n, sum(t.x) AS x "
               "FROM s JOIN t ON s.k = t.k GROUP BY initcap(concat('k', t.k)) ACCEPT UNBOUNDED")
        db.sql("CREATE MATERIALIZED VIEW total AS SELECT soundex('a') AS a, sum(v) AS v FROM t")
        db.sql("CREATE MATERIALIZED VIEW of_per AS SELECT count(*) AS groups, sum(n) AS n FROM per")
        views = [db.view(name) for name in ("per", "total", "of_per")]

        def check(n, v):
            for view in views:
                view.wait(300)
            per = [(row["k"], row["n"]) for row in db.table("per").to_pylist()]
            assert per == [(f"K{k}", n // 10) for k in range(5)], per
            assert db.table("total").column("v").to_pylist() == [5 * v + 10]
            assert db.table("of_per").to_pylist() == [{"groups": 5, "n": n // 2}]

        def more(first, v):
            db.append("s", {"n": list(range(first, first + 100)), "k": [n % 10 for n in range(100)]})
            db.upsert("t", {"k": list(range(5)), "v": [v + k for k in range(5)], "x": [0.1 + k / 7 for k in range(5)]})

        more(0, 1)
        check(100, 1)
        kill(jvm())
        more(100, 4)
        check(200, 4)

        # A row of one group leaves the sums of the others as they are, to the last bit.
        end = db.reader("per.changes").end().row
        db.append("s", {"n": [200], "k": [3]})
        db.view("per").wait(300)
        changes = db.reader("per.changes").read(end, db.reader("per.changes").end().row).to_pylist()
        assert {row["k"] for row in changes} == {"K3"}, changes
        assert [row["n"] for row in changes] == [20, 21]

        db.upsert("t", {"k": [7, 8], "v": [2**62, 2**62]})
        error = error_of(lambda: db.view("total").wait(300))
        assert error.name == "SUM_OVERFLOW", error
        assert db.table("total").column("v").to_pylist() == [30]
        (shown,) = [row for row in db.sql("SHOW VIEWS") if row["view"] == "total"]
        assert shown["status"] == "failed" and "does not fit" in shown["note"], shown
        db.delete("t", {"k": [7, 8]})
        db.sql("START QUERY total.changes")
        db.view("total").wait(300)

        # It is stopped while Spark computes for hours.
        db.append("s", rows(1000) | {"k": [None] * 1000})
        db.sql("CREATE MATERIALIZED VIEW endless AS SELECT count(*) AS n FROM s a, s b, s c, s d "
               "WHERE reverse(string(a.n + b.n + c.n + d.n)) = 'never' ACCEPT UNBOUNDED")
        tracker = db.spark.sparkContext.statusTracker()
        deadline = time.monotonic() + 60
        while not tracker.getActiveJobsIds():
            assert time.monotonic() < deadline, "Spark was not asked"
            time.sleep(0.05)
        assert db.view("endless").query.status == "running"
        began = time.monotonic()
        db.sql("STOP QUERY endless.changes")
        assert time.monotonic() - began < 60
        assert db.table("endless").num_rows == 0
        db.sql("DROP VIEW endless")
        db.close()
        """,
        str(tmp_path),
    )
