"""Nothing that a statement says leads out of the database: not by names, and not by functions that do more."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from anabranch.errors import AnabranchError
from anabranch.testing.sparkless import SparklessDatabase

NAMES = [
    "..", ".", "../../out", "a/../../out", "/tmp/out", "a\\b", "a\0b", "%2e%2e", "=2e=2e", "~", "$HOME", "a\nb",
    "streams", "stream.json", "a.rejects.b", "ünïcödé", "*", "con", "-rf", "x" * 150,
]  # fmt: skip


@pytest.fixture
def db(tmp_path: Path) -> Iterator[SparklessDatabase]:
    with SparklessDatabase(tmp_path / "inside" / "river") as made:
        yield made


def quoted(name: str) -> str:
    return f"`{name}`"


@pytest.mark.parametrize("name", NAMES)
def test_whatever_a_thing_is_called_it_is_in_its_place(db: SparklessDatabase, tmp_path: Path, name: str) -> None:
    river = tmp_path / "inside" / "river"
    outside = sorted(tmp_path.iterdir()), sorted(river.parent.iterdir())
    stream, query = quoted(name), quoted(f"{name}q" if name.strip(".") else f"{name}.")
    db.sql(f"CREATE STREAM {stream} (k INT, ts TIMESTAMP) TIMESTAMP BY ts RETAIN INTERVAL 1 DAY")
    db.append(name, {"k": [1, 2], "ts": pa.array([0, 10**6], pa.timestamp("us", "UTC"))})
    db.sql(f"CREATE CONTINUOUS QUERY {query} AS SELECT k, ts FROM {stream}")
    db.sql(f"CREATE ARCHIVE {stream} ON {stream} USING plain")
    db.catch_up()
    db.archive(name, name).append()
    assert db.get_query(query.strip("`")).table().column("k").to_pylist() == [1, 2]
    assert [each.name for each in db.streams()].count(name) == 1
    assert (sorted(tmp_path.iterdir()), sorted(river.parent.iterdir())) == outside
    assert len(list((river / "streams").iterdir())) == 2
    holds = next(each for each in (river / "streams").iterdir() if (each / "holds").exists()) / "holds"
    assert all(each.is_file() for each in holds.iterdir())
    db.sql(f"DROP QUERY {query}")
    db.sql(f"DROP STREAM {stream}")
    assert list((river / "streams").iterdir()) == []
    assert (sorted(tmp_path.iterdir()), sorted(river.parent.iterdir())) == outside


@pytest.mark.parametrize(
    "select",
    [
        "SELECT reflect('java.lang.Runtime', 'getRuntime') FROM s",
        "SELECT java_method('java.lang.System', 'getenv', 'HOME') FROM s",
        "SELECT try_reflect('java.lang.System', 'exit', 1) FROM s",
        "SELECT `reflect`('java.lang.Runtime', 'getRuntime') FROM s",
        "SELECT input_file_name() FROM s",
        "SELECT xpath(CAST(k AS STRING), '/a') FROM s",
        "SELECT from_avro(CAST(k AS BINARY), 'x') FROM s",
        "SELECT from_protobuf(CAST(k AS BINARY), 'x', '/etc/passwd') FROM s",
        "SELECT current_user() FROM s",
        "SELECT version() FROM s",
        "SELECT secret('a', 'b') FROM s",
        "SELECT ai_query('a', 'b') FROM s",
        "SELECT s.reflect('java.lang.Runtime') FROM s",
        "SELECT system.builtin.reflect('java.lang.Runtime', 'getRuntime') FROM s",
        "SELECT * FROM read_files('/etc/passwd')",
        "SELECT * FROM csv.`/etc/passwd`",
        "SELECT * FROM text.`/etc/passwd`",
        "SELECT * FROM delta.`/tmp/x`",
        "SELECT * FROM `/etc/passwd`",
        "SELECT * FROM parquet.`s3://bucket/x`",
        "SELECT TRANSFORM(k) USING 'cat /etc/passwd' AS (x STRING) FROM s",
        "SELECT ${env:HOME} FROM s",
        "SELECT * FROM s TABLESAMPLE (1 ROWS) REPEATABLE (1)",
        "SELECT k INTO OUTFILE '/tmp/x' FROM s",
    ],
)
@pytest.mark.parametrize("standing", [False, True])
def test_no_query_reads_a_file_or_calls_into_the_machine(db: SparklessDatabase, select: str, standing: bool) -> None:
    db.sql("CREATE STREAM s (k INT, ts TIMESTAMP) TIMESTAMP BY ts")
    with pytest.raises(AnabranchError) as problem:
        db.sql(f"CREATE CONTINUOUS QUERY q AS {select}" if standing else select)
    assert "root:" not in str(problem.value)
    assert problem.value.name in (
        "FUNCTION_NOT_ALLOWED", "TABLE_NOT_ALLOWED", "STREAM_NOT_FOUND", "NOT_IN_THE_LANGUAGE", "SYNTAX_ERROR",
        "NAME_NOT_ALLOWED", "COLUMN_NOT_FOUND",
    )  # fmt: skip


@pytest.mark.parametrize(
    "statement",
    [
        "ADD JAR '/tmp/x.jar'",
        "ADD FILE '/etc/passwd'",
        "SET spark.sql.ansi.enabled = true",
        "SET file_directories = '/'",
        "LOAD DATA INPATH '/etc/passwd' INTO TABLE s",
        "COPY INTO s FROM '/etc/passwd'",
        "CREATE FUNCTION f AS 'java.lang.Runtime'",
        "CREATE TEMPORARY VIEW v USING csv OPTIONS (path '/etc/passwd')",
        "INSERT OVERWRITE DIRECTORY '/tmp/x' SELECT 1",
        "INSERT INTO s SELECT * FROM csv.`/etc/passwd`",
        "DESCRIBE EXTENDED csv.`/etc/passwd`",
        "DROP STREAM `../../x`",
        "SELECT count(*) FROM ARCHIVE s REDUCE BY `os:system`('id')",
        "EXECUTE IMMEDIATE 'SELECT 1'",
    ],
)
def test_no_statement_reaches_beyond_the_database(db: SparklessDatabase, statement: str) -> None:
    db.sql("CREATE STREAM s (k INT, ts TIMESTAMP) TIMESTAMP BY ts")
    with pytest.raises(AnabranchError) as problem:
        db.sql(statement)
    assert problem.value.name != "INTERNAL_ERROR"
