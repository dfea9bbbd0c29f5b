"""A MERGE JOIN asked once takes all rows there are: its streams count as ended."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from anabranch.log.offset import MAX_TIME
from anabranch.operators.merge.operator import Merge
from anabranch.sql import plan_once
from anabranch.testing.sparkless import NeedsSpark, SparklessDatabase
from tests.sql.merges import select

ON = "ON within(a.x, b.x, 0.5)"


@pytest.fixture
def db(tmp_path: Path) -> Iterator[SparklessDatabase]:
    opened = SparklessDatabase(tmp_path / "db")
    with opened:
        for name, rows in (("a", ("1.0, 1", "2.0, 2", "7.0, 3")), ("b", ("7.25, 4", "1.25, 5", "4.0, 6"))):
            opened.sql(f"CREATE STREAM {name} (x DOUBLE, n INT, ts TIMESTAMP) TIMESTAMP BY ts")
            values = [f"({row}, TIMESTAMP '2026-01-01 00:00:0{second}')" for second, row in enumerate(rows)]
            opened.sql(f"INSERT INTO {name} VALUES {', '.join(values)}")
        yield opened


def answers(db: SparklessDatabase, text: str) -> list[tuple[int | None, ...]]:
    table = db.sql(text).table().drop_columns(["_time"])
    return sorted((tuple(row.values()) for row in table.to_pylist()), key=str)


def test_rows_without_a_partner_come_out_although_nothing_pushes_them(db: SparklessDatabase) -> None:
    assert answers(db, f"SELECT a.n, b.n AS m FROM a MERGE JOIN b {ON}") == [(1, 5), (3, 4)]
    assert answers(db, f"SELECT a.n, b.n AS m FROM a LEFT MERGE JOIN b {ON}") == [(1, 5), (2, None), (3, 4)]
    assert answers(db, f"SELECT a.n, b.n AS m FROM a FULL MERGE JOIN b {ON}") == [(1, 5), (2, None), (3, 4), (None, 6)]
    assert answers(db, f"SELECT a.n FROM a LEFT ANTI MERGE JOIN b {ON}") == [(2,)]


def test_nobody_waits_for_a_nearer_partner_or_a_full_step(db: SparklessDatabase) -> None:
    text = f"SELECT a.n, b.n AS m FROM a MERGE JOIN b {ON} WITH (policy = 'nearest', every = 0) WHERE b.n > 4"
    assert answers(db, text) == [(1, 5)]


def test_the_ends_of_the_streams_are_past_every_row(db: SparklessDatabase) -> None:
    plan = plan_once(select(f"SELECT a.n FROM a MERGE JOIN b {ON}"), db.catalog.schema)
    assert plan.standing is not None
    assert isinstance(plan.standing.operator, Merge)
    assert db.source_options(plan.standing.operator, ended=plan.ended).ends == {
        "a": [3, MAX_TIME, 1, 1.0],
        "b": [3, MAX_TIME, 1, 1.0],
    }
    times = {end[1] for end in db.source_options(plan.standing.operator).ends.values()}
    assert MAX_TIME not in times


def test_what_only_spark_can_do_is_left_to_it(db: SparklessDatabase) -> None:
    with pytest.raises(NeedsSpark, match="SOUNDEX"):
        db.sql(f"SELECT soundex('x') AS s FROM a MERGE JOIN b {ON}")


def test_a_frame_keeps_its_state_apart_from_that_over_streams_of_old(db: SparklessDatabase) -> None:
    plan = plan_once(select(f"SELECT a.n FROM a MERGE JOIN b {ON}"), db.catalog.schema)
    assert plan.standing is not None
    before = db.source_options(plan.standing.operator).scratch
    assert before is not None
    assert db.source_options(plan.standing.operator).scratch == before
    db.sql("DROP STREAM b")
    db.sql("CREATE STREAM b (x DOUBLE, n INT, ts TIMESTAMP) TIMESTAMP BY ts")
    assert db.source_options(plan.standing.operator).scratch != before
