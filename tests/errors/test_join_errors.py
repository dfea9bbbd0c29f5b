"""The exact words of errors about joins and combinations, with line and column."""

from __future__ import annotations

import pytest

from anabranch.errors import AnabranchError
from anabranch.sql import parse, plan_once, plan_standing
from anabranch.sql.statements import SelectOnce
from tests.sql.joins import find_stream


def plan(text: str, *, once: bool) -> None:
    (statement,) = parse(text)
    assert isinstance(statement, SelectOnce)
    if once:
        plan_once(statement.select, find_stream)
    else:
        plan_standing(statement.select, find_stream)


def refused(text: str, *, once: bool = False) -> str:
    with pytest.raises(AnabranchError) as caught:
        plan(text, once=once)
    return str(caught.value)


WINDOWS = [
    (
        "SELECT a.k FROM a JOIN b ON a.k = b.k",
        "JOIN_STATE_UNBOUNDED (line 1, column 24) joining a and b would keep every row forever. Hint: add WINDOW "
        "= INTERVAL … after FROM, or end the query with EXPIRE AFTER INTERVAL 1 DAY, if rows count for so long, or "
        "ACCEPT UNBOUNDED",
    ),
    (
        "SELECT a.k FROM a, b\nWINDOW(a, x) = INTERVAL 1 SECOND",
        'WINDOW_PAIR_INVALID (line 2, column 1) "x" of WINDOW(a, x) is not in FROM. Hint: there are: a, b',
    ),
    (
        "SELECT a.k FROM a, b WINDOW(a, A) = INTERVAL 1 SECOND",
        "WINDOW_PAIR_INVALID (line 1, column 22) a window of a with itself binds nothing. Hint: name two streams "
        "of FROM; one that comes twice has two aliases",
    ),
    (
        "SELECT a.k FROM a, b WINDOW(a, b) = INTERVAL 1 SECOND AND\nWINDOW(b, a) = INTERVAL 2 SECONDS",
        "WINDOW_PAIR_INVALID (line 2, column 1) the window of b and a is given twice. Hint: leave one of them out",
    ),
    (
        "SELECT A.v FROM a A, a B, a C, a D WINDOW(A, B) = INTERVAL 1 SECOND AND WINDOW(C, D) = INTERVAL 2 SECONDS",
        "WINDOWS_NOT_CONNECTED (line 1, column 36) nothing binds A, B to C, D. Detail: Rows of one group would be"
        " kept forever, for rows of the other to come. Hint: add AND WINDOW(B, C) = INTERVAL …",
    ),
    (
        "SELECT A.v FROM a A, a B, a C, a D WINDOW(A, B) = INTERVAL 1 SECOND",
        "WINDOWS_NOT_CONNECTED (line 1, column 36) nothing binds these to each other: A, B; C; D. Detail: Rows of"
        " one group would be kept forever, for rows of the other to come. Hint: add AND WINDOW(B, C) = INTERVAL …",
    ),
    (
        "SELECT a.k FROM a, b WINDOW(a, b) = BETWEEN INTERVAL 5 SECONDS AND INTERVAL 1 SECOND",
        "WINDOW_PAIR_INVALID (line 1, column 37) the window ends before it begins. Hint: write the earlier end "
        "first; both are the time of b minus that of a",
    ),
    (
        "SELECT a.k FROM a, b WINDOW(a, b) = BETWEEN 5 AND INTERVAL 1 SECOND",
        'SYNTAX_ERROR (line 1, column 45) expected INTERVAL or 0, got "5". Hint: write BETWEEN - INTERVAL 5 '
        "SECONDS AND INTERVAL 1 MINUTE",
    ),
    (
        "SELECT a.k FROM a, b WINDOW(a, b) = BETWEEN 0 AND INTERVAL 200 YEARS",
        "INTERVAL_NOT_FIXED (line 1, column 64) a year has no fixed length. Hint: use WEEKS, DAYS, HOURS, MINUTES"
        " or SECONDS",
    ),
    (
        "SELECT a.k FROM a, b WINDOW(a, b) = BETWEEN 0 AND INTERVAL 40000 DAYS",
        "INTERVAL_OUT_OF_RANGE (line 1, column 60) an interval of 40000 DAYS cannot be used. Hint: use a whole "
        "number of microseconds, at most 100 years back or forth",
    ),
    (
        "SELECT a.k FROM a, b WINDOW = INTERVAL -1 SECOND",
        'SYNTAX_ERROR (line 1, column 40) expected a positive length of time, got "-"',
    ),
    (
        "SELECT a.k FROM a, b WINDOW(a, b) = 0 ROWS",
        "SYNTAX_ERROR (line 1, column 37) a window of 0 rows cannot be. Hint: use a whole number from 1",
    ),
    (
        "SELECT A.v FROM a A, a B, a C WINDOW(A, B) = BETWEEN INTERVAL 5 SECONDS AND INTERVAL 6 SECONDS AND "
        "WINDOW(B, C) = INTERVAL 0 SECONDS AND WINDOW(A, C) = INTERVAL 1 SECOND",
        "WINDOW_PAIR_INVALID (line 1, column 31) no rows can be in all of these windows. Hint: each is the time "
        "of the second stream minus that of the first",
    ),
    (
        "SELECT A.v FROM a A, a B, a C WINDOW(A, B) = 5 ROWS AND WINDOW(B, C) = 5 ROWS",
        "WINDOW_PAIR_INVALID (line 1, column 31) windows of ROWS are the same for all pairs. Hint: write WINDOW ="
        " 5 ROWS",
    ),
    (
        "SELECT A.v FROM a A, a B, a C WINDOW(A, B) = 5 ROWS AND WINDOW(B, C) = 6 ROWS AND WINDOW(A, C) = 5 ROWS",
        "WINDOW_PAIR_INVALID (line 1, column 57) windows of ROWS are the same for all pairs. Hint: write WINDOW ="
        " 5 ROWS",
    ),
    (
        "SELECT A.v FROM a A, a B, a C WINDOW(A, B) = 5 ROWS AND WINDOW(B, C) = INTERVAL 6 SECONDS",
        "WINDOW_UNITS_DIFFER (line 1, column 57) the windows of a join must all be time or all ROWS",
    ),
    (
        "SELECT a.k FROM a, b WINDOW = INTERVAL 1 SECOND SLIDE INTERVAL 1 SECOND",
        "NOT_IN_THE_LANGUAGE (line 1, column 49) a join has no SLIDE. Hint: leave it out: each result comes once;"
        " aggregates say how often with EMIT EVERY INTERVAL …",
    ),
    (
        "SELECT a.k FROM a, b WINDOW(a, b) = INTERVAL 1 SECOND SLIDE INTERVAL 1 SECOND",
        "NOT_IN_THE_LANGUAGE (line 1, column 55) a join has no SLIDE. Hint: leave it out: each result comes once;"
        " aggregates say how often with EMIT EVERY INTERVAL …",
    ),
    (
        "SELECT a.k FROM a, b WINDOW = INTERVAL 1 SECOND AND WINDOW(a, b) = INTERVAL 1 SECOND",
        "SYNTAX_ERROR (line 1, column 53) WINDOW = … is for every pair already. Hint: give each pair its own "
        "WINDOW(a, b) = …",
    ),
    (
        "SELECT a.k FROM a, b WHERE a.k = b.k AND WINDOW(a, b) = INTERVAL 1 SECOND",
        "SYNTAX_ERROR (line 1, column 42) WINDOW(…) is no condition. Hint: write it after FROM, and WHERE behind it",
    ),
    (
        "SELECT a.k FROM a JOIN b ON a.k = b.k WINDOW(a, b) = INTERVAL 1 SECOND AND a.v = 3",
        'SYNTAX_ERROR (line 1, column 76) expected WINDOW(a, b) = …, got "a". Hint: conditions stand in WHERE, '
        "behind the windows",
    ),
    (
        "SELECT a.k FROM a, b WINDOW(a, b) = INTERVAL 1 SECOND WINDOW(a, b) = INTERVAL 1 SECOND",
        "SYNTAX_ERROR (line 1, column 55) there are two WINDOW clauses. Hint: join the windows of pairs with AND",
    ),
    (
        "SELECT a.k FROM a WINDOW(a, b) = INTERVAL 1 SECOND",
        "WINDOW_PAIR_INVALID (line 1, column 19) WINDOW(a, b) is for joins, and this query reads one stream. "
        "Hint: write WINDOW = …",
    ),
    (
        "SELECT a.k FROM a WINDOW = INTERVAL 0 SECONDS",
        "INTERVAL_OUT_OF_RANGE (line 1, column 19) a window of no length holds no rows. Hint: use more than zero;"
        " only joins can have a window of zero",
    ),
    (
        "SELECT a.k FROM a WHERE a.k IN (SELECT a.k FROM a, b WINDOW(a, b) = INTERVAL 1 SECOND)",
        'STATE_UNBOUNDED (line 1, column 25) IN keeps every row of both sides, and stream "a" has no end. Hint: end '
        "the query with EXPIRE AFTER INTERVAL 1 DAY, if rows count for so long, or ACCEPT UNBOUNDED, or write a "
        'subquery that reads "a" with WINDOW = INTERVAL … after FROM',
    ),
]


@pytest.mark.parametrize(("text", "error"), WINDOWS)
def test_the_windows_of_a_join_that_are_refused(text: str, error: str) -> None:
    assert refused(text) == error


NAMES = [
    (
        "SELECT v FROM north, a WINDOW = INTERVAL 1 SECOND",
        'COLUMN_AMBIGUOUS (line 1, column 8) column "v" may be that of north or a. Hint: write north.v or a.v',
    ),
    (
        "SELECT GasId FROM north, a WINDOW = INTERVAL 1 SECOND WHERE _time > ts",
        'COLUMN_AMBIGUOUS (line 1, column 61) column "_time" may be that of a. Hint: write a._time',
    ),
    (
        "SELECT GasId FROM north, south s WINDOW = INTERVAL 1 SECOND WHERE north.v = s.v",
        'COLUMN_AMBIGUOUS (line 1, column 8) column "GasId" may be that of north or s. Hint: write north.GasId or'
        " s.GasId",
    ),
    (
        "SELECT a.k FROM a x, b y WINDOW = INTERVAL 1 SECOND",
        'COLUMN_NOT_FOUND (line 1, column 8) "a.k" is not a column of this join. Hint: there are: x, y',
    ),
    (
        "SELECT x.q FROM a x, b y WINDOW = INTERVAL 1 SECOND",
        'COLUMN_NOT_FOUND (line 1, column 8) column "q" is not in "x". Hint: there are: _time, k, v',
    ),
    (
        "SELECT q FROM a x, b y WINDOW = INTERVAL 1 SECOND",
        'COLUMN_NOT_FOUND (line 1, column 8) column "q" is not in x and y. Hint: there are: _time, k, v',
    ),
    (
        "SELECT x.k, y.k FROM a x, b y WINDOW = INTERVAL 1 SECOND",
        'COLUMN_EXISTS (line 1, column 13) column "k" comes twice in the answer. Hint: give one of them another '
        "name with AS",
    ),
    (
        "SELECT x.k AS _time FROM a x, b y WINDOW = INTERVAL 1 SECOND",
        'COLUMN_RESERVED (line 1, column 8) column "_time" is kept for the time. Hint: give it another name with AS',
    ),
    (
        "SELECT _completeness FROM a x, b y WINDOW = INTERVAL 1 SECOND",
        'COLUMN_NOT_FOUND (line 1, column 8) column "_completeness" is not in x and y. Hint: there are: _time, k, v',
    ),
    (
        "SELECT * EXCEPT (q) FROM a x, b y WINDOW = INTERVAL 1 SECOND",
        'COLUMN_NOT_FOUND (line 1, column 18) column "q" is not in x and y. Hint: there are: _time, k, v',
    ),
    (
        "SELECT z.* FROM a x, b y WINDOW = INTERVAL 1 SECOND",
        'COLUMN_NOT_FOUND (line 1, column 8) "z.*" is not a column of this join. Hint: there are: x, y',
    ),
    (
        "SELECT x.k FROM a x, b y WINDOW = INTERVAL 1 SECOND WHERE x.k + y.k",
        "CONDITION_NOT_BOOLEAN (line 1, column 61) the condition `x.k` + `y.k` is BIGINT, it must be BOOLEAN",
    ),
    (
        "SELECT x.k FROM a x JOIN b y ON x.k = z.k JOIN s z ON z.k = y.k WINDOW = INTERVAL 1 SECOND",
        'COLUMN_NOT_FOUND (line 1, column 39) "z.k" is not a column of this join. Hint: there are: x, y',
    ),
    (
        "SELECT a.k FROM a, A WINDOW = INTERVAL 1 SECOND",
        'SOURCE_EXISTS (line 1, column 20) two streams of FROM are called "A". Hint: give one of them another '
        "name: A AS …",
    ),
    (
        "SELECT `x.y`.`a b` FROM `x.y`, secret WINDOW = INTERVAL 1 SECOND",
        'STREAM_NOT_FOUND (line 1, column 32) stream "secret" does not exist',
    ),
]


@pytest.mark.parametrize(("text", "error"), NAMES)
def test_names_in_a_join_that_are_refused(text: str, error: str) -> None:
    assert refused(text) == error


CLAUSES = [
    (
        "SELECT a.k FROM a, b WINDOW = INTERVAL 1 SECOND ORDER BY a.k",
        "NOT_IN_THE_LANGUAGE (line 1, column 49) a join answers its results as they are found. Hint: make the "
        "join a stream with CREATE STREAM … AS SELECT … EMIT IN ORDER, and order the windows of that",
    ),
    (
        "SELECT a.k FROM a, b WINDOW = INTERVAL 1 SECOND LIMIT 1",
        "NOT_IN_THE_LANGUAGE (line 1, column 49) a join has no last row to stop at. Hint: make the join a stream "
        "with CREATE STREAM … AS SELECT … EMIT IN ORDER, and limit the windows of that",
    ),
    (
        "SELECT DISTINCT a.k FROM a, b WINDOW = INTERVAL 1 SECOND",
        "NOT_IN_THE_LANGUAGE (line 1, column 8) DISTINCT would keep every result ever found. Hint: make the join "
        "a stream with CREATE STREAM … AS SELECT … EMIT IN ORDER, and use DISTINCT in windows of that",
    ),
    (
        "SELECT /*+ INDEX(T) */ a.k FROM a, b WINDOW = INTERVAL 1 SECOND",
        "HINT_NOT_POSSIBLE (line 1, column 12) a join chooses itself how its rows are kept. Hint: leave the hint out",
    ),
    (
        "SELECT a.k FROM a, b WINDOW = INTERVAL 1 SECOND EMIT CHANGES",
        "NOT_IN_THE_LANGUAGE (line 1, column 49) a join answers each result once, so there are no changes. Hint: "
        "leave EMIT CHANGES out",
    ),
    (
        "SELECT a.k FROM a, b WINDOW = INTERVAL 1 SECOND EMIT EVERY INTERVAL 1 MINUTE",
        "NOT_IN_THE_LANGUAGE (line 1, column 49) EMIT EVERY says how often aggregates are answered, and the query"
        " has none. Hint: leave it out, or write EMIT IN ORDER",
    ),
    (
        "SELECT a.k FROM a NATURAL JOIN b WINDOW = INTERVAL 1 SECOND",
        "NOT_IN_THE_LANGUAGE (line 1, column 19) a standing query cannot have a NATURAL JOIN. Hint: write JOIN … ON …",
    ),
    (
        "SELECT a.k FROM a JOIN b USING (k) WINDOW = INTERVAL 1 SECOND",
        "NOT_IN_THE_LANGUAGE (line 1, column 26) a standing query cannot have JOIN … USING. Hint: write ON a.k = b.k",
    ),
    (
        "SELECT a.k FROM a, LATERAL (SELECT 1) x WINDOW = INTERVAL 1 SECOND",
        "NOT_IN_THE_LANGUAGE (line 1, column 36) a standing query cannot read a subquery. Hint: make the inner "
        "query a stream with CREATE STREAM … AS SELECT …",
    ),
    (
        "SELECT a.k FROM a JOIN (SELECT k FROM b) b ON a.k = b.k WINDOW = INTERVAL 1 SECOND",
        "NOT_IN_THE_LANGUAGE (line 1, column 32) a standing query cannot read a subquery. Hint: make the inner "
        "query a stream with CREATE STREAM … AS SELECT …",
    ),
    (
        "SELECT a.k FROM a WINDOW = INTERVAL 1 SECOND UNION SELECT a.k FROM a, b WINDOW = INTERVAL 1 SECOND",
        "NOT_IN_THE_LANGUAGE (line 1, column 71) a query that is a side of a set operation reads one stream. "
        "Hint: make the join a stream with CREATE STREAM … AS SELECT …",
    ),
    (
        "SELECT a.k FROM a x0, a x1, a x2, a x3, a x4, a x5, a x6, a x7, a x8, a x9, a x10, a x11, a x12, a x13, "
        "a x14, a x15, a x16 WINDOW = INTERVAL 1 SECOND",
        "TOO_MANY_STREAMS (line 1, column 119) a query joins at most 16 streams, this one 17. Hint: join some of "
        "them in a CREATE STREAM … AS SELECT … first",
    ),
    (
        "SELECT a.k FROM a WINDOW = INTERVAL 1 SECOND WITH (memory = 100)",
        "NOT_IN_THE_LANGUAGE (line 1, column 46) WITH (…) is for joins with windows, and this query is none. "
        "Hint: leave it out",
    ),
    (
        "SELECT a.k FROM a WITH (memory = 100)",
        "NOT_IN_THE_LANGUAGE (line 1, column 19) WITH (…) is for joins with windows, and this query is none. "
        "Hint: leave it out",
    ),
    (
        "SELECT a.k FROM a, b WINDOW = INTERVAL 1 SECOND WITH (shed = 'random')",
        "SYNTAX_ERROR (line 1, column 49) shed says what to let go, but not when. Hint: add memory = '64 MB'",
    ),
    (
        "SELECT a.k FROM a, b WINDOW = INTERVAL 1 SECOND WITH (memory = '12 parrots')",
        'SYNTAX_ERROR (line 1, column 64) "12 parrots" is not a size of memory. Hint: write a number of bytes, or'
        " for example '64 MB'",
    ),
    (
        "SELECT a.k FROM a, b WINDOW = INTERVAL 1 SECOND WITH (memory = 0)",
        'SYNTAX_ERROR (line 1, column 64) "0" is not a size of memory. Hint: write a number of bytes, or for '
        "example '64 MB'",
    ),
    (
        "SELECT a.k FROM a, b WINDOW = INTERVAL 1 SECOND WITH (memory = 5, shed = 'newest')",
        "SYNTAX_ERROR (line 1, column 74) a join cannot shed \"newest\". Hint: write 'random', 'oldest' or 'matches'",
    ),
    (
        "SELECT a.k FROM a, b WINDOW = INTERVAL 1 SECOND WHERE a.k < b.k WITH (memory = 5, shed = 'matches')",
        "SHED_NEEDS_A_KEY (line 1, column 65) rows can be kept by the matches of their key only if one key is "
        "equal in all streams. Hint: use shed = 'random' or 'oldest'",
    ),
    (
        "SELECT a.k FROM a, b WINDOW = 5 ROWS WITH (memory = 5)",
        "NOT_IN_THE_LANGUAGE (line 1, column 38) windows of rows have a bound already. "
        "Hint: leave WITH out, or say fewer ROWS",
    ),
    (
        "SELECT a.k FROM a, b WINDOW = INTERVAL 1 SECOND WITH (memory = 5, memory = 6)",
        "SYNTAX_ERROR (line 1, column 67) memory is given twice",
    ),
    (
        "SELECT a.k FROM a, b WINDOW = INTERVAL 1 SECOND WITH (memry = 5)",
        'SYNTAX_ERROR (line 1, column 55) a join has no option "memry". Hint: did you mean "memory"?',
    ),
    (
        "SELECT a.k FROM a, b WINDOW = INTERVAL 1 SECOND WITH (memory = 5) WHERE a.k = 3",
        "SYNTAX_ERROR (line 1, column 49) WITH (…) ends a join, and more follows. Hint: put it last",
    ),
    (
        "SELECT a.k FROM a EMIT IN ORDER",
        "NOT_IN_THE_LANGUAGE (line 1, column 19) EMIT IN ORDER is for joins with windows, and this query is none."
        " Hint: leave it out: the answer is in order of time",
    ),
    (
        "SELECT count(*) AS n FROM a WINDOW = INTERVAL 1 SECOND EMIT EVERY INTERVAL 1 MINUTE",
        "NOT_IN_THE_LANGUAGE (line 1, column 56) EMIT EVERY is not available. Hint: say how often with WINDOW = …"
        " SLIDE …",
    ),
    (
        "SELECT a.k FROM a, b WINDOW = INTERVAL 1 SECOND EMIT IN ORDER WHERE a.k = 3",
        "SYNTAX_ERROR (line 1, column 49) EMIT IN ORDER ends a query, and more follows. Hint: put it at the end",
    ),
]


@pytest.mark.parametrize(("text", "error"), CLAUSES)
def test_clauses_of_a_join_that_are_refused(text: str, error: str) -> None:
    assert refused(text) == error


AGGREGATES = [
    (
        "SELECT count(*) AS n FROM a, b WINDOW = INTERVAL 1 SECOND",
        "AGGREGATE_UNBOUNDED (line 1, column 8) count() over a join would never be finished. Hint: add EMIT EVERY"
        " INTERVAL 1 MINUTE at the end",
    ),
    (
        "SELECT a.k FROM a, b WINDOW = INTERVAL 1 SECOND GROUP BY a.k EMIT IN ORDER",
        "AGGREGATE_UNBOUNDED (line 1, column 58) GROUP BY over a join would never be finished. Hint: add EMIT "
        "EVERY INTERVAL 1 MINUTE at the end",
    ),
    (
        "SELECT a.v, median(b.v) FROM a, b WINDOW = INTERVAL 1 SECOND GROUP BY a.v EMIT EVERY INTERVAL 1 MINUTE",
        "AGGREGATE_NOT_AVAILABLE (line 1, column 22) median(b.v) cannot be computed over a join. Hint: make the "
        "join a stream with CREATE STREAM … AS SELECT … EMIT IN ORDER, and aggregate that",
    ),
    (
        "SELECT count(DISTINCT a.k) FROM a, b WINDOW = INTERVAL 1 SECOND EMIT EVERY INTERVAL 1 MINUTE",
        "AGGREGATE_NOT_AVAILABLE (line 1, column 25) count(DISTINCT a.k) cannot be computed over a join. Hint: "
        "make the join a stream with CREATE STREAM … AS SELECT … EMIT IN ORDER, and aggregate that",
    ),
    (
        "SELECT b.k, sum(a.v) FROM a, b WINDOW = INTERVAL 1 SECOND EMIT EVERY INTERVAL 1 MINUTE",
        'COLUMN_NOT_GROUPED (line 1, column 8) column "b.k" has many values in a group. Hint: add b.k to GROUP '
        "BY, or put it in an aggregate such as max()",
    ),
    (
        "SELECT sum(v) FROM a, b WINDOW = INTERVAL 1 SECOND EMIT EVERY INTERVAL 1 MINUTE",
        'COLUMN_AMBIGUOUS (line 1, column 12) column "v" may be that of a or b. Hint: write a.v or b.v',
    ),
    (
        "SELECT sum(a.v) FROM a, b WINDOW = INTERVAL 1 SECOND WHERE sum(b.v) > 3 EMIT EVERY INTERVAL 1 MINUTE",
        "AGGREGATE_MISPLACED (line 1, column 60) WHERE cannot hold an aggregate. Hint: use HAVING",
    ),
    (
        "SELECT sum(a.v) FROM a JOIN b ON max(a.v) = b.v WINDOW = INTERVAL 1 SECOND EMIT EVERY INTERVAL 1 MINUTE",
        "AGGREGATE_MISPLACED (line 1, column 34) ON cannot hold an aggregate. Hint: use HAVING",
    ),
    (
        "SELECT * , count(*) FROM a, b WINDOW = INTERVAL 1 SECOND EMIT EVERY INTERVAL 1 MINUTE",
        "COLUMN_NOT_GROUPED (line 1, column 8) * cannot stand beside aggregates. Hint: name the columns",
    ),
    (
        "SELECT count(*) FROM a, b WINDOW = INTERVAL 1 SECOND WHERE soundex(a.v) = soundex(b.v) EMIT EVERY "
        "INTERVAL 1 MINUTE",
        "EXPRESSION_NOT_EVALUABLE_IN_WINDOW (line 1, column 60) soundex(`a.v`) = soundex(`b.v`) cannot be "
        "computed inside a window. Detail: SOUNDEX(`a.v`): it is not evaluated here. Hint: put the expression in "
        "a CREATE STREAM … AS SELECT … first and read that stream",
    ),
    (
        "SELECT count(*) FROM a, b WINDOW = INTERVAL 1 SECOND EMIT EVERY INTERVAL 0 SECONDS",
        "INTERVAL_OUT_OF_RANGE (line 1, column 74) an interval of 0 SECONDS cannot be used. Hint: use a whole "
        "number of microseconds, more than zero and at most 100 years",
    ),
    (
        "SELECT count(*) FROM a, b WINDOW = INTERVAL 1 SECOND EMIT EVERY 5 ROWS",
        'SYNTAX_ERROR (line 1, column 65) expected INTERVAL, got "5"',
    ),
    (
        "SELECT a.k, count(*) AS n FROM a, b WINDOW = INTERVAL 1 SECOND GROUP BY a.k ORDER BY n EMIT EVERY "
        "INTERVAL 1 MINUTE",
        "NOT_IN_THE_LANGUAGE (line 1, column 77) a join answers its results as they are found. Hint: make the "
        "join a stream with CREATE STREAM … AS SELECT … EMIT IN ORDER, and order the windows of that",
    ),
]


@pytest.mark.parametrize(("text", "error"), AGGREGATES)
def test_aggregates_over_joins_that_are_refused(text: str, error: str) -> None:
    assert refused(text) == error


COMBINATIONS = [
    (
        "SELECT (SELECT count(*) FROM a) / (SELECT k FROM b) EMIT EVERY INTERVAL 1 MINUTE",
        "NOT_IN_THE_LANGUAGE (line 1, column 43) a subquery here gives one value per period. Hint: put the column"
        " in an aggregate such as max()",
    ),
    (
        "SELECT (SELECT count(*) FROM a) / (SELECT count(*) FROM b)",
        "NOT_IN_THE_LANGUAGE (line 1, column 16) a standing query reads a stream. Hint: say how often to answer "
        "with EMIT EVERY INTERVAL …",
    ),
    (
        "SELECT (SELECT count(*) FROM a WINDOW = 5 ROWS) AS x EMIT EVERY INTERVAL 1 MINUTE",
        "NOT_IN_THE_LANGUAGE (line 1, column 32) EMIT EVERY says the window of a stream here. Hint: leave WINDOW "
        "out; only joins have their own",
    ),
    (
        "SELECT (SELECT count(*) FROM a WITH (memory = 5)) AS x EMIT EVERY INTERVAL 1 MINUTE",
        "NOT_IN_THE_LANGUAGE (line 1, column 32) WITH (…) is for joins with windows, and this query is none. "
        "Hint: leave it out",
    ),
    (
        "SELECT (SELECT count(*) FROM a, b) AS x EMIT EVERY INTERVAL 1 MINUTE",
        "JOIN_STATE_UNBOUNDED (line 1, column 33) joining a and b would keep every row forever. Hint: add WINDOW "
        "= INTERVAL … after FROM",
    ),
    (
        "SELECT (SELECT count(*), sum(v) FROM a) AS x EMIT EVERY INTERVAL 1 MINUTE",
        "NOT_IN_THE_LANGUAGE (line 1, column 26) a value wants a subquery of one column, this one has 2. Hint: "
        "write a subquery for each",
    ),
    (
        "SELECT (SELECT count(*) FROM a GROUP BY k) AS x EMIT EVERY INTERVAL 1 MINUTE",
        "NOT_IN_THE_LANGUAGE (line 1, column 32) a value has no GROUP BY. Hint: leave it out: each subquery gives"
        " one value per period",
    ),
    (
        "SELECT (SELECT count(*) FROM a HAVING count(*) > 3) AS x EMIT EVERY INTERVAL 1 MINUTE",
        "NOT_IN_THE_LANGUAGE (line 1, column 32) a value has no HAVING. Hint: leave it out: each subquery gives "
        "one value per period",
    ),
    (
        "SELECT (SELECT count(*) FROM a LIMIT 1) AS x EMIT EVERY INTERVAL 1 MINUTE",
        "NOT_IN_THE_LANGUAGE (line 1, column 32) a value has no LIMIT. Hint: leave it out: each subquery gives "
        "one value per period",
    ),
    (
        "SELECT (SELECT coalesce(avg(v), 0.5D) FROM a) AS x EMIT EVERY INTERVAL 1 MINUTE",
        "NOT_IN_THE_LANGUAGE (line 1, column 16) this subquery has a value even where there are no rows, and it "
        "is not a whole number. Hint: let the subquery give the aggregate alone, and compute with it outside",
    ),
    (
        "SELECT (SELECT count(*) FROM a WHERE k IN (SELECT k FROM b)) AS x EMIT EVERY INTERVAL 1 MINUTE",
        (
            "NOT_IN_THE_LANGUAGE (line 1, column 51) a standing query cannot hold a subquery. Hint: a "
            "semi join says how far apart rows may lie; write SELECT s.k FROM s LEFT SEMI JOIN t ON s.k = t.k "
            "WINDOW = INTERVAL 5 MINUTES"
        ),
    ),
    (
        "SELECT EXISTS (SELECT count(*) FROM a) AS x EMIT EVERY INTERVAL 1 MINUTE",
        "NOT_IN_THE_LANGUAGE (line 1, column 23) only single values can be combined. Hint: write the subquery as "
        "a value: (SELECT count(*) FROM …) > 0",
    ),
    (
        "SELECT 3 IN (SELECT count(*) FROM a) AS x EMIT EVERY INTERVAL 1 MINUTE",
        "NOT_IN_THE_LANGUAGE (line 1, column 21) only single values can be combined. Hint: write the subquery as "
        "a value: (SELECT count(*) FROM …) > 0",
    ),
    (
        "SELECT count(*) + (SELECT count(*) FROM a) AS x EMIT EVERY INTERVAL 1 MINUTE",
        "AGGREGATE_MISPLACED (line 1, column 8) count() has no stream. Hint: write (SELECT count(…) FROM …)",
    ),
    (
        "SELECT k + (SELECT count(*) FROM a) AS x EMIT EVERY INTERVAL 1 MINUTE",
        'COLUMN_NOT_FOUND (line 1, column 8) "k" stands outside of the subqueries, where there are no rows. Hint:'
        " use it inside an aggregate: (SELECT max(…) FROM …)",
    ),
    (
        "SELECT *, (SELECT count(*) FROM a) AS x EMIT EVERY INTERVAL 1 MINUTE",
        'COLUMN_NOT_FOUND (line 1, column 8) "*" stands outside of the subqueries, where there are no rows. Hint:'
        " use it inside an aggregate: (SELECT max(…) FROM …)",
    ),
    (
        "SELECT 1 AS x EMIT EVERY INTERVAL 1 MINUTE",
        "NOT_IN_THE_LANGUAGE (line 1, column 8) a standing query reads a stream. Hint: add FROM with a stream's name",
    ),
    (
        "SELECT (SELECT count(*) FROM a) AS x WHERE 1 = 1 EMIT EVERY INTERVAL 1 MINUTE",
        "NOT_IN_THE_LANGUAGE (line 1, column 44) a SELECT of aggregates without FROM cannot have WHERE. Hint: put"
        " it into the subqueries",
    ),
    (
        "SELECT (SELECT count(*) FROM a) AS x, (SELECT count(*) FROM b) AS x EMIT EVERY INTERVAL 1 MINUTE",
        'COLUMN_EXISTS (line 1, column 47) column "x" comes twice in the answer. Hint: give one of them another '
        "name with AS",
    ),
    (
        "SELECT (SELECT max(soundex(saddr)) FROM ptb) AS x EMIT EVERY INTERVAL 1 MINUTE",
        "EXPRESSION_NOT_EVALUABLE_IN_WINDOW (line 1, column 20) soundex(saddr) cannot be computed inside a "
        "window. Detail: SOUNDEX(saddr): it is not evaluated here. Hint: put the expression in a CREATE STREAM … "
        "AS SELECT … first and read that stream",
    ),
    (
        "SELECT (SELECT count(*) FROM nothing) AS x EMIT EVERY INTERVAL 1 MINUTE",
        'STREAM_NOT_FOUND (line 1, column 30) stream "nothing" does not exist',
    ),
    (
        "SELECT (SELECT median(a.v) FROM a, b WINDOW = INTERVAL 1 SECOND) AS x EMIT EVERY INTERVAL 1 MINUTE",
        "AGGREGATE_NOT_AVAILABLE (line 1, column 25) median(a.v) cannot be computed over a join. Hint: make the "
        "join a stream with CREATE STREAM … AS SELECT … EMIT IN ORDER, and aggregate that",
    ),
    (
        "SELECT /*+ INDEX(T) */ (SELECT count(*) FROM a) AS x EMIT EVERY INTERVAL 1 MINUTE",
        "HINT_NOT_POSSIBLE (line 1, column 12) the query has no window, so nothing is indexed there. Hint: leave "
        "the hint out",
    ),
    (
        "SELECT (SELECT count(*) FROM a EMIT EVERY INTERVAL 1 MINUTE) AS x EMIT EVERY INTERVAL 1 MINUTE",
        'SYNTAX_ERROR (line 1, column 37) expected ), got "EVERY"',
    ),
]


@pytest.mark.parametrize(("text", "error"), COMBINATIONS)
def test_combinations_that_are_refused(text: str, error: str) -> None:
    assert refused(text) == error


OUTER = [
    (
        "SELECT a.k FROM a LEFT JOIN b ON a.k = b.k",
        'STATE_UNBOUNDED (line 1, column 29) LEFT JOIN keeps every row of both sides, and stream "a" has no end. Hint: '
        "end the query with EXPIRE AFTER INTERVAL 1 DAY, if rows count for so long, or ACCEPT UNBOUNDED, or write "
        "WINDOW = INTERVAL … after FROM",
    ),
    (
        "SELECT a.k FROM a LEFT JOIN b ON a.k = b.k LEFT JOIN c ON c.k = b.k WINDOW = INTERVAL 1 SECOND",
        "NOT_IN_THE_LANGUAGE (line 1, column 54) a LEFT JOIN in a window is one of two streams. Hint: make the join "
        "a stream with CREATE STREAM … AS SELECT … EMIT IN ORDER, and join that",
    ),
    (
        "SELECT a.k FROM a, b FULL OUTER JOIN c ON c.k = b.k WINDOW = INTERVAL 1 SECOND",
        "NOT_IN_THE_LANGUAGE (line 1, column 38) a FULL OUTER JOIN in a window is one of two streams. Hint: make the "
        "join a stream with CREATE STREAM … AS SELECT … EMIT IN ORDER, and join that",
    ),
    (
        "SELECT a.k FROM a RIGHT JOIN b ON a.k = b.k WINDOW = 10 ROWS",
        "NOT_IN_THE_LANGUAGE (line 1, column 45) a RIGHT JOIN needs a window of time: one of ROWS passes only when "
        "other rows come. Hint: write WINDOW = INTERVAL …",
    ),
    (
        "SELECT a.k FROM a LEFT JOIN b ON a.k = b.k WINDOW(a, b) = 10 ROWS",
        "NOT_IN_THE_LANGUAGE (line 1, column 44) a LEFT JOIN needs a window of time: one of ROWS passes only when "
        "other rows come. Hint: write WINDOW = INTERVAL …",
    ),
    (
        "SELECT a.k FROM a LEFT ANTI JOIN b ON a.k = b.k WINDOW = INTERVAL 1 SECOND WITH (memory = 4096)",
        "NOT_IN_THE_LANGUAGE (line 1, column 76) a LEFT ANTI JOIN lets no rows go: whoever had met them would be "
        "answered as if it had no partner. Hint: leave WITH out; what is larger than memory is in files",
    ),
    (
        "SELECT b.k FROM a LEFT SEMI JOIN b ON a.k = b.k WINDOW = INTERVAL 1 SECOND",
        'COLUMN_NOT_FOUND (line 1, column 8) "b.k" is not a column of this join. Hint: there are: a',
    ),
    (
        "SELECT a.k FROM a LEFT ANTI JOIN b ON a.k = b.k WINDOW = INTERVAL 1 SECOND WHERE b.v = 1",
        'COLUMN_NOT_FOUND (line 1, column 82) "b.v" is not a column of this join. Hint: there are: a',
    ),
    (
        "SELECT a.k FROM a RIGHT SEMI JOIN b ON a.k = b.k WINDOW = INTERVAL 1 SECOND",
        "NOT_IN_THE_LANGUAGE (line 1, column 19) a standing query cannot have a RIGHT SEMI JOIN. Hint: write LEFT "
        "SEMI JOIN, with the streams the other way around",
    ),
    (
        "SELECT a.k FROM a NATURAL LEFT JOIN b WINDOW = INTERVAL 1 SECOND",
        "NOT_IN_THE_LANGUAGE (line 1, column 19) a standing query cannot have a NATURAL LEFT JOIN. Hint: write JOIN "
        "… ON …",
    ),
    (
        "SELECT a.k FROM a LEFT JOIN b USING (k) WINDOW = INTERVAL 1 SECOND",
        "NOT_IN_THE_LANGUAGE (line 1, column 31) a standing query cannot have JOIN … USING. Hint: write ON a.k = b.k",
    ),
    (
        "SELECT count(*) AS n FROM a LEFT JOIN b ON a.k = b.k WINDOW = INTERVAL 1 SECOND EMIT EVERY INTERVAL 1 MINUTE",
        "NOT_IN_THE_LANGUAGE (line 1, column 29) a standing query cannot have a LEFT JOIN with aggregates. Hint: make "
        "the join a stream with CREATE STREAM … AS SELECT … EMIT IN ORDER, and aggregate the windows of that",
    ),
    (
        "SELECT (SELECT count(*) FROM a LEFT JOIN b ON a.k = b.k WINDOW = INTERVAL 1 SECOND) AS x "
        "EMIT EVERY INTERVAL 1 MINUTE",
        "NOT_IN_THE_LANGUAGE (line 1, column 32) a standing query cannot have a LEFT JOIN with aggregates. Hint: make "
        "the join a stream with CREATE STREAM … AS SELECT … EMIT IN ORDER, and aggregate the windows of that",
    ),
    (
        "SELECT a.k FROM a LEFT JOIN b ON a.k = b.k WINDOW = INTERVAL 1 SECOND EMIT EVERY INTERVAL 1 MINUTE",
        "NOT_IN_THE_LANGUAGE (line 1, column 71) EMIT EVERY says how often aggregates are answered, and the query"
        " has none. Hint: leave it out, or write EMIT IN ORDER",
    ),
    (
        "SELECT a.k FROM a LEFT JOIN b ON a.k = b.k WINDOW = INTERVAL 1 SECOND EMIT CHANGES",
        "NOT_IN_THE_LANGUAGE (line 1, column 71) a join answers each result once, so there are no changes. Hint: "
        "leave EMIT CHANGES out",
    ),
    (
        "SELECT a.k FROM a LEFT JOIN b ON concat_ws('-', a.k, b.k) = 'a' WINDOW = INTERVAL 1 SECOND",
        "EXPRESSION_NEEDS_SPARK (line 1, column 34) concat_ws('-', `a.k`, `b.k`) = 'a' needs Spark SQL, which cannot "
        "say who has a partner. Hint: compute what it takes of each stream in a CREATE STREAM … AS SELECT … before",
    ),
    (
        "SELECT a.k FROM a LEFT JOIN b ON a.k + b.k WINDOW = INTERVAL 1 SECOND",
        "CONDITION_NOT_BOOLEAN (line 1, column 36) the condition `a.k` + `b.k` is BIGINT, it must be BOOLEAN",
    ),
]


@pytest.mark.parametrize(("text", "error"), OUTER)
def test_outer_joins_that_are_refused(text: str, error: str) -> None:
    assert refused(text) == error


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("SELECT x.k FROM a x JOIN b y ON x.k = y.k EMIT IN ORDER", "NOT_IN_THE_LANGUAGE"),
        ("SELECT x.k FROM a x JOIN b y ON x.k = y.k WITH (memory = 4096)", "NOT_IN_THE_LANGUAGE"),
        ("SELECT count(*) FROM a x JOIN b y ON x.k = y.k EMIT EVERY INTERVAL 1 MINUTE", "NOT_IN_THE_LANGUAGE"),
        ("SELECT x.k FROM a x LEFT JOIN b y ON x.k = y.k WINDOW(x, y) = 10 ROWS", "NOT_IN_THE_LANGUAGE"),
        (
            "SELECT (SELECT count(*) FROM a) / (SELECT k FROM b) AS x EMIT EVERY INTERVAL 1 MINUTE",
            "NOT_IN_THE_LANGUAGE",
        ),
    ],
)
def test_asked_once_clauses_of_joins_are_refused_as_well(text: str, name: str) -> None:
    assert refused(text, once=True).startswith(f"{name} (line 1, column ")
