"""Joins of streams: sources, windows, conditions and names."""

from __future__ import annotations

import json
from typing import Any

import pytest

from anabranch.operators import operator_from_json
from anabranch.operators.join.operator import WindowJoin
from anabranch.sql import parse, plan_once
from anabranch.sql.statements import SelectOnce
from tests.sql.joins import MINUTE, SECOND, columns, find_stream, plan

AB = "FROM a x, b y WINDOW = INTERVAL 1 SECOND"
TIME = ("_time", "_time")


def join(text: str) -> WindowJoin:
    operator = plan(text).operator
    assert isinstance(operator, WindowJoin)
    return operator


# -- windows -----------------------------------------------------------------------------------------


def test_one_window_is_for_every_pair() -> None:
    """The query of the STEAM paper's example: the same gas at three places within an hour."""
    found = plan(
        "SELECT A.GasId FROM north A, south B, east C WINDOW = INTERVAL 1 HOUR "
        "WHERE A.GasId = B.GasId AND B.GasId = C.GasId"
    )
    hour = 60 * MINUTE
    assert found.operator == WindowJoin(
        sources=(("A", "north", None), ("B", "south", None), ("C", "east", None)),
        unit="time",
        windows=((0, 1, -hour, hour), (0, 2, -hour, hour), (1, 2, -hour, hour)),
        conditions=("`A.GasId` = `B.GasId`", "`B.GasId` = `C.GasId`"),
        columns=(("GasId", "`A.GasId`"), TIME),
        time="_time",
    )
    assert (found.stream, found.time, found.residual_sql) == ("north", "_time", None)
    assert columns(found) == [["GasId", "INT"], ["_time", "TIMESTAMP"]]


@pytest.mark.parametrize(
    ("clause", "windows"),
    [
        ("WINDOW = INTERVAL 0 SECONDS", [(0, 1, 0, 0), (0, 2, 0, 0), (1, 2, 0, 0)]),
        (
            "WINDOW(A,B) = INTERVAL 5 MINUTES AND WINDOW(B, C) = INTERVAL 1 SECOND",
            [(0, 1, -5 * MINUTE, 5 * MINUTE), (1, 2, -SECOND, SECOND)],
        ),
        (
            "window(c, B) = INTERVAL 0 SECONDS AND window(A, `c`) = INTERVAL 1 SECOND",
            [(0, 2, -SECOND, SECOND), (1, 2, 0, 0)],
        ),
        (
            "WINDOW(A, B) = BETWEEN - INTERVAL 5 SECONDS AND INTERVAL 1 MINUTE AND WINDOW(A, C) = BETWEEN 0 AND 0",
            [(0, 1, -5 * SECOND, MINUTE), (0, 2, 0, 0)],
        ),
        (
            "WINDOW(B, A) = BETWEEN INTERVAL -5 SECONDS AND INTERVAL 1 MINUTE AND "
            "WINDOW(C, A) = BETWEEN INTERVAL '1' SECOND AND INTERVAL 1 SECOND 500 MILLISECONDS",
            [(0, 1, -MINUTE, 5 * SECOND), (0, 2, -1_500_000, -SECOND)],
        ),
        (
            "WINDOW(A, B) = BETWEEN - INTERVAL -1 SECONDS AND INTERVAL 1 MINUTE -30 SECONDS AND "
            "WINDOW(A, C) = BETWEEN - INTERVAL 1 MINUTE 1 SECOND AND 0",
            [(0, 1, SECOND, 30 * SECOND), (0, 2, -61 * SECOND, 0)],
        ),
    ],
)
def test_windows_of_pairs_are_put_in_the_order_of_from(clause: str, windows: list[Any]) -> None:
    found = join(f"SELECT A.v FROM north A, south B, east C {clause} WHERE A.v = B.v")
    assert (found.unit, list(found.windows)) == ("time", windows)


@pytest.mark.parametrize(
    "clause",
    ["WINDOW = 5 ROWS", "WINDOW(A, B) = 5 ROWS AND WINDOW(C, B) = 5 ROWS AND WINDOW(A, C) = 5 ROWS"],
)
def test_windows_of_rows_are_for_every_pair_and_in_order(clause: str) -> None:
    found = join(f"SELECT A.v FROM a A, a B, b C {clause}")
    assert (found.unit, found.windows) == ("rows", ((0, 1, 5, 5), (0, 2, 5, 5), (1, 2, 5, 5)))
    assert found.order == "time"


@pytest.mark.parametrize("where", ["WHERE x.k = y.k", ""])
def test_emit_in_order_and_shedding(where: str) -> None:
    text = f"SELECT x.k {AB} {where}"
    assert (join(text).order, join(text).memory, join(text).shed) == ("arrival", None, None)
    assert join(f"{text} EMIT FINAL") == join(text)
    assert join(f"{text} EMIT IN ORDER").order == "time"
    found = join(f"{text} WITH (memory = '64 MB', shed = 'oldest') EMIT IN ORDER")
    assert (found.order, found.memory, found.shed) == ("time", 64_000_000, "oldest")
    found = join(f"{text} with (MEMORY = 4096)")
    assert (found.order, found.memory, found.shed) == ("arrival", 4096, "random")
    assert join(f"{text} WITH (shed = 'Oldest', memory = '1.5 KiB')").memory == 1536


def test_rows_can_be_kept_by_the_matches_of_a_key_that_all_streams_share() -> None:
    found = join(f"SELECT x.k {AB} WHERE x.k = y.k WITH (memory = 4096, shed = 'matches')")
    assert (found.memory, found.shed) == (4096, "matches")


def test_how_complete_a_result_is_can_be_selected_where_rows_are_shed() -> None:
    found = plan(f"SELECT x.k, _completeness AS c {AB} WITH (memory = 4096)")
    assert isinstance(found.operator, WindowJoin)
    assert found.operator.columns == (("k", "`x.k`"), ("c", "_completeness"), TIME)
    assert columns(found) == [["k", "BIGINT"], ["c", "DOUBLE"], ["_time", "TIMESTAMP"]]


# -- sources and conditions --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "source",
    [
        "a x, b y WINDOW = INTERVAL 1 SECOND WHERE x.k = y.k",
        "a AS x JOIN b AS y ON x.k = y.k WINDOW = INTERVAL 1 SECOND",
        "a x INNER JOIN b y WINDOW = INTERVAL 1 SECOND WHERE x.k = y.k",
        "a x CROSS JOIN b y WINDOW(x, y) = INTERVAL 1 SECOND WHERE X.K = Y.k",
        "a x JOIN b y ON (x.k = y.k) WINDOW(x, y) = BETWEEN - INTERVAL 1 SECOND AND INTERVAL 1 SECOND",
        "a x, b y WHERE x.k = y.k WINDOW = INTERVAL 1 SECOND",
    ],
)
def test_ways_to_write_one_join(source: str) -> None:
    assert join(f"SELECT y.v FROM {source}") == WindowJoin(
        sources=(("x", "a", None), ("y", "b", None)),
        unit="time",
        windows=((0, 1, -SECOND, SECOND),),
        conditions=("`x.k` = `y.k`",),
        columns=(("v", "`y.v`"), TIME),
        time="_time",
    )


def test_a_stream_can_be_joined_with_itself() -> None:
    found = join("SELECT x.k, y.v FROM s x, s y WINDOW = INTERVAL 10 SECONDS WHERE x.k = y.k AND x.v < y.v")
    assert found.sources == (("x", "s", None), ("y", "s", None))
    assert found.conditions == ("`x.k` = `y.k`", "`x.v` < `y.v`")
    assert found.inputs == ("s",)


def test_conditions_on_one_source_are_applied_where_it_is_read() -> None:
    found = join(
        "SELECT x.k FROM a x JOIN b y ON x.k = y.k AND y.v > 3 JOIN s z ON z.v BETWEEN y.v - 2 AND y.v + 2 "
        "WINDOW = INTERVAL 1 SECOND WHERE (x.v + 1 = 2 AND y.k < 9) AND abs(x.v - z.v) <= 2 AND 1 = 1 "
        "AND x.`_time` > TIMESTAMP '2026-01-01'"
    )
    assert found.sources == (
        ("x", "a", "v + 1 = 2 AND 1 = 1 AND _time > CAST('2026-01-01' AS TIMESTAMP)"),
        ("y", "b", "v > 3 AND k < 9"),
        ("z", "s", None),
    )
    assert found.conditions == (
        "`x.k` = `y.k`",
        "`z.v` BETWEEN `y.v` - 2 AND `y.v` + 2",
        "abs(`x.v` - `z.v`) <= 2",
    )


def test_what_arrow_cannot_do_is_left_to_spark() -> None:
    found = plan(
        "SELECT soundex(x.saddr) AS s, x.id FROM ptb x, ptc y WINDOW = INTERVAL 1 SECOND "
        "WHERE x.id = y.id AND soundex(y.daddr) = x.daddr AND y.length > 3"
    )
    assert isinstance(found.operator, WindowJoin)
    assert found.operator.sources == (("x", "ptb", None), ("y", "ptc", "length > 3"))
    assert found.operator.conditions == ("`x.id` = `y.id`",)
    names = ("x.saddr", "x.daddr", "x.id", "y.daddr")
    assert found.operator.columns == (*((name, f"`{name}`") for name in names), TIME)
    assert found.residual_sql == (
        "SELECT SOUNDEX(`x.saddr`) AS `s`, `x.id` AS `id`, `_time` AS `_time` FROM `__input` "
        "WHERE SOUNDEX(`y.daddr`) = `x.daddr`"
    )
    assert (found.schema, found.time) == (None, "_time")


def test_sixteen_streams_can_be_joined() -> None:
    sources = ", ".join(f"a x{i}" for i in range(16))
    found = join(f"SELECT x0.k FROM {sources} WINDOW = INTERVAL 1 SECOND")
    assert (len(found.sources), len(found.windows)) == (16, 120)


# -- names -------------------------------------------------------------------------------------------


def test_a_name_that_one_source_alone_has_needs_no_alias() -> None:
    found = join(
        "SELECT gasid, north.V, K AS key, key + 1 AS next FROM north, a WINDOW = INTERVAL 1 SECOND WHERE GasId = k"
    )
    assert found.sources == (("north", "north", None), ("a", "a", None))
    assert found.conditions == ("`north.GasId` = `a.k`",)
    assert found.columns == (
        ("GasId", "`north.GasId`"),
        ("v", "`north.v`"),
        ("key", "`a.k`"),
        ("next", "(`a.k`) + 1"),
        TIME,
    )


def test_in_on_only_the_streams_so_far_count() -> None:
    found = join("SELECT ts FROM north JOIN a ON GasId = k JOIN b ON b.k = a.k WINDOW = INTERVAL 1 SECOND")
    assert found.conditions == ("`north.GasId` = `a.k`", "`b.k` = `a.k`")


def test_star_is_every_column_and_names_that_come_twice_get_their_source() -> None:
    found = plan("SELECT * FROM north A, a B WINDOW = INTERVAL 1 SECOND")
    assert columns(found) == [
        ["GasId", "INT"],
        ["A_v", "DOUBLE"],
        ["ts", "TIMESTAMP"],
        ["k", "BIGINT"],
        ["B_v", "INT"],
        ["B__time", "TIMESTAMP"],
        ["_time", "TIMESTAMP"],
    ]
    assert isinstance(found.operator, WindowJoin)
    assert found.operator.columns[1] == ("A_v", "`A.v`")


def test_star_of_one_source_and_star_except() -> None:
    found = join(f"SELECT x.*, y.v AS w {AB}")
    assert found.columns == (("k", "`x.k`"), ("v", "`x.v`"), ("x__time", "`x._time`"), ("w", "`y.v`"), TIME)
    found = join(f"SELECT * EXCEPT (v, _time) {AB}")
    assert found.columns == (("x_k", "`x.k`"), ("y_k", "`y.k`"), TIME)


def test_the_time_of_the_result_can_be_selected_and_renamed() -> None:
    found = plan(f"SELECT x.k, _time AS happened, _time > x._time AS later {AB}")
    assert isinstance(found.operator, WindowJoin)
    assert found.operator.columns == (("k", "`x.k`"), ("happened", "_time"), ("later", "_time > `x._time`"))
    assert (found.time, found.operator.time) == ("happened", "happened")
    assert join(f"SELECT _time, x.k {AB}").columns == (TIME, ("k", "`x.k`"))


def test_names_may_hold_anything() -> None:
    found = join(
        "SELECT o.`A B` AS `q.r`, o.window_end FROM `x.y`, `x.y` AS o WINDOW(`x.y`, o) = INTERVAL 1 SECOND "
        "WHERE `x.y`.`a b` = 3"
    )
    assert found.sources == (("x.y", "x.y", "`a b` = 3"), ("o", "x.y", None))
    assert found.columns == (("q.r", "`o.a b`"), ("window_end", "`o.window_end`"), TIME)
    assert join("SELECT rejects.id FROM ptb.rejects, a WINDOW = INTERVAL 1 SECOND").sources[0][:2] == (
        "rejects",
        "ptb.rejects",
    )


# -- plans as data -----------------------------------------------------------------------------------

PLANS = [
    "SELECT A.GasId FROM north A, south B WINDOW = INTERVAL 1 HOUR WHERE A.GasId = B.GasId AND A.v > 3",
    f"SELECT * {AB} WHERE x.k BETWEEN y.k - 1 AND y.k + 1 WITH (memory = 4096) EMIT IN ORDER",
    "SELECT soundex(x.saddr) AS s FROM ptb x, ptc y WINDOW = 9 ROWS",
]


@pytest.mark.parametrize("text", PLANS)
def test_a_plan_can_be_written_down_and_explained(text: str) -> None:
    found = plan(text)
    assert operator_from_json(json.loads(json.dumps(found.operator.to_json()))) == found.operator
    assert json.loads(found.explain_json())["steps"][-1]["operator"] == "window_join"
    assert "window_join" in found.explain_text()


def test_the_plan_shows_what_is_read_of_each_source() -> None:
    shown = plan("SELECT x.k FROM a x, a y, b z WINDOW = INTERVAL 1 HOUR WHERE x.v > 3").explain()
    assert shown["streams"] == [
        {"stream": "a", "filter_pushed_to_read": "v > 3"},
        {"stream": "a", "filter_pushed_to_read": None},
        {"stream": "b", "filter_pushed_to_read": None},
    ]


def test_the_plan_of_an_aggregate_shows_it_below_the_join() -> None:
    found = plan("SELECT count(*) AS n FROM a x, b y WINDOW = INTERVAL 1 HOUR WHERE x.v > 3 EMIT EVERY INTERVAL 1 DAY")
    assert found.explain()["streams"] == [
        {"stream": "a", "filter_pushed_to_read": "v > 3"},
        {"stream": "b", "filter_pushed_to_read": None},
    ]
    assert found.explain_text().splitlines()[-3:] == [
        "      └─ stream a",
        "         filter pushed to the read: v > 3",
        "      └─ stream b",
    ]


def test_asked_once_without_a_window_a_join_is_sparks() -> None:
    (statement,) = parse("SELECT x.k FROM a x LEFT JOIN b y ON x.k = y.k")
    assert isinstance(statement, SelectOnce)
    found = plan_once(statement.select, find_stream)
    assert found.standing is None
    assert found.sql == ("SELECT `x`.`k` FROM `__stream0_0` AS `x` LEFT JOIN `__stream0_1` AS `y` ON `x`.`k` = `y`.`k`")
