"""Views of what is joined inside a window: with streams ahead of each other, closed and opened again. Without Spark."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest

from anabranch.operators.live import forget_all
from anabranch.testing.sparkless import SparklessDatabase

BEGIN = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
VIEWS = {
    "inner": "SELECT a.k, b.n, _time FROM a JOIN b ON a.k = b.k WINDOW = INTERVAL 10 SECONDS",
    "left": "SELECT a.k, b.n, _time FROM a LEFT JOIN b ON a.k = b.k WINDOW = INTERVAL 10 SECONDS",
    "full": "SELECT a.k, b.n, _time FROM a FULL JOIN b ON a.k = b.k WINDOW(a, b) = BETWEEN 0 AND INTERVAL 5 SECONDS",
    "semi": "SELECT a.k, a.n, _time FROM a LEFT SEMI JOIN b ON a.k = b.k WINDOW = INTERVAL 10 SECONDS",
    "anti": "SELECT a.k, a.n, _time FROM a LEFT ANTI JOIN b ON a.k = b.k WINDOW = INTERVAL 10 SECONDS",
}


def rows_of(path: Path, join: str, *, restarts: bool) -> list[dict[str, Any]]:
    """The rows of a view in the end; one stream is two seconds ahead of the other."""
    db = SparklessDatabase(path)
    db.sql("CREATE STREAM a (k INT, n INT, ts TIMESTAMP) TIMESTAMP BY ts")
    db.sql("CREATE STREAM b (k INT, n INT, ts TIMESTAMP) TIMESTAMP BY ts")
    asked = f"SELECT j.k, j.n, j._time AS at FROM ({join}) j EXPIRE AFTER INTERVAL 20 SECONDS"
    db.sql(f"CREATE MATERIALIZED VIEW v AS {asked}")
    for n in range(12):
        for stream, k, second in (("a", n % 3, 3 * n + 2), ("b", n % 2, 3 * n)):
            db.append(stream, [{"k": k, "n": n, "ts": BEGIN + dt.timedelta(seconds=second)}])
            db.catch_up()
        if restarts:
            db.close()
            forget_all()
            db = SparklessDatabase(path)
    found: list[dict[str, Any]] = db.view("v").table().to_pylist()
    db.close()
    return found


@pytest.mark.parametrize("kind", VIEWS)
def test_rows_go_from_a_view_as_they_came_though_it_was_closed_between(kind: str, tmp_path: Path) -> None:
    """What it takes in again after a restart is cut otherwise: it must have the times that it had."""
    straight = rows_of(tmp_path / "straight", VIEWS[kind], restarts=False)
    assert straight
    assert rows_of(tmp_path / "closed", VIEWS[kind], restarts=True) == straight
