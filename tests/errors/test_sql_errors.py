"""The exact words of errors about SQL, with line and column."""

from __future__ import annotations

import pytest

from anabranch.errors import AnabranchError
from anabranch.sql import parse, plan_once, plan_standing
from anabranch.sql.statements import CreateQuery, SelectOnce
from tests.sql.conftest import find_stream

WRONG_TEXTS = [
    (
        "SELEC 1",
        'NOT_IN_THE_LANGUAGE (line 1, column 1) "SELEC" does not begin a statement. Hint: did you mean "SELECT"?',
    ),
    (
        "SELECT 'abc",
        "SYNTAX_ERROR (line 1, column 8) this string is not closed",
    ),
    (
        "SELECT 1;\nSELECT `ab",
        "SYNTAX_ERROR (line 2, column 8) this quoted name is not closed",
    ),
    (
        "SELECT 1 /* no end",
        "SYNTAX_ERROR (line 1, column 10) this comment is not closed",
    ),
    (
        "SELECT (1",
        "SYNTAX_ERROR (line 1, column 10) expected ), the query ends here",
    ),
    (
        "SELECT a b c",
        'SYNTAX_ERROR (line 1, column 12) "c" was not expected here',
    ),
    (
        "SELECT a,\n  b FROM\n  packets WHERE",
        "SYNTAX_ERROR (line 3, column 16) the query is not complete",
    ),
    (
        "SET x = 1",
        (
            "NOT_IN_THE_LANGUAGE (line 1, column 1) SET is not available. Hint: settings are given in "
            "Python, db.settings.change(name=value), or to anabranch.open"
        ),
    ),
    (
        "CREATE VIEW v AS SELECT 1",
        (
            "NOT_IN_THE_LANGUAGE (line 1, column 1) CREATE VIEW is not available. Hint: an answer that keeps up is "
            "there for others, too: its rows are a view, or a stream that only grows; write CREATE MATERIALIZED "
            "VIEW named AS SELECT k, v FROM t"
        ),
    ),
    (
        "CREATE STREAM s",
        "SYNTAX_ERROR (line 1, column 16) expected (column TYPE, …) or AS SELECT …, the statement ends here",
    ),
    (
        "CREATE STREAM s (a FOO)",
        "TYPE_NOT_SUPPORTED (line 1, column 20) type FOO cannot be the type of a stream's column. Hint: "
        "use one of BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, STRING, BINARY, DATE, "
        "TIMESTAMP, DECIMAL(p, s), ARRAY<type>, STRUCT<name: type, …>",
    ),
    (
        "CREATE STREAM s (a INT, A INT)",
        'COLUMN_EXISTS (line 1, column 25) column "A" is declared twice',
    ),
    (
        "CREATE STREAM s (a INT) TIMESTAMP BY b",
        'COLUMN_NOT_FOUND (line 1, column 38) time column "b" is not among the columns. Hint: there are: a',
    ),
    (
        "CREATE STREAM s (ab INT) TIMESTAMP BY ab",
        'TIME_TYPE_MISMATCH (line 1, column 39) time column "ab" is INT, it must be TIMESTAMP',
    ),
    (
        "CREATE STREAM s (a INT) ALLOW SKEW 5",
        'SYNTAX_ERROR (line 1, column 36) expected INTERVAL, got "5"',
    ),
    (
        "CREATE STREAM s (a INT) FROM mqtt OPTIONS (host 'x')",
        'SOURCE_NOT_AVAILABLE (line 1, column 30) there is no source of kind "mqtt". Hint: create the '
        "stream without FROM and append to it",
    ),
    (
        "CREATE STREAM a.b (c INT)",
        "SYNTAX_ERROR (line 1, column 16) a name that holds a dot needs backticks. Hint: write `a.b`",
    ),
    (
        "CREATE SENSORS s (a INT)",
        "NOT_IN_THE_LANGUAGE (line 1, column 1) CREATE SENSORS is not available. Hint: declare a stream "
        "for each sensor with CREATE STREAM",
    ),
    (
        "INSERT INTO s VALUES (1 + 1)",
        'VALUE_NOT_PLAIN (line 1, column 25) a value ends before "+". Hint: VALUES takes literals, CAST '
        "of a literal, array(…), named_struct(…), NULL and current_timestamp(); nothing is computed",
    ),
    (
        "INSERT INTO s VALUES (reverse('a'))",
        'VALUE_NOT_PLAIN (line 1, column 23) expected a value, got "reverse". Hint: VALUES takes '
        "literals, CAST of a literal, array(…), named_struct(…), NULL and current_timestamp(); nothing is computed",
    ),
    (
        "INSERT INTO s VALUES (1, 2), (1)",
        "VALUES_MISMATCH (line 1, column 30) this row has 1 value, the first has 2",
    ),
    (
        "INSERT INTO s (a) VALUES (1, 2)",
        "VALUES_MISMATCH (line 1, column 26) 1 column for 2 values",
    ),
    (
        "INSERT INTO s VALUES (TIMESTAMP 'noon')",
        "VALUE_NOT_CAST (line 1, column 23) 'noon' is not a TIMESTAMP",
    ),
    (
        "SELECT count(*) FROM s WINDOW = INTERVAL 1 MONTH",
        "INTERVAL_NOT_FIXED (line 1, column 44) a month has no fixed length. Hint: use WEEKS, DAYS, "
        "HOURS, MINUTES or SECONDS",
    ),
    (
        "SELECT count(*) FROM s WINDOW = 5",
        "SYNTAX_ERROR (line 1, column 34) expected ROWS, the statement ends here. Hint: write WINDOW = "
        "1000 ROWS, or WINDOW = INTERVAL 10 SECONDS",
    ),
    (
        "SELECT count(*) FROM s WINDOW = 0 ROWS",
        "SYNTAX_ERROR (line 1, column 33) a window of 0 rows cannot be. Hint: use a whole number from 1",
    ),
    (
        "SELECT count(*) FROM s WINDOW = INTERVAL 1 MINUT",
        'SYNTAX_ERROR (line 1, column 44) "MINUT" is not a unit of time. Hint: did you mean "MINUTE"?',
    ),
    (
        "SELECT count(*) FROM s WINDOW = INTERVAL 1 MINUTE SLIDE 5 ROWS",
        "WINDOW_UNITS_DIFFER (line 1, column 57) the window and its slide must both be time or both ROWS",
    ),
    (
        "SUBSCRIBE TO q FROM now",
        'SYNTAX_ERROR (line 1, column 21) expected the number of the first answer, got "now"',
    ),
    (
        "EXPLAIN SHOW STREAMS",
        'SYNTAX_ERROR (line 1, column 9) expected SELECT …, CREATE CONTINUOUS QUERY … or QUERY name, got "SHOW"',
    ),
    (
        "SELECT :a",
        "NOT_IN_THE_LANGUAGE (line 1, column 8) parameters and paths cannot be used in a query",
    ),
    (
        "SHOW STREAMS now",
        'SYNTAX_ERROR (line 1, column 14) "now" was not expected here. Hint: end the statement with ;',
    ),
]

REFUSED_AS_STANDING = [
    (
        "SELECT count(*) FROM packets WINDOW = 5 ROWS WHERE id IN (SELECT id FROM ptb WINDOW = 5 ROWS)",
        "NOT_IN_THE_LANGUAGE (line 1, column 78) a subquery cannot have a WINDOW. Hint: make the inner "
        "query a stream with CREATE STREAM … AS SELECT …",
    ),
    (
        "SELECT a FROM nope",
        'STREAM_NOT_FOUND (line 1, column 15) stream "nope" does not exist. Hint: there are: loads, '
        "logins, packets, packets.rejects, ptb, x.y",
    ),
    (
        "SELECT a FROM packet",
        'STREAM_NOT_FOUND (line 1, column 15) stream "packet" does not exist. Hint: did you mean "packets"?',
    ),
    (
        "SELECT lenth FROM packets",
        'COLUMN_NOT_FOUND (line 1, column 8) column "lenth" is not in stream "packets". Hint: did you mean "length"?',
    ),
    (
        "SELECT x.saddr FROM packets p",
        'COLUMN_NOT_FOUND (line 1, column 8) "x.saddr" is not a column of "p". Hint: columns are '
        "written name or p.name",
    ),
    (
        "SELECT saddr, saddr FROM packets",
        'COLUMN_EXISTS (line 1, column 15) column "saddr" comes twice in the answer. Hint: give one of '
        "them another name with AS",
    ),
    (
        "SELECT length AS _time FROM packets",
        'COLUMN_RESERVED (line 1, column 8) column "_time" is kept for the time. Hint: give it another name with AS',
    ),
    (
        "SELECT saddr FROM packets WHERE length",
        "CONDITION_NOT_BOOLEAN (line 1, column 33) the condition length is INT, it must be BOOLEAN",
    ),
    (
        "SELECT count(*) FROM packets",
        (
            'AGGREGATE_UNBOUNDED (line 1, column 8) count() over "packets" would never be finished, and its '
            "groups would be kept forever. Hint: add WINDOW = INTERVAL 1 MINUTE after FROM, or GROUP BY "
            "date_trunc('minute', ts); for totals of all that came since a time write FROM … SINCE "
            "TIMESTAMP '2026-01-01 00:00:00' … EMIT EVERY INTERVAL 1 MINUTE; for an answer that changes end the query "
            "with EXPIRE AFTER INTERVAL 1 DAY, if rows count for so long, or ACCEPT UNBOUNDED"
        ),
    ),
    (
        "SELECT saddr, count(*)\nFROM packets\nWINDOW = 5 ROWS",
        'COLUMN_NOT_GROUPED (line 1, column 8) column "saddr" has many values in a group. Hint: add '
        "saddr to GROUP BY, or put it in an aggregate such as max()",
    ),
    (
        "SELECT sum(saddr) FROM packets WINDOW = 5 ROWS",
        "AGGREGATE_TYPE_MISMATCH (line 1, column 12) sum of STRING was asked for, it needs a number",
    ),
    (
        "SELECT sum(sum(length)) FROM packets WINDOW = 5 ROWS",
        "AGGREGATE_MISPLACED (line 1, column 12) an aggregate cannot hold another",
    ),
    (
        "SELECT saddr FROM packets WHERE sum(length) > 3",
        "AGGREGATE_MISPLACED (line 1, column 33) WHERE cannot hold an aggregate. Hint: use HAVING",
    ),
    (
        "SELECT sum(soundex(saddr)) FROM packets WINDOW = 5 ROWS",
        "EXPRESSION_NOT_EVALUABLE_IN_WINDOW (line 1, column 12) soundex(saddr) cannot be computed "
        "inside a window. Detail: SOUNDEX(saddr): it is not evaluated here. Hint: put the expression in "
        "a CREATE STREAM … AS SELECT … first and read that stream",
    ),
    (
        "SELECT count(*) FROM packets GROUP BY getminute(id)",
        "WINDOW_NOT_OVER_TIME (line 1, column 39) getminute() takes the stream's time column, ts",
    ),
    (
        "SELECT count(*) FROM packets WINDOW = 5 ROWS GROUP BY 7",
        "SYNTAX_ERROR (line 1, column 55) there is no column 7 in the select list",
    ),
    (
        "SELECT count(*) FROM packets WINDOW = INTERVAL 1 DAY GROUP BY getminute(ts)",
        "SYNTAX_ERROR (line 1, column 63) WINDOW and getminute(ts) both say what the window is. Hint: "
        "leave one of them out",
    ),
    (
        "SELECT saddr FROM packets ORDER BY saddr",
        "NOT_IN_THE_LANGUAGE (line 1, column 27) a standing query answers in the order of time. Hint: "
        "add WINDOW = INTERVAL … after FROM to order each window, or order when you ask once",
    ),
    (
        "SELECT saddr FROM packets LIMIT 3",
        "NOT_IN_THE_LANGUAGE (line 1, column 27) a standing query has no last row to stop at. Hint: "
        "add ORDER BY before it, WINDOW = INTERVAL … after FROM to limit each window, or ask once with SELECT",
    ),
    (
        "SELECT DISTINCT saddr FROM packets",
        'STATE_UNBOUNDED (line 1, column 8) DISTINCT keeps every row, and stream "packets" has no end. Hint: end the '
        "query with EXPIRE AFTER INTERVAL 1 DAY, if rows count for so long, or ACCEPT UNBOUNDED, or write a subquery "
        'that reads "packets" with WINDOW = INTERVAL … after FROM',
    ),
    (
        "SELECT saddr FROM packets UNION ALL SELECT saddr FROM packets EMIT EVERY INTERVAL 1 MINUTE",
        "NOT_IN_THE_LANGUAGE (line 1, column 63) EMIT EVERY is about answers that change, and all of this query stay. "
        "Hint: leave it out",
    ),
    (
        "WITH a AS (SELECT id FROM ptb) SELECT count(*) FROM packets WINDOW = 5 ROWS",
        "NOT_IN_THE_LANGUAGE (line 1, column 1) WITH cannot be used in a standing query. Hint: make "
        "each step a stream with CREATE STREAM … AS SELECT …",
    ),
    (
        "SELECT a.id FROM packets a JOIN ptb b ON a.id = b.id",
        "JOIN_STATE_UNBOUNDED (line 1, column 33) joining a and b would keep every row forever. Hint: add "
        "WINDOW = INTERVAL … after FROM, or end the query with EXPIRE AFTER INTERVAL 1 DAY, if rows count for so "
        "long, or ACCEPT UNBOUNDED",
    ),
    (
        "SELECT row_number() OVER (ORDER BY ts) FROM packets",
        (
            'STATE_UNBOUNDED (line 1, column 8) row_number() OVER keeps every row, and stream "packets" has no end. '
            "Hint: end the query with EXPIRE AFTER INTERVAL 1 DAY, if rows count for so long, or ACCEPT UNBOUNDED, or "
            'write a subquery that reads "packets" with WINDOW = INTERVAL … after FROM'
        ),
    ),
    (
        "SELECT saddr FROM packets WHERE id IN (SELECT id FROM ptb)",
        (
            'STATE_UNBOUNDED (line 1, column 33) IN keeps every row of both sides, and stream "packets" has no end. '
            "Hint: end the query with EXPIRE AFTER INTERVAL 1 DAY, if rows count for so long, or ACCEPT UNBOUNDED, or "
            'write a subquery that reads "packets" with WINDOW = INTERVAL … after FROM'
        ),
    ),
    (
        "SELECT count(*) FROM (SELECT id FROM packets) WINDOW = 5 ROWS",
        "NOT_IN_THE_LANGUAGE (line 1, column 30) a standing query cannot read a subquery. Hint: make "
        "the inner query a stream with CREATE STREAM … AS SELECT …",
    ),
    (
        "SELECT id FROM (SELECT id FROM packets) ORDER BY id",
        "NOT_IN_THE_LANGUAGE (line 1, column 41) a standing query answers in the order of time. Hint: add WINDOW = "
        "INTERVAL … after FROM to order each window, or order when you ask once",
    ),
    (
        "SELECT id AS _time FROM packets UNION ALL SELECT id FROM ptb",
        'COLUMN_RESERVED (line 1, column 8) column "_time" is kept for the time. Hint: give it another name with AS',
    ),
    (
        "SELECT n, count(*) AS c FROM (SELECT count(*) AS n FROM packets GROUP BY id) GROUP BY n "
        "ACCEPT UNBOUNDED EMIT FINAL",
        "NOT_IN_THE_LANGUAGE (line 1, column 106) no answer of this query is final: it is about rows of a stream that "
        "no window holds. Hint: write EMIT CHANGES, or give each subquery that reads a stream the same WINDOW = …",
    ),
    (
        "SELECT a.n FROM (SELECT count(*) AS n FROM packets WINDOW = INTERVAL 1 MINUTE) a JOIN "
        "(SELECT count(*) AS n FROM ptb WINDOW = INTERVAL 2 MINUTES) b ON a.n = b.n EMIT FINAL",
        "NOT_IN_THE_LANGUAGE (line 1, column 162) no answer of this query is final: it is about windows that do not "
        "end together. Hint: write EMIT CHANGES, or give each subquery that reads a stream the same WINDOW = …",
    ),
    (
        "SELECT n FROM (SELECT count(*) AS n FROM packets WINDOW = INTERVAL 1 MINUTE) EXPIRE AFTER INTERVAL 1 HOUR "
        "EMIT FINAL",
        "NOT_IN_THE_LANGUAGE (line 1, column 107) no answer of this query is final: it is about answers that have no "
        "window of time, or count for longer than it. Hint: write EMIT CHANGES, or give each subquery that reads a "
        "stream the same WINDOW = …",
    ),
    (
        "SELECT id, count(*) AS n FROM (SELECT id FROM packets) GROUP BY id ACCEPT UNBOUNDED EMIT IN ORDER",
        "NOT_IN_THE_LANGUAGE (line 1, column 85) EMIT IN ORDER is for joins with windows, and this query is none. "
        "Hint: leave it out: what is final is in order of time",
    ),
    (
        "SELECT 1",
        "NOT_IN_THE_LANGUAGE (line 1, column 8) a standing query reads a stream. Hint: add FROM with a stream's name",
    ),
    (
        "SELECT now() FROM packets",
        "FUNCTION_NOT_REPEATABLE (line 1, column 8) now() gives another answer each time, so a standing "
        "query could not be repeated after a failure. Hint: use a column of the stream, such as its time",
    ),
    (
        "SELECT id FROM packets WHERE ts > TIMESTAMP 'now'",
        "FUNCTION_NOT_REPEATABLE (line 1, column 45) 'now' is another time each time it is read, so a standing "
        "query could not be repeated after a failure. Hint: use a column of the stream, such as its time, or write "
        "date and time",
    ),
    (
        "SELECT id FROM packets WHERE ts > TIMESTAMP '2026-11-31 00:00:00'",
        "LITERAL_INVALID (line 1, column 45) TIMESTAMP '2026-11-31 00:00:00' is no time that exists. Hint: write for "
        "example TIMESTAMP '2026-11-16 16:00:00'",
    ),
    (
        "SELECT id FROM packets WHERE date(ts) = DATE '2026-02-30'",
        "LITERAL_INVALID (line 1, column 46) DATE '2026-02-30' is no date that exists. Hint: write for example "
        "DATE '2026-11-16'",
    ),
    (
        "SELECT TIME '10:00:00' AS t FROM packets",
        "TYPE_NOT_SUPPORTED (line 1, column 13) there is no type TIME here. Hint: write TIMESTAMP '…' with a date, or "
        "compare hour(…), minute(…) and second(…)",
    ),
    (
        "SELECT session_window(ts, '5 minutes') AS w FROM packets",
        "NOT_IN_THE_LANGUAGE (line 1, column 8) session_window() is something to group by: a row alone does not say "
        "how long its session goes on. Hint: write WINDOW = SESSION INTERVAL … and aggregates, or ask once",
    ),
    (
        "SELECT reflect('a', 'b') FROM packets",
        'FUNCTION_NOT_ALLOWED (line 1, column 8) function "reflect" cannot be used. Hint: did you mean "repeat"?',
    ),
    (
        "SELECT summ(length) FROM packets",
        'FUNCTION_NOT_ALLOWED (line 1, column 8) function "summ" cannot be used. Hint: did you mean "sum"?',
    ),
    (
        "SELECT * FROM csv.`/etc/passwd`",
        'TABLE_NOT_ALLOWED (line 1, column 15) "csv./etc/passwd" is not a stream. Hint: only streams '
        "can be read; quote a name that holds a dot with backticks as a whole",
    ),
    (
        "SELECT * FROM range(10)",
        'TABLE_NOT_ALLOWED (line 1, column 15) "range" is not a stream. Hint: FROM takes names of '
        "streams, no functions",
    ),
]

REFUSED_ONCE = [
    (
        "SELECT lenth FROM packets",
        'COLUMN_NOT_FOUND (line 1, column 8) column "lenth" is not in the streams of this query. Hint: '
        'did you mean "length"?',
    ),
    (
        "SELECT user AS user FROM packets",
        'COLUMN_NOT_FOUND (line 1, column 8) column "user" is not in the streams of this query. Hint: '
        "there are: daddr, id, length, saddr, ts",
    ),
    (
        "SELECT * FROM packets TABLESAMPLE (10 PERCENT)",
        "NOT_IN_THE_LANGUAGE (line 1, column 15) a stream cannot be read with sample",
    ),
    (
        "SELECT `${env:HOME}` FROM packets",
        'NAME_NOT_ALLOWED (line 1, column 8) the name "${env:HOME}" cannot be used in a query',
    ),
]


def said(action: object, *arguments: object) -> str:
    assert callable(action)
    with pytest.raises(AnabranchError) as caught:
        action(*arguments)
    return str(caught.value)


@pytest.mark.parametrize(("text", "error"), WRONG_TEXTS)
def test_a_text_that_cannot_be_read(text: str, error: str) -> None:
    assert said(parse, text) == error


@pytest.mark.parametrize(("text", "error"), REFUSED_AS_STANDING)
def test_a_standing_query_that_is_refused(text: str, error: str) -> None:
    (statement,) = parse(text)
    assert isinstance(statement, SelectOnce)
    assert said(plan_standing, statement.select, find_stream) == error


@pytest.mark.parametrize(("text", "error"), REFUSED_ONCE)
def test_a_one_time_query_that_is_refused(text: str, error: str) -> None:
    (statement,) = parse(text)
    assert isinstance(statement, SelectOnce)
    assert said(plan_once, statement.select, find_stream) == error


def test_the_place_is_in_the_whole_text() -> None:
    text = "SHOW STREAMS;\n\nCREATE CONTINUOUS QUERY q AS\n  SELECT saddr, nope FROM packets;"
    statement = parse(text)[1]
    assert isinstance(statement, CreateQuery)
    error = said(plan_standing, statement.select, find_stream)
    assert error.startswith('COLUMN_NOT_FOUND (line 4, column 17) column "nope" is not in stream "packets"')
