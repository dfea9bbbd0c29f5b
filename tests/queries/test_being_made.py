"""A query that is being made belongs to its maker, though others can see it already."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from anabranch.errors import AnabranchError
from anabranch.queries import Query
from anabranch.testing.sparkless import SparklessDatabase

SELECT = "SELECT n FROM s"


def test_a_process_that_opens_meanwhile_leaves_it_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare, seen = Query.prepare, []
    with contextlib.ExitStack() as others, SparklessDatabase(tmp_path) as db:
        db.sql("CREATE STREAM s (n BIGINT)")

        def others_come_first(query: Query) -> None:
            other = others.enter_context(SparklessDatabase(tmp_path))
            seen.extend([query.status, other.get_query("q").status])
            with pytest.raises(AnabranchError, match="QUERY_RUNS_ELSEWHERE"):
                other.get_query("q").start()
            prepare(query)

        monkeypatch.setattr(Query, "prepare", others_come_first)
        query = db.query(SELECT, name="q")
        assert seen == ["starting", "elsewhere"]
        assert query.status == "running"
        db.append("s", {"n": [1, 2]})
        db.catch_up()
        assert query.table()["n"].to_pylist() == [1, 2]


def test_what_could_not_be_made_leaves_the_name_to_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(query: Query) -> None:
        raise OSError("no space left on device")

    with (
        SparklessDatabase(tmp_path) as db,
        SparklessDatabase(tmp_path) as other,
    ):
        db.sql("CREATE STREAM s (n BIGINT)")
        for target, step in ((db.catalog, "save_query"), (Query, "prepare")):
            with monkeypatch.context() as patch:
                patch.setattr(target, step, full)
                with pytest.raises(OSError, match="no space"):
                    db.query(SELECT, name="q")
        assert other.query(SELECT, name="q").status == "running"
        assert db.get_query("q").status == "elsewhere"
