"""What statements about tables say when they are refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from anabranch.errors import AnabranchError
from anabranch.testing.sparkless import SparklessDatabase


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparklessDatabase]:
    path: Path = tmp_path_factory.mktemp("tables") / "db"
    with SparklessDatabase(path) as opened:
        opened.sql("""CREATE TABLE t (k INT PRIMARY KEY, v DOUBLE NOT NULL, note STRING);
                      CREATE TABLE u (k BIGINT PRIMARY KEY, v DOUBLE, note STRING);
                      CREATE STREAM s (k INT, v DOUBLE, ts TIMESTAMP) TIMESTAMP BY ts;
                      INSERT INTO t VALUES (1, 1.5, 'a'), (2, 2.5, NULL);
                      INSERT INTO u VALUES (1, 0, NULL), (9, 0, NULL)""")
        yield opened


JOIN = "CREATE CONTINUOUS QUERY q AS SELECT s.k FROM s"
CASES = {
    "CREATE TABLE x (a INT)": (
        'KEY_WANTED (line 1, column 22) table "x" has no key. Hint: add PRIMARY KEY (column, …)'
    ),
    "CREATE TABLE x (a INT, PRIMARY KEY (b))": (
        'COLUMN_NOT_FOUND column "b" is not among the columns. Hint: there are: a'
    ),
    "CREATE TABLE x (a INT, PRIMARY KEY (a), PRIMARY KEY (a))": (
        "SYNTAX_ERROR (line 1, column 41) PRIMARY KEY comes twice"
    ),
    "CREATE TABLE x (_change INT PRIMARY KEY)": (
        'COLUMN_RESERVED column "_change" is kept for the changes of the table. Hint: give it another name'
    ),
    "CREATE TABLE x (a INT PRIMARY KEY, A INT)": ('COLUMN_EXISTS (line 1, column 36) column "A" is declared twice'),
    "CREATE TABLE `x.changes` (a INT PRIMARY KEY)": (
        'NAME_NOT_ALLOWED "x.changes" would be the name of the changes of another table'
    ),
    "CREATE TABLE x (a INTT PRIMARY KEY)": (
        "TYPE_NOT_SUPPORTED (line 1, column 19) type INTT cannot be the type of a stream's column. Hint: "
        "use one of BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, STRING, BINARY, DATE, "
        "TIMESTAMP, DECIMAL(p, s), ARRAY<type>, STRUCT<name: type, …>"
    ),
    "CREATE MATERIALIZED VIEW w AS SELECT count(*) AS n FROM w": (
        'READS_ITSELF (line 1, column 57) "w" would read itself. Hint: read what it is made from; an answer that '
        "builds on the one before cannot be said in SQL here"
    ),
    "CREATE STREAM w AS SELECT k FROM `w`": (
        'READS_ITSELF (line 1, column 34) "w" would read itself. Hint: read what it is made from; an answer that '
        "builds on the one before cannot be said in SQL here"
    ),
    "CREATE MATERIALIZED VIEW w AS WITH w AS (SELECT k FROM x) SELECT k FROM w": (
        'STREAM_NOT_FOUND (line 1, column 56) stream "x" does not exist. Hint: SHOW STREAMS lists them'
    ),
    "INSERT INTO t (k, v) VALUES (3, NULL)": (
        'NULL_NOT_ALLOWED column "v" of table "t" is NOT NULL, and NULL in row 0. Hint: give it a value'
    ),
    "INSERT INTO t VALUES (1, 1)": ("VALUES_MISMATCH 3 columns for 2 values. Hint: the columns are: k, v, note"),
    "INSERT INTO t (k, w) VALUES (1, 1)": (
        'COLUMN_NOT_FOUND column "w" is not in table "t". Hint: there are: k, note, v'
    ),
    "UPSERT INTO s VALUES (1, 1, '2026-01-01')": (
        'STREAM_IS_NO_TABLE "s" is a stream: its rows have no key, and stay as they are. Hint: write INSERT INTO'
    ),
    "INSERT INTO s SELECT k FROM t": (
        "NOT_IN_THE_LANGUAGE (line 1, column 15) INSERT INTO a stream takes VALUES. Hint: write CREATE "
        "STREAM … AS SELECT …, which also keeps up"
    ),
    "UPDATE s SET k = 1": ('TABLE_NOT_FOUND table "s" does not exist. Hint: SHOW TABLES lists them'),
    "UPDATE t SET k = 2 WHERE k = 1": (
        'KEY_EXISTS table "t" has a row with the key (k = 2). Hint: write UPSERT INTO to replace it, or UPDATE it'
    ),
    "UPDATE t SET k = 7": (
        'KEY_TWICE two rows have the key (k = 7) of table "t". Hint: give each key once in a statement'
    ),
    "UPDATE t SET v = 1, v = 2": ('COLUMN_EXISTS (line 1, column 21) column "v" is set twice'),
    "UPDATE t SET v = vv": (
        'COLUMN_NOT_FOUND (line 1, column 18) column "vv" is not in table "t". Hint: did you mean "v"?'
    ),
    "UPDATE t SET v =": ("SYNTAX_ERROR (line 1, column 17) expected an expression, the statement ends here"),
    "UPDATE t SET v = 1 WHERE": ("SYNTAX_ERROR (line 1, column 25) expected a condition, the statement ends here"),
    "UPDATE t SET v = count(*)": (
        "AGGREGATE_MISPLACED (line 1, column 18) count() is about many rows, and stands where a value of "
        "one row does. Hint: compute it in a subquery: (SELECT …)"
    ),
    "DELETE FROM t WHERE note": (
        "CONDITION_NOT_BOOLEAN (line 1, column 21) the condition note is STRING, it must be BOOLEAN"
    ),
    "DELETE FROM t WHERE java_method('a', 'b')": (
        'FUNCTION_NOT_ALLOWED (line 1, column 21) function "java_method" cannot be used. Hint: only '
        "functions that compute from their arguments are allowed"
    ),
    "MERGE INTO t USING u ON t.v = u.v WHEN MATCHED THEN DELETE": (
        'JOIN_NEEDS_KEY (line 1, column 25) ON does not say what the key column "k" of table "t" equals. '
        "Hint: add t.k = …, over columns of the source"
    ),
    "MERGE INTO t USING u ON t.k = u.note WHEN MATCHED THEN DELETE": (
        "JOIN_KEYS_DIFFER u.note is STRING and t.k is INT: they are not compared here. Hint: write CAST(u.note AS INT)"
    ),
    "MERGE INTO t USING u ON t.k = u.k % 2 WHEN MATCHED THEN DELETE": (
        'MERGE_MATCHES_TWICE two rows of the source meet the row (k = 1) of table "t". Hint: leave one of '
        "them out of the source"
    ),
    "MERGE INTO t USING u ON t.k = u.k": (
        "SYNTAX_ERROR (line 1, column 34) expected WHEN MATCHED or WHEN NOT MATCHED, the statement ends here"
    ),
    "MERGE INTO t USING t ON t.k = t.k WHEN MATCHED THEN DELETE": (
        'SOURCE_EXISTS (line 1, column 25) the table and the source are both called "t". Hint: give the '
        "source another name with AS"
    ),
    "MERGE INTO t USING u ON t.k = u.k WHEN MATCHED THEN UPDATE SET note = reverse(u.note)": (
        "EXPRESSION_NEEDS_SPARK (line 1, column 71) MERGE INTO cannot compute reverse(u.note). Hint: "
        "compute it in the source: USING (SELECT … AS …) AS …"
    ),
    "SELECT * FROM tt": ('STREAM_NOT_FOUND (line 1, column 15) stream "tt" does not exist. Hint: did you mean "t"?'),
    "DROP STREAM t.changes": ('STREAM_IS_AN_ANSWER stream "t.changes" belongs to table "t". Hint: DROP TABLE t'),
    "CREATE STREAM t (a INT)": (
        'NAME_EXISTS "t" exists already. Hint: choose another name, write IF NOT EXISTS, or DROP it first'
    ),
    "CREATE TABLE s (a INT PRIMARY KEY)": (
        'NAME_EXISTS "s" exists already. Hint: choose another name, write IF NOT EXISTS, or DROP it first'
    ),
    f"{JOIN} JOIN t ON s.k = t.k": (
        'STATE_UNBOUNDED (line 1, column 53) JOIN keeps every row of both sides, and stream "s" has no end. Hint: end '
        "the query with EXPIRE AFTER INTERVAL 1 DAY, if rows count for so long, or ACCEPT UNBOUNDED, or write a "
        'subquery that reads "s" with WINDOW = INTERVAL … after FROM, or join it with a table as it was: '
        "JOIN … FOR SYSTEM_TIME AS OF the time of its row"
    ),
    f"{JOIN} JOIN t ON s.k = t.k WINDOW = INTERVAL 1 MINUTE": (
        'TABLE_CHANGES (line 1, column 53) "t" is a table, whose rows change, and no stream. Hint: read its '
        "changes from t.changes, join a stream with it by JOIN … FOR SYSTEM_TIME AS OF, or ask once with "
        "SELECT"
    ),
    "CREATE CONTINUOUS QUERY q AS SELECT note, count(*) AS n FROM t GROUP BY note EMIT FINAL": (
        "NOT_IN_THE_LANGUAGE (line 1, column 78) no answer of this query is final: it is about a table. Hint: write "
        "EMIT CHANGES, or give each subquery that reads a stream the same WINDOW = …"
    ),
    "CREATE CONTINUOUS QUERY q AS SELECT note, count(*) AS n FROM t GROUP BY note EMIT EVERY INTERVAL 1 MINUTE": (
        'NOT_IN_THE_LANGUAGE (line 1, column 78) EMIT EVERY is in the time of streams, and changes of "t" have none. '
        "Hint: write EMIT CHANGES"
    ),
    f"{JOIN} JOIN s FOR SYSTEM_TIME AS OF s.ts AS t ON s.k = t.k": (
        'TABLE_NOT_FOUND (line 1, column 53) "s" is no table, and has no versions. Hint: join two streams '
        "with WINDOW = INTERVAL … after FROM"
    ),
    f"{JOIN} JOIN t FOR SYSTEM_TIME AS OF s.v ON s.k = t.k": (
        "NOT_IN_THE_LANGUAGE (line 1, column 77) the version of a table is that of the time of the stream's "
        'row, "ts". Hint: write FROM stream s JOIN table t FOR SYSTEM_TIME AS OF s.ts ON …'
    ),
    f"{JOIN} JOIN t FOR SYSTEM_TIME AS OF s.ts ON s.k = t.v": (
        'JOIN_NEEDS_KEY (line 1, column 53) ON does not say what the key column "k" of table "t" equals. '
        "Hint: add t.k = …, over columns of s"
    ),
    f"{JOIN} RIGHT JOIN t FOR SYSTEM_TIME AS OF s.ts ON s.k = t.k": (
        "NOT_IN_THE_LANGUAGE (line 1, column 59) a table as it was is not met by a RIGHT JOIN. Hint: write "
        "JOIN … ON … or LEFT JOIN … ON …"
    ),
    f"{JOIN} JOIN t FOR SYSTEM_TIME AS OF s.ts ON s.v = t.k": (
        "JOIN_KEYS_DIFFER (line 1, column 87) s.v is DOUBLE and t.k is INT: they are not compared here. "
        "Hint: write CAST(s.v AS INT)"
    ),
    f"{JOIN} LEFT JOIN t FOR SYSTEM_TIME AS OF s.ts ON s.k = t.k AND reverse(t.note) = 'a'": (
        "EXPRESSION_NEEDS_SPARK (line 1, column 104) the ON of a LEFT JOIN cannot compute reverse(t.note) = "
        "'a'. Hint: compute it in a CREATE STREAM … AS SELECT … first and read that stream"
    ),
}


@pytest.mark.parametrize("sql", CASES)
def test_refusal(db: SparklessDatabase, sql: str) -> None:
    with pytest.raises(AnabranchError) as caught:
        db.sql(sql)
    assert str(caught.value) == CASES[sql]
