"""What surprised the first people who used archives, and does no more."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import anabranch as ab
from anabranch.operators.base import Inputs
from anabranch.operators.history.join import HistoryJoin
from anabranch.operators.offset import Offset
from anabranch.testing.sparkless import SparklessDatabase
from tests.archive.history import with_archives

BASE = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def after(microseconds: int) -> dt.datetime:
    return BASE + dt.timedelta(microseconds=microseconds)


@pytest.fixture
def db(tmp_path: Path) -> Iterator[SparklessDatabase]:
    settings = {"segment_bytes": 4_000, "archive_age_seconds": 3600.0}
    with SparklessDatabase(tmp_path / "river", settings=settings) as db:
        db.archives.close()  # archives are filled when a test says so
        db.sql("CREATE STREAM s (k INT, x BIGINT, at TIMESTAMP) TIMESTAMP BY at RETAIN INTERVAL 5 SECONDS")
        yield db


def fill(db: ab.Database, rows: int, first: int = 0, **columns: Any) -> None:
    """Rows a tenth of a second apart."""
    times = [after(i * 100_000) for i in range(first, first + rows)]
    given = {"k": [i % 7 for i in range(rows)], "x": list(range(first, first + rows)), **columns}
    db.append("s", [{"at": time, **{name: given[name][i] for name in given}} for i, time in enumerate(times)])


def ask(db: ab.Database, sql: str) -> dict[str, Any]:
    (row,) = db.sql(sql).table().to_pylist()
    return dict(row)


def refused(name: str, db: ab.Database, sql: str) -> str:
    with pytest.raises(ab.AnabranchError) as found:
        db.sql(sql)
    assert found.value.name == name
    return f"{found.value.message} {found.value.hint}"


def test_a_stream_that_is_refused_to_be_dropped_keeps_its_archive(db: SparklessDatabase) -> None:
    db.sql("CREATE ARCHIVE ON s USING plain")
    fill(db, 300)
    db.archive("s").append()
    db.query("SELECT x, at FROM s", name="reads")
    refused("STREAM_IS_USED", db, "DROP STREAM s")
    assert db.reader("s").first_row() == 0
    assert db.describe_archive("s")["rows"] == 300
    db.sql("DROP QUERY reads; DROP STREAM s")
    assert db.archives.infos() == []


@pytest.mark.slow
def test_a_key_with_half_of_all_rows_that_was_not_read_leaves_no_bounds(db: SparklessDatabase) -> None:
    missed = 0
    for seed in range(8):
        db.sql(f"CREATE STREAM t{seed} (k INT, x INT, at TIMESTAMP) TIMESTAMP BY at")
        db.sql(f"CREATE ARCHIVE ON t{seed} USING plain OPTIONS (seed {seed})")
        half = [{"k": None, "x": 15, "at": after(i)} for i in range(2000)]
        db.append(f"t{seed}", half + [{"k": i, "x": 10, "at": after(2000 + i)} for i in range(2000)])
        db.archive(f"t{seed}").append()
        row = ask(db, f"SELECT avg(x) AS a, count(k) AS c FROM ARCHIVE t{seed} REDUCE BY by_key(k, 0.5)")
        missed += row["a_low"] is None
        assert row["a_low"] is None or row["a_low"] <= 12.5 <= row["a_high"]
        assert row["c_low"] <= 2000
        assert row["c_high"] is None or row["c_high"] >= 2000
        met = ask(db, f"SELECT avg(x) AS a FROM ARCHIVE t{seed} REDUCE BY by_key(k, 0.9) WITH ERROR 2 PERCENT")
        assert not met["_met"] or met["a_low"] <= 12.5 <= met["a_high"]
    assert missed == 8


def test_the_column_of_row_numbers_is_reserved(db: SparklessDatabase) -> None:
    refused("COLUMN_RESERVED", db, "ALTER STREAM s ADD COLUMN _ROW INT")
    refused("COLUMN_RESERVED", db, "CREATE STREAM t (_row INT, at TIMESTAMP) TIMESTAMP BY at")


def test_all_ways_to_ask_an_archive_agree_after_keep(db: SparklessDatabase) -> None:
    db.sql("CREATE STREAM t (k INT, x BIGINT, at TIMESTAMP) TIMESTAMP BY at")  # the log keeps all
    db.sql("CREATE ARCHIVE ON t USING plain KEEP INTERVAL 10 SECONDS OPTIONS (run_rows 50)")
    db.append("t", [{"k": 1, "x": i, "at": after(i * 100_000)} for i in range(300)])
    db.archive("t").append()
    assert db.archive("t").let_go() > 0
    for reducer in ("uniform(0)", "every(INTERVAL 1 MINUTE)", "by_key(k, 0)"):
        assert ask(db, f"SELECT count(*) AS n FROM ARCHIVE t REDUCE BY {reducer}")["n"] == 300
    assert with_archives(db.reader("t")).read_sample(0, 300, ["x"], 1.0).num_rows == 300


def test_summaries_survive_a_new_column(db: SparklessDatabase) -> None:
    db.sql("CREATE ARCHIVE ON s USING plain; CREATE ARCHIVE w ON s USING windowed_aggregation EVERY INTERVAL 1 MINUTE")
    fill(db, 1500)
    db.catch_up()
    db.sql("ALTER STREAM s ADD COLUMN y INT")
    fill(db, 10, 1500, y=list(range(10)))
    db.catch_up()
    assert ask(db, "SELECT count(*) AS n FROM ARCHIVE s REDUCE BY every(INTERVAL 1 MINUTE)")["n"] == 1510
    row = ask(db, "SELECT sum(y) AS y, count(y) AS c FROM ARCHIVE s REDUCE BY every(INTERVAL 1 MINUTE)")
    assert (row["y"], row["c"]) == (45, 10)


def test_an_archive_of_summaries_can_be_asked_by_its_name(db: SparklessDatabase) -> None:
    db.sql("CREATE ARCHIVE ON s USING plain; CREATE ARCHIVE w ON s USING windowed_aggregation EVERY INTERVAL 1 SECOND")
    fill(db, 1500)
    db.catch_up()
    row = ask(db, "SELECT count(*) AS n FROM ARCHIVE w ON s REDUCE BY every(INTERVAL 1 SECOND)")
    assert row["n"] == 1500
    assert row["_fraction"] < 1  # from what the standing query wrote: nobody has asked before
    said = refused("ARCHIVE_NOT_FOUND", db, "SELECT count(*) AS n FROM ARCHIVE w ON s REDUCE BY uniform(0.5)")
    assert '"w" holds summaries of windows, not rows ask it with REDUCE BY every(INTERVAL …)' in said


def test_summaries_tell_large_whole_numbers_exactly(db: SparklessDatabase) -> None:
    db.sql("CREATE ARCHIVE ON s USING plain")
    fill(db, 2, x=[2**53 + 1, 2**53 + 3])
    row = ask(db, "SELECT min(x) AS a, max(x) AS b FROM ARCHIVE s REDUCE BY every(INTERVAL 1 MINUTE)")
    assert (row["a"], row["b"], row["b_high"]) == (2**53 + 1, 2**53 + 3, 2**53 + 3)


def test_the_query_behind_summaries_goes_with_its_archive(db: SparklessDatabase) -> None:
    db.sql("CREATE ARCHIVE w ON s USING windowed_aggregation EVERY INTERVAL 1 MINUTE")
    assert "DROP ARCHIVE w ON s" in refused("STREAM_IS_USED", db, "DROP QUERY `s.w`")
    db.sql("DROP ARCHIVE w ON s")
    assert db.queries() == []
    assert "neither KEEP nor OPTIONS" in refused(
        "ARCHIVE_OPTION_INVALID",
        db,
        "CREATE ARCHIVE w ON s USING windowed_aggregation EVERY INTERVAL 1 MINUTE KEEP INTERVAL 1 DAY",
    )


def test_an_archiver_of_a_dropped_archive_writes_nothing(db: SparklessDatabase) -> None:
    db.sql("CREATE ARCHIVE ON s USING plain")
    old = db.archive("s")
    db.sql("DROP ARCHIVE s; CREATE ARCHIVE ON s USING plain")
    fill(db, 10)
    with pytest.raises(ab.AnabranchError, match="was dropped"):
        old.append()
    assert db.archive("s").append() == 10


def test_an_archive_that_a_query_reads_is_not_dropped(db: SparklessDatabase) -> None:
    db.sql("CREATE ARCHIVE ON s USING plain")
    fill(db, 300)
    db.archive("s").append()
    db.query(
        "SELECT count(*) AS n FROM s SINCE TIMESTAMP '2026-01-01 00:00:00' EMIT EVERY INTERVAL 10 SECONDS", name="n"
    )
    assert "DROP QUERY n" in refused("STREAM_IS_USED", db, "DROP ARCHIVE s")
    db.sql("CREATE ARCHIVE other ON s USING plain; DROP ARCHIVE plain ON s")  # another holds the rows as well
    db.catch_up()
    assert db.get_query("n").table().column("n").to_pylist()[:2] == [100, 200]


def test_a_query_that_begins_where_rows_are_gone_says_so(db: SparklessDatabase) -> None:
    for first in range(0, 3000, 100):
        fill(db, 100, first)
    assert db.reader("s").first_row() > 0
    since = "SELECT count(*) AS n FROM s SINCE TIMESTAMP '2026-01-01 00:00:00' EMIT EVERY INTERVAL 1 MINUTE"
    (event,) = db.query(since, name="late").events()
    assert event["event"] == "history_begins_late"


def test_rows_found_in_part_of_history_say_which_part(db: SparklessDatabase) -> None:
    db.sql("CREATE ARCHIVE ON s USING randomize_then_sort BY k")
    join = "FROM s c JOIN ARCHIVE s h LAST 1 INTERVAL 10 SECONDS WITHIN INTERVAL 2 SECONDS {} ON c.k = h.k"
    some = db.query("SELECT c.k, c.at " + join.format("REDUCE BY by_key(k, 0.5)"), name="some")
    all_of_them = db.query("SELECT c.k, c.at " + join.format(""), name="all_of_them")
    fill(db, 300, k=[i % 100 for i in range(300)])  # so many keys that neither all nor none are kept
    db.catch_up()
    assert set(some.table().column("_fraction").to_pylist()) == {0.5}
    assert "_fraction" not in all_of_them.table().column_names
    assert 0 < some.table().num_rows < all_of_them.table().num_rows


def test_live_rows_need_not_come_up_to_the_log_of_history(db: SparklessDatabase) -> None:
    """Their history is archived long since; they once waited until they were as late as the oldest row of its log."""
    db.sql("CREATE STREAM live (k INT, at TIMESTAMP) TIMESTAMP BY at; CREATE ARCHIVE ON s USING plain")
    for first in range(0, 3000, 100):
        fill(db, 100, first)
    db.archive("s").append(all_rows=True)
    for first in range(3000, 3500, 100):  # as they come, the log lets go what is archived
        fill(db, 100, first)
    past, live = db.history("s"), db.reader("live")
    first = past.first_logged_row()
    assert first > 0
    join = HistoryJoin("live", "c", "s", (("k", "k"),), 10_000_000, 1, 2_000_000, "each", (("at", "at"),), "at")
    begin = join.beginning(Inputs({"live": live, "s": past}))
    assert begin["s"][:2] == (first, past.read(first - 1, first, ["at"]).column(0)[0].value)
    assert begin["live"] == Offset(0)


def test_slices_of_one_run_are_read_once(db: SparklessDatabase) -> None:
    db.sql("CREATE ARCHIVE ON s USING randomize_then_sort BY k OPTIONS (seed 1)")
    fill(db, 600)
    db.archive("s").append(all_rows=True)
    reader = with_archives(db.history("s"))
    first = reader.read_sample(0, 100, ["x"], 0.5, "k")
    before = reader.archive_bytes_read
    assert before > 0
    second, less = reader.read_sample(100, 300, ["x"], 0.5, "k"), reader.read_sample(0, 100, ["x"], 0.2, "k")
    assert reader.archive_bytes_read == before
    assert 0 < second.num_rows < 200
    assert set(less.column("_row").to_pylist()) < set(first.column("_row").to_pylist())
    reader.read_sample(0, 100, ["x"], 0.9, "k")
    assert reader.archive_bytes_read > before, "more than was read before must be read"
