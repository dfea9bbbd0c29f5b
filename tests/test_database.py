"""The parts of the Python face that need no Spark: reading on, heartbeats, settings, places."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest

import anabranch as ab
from anabranch.errors import AnabranchError

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def at(second: int) -> dt.datetime:
    return START + dt.timedelta(seconds=second)


def open_with(place: Path, declared: str) -> ab.Database:
    database = ab.open(place / "river", queries=False)
    database.sql(declared)
    return database


def test_following_from_a_row_that_retention_took_is_an_error(tmp_path: Path) -> None:
    declared = (
        "CREATE STREAM s (v INT, ts TIMESTAMP) TIMESTAMP BY ts RETAIN INTERVAL 10 SECONDS OPTIONS (segment_parts '1')"
    )
    with open_with(tmp_path, declared) as db:
        for n in range(50):
            db.append("s", [{"v": n, "ts": at(5 * n)}])
        first = db.reader("s").first_row()
        assert first > 40
        with pytest.raises(AnabranchError, match="ROWS_ARE_GONE"):
            next(db.follow("s", 0))
        assert next(db.follow("s", first)).column("v")[0].as_py() == first


def test_following_a_stream_that_is_dropped_and_made_anew_ends_with_an_error(tmp_path: Path) -> None:
    with open_with(tmp_path, "CREATE STREAM s (v INT, ts TIMESTAMP) TIMESTAMP BY ts") as db:
        db.append("s", [{"v": n, "ts": at(n)} for n in range(3)])
        rows = db.follow("s", 0)
        assert next(rows).num_rows == 3
        db.sql("DROP STREAM s")
        db.sql("CREATE STREAM s (w INT, ts TIMESTAMP) TIMESTAMP BY ts")
        db.append("s", [{"w": n, "ts": at(n)} for n in range(6)])
        with pytest.raises(AnabranchError, match='STREAM_NOT_FOUND stream "s" was dropped'):
            next(rows)


@pytest.mark.parametrize(
    ("time", "name"),
    [(2**63, "TIME_IN_FUTURE"), (-(2**63), "TIME_IN_FUTURE"), (START.replace(year=3000), "TIME_IN_FUTURE"),
     ("2026-01-01", "TYPE_MISMATCH"), (None, "TYPE_MISMATCH"), (1.5, "TYPE_MISMATCH")],
)  # fmt: skip
def test_a_heartbeat_that_makes_no_sense_is_refused_and_harms_nothing(tmp_path: Path, time: Any, name: str) -> None:
    with open_with(tmp_path, "CREATE STREAM s (v INT, ts TIMESTAMP) TIMESTAMP BY ts") as db:
        with pytest.raises(AnabranchError) as caught:
            db.advance("s", time)
        assert caught.value.name == name
        assert db.append("s", [{"v": 1, "ts": at(1)}]) == 1


def test_rows_stamped_on_arrival_come_after_a_heartbeat(tmp_path: Path) -> None:
    with open_with(tmp_path, "CREATE STREAM s (v INT)") as db:
        ahead = dt.datetime.now(dt.UTC) + dt.timedelta(minutes=1)
        db.advance("s", ahead)
        db.append("s", [{"v": 1}])
        assert db.tail("s").column("_time").to_pylist() == [ahead]


def test_a_producer_needs_a_batch_number(tmp_path: Path) -> None:
    with open_with(tmp_path, "CREATE STREAM s (v INT)") as db:
        for wrong in ({"producer": "p"}, {"batch": 1}, {"producer": "p", "batch": "x"}):
            with pytest.raises(AnabranchError, match="BATCH_NUMBER_WANTED"):
                db.append("s", [{"v": 1}], **wrong)


def test_settings_out_of_range_and_places_that_cannot_be_are_refused(tmp_path: Path) -> None:
    wrongs: list[dict[str, Any]] = [{"batch_rows": 0}, {"parallelism": -1}, {"segment_bytes": "many"}]
    for wrong in (*wrongs, {"poll_ms": float("inf")}, {"table_directories": ("/srv",)}):
        with pytest.raises(AnabranchError, match="SETTING_TYPE_MISMATCH"):
            ab.open(tmp_path / "river", settings=wrong)
    (tmp_path / "file").write_text("x")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("x")
    for place in ("file", "full"):
        with pytest.raises(AnabranchError, match="NOT_A_DATABASE"):
            ab.open(tmp_path / place)
    with pytest.raises(AnabranchError, match="DATABASE_NOT_FOUND"):
        ab.open(tmp_path / "nowhere", create=False)
