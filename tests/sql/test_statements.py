"""Every statement of the language, as people write it."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pytest

from anabranch.errors import AnabranchError
from anabranch.sql import statements as s
from anabranch.sql.reading.parser import is_complete, parse
from anabranch.sql.reading.tokens import tokenize
from anabranch.sql.tree import Window

SECOND = 1_000_000


def one(text: str) -> s.Statement:
    (statement,) = parse(text)
    return statement


def window(clause: str) -> Window | None:
    statement = one(f"SELECT count(*) FROM packets {clause}")
    assert isinstance(statement, s.SelectOnce)
    return statement.select.window


def test_create_stream_with_time_and_skew() -> None:
    assert one(
        """CREATE STREAM packets (saddr STRING, daddr STRING, id BIGINT, length INT, ts TIMESTAMP)
             TIMESTAMP BY ts ALLOW SKEW INTERVAL 2 SECONDS;"""
    ) == s.CreateStream(
        "packets",
        (("saddr", "STRING"), ("daddr", "STRING"), ("id", "BIGINT"), ("length", "INT"), ("ts", "TIMESTAMP")),
        time="ts",
        skew_us=2 * SECOND,
    )


def test_create_stream_with_everything() -> None:
    assert one(
        "create stream if not exists `a.b` (`x y` decimal(10, 2), Ts timestamp)"
        " options (depth 3, path.to 'v', live true) retain interval 1 day timestamp by ts"
    ) == s.CreateStream(
        "a.b",
        (("x y", "decimal(10, 2)"), ("Ts", "timestamp")),
        time="Ts",
        retain_us=86_400 * SECOND,
        options={"depth": "3", "path.to": "v", "live": "true"},
        if_not_exists=True,
    )


def test_create_stream_from_a_connector_of_the_table() -> None:
    statement = one("CREATE STREAM floods FROM DataSpace OPTIONS (url 'grpc://localhost:1', `dataset` = 'floods', n 3)")
    assert isinstance(statement, s.CreateStream)
    assert (statement.kind, statement.columns) == ("dataspace", ())
    assert statement.options == {"url": "grpc://localhost:1", "dataset": "floods", "n": "3"}


@pytest.mark.parametrize("kind", ["mqtt", "append", "query", "rejects"])
def test_nothing_else_can_stand_behind_from(kind: str) -> None:
    with pytest.raises(AnabranchError, match=r"SOURCE_NOT_AVAILABLE \(line 1, column 30\)"):
        parse(f"CREATE STREAM s (a INT) FROM {kind}")


def test_insert_takes_every_kind_of_plain_value() -> None:
    statement = one(
        "INSERT INTO s (a, `b c`) VALUES (1, 'it''s'), (-2.5, NULL), (1e3, TRUE), (10L, X'1F'), (+7, 'a' 'b'),"
        " (CAST('5' AS INT), DATE '2026-01-02'), (3::double, TIMESTAMP '2026-11-16 16:00:00+01:00'), ((1), r'a\\b')"
    )
    assert isinstance(statement, s.InsertInto)
    assert statement.columns == ("a", "b c")
    assert statement.rows == [
        [1, "it's"],
        [Decimal("-2.5"), None],
        [1000.0, True],
        [10, b"\x1f"],
        [7, "ab"],
        [5, dt.date(2026, 1, 2)],
        [3.0, dt.datetime(2026, 11, 16, 15, tzinfo=dt.UTC)],
        [1, "a\\b"],
    ]


def test_insert_now_is_a_time_in_utc() -> None:
    before = dt.datetime.now(dt.UTC)
    statement = one("INSERT INTO s VALUES (current_timestamp(), now(), CURRENT_TIMESTAMP)")
    assert isinstance(statement, s.InsertInto)
    assert statement.columns is None
    assert all(before <= value <= dt.datetime.now(dt.UTC) for value in statement.rows[0])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SHOW STREAMS", s.Show("stream")),
        ("show queries", s.Show("query")),
        ("SHOW QUERIES LIKE 'a%' LIMIT 20 OFFSET 40", s.Show("query", "a%", 20, 40)),
        ("SHOW STREAMS LIMIT 3", s.Show("stream", None, 3)),
        ("DESCRIBE QUERY q1", s.Describe("query", "q1")),
        ("DESC STREAM `a b`", s.Describe("stream", "a b")),
        ("DESCRIBE stream", s.Describe(None, "stream")),
        ("DESCRIBE packets.rejects", s.Describe(None, "packets.rejects")),
        ("SUBSCRIBE TO q1", s.Subscribe("q1")),
        ("SUBSCRIBE TO q1 FROM 12", s.Subscribe("q1", 12)),
        ("STOP QUERY q", s.StopQuery("q")),
        ("START QUERY q", s.StartQuery("q")),
        ("ALTER QUERY q REEVALUATE EVERY 2", s.AlterQuery("q", 2)),
        ("ALTER QUERY q ON HOST h", s.MoveQuery("q", "h")),
        ("ALTER QUERY q ALONE", s.MoveQuery("q", None)),
        ("alter query q reevaluate every 2 at most 16", s.AlterQuery("q", 2, 16)),
        ("DROP STREAM s", s.Drop("stream", "s")),
        ("DROP CONTINUOUS QUERY IF EXISTS q", s.Drop("query", "q", if_exists=True)),
        ("DROP QUERY `it's`", s.Drop("query", "it's")),
        ("EXPLAIN QUERY q", s.Explain(s.ExplainQuery("q"))),
        ("EXPLAIN FORMAT JSON QUERY q", s.Explain(s.ExplainQuery("q"), "json")),
    ],
)
def test_small_statements(text: str, expected: s.Statement) -> None:
    assert one(text) == expected


def test_standing_queries_keep_their_own_text() -> None:
    first, second, third = parse(
        "CREATE CONTINUOUS QUERY q1 AS SELECT saddr FROM packets;\n"
        "-- a stream; from a query\nCREATE STREAM IF NOT EXISTS s2 AS SELECT ';' AS x FROM packets;"
        "EXPLAIN FORMAT JSON CREATE CONTINUOUS QUERY q AS SELECT * FROM s"
    )
    assert isinstance(first, s.CreateQuery)
    assert isinstance(second, s.CreateStreamAs)
    assert isinstance(third, s.Explain)
    assert (first.name, first.select.source) == ("q1", "SELECT saddr FROM packets")
    assert (second.name, second.select.source, second.if_not_exists) == ("s2", "SELECT ';' AS x FROM packets", True)
    assert third.statement.source == "CREATE CONTINUOUS QUERY q AS SELECT * FROM s"


@pytest.mark.parametrize(
    ("clause", "expected"),
    [
        ("WINDOW = INTERVAL 1 MINUTE", ("time", 60 * SECOND, 60 * SECOND)),
        ("WINDOW = INTERVAL '1' MINUTE SLIDE INTERVAL 10 SECONDS", ("time", 60 * SECOND, 10 * SECOND)),
        ("WINDOW = INTERVAL 1 MINUTE 30 SECONDS WHERE length > 3", ("time", 90 * SECOND, 90 * SECOND)),
        ("p WHERE length > 3 WINDOW = INTERVAL '2 hours' GROUP BY saddr", ("time", 7200 * SECOND, 7200 * SECOND)),
        ("WINDOW = INTERVAL 250 MILLISECONDS SLIDE INTERVAL 1 MICROSECOND", ("time", 250_000, 1)),
        ("WINDOW = INTERVAL 0.5 DAYS", ("time", 43_200 * SECOND, 43_200 * SECOND)),
        ("WINDOW = INTERVAL 1 WEEK", ("time", 604_800 * SECOND, 604_800 * SECOND)),
        ("WINDOW = 1000 ROWS SLIDE 100 ROWS", ("rows", 1000, 100)),
        ("WINDOW = 5 ROWS", ("rows", 5, 5)),
    ],
)
def test_window_clause(clause: str, expected: tuple[str, int, int]) -> None:
    found = window(clause)
    assert found is not None
    assert (found.unit, found.size, found.slide) == expected


def test_the_word_window_is_not_always_the_clause() -> None:
    assert window("WHERE window = 3") is None
    assert window("GROUP BY window(ts, '1 minute', '10 seconds')") is None
    assert window("WINDOW w AS (PARTITION BY saddr)") is None


@pytest.mark.parametrize(
    ("text", "complete"),
    [
        ("SELECT 1;", True),
        ("SELECT 1; -- done", True),
        ("SELECT 1; /* done */ \n", True),
        ("SELECT 1", False),
        ("SELECT ';", False),
        ("SELECT ';'", False),
        ("SELECT `;", False),
        ("SELECT 1 -- ;", False),
        ("SELECT 1; /* more", False),
        (r"SELECT '\';", False),
        (r"SELECT r'\';", True),
        ("", False),
    ],
)
def test_is_complete(text: str, complete: bool) -> None:
    assert is_complete(text) is complete


def test_nothing_is_no_statement() -> None:
    assert parse("") == parse(" ;; -- nothing\n /* at all */ ;") == []


def test_every_statement_of_the_table_is_one_that_parses() -> None:
    examples = {
        s.CreateStream: "CREATE STREAM s (a INT)",
        s.CreateStreamAs: "CREATE STREAM s AS SELECT 1 FROM t",
        s.CreateQuery: "CREATE CONTINUOUS QUERY q AS SELECT 1 FROM t",
        s.InsertInto: "INSERT INTO s VALUES (1)",
        s.SelectOnce: "SELECT 1",
        s.CreateTable: "CREATE TABLE t (a INT PRIMARY KEY)",
        s.CreateView: "CREATE MATERIALIZED VIEW v AS SELECT a FROM t",
        s.UpdateTable: "UPDATE t SET a = 1",
        s.DeleteFrom: "DELETE FROM t",
        s.MergeInto: "MERGE INTO t USING u ON t.a = u.a WHEN MATCHED THEN DELETE",
        s.ShowCreate: "SHOW CREATE TABLE t",
        s.Subscribe: "SUBSCRIBE TO q",
        s.Explain: "EXPLAIN SELECT 1",
        s.Show: "SHOW STREAMS",
        s.Describe: "DESCRIBE q",
        s.StopQuery: "STOP QUERY q",
        s.StartQuery: "START QUERY q",
        s.AlterQuery: "ALTER QUERY q REEVALUATE EVERY 3",
        s.MoveQuery: "ALTER QUERY q ON HOST h",
        s.Drop: "DROP STREAM s",
        s.AddColumn: "ALTER STREAM s ADD COLUMN a INT",
        s.CreateArchive: "CREATE ARCHIVE ON s USING plain",
        s.AlterArchive: "ALTER ARCHIVE ON s KEEP INTERVAL 1 DAY",
        s.VacuumArchive: "VACUUM ARCHIVE ON s",
    }
    assert {row.statement for row in s.STATEMENTS} == set(examples)
    for kind, text in examples.items():
        assert type(one(text)) is kind


@pytest.mark.parametrize(
    "text",
    [
        "CREATE SENSORS Sensors (SensorID INT, SensorValue STREAM<temperature DOUBLE>) USING http",
        "CREATE VIEW v AS SELECT 1",
        "CREATE TRIGGER congested ON q1 WHEN load > 1000000 DO NOTIFY 'https://ops.example/hook'",
    ],
)
def test_what_the_language_has_not_is_said_by_name(text: str) -> None:
    with pytest.raises(AnabranchError) as caught:
        parse(text)
    assert caught.value.name == "NOT_IN_THE_LANGUAGE"
    assert caught.value.line == 1
    assert caught.value.hint


def test_numbers_to_insert_keep_the_meaning_of_their_suffix() -> None:
    text = "INSERT INTO s VALUES (5L, -128Y, 7s, 1.5D, 1.50BD, 1e2, -0.25, 0.1F, 3)"
    (statement,) = parse(text)
    assert isinstance(statement, s.InsertInto)
    assert repr(statement.rows[0]) == (
        "[5, -128, 7, 1.5, Decimal('1.50'), 100.0, Decimal('-0.25'), 0.10000000149011612, 3]"
    )
    with pytest.raises(AnabranchError, match=r"VALUE_NOT_CAST .* 128 is not a TINYINT"):
        parse("INSERT INTO s VALUES (128Y)")


@pytest.mark.parametrize("comment", ["/*/**/*/", "/* a /* b */ c */", "/*/ x */", "/**/", "/* ' */", "/*\n*/"])
def test_comments_lie_in_each_other_as_in_spark(comment: str) -> None:
    texts = [token.text for token in tokenize(f"SELECT 1 {comment} + '/* no */' -- /* none\n, 2")]
    assert texts == ["SELECT", "1", "+", "/* no */", ",", "2"]


def test_half_a_character_is_told_with_its_place() -> None:
    with pytest.raises(AnabranchError) as caught:
        parse("SELECT '\ud800' FROM packets")
    assert str(caught.value) == (
        "SYNTAX_ERROR (line 1, column 9) U+D800 is half a character. Hint: the text was not decoded as it was encoded"
    )
