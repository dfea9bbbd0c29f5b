"""Standing queries: which operator they become, and what is left to Spark."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from anabranch.operators import operator_from_json
from anabranch.operators.base import Inputs
from anabranch.operators.select import SelectRows
from anabranch.operators.windows.aggregate import WindowAggregate
from anabranch.schema import StreamSchema
from anabranch.sql import StandingPlan, parse, plan_standing
from anabranch.sql.statements import SelectOnce
from tests.sql.written_down import read_again

MINUTE = 60_000_000
Lookup = Callable[[str], StreamSchema]


def plan(text: str, lookup: Lookup) -> StandingPlan:
    (statement,) = parse(text)
    assert isinstance(statement, SelectOnce)
    return read_again(plan_standing(statement.select, lookup))


def windowed(text: str, lookup: Lookup) -> WindowAggregate:
    operator = plan(text, lookup).operator
    assert isinstance(operator, WindowAggregate)
    return operator


def test_star_is_every_column_and_the_time_stays_the_time(lookup: Lookup) -> None:
    found = plan("SELECT * FROM packets", lookup)
    names = ("saddr", "daddr", "id", "length", "ts")
    assert found.operator == SelectRows("packets", tuple((n, n) for n in names), "ts")
    assert found.residual_sql is None
    assert found.schema is not None
    assert (found.schema.names, found.time) == (list(names), "ts")


def test_star_except_and_qualified_star(lookup: Lookup) -> None:
    found = plan("SELECT p.* EXCEPT (saddr, ID) FROM packets p", lookup)
    assert found.operator == SelectRows("packets", (("daddr", "daddr"), ("length", "length"), ("ts", "ts")), "ts")


def test_without_its_time_the_answer_gets_one(lookup: Lookup) -> None:
    found = plan("SELECT P.SADDR, length * 2 AS double, double + 1 AS more FROM Packets p WHERE p.length > 100", lookup)
    assert found.operator == SelectRows(
        "Packets",
        (("saddr", "saddr"), ("double", "length * 2"), ("more", "(length * 2) + 1"), ("_time", "ts")),
        "_time",
        "length > 100",
    )
    assert found.schema is not None
    assert found.schema.to_json() == {
        "columns": [["saddr", "STRING"], ["double", "INT"], ["more", "INT"], ["_time", "TIMESTAMP"]],
        "time": "_time",
    }


def test_a_renamed_time_column_is_the_time(lookup: Lookup) -> None:
    assert plan("SELECT length, ts AS happened FROM packets", lookup).time == "happened"


def test_what_arrow_cannot_do_is_left_to_spark(lookup: Lookup) -> None:
    found = plan(
        "SELECT soundex(saddr) AS s, length FROM packets WHERE id > 3 AND soundex(daddr) = 'x' AND length < 9", lookup
    )
    assert found.operator == SelectRows(
        "packets",
        (("saddr", "saddr"), ("daddr", "daddr"), ("length", "length"), ("ts", "ts")),
        "ts",
        "id > 3 AND length < 9",
    )
    assert found.residual_sql == (
        "SELECT SOUNDEX(`saddr`) AS `s`, `length` AS `length`, `ts` AS `_time` FROM `__input` "
        "WHERE SOUNDEX(`daddr`) = 'x'"
    )
    assert (found.schema, found.time) == (None, "_time")


def test_names_may_hold_anything(lookup: Lookup) -> None:
    found = plan("SELECT `a b.c``d` AS `q.r` FROM `x.y` WHERE `A B.C``D` > 1", lookup)
    assert found.operator == SelectRows("x.y", (("q.r", "`a b.c``d`"), ("_time", "_time")), "_time", "`a b.c``d` > 1")


def test_rejects_of_a_stream_can_be_read(lookup: Lookup) -> None:
    assert plan("SELECT rejects.saddr FROM packets.rejects", lookup).stream == "packets.rejects"


def test_query_q1_of_the_cq_paper(lookup: Lookup) -> None:
    """Load on the backbone link per minute, above a threshold."""
    found = plan("SELECT sum(length) AS load FROM PTb GROUP BY getminute(ts) HAVING sum(length) > 1000000", lookup)
    assert found.operator == WindowAggregate(
        stream="PTb",
        unit="time",
        size=MINUTE,
        slide=MINUTE,
        keys=(),
        aggregates=(("sum(length)", "sum", "length"),),
        columns=(("load", "`sum(length)`"), ("_time", "window_end")),
        time="_time",
        having="`sum(length)` > 1000000",
    )
    assert found.schema is not None
    assert found.schema.to_json() == {"columns": [["load", "BIGINT"], ["_time", "TIMESTAMP"]], "time": "_time"}


@pytest.mark.parametrize(
    ("key", "size", "slide"),
    [
        ("getsecond(ts)", 1_000_000, 1_000_000),
        ("GetHour(p.ts)", 60 * MINUTE, 60 * MINUTE),
        ("getday(ts)", 1440 * MINUTE, 1440 * MINUTE),
        ("date_trunc('minute', ts)", MINUTE, MINUTE),
        ("DATE_TRUNC('HOUR', ts)", 60 * MINUTE, 60 * MINUTE),
        ("window(ts, '1 minute')", MINUTE, MINUTE),
        ("window(ts, '1 minute', '10 seconds')", MINUTE, MINUTE // 6),
    ],
)
def test_a_time_function_in_group_by_is_a_window(key: str, size: int, slide: int, lookup: Lookup) -> None:
    operator = windowed(f"SELECT count(*) AS n FROM packets p GROUP BY {key}, saddr", lookup)
    assert (operator.unit, operator.size, operator.slide) == ("time", size, slide)
    assert operator.keys == (("saddr", "saddr"),)


def test_the_time_function_in_the_select_list_is_the_start_of_the_window(lookup: Lookup) -> None:
    operator = windowed("SELECT getminute(p.ts) AS m, count(*) AS n FROM packets p GROUP BY GETMINUTE(ts)", lookup)
    assert operator.columns == (("m", "window_start"), ("n", "`count(*)`"), ("_time", "window_end"))
    operator = windowed("SELECT window.start, window.end FROM packets GROUP BY window(ts, '1 minute')", lookup)
    assert operator.columns == (("start", "window_start"), ("end", "window_end"))
    assert operator.time == "end"


def test_expressions_over_aggregates_share_them(lookup: Lookup) -> None:
    operator = windowed(
        "SELECT saddr, sum(length) / 60 AS load, SUM(p.length) + count(*) AS both, count(1) AS n, window_end "
        "FROM packets p WINDOW = INTERVAL 1 MINUTE SLIDE INTERVAL 10 SECONDS WHERE id > 3 "
        "GROUP BY saddr HAVING load > 5 AND max(length * 2) < 10 AND n > 1",
        lookup,
    )
    assert operator.aggregates == (
        ("sum(length)", "sum", "length"),
        ("count(*)", "count", None),
        ("max(length * 2)", "max", "length * 2"),
    )
    assert operator.columns == (
        ("saddr", "saddr"),
        ("load", "`sum(length)` / 60"),
        ("both", "`sum(length)` + `count(*)`"),
        ("n", "`count(*)`"),
        ("window_end", "window_end"),
    )
    assert operator.having == "(`sum(length)` / 60) > 5 AND `max(length * 2)` < 10 AND (`count(*)`) > 1"
    assert (operator.filter, operator.time) == ("id > 3", "window_end")


def test_group_by_alias_ordinal_and_expression_mean_the_same(lookup: Lookup) -> None:
    of = [
        windowed(f"SELECT length % 10 AS digit, count(*) AS n FROM packets WINDOW = 100 ROWS GROUP BY {key}", lookup)
        for key in ("digit", "1", "length % 10")
    ]
    assert of[0] == of[1] == of[2]
    assert of[0].keys == (("length % 10", "length % 10"),)
    assert of[0].columns == (("digit", "`length % 10`"), ("n", "`count(*)`"), ("_time", "_time"))


def test_a_column_goes_before_an_alias_of_its_name_in_group_by(lookup: Lookup) -> None:
    operator = windowed("SELECT max(length) AS id FROM packets WINDOW = 9 ROWS GROUP BY id", lookup)
    assert operator.keys == (("id", "id"),)


def test_other_names_of_the_aggregates(lookup: Lookup) -> None:
    operator = windowed(
        "SELECT mean(id), std(id), stddev_samp(id), var_samp(id), stddev_pop(id), var_pop(id) "
        "FROM packets WINDOW = 9 ROWS",
        lookup,
    )
    assert [function for _, function, _ in operator.aggregates] == [
        "avg",
        "stddev",
        "variance",
        "stddev_pop",
        "var_pop",
    ]


def test_windows_of_rows_have_numbers_for_ends(lookup: Lookup) -> None:
    found = plan("SELECT window_start, window_end, min(saddr) AS m FROM packets WINDOW = 9 ROWS", lookup)
    assert found.schema is not None
    assert found.schema.to_json()["columns"] == [
        ["window_start", "BIGINT"],
        ["window_end", "BIGINT"],
        ["m", "STRING"],
        ["_time", "TIMESTAMP"],
    ]


def test_group_by_the_window_itself_adds_no_key(lookup: Lookup) -> None:
    operator = windowed("SELECT window_end, count(*) FROM packets WINDOW = INTERVAL 1 DAY GROUP BY window_end", lookup)
    assert operator.keys == ()


@pytest.mark.parametrize(
    "text",
    [
        "SELECT saddr, length + 1 AS more FROM packets WHERE length > 3",
        "SELECT saddr, avg(length) FROM packets WINDOW = INTERVAL 1 HOUR GROUP BY saddr HAVING avg(length) > 3",
    ],
)
def test_operators_survive_json(text: str, lookup: Lookup) -> None:
    operator = plan(text, lookup).operator
    assert operator_from_json(json.loads(json.dumps(operator.to_json()))) == operator


def test_explain_names_operators_streams_and_bounds(lookup: Lookup) -> None:
    found = plan(
        "SELECT saddr, sum(length) / 60 AS load FROM packets WINDOW = INTERVAL 1 MINUTE SLIDE INTERVAL 10 SECONDS "
        "WHERE id > 3 GROUP BY saddr",
        lookup,
    )
    lines = found.explain_text().splitlines()
    assert lines[0] == "answer: saddr STRING, load DOUBLE, _time TIMESTAMP"
    assert "└─ window_aggregate" in lines
    assert any(line.strip().startswith("keeps: ") and "pane" in line for line in lines)
    assert lines[-2:] == ["   └─ stream packets", "      filter pushed to the read: id > 3"]
    data = json.loads(found.explain_json())
    assert [step["operator"] for step in data["steps"]] == ["window_aggregate"]
    assert data["steps"][0]["keeps"]["bound"]
    assert data["streams"] == [{"stream": "packets", "filter_pushed_to_read": "id > 3"}]
    assert data["runs_in_spark_sql"] is False


def test_explain_shows_what_runs_in_spark(lookup: Lookup) -> None:
    found = plan("SELECT soundex(saddr) AS s FROM packets", lookup)
    data = found.explain()
    assert [step["operator"] for step in data["steps"]] == ["spark sql", "select"]
    assert data["runs_in_spark_sql"] is True
    assert "SOUNDEX(`saddr`)" in found.explain_text()


class _OnlyASchema:
    """A log reader as far as an operator's schema needs it."""

    def __init__(self, schema: StreamSchema) -> None:
        self.schema = schema.arrow
        self.time_column = schema.time


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM packets",
        "SELECT length / 2 AS half, saddr = 'a', id + length AS more, length > 3 AS big, ts FROM packets",
        "SELECT `a b.c``d` + 1 AS x FROM logins",
        "SELECT saddr, count(*), sum(length), sum(length) / 60, avg(id), min(saddr), stddev(length), window_start "
        "FROM packets WINDOW = INTERVAL 1 MINUTE GROUP BY saddr",
        "SELECT window_start, max(ts) AS newest FROM packets WINDOW = 10 ROWS HAVING count(*) > 3",
        "SELECT length % 10, getminute(ts), count(*) FROM packets GROUP BY getminute(ts), length % 10",
        "SELECT `a b.c``d`, count(`a b.c``d`) FROM `x.y` WINDOW = 5 ROWS GROUP BY `a b.c``d`",
    ],
)
def test_the_planned_schema_is_the_operators(text: str, lookup: Lookup) -> None:
    found = plan(text, lookup)
    assert found.schema is not None
    readers: dict[str, Any] = {found.stream: _OnlyASchema(lookup(found.stream))}
    operator_schema = found.operator.schema(Inputs(readers))
    assert found.schema.arrow.equals(operator_schema), (found.schema.arrow, operator_schema)
    assert found.operator.time == found.schema.time == found.time


def test_an_interval_of_two_units_stays_whole(lookup: Lookup) -> None:
    found = plan("SELECT id, ts FROM packets WHERE ts > TIMESTAMP '2026-01-03' - INTERVAL 1 DAY 2 HOURS", lookup)
    assert isinstance(found.operator, SelectRows)
    assert found.operator.filter is not None
    assert "- (INTERVAL '1' DAY + INTERVAL '2' HOURS)" in found.operator.filter


def test_a_slide_longer_than_its_window_is_planned_as_it_says(lookup: Lookup) -> None:
    found = windowed("SELECT count(*) FROM packets WINDOW = INTERVAL 1 MINUTE SLIDE INTERVAL 2 MINUTES", lookup)
    assert (found.size, found.slide) == (MINUTE, 2 * MINUTE)
