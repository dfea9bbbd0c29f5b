"""A member that stays too heavy leaves its host by itself, and comes back when it is light, with all its answers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from anabranch.testing.sparkless import SparklessDatabase
from tests.queries.test_isolation import PAIRS, STREAM, alone, fill
from tests.queries.test_together import told

TEXTS = {"rows": "SELECT x, at FROM s WHERE k = 3", "pairs": PAIRS}
SETTINGS = {"member_rows": 1000, "batch_rows": 200, "heavy_seconds": 0.01, "alone_queries": 0}


@pytest.fixture
def db(tmp_path: Path) -> Iterator[SparklessDatabase]:
    with SparklessDatabase(tmp_path / "river", settings=SETTINGS) as db:
        db.sql(STREAM)
        db.create_queries(TEXTS)
        yield db


def look(db: SparklessDatabase) -> None:
    """What a process does every few seconds, with what it has seen since."""
    for _ in range(2):
        db._queries.keep_places()
        time.sleep(0.02)


def until_behind(db: SparklessDatabase) -> None:
    (running,) = db._local._running
    fill(db, 0, 600)
    for _ in range(30):
        running.step()
        db._queries._counts.clear()
        stats = db.get_query("pairs").stats()
        if stats["held_back"] and stats["behind_rows"]:
            return
    pytest.fail("it was not held back")


@pytest.mark.slow
def test_a_heavy_member_leaves_and_comes_back_when_it_is_light(db: SparklessDatabase, tmp_path: Path) -> None:
    query = db.get_query("pairs")
    until_behind(db)
    look(db)
    db._queries._balance._seconds = 1e9
    for _ in range(3):
        db.catch_up()
        db._queries.keep_places()
    assert db.get_query("pairs").host is None
    assert db.get_query("rows").host == "host"
    info = db.catalog.query("pairs")
    assert (info.came_from, info.times_left) == ("host", 1)
    db.catch_up()
    before = told(db, "pairs")
    for row in range(600, 620):
        fill(db, row, row + 1)
        db.catch_up()
    db._queries._balance._seconds = 0.01
    look(db)
    look(db)
    db.catch_up()
    db._queries.keep_places()
    assert query.host == "host"
    fill(db, 620, 640)
    db.catch_up()
    wanted = alone(tmp_path, TEXTS, (0, 600), (600, 640))
    assert {name: told(db, name) for name in TEXTS} == wanted
    assert wanted["pairs"][: len(before)] == before


def test_one_that_was_sent_away_stays_there(db: SparklessDatabase) -> None:
    db.move_query("pairs", None)
    fill(db, 0, 20)
    db.catch_up()
    for _ in range(4):
        look(db)
    assert db.get_query("pairs").host is None


def test_nothing_moves_where_it_is_not_wanted(tmp_path: Path) -> None:
    with SparklessDatabase(tmp_path / "river", settings={**SETTINGS, "heavy_seconds": 0}) as db:
        db.sql(STREAM)
        db.create_queries(TEXTS)
        until_behind(db)
        for _ in range(4):
            look(db)
        assert db.get_query("pairs").host == "host"
