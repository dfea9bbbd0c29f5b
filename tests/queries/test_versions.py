"""Tables, views and Stores as they were, at a version and at a time, and answers over nothing. Without Spark."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from anabranch.errors import AnabranchError
from anabranch.operators.live import forget_all
from anabranch.operators.tree import remembered
from anabranch.queries.checkpoint import begin_afresh
from anabranch.sql.reading.points_in_time import shown
from anabranch.tables import keeping
from anabranch.tables.versions import newest_version
from anabranch.testing.clock import ManualClock
from anabranch.testing.sparkless import SparklessDatabase
from tests.sampling import sampled

SMALL = {"segment_bytes": 2000, "segment_parts": 2}
Rows = list[dict[str, Any]]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock("2026-01-01")


@pytest.fixture
def db(tmp_path: Path, clock: ManualClock) -> Iterator[SparklessDatabase]:
    with SparklessDatabase(tmp_path / "db", settings=SMALL, clock=clock) as database:
        database.sql("CREATE TABLE t (k INT PRIMARY KEY, v BIGINT)")
        database.sql("CREATE MATERIALIZED VIEW odd AS SELECT k, v FROM t WHERE v % 2 = 1")
        database.sql("CREATE MATERIALIZED VIEW twice AS SELECT v % 3 AS v FROM t")
        database.query("SELECT v % 2 AS half, count(*) AS n FROM t GROUP BY v % 2 EMIT CHANGES", name="halves")
        yield database


def rows(db: SparklessDatabase, select: str) -> Rows:
    found: Rows = db.sql(select).table().to_pylist()
    return found


def change(db: SparklessDatabase, chance: random.Random) -> None:
    keys = chance.sample(range(9), 3)
    if chance.random() < 0.3:
        db.delete("t", {"k": keys})
    else:
        db.upsert("t", {"k": keys, "v": [chance.randrange(7) for _ in keys]})


@pytest.mark.slow
@pytest.mark.parametrize("seed", sampled(range(20), 3, "versions"))
def test_what_was_at_each_version_and_time_is_read_again(
    db: SparklessDatabase, clock: ManualClock, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In any order, by SQL and by handles, with snapshots on the way."""
    monkeypatch.setattr(keeping, "_LEAST_TAIL", 20)
    chance = random.Random(seed)
    was: dict[str, dict[int, Rows]] = {"t": {}, "odd": {}, "twice": {}, "halves.store": {}}
    at: dict[int, Rows] = {}
    for _ in range(40):
        change(db, chance)
        db.catch_up()
        db._queries.look_after()
        versions = {name: db.view(name).version for name in ("odd", "twice")}
        versions["t"] = db.table_writer("t").state().version
        versions["halves.store"] = newest_version(db.reader("halves"))
        for name, version in versions.items():
            was[name][version] = rows(db, f"SELECT * FROM {name}")
        at[clock.now_us()] = was["t"][versions["t"]]
        clock.advance(chance.randint(1, 3))
    for name, known in was.items():
        for version in chance.sample([*known], min(12, len(known))):
            assert rows(db, f"SELECT * FROM {name} VERSION AS OF {version}") == known[version], (name, version)
            handle = {"t": db.table_writer("t").state_at_version(version).table.to_pylist()} if name == "t" else {}
            assert handle.get(name, known[version]) == known[version]
    for version in chance.sample([*was["odd"]], 5):
        assert db.view("odd").table(version).to_pylist() == was["odd"][version]
        assert db.table("odd", version).to_pylist() == was["odd"][version]
    for version in chance.sample([*was["t"]], 5):
        assert db.table("t", version).to_pylist() == was["t"][version]
    for version, known_rows in was["halves.store"].items():
        assert sorted(db.get_query("halves").store(version).to_pylist(), key=str) == sorted(known_rows, key=str)
    for time, known_rows in at.items():
        assert rows(db, f"SELECT * FROM t FOR SYSTEM_TIME AS OF {shown(time)}") == known_rows


def test_between_two_versions_the_earlier_one_holds(db: SparklessDatabase) -> None:
    """A view has those alone at which its micro-batches end."""
    db.catch_up()
    db.upsert("t", {"k": [1, 2, 3], "v": [1, 2, 3]})
    db.catch_up()
    first = db.view("odd").version
    db.upsert("t", {"k": [1, 2, 4], "v": [5, 7, 9]})
    db.catch_up()
    newest = db.view("odd").version
    assert newest > first + 1
    assert db.view("odd").table(newest - 1).to_pylist() == [{"k": 1, "v": 1}, {"k": 3, "v": 3}]
    assert db.view("odd").table(first - 1).num_rows == 0


@pytest.mark.slow
def test_a_version_that_was_let_go_is_an_error_that_says_which_is_the_oldest(
    tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeping, "_LEAST_TAIL", 20)
    monkeypatch.setattr(remembered, "_LEAST_BETWEEN", 30)
    with SparklessDatabase(tmp_path / "other", settings=SMALL, clock=clock) as db:
        db.sql("CREATE TABLE t (k INT PRIMARY KEY, v BIGINT) RETAIN INTERVAL 5 SECONDS")
        db.sql("CREATE MATERIALIZED VIEW all_of_it RETAIN INTERVAL 5 SECONDS AS SELECT k, v FROM t")
        known: dict[str, dict[int, Rows]] = {"t": {}, "all_of_it": {}}
        begin = clock.now_us()
        for n in range(300):
            db.upsert("t", {"k": [n % 5], "v": [n]})
            db.catch_up()
            db._queries.look_after()
            known["t"][n + 1] = db.table("t").to_pylist()
            known["all_of_it"][db.view("all_of_it").version] = db.table("all_of_it").to_pylist()
            clock.advance(1)
        for name, was in known.items():
            with pytest.raises(AnabranchError, match="VERSION_IS_GONE") as problem:
                db.sql(f"SELECT * FROM {name} VERSION AS OF 1")
            oldest = int(str(problem.value.hint).rsplit(" ", 1)[1])
            assert min(was) < oldest < max(was), name
            for version, then in was.items():
                if version >= oldest:
                    assert rows(db, f"SELECT * FROM {name} VERSION AS OF {version}") == then
                    assert db.table(name, version).to_pylist() == then
                else:
                    with pytest.raises(AnabranchError, match=f"the oldest version there is is {oldest}"):
                        db.table(name, version)
        with pytest.raises(AnabranchError, match="VERSION_IS_GONE"):
            db.sql(f"SELECT * FROM t FOR SYSTEM_TIME AS OF {shown(begin)}")
        assert rows(db, f"SELECT * FROM t FOR SYSTEM_TIME AS OF {shown(clock.now_us())}") == known["t"][300]


def test_what_has_not_come_yet_is_an_error(db: SparklessDatabase) -> None:
    db.upsert("t", {"k": [1], "v": [1]})
    db.catch_up()
    for name in ("t", "odd", "twice", "halves.store"):
        with pytest.raises(AnabranchError, match="VERSION_NOT_REACHED"):
            db.sql(f"SELECT * FROM {name} VERSION AS OF 1000")
        with pytest.raises(AnabranchError, match="VERSION_NOT_REACHED"):
            db.sql(f"SELECT * FROM {name} FOR SYSTEM_TIME AS OF TIMESTAMP '2026-01-01 00:00:01'")
    with pytest.raises(AnabranchError, match="QUERY_HAS_NO_VERSIONS"):
        db.query("SELECT k, v FROM t.changes", name="plain").store(1)


def test_an_old_version_is_written_back(db: SparklessDatabase) -> None:
    db.upsert("t", {"k": [1, 2], "v": [1, 2]})
    db.sql("DELETE FROM t")
    db.sql("INSERT INTO t SELECT k, v FROM t VERSION AS OF 1")
    assert db.table("t").to_pylist() == [{"k": 1, "v": 1}, {"k": 2, "v": 2}]


# -- over nothing ------------------------------------------------------------------------------------


def changes_of(db: SparklessDatabase, stream: str) -> list[tuple[str, int, int]]:
    read = db.reader(stream)
    found = read.read(0, read.end().row).to_pylist()
    return [(row["_change"], row["n"], row["_version"]) for row in found]


NOTHING = [("insert", 0, 0)]


@pytest.mark.parametrize("lost", ["nothing", "memory", "checkpoint", "scratch"])
def test_over_nothing_a_view_answers_once_whatever_is_lost(tmp_path: Path, lost: str) -> None:
    def again() -> SparklessDatabase:
        if lost == "memory":
            forget_all()
        return SparklessDatabase(tmp_path / "db", settings=SMALL)

    with again() as db:
        db.sql("CREATE STREAM s (v BIGINT)")
        db.sql("CREATE MATERIALIZED VIEW one AS SELECT count(*) AS n FROM s ACCEPT UNBOUNDED")
        db.sql("CREATE MATERIALIZED VIEW two AS SELECT sum(n) AS n FROM one")
        db.sql(
            "CREATE MATERIALIZED VIEW both AS SELECT count(*) AS n FROM s UNION ALL SELECT n FROM one ACCEPT UNBOUNDED"
        )
        db.catch_up()
        assert changes_of(db, "one.changes") == NOTHING
    for _ in range(3):
        with again() as db:
            db.catch_up()
            assert changes_of(db, "one.changes") == NOTHING
            assert db.table("two").to_pylist() == [{"n": 0}]
            assert db.table("both").to_pylist() == [{"n": 0}, {"n": 0}]
            for query in db.queries():
                query.halt()
                if lost == "checkpoint":
                    begin_afresh(query._member.storage, query.place()[0])
                if lost == "scratch":
                    forget_all()
                    query._member.storage.child("scratch").delete_all()
    with again() as db:
        db.append("s", {"v": [1, 2, 3]})
        db.catch_up()
        assert changes_of(db, "one.changes")[0] == NOTHING[0]
        assert db.table("one").to_pylist() == [{"n": 3}]
        assert db.table("two").to_pylist() == [{"n": 3}]
        assert db.table("both").to_pylist() == [{"n": 3}, {"n": 3}]


def test_where_there_is_something_there_is_no_answer_over_nothing(tmp_path: Path) -> None:
    """What is there when a view is made is in its first answer."""
    with SparklessDatabase(tmp_path / "db", settings=SMALL) as db:
        db.sql("CREATE STREAM s (v BIGINT)")
        db.append("s", {"v": [1, 2]})
        db.sql("CREATE MATERIALIZED VIEW one AS SELECT count(*) AS n FROM s ACCEPT UNBOUNDED")
        db.catch_up()
        assert changes_of(db, "one.changes") == [("insert", 2, 2)]


def test_a_view_that_has_no_row_over_nothing_says_nothing(tmp_path: Path) -> None:
    with SparklessDatabase(tmp_path / "db", settings=SMALL) as db:
        db.sql("CREATE STREAM s (v BIGINT)")
        db.sql("CREATE MATERIALIZED VIEW some AS SELECT v, count(*) AS n FROM s GROUP BY v ACCEPT UNBOUNDED")
        view = db.view("some")
        db.catch_up()
        assert view.wait(5).table().num_rows == 0
        assert changes_of(db, "some.changes") == []
