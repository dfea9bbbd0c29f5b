"""Streams that fall silent while those they are joined with go on."""

from __future__ import annotations

import time
from pathlib import Path

from anabranch.log.offset import MIN_TIME, End
from anabranch.queries.idle import IdleWatch
from anabranch.testing.sparkless import SparklessDatabase

GROUP = [("a", "b")]
IN_ORDER = "SELECT A.v AS one, B.v AS two FROM a A, b B WINDOW = INTERVAL 10 SECONDS WHERE A.v = B.v EMIT IN ORDER"


def test_only_what_is_silent_is_moved_and_only_to_where_the_others_are() -> None:
    watch = IdleWatch(10)
    ends = {"a": End(1, 100), "b": End(1, 50), "c": End(1, 20)}
    groups = [("a", "b", "c")]
    assert watch.silent(ends, groups, now=0) == {}
    ends |= {"a": End(2, 200), "b": End(2, 150)}
    assert watch.silent(ends, groups, now=9) == {}
    assert watch.silent(ends, groups, now=10) == {"c": 150}
    # its own heartbeat is no row
    ends["c"] = End(1, 150)
    assert watch.silent(ends, groups, now=11) == {}
    ends["c"] = End(2, 151)
    assert watch.silent(ends, groups, now=15) == {}


def test_if_all_are_silent_none_is_moved() -> None:
    watch = IdleWatch(10)
    ends = {"a": End(1, 100), "b": End(1, 50)}
    watch.silent(ends, GROUP, now=0)
    assert watch.silent(ends, GROUP, now=60) == {}


def test_a_stream_that_never_had_a_row_is_moved_too() -> None:
    watch = IdleWatch(10)
    watch.silent({"a": End(1, 100), "b": End()}, GROUP, now=0)
    assert watch.silent({"a": End(2, 120), "b": End()}, GROUP, now=11) == {"b": 120}
    watch = IdleWatch(10)
    watch.silent({"a": End(0, MIN_TIME), "b": End()}, GROUP, now=0)
    assert watch.silent({"a": End(0, MIN_TIME), "b": End()}, GROUP, now=11) == {}


def at(second: int) -> str:
    return f"2026-01-01 00:00:{second:02}"


def fill(db: SparklessDatabase) -> None:
    for name in "ab":
        db.sql(f"CREATE STREAM {name} (v INT, ts TIMESTAMP) TIMESTAMP BY ts")
    db.query(IN_ORDER, name="q")
    db.append("a", [{"v": 1, "ts": at(1)}])
    db.append("b", [{"v": 1, "ts": at(2)}])
    db.catch_up()


def test_without_a_time_out_answers_in_order_wait(tmp_path: Path) -> None:
    with SparklessDatabase(tmp_path / "db") as db:
        fill(db)
        db.append("a", [{"v": 9, "ts": at(30)}])
        db._going_on.move_silent_streams()
        db.catch_up()
        assert db.get_query("q").table().num_rows == 0
        db.append("b", [{"v": 1, "ts": at(3)}])
        db.catch_up()
        assert db.get_query("q").table().select(["one", "two"]).to_pylist() == [{"one": 1, "two": 1}]


def test_with_a_time_out_windows_go_on_and_what_comes_later_is_late(tmp_path: Path) -> None:
    with SparklessDatabase(tmp_path / "db", settings={"idle_timeout_seconds": 0.2}) as db:
        fill(db)
        db._going_on.move_silent_streams()
        time.sleep(0.25)
        db.append("a", [{"v": 9, "ts": at(30)}])
        db._going_on.move_silent_streams()
        db.catch_up()
        assert db.get_query("q").table().select(["one", "two"]).to_pylist() == [{"one": 1, "two": 1}]
        db.append("b", [{"v": 1, "ts": at(3)}, {"v": 9, "ts": at(31)}])
        db.append("a", [{"v": 0, "ts": at(59)}])
        db.append("b", [{"v": 0, "ts": at(58)}])
        db.catch_up()
        assert db.get_query("q").table().column("one").to_pylist() == [1, 9]
        rejects = db.reader("b.rejects")
        late = rejects.read(0, rejects.end().row).to_pylist()
        assert [(row["v"], row["_reason"]) for row in late] == [(1, "TIME_WENT_BACK")]
