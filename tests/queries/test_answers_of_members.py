"""The answers of a host's members are streams like any other: kept for a while, going on in silence, archived."""

from __future__ import annotations

import datetime as dt
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from anabranch.cli.top import Speeds
from anabranch.errors import AnabranchError, StreamError
from anabranch.log import Storage
from anabranch.log.segment import Segment
from anabranch.queries import host_upkeep
from anabranch.queries.check import check_database
from anabranch.testing import ManualClock
from anabranch.testing.sparkless import SparklessDatabase
from tests.sampling import sampled

if TYPE_CHECKING:
    from anabranch.connectors.base import Reader

BASE = dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC)
SETTINGS = {"segment_bytes": 20_000, "segment_parts": 4}
STREAM = "CREATE STREAM s (k INT, x DOUBLE, at TIMESTAMP) TIMESTAMP BY at"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock("2026-03-01 12:00:00")


@pytest.fixture
def db(tmp_path: Path, clock: ManualClock) -> Iterator[SparklessDatabase]:
    with SparklessDatabase(tmp_path / "river", settings=SETTINGS, clock=clock) as db:
        db.sql(STREAM)
        yield db


def fill(db: SparklessDatabase, first: int, end: int, step: int = 100) -> None:
    """Rows a second apart, in pieces that are answered one by one."""
    for low in range(first, end, step):
        rows = [
            {"k": i % 10, "x": float(i), "at": BASE + dt.timedelta(seconds=i)} for i in range(low, min(low + step, end))
        ]
        db.append("s", rows)
        db.catch_up()


def look(db: SparklessDatabase, times: int = 50) -> None:
    """Have everything done that is due."""
    for _ in range(times):
        db._queries.look_after()


def xs(db: SparklessDatabase, name: str) -> list[float]:
    values: list[float] = db.get_query(name).table().column("x").to_pylist()
    return values


def size_of_log(db: SparklessDatabase, host: str = "host") -> int:
    return sum(db.catalog.stream_storage(host).child("segments").files().values())


# -- RETAIN ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["ALONE", "ON HOST h"])
@pytest.mark.parametrize("order", ["{where} {retain}", "{retain} {where}"])
def test_answers_are_kept_as_long_as_was_said(db: SparklessDatabase, where: str, order: str) -> None:
    clauses = order.format(where=where, retain="RETAIN INTERVAL 10 MINUTES")
    db.sql(f"CREATE CONTINUOUS QUERY q {clauses} AS SELECT k, x, at FROM s")
    db.sql(f"CREATE CONTINUOUS QUERY all {where} AS SELECT x, at FROM s")
    fill(db, 0, 3000)
    look(db)
    reader = db.reader("q")
    first = reader.first_row()
    assert 1000 < first <= 3000 - 600
    assert reader.end().row == 3000
    assert xs(db, "q") == [float(i) for i in range(first, 3000)]
    assert xs(db, "all") == [float(i) for i in range(3000)]
    with pytest.raises(StreamError, match="ROWS_ARE_GONE") as gone:
        reader.read(first - 1, first + 5)
    assert "removed by retention" in gone.value.message
    assert reader.row_at_time(int(BASE.timestamp() * 1e6), 3000) == first
    assert "kept 600 s" in {row["column"]: row["note"] for row in db.sql("DESCRIBE STREAM q")}["at"]
    assert {row["property"]: row["value"] for row in db.sql("DESCRIBE QUERY q")}["retain"] == "600 s"
    assert {row["stream"]: row["note"] for row in db.sql("SHOW STREAMS")}["q"] == "kept 600 s"
    assert db.check().fine


def test_a_stream_of_answers_is_kept_as_long_as_was_said(db: SparklessDatabase) -> None:
    db.sql("CREATE STREAM recent RETAIN INTERVAL 10 MINUTES AS SELECT x, at FROM s")
    fill(db, 0, 2000)
    assert 500 < db.reader("recent").first_row() <= 1400


def test_what_others_need_of_a_member_is_kept(db: SparklessDatabase) -> None:
    db.create_queries({"q": "SELECT k, x, at FROM s", "more": "SELECT x FROM s"}, retain_us=60_000_000)
    over = db.query("SELECT sum(x) AS total, window_end FROM q WINDOW = INTERVAL 20 MINUTES", name="over")
    fill(db, 0, 500)
    over.stop()
    fill(db, 500, 3000)
    look(db)
    assert db.reader("more").first_row() > 2000
    assert db.reader("q").first_row() == 0
    over.start()
    fill(db, 3000, 3400)
    look(db)
    assert db.reader("q").first_row() > 1200
    totals = [sum(range(low, low + 1200)) for low in (0, 1200)]
    assert over.table().column("total").to_pylist() == [float(total) for total in totals]


@pytest.mark.parametrize("first", ["crowd", None])
def test_a_query_that_moves_keeps_its_answers_as_long_as_was_said(db: SparklessDatabase, first: str | None) -> None:
    where = "ALONE" if first is None else f"ON HOST {first}"
    db.sql(f"CREATE CONTINUOUS QUERY q {where} RETAIN INTERVAL 10 MINUTES AS SELECT x, at FROM s")
    db.sql("CREATE CONTINUOUS QUERY other ON HOST crowd AS SELECT x, at FROM s WHERE k = 1")
    kept = db.reader("q")
    places = [None, "crowd", "another", None, "crowd"]
    at = begins = 0
    for to in places:
        for more in (100, 1500):  # it moves with answers of before that are kept, and when all of them are old
            fill(db, at, at := at + more)
            look(db, 10)
            before = db.reader("q").first_row()
            db.move_query("q", to)
            assert db.reader("q").first_row() == before >= begins
            fill(db, at, at := at + 100)
            look(db, 10)
            for reader in (db.reader("q"), kept):
                reader.refresh()
                begins = reader.first_row()
                assert at - 1700 <= begins <= max(at - 600, 0) or begins == 0
                assert reader.read(begins, at).column("x").to_pylist() == [float(i) for i in range(begins, at)]
                assert reader.end().row == at
            assert db.catalog.stream("q").retain_us == 600_000_000
            assert db.check().fine
    assert begins > at - 1700
    assert xs(db, "other") == [float(i) for i in range(1, at, 10)]


def test_numbers_go_on_when_everything_else_is_lost(tmp_path: Path) -> None:
    with SparklessDatabase(tmp_path / "river", settings=SETTINGS) as db:
        db.sql(STREAM)
        db.create_queries({"short": "SELECT x, at FROM s WHERE x < 4000"}, retain_us=60_000_000)
        db.create_queries({"rare": "SELECT x, at FROM s WHERE x % 1500 = 0"}, retain_us=60_000_000)
        fill(db, 0, 3000)
        look(db)
        assert db.catalog.stream_storage("host").exists("kept.json")
        firsts = {name: db.reader(name).first_row() for name in ("short", "rare")}
        assert firsts["short"] > 2000
        assert firsts["rare"] == 1
    for name in ("numbers.json", "progress.json"):
        (tmp_path / "river" / "queries" / "host" / name).unlink(missing_ok=True)
    with SparklessDatabase(tmp_path / "river", settings=SETTINGS) as db:
        fill(db, 3000, 3100)
        assert {name: db.reader(name).first_row() for name in firsts} == firsts
        assert db.reader("short").end().row == 3100
        assert xs(db, "rare") == [1500.0, 3000.0]


# -- space -------------------------------------------------------------------------------------------


def test_dropped_members_give_their_space_back(db: SparklessDatabase) -> None:
    db.create_queries({f"q{k}": f"SELECT k, x, at FROM s WHERE k = {k}" for k in range(10)})
    fill(db, 0, 4000)
    before = size_of_log(db)
    rows = db.reader("host").end().row
    answers = {f"q{k}": xs(db, f"q{k}") for k in (8, 9)}
    followed = db.reader("q8")
    for k in range(8):
        db.drop_query(f"q{k}")
    db.catch_up()
    look(db)
    assert size_of_log(db) < before / 2
    assert db.reader("host").end().row == rows
    assert {name: xs(db, name) for name in answers} == answers
    assert followed.read(0, 400).column("x").to_pylist() == answers["q8"]
    assert db.check().fine
    fill(db, 4000, 4100)
    assert xs(db, "q9") == [float(i) for i in range(9, 4100, 10)]
    db.create_queries({"q1": "SELECT k, x, at FROM s WHERE k = 1"})
    db.catch_up()
    assert xs(db, "q1") == [float(i) for i in range(1, 4100, 10)]


def test_nothing_is_rewritten_where_it_does_not_pay(db: SparklessDatabase) -> None:
    db.create_queries({f"q{k}": f"SELECT k, x, at FROM s WHERE k = {k}" for k in range(10)})
    fill(db, 0, 2000)
    look(db)
    before = db.catalog.stream_storage("host").child("segments").files()
    db.drop_query("q1")
    look(db)
    assert db.catalog.stream_storage("host").child("segments").files() == before


def test_a_log_of_which_nothing_is_left_at_its_beginning_begins_later(db: SparklessDatabase) -> None:
    db.create_queries({"early": "SELECT x, at FROM s"})
    fill(db, 0, 2000)
    db.create_queries({"late": "SELECT x, at FROM s WHERE x >= 1900"})
    db.catch_up()
    db.drop_query("early")
    fill(db, 2000, 2400)
    look(db)
    log = db.reader("host")
    assert log.first_row() > 0
    assert xs(db, "late") == [float(i) for i in range(1900, 2400)]
    assert sum(batch.num_rows for batch in _followed(db, 500)) == 500


def _followed(db: SparklessDatabase, rows: int) -> Iterator[Any]:
    """All that there is to follow of a host, from its first row on."""
    for _, batch in db.follow_host(start=0):
        yield batch
        rows -= batch.num_rows
        if rows <= 0:
            return


@pytest.mark.parametrize("round_", sampled(range(4), 1, "rewritten"))
def test_members_read_the_same_whatever_is_rewritten_meanwhile(tmp_path: Path, round_: int) -> None:
    chance = random.Random(f"rewritten {round_}")
    with SparklessDatabase(tmp_path / "river", settings=SETTINGS | {"segment_bytes": 6000}) as db:
        db.sql(STREAM)
        there: dict[str, int] = {}
        readers: dict[str, Reader] = {}
        made = second = 0
        for _ in range(25):
            new = {f"q{made + i}": chance.randrange(10) for i in range(chance.randrange(0, 4))}
            made += len(new)
            if new:
                retain = 120_000_000 if chance.random() < 0.3 else None
                texts = {name: f"SELECT x, at FROM s WHERE k = {k}" for name, k in new.items()}
                db.create_queries(texts, retain_us=retain)
                there |= new
            fill(db, second, second := second + chance.randrange(50, 200), step=50)
            for name in chance.sample(sorted(there), min(len(there), 2)):
                if chance.random() < 0.4 and len(there) > 2:
                    db.drop_query(name)
                    del there[name]
                    readers.pop(name, None)
                else:
                    readers[name] = db.reader(name)  # that saw the log before it is rewritten
            db.catch_up()
            look(db, 8)
            for name, reader in [*readers.items(), *((name, db.reader(name)) for name in there)]:
                expected = [float(i) for i in range(second) if i % 10 == there[name]]
                first, end = reader.first_row(), reader.end().row
                assert end == len(expected), name
                assert reader.read(first, end).column("x").to_pylist() == expected[first:], name
                assert first == 0 or db.catalog.stream(name).retain_us is not None
        assert db.check().fine


@pytest.mark.parametrize("lost", sampled([0, 2, -2, -1], 2, "lost"))
def test_what_is_lost_of_a_log_that_was_rewritten_is_computed_again(tmp_path: Path, lost: int) -> None:
    path = tmp_path / "river"
    asked = {f"q{k}": f"SELECT x, at FROM s WHERE k = {k}" for k in range(10)}
    with SparklessDatabase(path, settings=SETTINGS) as db:
        db.sql(STREAM)
        db.create_queries(dict(list(asked.items())[:5]), retain_us=300_000_000)
        db.create_queries(dict(list(asked.items())[5:]))
        fill(db, 0, 2000, step=50)
        for k in (5, 6, 7, 8):
            db.drop_query(f"q{k}")
        fill(db, 2000, 2500, step=50)
        look(db)
        firsts = {f"q{k}": db.reader(f"q{k}").first_row() for k in range(5)}
        assert min(firsts.values()) > 100
    segments = sorted((path / "streams" / "host" / "segments").iterdir())
    assert len(segments) > 4
    segments[lost].unlink()
    if lost != -1:  # what is lost at the end is computed again by itself
        assert check_database(Storage(str(path)), repair=True).repaired
    with SparklessDatabase(path, settings=SETTINGS) as db:
        fill(db, 2500, 3000)
        look(db)
        assert db.check().fine
        for k in (0, 1, 2, 3, 4, 9):
            reader = db.reader(f"q{k}")
            expected = [float(i) for i in range(k, 3000, 10)]
            assert reader.end().row == len(expected)
            assert xs(db, f"q{k}") == expected[reader.first_row() :]
            assert reader.first_row() >= firsts.get(f"q{k}", 0)
        assert db.reader("q9").first_row() == 0


def test_answers_that_are_all_lost_have_their_numbers_again(tmp_path: Path) -> None:
    path = tmp_path / "river"
    asked = {"alone": "ALONE", "hosted": "ON HOST host"}
    with SparklessDatabase(path, settings=SETTINGS) as db:
        db.sql(STREAM)
        for name, where in asked.items():
            db.sql(f"CREATE CONTINUOUS QUERY {name} {where} RETAIN INTERVAL 1 MINUTE AS SELECT x, at FROM s")
        fill(db, 0, 2000, step=50)
        look(db)
        firsts = {name: db.reader(name).first_row() for name in asked}
        assert min(firsts.values()) > 1000
        assert db.reader("host").first_row() > 0
        open_all_along = db.reader("hosted")
    for name in ("alone", "host"):
        shutil.rmtree(path / "streams" / name / "segments")
    for _ in range(2):
        with SparklessDatabase(path, settings=SETTINGS) as db:
            db.catch_up()
            for name, first in firsts.items():
                reader = db.reader(name)
                assert reader.first_row() <= first
                assert reader.end().row == 2000
                assert xs(db, name) == [float(i) for i in range(reader.first_row(), 2000)]
            first = firsts["hosted"]
            assert open_all_along.read(first, 2000).column("x").to_pylist() == xs(db, "hosted")


def test_numbers_go_on_where_all_before_was_let_go_and_all_after_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "river"
    with SparklessDatabase(path, settings=SETTINGS) as db:
        db.sql(STREAM)
        asked = {"short": "SELECT x, at FROM s", "rare": "SELECT x, at FROM s WHERE x IN (0, 1990)"}
        db.create_queries(asked, retain_us=60_000_000)
        fill(db, 0, 2000, step=50)
        look(db)
        assert db.reader("rare").first_row() == 1
        assert db.reader("host").first_row() > 0
        log = db.reader("host").end().row
    (path / "queries" / "host" / "numbers.json").unlink(missing_ok=True)
    for file in (path / "streams" / "host" / "segments").iterdir():
        segment = Segment.named(file.name)
        if segment is not None and segment.end == log:
            file.unlink()
    with SparklessDatabase(path, settings=SETTINGS) as db:
        db.catch_up()
        assert db.reader("rare").end().row == 2
        assert db.reader("rare").read(1, 2).column("x").to_pylist() == [1990.0]
        assert db.reader("short").end().row == 2000


# -- time --------------------------------------------------------------------------------------------


def test_windows_over_a_member_close_in_silence(db: SparklessDatabase, clock: ManualClock) -> None:
    db.sql("CREATE STREAM l (x INT)")
    db.create_queries({"m": "SELECT x FROM l", "n": "SELECT count(*) AS n FROM l WINDOW = INTERVAL 1 MINUTE"})
    over = db.query("SELECT count(*) AS n FROM m WINDOW = INTERVAL 1 MINUTE", name="over")
    sums = db.query("SELECT sum(n) AS n FROM n WINDOW = INTERVAL 10 MINUTES", name="sums")
    db.create_queries({"hosted": "SELECT count(*) AS n FROM m WINDOW = INTERVAL 2 MINUTES"}, host="other")
    db.append("l", [{"x": 1}])
    db.catch_up()
    assert over.table().num_rows == 0
    clock.advance(60)
    db.catch_up()
    assert over.table().column("n").to_pylist() == [1]
    clock.advance(60)
    db.catch_up()
    assert db.get_query("hosted").table().column("n").to_pylist() == [1]
    assert sums.table().num_rows == 0
    clock.advance(600)
    db.catch_up()
    assert sums.table().column("n").to_pylist() == [1]


def test_windows_over_a_member_close_after_a_silence(db: SparklessDatabase, clock: ManualClock) -> None:
    db.sql("CREATE STREAM i (x INT, ts TIMESTAMP) TIMESTAMP BY ts IDLE AFTER INTERVAL 30 SECONDS")
    db.create_queries({"m": "SELECT x, ts FROM i"})
    over = db.query("SELECT count(*) AS n FROM m WINDOW = INTERVAL 1 MINUTE", name="over")
    db.create_queries({"hosted": "SELECT count(*) AS n FROM m WINDOW = INTERVAL 1 MINUTE"}, host="other")
    db.append("i", [{"x": 1, "ts": "2026-03-01 12:00:10"}])
    db.catch_up()
    clock.advance(29)
    db.catch_up()
    assert over.table().num_rows == 0
    clock.advance(60)
    db.catch_up()
    assert over.table().column("n").to_pylist() == [1]
    assert db.get_query("hosted").table().column("n").to_pylist() == [1]


def test_a_member_has_come_as_far_in_time_as_if_it_stood_alone(tmp_path: Path) -> None:
    asked = {
        "rows": "SELECT x, at FROM s WHERE k = 3",
        "none": "SELECT x, at FROM s WHERE k = 99",
        "windows": "SELECT count(*) AS n FROM s WINDOW = INTERVAL 7 MINUTES SLIDE INTERVAL 1 MINUTE",
        "few": "SELECT sum(x) AS t FROM s WHERE k = 98 WINDOW = INTERVAL 5 MINUTES",
    }
    with SparklessDatabase(tmp_path / "a") as alone, SparklessDatabase(tmp_path / "b") as hosted:
        alone.settings.change(alone_queries=0)
        for db in (alone, hosted):
            db.sql(STREAM)
        for name, text in asked.items():
            alone.query(text, name=name)
        hosted.create_queries(asked)
        for first in range(0, 1000, 170):
            for db in (alone, hosted):
                fill(db, first, first + 170)
            ends = {name: alone.reader(name).end() for name in asked}
            assert {name: hosted.reader(name).end() for name in asked} == ends
    with SparklessDatabase(tmp_path / "b") as hosted:
        assert {name: hosted.reader(name).end() for name in asked} == ends


def test_one_that_is_stopped_or_fails_stays_where_it_is_in_time(db: SparklessDatabase) -> None:
    db.create_queries(
        {
            "stopped": "SELECT x, at FROM s WHERE k = 99",
            "sums": "SELECT window_end, sum(CAST(x AS BIGINT) + 9223372036854770000) AS t FROM s "
            "WHERE x > 1000 WINDOW = INTERVAL 10 SECONDS",
            "runs": "SELECT x, at FROM s WHERE k = 99",
        }
    )
    fill(db, 0, 500)
    db.get_query("stopped").stop()
    db.catch_up()
    stopped, sums = (db.reader(name).end() for name in ("stopped", "sums"))
    (running,) = db._local._running
    assert stopped.time == int((BASE + dt.timedelta(seconds=499)).timestamp() * 1e6)
    db.append("s", [{"k": 1, "x": float(i), "at": BASE + dt.timedelta(seconds=i)} for i in range(500, 1500)])
    assert running.step()
    assert db.get_query("sums").status == "failed"
    assert db.reader("sums").end().time == sums.time  # also before the list is read that says so
    db.catch_up()
    assert db.reader("sums").end().time == sums.time
    assert db.reader("stopped").end() == stopped
    assert db.reader("runs").end().time == int((BASE + dt.timedelta(seconds=1499)).timestamp() * 1e6)
    db.get_query("stopped").start()
    db.catch_up()
    assert db.reader("stopped").end() == db.reader("runs").end()


# -- archives ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", ["plain", "randomize_then_sort", "on_write_replicate"])
def test_answers_of_a_member_are_archived_before_they_go(db: SparklessDatabase, layout: str) -> None:
    db.create_queries({"q": "SELECT k, x, at FROM s", "other": "SELECT x FROM s"}, retain_us=60_000_000)
    fill(db, 0, 1000)
    look(db)
    begin = db.reader("q").first_row()
    assert begin > 0
    by = " BY k" if layout == "randomize_then_sort" else ""
    db.sql(f"CREATE ARCHIVE past ON q USING {layout}{by}")
    archive = db.archive("q", "past")
    archive.append()
    fill(db, 1000, 2000)
    look(db)
    logged = db.reader("q").first_logged_row()
    assert begin <= logged <= 1000  # what is not archived yet is not let go
    assert db.reader("other").first_row() > 1500
    archive.append()
    fill(db, 2000, 2500)
    look(db)
    reader = db.reader("q")
    assert reader.first_logged_row() > 1000
    assert reader.first_row() == begin
    assert reader.end().row == 2500
    assert xs(db, "q")[-500:] == [float(i) for i in range(2000, 2500)]
    whole = reader.read(begin, 2500).column("x").to_pylist()
    assert whole == [float(i) for i in range(begin, 2500)]
    (asked,) = db.sql("SELECT sum(x) AS total FROM ARCHIVE q WITH ERROR 5 PERCENT CONFIDENCE 95 PERCENT")
    assert asked["total_low"] <= sum(range(begin, 2500)) <= asked["total_high"]
    assert db.describe_archive("q")["rows_waiting"] == 500
    assert db.check().fine
    db.drop_query("q")
    assert db.archives.infos() == []


def test_a_query_over_the_past_of_a_member(db: SparklessDatabase) -> None:
    db.create_queries({"q": "SELECT k, x, at FROM s"}, retain_us=60_000_000)
    db.sql("CREATE ARCHIVE ON q USING plain")
    db.settings.change(alone_queries=0)
    fill(db, 0, 2000)
    db.archive("q").append()
    fill(db, 2000, 2100)
    look(db)
    assert db.reader("q").first_logged_row() > 500
    since = db.query(
        "SELECT sum(x) AS total FROM q SINCE TIMESTAMP '2026-03-01 12:00:00' EMIT EVERY INTERVAL 10 MINUTES", name="t"
    )
    db.catch_up()
    assert since.table().column("total").to_pylist()[-1] == float(sum(range(1800)))


# -- the list of members -----------------------------------------------------------------------------


def test_members_that_were_dropped_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_upkeep, "_FORGET_FROM", 8)
    path = tmp_path / "river"
    with SparklessDatabase(path, settings=SETTINGS) as db:
        db.sql(STREAM)
        db.create_queries({"stays": "SELECT x, at FROM s"})
        for turn in range(40):
            names = [f"q{turn}_{i}" for i in range(4)]
            db.create_queries(dict.fromkeys(names, f"SELECT x, at FROM s WHERE k = {turn % 10}"))
            fill(db, 10 * turn, 10 * (turn + 1))
            db.get_query(names[0]).stop()
            for name in names[turn == 20 :]:
                db.drop_query(name)
            db.catch_up()
            look(db, 3)
        listing = db.reader("host.members")
        said = listing.read(listing.first_row(), listing.end().row).column("change")
        assert listing.end().row == 1 + 40 * 9 - 1
        assert len(said) - said.null_count < 120
        assert len(db.catalog.hosted.roster("host").entries) < 50
        assert db.check().fine
    with SparklessDatabase(path, settings=SETTINGS) as db:
        fill(db, 400, 500)
        assert xs(db, "stays") == [float(i) for i in range(500)]
        assert [query.name for query in db.queries()] == ["q20_0", "stays"]
        db.get_query("q20_0").start()
        db.catch_up()
        assert xs(db, "q20_0") == [float(i) for i in range(0, 500, 10)]


def test_lists_and_logs_of_hosts_are_shown_to_who_asks_for_them(db: SparklessDatabase) -> None:
    db.create_queries({"q": "SELECT x FROM s"}, host="watchers")
    assert [row["stream"] for row in db.sql("SHOW STREAMS")] == ["q", "s"]
    shown = [row["stream"] for row in db.sql("SHOW STREAMS LIKE 'watch%'")]
    assert shown == ["watchers", "watchers.members"]
    assert len(db.sql("DESCRIBE STREAM `watchers.members`")) == 5
    assert [s["name"] for s in Speeds().added_to(db.overview(), 0.0)["streams"]] == ["s"]


def test_retain_is_said_once(db: SparklessDatabase) -> None:
    for clauses in ("RETAIN INTERVAL 1 DAY ALONE RETAIN INTERVAL 1 DAY", "RETAIN 5"):
        with pytest.raises(AnabranchError):
            db.sql(f"CREATE CONTINUOUS QUERY q {clauses} AS SELECT x FROM s")
