"""Where an answer has no bounds it says why; and files of before are written again until it need not."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from anabranch.archive.declaration import archives_of
from anabranch.archive.estimation.estimates import Drawn, estimates, sums_of
from anabranch.archive.estimation.reasons import (
    ALIKE,
    CARRIED,
    FEW,
    GIVEN,
    KEPT_WHOLE,
    KEYS,
    UNSEEN,
    UNTOLD,
    counted,
)
from anabranch.archive.facts import Range
from anabranch.testing.sparkless import SparklessDatabase
from tests.archive.history import with_archives

BASE = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
PART = "FROM ARCHIVE s REDUCE BY uniform(0.5)"


@pytest.fixture
def db(tmp_path: Path) -> Iterator[SparklessDatabase]:
    settings = {"segment_bytes": 4_000, "archive_age_seconds": 3600.0}
    with SparklessDatabase(tmp_path / "river", settings=settings) as db:
        db.archives.close()  # archives are filled when a test says so
        db.sql("CREATE STREAM s (k INT, x DOUBLE, at TIMESTAMP) TIMESTAMP BY at")
        db.sql("CREATE ARCHIVE ON s USING randomize_then_sort OPTIONS (run_rows 400, blocks 4)")
        yield db


def fill(db: SparklessDatabase, rows: int = 400, first: int = 0) -> None:
    numbers = range(first, first + rows)
    db.append("s", [{"k": 1, "x": float(i % 50), "at": BASE + dt.timedelta(seconds=i)} for i in numbers])


@pytest.fixture
def of_before(db: SparklessDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two runs that were written before files said which rows lie far out."""
    with monkeypatch.context() as earlier:
        earlier.setattr("anabranch.archive.files._RANGES", b"another.name")
        fill(db, 800)
        db.archive("s").append()
    assert with_archives(db.history("s")).archives[0].without_facts() == 2


@pytest.mark.usefixtures("of_before")
def test_files_of_before_have_no_bounds_by_luck_and_are_written_again(
    db: SparklessDatabase, capsys: pytest.CaptureFixture[str]
) -> None:
    sql = f"SELECT count(*) AS n, sum(x) AS total, avg(x) AS mean {PART}"
    found = db.sql(sql)
    (row,) = found
    assert row["total"] > 0
    assert row["total_low"] is row["total_high"] is row["mean_low"] is None
    assert row["n_low"] == row["n_high"] == 800
    assert len(found.notices) == 2
    assert all("VACUUM ARCHIVE" in notice for notice in found.notices)
    found.show()
    assert "notice: total has no bounds: files of the archive do not say" in capsys.readouterr().out
    (told,) = db.sql(f"EXPLAIN {sql}").notices
    assert told.startswith('2 of 2 runs of archive "randomize_then_sort" do not say')
    assert db.sql(f"SELECT sum(x) AS total {PART.replace('0.5', '0.0')}").notices == ()  # all of it

    ((_, info),) = archives_of(db.catalog.stream_storage("s"))
    for left in (1, 0):
        db.archives._stop.clear()
        db.archives.look_after_all([info])
        assert with_archives(db.history("s")).archives[0].without_facts() == left
    found = db.sql(sql)
    (row,) = found
    assert row["total_low"] < row["total"] < row["total_high"]
    assert row["total_low"] <= 800 * 24.5 <= row["total_high"]
    assert found.notices == db.sql(f"EXPLAIN {sql}").notices == ()


@pytest.mark.usefixtures("of_before")
def test_a_standing_query_tells_once_why_it_has_no_bounds(db: SparklessDatabase) -> None:
    since = "SELECT sum(x) AS total FROM s SINCE TIMESTAMP '2026-01-01 00:00:00' REDUCE BY uniform(0.5) "
    query = db.query(since + "EMIT EVERY INTERVAL 1 MINUTE", name="q")
    fill(db, 60, first=800)
    db.catch_up()
    answers = query.table().to_pylist()
    assert len(answers) >= 13
    assert all(row["total_low"] is None for row in answers)
    (event,) = [each for each in query.events() if each["event"] == "bounds_withheld"]
    assert event["text"].startswith("no bounds of total: files of the archive do not say")
    ((why, number),) = query.stats()["bounds_withheld"].items()
    assert why.startswith("total: ")
    assert number == len(answers)


def test_values_that_are_all_equal_are_named(db: SparklessDatabase) -> None:
    fill(db)
    db.archive("s").append()
    found = db.sql(f"SELECT sum(sqrt(k)) AS roots, sum(k) AS total {PART}")
    (row,) = found
    assert row["roots_low"] is None
    assert row["total_low"] is not None
    (notice,) = found.notices
    assert notice.startswith("roots has no bounds: all values that were read are equal")


def why(values: list[float], read: int = 1000, **more: Any) -> list[int]:
    """Why groups of one value each have no bounds of sum and avg, of `read` rows one in ten of all."""
    rows = np.arange(0, read * 10, 10)[: len(values)]
    value = pa.array(values)
    groups = more.pop("groups", [])
    drawn = Drawn(0, read * 10, 0.1, **more)
    sums = sums_of(pa.table({"_row": rows}), drawn, groups, [value, value], None, ["sum", "avg"])
    found = estimates(sums, ["sum", "avg"])
    withheld = [int(each[0]) for each in found.withheld]
    assert [low[0].is_valid for _, low, _ in found.columns] == [each == GIVEN for each in withheld]
    return withheld


def test_each_reason_is_that_of_its_case() -> None:
    usual = [math.sin(i) for i in range(1000)]
    assert why(usual) == [GIVEN, GIVEN]
    assert why(usual, told=False) == [UNTOLD, UNTOLD]
    assert why([1.0] * 1000) == [ALIKE, ALIKE]
    assert why([*usual[:-1], 1e9]) == [CARRIED, CARRIED]
    assert why([5.0]) == [ALIKE, FEW]
    far = np.arange(1000) == 0
    assert why(usual, far=far, groups=[pa.array(np.where(far, "a", "b"))]) == [FEW, FEW]
    keys = np.arange(1000, dtype=np.uint64) + 1
    assert why(usual, by=np.minimum(keys, 3)) == [KEYS, KEYS]
    ranges = [Range(-1e6, 1e6)] * 2
    assert why(usual, by=keys, ranges=ranges) == [KEPT_WHOLE, KEPT_WHOLE]


def test_rows_of_which_none_was_read_are_named() -> None:
    value = pa.array([math.sin(i) for i in range(1000)])
    some = sums_of(pa.table({"_row": np.arange(0, 10_000, 10)}), Drawn(0, 10_000, 0.1), [], [value], None)
    none = sums_of(pa.table({"_row": np.zeros(0, np.int64)}), Drawn(10**6, 2 * 10**6, 1e-9), [], [value[:0]], None)
    found = estimates(some + none, ["sum"])
    assert found.withheld[0].tolist() == [UNSEEN]
    assert found.columns[0][1].null_count == 1


def test_every_reason_has_words() -> None:
    every = np.arange(8, dtype=np.int8)
    assert len(counted(every)) == 7
    assert sum(counted(every).values()) == 7
