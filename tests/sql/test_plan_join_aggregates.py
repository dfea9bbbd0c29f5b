"""Aggregates over joins, and combinations of aggregates over different streams."""

from __future__ import annotations

import json

import pytest

from anabranch.operators import operator_from_json
from anabranch.operators.join.aggregate import WindowJoinAggregate
from anabranch.operators.join.combination import WindowCombination
from anabranch.operators.join.operator import WindowJoin
from anabranch.operators.windows.aggregate import WindowAggregate
from tests.sql.joins import MINUTE, SECOND, columns, plan

AB = "FROM a A, b B WINDOW = INTERVAL 10 SECONDS"
EVERY = "EMIT EVERY INTERVAL 1 MINUTE"
TIME = ("_time", "window_end")


def aggregated(text: str) -> WindowJoinAggregate:
    operator = plan(text).operator
    assert isinstance(operator, WindowJoinAggregate)
    return operator


def combined(text: str) -> WindowCombination:
    operator = plan(text).operator
    assert isinstance(operator, WindowCombination)
    return operator


# -- aggregates --------------------------------------------------------------------------------------


def test_groups_of_a_join() -> None:
    found = plan(f"SELECT A.k, count(*) AS n, sum(B.v) {AB} WHERE A.k = B.k AND B.v > 3 GROUP BY A.k {EVERY}")
    assert found.operator == WindowJoinAggregate(
        join=WindowJoin(
            sources=(("A", "a", None), ("B", "b", "v > 3")),
            unit="time",
            windows=((0, 1, -10 * SECOND, 10 * SECOND),),
            conditions=("`A.k` = `B.k`",),
            columns=(),
            time="_time",
            order="time",
        ),
        period=MINUTE,
        keys=(("A.k", "`A.k`"),),
        aggregates=(("count(*)", "count", None), ("sum(B.v)", "sum", "`B.v`")),
        columns=(("k", "`A.k`"), ("n", "`count(*)`"), ("sum(B.v)", "`sum(B.v)`"), TIME),
        time="_time",
    )
    assert (found.stream, found.time, found.residual_sql) == ("a", "_time", None)
    assert columns(found) == [["k", "BIGINT"], ["n", "BIGINT"], ["sum(B.v)", "BIGINT"], ["_time", "TIMESTAMP"]]


def test_having_and_expressions_over_keys_aggregates_and_the_period() -> None:
    found = aggregated(
        f"SELECT A.k % 7 AS day, avg(A.v * B.v) / count(*) AS load, window_start, window_end {AB} WHERE A.k = B.k "
        f"GROUP BY day, B.v HAVING stddev(A.v) > 1 AND load < 9 {EVERY}"
    )
    assert found.keys == (("A.k % 7", "`A.k` % 7"), ("B.v", "`B.v`"))
    assert found.aggregates == (
        ("avg(A.v * B.v)", "avg", "`A.v` * `B.v`"),
        ("count(*)", "count", None),
        ("stddev(A.v)", "stddev", "`A.v`"),
    )
    assert found.columns == (
        ("day", "`A.k % 7`"),
        ("load", "`avg(A.v * B.v)` / `count(*)`"),
        ("window_start", "window_start"),
        ("window_end", "window_end"),
    )
    assert (found.time, found.having) == ("window_end", "`stddev(A.v)` > 1 AND (`avg(A.v * B.v)` / `count(*)`) < 9")


def test_names_of_one_source_alone_need_no_alias_and_keep_their_spelling() -> None:
    found = aggregated(f"SELECT GASID, max(k) AS top FROM north, a WINDOW = 9 ROWS GROUP BY gasid {EVERY}")
    assert found.columns == (("GasId", "`north.GasId`"), ("top", "`max(a.k)`"), TIME)
    assert (found.join.unit, found.join.order) == ("rows", "time")


def test_the_time_of_a_source_can_be_grouped_by() -> None:
    found = aggregated(f"SELECT count(*) AS n FROM north A, south B WINDOW = 9 ROWS GROUP BY getminute(A.ts) {EVERY}")
    assert found.keys == (("date_trunc('MINUTE', A.ts)", "date_trunc('MINUTE', `A.ts`)"),)
    assert found.period == MINUTE


def test_shedding_goes_to_the_join() -> None:
    found = aggregated(f"SELECT count(*) AS n {AB} WITH (memory = '1 MB') {EVERY}")
    assert (found.join.memory, found.join.shed) == (1_000_000, "random")


# -- combinations ------------------------------------------------------------------------------------


def test_query_q2_of_the_cq_paper() -> None:
    """The fraction of the traffic on the backbone link that is due to the customer network."""
    found = plan(
        """SELECT (SELECT count(*) FROM PTc C, PTb B WINDOW = INTERVAL 10 SECONDS
                   WHERE C.saddr = B.saddr AND C.daddr = B.daddr AND C.id = B.id)
                / (SELECT count(*) FROM PTb) AS fraction EMIT EVERY INTERVAL 1 MINUTE"""
    )
    join = WindowJoin(
        sources=(("C", "PTc", None), ("B", "PTb", None)),
        unit="time",
        windows=((0, 1, -10 * SECOND, 10 * SECOND),),
        conditions=("`C.saddr` = `B.saddr`", "`C.daddr` = `B.daddr`", "`C.id` = `B.id`"),
        columns=(),
        time="_time",
        order="time",
    )
    count = (("count(*)", "count", None),)
    both = WindowJoinAggregate(join, MINUTE, (), count, (("part1", "`count(*)`"), TIME), "_time")
    backbone = WindowAggregate("PTb", "time", MINUTE, MINUTE, (), count, (("part2", "`count(*)`"), TIME), "_time")
    assert found.operator == WindowCombination(
        period=MINUTE,
        parts=(("part1", both, 0), ("part2", backbone, 0)),
        columns=(("fraction", "part1 / part2"), TIME),
        time="_time",
    )
    assert (found.stream, found.time) == ("PTc", "_time")
    assert columns(found) == [["fraction", "DOUBLE"], ["_time", "TIMESTAMP"]]


def test_parts_are_of_all_kinds_and_one_that_comes_twice_is_one() -> None:
    found = combined(
        "SELECT 100 * ((SELECT sum(length) AS s FROM ptb p WHERE p.id > 3) - coalesce((SELECT max(x.length) "
        "FROM ptb x JOIN ptb y ON x.id = y.id WINDOW(x, y) = BETWEEN 0 AND INTERVAL 1 SECOND WITH (memory = 4096)"
        f"), 0)) AS d, (SELECT count(*) FROM ptc) AS n, n + 1 AS m, (SELECT count(*) FROM ptc), window_end {EVERY}"
    )
    assert [(name, operator.kind, empty) for name, operator, empty in found.parts] == [
        ("part1", "window_aggregate", None),
        ("part2", "window_join_aggregate", None),
        ("part3", "window_aggregate", 0),
    ]
    assert found.columns == (
        ("d", "100 * (part1 - coalesce(part2, 0))"),
        ("n", "part3"),
        ("m", "(part3) + 1"),
        ("(SELECT count(*) FROM ptc)", "part3"),
        ("window_end", "window_end"),
    )
    assert found.time == "window_end"
    first, second = found.parts[0][1], found.parts[1][1]
    assert isinstance(first, WindowAggregate)
    assert (first.filter, first.columns) == ("id > 3", (("part1", "`sum(length)`"), TIME))
    assert isinstance(second, WindowJoinAggregate)
    assert (second.join.windows, second.join.memory) == (((0, 1, 0, SECOND),), 4096)


def test_joins_that_differ_in_their_window_alone_are_two_parts() -> None:
    one = "(SELECT count(*) FROM a, b WINDOW = INTERVAL 1 SECOND)"
    assert len(combined(f"SELECT {one} / {one} AS f {EVERY}").parts) == 1
    assert len(combined(f"SELECT {one} / {one.replace('1', '2')} AS f {EVERY}").parts) == 2


@pytest.mark.parametrize(
    ("value", "empty"),
    [
        ("count(*)", 0),
        ("count(v)", 0),
        ("count(DISTINCT v)", 0),
        ("approx_count_distinct(v)", 0),
        ("sum(v)", None),
        ("count(*) + 1", 1),
        ("sum(v) + count(*)", None),
        ("coalesce(sum(v), 0) * 2 + 7", 7),
        ("count(*) / 60", 0),
        ("median(v)", None),
    ],
)
def test_what_a_part_is_where_nothing_came(value: str, empty: int | None) -> None:
    ((_, _, found),) = combined(f"SELECT (SELECT {value} FROM a) AS x {EVERY}").parts
    assert found == empty
    assert type(found) is type(empty)


def test_what_arrow_cannot_do_with_the_parts_is_left_to_spark() -> None:
    found = plan(f"SELECT soundex((SELECT max(saddr) FROM ptb)) AS s, (SELECT count(*) FROM a) AS n {EVERY}")
    assert isinstance(found.operator, WindowCombination)
    assert found.operator.columns == (("part1", "part1"), ("part2", "part2"), ("window_end", "window_end"))
    assert found.operator.time == "window_end"
    assert found.residual_sql == (
        "SELECT SOUNDEX(`part1`) AS `s`, `part2` AS `n`, `window_end` AS `_time` FROM `__input`"
    )
    assert (found.schema, found.time) == (None, "_time")


PLANS = [
    f"SELECT A.k, count(*) AS n {AB} WHERE A.k = B.k GROUP BY A.k HAVING sum(B.v) > 3 {EVERY}",
    f"SELECT (SELECT count(*) {AB}) / (SELECT count(*) FROM s WHERE v > 3) AS f {EVERY}",
]


@pytest.mark.parametrize("text", PLANS)
def test_a_plan_can_be_written_down(text: str) -> None:
    found = plan(text)
    assert operator_from_json(json.loads(json.dumps(found.operator.to_json()))) == found.operator


def test_the_parts_of_a_combination_are_branches_of_its_plan() -> None:
    found = plan(PLANS[1])
    assert {each["stream"]: each["filter_pushed_to_read"] for each in found.explain()["streams"]} == {
        "a": None,
        "b": None,
        "s": "v > 3",
    }
    lines = found.explain_text().splitlines()
    assert "   ├─ part1: window_join_aggregate" in lines
    assert "   └─ part2: window_aggregate" in lines
    assert not any(line.strip().startswith("parts:") for line in lines)
