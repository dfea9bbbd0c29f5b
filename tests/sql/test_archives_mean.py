"""What queries about the past answer is what they say, computed row by row in Python."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from anabranch.testing.sparkless import SparklessDatabase

BEGIN = dt.datetime(2026, 11, 1, tzinfo=dt.UTC)
DAY, HOUR = dt.timedelta(days=1), dt.timedelta(hours=1)


class Car(NamedTuple):
    plate: str
    exit: int
    speed: float
    at: dt.datetime


CARS = [Car(f"p{i % 5}", i % 2, float(i), BEGIN + (i // 4) * DAY + (i % 4) * HOUR) for i in range(60)]


@pytest.fixture
def db(tmp_path: Path) -> Iterator[SparklessDatabase]:
    database = SparklessDatabase(tmp_path / "db")
    with database:
        database.sql("CREATE STREAM cars (plate STRING, exit INT, speed DOUBLE, at TIMESTAMP) TIMESTAMP BY at")
        database.sql("CREATE ARCHIVE ON cars USING randomize_then_sort OPTIONS (blocks 4)")
        database.append("cars", [car._asdict() for car in CARS])
        yield database


def answers(db: SparklessDatabase, select: str) -> list[dict[str, Any]]:
    db.sql(f"CREATE CONTINUOUS QUERY q AS {select}")
    db.catch_up()
    found: list[dict[str, Any]] = db.get_query("q").table().to_pylist()
    return found


def partners(car: Car, portion: int) -> int:
    near = (car.at - portion * DAY - 2 * HOUR, car.at - portion * DAY + 2 * HOUR)
    return sum(one.plate == car.plate and near[0] <= one.at <= near[1] and one.speed > 3 for one in CARS)


JOIN = "FROM cars c JOIN ARCHIVE cars h LAST 2 INTERVAL 1 DAY WITHIN INTERVAL 2 HOURS"
ON = "ON c.plate = h.plate AND h.speed > 3"


def test_aggregates_since_a_time(db: SparklessDatabase) -> None:
    found = answers(
        db,
        "SELECT exit AS way, count(*) AS n, sum(speed) AS s, max(plate) AS p FROM cars c SINCE TIMESTAMP '2026-11-03' "
        "UNTIL DATE '2026-11-12' WHERE c.speed <> 11 GROUP BY exit EMIT EVERY INTERVAL 1 DAY",
    )
    expected = []
    for day in range(3, 12):
        end = BEGIN + day * DAY
        for way in (0, 1):
            group = [c for c in CARS if c.exit == way and BEGIN + 2 * DAY <= c.at < end and c.speed != 11]
            totals = {"n": len(group), "s": sum(c.speed for c in group), "p": max(c.plate for c in group)}
            expected.append({"way": way, **totals, "_time": end})
    assert found == expected


def test_what_is_computed_from_aggregates_since_a_time(db: SparklessDatabase) -> None:
    """The increase of Query 1: what came in at one exit less what left at the other, once that is worth telling."""
    found = answers(
        db,
        "SELECT count(*) FILTER (WHERE exit = 0) - count_if(exit = 1) AS more, sum(speed) / count(*) AS v, "
        "'cars' AS what FROM cars SINCE TIMESTAMP '2026-11-03' HAVING sum(speed) FILTER (WHERE exit = 0) > 300 "
        "EMIT EVERY INTERVAL 7 HOURS",
    )
    expected = []
    period, zero = 7 * HOUR, dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    end = zero + ((BEGIN + 2 * DAY - zero) // period + 1) * period
    while end <= CARS[-1].at:
        since = [c for c in CARS if BEGIN + 2 * DAY <= c.at < end]
        some_are_new = any(c.at >= end - period for c in since)
        if some_are_new and sum(c.speed for c in since if c.exit == 0) > 300:
            more = sum(c.exit == 0 for c in since) - sum(c.exit == 1 for c in since)
            mean = pytest.approx(sum(c.speed for c in since) / len(since))
            expected.append({"more": more, "v": mean, "what": "cars", "_time": end})
        end += period
    assert {row["more"] for row in expected} == {0, 1}
    assert 0 < len(expected) < (CARS[-1].at - CARS[8].at) // period
    assert found == expected


@pytest.mark.parametrize("match", ["EACH", "ANY"])
def test_rows_that_were_seen_before(db: SparklessDatabase, match: str) -> None:
    found = answers(db, f"SELECT c.plate AS p, at, _portions, _matches {JOIN} IN {match} {ON} WHERE exit = 1")
    expected = []
    for car in CARS:
        seen = [partners(car, portion) for portion in (1, 2)]
        if car.exit == 1 and (all if match == "EACH" else any)(seen):
            portions = sum(count > 0 for count in seen)
            expected.append({"p": car.plate, "at": car.at, "_portions": portions, "_matches": sum(seen)})
    assert expected
    assert found == expected


def test_aggregates_of_rows_that_were_seen_before(db: SparklessDatabase) -> None:
    found = answers(
        db,
        f"SELECT window_end AS day, exit, count(*) AS n, sum(_matches) AS s, sum(_matches) / count(*) AS each {JOIN} "
        f"IN ANY {ON} GROUP BY exit HAVING s > 2 OR exit = 1 EMIT EVERY INTERVAL 1 DAY",
    )
    totals: dict[tuple[dt.datetime, int], list[int]] = defaultdict(lambda: [0, 0])
    for car in CARS:
        seen = partners(car, 1) + partners(car, 2)
        end = BEGIN + ((car.at - BEGIN) // DAY + 1) * DAY
        if seen and end <= CARS[-1].at:
            totals[end, car.exit][0] += 1
            totals[end, car.exit][1] += seen
    assert found == [
        {"day": day, "exit": way, "n": n, "s": s, "each": s / n}
        for (day, way), (n, s) in sorted(totals.items())
        if s > 2 or way == 1
    ]
    assert 0 < len(found) < len(totals)


def test_a_question_that_leaves_nothing_out_is_exact(db: SparklessDatabase) -> None:
    found = db.sql(
        "SELECT exit AS way, count(*) AS n, avg(speed) AS v FROM ARCHIVE cars BETWEEN TIMESTAMP '2026-11-02' AND "
        "TIMESTAMP '2026-11-04 01:00:00' REDUCE BY uniform(0) WHERE speed > 4 GROUP BY exit ORDER BY v DESC LIMIT 1"
    ).table()
    inside = [c for c in CARS if BEGIN + DAY <= c.at <= BEGIN + 3 * DAY + HOUR and c.speed > 4]
    means = {way: [c.speed for c in inside if c.exit == way] for way in (0, 1)}
    way, speeds = max(means.items(), key=lambda each: sum(each[1]) / len(each[1]))
    (row,) = found.to_pylist()
    mean = pytest.approx(sum(speeds) / len(speeds))
    assert row == {
        "way": way, "n": len(speeds), "n_low": len(speeds), "n_high": len(speeds), "v": mean, "v_low": mean,
        "v_high": mean, "_fraction": 1.0,
    }  # fmt: skip
