"""Queries that start at once write to a map they share in the JVM: none of them may add to it."""

from __future__ import annotations

from pathlib import Path

import anabranch as ab
from anabranch.engine.options import FORMAT


def names_of_variables(db: ab.Database) -> set[str]:
    """The environment that all tasks of our source are sent with, by name."""
    sources = db.spark._jsparkSession.sessionState().dataSourceManager()
    return set(sources.lookupDataSource(FORMAT).dataSourceCls().envVars().keySet())


def test_the_start_of_a_query_adds_no_name(spark: object, tmp_path: Path) -> None:
    with ab.open(tmp_path / "river", settings={"warm_up": 0}) as db:
        db.sql("CREATE STREAM s (id BIGINT)")
        before = names_of_variables(db)
        query = db.query("SELECT id FROM s", name="q")
        db.append("s", [{"id": 1}])
        query.wait(60)
        assert names_of_variables(db) == before
        assert "SPARK_LOCAL_DIRS" not in db.spark.sparkContext.environment
