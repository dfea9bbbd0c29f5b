"""Tables where only Spark SQL can evaluate what is asked, and in a standing query on Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import anabranch as ab

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.slow
def test_statements_with_subqueries_and_questions_over_tables_and_streams(spark: SparkSession, tmp_path: Path) -> None:
    with ab.open(tmp_path / "db", spark=spark) as db:
        db.sql("""CREATE TABLE t (k INT PRIMARY KEY, v INT, note STRING);
                  CREATE TABLE big (k INT PRIMARY KEY, v BIGINT);
                  CREATE STREAM s (k INT, n INT, ts TIMESTAMP) TIMESTAMP BY ts;
                  INSERT INTO t VALUES (1, 10, 'a'), (2, 20, 'b'), (3, 30, NULL)""")
        db.append("s", [{"k": k, "n": k * k, "ts": f"2026-01-01 00:00:0{k}"} for k in (1, 2, 4)])
        joined = db.sql(
            "SELECT t.k, count(*) AS c, max(n) AS n FROM t LEFT JOIN s ON s.k = t.k GROUP BY t.k ORDER BY t.k"
        )
        assert [tuple(row.values()) for row in joined] == [(1, 1, 1), (2, 1, 4), (3, 1, None)]
        update = "UPDATE t SET v = v + 1, note = upper(reverse(note)) WHERE k IN (SELECT k FROM s) OR v > 100"
        assert db.sql(update).message == "2 rows updated"
        assert db.sql("DELETE FROM t WHERE v = (SELECT max(v) FROM t)").message == "1 row deleted"
        assert [tuple(row.values()) for row in db.sql("SELECT * FROM t")] == [(1, 11, "A"), (2, 21, "B")]
        inserted = (
            "INSERT INTO big SELECT k, sum(v) AS v FROM (SELECT k, v FROM t UNION ALL SELECT k, n FROM s) GROUP BY k"
        )
        assert db.sql(inserted).message == "3 rows inserted"
        merge = """MERGE INTO big USING (SELECT k, count(*) AS n FROM s GROUP BY k) AS c ON big.k = c.k
                   WHEN MATCHED AND c.k = 4 THEN DELETE WHEN MATCHED THEN UPDATE SET v = big.v * 10 + c.n"""
        assert db.sql(merge).message == "2 rows updated, 1 deleted"
        assert [tuple(row.values()) for row in db.sql("SELECT * FROM big")] == [(1, 121), (2, 251)]
