"""M. A. Hammad, W. G. Aref, A. C. Catlin, M. G. Elfeky and A. K. Elmagarmid (2002). A Stream Database Server (STEAM).

Section 6.2: the window join (W-join) of many streams, with its Figure 6 and its three example queries. The
times of Figure 6 are ours, chosen so that all that the text says of it is true.
"""

from __future__ import annotations

import itertools
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from anabranch.operators.offset import Offset
from anabranch.testing import ManualClock, OperatorHarness
from anabranch.testing.sparkless import SparklessDatabase
from tests.operators.join_oracle import Condition, Join, join_of, results, told, uniform
from tests.operators.join_rows import Row, equal, rows_of, table_of

W = 10
BLACK, WHITE = 1, 0
FIGURE_6: dict[str, list[tuple[int, int]]] = {
    "a": [(2, WHITE), (20, BLACK)],
    "b": [(11, WHITE), (14, BLACK), (16, BLACK), (18, BLACK), (31, BLACK)],
    "c": [(15, BLACK), (16, WHITE), (19, BLACK)],
    "d": [(5, BLACK), (21, BLACK)],
    "e": [(10, BLACK), (22, BLACK)],
}
"""Time and colour of each tuple; those that are black satisfy the join."""
SIX = [
    ("a2", "b2", "c1", "d2", "e2"),
    ("a2", "b2", "c3", "d2", "e2"),
    ("a2", "b3", "c1", "d2", "e2"),
    ("a2", "b3", "c3", "d2", "e2"),
    ("a2", "b4", "c1", "d2", "e2"),
    ("a2", "b4", "c3", "d2", "e2"),
]


def tuples(stream: str) -> list[Row]:
    times, colours = zip(*FIGURE_6[stream], strict=True)
    return rows_of(times, i=list(colours))


def w_join() -> Join:
    """All five streams within w of each other; a tuple joins those of its own colour, and only if it is black."""

    def alike(one: str, two: str) -> Condition:
        return Condition(f"`{one}.i` = `{two}.i`", lambda rows: equal(rows[one]["i"], rows[two]["i"]))

    black = itertools.starmap(alike, itertools.pairwise("ABCDE"))
    first = Condition("`A.i` = 1", lambda rows: equal(rows["A"]["i"], BLACK))
    return join_of("abcde", uniform(5, W), [*black, first])


def names(answer: pa.Table) -> list[tuple[str, ...]]:
    return [tuple(f"{s}{n + 1}" for s, n in zip("abcde", row, strict=False)) for row in told(answer)]


def before_a2() -> OperatorHarness:
    """Figure 6 (i) just before a2: of the others, b5 has not come either."""
    harness = w_join().harness()
    harness.push("a", table_of(tuples("a")[:1]))
    harness.push("b", table_of(tuples("b")[:4]))
    for stream in "cde":
        harness.push(stream, table_of(tuples(stream)))
    assert harness.run(rows=1).num_rows == 0
    return harness


def next_tuple(harness: OperatorHarness, name: str) -> list[tuple[str, ...]]:
    stream, place = name[0], int(name[1:]) - 1
    harness.push(stream, table_of([tuples(stream)[place]]))
    return names(harness.step())


def test_figure_6_i_the_iteration_that_begins_with_a2_gives_six_tuples() -> None:
    assert next_tuple(before_a2(), "a2") == SIX


def test_figure_6_e1_is_no_candidate_since_it_is_too_far_from_d2() -> None:
    at = {f"{stream}{n + 1}": time for stream in "abcde" for n, (time, _) in enumerate(FIGURE_6[stream])}
    others = ("a2", "b2", "c1")
    assert all(abs(at[one] - at[two]) <= W for one, two in itertools.combinations([*others, "d2"], 2))
    assert all(abs(at[one] - at["e1"]) <= W for one in others)
    assert at["d2"] - at["e1"] > W
    found = next_tuple(before_a2(), "a2")
    assert (*others, "d2", "e2") in found
    assert (*others, "d2", "e1") not in found


def test_figure_6_ii_the_iteration_that_begins_with_b5_gives_nothing() -> None:
    harness = before_a2()
    next_tuple(harness, "a2")
    assert next_tuple(harness, "b5") == []
    assert names(harness.answers()) == SIX


def still_needed(harness: OperatorHarness) -> set[str]:
    """Of the tuples that were taken in, those which may still be in a result."""
    kept = set()
    for stream, floor in harness.operator.needs(harness.offsets).items():
        for number, row in enumerate(tuples(stream)[: harness.offsets[stream].row]):
            if (floor.row is not None and number >= floor.row) or (floor.time is not None and row["t"] >= floor.time):
                kept.add(f"{stream}{number + 1}")
    return kept


def test_figure_6_d1_leaves_once_it_is_far_from_the_last_tuple_of_all_other_streams() -> None:
    harness = before_a2()
    assert "d1" in still_needed(harness)
    next_tuple(harness, "a2")
    assert "d1" not in still_needed(harness)
    assert "d2" in still_needed(harness)


def test_figure_6_far_from_a_single_stream_is_not_enough_to_leave() -> None:
    """e1 is farther than w from the last tuple of D alone; b5 moves B on alone and lets nothing leave."""
    harness = before_a2()
    next_tuple(harness, "a2")
    before = still_needed(harness)
    assert "e1" in before
    next_tuple(harness, "b5")
    assert still_needed(harness) == before | {"b5"}


@pytest.mark.parametrize("seed", range(5))
def test_figure_6_whichever_tuple_comes_last(seed: int) -> None:
    """The streams in turn in any order: the six tuples come once, with the last of their five."""
    chance = random.Random(seed)
    harness = w_join().harness()
    waiting = {stream: tuples(stream) for stream in "abcde"}
    found = []
    while any(waiting.values()):
        stream = chance.choice([stream for stream, rows in waiting.items() if rows])
        row = waiting[stream].pop(0)
        harness.push(stream, table_of([row]))
        answer = names(harness.step())
        assert all(f"{stream}{row['n'] + 1}" in result for result in answer)
        found += answer
        harness.restart()
    assert sorted(found) == SIX


def test_a_stream_without_tuples_does_not_block_the_others() -> None:
    """E has nothing new while A to D go on: each new tuple is joined with what is there."""
    harness = before_a2()
    assert next_tuple(harness, "a2") == SIX
    one_more = {**tuples("c")[2], "n": 3}
    harness.push("c", table_of([one_more]))
    assert names(harness.step()) == [("a2", b, "c4", "d2", "e2") for b in ("b2", "b3", "b4")]


# -- the three queries -------------------------------------------------------------------------------

MINUTE = 60_000_000
HOUR = 60 * MINUTE
BEGIN = 1_767_225_600_000_000
"""2026-01-01 00:00:00 UTC."""
JOINED = "FROM north A, south B, east C {windows} WHERE A.GasId = B.GasId AND B.GasId = C.GasId"
WINDOWS: dict[str, tuple[str, list[tuple[int, int, int, int]]]] = {
    "uniform": ("WINDOW = INTERVAL 1 HOUR", uniform(3, HOUR)),
    "different": (
        "WINDOW(A,B) = INTERVAL 30 MINUTES AND WINDOW(B,C) = INTERVAL 1 HOUR AND WINDOW(A,C) = INTERVAL 45 MINUTES",
        [(0, 1, -30 * MINUTE, 30 * MINUTE), (1, 2, -HOUR, HOUR), (0, 2, -45 * MINUTE, 45 * MINUTE)],
    ),
    "missing": (
        "WINDOW(A,B) = INTERVAL 30 MINUTES AND WINDOW(B,C) = INTERVAL 1 HOUR",
        [(0, 1, -30 * MINUTE, 30 * MINUTE), (1, 2, -HOUR, HOUR)],
    ),
}
SENSORS = ("north", "south", "east")


def readings(seed: int, count: int = 60) -> dict[str, list[Row]]:
    """What three sensors smelt in about eight hours, hazardous or not."""
    chance = random.Random(seed)
    return {
        sensor: rows_of(
            sorted(BEGIN + chance.randrange(8 * HOUR) for _ in range(count)),
            i=[chance.choice([None, 1, 2, 3, 4, 5, 6]) for _ in range(count)],
        )
        for sensor in SENSORS
    }


def sensed(rows: list[Row]) -> pa.Table:
    """Readings as a sensor writes them."""
    return pa.table(
        {
            "n": pa.array([row["n"] for row in rows], pa.int32()),
            "GasId": pa.array([row["i"] for row in rows], pa.int32()),
            "GasName": pa.array([f"gas {row['i']}" for row in rows], pa.string()),
            "ts": pa.array([row["ts"] for row in rows], pa.timestamp("us", tz="UTC")),
        }
    )


def same_gas(one: str, two: str) -> Condition:
    return Condition("", lambda rows: equal(rows[one]["i"], rows[two]["i"]))


@pytest.mark.parametrize("emit", ["", " EMIT IN ORDER"])
@pytest.mark.parametrize("kind", WINDOWS)
def test_the_queries_of_section_6_2(kind: str, emit: str, tmp_path: Path) -> None:
    clause, windows = WINDOWS[kind]
    streams = readings(seed=1)
    join = join_of(SENSORS, windows, [same_gas("A", "B"), same_gas("B", "C")])
    wanted = results(join, streams)
    assert len(wanted) > 50
    select = "SELECT A.GasName, A.n AS a, B.n AS b, C.n AS c " + JOINED.format(windows=clause) + emit
    with SparklessDatabase(tmp_path / "db", clock=ManualClock("2026-01-02 00:00:00")) as db:
        for sensor in SENSORS:
            db.sql(f"CREATE STREAM {sensor} (n INT, GasId INT, GasName STRING, ts TIMESTAMP) TIMESTAMP BY ts")
        query = db.query(select, name="spread")
        for at in range(0, 60, 11):
            for sensor in SENSORS:
                db.append(sensor, sensed(streams[sensor][at : at + 11]))
            db.catch_up()
        for sensor in SENSORS:
            db.advance(sensor, BEGIN + 9 * HOUR)
        db.catch_up()
        answer = query.table()
    rows: list[dict[str, Any]] = answer.to_pylist()
    found = [(row["a"], row["b"], row["c"]) for row in rows]
    times = answer.column("_time").cast(pa.int64()).to_pylist()
    assert times == sorted(times)
    if emit:
        assert list(zip(times, found, strict=True)) == [(r.time, r.rows) for r in wanted]
    else:
        assert sorted(found) == sorted(result.rows for result in wanted)
        assert all(time >= result.time for time, result in zip(sorted(times), wanted, strict=True))
    gas = {row["n"]: row["i"] for row in streams["north"]}
    assert all(row["GasName"] == f"gas {gas[row['a']]}" for row in rows)


def test_offsets_of_the_figure_are_those_of_its_last_tuples() -> None:
    """The vector of newest times, from which it is told which tuples are old, is that of the offsets."""
    harness = before_a2()
    next_tuple(harness, "a2")
    assert harness.offsets == {
        "a": Offset(2, 20), "b": Offset(4, 18), "c": Offset(3, 19), "d": Offset(2, 21), "e": Offset(2, 22),
    }  # fmt: skip
