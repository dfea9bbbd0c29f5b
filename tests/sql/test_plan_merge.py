"""Merges of streams: keys and their types, tolerances, equalities, several streams, names, and what is refused."""

from __future__ import annotations

import json

import pytest

from anabranch.operators import OPERATORS, operator_from_json
from anabranch.operators.merge.operator import Merge
from anabranch.operators.merge.range_operator import RangeMerge
from anabranch.sql import parse, plan_once, plan_standing
from anabranch.sql.statements import CreateStreamAs
from tests.sql import joins
from tests.sql.merges import FROM, ON, SECOND, find_stream, merge, plan, range_merge, refused, select

HOUR = 3600.0 * SECOND
TIME = ("_time", "_time")
LAT = ("`p.lat`", "`f.lat`", 0.25)


def keys(condition: str) -> list[tuple[str, str, float | str]]:
    found = merge(f"SELECT p.lat FROM rain p MERGE JOIN floods f ON {condition}")
    assert found.by == ((),)
    (only,) = found.keys
    return list(only)


# -- what is merged ----------------------------------------------------------------------------------


def test_a_merge_as_a_whole() -> None:
    found = plan(
        "SELECT p.lat, p.rain, f.depth FROM rain p MERGE JOIN floods f ON within(p.lat, f.lat, 0.25) "
        "AND within(p.lon, f.lon, 0.5) AND within(p.ts, f.ts, INTERVAL 1 HOUR) AND p.station = f.station "
        "WITH (algorithm = 'cgm', window = 5000, step = 1000) WHERE p.rain > 0"
    )
    assert found.operator == Merge(
        sources=(("p", "rain"), ("f", "floods")),
        keys=((LAT, ("`p.lon`", "`f.lon`", 0.5), ("`p.ts`", "`f.ts`", HOUR)),),
        by=((("`p.station`", "`f.station`"),),),
        joins=("inner",),
        conditions=("`p.rain` > 0",),
        columns=(("lat", "`p.lat`"), ("rain", "`p.rain`"), ("depth", "`f.depth`"), TIME),
        time="_time",
    )
    assert (found.stream, found.time, found.residual_sql) == ("rain", "_time", None)
    assert joins.columns(found) == [["lat", "DOUBLE"], ["rain", "FLOAT"], ["depth", "DOUBLE"], ["_time", "TIMESTAMP"]]


def test_every_option_reaches_the_operator() -> None:
    found = merge(
        f"SELECT p.lat {FROM} WITH (policy = 'nearest', window = 300, step = 7, every = INTERVAL 1 MINUTE, delta = "
        "0.02, "
        "over = 5, memory = '1 MB')"
    )
    assert (found.policy, found.window, found.step, found.every) == ("nearest", 300, 7, 60 * SECOND)
    assert (found.delta, found.over, found.memory) == (0.02, 5, 1_000_000)
    assert merge(f"SELECT p.lat {FROM} WITH (every = 0)").every is None


@pytest.mark.parametrize(
    ("text", "pace", "wait"),
    [
        ("rain p MERGE JOIN floods f ON within(p.lat, f.lat, 1)", "rows", None),
        ("rain p LEFT MERGE JOIN floods f ON within(p.lat, f.lat, 1)", "rows", None),
        ("rain p MERGE JOIN floods f ON within(p.ts, f.ts, INTERVAL 1 HOUR)", "time", None),
        ("rain p FULL MERGE JOIN floods f ON within(f.ts, p.ts, INTERVAL 1 HOUR)", "time", HOUR),
        ("rain p MERGE JOIN floods f ON within(p.ts, f.ts, INTERVAL 0 SECONDS) WITH (policy = 'nearest')", "time", 1),
        ("rain p MERGE JOIN floods f ON within(p.lat, f.lat, 1) WITH (pace = 'time')", "time", None),
        ("rain p MERGE JOIN floods f ON within(p.ts, f.ts, INTERVAL 1 HOUR) WITH (pace = 'rows')", "rows", None),
        ("rain p LEFT MERGE JOIN floods f ON within(p.ts, f.ts, INTERVAL 1 HOUR) WITH (wait = 0)", "time", None),
        ("rain p MERGE JOIN floods f ON within(p.lat, f.lat, 1) WITH (wait = INTERVAL 1 SECOND)", "rows", SECOND),
    ],
)
def test_pace_and_wait_follow_from_keys(text: str, pace: str, wait: float | None) -> None:
    found = merge(f"SELECT p.lat FROM {text}")
    assert (found.pace, found.wait, found.paced_by) == (pace, wait, pace)


def test_the_stream_that_answers_range_queries() -> None:
    found = range_merge(
        "SELECT f.depth FROM rain p LEFT MERGE JOIN floods f ON within(f.lat, p.lat, 0.25) AND p.station = f.station "
        "WITH (algorithm = 'rtm', policy = 'all', window = 9, every = 0, remainder = 'difference') WHERE p.n = 1"
    )
    assert found == RangeMerge(
        sources=(("p", "rain"), ("f", "floods")),
        keys=((LAT,),),
        by=((("`p.station`", "`f.station`"),),),
        joins=("left",),
        conditions=("`p.n` = 1",),
        columns=(("depth", "`f.depth`"), TIME),
        time="_time",
        policy="all",
        window=9,
        every=None,
        remainder="difference",
    )


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("", "inner"), ("INNER", "inner"), ("LEFT", "left"), ("left outer", "left"), ("FULL", "full"),
        ("FULL OUTER", "full"), ("LEFT ANTI", "anti"),
    ],
)  # fmt: skip
def test_kinds(words: str, kind: str) -> None:
    text = f"SELECT p.lat FROM rain AS p {words} MERGE JOIN floods AS f {ON}"
    assert merge(text).joins == (kind,)
    if kind != "full":
        assert range_merge(f"{text} WITH (algorithm = 'rtm')").joins == (kind,)


def test_a_stream_of_merged_rows_can_be_made() -> None:
    (statement,) = parse(f"CREATE STREAM near AS SELECT p.lat {FROM}")
    assert isinstance(statement, CreateStreamAs)
    assert plan_standing(statement.select, find_stream).operator == merge(f"SELECT p.lat {FROM}")


def test_only_merges_count_streams_asked_once_as_ended() -> None:
    for text in ("SELECT lat FROM rain", "SELECT count(*) FROM rain WINDOW = INTERVAL 1 SECOND"):
        assert not plan_once(select(text), find_stream).ended


PI = "3.14159265358979323846264338327"
"""A tolerance that no double is."""


# -- keys --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("condition", "wanted"),
    [
        ("within(p.lat, f.lat, 0.25)", LAT),
        ("within(f.lat, p.lat, 0.25)", LAT),
        ("((WITHIN(P.LAT, (F.Lat), (0.25))))", LAT),
        ("within(p.n, f.n, 3)", ("`p.n`", "`f.n`", 3.0)),
        ("within(p.n, f.lat, 0)", ("`p.n`", "`f.lat`", 0.0)),
        ("within(p.price, f.n, 1e2)", ("`p.price`", "`f.n`", 100.0)),
        ("within(p.price, f.depth, .5)", ("`p.price`", "`f.depth`", 0.5)),
        ("within(p.price, f.n, 0.1)", ("`p.price`", "`f.n`", 0.1)),
        ("within(p.price, f.n, 1e-15)", ("`p.price`", "`f.n`", 1e-15)),
        (f"within(p.price, f.n, {PI})", ("`p.price`", "`f.n`", PI)),
        (f"within(p.price, f.n, {PI}BD + 0)", ("`p.price`", "`f.n`", PI)),
        ("within(p.n, f.n, 9007199254740993)", ("`p.n`", "`f.n`", "9007199254740993")),
        ("within(p.n, f.n, 9007199254740992)", ("`p.n`", "`f.n`", 2.0**53)),
        ("within(p.n, f.n, 1e-99999999999999999999)", ("`p.n`", "`f.n`", 0.0)),
        ("within(p.lat, f.lat, 1 / 4)", LAT),
        ("within(p.lat, f.lat, 0.25D)", LAT),
        ("within(rain, depth, 5L)", ("`p.rain`", "`f.depth`", 5.0)),
        ("within(p.lat + p.lon, f.lat * 2, 1)", ("`p.lat` + `p.lon`", "`f.lat` * 2", 1.0)),
        ("within(p.ts, f.ts, INTERVAL 1 HOUR)", ("`p.ts`", "`f.ts`", HOUR)),
        ("within(p.ts, f.ts, INTERVAL 0 SECONDS)", ("`p.ts`", "`f.ts`", 0.0)),
        ("within(p.ts, f.ts, (INTERVAL 1 HOUR 30 MINUTES))", ("`p.ts`", "`f.ts`", 1.5 * HOUR)),
        ("within(p.ts, f.ts, INTERVAL '1 hour 30 minutes')", ("`p.ts`", "`f.ts`", 1.5 * HOUR)),
        ("within(p.ts, f.ts, INTERVAL '0.5' SECOND)", ("`p.ts`", "`f.ts`", 0.5 * SECOND)),
        ("within(f.ts + INTERVAL 1 HOUR, p.ts, INTERVAL 1 HOUR)", ("`p.ts`", "`f.ts` + INTERVAL '1' HOUR", HOUR)),
        ("within(getminute(p.ts), f.ts, INTERVAL 1 SECOND)", ("date_trunc('MINUTE', `p.ts`)", "`f.ts`", 1.0 * SECOND)),
        ("within(p.day, f.day, 2)", ("`p.day`", "`f.day`", 2.0)),
        ("within(p.day, f.day, INTERVAL 1 WEEK)", ("`p.day`", "`f.day`", 7.0)),
        ("within(p.day, f.day, INTERVAL 48 HOURS)", ("`p.day`", "`f.day`", 2.0)),
    ],
)  # fmt: skip
def test_keys_and_tolerances(condition: str, wanted: tuple[str, str, float | str]) -> None:
    assert keys(condition) == [wanted]


def test_keys_stay_in_their_order() -> None:
    assert keys("within(p.lon, f.lon, 1) AND (within(f.n, p.n, 2) AND within(p.lat, f.lat, 0.25))") == [
        ("`p.lon`", "`f.lon`", 1.0),
        ("`p.n`", "`f.n`", 2.0),
        LAT,
    ]


@pytest.mark.parametrize(
    ("condition", "wanted"),
    [
        ("p.station = f.station", ("`p.station`", "`f.station`")),
        ("f.station = p.station", ("`p.station`", "`f.station`")),
        ("(p.wet) = (f.wet)", ("`p.wet`", "`f.wet`")),
        ("p.n = f.n", ("CAST(`p.n` AS BIGINT)", "`f.n`")),
        ("p.n = f.depth", ("CAST(`p.n` AS DOUBLE)", "`f.depth`")),
        ("p.n + 1 = f.n % 5", ("CAST((`p.n` + 1) AS BIGINT)", "`f.n` % 5")),
        ("p.ts = f.day", ("`p.ts`", "CAST(`f.day` AS TIMESTAMP)")),
        ("f.ts = p.ts", ("`p.ts`", "`f.ts`")),
    ],
)
def test_equalities_are_brought_to_one_type(condition: str, wanted: tuple[str, str]) -> None:
    found = merge(f"SELECT p.lat FROM rain p MERGE JOIN floods f ON {condition} AND within(p.lat, f.lat, 0.25)")
    assert (found.keys, found.by) == (((LAT,),), ((wanted,),))


# -- several streams ---------------------------------------------------------------------------------


def test_several_streams_are_merged_one_after_the_other() -> None:
    found = merge(
        "SELECT p.lat, w.speed FROM rain p LEFT MERGE JOIN floods f ON within(p.lat, f.lat, 0.25) AND p.n = f.n "
        "INNER MERGE JOIN winds w ON within(w.lat, (p.lat+f.lat) / 2, 1) AND within(f.ts, w._time, INTERVAL 1 SECOND) "
        "MERGE JOIN floods g ON within(g.lat, w.lat, 2) WITH (window = 9)"
    )
    assert found.sources == (("p", "rain"), ("f", "floods"), ("w", "winds"), ("g", "floods"))
    assert found.inputs == ("rain", "floods", "winds")
    assert found.joins == ("left", "inner", "inner")
    assert found.keys == (
        (LAT,),
        (("(`p.lat` + `f.lat`) / 2", "`w.lat`", 1.0), ("`f.ts`", "`w._time`", 1.0 * SECOND)),
        (("`w.lat`", "`g.lat`", 2.0),),
    )
    assert found.by == ((("CAST(`p.n` AS BIGINT)", "`f.n`"),), (), ())
    assert (found.window, found.step) == (9, 1)


def test_the_last_of_several_may_be_full_or_anti() -> None:
    text = f"SELECT p.lat {FROM} LEFT MERGE JOIN floods g ON within(p.n, g.n, 1)"
    full = merge(f"{text} FULL MERGE JOIN winds w ON within(w.lat, f.lat, 1)")
    assert full.joins == ("inner", "left", "full")
    anti = merge(f"{text} LEFT ANTI MERGE JOIN winds w ON within(w.lat, f.lat, 1)")
    assert anti.joins == ("inner", "left", "anti")


def test_a_name_in_on_is_looked_up_among_the_streams_so_far() -> None:
    found = merge(f"SELECT p.n {FROM} MERGE JOIN winds ON within(speed, depth, 1)")
    assert found.keys[1] == (("`f.depth`", "`winds.speed`", 1.0),)
    assert refused(
        "SELECT p.n FROM rain p MERGE JOIN floods f ON within(rain, speed, 1) MERGE JOIN winds w ON TRUE"
    ) == (
        'COLUMN_NOT_FOUND (line 1, column 60) column "speed" is not in p and f. Hint: there are: day, depth, lat, lon, '
        "n, price, rain, station, ts, wet"
    )


def test_a_stream_can_be_merged_with_itself() -> None:
    found = merge("SELECT a.n, b.n AS m FROM rain a MERGE JOIN rain b ON within(a.lat, b.lat, 1)")
    assert (found.sources, found.inputs) == ((("a", "rain"), ("b", "rain")), ("rain",))


def test_sixteen_streams_can_be_merged() -> None:
    more = [f"MERGE JOIN winds w{i} ON within(w{i - 1}.lat, w{i}.lat, 1)" for i in range(1, 16)]
    assert len(merge(f"SELECT w0.lat FROM winds w0 {' '.join(more)}").sources) == 16
    more.append("MERGE JOIN winds w16 ON within(w0.lat, w16.lat, 1)")
    assert "TOO_MANY_STREAMS" in refused(f"SELECT w0.lat FROM winds w0 {' '.join(more)}")


# -- the answer --------------------------------------------------------------------------------------


def test_star_is_every_column_and_names_that_come_twice_get_their_source() -> None:
    found = plan("SELECT * FROM rain p FULL MERGE JOIN winds w ON within(p.lat, w.lat, 1)")
    assert joins.columns(found) == [
        ["station", "STRING"],
        ["p_lat", "DOUBLE"],
        ["lon", "DOUBLE"],
        ["rain", "FLOAT"],
        ["day", "DATE"],
        ["n", "INT"],
        ["price", "DECIMAL(10,2)"],
        ["wet", "BOOLEAN"],
        ["ts", "TIMESTAMP"],
        ["w_lat", "DOUBLE"],
        ["speed", "DOUBLE"],
        ["w__time", "TIMESTAMP"],
        ["_time", "TIMESTAMP"],
    ]


def test_star_of_one_stream_and_star_except() -> None:
    start = "FROM winds a LEFT MERGE JOIN winds b ON within(a.lat, b.lat, 1)"
    assert merge(f"SELECT b.*, a.speed AS s {start}").columns == (
        ("lat", "`b.lat`"),
        ("speed", "`b.speed`"),
        ("b__time", "`b._time`"),
        ("s", "`a.speed`"),
        TIME,
    )
    assert merge(f"SELECT * EXCEPT (_time, LAT) {start}").columns == (
        ("a_speed", "`a.speed`"),
        ("b_speed", "`b.speed`"),
        TIME,
    )


def test_rows_without_a_partner_have_the_columns_of_earlier_streams_only() -> None:
    found = merge("SELECT * FROM winds p LEFT ANTI MERGE JOIN floods f ON within(lon, speed, 1) WHERE lat > 3")
    assert found.columns == (("lat", "`p.lat`"), ("speed", "`p.speed`"), ("p__time", "`p._time`"), TIME)
    assert found.keys == ((("`p.speed`", "`f.lon`", 1.0),),)
    assert found.conditions == ("`p.lat` > 3",)


def test_the_time_of_the_round_can_be_selected_renamed_and_compared() -> None:
    found = plan(f"SELECT _time AS merged, p.ts, _time > p.ts AS later {FROM} WHERE _time > TIMESTAMP '2026-01-01'")
    assert isinstance(found.operator, Merge)
    assert found.operator.columns == (("merged", "_time"), ("ts", "`p.ts`"), ("later", "_time > `p.ts`"))
    assert (found.time, found.operator.time) == ("merged", "merged")
    assert found.operator.conditions == ("_time > CAST('2026-01-01' AS TIMESTAMP)",)


def test_where_is_about_merged_rows_and_never_pushed() -> None:
    found = plan(f"SELECT p.n {FROM} WHERE p.n > 3 AND (f.n < 5 OR f.n IS NULL) AND p.n + f.n < 9 AND rain > depth")
    assert isinstance(found.operator, Merge)
    assert found.operator.conditions == (
        "`p.n` > 3",
        "`f.n` < 5 OR `f.n` IS NULL",
        "`p.n` + `f.n` < 9",
        "`p.rain` > `f.depth`",
    )
    assert {read["filter_pushed_to_read"] for read in found.explain()["streams"]} == {None}


def test_what_arrow_cannot_do_is_left_to_spark() -> None:
    found = plan(f"SELECT soundex(p.station) AS s, f.depth {FROM} WHERE soundex(f.station) = p.station AND p.n > 3")
    assert isinstance(found.operator, Merge)
    names = ("p.station", "f.station", "f.depth")
    assert found.operator.columns == (*((name, f"`{name}`") for name in names), TIME)
    assert found.operator.conditions == ("`p.n` > 3",)
    assert found.residual_sql == (
        "SELECT SOUNDEX(`p.station`) AS `s`, `f.depth` AS `depth`, `_time` AS `_time` FROM `__input` "
        "WHERE SOUNDEX(`f.station`) = `p.station`"
    )
    assert (found.schema, found.time) == (None, "_time")


def test_names_may_hold_anything_and_be_in_any_case() -> None:
    found = merge(
        "SELECT O.`A B` AS `q.r`, `x.y`.AT FROM `x.y` merge join `X.y` AS o ON WITHIN(`x.y`.`a b`, o.`A b`, 2) "
        "AND o.`K``l` = `x.y`.`k``L` where O.at > `X.Y`.at"
    )
    assert found.sources == (("x.y", "x.y"), ("o", "X.y"))
    assert found.keys == ((("`x.y.a b`", "`o.a b`", 2.0),),)
    assert found.by == ((("`x.y.k``l`", "`o.k``l`"),),)
    assert found.conditions == ("`o.at` > `x.y.at`",)
    assert found.columns == (("q.r", "`o.a b`"), ("at", "`x.y.at`"), TIME)


def test_window_joins_are_planned_as_before() -> None:
    found = joins.plan("SELECT x.k FROM a x, b y WINDOW = INTERVAL 1 SECOND WHERE x.k = y.k WITH (memory = '64 MB')")
    assert found.operator.kind == "window_join"


PLANS = [
    f"SELECT * {FROM} AND p.n = f.n WITH (delta = 0.1) WHERE p.n > 3",
    f"SELECT * {FROM} WITH (algorithm = 'rtm', every = 0)",
    f"SELECT soundex(p.station) AS s {FROM}",
]


@pytest.mark.parametrize("text", PLANS)
def test_a_plan_can_be_written_down_and_explained(text: str) -> None:
    found = plan(text)
    assert found.operator.kind in OPERATORS
    assert operator_from_json(json.loads(json.dumps(found.operator.to_json()))) == found.operator
    shown = json.loads(found.explain_json())
    assert shown["steps"][-1]["operator"] == found.operator.kind
    assert [each["stream"] for each in shown["streams"]] == ["rain", "floods"]
    assert found.operator.kind in found.explain_text()


def test_decimals_and_whole_numbers_can_be_equal() -> None:
    """Both sides in the type in which Spark compares them."""
    found = merge(f"SELECT p.lat {FROM} AND p.price = f.n")
    assert found.by == ((("CAST(`p.price` AS DECIMAL(22, 2))", "CAST(`f.n` AS DECIMAL(22, 2))"),),)
