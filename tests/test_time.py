"""Time that goes on by itself, and what a query says it waits for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from anabranch.errors import QueryError
from anabranch.testing import ManualClock
from anabranch.testing.sparkless import SparklessDatabase

NOON = "2026-03-01 12:00:00"
COUNT = "SELECT count(*) AS n FROM {} WINDOW = INTERVAL 1 MINUTE"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOON)


@pytest.fixture
def db(tmp_path: Path, clock: ManualClock) -> Iterator[SparklessDatabase]:
    with SparklessDatabase(tmp_path / "db", clock=clock) as database:
        yield database


def at(second: int) -> str:
    return f"2026-03-01 12:{second // 60:02d}:{second % 60:02d}"


def test_query_says_for_which_stream_it_waits_and_since_when(db: SparklessDatabase, clock: ManualClock) -> None:
    db.sql("CREATE STREAM a (x INT); CREATE STREAM b (x INT, ts TIMESTAMP) TIMESTAMP BY ts")
    query = db.query("SELECT A.x FROM a A, b B WINDOW = INTERVAL 1 HOUR WHERE A.x = B.x EMIT IN ORDER")
    assert query.waits_for() is None
    db.append("b", [{"x": 1, "ts": at(5)}])
    clock.advance(20)
    db.append("a", [{"x": 1}])
    db.catch_up()
    wanted = {"stream": "b", "until": f"{at(5)}.000001+00:00", "reached": f"{at(5)}+00:00", "since": f"{NOON}+00:00"}
    assert query.waits_for() == query.stats()["waits_for"] == wanted
    assert query.wait(1).table().num_rows == 0
    assert dict(zip(*db.sql("DESCRIBE QUERY q1").table().to_pydict().values(), strict=True))["waits_for.stream"] == "b"
    clock.advance(1)
    db.advance("b", clock.now_us())
    db.catch_up()
    assert query.table().column("x").to_pylist() == [1]
    assert query.waits_for() is None


def test_query_that_is_behind_says_what_it_waits_for(db: SparklessDatabase) -> None:
    db.sql("CREATE STREAM s (x INT, ts TIMESTAMP) TIMESTAMP BY ts")
    query = db.query(COUNT.format("s"), name="n")
    db.append("s", [{"x": 1, "ts": at(5)}])
    db.catch_up()
    db.append("s", [{"x": 1, "ts": at(6)}])
    with pytest.raises(QueryError, match=r'1 rows are still to come; it waits for stream "s" to reach .*12:01:00') as e:
        query.wait(0.1)
    assert e.value.name == "QUERY_IS_BEHIND"


def test_wait_waits_for_time_that_has_come(db: SparklessDatabase, clock: ManualClock) -> None:
    db.sql("CREATE STREAM l (x INT)")
    query = db.query(COUNT.format("l"))
    db.append("l", [{"x": 1}])
    db.catch_up()
    assert query.wait(1).waits_for() is not None  # 12:01:00 is still to come
    clock.advance(60)
    with pytest.raises(QueryError, match="did not catch up"):  # nobody runs it here
        query.wait(0.3)
    assert db.reader("l").end().time == clock.now_us()
    db.catch_up()
    query.wait(1)
    assert query.table().column("n").to_pylist() == [1]


def test_nothing_is_claimed_where_nothing_is_due(db: SparklessDatabase, clock: ManualClock) -> None:
    db.sql("CREATE STREAM l (x INT)")
    db.query(COUNT.format("l"))
    db.query("SELECT x FROM l")
    db.append("l", [{"x": 1}])
    db.catch_up()
    clock.advance(60)
    db.catch_up()
    reached = db.reader("l").end()
    for _ in range(5):
        clock.advance(3600)
        db.catch_up()
    assert db.reader("l").end() == reached


def test_rejects_go_with_the_clock(db: SparklessDatabase, clock: ManualClock) -> None:
    db.sql("CREATE STREAM s (x INT, ts TIMESTAMP) TIMESTAMP BY ts")
    db.append("s", [{"x": 1, "ts": at(50)}, {"x": 2, "ts": at(5)}])
    query = db.query("SELECT count(*) AS n FROM `s.rejects` WINDOW = INTERVAL 1 MINUTE")
    db.catch_up()
    clock.advance(61)
    db.catch_up()
    assert query.table().column("n").to_pylist() == [1]


def test_answers_since_a_time_are_told_in_silence_once(db: SparklessDatabase, clock: ManualClock) -> None:
    db.sql("CREATE STREAM l (x INT)")
    query = db.query(f"SELECT sum(x) AS total FROM l SINCE TIMESTAMP '{NOON}' EMIT EVERY INTERVAL 10 SECONDS")
    clock.advance(1)
    db.append("l", [{"x": 7}])
    db.catch_up()
    for _ in range(3):
        clock.advance(10)
        db.catch_up()
    assert query.table().column("total").to_pylist() == [7]
    assert query.due() == {}  # however long that lasts
    db.append("l", [{"x": 1}])
    db.catch_up()
    assert query.store().column("total").to_pylist() == [7]
    clock.advance(10)
    db.catch_up()
    assert query.table().column("total").to_pylist() == [7, 8]
    assert query.store().column("total").to_pylist() == [8]


def test_silent_stream_that_nobody_writes_is_moved_on_by_the_query(tmp_path: Path, clock: ManualClock) -> None:
    with SparklessDatabase(tmp_path / "db", clock=clock) as db:
        db.sql("CREATE STREAM s (x INT, ts TIMESTAMP) TIMESTAMP BY ts IDLE AFTER INTERVAL 30 SECONDS")
        db.query(COUNT.format("s"), name="n")
        db.append("s", [{"x": 1, "ts": at(40)}])
        db.catch_up()
    with SparklessDatabase(tmp_path / "db", clock=clock) as again:
        query = again.get_query("n")
        clock.advance(29)
        again.catch_up()
        assert query.table().num_rows == 0
        clock.advance(1)  # silence counts from the last arrival, not from the opening
        again.catch_up()
        assert query.table().column("n").to_pylist() == [1]


def test_silent_stream_that_another_process_writes_is_moved_on_there(tmp_path: Path, clock: ManualClock) -> None:
    with (
        SparklessDatabase(tmp_path / "db", clock=clock) as db,
        SparklessDatabase(tmp_path / "db", clock=clock, settings={}) as writer,
    ):
        db.sql("CREATE STREAM s (x INT, ts TIMESTAMP) TIMESTAMP BY ts IDLE AFTER INTERVAL 30 SECONDS")
        query = db.query(COUNT.format("s"), name="n")
        writer.append("s", [{"x": 1, "ts": at(40)}])
        db.catch_up()
        clock.advance(31)
        db.catch_up()
        assert query.table().num_rows == 0
        writer._time.serve(writer._writers.all())  # its thread does so every second
        db.catch_up()
        assert query.table().column("n").to_pylist() == [1]
        waits = tmp_path / "db" / "streams" / "s" / "waits"
        assert list(waits.iterdir()) == []


def test_stream_without_a_row_goes_where_it_is_wanted(db: SparklessDatabase, clock: ManualClock) -> None:
    db.sql("CREATE STREAM a (x INT, ts TIMESTAMP) TIMESTAMP BY ts")
    db.sql("CREATE STREAM b (x INT, ts TIMESTAMP) TIMESTAMP BY ts IDLE AFTER INTERVAL 30 SECONDS")
    query = db.query("SELECT x FROM a WINDOW = INTERVAL 1 MINUTE EXCEPT ALL SELECT x FROM b WINDOW = INTERVAL 1 MINUTE")
    db.append("a", [{"x": 1, "ts": at(40)}, {"x": 2, "ts": at(70)}])
    db.catch_up()
    waits = query.waits_for()
    assert waits is not None
    assert (waits["stream"], waits["reached"]) == ("b", None)
    clock.advance(29)
    db.catch_up()
    assert query.table().num_rows == 0
    clock.advance(1)
    db.catch_up()
    assert query.table().column("x").to_pylist() == [1]


def test_query_that_cannot_say_what_it_waits_for_holds_up_no_other(
    db: SparklessDatabase, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    db.sql("CREATE STREAM l (x INT); CREATE STREAM r (x INT)")
    broken, query = db.query(COUNT.format("l"), name="a"), db.query(COUNT.format("r"), name="b")
    for name in "lr":
        db.append(name, [{"x": 1}])
    db.catch_up()

    def fails() -> NoReturn:
        raise KeyError("nothing")

    monkeypatch.setattr(broken, "due", fails)
    clock.advance(60)
    db._time.keep([broken, query])
    assert db.reader("r").end().time == clock.now_us()


def test_clock_that_was_ahead_is_told(db: SparklessDatabase, clock: ManualClock) -> None:
    db.sql("CREATE STREAM l (x INT)")
    clock.advance(86_400)
    db.append("l", [{"x": 1}])
    clock.advance(-86_380)
    note = db.sql("DESCRIBE l").table().column("note").to_pylist()[1]
    assert note == "time, stamped on arrival, 23:59:40 ahead of the clock"
    assert db.sql("SHOW STREAMS").table().column("note").to_pylist() == ["23:59:40 ahead of the clock"]
    db.append("l", [{"x": 2}])
    assert (db.reader("l").end().row, db.catalog.stream_storage("l").exists("rejects")) == (2, False)


def test_explain_says_what_brings_time(db: SparklessDatabase) -> None:
    db.sql("CREATE STREAM l (x INT); CREATE STREAM s (x INT, ts TIMESTAMP) TIMESTAMP BY ts")
    db.sql(
        "CREATE STREAM t (x INT, ts TIMESTAMP) TIMESTAMP BY ts "
        "ALLOW SKEW INTERVAL 1 SECOND IDLE AFTER INTERVAL 5 SECONDS"
    )

    def delay(stream: str) -> str:
        text = db.query(COUNT.format(stream)).explain()
        return text[text.index("a row is in the answer") :].splitlines()[0]

    assert delay("l") == "a row is in the answer at most 60 s after its time"
    assert delay("s") == "a row is in the answer at most 60 s after its time, once a later row or a heartbeat has come"
    assert delay("t") == (
        "a row is in the answer at most 61 s after its time, of which 1 s are for late rows, "
        "once a later row or a heartbeat has come, or 5 s of silence are over"
    )
