"""The exact words of errors about archives, with line and column."""

from __future__ import annotations

import pytest

from anabranch.errors import AnabranchError
from anabranch.sql import parse
from tests.sql.archives import refused

SINCE, EVERY = "SINCE TIMESTAMP '2026-11-01'", "EMIT EVERY INTERVAL 1 HOUR"
ON = "ON c.plate = h.plate"
COMMUTERS = "FROM cars c JOIN ARCHIVE cars h LAST 7 INTERVAL 1 DAY WITHIN INTERVAL 1 HOUR"

STATEMENTS = [
    (
        "CREATE ARCHIVE cars USING plain",
        'SYNTAX_ERROR (line 1, column 21) expected ON, got "USING"',
    ),
    (
        "CREATE ARCHIVE ON cars",
        "SYNTAX_ERROR (line 1, column 23) expected USING, the statement ends here. Hint: write for "
        "example USING randomize_then_sort",
    ),
    (
        "CREATE ARCHIVE ON cars plain",
        'SYNTAX_ERROR (line 1, column 24) expected USING, got "plain". Hint: write for example USING '
        "randomize_then_sort",
    ),
    (
        "CREATE ARCHIVE ON cars.rejects USING plain",
        "NOT_IN_THE_LANGUAGE (line 1, column 23) an archive is of a stream, not of its rejects. Hint: make them a "
        "stream: CREATE STREAM … AS SELECT * FROM cars.rejects",
    ),
    (
        "CREATE ARCHIVE ON cars USING",
        "SYNTAX_ERROR (line 1, column 29) expected a layout, the statement ends here",
    ),
    (
        "CREATE ARCHIVE ON cars USING plain KEEP 90 DAYS",
        'SYNTAX_ERROR (line 1, column 41) expected INTERVAL, got "90"',
    ),
    (
        "CREATE ARCHIVE ON cars USING plain KEEP INTERVAL 1 MONTH",
        "INTERVAL_NOT_FIXED (line 1, column 52) a month has no fixed length. Hint: use WEEKS, DAYS, "
        "HOURS, MINUTES or SECONDS",
    ),
    (
        "CREATE ARCHIVE ON cars USING plain KEEP INTERVAL 1 DAY KEEP INTERVAL 2 DAYS",
        "SYNTAX_ERROR (line 1, column 56) KEEP comes twice",
    ),
    (
        "CREATE ARCHIVE ON cars USING plain GROUP BY exit",
        'SYNTAX_ERROR (line 1, column 36) expected EVERY INTERVAL … before GROUP BY, got "GROUP BY"',
    ),
    (
        "CREATE ARCHIVE ON cars USING plain EVERY INTERVAL 1 HOUR GROUP BY exit, EXIT",
        'COLUMN_EXISTS (line 1, column 73) column "EXIT" comes twice',
    ),
    (
        "CREATE ARCHIVE ON cars USING plain OPTIONS (blocks 1, blocks 2)",
        'SYNTAX_ERROR (line 1, column 55) option "blocks" comes twice',
    ),
    (
        "CREATE ARCHIVE ON cars USING plain OPTIONS (blocks x)",
        'SYNTAX_ERROR (line 1, column 52) expected the value of option "blocks", got "x". Hint: write it in quotes',
    ),
    (
        "CREATE ARCHIVE ON cars USING plain WITH (x = 1)",
        'SYNTAX_ERROR (line 1, column 36) expected BY, EVERY, KEEP or OPTIONS, got "WITH"',
    ),
    (
        "ALTER ARCHIVE ON cars",
        "SYNTAX_ERROR (line 1, column 22) expected ADD LEVEL, DROP LEVEL or KEEP, the statement ends here",
    ),
    (
        "ALTER ARCHIVE ON cars ADD LEVEL 100 PERCENT",
        'SYNTAX_ERROR (line 1, column 33) expected a whole number from 1 to 99, got "100". Hint: it is '
        "how much is left out: ADD LEVEL 80 PERCENT",
    ),
    (
        "ALTER ARCHIVE ON cars ADD LEVEL 0 PERCENT",
        'SYNTAX_ERROR (line 1, column 33) expected a whole number from 1 to 99, got "0". Hint: it is how '
        "much is left out: ADD LEVEL 80 PERCENT",
    ),
    (
        "ALTER ARCHIVE ON cars ADD LEVEL 20",
        "SYNTAX_ERROR (line 1, column 35) expected PERCENT, the statement ends here",
    ),
    (
        "ALTER ARCHIVE ON cars DROP 20 PERCENT",
        'SYNTAX_ERROR (line 1, column 23) expected ADD LEVEL, DROP LEVEL or KEEP, got "DROP"',
    ),
    (
        "ALTER ARCHIVE ON cars KEEP FOREVER",
        'SYNTAX_ERROR (line 1, column 28) expected INTERVAL, got "FOREVER"',
    ),
    (
        "ALTER STREAM cars",
        "SYNTAX_ERROR (line 1, column 18) expected ADD, the statement ends here",
    ),
    (
        "ALTER STREAM cars ADD COLUMN lane",
        "SYNTAX_ERROR (line 1, column 34) expected the column's type, the statement ends here",
    ),
    (
        "ALTER STREAM cars ADD COLUMN lane FOO",
        "TYPE_NOT_SUPPORTED (line 1, column 35) type FOO cannot be the type of a stream's column. Hint: "
        "use one of BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, STRING, BINARY, DATE, "
        "TIMESTAMP, DECIMAL(p, s), ARRAY<type>, STRUCT<name: type, …>",
    ),
    (
        "ALTER STREAM cars ADD COLUMN lane INT, x INT",
        'SYNTAX_ERROR (line 1, column 38) "," was not expected here. Hint: end the statement with ;',
    ),
    (
        "ALTER TABLE cars",
        'NOT_IN_THE_LANGUAGE (line 1, column 7) "ALTER TABLE" does not begin a statement. Hint: there '
        "are: ALTER QUERY, ALTER QUERY ON HOST, ALTER STREAM, ALTER ARCHIVE",
    ),
    (
        "DROP ARCHIVE",
        "SYNTAX_ERROR (line 1, column 13) expected the name of an archive or stream, the statement ends here",
    ),
    (
        "DROP ARCHIVE a ON",
        "SYNTAX_ERROR (line 1, column 18) expected the stream's name, the statement ends here",
    ),
    (
        "DROP ARCHIVE a ON b c",
        'SYNTAX_ERROR (line 1, column 21) "c" was not expected here. Hint: end the statement with ;',
    ),
    (
        "DESCRIBE ARCHIVE a ON",
        "SYNTAX_ERROR (line 1, column 22) expected the stream's name, the statement ends here",
    ),
    (
        "VACUUM cars",
        'SYNTAX_ERROR (line 1, column 8) expected ARCHIVE, got "cars"',
    ),
    (
        "VACUUM ARCHIVE cars RETAIN 3",
        'SYNTAX_ERROR (line 1, column 28) expected INTERVAL, got "3"',
    ),
    (
        "SHOW ARCHIVE",
        'NOT_IN_THE_LANGUAGE (line 1, column 6) "SHOW ARCHIVE" does not begin a statement. Hint: did you '
        'mean "ARCHIVES"?',
    ),
]


@pytest.mark.parametrize(("text", "said"), STATEMENTS)
def test_a_statement_about_archives_that_cannot_be_read(text: str, said: str) -> None:
    with pytest.raises(AnabranchError) as caught:
        parse(text)
    assert str(caught.value) == said


ONCE = [
    (
        "SELECT exit FROM ARCHIVE cars BETWEEN 1 AND 2",
        'SYNTAX_ERROR (line 1, column 39) expected a point in time, got "1". Hint: write for example '
        "TIMESTAMP '2026-11-16 16:00:00', or current_timestamp() - INTERVAL 1 DAY",
    ),
    (
        "SELECT exit FROM ARCHIVE cars BETWEEN TIMESTAMP '2026-11-08' AND TIMESTAMP '2026-11-01'",
        "ARCHIVE_RANGE_INVALID (line 1, column 39) the range ends before it begins. Hint: write the earlier time first",
    ),
    (
        "SELECT exit FROM ARCHIVE cars BETWEEN TIMESTAMP '2026-11-08'",
        "SYNTAX_ERROR (line 1, column 61) expected AND, the statement ends here",
    ),
    (
        "SELECT exit FROM ARCHIVE cars BETWEEN TIMESTAMP 'soon' AND now()",
        "VALUE_NOT_CAST (line 1, column 39) 'soon' is not a TIMESTAMP",
    ),
    (
        "SELECT exit FROM ARCHIVE cars BETWEEN now() - INTERVAL 1 DAY AND now() BETWEEN now() AND now()",
        "SYNTAX_ERROR (line 1, column 72) BETWEEN comes twice",
    ),
    (
        "SELECT exit FROM ARCHIVE cars SINCE TIMESTAMP '2026-11-01'",
        "SYNTAX_ERROR (line 1, column 31) an archive is read BETWEEN two points in time. Hint: write "
        "BETWEEN … AND …, or leave ARCHIVE out to go on live",
    ),
    (
        "SELECT exit FROM ARCHIVE nowhere",
        'STREAM_NOT_FOUND (line 1, column 26) stream "nowhere" does not exist',
    ),
    (
        "SELECT exit FROM cars REDUCE BY uniform(0.4)",
        "ARCHIVE_WANTED (line 1, column 23) REDUCE BY says how much of the past is read, and live rows "
        "are never left out. Hint: write FROM ARCHIVE … REDUCE BY …, or FROM … SINCE TIMESTAMP '…' REDUCE "
        "BY …",
    ),
    (
        "SELECT exit FROM ARCHIVE cars REDUCE BY uniform",
        "SYNTAX_ERROR (line 1, column 48) expected ( behind uniform, the statement ends here. Hint: write "
        "for example REDUCE BY uniform(0.4)",
    ),
    (
        "SELECT exit FROM ARCHIVE cars REDUCE BY uniform 0.4",
        'SYNTAX_ERROR (line 1, column 49) expected ( behind uniform, got "0.4". Hint: write for example '
        "REDUCE BY uniform(0.4)",
    ),
    (
        "SELECT exit FROM ARCHIVE cars REDUCE BY uniform('x')",
        'SYNTAX_ERROR (line 1, column 49) expected a number, an INTERVAL or a column\'s name, got "x"',
    ),
    (
        "SELECT exit FROM ARCHIVE cars REDUCE BY uniform(0.4",
        "SYNTAX_ERROR (line 1, column 52) expected ), the statement ends here",
    ),
    (
        "SELECT exit FROM ARCHIVE cars REDUCE BY uniform(1)",
        "REDUCER_ARGUMENT_INVALID (line 1, column 41) fraction of uniform(fraction) is 1, wanted the "
        "fraction to drop, a number from 0 to below 1",
    ),
    (
        "SELECT exit FROM ARCHIVE cars REDUCE BY uniform()",
        "REDUCER_ARGUMENT_INVALID (line 1, column 41) uniform has 0 arguments, wanted 1. Hint: write uniform(fraction)",
    ),
    (
        "SELECT exit FROM ARCHIVE cars REDUCE BY uniform(-0.1)",
        "REDUCER_ARGUMENT_INVALID (line 1, column 41) fraction of uniform(fraction) is -0.1, wanted the "
        "fraction to drop, a number from 0 to below 1",
    ),
    (
        "SELECT exit FROM ARCHIVE cars REDUCE BY age(1)",
        "REDUCER_ARGUMENT_INVALID (line 1, column 41) half_life of age(half_life) is 1, wanted an "
        "INTERVAL above zero, of at most 100 years",
    ),
    (
        "SELECT exit FROM ARCHIVE cars REDUCE BY by_key(plat, 0.9)",
        'COLUMN_NOT_FOUND (line 1, column 41) by_key keeps whole keys of "plat", which is not a column. '
        'Hint: did you mean "plate"?',
    ),
    (
        "SELECT exit FROM ARCHIVE cars REDUCE BY weekends(0.9, plat)",
        'COLUMN_NOT_FOUND (line 1, column 41) weekends keeps whole keys of "plat", which is not a column. '
        'Hint: did you mean "plate"?',
    ),
    (
        "SELECT exit FROM ARCHIVE cars REDUCE BY weekends(0.9)",
        'REDUCER_ARGUMENT_INVALID (line 1, column 41) reducer "tests.sql.archives_reducer:Weekends" '
        "cannot take 1 arguments. Detail: missing a required argument: 'column'. Hint: it is "
        "Weekends(fraction: 'float', column: 'str') -> 'None'",
    ),
    (
        "SELECT exit FROM ARCHIVE cars REDUCE BY weekend(0.9, plate)",
        'REDUCER_NOT_FOUND (line 1, column 41) reducer "weekend" does not exist. Hint: did you mean "weekends"?',
    ),
    (
        "SELECT exit FROM ARCHIVE cars REDUCE BY `os:system`(1)",
        'REDUCER_NOT_FOUND (line 1, column 41) there is no reducer "os:system". Hint: there are: age, '
        "by_key, error, every, load, uniform, weekends",
    ),
    (
        "SELECT exit FROM ARCHIVE cars REDUCE BY uniform(0.1) REDUCE BY uniform(0.1)",
        "SYNTAX_ERROR (line 1, column 54) REDUCE BY comes twice",
    ),
    (
        "SELECT exit FROM ARCHIVE cars REDUCE BY every(INTERVAL 1 HOUR)",
        "NOT_ON_REDUCED_DATA (line 1, column 41) every(…) is for aggregates, and these are rows. Hint: "
        "use uniform, age, load or by_key",
    ),
    (
        "SELECT exit FROM ARCHIVE cars REDUCE BY error(2)",
        "NOT_ON_REDUCED_DATA (line 1, column 41) error(…) is for aggregates, and these are rows. Hint: "
        "use uniform, age, load or by_key",
    ),
    (
        "SELECT n FROM ARCHIVE sampled REDUCE BY uniform(0.1)",
        'COLUMN_RESERVED (line 1, column 41) column "_fraction" of "sampled" is kept for the part of the '
        "rows that is read. Hint: leave REDUCE BY out",
    ),
    (
        "SELECT exit, _fraction FROM ARCHIVE cars",
        'COLUMN_NOT_FOUND (line 1, column 14) column "_fraction" is not in the streams of this query. '
        "Hint: there are: at, exit, plate, speed, toll",
    ),
    (
        "SELECT c.exit FROM ARCHIVE cars c LAST 7 INTERVAL 1 DAY WITHIN INTERVAL 1 HOUR, trucks",
        "NOT_IN_THE_LANGUAGE (line 1, column 35) LAST … is for a join of live rows with their past, alone "
        "in its query. Hint: write FROM live JOIN ARCHIVE past LAST … ON …",
    ),
    (
        "SELECT count(*) FROM ARCHIVE cars WITH ERROR 0 PERCENT",
        "SYNTAX_ERROR (line 1, column 46) an error is above 0 and below 100 PERCENT, got 0. Hint: write "
        "for example WITH ERROR 2 PERCENT",
    ),
    (
        "SELECT count(*) FROM ARCHIVE cars WITH ERROR 100 PERCENT",
        "SYNTAX_ERROR (line 1, column 46) an error is above 0 and below 100 PERCENT, got 100. Hint: write "
        "for example WITH ERROR 2 PERCENT",
    ),
    (
        "SELECT count(*) FROM ARCHIVE cars WITH ERROR 2",
        "SYNTAX_ERROR (line 1, column 47) expected PERCENT, the statement ends here. Hint: write for "
        "example WITH ERROR 2 PERCENT",
    ),
    (
        "SELECT count(*) FROM ARCHIVE cars WITH ERROR 2 PERCENT CONFIDENCE 100 PERCENT",
        "SYNTAX_ERROR (line 1, column 67) a confidence is above 0 and below 100 PERCENT, got 100. Hint: "
        "write for example CONFIDENCE 95 PERCENT",
    ),
    (
        "SELECT count(*) FROM ARCHIVE cars WITH ERROR 2 PERCENT CONFIDENCE",
        "SYNTAX_ERROR (line 1, column 66) expected a number, the statement ends here. Hint: write "
        "CONFIDENCE 95 PERCENT",
    ),
    (
        "SELECT count(*) FROM ARCHIVE cars WITHIN 500",
        "SYNTAX_ERROR (line 1, column 45) expected a unit of time, the statement ends here. Hint: write "
        "for example WITHIN 500 MILLISECONDS",
    ),
    (
        "SELECT count(*) FROM ARCHIVE cars WITHIN 500 PARSECS",
        'SYNTAX_ERROR (line 1, column 46) "PARSECS" is not a unit of time. Hint: there are: DAY, HOUR, '
        "MICROSECOND, MILLISECOND, MINUTE, SECOND, WEEK",
    ),
    (
        "SELECT count(*) FROM ARCHIVE cars WITHIN 0 SECONDS",
        "INTERVAL_OUT_OF_RANGE (line 1, column 42) nothing can be read within 0 SECONDS. Hint: use a "
        "microsecond or more",
    ),
    (
        "SELECT count(*) FROM ARCHIVE cars WITHIN 1 SECOND WITH ERROR 2 PERCENT",
        "SYNTAX_ERROR (line 1, column 35) WITHIN ends a query, and more follows. Hint: put it at the end, once",
    ),
    (
        "SELECT count(*) FROM ARCHIVE cars WITH ERROR 2 PERCENT WHERE exit > 1",
        "SYNTAX_ERROR (line 1, column 35) WITH ERROR ends a query, and more follows. Hint: put it at the end, once",
    ),
    (
        "SELECT n FROM (SELECT count(*) AS n FROM ARCHIVE cars WITH ERROR 2 PERCENT)",
        "NOT_IN_THE_LANGUAGE (line 1, column 55) a subquery cannot have WITH ERROR. Hint: put it at the "
        "end of the whole query",
    ),
    (
        "SELECT count(*) FROM ARCHIVE cars WITH CONFIDENCE 90 PERCENT",
        "NOT_IN_THE_LANGUAGE (line 1, column 35) WITH CONFIDENCE is about the bounds of aggregates over "
        "part of the rows. Hint: leave it out, or read less with REDUCE BY …",
    ),
    (
        "SELECT count(*) FROM cars WITH ERROR 2 PERCENT",
        "ARCHIVE_WANTED (line 1, column 27) WITH ERROR is for questions to an archive. Hint: write FROM "
        "ARCHIVE …, or leave it out",
    ),
    (
        "SELECT exit FROM ARCHIVE cars WITHIN 2 SECONDS",
        "NOT_IN_THE_LANGUAGE (line 1, column 31) WITHIN is for aggregates, and the query has none. Hint: "
        "leave it out; REDUCE BY … reads part of the rows",
    ),
    (
        "SELECT median(speed) FROM ARCHIVE cars WITH ERROR 2 PERCENT",
        "NOT_ON_REDUCED_DATA (line 1, column 8) median() cannot be answered from part of the rows. Hint: "
        "read in full: leave WITH ERROR out; what can be: count, sum, avg, min and max",
    ),
    (
        "SELECT sum(DISTINCT exit) FROM ARCHIVE cars REDUCE BY uniform(0.4)",
        "NOT_ON_REDUCED_DATA (line 1, column 8) sum(DISTINCT …) cannot be answered from part of the rows. "
        "Hint: read in full: leave REDUCE BY out; what can be: count, sum, avg, min and max",
    ),
    (
        "SELECT first(exit) FROM ARCHIVE cars REDUCE BY uniform(0.4)",
        "NOT_ON_REDUCED_DATA (line 1, column 8) first() cannot be answered from part of the rows. Hint: "
        "read in full: leave REDUCE BY out; what can be: count, sum, avg, min and max",
    ),
    (
        "SELECT exit, count(*) AS n FROM ARCHIVE cars REDUCE BY uniform(0.4) GROUP BY exit ORDER BY stddev(speed)",
        "NOT_ON_REDUCED_DATA (line 1, column 92) stddev() cannot be answered from part of the rows. Hint: "
        "read in full: leave REDUCE BY out; what can be: count, sum, avg, min and max",
    ),
    (
        "SELECT sum(speed) / count(*) AS v FROM ARCHIVE cars REDUCE BY uniform(0.4)",
        "NOT_ON_REDUCED_DATA (line 1, column 8) sum(speed) / count(*) is computed from aggregates, and "
        "those alone have bounds. Hint: select the aggregates by themselves, or read in full: leave "
        "REDUCE BY out",
    ),
    (
        "SELECT exit + 1, count(*) FROM ARCHIVE cars REDUCE BY uniform(0.4) GROUP BY exit",
        "NOT_ON_REDUCED_DATA (line 1, column 8) exit + 1 is neither a key nor an aggregate. Hint: group by it",
    ),
    (
        "SELECT speed, count(*) FROM ARCHIVE cars REDUCE BY uniform(0.4) GROUP BY exit",
        'COLUMN_NOT_GROUPED (line 1, column 8) column "speed" has many values in a group. Hint: add speed '
        "to GROUP BY, or put it in an aggregate such as max()",
    ),
    (
        "SELECT *, count(*) FROM ARCHIVE cars REDUCE BY uniform(0.4)",
        "COLUMN_NOT_GROUPED (line 1, column 8) * cannot stand beside aggregates. Hint: name the columns",
    ),
    (
        "SELECT sum(plate) FROM ARCHIVE cars REDUCE BY uniform(0.4)",
        "AGGREGATE_TYPE_MISMATCH (line 1, column 12) sum of STRING was asked for, it needs a number",
    ),
    (
        "SELECT reverse(plate) AS p, count(*) FROM ARCHIVE cars REDUCE BY uniform(0.4) GROUP BY p",
        "EXPRESSION_NOT_EVALUABLE_IN_WINDOW (line 1, column 8) reverse(plate) cannot be computed while "
        "history is read. Detail: REVERSE(plate): it is not evaluated here. Hint: read in "
        "full: leave REDUCE BY out",
    ),
    (
        "SELECT count(*) AS n FROM ARCHIVE cars WHERE at > current_timestamp() WITH ERROR 2 PERCENT",
        "EXPRESSION_NOT_EVALUABLE_IN_WINDOW (line 1, column 46) at > current_timestamp() cannot be computed while "
        "history is read. Detail: CURRENT_TIMESTAMP(): it is not evaluated here. Hint: read in full: leave WITH ERROR "
        "out; times relative to now can stand in BETWEEN … AND …",
    ),
    (
        "SELECT count(*) AS n FROM ARCHIVE cars REDUCE BY uniform(0.4) ORDER BY nope",
        'COLUMN_NOT_FOUND (line 1, column 72) column "nope" is not in stream "cars". Hint: there are: at, exit, n, '
        "plate, speed, toll",
    ),
    (
        "SELECT DISTINCT exit FROM ARCHIVE cars REDUCE BY uniform(0.4)",
        "NOT_ON_REDUCED_DATA (line 1, column 17) DISTINCT over reduced rows would leave out values that no row read "
        "has. Hint: leave DISTINCT out, or put it around a subquery if the values that were read are meant",
    ),
    (
        "SELECT count(*) FROM ARCHIVE cars REDUCE BY uniform(0.4) WHERE speed",
        "CONDITION_NOT_BOOLEAN (line 1, column 64) the condition speed is DOUBLE, it must be BOOLEAN",
    ),
    (
        "SELECT count(*) AS n, sum(exit) AS n_low FROM ARCHIVE cars REDUCE BY uniform(0.4)",
        'COLUMN_RESERVED (line 1, column 23) column "n_low" is kept for a bound of "n". Hint: give it '
        "another name with AS",
    ),
    (
        "SELECT exit AS N_HIGH, count(*) AS n FROM ARCHIVE cars REDUCE BY uniform(0.4) GROUP BY exit",
        'COLUMN_RESERVED (line 1, column 8) column "N_HIGH" is kept for a bound of "n". Hint: give it '
        "another name with AS",
    ),
    (
        "SELECT count(*) AS _fraction FROM ARCHIVE cars REDUCE BY uniform(0.4)",
        'COLUMN_RESERVED (line 1, column 8) column "_fraction" is kept for the part of the rows that was '
        "read. Hint: give it another name with AS",
    ),
    (
        "SELECT count(*) AS _met FROM ARCHIVE cars WITH ERROR 2 PERCENT",
        'COLUMN_RESERVED (line 1, column 8) column "_met" is kept for whether WITH ERROR was reached. '
        "Hint: give it another name with AS",
    ),
    (
        "SELECT count(*) AS n, sum(exit) AS n FROM ARCHIVE cars REDUCE BY uniform(0.4)",
        'COLUMN_EXISTS (line 1, column 23) column "n" comes twice in the answer. Hint: give one of them '
        "another name with AS",
    ),
    (
        "SELECT exit, count(*) AS n FROM ARCHIVE cars REDUCE BY uniform(0.4) GROUP BY exit HAVING count(*) > 1",
        "NOT_ON_REDUCED_DATA (line 1, column 83) bounds are given for one SELECT over one archive, "
        "without HAVING. Hint: leave it out, or read in full: leave REDUCE BY out",
    ),
    (
        "SELECT DISTINCT count(*) FROM ARCHIVE cars REDUCE BY uniform(0.4)",
        "NOT_ON_REDUCED_DATA (line 1, column 8) bounds are given for one SELECT over one archive, without "
        "DISTINCT. Hint: leave it out, or read in full: leave REDUCE BY out",
    ),
    (
        "SELECT count(*) FROM ARCHIVE cars c REDUCE BY uniform(0.4) JOIN trucks t ON c.plate = t.plate",
        "NOT_ON_REDUCED_DATA (line 1, column 65) bounds are given for one SELECT over one archive, "
        "without a join. Hint: leave it out, or read in full: leave REDUCE BY out",
    ),
    (
        "SELECT count(*) FROM trucks t JOIN ARCHIVE cars c REDUCE BY uniform(0.4) ON c.plate = t.plate",
        "NOT_ON_REDUCED_DATA (line 1, column 8) an aggregate over reduced rows would count what was read, "
        "not what is there. Hint: make it one SELECT over ARCHIVE … REDUCE BY … alone, or leave REDUCE BY "
        "out",
    ),
    (
        "SELECT count(*) FROM trucks t JOIN ARCHIVE cars c ON c.plate = t.plate WITH ERROR 2 PERCENT",
        "NOT_ON_REDUCED_DATA (line 1, column 72) bounds are given for one SELECT over one archive. Hint: "
        "ask for that alone, or read in full: leave WITH ERROR out",
    ),
    (
        "SELECT count(*) FROM ARCHIVE cars REDUCE BY uniform(0.4) WHERE exit IN (SELECT exit FROM trucks)",
        "NOT_ON_REDUCED_DATA (line 1, column 80) bounds are given for one SELECT over one archive, "
        "without a subquery. Hint: leave it out, or read in full: leave REDUCE BY out",
    ),
    (
        "SELECT count(*) OVER (PARTITION BY exit) FROM ARCHIVE cars REDUCE BY uniform(0.4)",
        "NOT_ON_REDUCED_DATA (line 1, column 8) bounds are given for one SELECT over one archive, without "
        "window functions. Hint: leave it out, or read in full: leave REDUCE BY out",
    ),
    (
        "SELECT n FROM (SELECT count(*) AS n FROM ARCHIVE cars REDUCE BY uniform(0.4))",
        "NOT_ON_REDUCED_DATA (line 1, column 23) an aggregate over reduced rows would count what was "
        "read, not what is there. Hint: make it one SELECT over ARCHIVE … REDUCE BY … alone, or leave "
        "REDUCE BY out",
    ),
    (
        "SELECT exit FROM trucks UNION SELECT exit FROM ARCHIVE cars WITH ERROR 2 PERCENT",
        "NOT_ON_REDUCED_DATA (line 1, column 61) bounds are given for one SELECT over one archive. Hint: "
        "ask for that alone, or read in full: leave WITH ERROR out",
    ),
    (
        "SELECT exit, count(*) AS n FROM ARCHIVE cars REDUCE BY uniform(0.4) GROUP BY exit ORDER BY n + 1",
        "NOT_ON_REDUCED_DATA (line 1, column 92) a reduced answer is ordered by its columns. Hint: select "
        "what it is ordered by, too",
    ),
    (
        "SELECT exit, count(*) AS n FROM ARCHIVE cars REDUCE BY uniform(0.4) GROUP BY exit ORDER BY max(speed)",
        "NOT_ON_REDUCED_DATA (line 1, column 92) a reduced answer is ordered by its columns. Hint: select "
        "what it is ordered by, too",
    ),
    (
        "SELECT exit, count(*) AS n FROM ARCHIVE cars REDUCE BY uniform(0.4) GROUP BY exit LIMIT 0",
        "SYNTAX_ERROR (line 1, column 83) LIMIT takes a whole number from 1, got 0",
    ),
    (
        "SELECT exit, count(*) AS n FROM ARCHIVE cars REDUCE BY uniform(0.4) GROUP BY CUBE (exit)",
        "NOT_IN_THE_LANGUAGE (line 1, column 84) GROUP BY CUBE is not available. Hint: name the columns",
    ),
    (
        "SELECT count(*) FROM ARCHIVE cars REDUCE BY uniform(0.4) WITH ERROR 2 PERCENT",
        "NOT_IN_THE_LANGUAGE (line 1, column 45) WITH ERROR and uniform(…) both say how much is read. "
        "Hint: leave REDUCE BY out, or reduce by_key(column, …) to keep keys whole",
    ),
    (
        "SELECT count(*) FROM ARCHIVE cars REDUCE BY every(INTERVAL 1 HOUR) WITHIN 2 SECONDS",
        "NOT_IN_THE_LANGUAGE (line 1, column 45) WITHIN and every(…) both say how much is read. Hint: "
        "leave REDUCE BY out, or reduce by_key(column, …) to keep keys whole",
    ),
    (
        "SELECT count(*) FROM ARCHIVE cars WINDOW = INTERVAL 1 HOUR",
        "NOT_IN_THE_LANGUAGE (line 1, column 22) windows and merges are over streams, not over archives. "
        "Hint: leave ARCHIVE out: asked once, a stream's name stands for all its rows, archived ones too",
    ),
    (
        "SELECT count(*) FROM ARCHIVE cars EMIT EVERY INTERVAL 1 HOUR",
        "NOT_IN_THE_LANGUAGE (line 1, column 35) EMIT EVERY is not available. Hint: say how often with "
        "WINDOW = … SLIDE …",
    ),
]


@pytest.mark.parametrize(("text", "said"), ONCE)
def test_a_question_to_an_archive_that_is_refused(text: str, said: str) -> None:
    assert refused(text) == said


STANDING = [
    (
        "SELECT exit FROM ARCHIVE cars",
        "NOT_IN_THE_LANGUAGE (line 1, column 18) a standing query cannot read an archive like a stream. "
        "Hint: begin in the past with FROM … SINCE TIMESTAMP '…', join with it by JOIN ARCHIVE … LAST n "
        "INTERVAL … WITHIN INTERVAL …, or ask once with SELECT",
    ),
    (
        f"SELECT c.exit FROM cars c JOIN ARCHIVE cars h {ON}",
        "NOT_IN_THE_LANGUAGE (line 1, column 32) a standing query cannot read an archive like a stream. "
        "Hint: begin in the past with FROM … SINCE TIMESTAMP '…', join with it by JOIN ARCHIVE … LAST n "
        "INTERVAL … WITHIN INTERVAL …, or ask once with SELECT",
    ),
    (
        "SELECT exit, count(*) AS n FROM cars WINDOW = INTERVAL 1 HOUR GROUP BY exit WITH CONFIDENCE 90 PERCENT",
        "ARCHIVE_WANTED (line 1, column 77) WITH CONFIDENCE is for questions to an archive. Hint: write "
        "FROM ARCHIVE …, or leave it out",
    ),
    (
        f"SELECT exit FROM cars {SINCE}",
        "NOT_IN_THE_LANGUAGE (line 1, column 23) SINCE is for aggregates, and the query has none. Hint: "
        "filter by the stream's time, WHERE … >= TIMESTAMP '…', or ask once FROM ARCHIVE …",
    ),
    (
        f"SELECT count(*) AS n FROM cars {SINCE}",
        "AGGREGATE_UNBOUNDED (line 1, column 32) nothing says how often aggregates SINCE a time are "
        "answered. Hint: add EMIT EVERY INTERVAL 15 MINUTES at the end",
    ),
    (
        f"SELECT count(*) AS n FROM cars {SINCE} EMIT CHANGES",
        "NOT_IN_THE_LANGUAGE (line 1, column 61) a query with SINCE cannot have EMIT CHANGES. Hint: write "
        "EMIT EVERY INTERVAL 15 MINUTES",
    ),
    (
        f"SELECT count(*) AS n FROM cars SINCE now() - INTERVAL 1 DAY {EVERY}",
        "FUNCTION_NOT_REPEATABLE (line 1, column 38) SINCE and UNTIL take fixed points in time: a query "
        "that is started again must mean the same. Hint: write TIMESTAMP '…'",
    ),
    (
        f"SELECT count(*) AS n FROM cars {SINCE} UNTIL current_timestamp() {EVERY}",
        "FUNCTION_NOT_REPEATABLE (line 1, column 67) SINCE and UNTIL take fixed points in time: a query "
        "that is started again must mean the same. Hint: write TIMESTAMP '…'",
    ),
    (
        f"SELECT count(*) AS n FROM cars {SINCE} UNTIL soon {EVERY}",
        "SYNTAX_ERROR (line 1, column 67) expected TIMESTAMP '…', got \"soon\". Hint: write for example "
        "TIMESTAMP '2026-11-16 16:00:00'",
    ),
    (
        f"SELECT count(*) AS n FROM cars {SINCE} UNTIL TIMESTAMP '2026-11-01' {EVERY}",
        "ARCHIVE_RANGE_INVALID (line 1, column 67) UNTIL must be later than SINCE. Hint: write the "
        "earlier time behind SINCE",
    ),
    (
        f"SELECT count(*) AS n FROM cars {SINCE} {SINCE} {EVERY}",
        "SYNTAX_ERROR (line 1, column 61) SINCE comes twice",
    ),
    (
        f"SELECT count(*) AS n FROM cars WHERE exit > 1 {SINCE} {EVERY}",
        "SYNTAX_ERROR (line 1, column 47) SINCE stands behind a stream. Hint: write FROM … SINCE "
        "TIMESTAMP '…', before WHERE",
    ),
    (
        f"SELECT count(*) AS n FROM (SELECT exit FROM cars {SINCE}) {EVERY}",
        "NOT_IN_THE_LANGUAGE (line 1, column 50) a subquery cannot have SINCE. Hint: read FROM ARCHIVE … "
        "BETWEEN … AND … there",
    ),
    (
        f"SELECT count(*) AS n FROM cars {SINCE} WINDOW = INTERVAL 1 HOUR {EVERY}",
        "NOT_IN_THE_LANGUAGE (line 1, column 61) a query with SINCE cannot have WINDOW. Hint: leave one of them out",
    ),
    (
        f"SELECT count(*) AS n FROM cars {SINCE} WITH (memory = '1 MB') {EVERY}",
        "NOT_IN_THE_LANGUAGE (line 1, column 61) a query with SINCE cannot have WITH (…). Hint: leave it "
        "out; REDUCE BY says how much is read of the past",
    ),
    (
        f"SELECT count(*) AS n FROM cars {SINCE} JOIN trucks t ON cars.plate = t.plate {EVERY}",
        "NOT_IN_THE_LANGUAGE (line 1, column 66) a query with SINCE reads one stream. Hint: write FROM "
        "live JOIN ARCHIVE past LAST … to join with the past",
    ),
    (
        f"SELECT count(*) AS n FROM cars {SINCE} JOIN ARCHIVE trucks t ON cars.plate = t.plate {EVERY}",
        "NOT_IN_THE_LANGUAGE (line 1, column 66) a query with SINCE reads its archive by itself. Hint: "
        "leave ARCHIVE out",
    ),
    (
        f"SELECT count(*) AS n FROM cars {SINCE} MERGE JOIN trucks t ON within(cars.at, t.at, INTERVAL 1 HOUR) {EVERY}",
        "NOT_IN_THE_LANGUAGE (line 1, column 61) a query with SINCE cannot have MERGE JOIN. Hint: make "
        "the merge a stream with CREATE STREAM … AS SELECT … MERGE JOIN …, and read that SINCE …",
    ),
    (
        f"SELECT count(*) AS n FROM cars {SINCE} UNION SELECT count(*) FROM trucks {EVERY}",
        "NOT_IN_THE_LANGUAGE (line 1, column 32) a side of UNION cannot have SINCE. Hint: make it a "
        "stream with CREATE STREAM … AS SELECT …, and name that",
    ),
    (
        f"SELECT /*+ INDEX(T) */ count(*) AS n FROM cars {SINCE} {EVERY}",
        "HINT_NOT_POSSIBLE (line 1, column 12) the query has no window, so nothing is indexed there. "
        "Hint: leave the hint out",
    ),
    (
        f"SELECT exit, count(*) AS n FROM cars {SINCE} REDUCE BY uniform(0.4) GROUP BY exit HAVING n > 1 {EVERY}",
        "NOT_ON_REDUCED_DATA (line 1, column 104) HAVING would choose groups by their estimates, and the bounds of "
        "those would not hold. Hint: leave REDUCE BY out; or make it a stream, CREATE STREAM … AS SELECT …, and "
        "filter that by a bound",
    ),
    (
        f"SELECT exit FROM cars {SINCE} GROUP BY exit HAVING median(speed) > 1 {EVERY}",
        "AGGREGATE_NOT_AVAILABLE (line 1, column 73) median() cannot be kept up from the past on. Hint: aggregate "
        "windows with WINDOW = INTERVAL …; what can be: count, sum, avg, min and max",
    ),
    (
        f"SELECT exit FROM cars {SINCE} GROUP BY exit HAVING count(*) + 1 {EVERY}",
        "CONDITION_NOT_BOOLEAN (line 1, column 84) the condition `count(*)` + 1 is BIGINT, it must be BOOLEAN",
    ),
    (
        f"SELECT exit, count(*) AS n FROM cars {SINCE} GROUP BY exit ORDER BY n {EVERY}",
        "NOT_IN_THE_LANGUAGE (line 1, column 81) a query with SINCE answers in the order of time. Hint: "
        "make it a stream with CREATE STREAM … AS SELECT …, and order the windows of that",
    ),
    (
        f"SELECT exit, count(*) AS n FROM cars {SINCE} GROUP BY exit LIMIT 1 {EVERY}",
        "NOT_IN_THE_LANGUAGE (line 1, column 81) a query with SINCE answers every group. Hint: make it a "
        "stream with CREATE STREAM … AS SELECT …, and limit the windows of that",
    ),
    (
        f"SELECT DISTINCT count(*) AS n FROM cars {SINCE} {EVERY}",
        "NOT_IN_THE_LANGUAGE (line 1, column 8) DISTINCT cannot stand beside aggregates or GROUP BY. "
        "Hint: leave DISTINCT out",
    ),
    (
        f"SELECT count(*) AS n FROM cars {SINCE} {EVERY} WITH CONFIDENCE 90 PERCENT",
        "NOT_IN_THE_LANGUAGE (line 1, column 88) WITH CONFIDENCE is about the bounds of aggregates over "
        "part of the rows. Hint: leave it out, or read less with REDUCE BY …",
    ),
    (
        f"SELECT count(*) AS n FROM cars {SINCE} REDUCE BY uniform(0.4) {EVERY} WITH ERROR 2 PERCENT",
        "NOT_IN_THE_LANGUAGE (line 1, column 111) WITH ERROR is for questions that are asked once. Hint: "
        "write REDUCE BY … behind SINCE, and WITH CONFIDENCE … at the end",
    ),
    (
        f"SELECT count(*) AS n FROM cars {SINCE} REDUCE BY error(2) {EVERY}",
        "NOT_ON_REDUCED_DATA (line 1, column 71) error(…) reads on until an answer is exact enough, which "
        "only a question asked once can do. Hint: use uniform, age, load or by_key",
    ),
    (
        f"SELECT count(*) AS n FROM cars {SINCE} REDUCE BY every(INTERVAL 1 HOUR) {EVERY}",
        "NOT_ON_REDUCED_DATA (line 1, column 71) every(…) reads summaries, which only a question asked "
        "once can do. Hint: use uniform, age, load or by_key",
    ),
    (
        f"SELECT count(*) AS n FROM cars {SINCE} REDUCE BY uniform(2) {EVERY}",
        "REDUCER_ARGUMENT_INVALID (line 1, column 71) fraction of uniform(fraction) is 2, wanted the "
        "fraction to drop, a number from 0 to below 1",
    ),
    (
        f"SELECT median(speed) AS n FROM cars {SINCE} {EVERY}",
        "AGGREGATE_NOT_AVAILABLE (line 1, column 8) median() cannot be kept up from the past on. Hint: "
        "aggregate windows with WINDOW = INTERVAL …; what can be: count, sum, avg, min and max",
    ),
    (
        f"SELECT median(speed) AS n FROM cars {SINCE} REDUCE BY uniform(0.4) {EVERY}",
        "NOT_ON_REDUCED_DATA (line 1, column 8) median() cannot be answered from part of the rows. Hint: "
        "aggregate windows with WINDOW = INTERVAL …; what can be: count, sum, avg, min and max",
    ),
    (
        f"SELECT count(DISTINCT plate) AS n FROM cars {SINCE} {EVERY}",
        "AGGREGATE_NOT_AVAILABLE (line 1, column 8) count(DISTINCT …) cannot be kept up from the past on. "
        "Hint: aggregate windows with WINDOW = INTERVAL …; what can be: count, sum, avg, min and max",
    ),
    (
        f"SELECT sum(speed) / count(*) AS v FROM cars {SINCE} REDUCE BY uniform(0.4) {EVERY}",
        "NOT_ON_REDUCED_DATA (line 1, column 8) sum(speed) / count(*) is computed from aggregates, and those alone "
        "have bounds. Hint: select the aggregates by themselves, or aggregate windows with WINDOW = INTERVAL …",
    ),
    (
        f"SELECT plate || 'x' AS v, count(*) AS n FROM cars {SINCE} {EVERY}",
        'COLUMN_NOT_GROUPED (line 1, column 8) column "plate" has many values in a group. Hint: add plate to GROUP '
        "BY, or put it in an aggregate such as max()",
    ),
    (
        f"SELECT count(*) AS _time FROM cars {SINCE} {EVERY}",
        'COLUMN_RESERVED (line 1, column 8) column "_time" is kept for the time. Hint: give it another name with AS',
    ),
    (
        f"SELECT count(*) AS n, max(exit) AS n_low FROM cars {SINCE} REDUCE BY uniform(0.4) {EVERY}",
        'COLUMN_RESERVED (line 1, column 23) column "n_low" is kept for a bound of "n". Hint: give it '
        "another name with AS",
    ),
    (
        f"SELECT window_end, count(*) AS n FROM cars {SINCE} GROUP BY window_end {EVERY}",
        'COLUMN_NOT_FOUND (line 1, column 82) column "window_end" is not in stream "cars". Hint: there '
        "are: at, exit, plate, speed, toll",
    ),
    (
        f"SELECT c.exit FROM cars c JOIN ARCHIVE cars h LAST 0 INTERVAL 1 DAY WITHIN INTERVAL 1 HOUR {ON}",
        'SYNTAX_ERROR (line 1, column 52) expected a whole number from 1 to 10000, got "0". Hint: write '
        "LAST 7 INTERVAL 1 DAY WITHIN INTERVAL 30 MINUTES",
    ),
    (
        f"SELECT c.exit FROM cars c JOIN ARCHIVE cars h LAST 7 DAYS WITHIN INTERVAL 1 HOUR {ON}",
        'SYNTAX_ERROR (line 1, column 54) expected INTERVAL, got "DAYS"',
    ),
    (
        f"SELECT c.exit FROM cars c JOIN ARCHIVE cars h LAST 7 INTERVAL 1 DAY {ON}",
        'SYNTAX_ERROR (line 1, column 69) expected WITHIN, got "ON". Hint: write LAST 7 INTERVAL 1 DAY '
        "WITHIN INTERVAL 30 MINUTES",
    ),
    (
        f"SELECT c.exit FROM cars c JOIN ARCHIVE cars h LAST 7 INTERVAL 1 DAY WITHIN INTERVAL 1 DAY {ON}",
        "ARCHIVE_RANGE_INVALID (line 1, column 76) the portions of history would reach to the live row "
        "itself. Hint: use less than the interval between them",
    ),
    (
        f"SELECT c.exit {COMMUTERS} IN SOME {ON}",
        'SYNTAX_ERROR (line 1, column 95) expected EACH or ANY, got "SOME"',
    ),
    (
        f"SELECT c.exit {COMMUTERS} LAST 7 INTERVAL 1 DAY WITHIN INTERVAL 1 HOUR {ON}",
        "SYNTAX_ERROR (line 1, column 92) LAST comes twice",
    ),
    (
        f"SELECT c.exit {COMMUTERS} BETWEEN DATE '2026-11-01' AND DATE '2026-11-02' {ON}",
        "SYNTAX_ERROR (line 1, column 92) BETWEEN and LAST both say what is read of the archive",
    ),
    (
        f"SELECT c.exit FROM cars c JOIN ARCHIVE daily ON cars h LAST 7 INTERVAL 1 DAY WITHIN INTERVAL 1 HOUR {ON}",
        "NOT_IN_THE_LANGUAGE (line 1, column 32) a join with the past chooses the archive itself. Hint: "
        'leave "daily ON" out',
    ),
    (
        f"SELECT h.exit {COMMUTERS} {ON}",
        'COLUMN_NOT_FOUND (line 1, column 8) a live row is answered once, so there is nothing of "h". '
        "Hint: select columns of c, _portions or _matches; conditions on h stand in ON",
    ),
    (
        f"SELECT c.exit {COMMUTERS}",
        "HISTORY_CONDITION_INVALID (line 1, column 40) nothing says which rows of h are partners of a row "
        "of c. Hint: add c.… = h.… to ON",
    ),
    (
        f"SELECT c.exit {COMMUTERS} ON c.exit > 1",
        "HISTORY_CONDITION_INVALID (line 1, column 95) nothing says which rows of h are partners of a row "
        "of c. Hint: add c.… = h.… to ON",
    ),
    (
        f"SELECT c.exit {COMMUTERS} ON c.speed > h.speed",
        "HISTORY_CONDITION_INVALID (line 1, column 95) ON of a join with the past holds c.… = h.… and "
        "conditions on one of them, joined by AND. Hint: put conditions on c in WHERE",
    ),
    (
        f"SELECT c.exit {COMMUTERS} {ON} OR c.exit = h.exit",
        "HISTORY_CONDITION_INVALID (line 1, column 95) ON of a join with the past holds c.… = h.… and "
        "conditions on one of them, joined by AND. Hint: put conditions on c in WHERE",
    ),
    (
        f"SELECT c.exit {COMMUTERS} ON c.plate = h.exit",
        "JOIN_KEYS_DIFFER (line 1, column 97) plate is STRING and exit is INT: they are never equal. "
        "Hint: CAST one of them",
    ),
    (
        f"SELECT c.exit {COMMUTERS} ON plate = h.plate",
        'COLUMN_AMBIGUOUS (line 1, column 95) column "plate" may be that of c or h. Hint: write c.plate or h.plate',
    ),
    (
        f"SELECT c.exit {COMMUTERS} ON reverse(c.plate) = h.plate",
        "EXPRESSION_NOT_EVALUABLE_IN_WINDOW (line 1, column 95) reverse(plate) cannot be computed while "
        "history is read. Detail: REVERSE(plate): it is not evaluated here. Hint: put the "
        "expression in a CREATE STREAM … AS SELECT … first and read that stream",
    ),
    (
        f"SELECT c.exit {COMMUTERS} {ON} AND h.speed",
        "CONDITION_NOT_BOOLEAN (line 1, column 1) the condition speed is DOUBLE, it must be BOOLEAN",
    ),
    (
        f"SELECT c.exit {COMMUTERS} {ON} WHERE h.speed > 1",
        'COLUMN_NOT_FOUND (line 1, column 119) a live row is answered once, so there is nothing of "h". '
        "Hint: select columns of c, _portions or _matches; conditions on h stand in ON",
    ),
    (
        f"SELECT c.exit {COMMUTERS} {ON} WHERE _matches > 1",
        'COLUMN_NOT_FOUND (line 1, column 119) "_matches" is known once the past has been looked at. '
        "Hint: make it a stream with CREATE STREAM … AS SELECT …, and filter the rows of that",
    ),
    (
        f"SELECT c.exit {COMMUTERS} USING (plate)",
        "NOT_IN_THE_LANGUAGE (line 1, column 40) a join with the past takes ON. Hint: write JOIN ARCHIVE … LAST … ON …",
    ),
    (
        f"SELECT c.exit FROM cars c LEFT JOIN ARCHIVE cars h LAST 7 INTERVAL 1 DAY WITHIN INTERVAL 1 HOUR {ON}",
        "NOT_IN_THE_LANGUAGE (line 1, column 45) there is no LEFT JOIN with the past. Hint: write JOIN "
        "ARCHIVE … LAST … ON …",
    ),
    (
        f"SELECT c.exit {COMMUTERS} {ON} JOIN trucks t ON t.plate = c.plate",
        "NOT_IN_THE_LANGUAGE (line 1, column 47) LAST … is for a join of live rows with their past, alone "
        "in its query. Hint: write FROM live JOIN ARCHIVE past LAST … ON …",
    ),
    (
        f"SELECT c.exit FROM ARCHIVE cars c JOIN ARCHIVE cars h LAST 7 INTERVAL 1 DAY WITHIN INTERVAL 1 HOUR {ON}",
        "NOT_IN_THE_LANGUAGE (line 1, column 55) LAST … is for a join of live rows with their past, alone "
        "in its query. Hint: write FROM live JOIN ARCHIVE past LAST … ON …",
    ),
    (
        f"SELECT c.exit {COMMUTERS} {ON} UNION SELECT exit FROM trucks",
        "NOT_IN_THE_LANGUAGE (line 1, column 47) LAST … is for a join of live rows with their past, alone "
        "in its query. Hint: write FROM live JOIN ARCHIVE past LAST … ON …",
    ),
    (
        f"SELECT c.exit {COMMUTERS} {ON} WINDOW = INTERVAL 1 HOUR",
        "NOT_IN_THE_LANGUAGE (line 1, column 113) a join with the past cannot have WINDOW. Hint: leave it "
        "out: LAST … WITHIN … says what is kept",
    ),
    (
        f"SELECT c.exit {COMMUTERS} {ON} ORDER BY exit",
        "NOT_IN_THE_LANGUAGE (line 1, column 113) a join with the past answers in the order of time. "
        "Hint: make it a stream with CREATE STREAM … AS SELECT …, and order the windows of that",
    ),
    (
        f"SELECT c.exit {COMMUTERS} {ON} {EVERY}",
        "NOT_IN_THE_LANGUAGE (line 1, column 113) a join with the past cannot have EMIT EVERY without "
        "aggregates. Hint: leave it out: rows are answered in the order of time",
    ),
    (
        f"SELECT c.exit {COMMUTERS} {ON} EMIT CHANGES",
        "NOT_IN_THE_LANGUAGE (line 1, column 113) a join with the past cannot have EMIT CHANGES. Hint: "
        "leave it out: rows are answered in the order of time",
    ),
    (
        f"SELECT c.exit {COMMUTERS} {ON} WITH CONFIDENCE 90 PERCENT",
        "NOT_IN_THE_LANGUAGE (line 1, column 113) WITH CONFIDENCE is about the bounds of aggregates over "
        "part of the rows. Hint: leave it out, or read less with REDUCE BY …",
    ),
    (
        f"SELECT c.exit {COMMUTERS} REDUCE BY uniform(0.4) {ON}",
        "NOT_ON_REDUCED_DATA (line 1, column 102) uniform drops rows of history at random, so rows that "
        "were seen would count as not seen. Hint: keep whole keys: REDUCE BY by_key(plate, 0.9) or "
        "load(INTERVAL 5 SECONDS, plate)",
    ),
    (
        f"SELECT c.exit {COMMUTERS} REDUCE BY by_key(exit, 0.4) {ON}",
        'NOT_ON_REDUCED_DATA (line 1, column 102) by_key keeps the values of "exit" whole, and the join '
        "is not by that column. Hint: name a column of history that is joined by equality",
    ),
    (
        f"SELECT c.exit {COMMUTERS} REDUCE BY error(2) {ON}",
        "NOT_ON_REDUCED_DATA (line 1, column 102) error(…) reads on until an answer is exact enough, "
        "which only a question asked once can do. Hint: use uniform, age, load or by_key",
    ),
    (
        f"SELECT count(*) AS n {COMMUTERS} {ON}",
        "AGGREGATE_UNBOUNDED (line 1, column 8) aggregates over a join with the past would never be "
        "finished. Hint: add EMIT EVERY INTERVAL 15 MINUTES at the end",
    ),
    (
        f"SELECT count(*) AS n {COMMUTERS} {ON} EMIT FINAL",
        "NOT_IN_THE_LANGUAGE (line 1, column 120) a join with the past cannot have EMIT FINAL. Hint: "
        "leave it out: rows are answered in the order of time",
    ),
    (
        f"SELECT median(speed) AS n {COMMUTERS} {ON} {EVERY}",
        "AGGREGATE_NOT_AVAILABLE (line 1, column 8) median() cannot be kept up from the past on. Hint: "
        "make it a stream with CREATE STREAM … AS SELECT …, and aggregate the windows of that; what can "
        "be: count, sum, avg, min and max",
    ),
    (
        f"SELECT exit, count(*) AS n {COMMUTERS} REDUCE BY by_key(plate, 0.5) {ON} GROUP BY exit HAVING n > 1 {EVERY}",
        "NOT_ON_REDUCED_DATA (line 1, column 169) HAVING would choose groups by their estimates, and the bounds of "
        "those would not hold. Hint: leave REDUCE BY out; or make it a stream, CREATE STREAM … AS SELECT …, and "
        "filter that by a bound",
    ),
    (
        f"SELECT reverse(plate) AS p, count(*) AS n {COMMUTERS} {ON} GROUP BY p {EVERY}",
        "EXPRESSION_NOT_EVALUABLE_IN_WINDOW (line 1, column 8) reverse(plate) cannot be computed while "
        "history is read. Detail: REVERSE(plate): it is not evaluated here. Hint: put the "
        "expression in a CREATE STREAM … AS SELECT … first and read that stream",
    ),
    (
        f"SELECT count(*) AS n {COMMUTERS} {ON} WHERE plate RLIKE 'x' {EVERY}",
        "EXPRESSION_NOT_EVALUABLE_IN_WINDOW (line 1, column 126) plate RLIKE 'x' cannot be computed while "
        "history is read. Detail: plate RLIKE 'x': Arrow's regular expressions are not Java's. Hint: put "
        "the expression in a CREATE STREAM … AS SELECT … first and read that stream",
    ),
    (
        "SELECT s.n FROM sampled s JOIN ARCHIVE cars h LAST 7 INTERVAL 1 DAY WITHIN INTERVAL 1 HOUR ON s.n = h.exit",
        'COLUMN_RESERVED (line 1, column 1) column "_fraction" of "sampled" is kept for what is found in '
        "the past. Hint: give it another name in a CREATE STREAM … AS SELECT _fraction AS …",
    ),
]


@pytest.mark.parametrize(("text", "said"), STANDING)
def test_a_standing_query_about_the_past_that_is_refused(text: str, said: str) -> None:
    assert refused(text, as_standing=True) == said
