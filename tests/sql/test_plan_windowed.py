"""Windowed queries: medians and their kin, ORDER BY, rows, set operations, changes and hints."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from anabranch.operators import operator_from_json
from anabranch.operators.base import Inputs
from anabranch.operators.windows.aggregate import WindowAggregate
from anabranch.operators.windows.changes import WindowChanges
from anabranch.operators.windows.rows import WindowRows
from anabranch.operators.windows.sets import WindowSetOperation
from anabranch.schema import StreamSchema
from anabranch.sql import StandingPlan, parse, plan_once, plan_standing
from anabranch.sql.explain import as_text, plan_as_dict
from anabranch.sql.statements import SelectOnce
from tests.sql.written_down import read_again

MINUTE = 60_000_000
MINUTES = "FROM packets WINDOW = INTERVAL 1 MINUTE"
Lookup = Callable[[str], StreamSchema]


def plan(text: str, lookup: Lookup) -> StandingPlan:
    (statement,) = parse(text)
    assert isinstance(statement, SelectOnce)
    return read_again(plan_standing(statement.select, lookup))


def aggregated(text: str, lookup: Lookup) -> WindowAggregate:
    operator = plan(text, lookup).operator
    assert isinstance(operator, WindowAggregate)
    return operator


def rows(text: str, lookup: Lookup) -> WindowRows:
    operator = plan(text, lookup).operator
    assert isinstance(operator, WindowRows)
    return operator


def sets(text: str, lookup: Lookup) -> WindowSetOperation:
    operator = plan(text, lookup).operator
    assert isinstance(operator, WindowSetOperation)
    return operator


def columns(found: StandingPlan) -> list[list[str]]:
    assert found.schema is not None
    listed: list[list[str]] = found.schema.to_json()["columns"]
    return listed


# -- aggregates --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "name", "function", "argument", "type_"),
    [
        ("median(length)", "median(length)", "median", "length", "DOUBLE"),
        ("percentile(length, 0.95)", "percentile(length, 0.95)", "percentile(0.95)", "length", "DOUBLE"),
        ("quantile(p.length, 95 / 100)", "percentile(length, 0.95)", "percentile(0.95)", "length", "DOUBLE"),
        (
            "percentile_cont(0.25) WITHIN GROUP (ORDER BY length)",
            "percentile(length, 0.25)",
            "percentile(0.25)",
            "length",
            "DOUBLE",
        ),
        (
            "PERCENTILE_DISC(0.5) within group (order by length * 2 NULLS LAST)",
            "percentile_disc(length * 2, 0.5)",
            "percentile_disc(0.5)",
            "length * 2",
            "INT",
        ),
        ("percentile(id, 1)", "percentile(id, 1)", "percentile(1.0)", "id", "DOUBLE"),
        ("mode(saddr)", "mode(saddr)", "mode", "saddr", "STRING"),
        ("mode() WITHIN GROUP (ORDER BY saddr)", "mode(saddr)", "mode", "saddr", "STRING"),
        ("count(DISTINCT p.saddr)", "count(DISTINCT saddr)", "count_distinct", "saddr", "BIGINT"),
        (
            "approx_percentile(length, 0.9)",
            "approx_percentile(length, 0.9)",
            "approx_percentile(0.9)",
            "length",
            "INT",
        ),
        ("percentile_approx(id, 0)", "approx_percentile(id, 0)", "approx_percentile(0.0)", "id", "BIGINT"),
        ("approx_median(id)", "approx_median(id)", "approx_percentile(0.5)", "id", "BIGINT"),
        (
            "approx_count_distinct(saddr)",
            "approx_count_distinct(saddr)",
            "approx_count_distinct(0.05)",
            "saddr",
            "BIGINT",
        ),
        (
            "approx_count_distinct(saddr, 0.01)",
            "approx_count_distinct(saddr, 0.01)",
            "approx_count_distinct(0.01)",
            "saddr",
            "BIGINT",
        ),
        ("max(DISTINCT length)", "max(length)", "max", "length", "INT"),
        ("min(DISTINCT saddr)", "min(saddr)", "min", "saddr", "STRING"),
    ],
)
def test_a_call_is_said_in_the_operators_words(
    call: str, name: str, function: str, argument: str, type_: str, lookup: Lookup
) -> None:
    found = plan(f"SELECT {call} AS x FROM packets p WINDOW = 100 ROWS SLIDE 10 ROWS", lookup)
    assert isinstance(found.operator, WindowAggregate)
    assert found.operator.aggregates == ((name, function, argument),)
    assert found.operator.columns == (("x", f"`{name}`"), ("_time", "_time"))
    assert columns(found) == [["x", type_], ["_time", "TIMESTAMP"]]


def test_aggregates_written_in_two_ways_are_computed_once(lookup: Lookup) -> None:
    operator = aggregated(
        f"SELECT quantile(id, 0.5) - percentile(id, 0.5) AS zero, count(DISTINCT id) / count(id) AS share {MINUTES} "
        "HAVING percentile_cont(0.5) WITHIN GROUP (ORDER BY id) > 3",
        lookup,
    )
    assert operator.aggregates == (
        ("percentile(id, 0.5)", "percentile(0.5)", "id"),
        ("count(DISTINCT id)", "count_distinct", "id"),
        ("count(id)", "count", "id"),
    )
    assert operator.having == "`percentile(id, 0.5)` > 3"


def test_asked_once_without_a_window_they_are_sparks(lookup: Lookup) -> None:
    (statement,) = parse("SELECT quantile(length, 0.9) AS q, approx_median(id) AS m FROM packets")
    assert isinstance(statement, SelectOnce)
    assert plan_once(statement.select, lookup).sql == (
        "SELECT PERCENTILE(`length`, 0.9) AS `q`, PERCENTILE_APPROX(`id`, 0.5) AS `m` FROM `__stream0_0` AS `packets`"
    )


# -- ORDER BY and LIMIT ------------------------------------------------------------------------------


def test_the_most_frequent_values_of_each_window(lookup: Lookup) -> None:
    operator = aggregated(
        f"SELECT saddr, count(*) AS n {MINUTES} GROUP BY saddr ORDER BY n DESC, max(length) + 1, 1 LIMIT 10", lookup
    )
    assert operator.order == (("`count(*)`", True, False), ("`max(length)` + 1", False, True), ("saddr", False, True))
    assert operator.limit == 10
    assert operator.aggregates == (("count(*)", "count", None), ("max(length)", "max", "length"))
    assert operator.columns == (("saddr", "saddr"), ("n", "`count(*)`"), ("_time", "window_end"))


@pytest.mark.parametrize(
    ("written", "order"),
    [
        ("n", ("`count(*)`", False, True)),
        ("n ASC NULLS LAST", ("`count(*)`", False, False)),
        ("n DESC", ("`count(*)`", True, False)),
        ("n DESC NULLS FIRST", ("`count(*)`", True, True)),
        ("2 DESC", ("`count(*)`", True, False)),
        ("n / 2", ("`count(*)` / 2", False, True)),
        ("twice", ("(`count(*)`) * 2", False, True)),
        ("twice + 1", ("((`count(*)`) * 2) + 1", False, True)),
        ("p.saddr", ("saddr", False, True)),
        ("unix_seconds(window_end) - n", ("unix_seconds(window_end) - `count(*)`", False, True)),
    ],
)
def test_what_can_be_ordered_by(written: str, order: tuple[str, bool, bool], lookup: Lookup) -> None:
    operator = aggregated(
        "SELECT saddr, count(*) AS n, n * 2 AS twice FROM packets p WINDOW = INTERVAL 1 MINUTE "
        f"GROUP BY saddr ORDER BY {written}",
        lookup,
    )
    assert operator.order == (order,)
    assert operator.limit is None


def test_a_name_of_the_answer_goes_before_a_column_and_constants_order_nothing(lookup: Lookup) -> None:
    operator = aggregated(
        f"SELECT id, max(length) AS length {MINUTES} GROUP BY id "
        "ORDER BY length, 'x', window_end, packets.id LIMIT ALL",
        lookup,
    )
    assert operator.order == (("`max(length)`", False, True), ("id", False, True))
    assert operator.limit is None


def test_windows_said_in_group_by_are_ordered_too(lookup: Lookup) -> None:
    operator = aggregated(
        "SELECT saddr, count(*) AS n FROM packets GROUP BY getminute(ts), saddr ORDER BY n DESC LIMIT 3", lookup
    )
    assert (operator.size, operator.order, operator.limit) == (MINUTE, (("`count(*)`", True, False),), 3)


def test_asked_once_a_window_is_ordered_by_the_same_plan(lookup: Lookup) -> None:
    text = f"SELECT saddr, median(length) AS m {MINUTES} GROUP BY saddr ORDER BY m LIMIT 2"
    (statement,) = parse(text)
    assert isinstance(statement, SelectOnce)
    once = plan_once(statement.select, lookup)
    assert once.standing is not None
    assert once.standing.operator == plan(text, lookup).operator


# -- rows --------------------------------------------------------------------------------------------


def test_the_rows_of_each_window(lookup: Lookup) -> None:
    found = plan(
        f"SELECT * {MINUTES} SLIDE INTERVAL 10 SECONDS WHERE length > 3 ORDER BY length DESC, 2 LIMIT 5", lookup
    )
    names = ("saddr", "daddr", "id", "length", "ts")
    assert found.operator == WindowRows(
        stream="packets",
        unit="time",
        size=MINUTE,
        slide=MINUTE // 6,
        columns=tuple((name, name) for name in names),
        time="_time",
        filter="length > 3",
        order=(("length", True, False), ("daddr", False, True)),
        limit=5,
    )
    assert [name for name, _ in columns(found)] == [*names, "_time"]
    assert found.time == "_time"


def test_rows_with_the_ends_of_their_window(lookup: Lookup) -> None:
    found = plan(
        f"SELECT id, -length AS length, unix_seconds(window.start) AS s, s + 1 AS t, window_end AS closed {MINUTES} "
        "ORDER BY length, packets.length, closed",
        lookup,
    )
    assert isinstance(found.operator, WindowRows)
    assert found.operator.columns == (
        ("id", "id"),
        ("length", "-length"),
        ("s", "unix_seconds(window_start)"),
        ("t", "(unix_seconds(window_start)) + 1"),
        ("closed", "window_end"),
    )
    assert found.operator.order == (("-length", False, True), ("length", False, True))
    assert (found.time, columns(found)[-1]) == ("closed", ["closed", "TIMESTAMP"])


def test_the_end_of_a_window_of_rows_is_a_number_and_not_its_time(lookup: Lookup) -> None:
    found = plan("SELECT id, window_end FROM packets WINDOW = 5 ROWS", lookup)
    assert found.time == "_time"
    assert columns(found) == [["id", "BIGINT"], ["window_end", "BIGINT"], ["_time", "TIMESTAMP"]]


def test_stamps_of_arrival_are_selected_under_another_name_only(lookup: Lookup) -> None:
    assert rows("SELECT * FROM logins WINDOW = 5 ROWS", lookup).columns == (
        ("user", "user"),
        ("a b.c`d", "`a b.c``d`"),
    )
    assert rows("SELECT _time AS arrived FROM logins WINDOW = 5 ROWS", lookup).columns == (("arrived", "_time"),)


def test_distinct_groups_by_what_is_selected(lookup: Lookup) -> None:
    written = f"saddr, length * 2 AS l, l + 1 AS m, 7 AS seven, window_end {MINUTES}"
    distinct = aggregated(f"SELECT DISTINCT {written} WHERE id > 3 ORDER BY l", lookup)
    assert distinct.keys == (("saddr", "saddr"), ("length * 2", "length * 2"), ("(length * 2) + 1", "(length * 2) + 1"))
    assert distinct.aggregates == ()
    assert distinct.columns == (
        ("saddr", "saddr"),
        ("l", "`length * 2`"),
        ("m", "(`length * 2`) + 1"),
        ("seven", "7"),
        ("window_end", "window_end"),
    )
    assert (distinct.order, distinct.filter) == ((("`length * 2`", False, True),), "id > 3")


def test_distinct_star_is_every_column(lookup: Lookup) -> None:
    operator = aggregated("SELECT DISTINCT * EXCEPT (`a b.c``d`) FROM logins WINDOW = 5 ROWS", lookup)
    assert operator.keys == (("user", "user"),)


# -- set operations ----------------------------------------------------------------------------------


def test_a_plain_side_counts_its_rows(lookup: Lookup) -> None:
    found = plan(
        f"SELECT saddr AS host {MINUTES} WHERE length > 1 INTERSECT "
        "SELECT daddr FROM ptb WINDOW = INTERVAL 1 MINUTE WHERE length < 1",
        lookup,
    )
    side: dict[str, Any] = {
        "unit": "time",
        "size": MINUTE,
        "slide": MINUTE,
        "aggregates": (("__n", "count", None),),
        "columns": (("host", "host"), ("__n", "__n"), ("_time", "window_end")),
        "time": "_time",
    }
    assert found.operator == WindowSetOperation(
        operation="intersect",
        all=False,
        left=WindowAggregate(stream="packets", keys=(("host", "saddr"),), filter="length > 1", **side),
        right=WindowAggregate(stream="ptb", keys=(("host", "daddr"),), filter="length < 1", **side),
        names=("host",),
        time="_time",
    )
    assert (columns(found), found.time) == ([["host", "STRING"], ["_time", "TIMESTAMP"]], "_time")


@pytest.mark.parametrize(
    ("said", "operation", "every"),
    [
        ("INTERSECT", "intersect", False),
        ("INTERSECT ALL", "intersect", True),
        ("EXCEPT", "except", False),
        ("MINUS", "except", False),
        ("EXCEPT ALL", "except", True),
        ("UNION", "union", False),
        ("UNION DISTINCT", "union", False),
        ("UNION ALL", "union", True),
    ],
)
def test_the_operations(said: str, operation: str, every: bool, lookup: Lookup) -> None:
    found = sets(f"SELECT saddr FROM packets WINDOW = 9 ROWS {said} SELECT daddr FROM Packets WINDOW = 9 ROWS", lookup)
    assert (found.operation, found.all) == (operation, every)
    assert found.left.columns[-1] == found.right.columns[-1] == ("_time", "_time")


def test_an_aggregated_side_is_planned_as_it_is_and_its_time_comes_last(lookup: Lookup) -> None:
    found = sets(
        f"SELECT saddr, count(*) AS n, window_end {MINUTES} GROUP BY saddr HAVING median(length) > 1 "
        f"EXCEPT SELECT daddr, length, window_end {MINUTES}",
        lookup,
    )
    assert found.names == ("saddr", "n", "window_end")
    assert found.left.columns == (
        ("saddr", "saddr"),
        ("n", "`count(*)`"),
        ("window_end", "window_end"),
        ("_time", "window_end"),
    )
    assert (found.left.time, found.left.having) == ("_time", "`median(length)` > 1")
    assert found.right.keys == (("saddr", "daddr"), ("n", "CAST(length AS BIGINT)"))
    assert found.right.columns == (
        ("saddr", "saddr"),
        ("n", "n"),
        ("window_end", "window_end"),
        ("__n", "__n"),
        ("_time", "window_end"),
    )


def test_a_distinct_side_holds_each_row_once(lookup: Lookup) -> None:
    found = sets(f"SELECT DISTINCT saddr {MINUTES} EXCEPT ALL SELECT daddr {MINUTES}", lookup)
    assert (found.left.aggregates, found.left.columns) == ((), (("saddr", "saddr"), ("_time", "window_end")))
    assert found.right.aggregates == (("__n", "count", None),)


def test_stars_and_their_except_are_no_set_operation(lookup: Lookup) -> None:
    side = f"SELECT * EXCEPT (saddr, daddr, ts) {MINUTES}"
    assert sets(f"{side} EXCEPT {side}", lookup).names == ("id", "length")


@pytest.mark.parametrize(
    ("left", "right", "type_", "left_key", "right_key"),
    [
        ("length", "id", "BIGINT", "CAST(length AS BIGINT)", "id"),
        ("id", "length / 2", "DOUBLE", "CAST(id AS DOUBLE)", "length / 2"),
        ("ts", "CAST(ts AS DATE)", "TIMESTAMP", "ts", "CAST(CAST(ts AS DATE) AS TIMESTAMP)"),
    ],
)
def test_types_are_brought_together_before_rows_are_counted(
    left: str, right: str, type_: str, left_key: str, right_key: str, lookup: Lookup
) -> None:
    text = f"SELECT {left} AS x {MINUTES} UNION SELECT {right} {MINUTES}"
    found = sets(text, lookup)
    assert columns(plan(text, lookup))[0] == ["x", type_]
    assert found.left.keys == (("x", left_key),)
    assert found.right.keys == (("x", right_key),)


def test_constants_and_nulls_are_columns_without_keys(lookup: Lookup) -> None:
    found = sets(f"SELECT 1 AS one, NULL AS none {MINUTES} UNION SELECT 2, length {MINUTES}", lookup)
    assert found.left.keys == ()
    assert found.left.columns[:2] == (("one", "1"), ("none", "CAST(NULL AS INT)"))
    assert found.right.keys == (("none", "length"),)


def test_whole_numbers_meet_a_decimal_that_holds_them(lookup: Lookup) -> None:
    found = sets(
        "SELECT share FROM loads WINDOW = 9 ROWS UNION SELECT CAST(load AS INT) FROM loads WINDOW = 9 ROWS", lookup
    )
    assert found.right.keys == (("share", "CAST(CAST(`load` AS INT) AS DECIMAL(30, 2))"),)


# -- EMIT --------------------------------------------------------------------------------------------


def test_changes_of_aggregates_are_wrapped(lookup: Lookup) -> None:
    text = f"SELECT saddr, count(*) AS n {MINUTES} GROUP BY saddr ORDER BY n DESC LIMIT 3"
    found = plan(f"{text} emit changes", lookup)
    assert found.operator == WindowChanges(aggregated(text, lookup))
    assert columns(found) == [["saddr", "STRING"], ["n", "BIGINT"], ["_time", "TIMESTAMP"], ["_change", "STRING"]]
    assert found.time == "_time"


def test_changes_of_set_operations_are_wrapped(lookup: Lookup) -> None:
    text = f"SELECT saddr {MINUTES} INTERSECT SELECT daddr {MINUTES}"
    found = plan(f"{text} EMIT CHANGES", lookup)
    assert found.operator == WindowChanges(sets(text, lookup))
    assert columns(found) == [["saddr", "STRING"], ["_time", "TIMESTAMP"], ["_change", "STRING"]]


def test_changes_of_rows_are_the_operators_own(lookup: Lookup) -> None:
    found = plan(f"SELECT saddr {MINUTES} EMIT CHANGES", lookup)
    assert isinstance(found.operator, WindowRows)
    assert found.operator.changes
    assert columns(found) == [["saddr", "STRING"], ["_time", "TIMESTAMP"], ["_change", "STRING"]]


@pytest.mark.parametrize(
    "text",
    [
        f"SELECT saddr {MINUTES}",
        f"SELECT median(id) AS m {MINUTES}",
        f"SELECT saddr {MINUTES} UNION SELECT daddr {MINUTES}",
        "SELECT count(*) AS n FROM packets GROUP BY getminute(ts)",
    ],
)
def test_final_is_the_default(text: str, lookup: Lookup) -> None:
    assert plan(f"{text} EMIT FINAL", lookup).operator == plan(text, lookup).operator


def test_emit_may_be_a_name(lookup: Lookup) -> None:
    (statement,) = parse("SELECT id AS emit, emit AS changes FROM packets emit")
    assert isinstance(statement, SelectOnce)
    assert statement.select.emit is None
    assert plan_standing(statement.select, lookup).stream == "packets"


# -- hints -------------------------------------------------------------------------------------------


def test_hints_of_rows(lookup: Lookup) -> None:
    operator = rows(f"SELECT /*+ index( t ) storage(List), RING(db) */ saddr {MINUTES} ORDER BY length", lookup)
    assert (operator.index, operator.storage, operator.ring) == ("T", "LIST", "DB")


@pytest.mark.parametrize(
    ("hint", "selected", "index", "storage"),
    [
        ("INDEX(UH), STORAGE(HASH)", "median(length)", "UH", "HASH"),
        ("INDEX(G)", "approx_percentile(length, 0.5)", "G", None),
        ("STORAGE(GROUP) INDEX(G)", "approx_percentile(length, 0.5)", "G", "GROUP"),
        ("INDEX(T)", "count(DISTINCT saddr), approx_median(length), sum(length)", "T", None),
        ("", "mode(saddr)", None, None),
    ],
)
def test_hints_of_aggregates(hint: str, selected: str, index: str | None, storage: str | None, lookup: Lookup) -> None:
    operator = aggregated(f"SELECT /*+ {hint} */ {selected} {MINUTES}", lookup)
    assert (operator.index, operator.storage) == (index, storage)


def test_each_side_of_a_set_operation_has_its_own_hints(lookup: Lookup) -> None:
    side = f"median(length) {MINUTES}"
    found = sets(f"SELECT /*+ INDEX(T) */ {side} UNION SELECT /*+ INDEX(H) */ {side}", lookup)
    assert (found.left.index, found.right.index) == ("T", "H")


def test_the_source_keeps_hints_and_emit(lookup: Lookup) -> None:
    text = f"SELECT /*+ INDEX(L) */ median(id) {MINUTES} EMIT CHANGES"
    (statement,) = parse(f"{text};")
    assert isinstance(statement, SelectOnce)
    assert statement.select.source == text


# -- EXPLAIN -----------------------------------------------------------------------------------------


def leaf(stream: str, filter_sql: str | None) -> dict[str, Any]:
    return {
        "operator": "inner",
        "inputs": [stream],
        "filter": filter_sql,
        "aggregates": {"percentile(v, 0.5)": "percentile(0.5)(v)", "__n": "count(*)"},
        "keeps": {"what": "counts", "bound": "6 panes"},
    }


def test_explain_draws_the_sides_as_branches_and_shows_what_operators_say() -> None:
    said = {
        "operator": "outer",
        "operation": "intersect",
        "mode": "windowed in, windowed out",
        "order": ["n DESC", "k"],
        "answer_delay": "1 basic window",
        "left": leaf("a", "x > 1"),
        "right": {"operator": "middle", "keeps": None, "inner": leaf("b", None)},
    }
    data = plan_as_dict(said, None, None, "_time")
    assert data["streams"] == [
        {"stream": "a", "filter_pushed_to_read": "x > 1"},
        {"stream": "b", "filter_pushed_to_read": None},
    ]
    assert (
        as_text(data)
        == """\
answer: known once Spark has read the query
  time: _time
└─ outer
   operation: intersect
   mode: windowed in, windowed out
   order: n DESC, k
   answer delay: 1 basic window
   keeps: nothing between batches
   ├─ left: inner
   │  filter: x > 1
   │  aggregates: percentile(v, 0.5), count(*) AS __n
   │  keeps: counts; 6 panes
   │  └─ stream a
   │     filter pushed to the read: x > 1
   └─ right: middle
      keeps: nothing between batches
      └─ inner
         aggregates: percentile(v, 0.5), count(*) AS __n
         keeps: counts; 6 panes
         └─ stream b"""
    )


# -- plans and operators agree -----------------------------------------------------------------------


class _OnlyASchema:
    """A log reader as far as an operator's schema needs it."""

    def __init__(self, schema: StreamSchema) -> None:
        self.schema = schema.arrow
        self.time_column = schema.time


EVERY_KIND = [
    f"SELECT saddr, median(length), mode(daddr) AS m, approx_count_distinct(id) {MINUTES} GROUP BY saddr ORDER BY m",
    "SELECT window_end, percentile_disc(0.5) WITHIN GROUP (ORDER BY saddr) AS d FROM packets WINDOW = 9 ROWS LIMIT 1",
    f"SELECT *, window_start {MINUTES} ORDER BY length DESC LIMIT 3",
    f"SELECT id, window_end {MINUTES} EMIT CHANGES",
    "SELECT *, window_end, _time AS arrived FROM logins WINDOW = 9 ROWS SLIDE 2 ROWS EMIT CHANGES",
    "SELECT DISTINCT * FROM logins WINDOW = 9 ROWS",
    f"SELECT id, window_end {MINUTES} EXCEPT ALL SELECT length, window_end {MINUTES}",
    f"SELECT count(DISTINCT saddr) AS n {MINUTES} UNION SELECT 1.5D {MINUTES} EMIT CHANGES",
    f"SELECT saddr, count(*) AS n {MINUTES} GROUP BY saddr EMIT CHANGES",
]


@pytest.mark.parametrize("text", EVERY_KIND)
def test_the_planned_schema_is_the_operators(text: str, lookup: Lookup) -> None:
    found = plan(text, lookup)
    assert found.schema is not None
    readers: dict[str, Any] = {stream: _OnlyASchema(lookup(stream)) for stream in found.operator.inputs}
    operator_schema = found.operator.schema(Inputs(readers))
    assert found.schema.arrow.equals(operator_schema), (found.schema.arrow, operator_schema)
    assert found.operator.time == found.schema.time == found.time


@pytest.mark.parametrize("text", EVERY_KIND)
def test_operators_survive_json(text: str, lookup: Lookup) -> None:
    operator = plan(text, lookup).operator
    assert operator_from_json(json.loads(json.dumps(operator.to_json()))) == operator


@pytest.mark.parametrize("text", EVERY_KIND)
def test_every_plan_can_be_explained(text: str, lookup: Lookup) -> None:
    found = plan(text, lookup)
    assert json.loads(found.explain_json())["steps"][0]["operator"] == found.operator.kind
    assert f"─ stream {found.stream}" in found.explain_text()
