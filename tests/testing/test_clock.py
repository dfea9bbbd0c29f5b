"""The manual clock: it moves only when told."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

from anabranch.database import Database
from anabranch.testing import ManualClock


def test_clock_is_set_and_advanced() -> None:
    clock = ManualClock()
    assert clock.now_us() == 0
    clock.set("2026-01-01 01:00:00+01:00")
    assert clock.now_us() == 1_767_225_600_000_000
    clock.advance(0.5)
    clock.advance(dt.timedelta(microseconds=1))
    assert clock.now_us() == 1_767_225_600_500_001
    clock.set(dt.datetime(1969, 12, 31, 23, 59, 59, tzinfo=dt.UTC))
    assert clock.now_us() == -1_000_000


def test_a_database_takes_its_time_from_it(tmp_path: Path) -> None:
    clock = ManualClock("2026-01-01 00:00:00")
    with Database(tmp_path / "db", clock=clock, queries=False) as db:
        db.sql("CREATE STREAM s (v INT)")
        db.append("s", [{"v": 1}])
        clock.advance(60)
        db.append("s", [{"v": 2}])
        times = db.tail("s").column("_time").to_pylist()
    assert times[1] - times[0] == dt.timedelta(minutes=1)
