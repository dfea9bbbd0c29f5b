"""Archives in SQL: statements, the clauses about the past, and the plans of queries that have them."""

from __future__ import annotations

import datetime as dt
import json

import pytest
from sqlglot import exp

from anabranch.operators.history.join import HistoryJoin
from anabranch.operators.history.join_aggregate import HistoryJoinAggregate
from anabranch.operators.history.landmark import Landmark
from anabranch.sql import ArchiveQuestion, ArchiveUse, parse, plan_standing
from anabranch.sql import statements as s
from anabranch.sql.archive_tree import Accuracy, ArchiveTable, Portions, ReduceBy, Since
from tests.sql.archives import DAY, HOUR, LAST, MINUTE, NOVEMBER, SECOND, find_stream, once, question, select, standing

# -- statements --------------------------------------------------------------------------------------

STATEMENTS = [
    (
        "CREATE ARCHIVE ON cars USING randomize_then_sort OPTIONS (blocks 500)",
        s.CreateArchive("cars", None, "randomize_then_sort", options={"blocks": "500"}),
    ),
    (
        "create archive if not exists small on `my cars` using On_Write_Replicate "
        "options (levels '20, 40', compression = 'none', seed 7) keep interval 90 days",
        s.CreateArchive(
            "my cars",
            "small",
            "on_write_replicate",
            keep_us=90 * DAY,
            options={"levels": "20, 40", "compression": "none", "seed": "7"},
            if_not_exists=True,
        ),
    ),
    (
        "CREATE ARCHIVE ON cars USING randomize_then_sort BY plate",
        s.CreateArchive("cars", None, "randomize_then_sort", by="plate"),
    ),
    (
        "CREATE ARCHIVE hourly ON cars USING windowed_aggregation EVERY INTERVAL 1 HOUR GROUP BY exit, `plate`",
        s.CreateArchive("cars", "hourly", "windowed_aggregation", every_us=HOUR, group_by=("exit", "plate")),
    ),
    ("CREATE ARCHIVE `on` ON cars USING plain", s.CreateArchive("cars", "on", "plain")),
    ("ALTER ARCHIVE ON cars ADD LEVEL 95 PERCENT", s.AlterArchive("cars", None, add_level=95)),
    ("ALTER ARCHIVE small ON cars DROP LEVEL 20 PERCENT", s.AlterArchive("cars", "small", drop_level=20)),
    ("ALTER ARCHIVE cars KEEP INTERVAL 1 WEEK", s.AlterArchive("cars", None, keep_us=7 * DAY)),
    ("DROP ARCHIVE small ON cars", s.Drop("archive", "small", on="cars")),
    ("DROP ARCHIVE IF EXISTS ON cars", s.Drop("archive", None, if_exists=True, on="cars")),
    ("DROP ARCHIVE cars", s.Drop("archive", None, on="cars")),
    ("DESCRIBE ARCHIVE small ON cars", s.Describe("archive", "small", "cars")),
    ("DESC ARCHIVE cars", s.Describe("archive", None, "cars")),
    ("DESCRIBE archive", s.Describe(None, "archive")),
    ("DESCRIBE archive.rejects", s.Describe(None, "archive.rejects")),
    ("SHOW ARCHIVES", s.Show("archive")),
    ("VACUUM ARCHIVE ON cars", s.VacuumArchive("cars", None)),
    ("VACUUM ARCHIVE small ON cars RETAIN INTERVAL 0 SECONDS", s.VacuumArchive("cars", "small", 0)),
    ("ALTER STREAM cars ADD COLUMN lane INT", s.AddColumn("cars", "lane", "INT")),
    ("ALTER STREAM cars ADD COLUMN `a b` DECIMAL(6, 2)", s.AddColumn("cars", "a b", "DECIMAL(6, 2)")),
]


@pytest.mark.parametrize(("text", "statement"), STATEMENTS, ids=[text for text, _ in STATEMENTS])
def test_statements_about_archives(text: str, statement: s.Statement) -> None:
    assert parse(text) == [statement]


# -- clauses -----------------------------------------------------------------------------------------

TABLES = [
    ("ARCHIVE cars", ArchiveTable()),
    ("archive daily on cars c", ArchiveTable("daily")),
    ("ARCHIVE `a b` ON cars AS c", ArchiveTable("a b")),
    (
        "ARCHIVE cars c BETWEEN TIMESTAMP '2026-11-01' AND DATE '2026-11-02'",
        ArchiveTable(since=NOVEMBER, until=NOVEMBER + DAY + 1),
    ),
    (
        "ARCHIVE cars BETWEEN TIMESTAMP '2026-11-01 01:00:00+01:00' AND TIMESTAMP '2026-11-01' + INTERVAL 1 HOUR - "
        "INTERVAL 1 MINUTE",
        ArchiveTable(since=NOVEMBER, until=NOVEMBER + HOUR - MINUTE + 1),
    ),
    ("ARCHIVE cars REDUCE BY uniform(0.4)", ArchiveTable(reducing=ReduceBy("uniform", (0.4,)))),
    ("ARCHIVE cars c REDUCE BY by_key(plate, .9)", ArchiveTable(reducing=ReduceBy("by_key", ("plate", 0.9)))),
    (
        "ARCHIVE cars REDUCE BY load(INTERVAL 5 SECONDS, `interval`) BETWEEN DATE '2026-11-01' AND DATE '2026-11-01'",
        ArchiveTable(
            since=NOVEMBER,
            until=NOVEMBER + 1,
            reducing=ReduceBy("load", (dt.timedelta(seconds=5), "interval")),
        ),
    ),
    ("ARCHIVE cars REDUCE BY mine()", ArchiveTable(reducing=ReduceBy("mine"))),
    ("ARCHIVE cars REDUCE BY mine(-2, 1e3, x)", ArchiveTable(reducing=ReduceBy("mine", (-2, 1000.0, "x")))),
]


@pytest.mark.parametrize(("table", "archive"), TABLES, ids=[text for text, _ in TABLES])
@pytest.mark.parametrize(
    "around",
    [
        "SELECT exit FROM {}",
        "SELECT exit FROM {} WHERE exit > 1 ORDER BY exit",
        "SELECT * FROM trucks, {}",
        "SELECT * FROM trucks t JOIN {} ON t.plate = 'x'",
        "SELECT * FROM trucks t LEFT JOIN {} USING (plate)",
        "SELECT * FROM ({} JOIN trucks t ON TRUE)",
        "SELECT exit FROM (SELECT exit FROM {}) x",
        "WITH x AS (SELECT exit FROM {}) SELECT exit FROM x",
        "SELECT exit FROM trucks WHERE exit IN (SELECT exit FROM {})",
        "SELECT exit FROM trucks UNION ALL SELECT exit FROM {}",
    ],
)
def test_an_archive_stands_where_a_table_does(around: str, table: str, archive: ArchiveTable) -> None:
    found = select(around.format(table))
    assert found.archives == (archive,)
    (cars,) = [each for each in found.tree.find_all(exp.Table) if each.name == "cars"]
    assert found.archive(cars) == archive
    assert cars.alias == ("c" if " c " in f"{table} " else "")
    assert "ARCHIVE" not in found.tree.sql("spark").upper()


def test_several_archives_and_an_on_that_is_the_joins() -> None:
    found = select(
        "SELECT * FROM ARCHIVE daily ON cars a JOIN ARCHIVE cars ON cars.exit = a.exit "
        "JOIN ARCHIVE small ON cars c ON c.exit = a.exit, ARCHIVE big ON trucks"
    )
    assert [each.name for each in found.archives] == ["daily", None, "small", "big"]
    assert found.tree.sql("spark") == (
        "SELECT * FROM cars AS a JOIN cars ON cars.exit = a.exit JOIN cars AS c ON c.exit = a.exit CROSS JOIN trucks"
    )


def test_portions_of_the_past() -> None:
    text = "SELECT c.plate FROM cars c JOIN ARCHIVE cars h {} ON c.plate = h.plate"
    week = Portions(7, DAY, 30 * MINUTE)
    for said, portions in (
        (LAST, week),
        (f"{LAST} IN EACH", week),
        (f"{LAST} IN ANY", Portions(7, DAY, 30 * MINUTE, "any")),
        ("LAST 1 INTERVAL 1 WEEK WITHIN INTERVAL 0 SECONDS", Portions(1, 7 * DAY, 0)),
    ):
        assert select(text.format(said)).archives == (ArchiveTable(portions=portions),)
    reduced = ReduceBy("by_key", ("plate", 0.9))
    assert select(text.format(f"REDUCE BY by_key(plate, 0.9) {LAST}")).archives == (
        ArchiveTable(portions=week, reducing=reduced),
    )


def test_since_and_until() -> None:
    text = "SELECT count(*) AS n FROM cars c SINCE TIMESTAMP '2026-11-01'{} WHERE exit > 1 EMIT EVERY INTERVAL 1 HOUR"
    assert select(text.format("")).since == Since(NOVEMBER)
    found = select(text.format(" UNTIL DATE '2026-11-02' REDUCE BY age(INTERVAL 1 DAY)"))
    assert found.since == Since(NOVEMBER, NOVEMBER + DAY, ReduceBy("age", (dt.timedelta(days=1),)))
    assert found.tree.sql("spark") == "SELECT COUNT(*) AS n FROM cars AS c WHERE exit > 1"
    assert (found.every, found.archives) == (HOUR, ())


ACCURACIES = [
    ("WITH ERROR 2 PERCENT", Accuracy(2.0)),
    ("WITH ERROR 0.5 PERCENT CONFIDENCE 99 PERCENT", Accuracy(0.5, None, 0.99)),
    ("WITHIN 500 MILLISECONDS", Accuracy(None, 500_000)),
    ("within 1.5 seconds confidence 90 percent", Accuracy(None, 1_500_000, 0.9)),
    ("WITH CONFIDENCE 99.9 PERCENT", Accuracy(None, None, 0.9990000000000001)),
]


@pytest.mark.parametrize(("clause", "accuracy"), ACCURACIES, ids=[clause for clause, _ in ACCURACIES])
@pytest.mark.parametrize("around", ["{}", "WHERE exit > 1 GROUP BY exit LIMIT 3 {}"])
def test_how_exact_an_answer_has_to_be(clause: str, accuracy: Accuracy, around: str) -> None:
    found = select(f"SELECT count(*) FROM ARCHIVE cars REDUCE BY uniform(0.4) {around.format(clause)}")
    assert found.accuracy is not None
    assert found.accuracy.confidence == pytest.approx(accuracy.confidence)
    assert (found.accuracy.error, found.accuracy.within) == (accuracy.error, accuracy.within)


def test_confidence_stands_before_or_behind_emit() -> None:
    text = "SELECT count(*) AS n FROM cars SINCE TIMESTAMP '2026-11-01' REDUCE BY uniform(0.4)"
    every, sure = "EMIT EVERY INTERVAL 1 HOUR", "WITH CONFIDENCE 90 PERCENT"
    for end in (f"{every} {sure}", f"{sure} {every}"):
        found = select(f"{text} {end}")
        assert found.accuracy == Accuracy(confidence=0.9)
        assert found.every == HOUR


@pytest.mark.parametrize(
    "text",
    [
        "SELECT since, last, error, within, reduce FROM archive",
        "SELECT since AS archive, last within, error AS since FROM archive AS reduce WHERE last > 1",
        "SELECT since timestamp, error AS last FROM archive",
        "SELECT archive.since FROM archive, archive AS last JOIN archive AS error ON archive.since = error.last",
        "SELECT since FROM archive LEFT JOIN (SELECT 1 AS archive FROM archive WHERE last IS DISTINCT FROM since)",
        "WITH error AS (SELECT since FROM archive) SELECT since FROM error",
        "SELECT since FROM (archive) WHERE since BETWEEN 1 AND 2",
        "SELECT extract(YEAR FROM _time) archive FROM archive",
        "SELECT since, archive a FROM (SELECT since, 1 AS archive FROM archive ORDER BY last, since)",
        "SELECT since FROM archive since",
    ],
)
def test_the_words_are_still_names(text: str) -> None:
    found = select(text)
    if not text.endswith("archive since"):  # the archive of a stream called since
        assert (found.archives, found.since, found.accuracy) == ((), None, None)
        once(text)
    else:
        assert len(found.archives) == 1


def test_a_stream_called_archive_can_have_windows_and_a_past() -> None:
    windowed = select("SELECT count(*) AS n FROM archive WINDOW = INTERVAL 1 HOUR")
    assert (windowed.archives, windowed.window is not None) == ((), True)
    past = select("SELECT count(*) AS n FROM archive SINCE DATE '2026-11-01' EMIT EVERY INTERVAL 1 HOUR")
    assert (past.archives, past.since) == ((), Since(NOVEMBER))
    assert len(select("SELECT since FROM ARCHIVE archive archive").archives) == 1


def test_the_texts_of_the_design() -> None:
    (archive,) = parse("CREATE ARCHIVE ON cars USING randomize_then_sort OPTIONS (blocks 500);")
    assert isinstance(archive, s.CreateArchive)
    (created,) = parse(
        """CREATE CONTINUOUS QUERY freeway_load AS
  SELECT exit, count(*) AS cars FROM cars SINCE TIMESTAMP '2026-11-16 16:00:00' REDUCE BY uniform(0.4)
  GROUP BY exit EMIT EVERY INTERVAL 15 MINUTES;"""
    )
    assert isinstance(created, s.CreateQuery)
    assert isinstance(plan_standing(created.select, find_stream).operator, Landmark)
    between = "BETWEEN TIMESTAMP '2026-11-01' AND TIMESTAMP '2026-11-08'"
    exact = question(f"SELECT avg(speed) FROM ARCHIVE cars {between} WITH ERROR 2 PERCENT CONFIDENCE 95 PERCENT;")
    soon = question(f"SELECT avg(speed) FROM ARCHIVE cars {between} WITHIN 500 MILLISECONDS;")
    assert (exact.error, soon.within) == (2.0, 500_000)
    assert exact.columns == soon.columns == (("avg(speed)", "avg_1"),)


# -- rows of an archive ------------------------------------------------------------------------------


def test_an_archive_is_a_table_of_spark_sql() -> None:
    plan = once(
        "SELECT c.plate, count(*) AS n FROM ARCHIVE daily ON cars c BETWEEN TIMESTAMP '2026-11-01' AND "
        "TIMESTAMP '2026-11-08' JOIN cars d ON c.plate = d.plate GROUP BY c.plate"
    )
    assert plan.sql == (
        "SELECT `c`.`plate`, COUNT(*) AS `n` FROM `__stream0_0` AS `c` JOIN `__stream0_1` AS `d` "
        "ON `c`.`plate` = `d`.`plate` GROUP BY `c`.`plate`"
    )
    past, live = plan.streams
    assert (past.stream, past.view, past.columns) == ("cars", "__stream0_0", ("plate",))
    assert past.archive == ArchiveUse("daily", NOVEMBER, NOVEMBER + 7 * DAY + 1)
    assert (live.stream, live.view, live.archive) == ("cars", "__stream0_1", None)


def test_one_view_serves_all_that_read_the_same() -> None:
    plan = once("SELECT exit FROM ARCHIVE cars WHERE exit IN (SELECT exit FROM ARCHIVE cars) AND exit NOT IN "
                "(SELECT exit FROM ARCHIVE cars REDUCE BY uniform(0.5))")  # fmt: skip
    assert [use.archive for use in plan.streams] == [ArchiveUse(), ArchiveUse(reducer=("uniform", (0.5,)))]


def test_conditions_are_applied_while_an_archive_is_read() -> None:
    (use,) = once("SELECT plate FROM ARCHIVE cars WHERE speed > 130 AND reverse(plate) = 'X'").streams
    assert (use.filter, use.columns) == ("speed > 130", ("plate", "speed"))


def test_reduced_rows_say_the_fraction_they_are_of() -> None:
    plan = once("SELECT plate, _fraction FROM ARCHIVE cars REDUCE BY age(INTERVAL 1 DAY) WHERE exit = 3")
    assert plan.sql is not None
    assert "`_fraction`" in plan.sql
    (use,) = plan.streams
    assert use.archive == ArchiveUse(reducer=("age", (DAY,)))
    assert use.columns == ("plate", "exit")


def test_aggregates_outside_of_a_subquery_with_reduced_rows_are_the_users() -> None:
    plan = once("SELECT count(*) AS n FROM (SELECT plate FROM ARCHIVE cars REDUCE BY uniform(0.5))")
    assert plan.question is None
    assert [use.archive for use in plan.streams] == [ArchiveUse(reducer=("uniform", (0.5,)))]


def test_the_plain_name_is_no_archive() -> None:
    (use,) = once("SELECT avg(speed) FROM cars WHERE at >= TIMESTAMP '2026-11-01'").streams
    assert use.archive is None


# -- questions ---------------------------------------------------------------------------------------


def test_a_question_as_a_whole() -> None:
    assert question(
        "SELECT exit AS way_out, count(*) AS n, mean(c.speed), sum(toll) AS toll, max(speed) AS fastest, "
        "count(DISTINCT plate) AS plates FROM ARCHIVE daily ON cars c "
        "BETWEEN TIMESTAMP '2026-11-01' AND TIMESTAMP '2026-11-08' REDUCE BY uniform(0.9) "
        "WHERE speed > 10 AND c.exit IS NOT NULL GROUP BY exit, plate "
        "ORDER BY n DESC, way_out, 3 DESC NULLS FIRST, max(speed) LIMIT 5 WITH CONFIDENCE 90 PERCENT"
    ) == ArchiveQuestion(
        stream="cars",
        archive="daily",
        since=NOVEMBER,
        until=NOVEMBER + 7 * DAY + 1,
        keys=(("exit", "exit"), ("plate", "plate")),
        aggregates=(
            ("count_1", "count", None),
            ("avg_1", "avg", "speed"),
            ("sum_1", "sum", "toll"),
            ("max_1", "max", "speed"),
            ("count_distinct_1", "count_distinct", "plate"),
        ),
        columns=(
            ("way_out", "exit"),
            ("n", "count_1"),
            ("mean(c.speed)", "avg_1"),
            ("toll", "sum_1"),
            ("fastest", "max_1"),
            ("plates", "count_distinct_1"),
        ),
        filter="speed > 10 AND NOT exit IS NULL",
        order=(
            ("n", True, False),
            ("way_out", False, True),
            ("mean(c.speed)", True, True),
            ("fastest", False, True),
        ),
        limit=5,
        reducer=("uniform", (0.9,)),
        confidence=0.9,
    )


ASKED = "SELECT avg(speed) AS v FROM ARCHIVE cars {}"


@pytest.mark.parametrize(
    ("clauses", "reducer", "error", "within", "confidence"),
    [
        ("WITH ERROR 2 PERCENT CONFIDENCE 95 PERCENT", None, 2.0, None, 0.95),
        ("WITHIN 500 MILLISECONDS", None, None, 500_000, 0.95),
        ("WITHIN 2 SECONDS CONFIDENCE 50 PERCENT", None, None, 2 * SECOND, 0.5),
        ("REDUCE BY uniform(0)", ("uniform", (0.0,)), None, None, 0.95),
        ("REDUCE BY every(INTERVAL 1 HOUR)", ("every", (HOUR,)), None, None, 0.95),
        ("REDUCE BY LOAD(INTERVAL 5 SECONDS)", ("load", (5 * SECOND,)), None, None, 0.95),
        ("REDUCE BY error(3)", None, 3.0, None, 0.95),
        ("REDUCE BY error(3, 90)", None, 3.0, None, 0.9),
        ("REDUCE BY error(3, 90) WITH ERROR 2 PERCENT CONFIDENCE 99 PERCENT", None, 2.0, None, 0.99),
        ("REDUCE BY error(3, 90) WITH CONFIDENCE 99 PERCENT", None, 3.0, None, 0.99),
        ("REDUCE BY by_key(PLATE, 0.9)", ("by_key", ("plate", 0.9)), None, None, 0.95),
        ("REDUCE BY by_key(plate, 0.9) WITH ERROR 2 PERCENT", ("by_key", ("plate", 0.9)), 2.0, None, 0.95),
        ("REDUCE BY by_key(plate, 0.9) WITHIN 1 SECOND", ("by_key", ("plate", 0.9)), None, SECOND, 0.95),
        (
            "REDUCE BY weekends(0.5, plate)",
            ("tests.sql.archives_reducer:Weekends", (0.5, "plate")),
            None,
            None,
            0.95,
        ),
    ],
)
def test_how_much_is_read_for_a_question(
    clauses: str, reducer: object, error: float | None, within: int | None, confidence: float
) -> None:
    found = question(ASKED.format(clauses))
    assert (found.reducer, found.error, found.within, found.confidence) == (reducer, error, within, confidence)


def test_keys_of_a_question_are_those_of_any_group_by() -> None:
    by_hour = question("SELECT date_trunc('HOUR', at) AS h, count(*) AS n FROM ARCHIVE cars WITH ERROR 2 PERCENT "
                       .replace(" WITH", " GROUP BY 1 WITH"))  # fmt: skip
    assert by_hour.keys == (("key_1", "date_trunc('HOUR', at)"),)
    assert by_hour.columns[0] == ("h", "key_1")
    minute = question("SELECT getminute(at) AS m, count(*) AS n FROM ARCHIVE cars REDUCE BY uniform(0.5) GROUP BY m")
    assert minute.keys == (("key_1", "date_trunc('MINUTE', at)"),)
    ends = question("SELECT window_end, sum(load) AS l FROM ARCHIVE loads REDUCE BY uniform(0.5) GROUP BY window_end")
    assert [sql for _, sql in ends.keys] == ["window_end"]
    assert [name for name, _ in ends.columns] == ["window_end", "l"]


def test_without_reduction_aggregates_are_sparks() -> None:
    plan = once("SELECT median(speed) FROM ARCHIVE cars")
    assert plan.question is None
    assert plan.sql is not None


def test_a_question_explains_itself() -> None:
    plan = once(
        "SELECT exit, avg(speed) AS v FROM ARCHIVE cars BETWEEN TIMESTAMP '2026-11-01' AND TIMESTAMP '2026-11-08' "
        "REDUCE BY every(INTERVAL 1 HOUR) WHERE exit > 2 GROUP BY exit ORDER BY v DESC LIMIT 3"
    )
    assert plan.explain() == {
        "question": {
            "stream": "cars",
            "archive": "any",
            "range": "from TIMESTAMP '2026-11-01 00:00:00' to TIMESTAMP '2026-11-08 00:00:00'",
            "reducer": "every(INTERVAL 1 HOUR)",
            "filter": "exit > 2",
            "keys": {"exit": "exit"},
            "aggregates": {"avg_1": "avg(speed)"},
            "order": ["v DESC"],
            "limit": 3,
            "confidence": "95 percent",
            "bounds": "NULL where none can be said; the answer's notices say why",
        },
        "runs_in_spark_sql": False,
    }
    assert json.loads(plan.explain_json()) == plan.explain()
    assert plan.explain_text() == (
        "question to an archive\n"
        "   stream: cars\n"
        "   archive: any\n"
        "   range: from TIMESTAMP '2026-11-01 00:00:00' to TIMESTAMP '2026-11-08 00:00:00'\n"
        "   reducer: every(INTERVAL 1 HOUR)\n"
        "   filter: exit > 2\n"
        "   keys: exit\n"
        "   aggregates: avg(speed) AS avg_1\n"
        "   order: v DESC\n"
        "   limit: 3\n"
        "   confidence: 95 percent\n"
        "   bounds: NULL where none can be said; the answer's notices say why"
    )
    soon = question(ASKED.format("WITHIN 500 MILLISECONDS")).explain()
    assert (soon["within"], soon.get("error"), soon["range"]) == (
        "500 MILLISECONDS", None, "from the beginning to the end",
    )  # fmt: skip


def test_rows_of_an_archive_are_explained() -> None:
    plan = once("SELECT c.plate FROM ARCHIVE small ON cars c REDUCE BY uniform(0.9) JOIN trucks t ON c.plate = t.plate")
    assert plan.explain_text().splitlines()[2:] == [
        "   └─ archive of cars",
        "      columns: plate",
        "      archive: small",
        "      range: from the beginning to the end",
        "      reducer: uniform(0.9)",
        "   └─ stream trucks",
        "      columns: plate",
    ]


# -- since -------------------------------------------------------------------------------------------


def test_a_query_since_a_time_is_a_landmark() -> None:
    plan = standing(
        "SELECT exit, count(*) AS cars FROM cars SINCE TIMESTAMP '2026-11-01' UNTIL TIMESTAMP '2026-11-02' "
        "REDUCE BY uniform(0.4) WHERE speed > 0 GROUP BY exit EMIT EVERY INTERVAL 15 MINUTES WITH CONFIDENCE 99 PERCENT"
    )
    assert plan.operator == Landmark(
        stream="cars",
        since=NOVEMBER,
        keys=(("exit", "exit"),),
        aggregates=(("count_1", "count", None),),
        columns=(("exit", "exit"), ("cars", "count_1")),
        time="_time",
        every=15 * MINUTE,
        filter="speed > 0",
        until=NOVEMBER + DAY,
        reducer=("uniform", (0.4,)),
        live_from=0,
        confidence=0.99,
    )
    assert (plan.stream, plan.time, plan.residual_sql) == ("cars", "_time", None)
    assert plan.explain()["streams"] == [{"stream": "cars", "filter_pushed_to_read": "speed > 0"}]
    assert plan.schema is not None
    assert plan.schema.time == "_time"
    assert set(plan.schema.names) == {"exit", "cars", "cars_low", "cars_high", "_time", "_fraction"}


def test_without_a_reducer_a_landmark_has_no_bounds() -> None:
    plan = standing(
        "SELECT sum(exit) AS s, avg(speed) AS v FROM cars SINCE DATE '2026-11-01' EMIT EVERY INTERVAL 1 HOUR"
    )
    assert isinstance(plan.operator, Landmark)
    assert (plan.operator.keys, plan.operator.reducer, plan.operator.until) == ((), None, None)
    assert plan.schema is not None
    types = {name: str(plan.schema.arrow.field(name).type) for name in plan.schema.names}
    assert types == {"s": "int64", "v": "double", "_time": "timestamp[us, tz=UTC]"}


# -- joins with the past -----------------------------------------------------------------------------

COMMUTERS = "FROM cars c JOIN ARCHIVE cars h LAST 7 INTERVAL 1 DAY WITHIN INTERVAL 30 MINUTES"


def test_the_plan_of_a_join_with_the_past_shows_what_is_read_of_both() -> None:
    plan = standing(f"SELECT c.plate {COMMUTERS} ON h.plate = c.plate AND h.speed > 5 WHERE c.speed < 90")
    assert plan.explain()["streams"] == [
        {"stream": "cars", "filter_pushed_to_read": "speed < 90"},
        {"stream": "cars", "filter_pushed_to_read": "speed > 5"},
    ]


def test_a_join_with_the_past() -> None:
    plan = standing(
        f"SELECT c.plate, exit AS way_out, _portions, _matches {COMMUTERS} IN EACH "
        "ON c.plate = h.plate AND h.exit = c.exit AND h.speed > 10 AND c.exit > 2 WHERE speed > 3"
    )
    assert plan.operator == HistoryJoin(
        stream="cars",
        alias="c",
        history="cars",
        on=(("plate", "plate"), ("exit", "exit")),
        period=DAY,
        portions=7,
        within=30 * MINUTE,
        match="each",
        columns=(
            ("plate", "plate"),
            ("way_out", "exit"),
            ("_portions", "_portions"),
            ("_matches", "_matches"),
            ("_time", "at"),
        ),
        time="_time",
        filter="(exit > 2) AND (speed > 3)",
        history_filter="speed > 10",
    )
    assert (plan.stream, plan.time, plan.residual_sql) == ("cars", "_time", None)
    assert plan.schema is not None
    types = {name: str(plan.schema.arrow.field(name).type) for name in plan.schema.names}
    assert types["_portions"] == "int32"
    assert types["_matches"] == "int64"


def test_a_join_with_the_past_of_another_stream_in_any_portion() -> None:
    plan = standing(
        "SELECT c.* FROM cars c LEFT SEMI JOIN ARCHIVE TRUCKS t LAST 2 INTERVAL 1 HOUR WITHIN INTERVAL 1 MINUTE "
        "IN ANY REDUCE BY by_key(exit, 0.9) ON c.exit = t.exit"
    )
    join = plan.operator
    assert isinstance(join, HistoryJoin)
    assert (join.history, join.match, join.portions) == ("TRUCKS", "any", 2)
    assert (join.on, join.reducer) == ((("exit", "exit"),), ("by_key", ("exit", 0.9)))
    assert [name for name, _ in join.columns] == ["plate", "exit", "speed", "toll", "at", "_fraction"]
    assert join.time == "at"


def test_spark_sql_does_what_arrow_cannot_behind_a_join_with_the_past() -> None:
    plan = standing(f"SELECT reverse(plate) AS p, _fraction {COMMUTERS} ON c.plate = h.plate WHERE c.plate RLIKE '^B'")
    assert isinstance(plan.operator, HistoryJoin)
    assert plan.operator.columns == (("plate", "plate"), ("at", "at"), ("_fraction", "_fraction"))
    assert plan.residual_sql == (
        "SELECT REVERSE(`plate`) AS `p`, `_fraction` AS `_fraction`, `at` AS `_time` FROM `__input` "
        "WHERE `plate` RLIKE '^B'"
    )
    assert (plan.schema, plan.time) == (None, "_time")


def test_aggregates_of_a_join_with_the_past() -> None:
    plan = standing(
        f"SELECT exit, count(*) AS n {COMMUTERS} REDUCE BY load(INTERVAL 5 SECONDS, plate) ON c.plate = h.plate "
        "WHERE exit > 1 GROUP BY exit EMIT EVERY INTERVAL 15 MINUTES"
    )
    operator = plan.operator
    assert isinstance(operator, HistoryJoinAggregate)
    assert (operator.every, operator.keys) == (15 * MINUTE, (("exit", "exit"),))
    assert operator.aggregates == (("count_1", "count", None),)
    assert operator.columns == (("exit", "exit"), ("n", "count_1"))
    assert operator.join.reducer == ("load", (5 * SECOND, "plate"))
    assert operator.join.filter == "exit > 1"
    assert plan.schema is not None
    assert {"exit", "n", "n_low", "n_high", "_fraction", "_time"} == set(plan.schema.names)


def test_the_periods_of_a_join_with_the_past_are_windows() -> None:
    plan = standing(
        f"SELECT window_start, window_end AS until, sum(_matches) AS seen {COMMUTERS} ON c.plate = h.plate "
        "EMIT EVERY INTERVAL 1 HOUR"
    )
    operator = plan.operator
    assert isinstance(operator, HistoryJoinAggregate)
    assert operator.columns == (("window_start", "window_start"), ("until", "window_end"), ("seen", "`sum(_matches)`"))
    assert (operator.time, plan.time) == ("until", "until")
    assert plan.schema is not None
    assert plan.schema.names == ["window_start", "until", "seen"]
