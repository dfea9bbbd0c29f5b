"""Queries that move between hosts and places of their own answer each row once, by one or the other."""

from __future__ import annotations

import datetime as dt
import itertools
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from anabranch.errors import AnabranchError, QueryError
from anabranch.operators.together.families import folded
from anabranch.testing.sparkless import SparklessDatabase
from tests.queries.test_together import BASE, STREAM, UNKIND, a_query, a_row, alone, told
from tests.sampling import SEED

PLACES = [None, "one", "two"]


@pytest.fixture
def db(tmp_path: Path) -> Iterator[SparklessDatabase]:
    with SparklessDatabase(tmp_path / "river") as db:
        db.sql(STREAM)
        yield db


def fill(db: SparklessDatabase, first: int, end: int) -> None:
    db.append("s", [{"k": i % 10, "x": float(i), "at": BASE + dt.timedelta(seconds=i)} for i in range(first, end)])


def test_a_query_moves_by_statement_and_keeps_its_numbers(db: SparklessDatabase) -> None:
    query = db.query("SELECT k, x, at FROM s WHERE k = 3", name="threes")
    db.sql("CREATE CONTINUOUS QUERY other ON HOST crowd AS SELECT x FROM s WHERE k = 4")
    reader = db.reader("threes")
    fill(db, 0, 100)
    db.catch_up()
    db.sql("ALTER QUERY threes ON HOST crowd")
    assert query.host == "crowd"
    fill(db, 100, 200)
    db.catch_up()
    assert reader.end().row == query.table().num_rows == 20
    assert reader.read(8, 12).column("x").to_pylist() == [83.0, 93.0, 103.0, 113.0]
    assert db.sql("SHOW QUERIES LIKE 'thr%'").table().column("host").to_pylist() == ["crowd"]
    db.sql("ALTER QUERY threes ON HOST another")
    fill(db, 200, 300)
    db.catch_up()
    db.sql("ALTER QUERY threes ALONE")
    fill(db, 300, 400)
    db.catch_up()
    assert db.get_query("threes").host is None
    assert repr(query) == "<Query threes: running>"
    assert query.table().column("x").to_pylist() == [3.0 + 10 * i for i in range(40)]
    assert reader.read(0, 40).equals(query.table())
    assert reader.row_at_time(int((BASE + dt.timedelta(seconds=150)).timestamp() * 1e6), 40) == 15
    assert db.catalog.hosted.hosts() == ["crowd"]
    assert db.check().fine
    db.drop_query("threes")
    db.drop_query("other")
    assert db.queries() == []
    db.sql("DROP STREAM s")


@pytest.mark.parametrize("how", UNKIND)
@pytest.mark.parametrize("round_", range(3))
def test_queries_that_move_answer_what_each_does_alone(
    tmp_path: Path, how: str, round_: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folded, "LEAST", 2)
    chance = random.Random(f"{SEED} moving {how} {round_}")
    second = itertools.count(1)
    parts: list[list[dict[str, Any]]] = []
    asked = {f"q{i}": a_query(chance) for i in range(8)}
    settings = {"batch_rows": 37, "segment_bytes": 4000, "alone_queries": 0}
    path = tmp_path / "river"
    stopped: set[str] = set()
    for process in range(4):
        with SparklessDatabase(path, settings=settings, unkindness=UNKIND[how]) as db:
            if not parts:
                db.sql(STREAM)
                for name, text in asked.items():
                    place = chance.choice(PLACES)
                    db.sql(f"CREATE CONTINUOUS QUERY {name} {f'ON HOST {place}' if place else 'ALONE'} AS {text}")
            for _ in range(4):
                parts.append([a_row(chance, next(second)) for _ in range(chance.randrange(1, 60))])
                db.append("s", parts[-1])
                if chance.random() < 0.5:
                    db.catch_up()
                for name in chance.sample(list(asked), 2):
                    if chance.random() < 0.3:
                        (db.get_query(name).start if name in stopped else db.get_query(name).stop)()
                        stopped ^= {name}
                    to = chance.choice(PLACES)
                    moves = db._queries.moves
                    if moves.is_moving(name):
                        continue
                    if chance.random() < 0.5:
                        db.move_query(name, to)
                        assert db.get_query(name).host == to
                    else:
                        moves.begin(name, to)  # and the process may end before it has arrived
                if chance.random() < 0.5:
                    db._queries.moves.go_on()
            if process == 3:
                for _ in range(6):
                    db.catch_up()
                    db._queries.moves.go_on()
                assert not list(db.catalog.hosted.leaving())
                assert not db.catalog.leaving_home()
                for name in stopped:
                    db.get_query(name).start()
                db.catch_up()
                assert {db.get_query(name).status for name in asked} == {"running"}
                assert len(db.queries()) == len(asked)
                answers = {name: told(db, name) for name in asked}
    expected = alone(tmp_path / "alone", asked, parts)
    for name, text in asked.items():
        assert answers[name] == expected[name], (name, text)


def test_rows_that_a_query_has_yet_to_read_are_kept_while_it_moves(db: SparklessDatabase) -> None:
    db.sql("CREATE CONTINUOUS QUERY first ON HOST crowd AS SELECT x FROM s WHERE k = 4")
    db.sql("CREATE CONTINUOUS QUERY sums ALONE AS SELECT sum(x) AS t FROM s WINDOW = INTERVAL 1 MINUTE")
    fill(db, 0, 90)
    db.catch_up()
    moves = db._queries.moves
    moves.begin("sums", "crowd")
    moves.go_on()
    holds = db.catalog.stream_storage("s").child("holds")
    assert {*holds.files()} == {"crowd", "sums"}
    db.catch_up()
    moves.go_on()
    assert {*holds.files()} == {"crowd"}
    needs = holds.read_json("crowd")
    assert needs["row"] <= 90
    assert needs["time"] == int((BASE + dt.timedelta(seconds=60)).timestamp() * 1e6)  # what its open window holds


def test_what_cannot_move_says_why(db: SparklessDatabase) -> None:
    db.sql("CREATE STREAM big AS SELECT * FROM s WHERE x > 1")
    with pytest.raises(QueryError, match="QUERY_CANNOT_MOVE"):
        db.sql("ALTER QUERY big ON HOST crowd")
    with pytest.raises(AnabranchError, match="QUERY_NOT_FOUND"):
        db.move_query("nobody", "crowd")
    db.sql("CREATE STREAM u (x INT, at TIMESTAMP) TIMESTAMP BY at")
    db.sql("CREATE CONTINUOUS QUERY other ON HOST crowd AS SELECT x FROM u")
    db.query("SELECT x FROM s", name="of_s")
    with pytest.raises(QueryError, match="HOST_READS_OTHERS"):
        db.move_query("of_s", "crowd")
    assert db.move_query("of_s", None).host is None


def test_one_goes_on_to_answer_every_kth_of_its_windows(db: SparklessDatabase) -> None:
    query = db.query("SELECT window_end, sum(x) AS t FROM s WINDOW = INTERVAL 10 SECONDS", name="paced")
    query.reevaluate(2, 4)
    for number, host in enumerate(("crowd", "others", None, "crowd")):
        fill(db, 100 * number, 100 * (number + 1))
        db.catch_up()
        query = db.move_query("paced", host)
    fill(db, 400, 500)
    db.catch_up()
    assert query.stats()["reevaluate"] == {"every": 2, "at_most": 4, "now": 2}
    ends = query.table().column("window_end").to_pylist()
    assert [int((end - BASE).total_seconds()) for end in ends] == list(range(20, 500, 20))


def test_one_that_moves_can_be_dropped_and_made_anew(db: SparklessDatabase) -> None:
    fill(db, 0, 50)
    for to in ("crowd", None, "crowd"):
        db.sql(f"CREATE CONTINUOUS QUERY q {'ALONE' if to else 'ON HOST another'} AS SELECT x, at FROM s WHERE k = 3")
        db.catch_up()
        db._queries.moves.begin("q", to)
        db.drop_query("q")
        assert db.queries() == []
        assert db.catalog.hosted.hosts() == []
    db.query("SELECT x FROM s WHERE k = 4", name="q")
    db.catch_up()
    assert db.get_query("q").table().column("x").to_pylist() == [4.0, 14.0, 24.0, 34.0, 44.0]


@pytest.mark.slow
def test_a_query_over_one_that_moves_goes_on(db: SparklessDatabase) -> None:
    db.query("SELECT k, x, at FROM s WHERE k < 5", name="low")
    over = db.query("SELECT count(*) AS n FROM low WINDOW = INTERVAL 10 SECONDS", name="over")
    for part, to in enumerate(("crowd", None, "another", "crowd", None)):
        fill(db, 100 * part, 100 * (part + 1))
        db.catch_up()
        db.move_query("low", to)
    fill(db, 500, 600)
    db.catch_up()
    assert over.table().column("n").to_pylist() == [5] * 59


def test_a_query_that_answers_fewer_windows_does_so_wherever_it_goes(db: SparklessDatabase) -> None:
    query = db.query("SELECT sum(x) AS t FROM s WINDOW = INTERVAL 1 MINUTE", name="paced")
    query.reevaluate(2)
    for part, to in enumerate(("crowd", None, "another", None)):
        fill(db, 600 * part, 600 * (part + 1))
        db.catch_up()
        db.move_query("paced", to)
    fill(db, 2400, 2401)
    db.catch_up()
    assert query.table().num_rows == 20
