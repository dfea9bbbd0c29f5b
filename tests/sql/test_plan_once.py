"""SELECT asked once: streams behind safe names, and only what is needed of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from anabranch.errors import AnabranchError
from anabranch.schema import StreamSchema
from anabranch.sql import OncePlan, parse, plan_once
from anabranch.sql.statements import SelectOnce

Lookup = Callable[[str], StreamSchema]


def plan(text: str, lookup: Lookup) -> OncePlan:
    (statement,) = parse(text)
    assert isinstance(statement, SelectOnce)
    return plan_once(statement.select, lookup)


def test_a_stream_is_read_under_a_safe_name_with_the_columns_and_rows_needed(lookup: Lookup) -> None:
    found = plan("SELECT saddr FROM Packets WHERE length > 3 AND soundex(daddr) = 'x' ORDER BY saddr LIMIT 5", lookup)
    assert found.sql == (
        "SELECT `saddr` FROM `__stream0_0` AS `Packets` WHERE `length` > 3 AND SOUNDEX(`daddr`) = 'x' "
        "ORDER BY `saddr` LIMIT 5"
    )
    (use,) = found.streams
    assert (use.stream, use.view, use.columns) == ("Packets", "__stream0_0", ("saddr", "daddr", "length"))
    assert use.filter == "length > 3"


def test_star_needs_all_columns_and_count_none(lookup: Lookup) -> None:
    assert plan("SELECT * FROM packets", lookup).streams[0].columns is None
    assert plan("SELECT count(*) FROM packets", lookup).streams[0].columns == ()
    assert plan("SELECT saddr FROM packets NATURAL JOIN ptb", lookup).streams[0].columns is None
    assert plan("SELECT count(*) FROM packets JOIN ptb USING (id)", lookup).streams[0].columns == ("id",)


def test_a_stream_read_twice_is_one_view_and_is_not_filtered(lookup: Lookup) -> None:
    found = plan("SELECT a.id FROM packets a JOIN Packets b ON a.id = b.id WHERE a.length > 3", lookup)
    assert [(use.stream, use.filter) for use in found.streams] == [("packets", None)]
    assert found.sql is not None
    assert found.sql.count("`__stream0_0`") == 2


def test_rejects_and_quoted_names_are_streams(lookup: Lookup) -> None:
    assert plan("SELECT * FROM packets.rejects", lookup).streams[0].stream == "packets.rejects"
    assert plan("SELECT * FROM `x.y`", lookup).streams[0].stream == "x.y"


def test_a_with_hides_a_stream_only_where_it_is_seen(lookup: Lookup) -> None:
    assert plan("WITH packets AS (SELECT 1 AS a) SELECT a FROM packets", lookup).streams == ()
    inner = plan("WITH packets AS (SELECT id FROM packets) SELECT id FROM packets", lookup)
    assert [use.stream for use in inner.streams] == ["packets"]
    with pytest.raises(AnabranchError, match="STREAM_NOT_FOUND"):
        plan("SELECT * FROM (WITH secret AS (SELECT 1) SELECT * FROM secret) a JOIN secret b", lookup)


def test_view_names_avoid_names_of_the_query(lookup: Lookup) -> None:
    found = plan("WITH __stream0_0 AS (SELECT 1 AS a) SELECT a, id FROM __stream0_0, packets", lookup)
    assert found.streams[0].view == "__stream1_0"


def test_a_windowed_select_is_planned_as_standing(lookup: Lookup) -> None:
    found = plan("SELECT count(*) AS n FROM packets WINDOW = INTERVAL 1 MINUTE", lookup)
    assert found.sql is None
    assert found.standing is not None
    assert found.standing.stream == "packets"


def test_getminute_is_what_spark_has(lookup: Lookup) -> None:
    assert plan("SELECT sum(length) AS load FROM PTb GROUP BY getminute(ts)", lookup).sql == (
        "SELECT SUM(`length`) AS `load` FROM `__stream0_0` AS `PTb` GROUP BY DATE_TRUNC('MINUTE', `ts`)"
    )


@pytest.mark.parametrize(
    "text",
    [
        "SELECT sum(length) OVER w, lag(id, 1) OVER (ORDER BY ts) FROM packets WINDOW w AS (PARTITION BY saddr)",
        "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY length) FROM packets",
        "SELECT id FROM packets WHERE id IN (SELECT id FROM ptb) AND EXISTS (SELECT 1 FROM logins)",
        "SELECT id FROM packets UNION ALL SELECT 2 EXCEPT SELECT 3",
        "SELECT e FROM packets LATERAL VIEW OUTER explode(split(saddr, ',')) t AS e",
        "SELECT saddr, grouping(saddr) FROM packets GROUP BY CUBE(saddr)",
        "SELECT filter(array(1, 2), x -> x > 1), array(1, 2)[0], struct(1 AS a).a, CAST(NULL AS MAP<STRING, INT>)",
        "SELECT * FROM VALUES (1, 'a'), (2, 'b') AS t(x, y) WHERE x > 1",
        "SELECT * FROM packets PIVOT (sum(length) AS s FOR saddr IN ('a' AS ab))",
        "SELECT dateadd(DAY, 1, ts), extract(HOUR FROM ts), trim(BOTH 'x' FROM saddr), '5'::int FROM packets",
        "SELECT window.start, count(*) FROM packets GROUP BY window(ts, '1 minute')",
        "WITH a(x) AS (SELECT id FROM packets), b AS (SELECT x FROM a) SELECT a.x, b.x FROM a, b",
        "SELECT user FROM logins",
    ],
)
def test_sparks_own_queries_pass(text: str, lookup: Lookup) -> None:
    assert plan(text, lookup).sql


def test_functions_reach_spark_as_they_were_written(lookup: Lookup) -> None:
    sql = plan("SELECT max_by(saddr, ts), nvl(saddr, 'x'), date_add(ts, 1), array(7, 8)[0] FROM packets", lookup).sql
    assert sql == (
        "SELECT MAX_BY(`saddr`, `ts`), NVL(`saddr`, 'x'), DATE_ADD(`ts`, 1), ARRAY(7, 8)[0] "
        "FROM `__stream0_0` AS `packets`"
    )
