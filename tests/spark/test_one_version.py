"""One statement reads views, tables and streams at one moment, while Spark keeps the views."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

import anabranch as ab
from anabranch.engine import cuts
from anabranch.queries import one_version


def test_what_one_statement_reads_is_of_one_moment(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every row that is written is in all of them or in none, and every read sees what was written before it."""
    monkeypatch.setattr(one_version, "SECONDS", 300.0)  # a busy machine must not fail a test
    with ab.open(tmp_path / "db", spark=spark) as db:
        db.sql("CREATE TABLE t (k INT PRIMARY KEY, v BIGINT)")
        db.sql("CREATE STREAM s (k INT, v BIGINT)")
        db.sql("CREATE MATERIALIZED VIEW total AS SELECT count(*) AS n, sum(v) AS v FROM t")
        db.sql("CREATE MATERIALIZED VIEW halves AS SELECT k % 2 AS half, sum(v) AS v FROM t GROUP BY k % 2")
        db.sql("CREATE MATERIALIZED VIEW of_halves AS SELECT sum(v) AS v FROM halves")
        db.sql("CREATE MATERIALIZED VIEW counted AS SELECT count(*) AS n FROM s ACCEPT UNBOUNDED")
        for name in ("total", "of_halves", "counted"):
            db.view(name).wait(300)
        ended, wrote = threading.Event(), [0]

        def write() -> None:
            while not ended.is_set():
                wrote[0] += 1
                db.upsert("t", {"k": [n % 7 for n in range(wrote[0], wrote[0] + 3)], "v": [wrote[0]] * 3})
                db.append("s", {"k": [wrote[0] % 7], "v": [1]})
                ended.wait(0.02)

        writer = threading.Thread(target=write)
        writer.start()
        try:
            for _ in range(4):
                before = wrote[0] - 1
                (row,) = (
                    db.sql(
                        "SELECT (SELECT sum(v) FROM t) AS of_table, (SELECT v FROM total) AS total, "
                        "(SELECT v FROM of_halves) AS of_halves, (SELECT sum(v) FROM halves) AS halves, "
                        "(SELECT max(v) FROM t) AS newest, (SELECT count(*) FROM s) AS of_stream, "
                        "(SELECT n FROM counted) AS counted"
                    )
                    .table()
                    .to_pylist()
                )
                assert row["of_table"] == row["total"] == row["halves"] == row["of_halves"], row
                assert row["of_stream"] == row["counted"], row
                assert (row["newest"] or 0) >= before, row
        finally:
            ended.set()
            writer.join()
        assert list((tmp_path / "db" / cuts.FOLDER).iterdir()) == []
        for name in ("total", "counted"):
            assert db.view(name).wait(300).query.failure is None
