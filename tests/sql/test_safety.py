"""Hostile texts: nothing but streams and functions that compute reaches Spark."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from sqlglot import exp

from anabranch.errors import AnabranchError, SqlError
from anabranch.functions import function_names
from anabranch.schema import StreamSchema
from anabranch.sql import Select, parse, plan_once, plan_standing
from anabranch.sql.checking.safety import spark_text
from anabranch.sql.statements import InsertInto, SelectOnce

Lookup = Callable[[str], StreamSchema]

HOSTILE = [
    "SELECT * FROM csv.`/etc/passwd`",
    "SELECT * FROM text.`/etc/passwd`",
    "SELECT * FROM parquet.`hdfs://x/y`",
    "SELECT * FROM delta.`/x`",
    "SELECT * FROM binaryFile.`/etc`",
    "SELECT * FROM `/etc/passwd`",
    "SELECT * FROM json.rejects.x",
    "SELECT * FROM spark_catalog.default.packets",
    "SELECT * FROM read_files('/etc')",
    "SELECT * FROM range(1000000000000)",
    "SELECT * FROM TABLE(range(5))",
    "SELECT * FROM IDENTIFIER('csv.`/etc/passwd`')",
    "SELECT * FROM IDENTIFIER('pac' || 'kets')",
    "SELECT IDENTIFIER('current_user')",
    "SELECT * FROM sql_keywords()",
    "SELECT * FROM python_worker_logs()",
    "SELECT * FROM packets, csv.`/etc/passwd`",
    "SELECT * FROM packets JOIN text.`/etc/passwd` ON 1 = 1",
    "SELECT (SELECT max(value) FROM text.`/etc/passwd`) FROM packets",
    "SELECT id FROM packets UNION SELECT value FROM text.`/etc/passwd`",
    "WITH a AS (SELECT * FROM text.`/etc/passwd`) SELECT * FROM a",
    "SELECT * FROM packets WHERE EXISTS (SELECT 1 FROM text.`/x`)",
    "SELECT reflect('java.lang.System', 'getenv', 'HOME') FROM packets",
    "SELECT java_method('java.lang.Runtime', 'getRuntime') FROM packets",
    "SELECT try_reflect('java.lang.System', 'exit', 1) FROM packets",
    "SELECT `reflect`('java.lang.System', 'getenv', 'HOME') FROM packets",
    "SELECT ReFlEcT('java.lang.System', 'getenv', 'HOME') FROM packets",
    "SELECT system.builtin.reflect('java.lang.System', 'getenv') FROM packets",
    "SELECT `system`.`builtin`.`reflect`('java.lang.System', 'getenv') FROM packets",
    "SELECT transform(array('a'), x -> reflect('java.lang.System', 'getenv', x)) FROM packets",
    "SELECT id FROM packets ORDER BY reflect('a', 'b')",
    "SELECT id FROM packets GROUP BY id HAVING max(reflect('a', 'b')) > 1",
    "SELECT sum(id) OVER (ORDER BY reflect('a', 'b')) FROM packets",
    "SELECT id FROM packets LATERAL VIEW reflect('a', 'b') t AS x",
    "SELECT id FROM packets LIMIT length(reflect('a', 'b'))",
    "SELECT * FROM VALUES (reflect('a', 'b')) AS t(x)",
    "SELECT input_file_name() FROM packets",
    "SELECT input_file_block_start() FROM packets",
    "SELECT current_catalog() FROM packets",
    "SELECT current_database() FROM packets",
    "SELECT current_user FROM packets",
    "SELECT user() FROM packets",
    "SELECT user FROM packets",
    "SELECT user AS user FROM packets",
    "SELECT session_user FROM packets",
    "SELECT current_path FROM packets",
    "SELECT version() FROM packets",
    "SELECT from_protobuf(saddr, 'M', '/etc/passwd') FROM packets",
    "SELECT from_avro(saddr, 'x') FROM packets",
    "SELECT xpath(saddr, '/') FROM packets",
    "SELECT raise_error('x') FROM packets",
    "SELECT ai_query('a', 'b') FROM packets",
    "SELECT TRANSFORM(saddr) USING 'cat /etc/passwd' AS (b) FROM packets",
    "SELECT MAP(saddr) USING 'sh' AS (b) FROM packets",
    "SELECT /*+ BROADCAST(packets) */ id FROM packets",
    "SELECT ${env:HOME} FROM packets",
    "SELECT `${env:HOME}` FROM packets",
    "SELECT id AS `${env:HOME}` FROM packets",
    "SELECT {{ id }} FROM packets",
    "SELECT :id FROM packets",
    "SELECT ? FROM packets",
    "SELECT @id FROM packets",
    "SELECT @@version FROM packets",
    "SELECT saddr:a.b FROM packets",
    "SELECT id INTO other FROM packets",
    "SELECT * FROM packets TABLESAMPLE (1 PERCENT)",
    "SELECT * FROM packets VERSION AS OF 1",
    "SELECT * FROM packets TIMESTAMP AS OF '2020-01-01'",
    "SELECT * FROM packets |> WHERE id > 3",
    "TABLE packets",
    "FROM packets SELECT *",
    "SELECT 1 FROM packets) UNION (SELECT 2",
    "SET spark.sql.ansi.enabled = false",
    "SET VAR x = 1",
    "ADD JAR '/x.jar'",
    "CREATE FUNCTION f AS 'x'",
    "CREATE TABLE t AS SELECT 1",
    "CREATE TEMPORARY VIEW v AS SELECT 1",
    "CACHE TABLE packets",
    "INSERT OVERWRITE DIRECTORY '/x' SELECT 1",
    "LOAD DATA INPATH '/x' INTO TABLE t",
    "EXECUTE IMMEDIATE 'SELECT 1'",
    "BEGIN SELECT 1; END",
    "DECLARE x INT",
    "CALL p()",
    "USE default",
    "EXPLAIN SET x = 1",
    "EXPLAIN DROP STREAM packets",
    "REFRESH TABLE x",
    "TRUNCATE TABLE packets",
    "DESCRIBE FUNCTION reflect",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_refused(text: str, lookup: Lookup) -> None:
    for plan in (plan_once, plan_standing):
        with pytest.raises(AnabranchError):
            _plan_all(text, plan, lookup)


def test_what_is_inserted_may_not_read_files(lookup: Lookup) -> None:
    (statement,) = parse("INSERT INTO s SELECT * FROM text.`/etc/passwd`")
    assert isinstance(statement, InsertInto)
    assert statement.select is not None
    with pytest.raises(AnabranchError):
        plan_once(statement.select, lookup)


def _plan_all(text: str, plan: Callable[[Select, Lookup], object], lookup: Lookup) -> None:
    for statement in parse(text):
        assert isinstance(statement, SelectOnce)
        plan(statement.select, lookup)


@pytest.mark.parametrize("literal", ["'${env:HOME}'", "r'${env:HOME}'", r"'\u0024{env:HOME}'", r"'$\{env:HOME}'"])
def test_what_spark_would_substitute_is_escaped(literal: str, lookup: Lookup) -> None:
    """Spark replaces ${env:…} in the text of a query, even in strings, before it parses."""
    (once,) = parse(f"SELECT {literal} AS x, id FROM packets")
    assert isinstance(once, SelectOnce)
    sql = plan_once(once.select, lookup).sql
    assert sql is not None
    assert "${" not in sql
    assert r"'\u0024{env:HOME}'" in sql
    (standing,) = parse(f"SELECT soundex({literal}), soundex(saddr) FROM packets")
    assert isinstance(standing, SelectOnce)
    residual = plan_standing(standing.select, lookup).residual_sql
    assert residual is not None
    assert "${" not in residual


@pytest.mark.parametrize(
    "value",
    ["it's", "a\\", "a\\'", '"', "`", "'; DROP TABLE x; --", "/* x", "*/", "\\u0027", "line\nbreak", "\u2028", "''"],
)
def test_strings_stay_strings(value: str, lookup: Lookup) -> None:
    written = "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    (once,) = parse(f"SELECT {written} AS x FROM packets")
    assert isinstance(once, SelectOnce)
    sql = plan_once(once.select, lookup).sql
    assert sql is not None
    (again,) = parse(sql)
    assert isinstance(again, SelectOnce)
    (literal,) = again.select.tree.find_all(exp.Literal)
    assert literal.name == value


def test_comments_do_not_reach_spark(lookup: Lookup) -> None:
    (once,) = parse("SELECT /* ${env:HOME} */ id -- x\n FROM packets /* y */")
    assert isinstance(once, SelectOnce)
    assert plan_once(once.select, lookup).sql == "SELECT `id` FROM `__stream0_0` AS `packets`"


@pytest.mark.parametrize(
    "tree",
    [
        exp.Command(this="SET", expression=exp.Literal.string("x")),
        exp.select(exp.Anonymous(this="reflect", expressions=[exp.Literal.string("a")])),
        exp.select(exp.Parameter(this=exp.var("x"))),
        exp.select(exp.CurrentUser()),
        exp.select(exp.Placeholder(this="x")),
    ],
)
def test_the_last_net_refuses_by_itself(tree: exp.Expr) -> None:
    with pytest.raises(SqlError):
        spark_text(tree)


def test_the_list_of_functions_holds_nothing_that_reaches_out() -> None:
    allowed = set(function_names())
    assert {"sum", "upper", "date_trunc", "explode", "window", "regexp_replace"} <= allowed
    for name in allowed:
        assert not name.startswith(("input_file", "java", "xpath", "read_"))
    assert not allowed & {"reflect", "try_reflect", "range", "version", "user", "from_protobuf", "from_avro"}


@pytest.mark.parametrize(
    "call", ["rand()", "uuid()", "now()", "current_timestamp", "current_date()", "shuffle(array(1))"]
)
def test_a_standing_query_must_be_repeatable(call: str, lookup: Lookup) -> None:
    (statement,) = parse(f"SELECT {call} AS x, id FROM packets")
    assert isinstance(statement, SelectOnce)
    assert plan_once(statement.select, lookup).sql
    with pytest.raises(SqlError) as caught:
        plan_standing(statement.select, lookup)
    assert caught.value.name == "FUNCTION_NOT_REPEATABLE"
