"""Window joins on Spark: the library form, and a standing query that is stopped, resized and killed."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import anabranch
from anabranch.database import Database
from anabranch.errors import AnabranchError, SqlError
from anabranch.schema import TIME_TYPE
from anabranch.spark import window_join

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SECOND = 1_000_000
BEGIN = 1_767_225_600 * SECOND
WINDOW = 2 * SECOND


def rows(count: int, seed: int) -> pa.Table:
    chance = np.random.default_rng(seed)
    times = BEGIN + np.sort(chance.integers(0, 60 * SECOND, count))
    keys = [f"k{key}" for key in chance.integers(0, 50, count)]
    return pa.table({"k": keys, "v": np.arange(count), "ts": pa.array(times).cast(TIME_TYPE)})


def pairs(a: pa.Table, b: pa.Table) -> list[tuple[int, int]]:
    """The naive join."""
    at, bt = (table.column("ts").cast(pa.int64()).to_numpy() for table in (a, b))
    ak, bk = (np.array(table.column("k").to_pylist()) for table in (a, b))
    near = (np.abs(at[:, None] - bt[None, :]) <= WINDOW) & (ak[:, None] == bk[None, :])
    return sorted((int(i), int(j)) for i, j in np.argwhere(near))


def fill(db: Database) -> list[tuple[int, int]]:
    tables = [rows(1_500, 1), rows(900, 2)]
    for name, table in zip("ab", tables, strict=True):
        db.sql(f"CREATE STREAM {name} (k STRING, v BIGINT, ts TIMESTAMP) TIMESTAMP BY ts")
        db.append(name, table)
    return pairs(*tables)


def test_as_a_streaming_dataframe(tmp_path: Path, spark: SparkSession) -> None:
    with anabranch.open(tmp_path / "db") as db:
        wanted = fill(db)
    for windows in ("2 seconds", dt.timedelta(seconds=2), {("A", "B"): ("-2 seconds", dt.timedelta(seconds=2))}):
        frame = window_join(
            spark, tmp_path / "db", streams={"A": "a", "B": "b"}, windows=windows,
            on="A.k = B.k", select="A.v AS one, B.v AS two", settings={"batch_rows": 400},
        )  # fmt: skip
        assert frame.isStreaming
        query = frame.writeStream.format("memory").queryName("joined").trigger(availableNow=True).start()
        query.awaitTermination(120)
        got = sorted((row.one, row.two) for row in spark.sql("SELECT one, two FROM joined").collect())
        assert got == wanted


def test_names_without_aliases_and_what_is_wrong(tmp_path: Path, spark: SparkSession) -> None:
    with anabranch.open(tmp_path / "db") as db:
        fill(db)
    frame = window_join(spark, tmp_path / "db", streams=["a", "b"], windows=5, on="a.k = b.k")
    assert frame.columns == ["a_k", "a_v", "a_ts", "b_k", "b_v", "b_ts", "_time"]
    with pytest.raises(SqlError, match="month has no fixed length"):
        window_join(spark, tmp_path / "db", streams=["a", "b"], windows="1 month", on="a.k = b.k")


def test_what_only_spark_can_compute(tmp_path: Path, spark: SparkSession) -> None:
    with anabranch.open(tmp_path / "db") as db:
        wanted = fill(db)
    window_join(spark, tmp_path / "db", streams={"A": "a", "B": "b"}, windows="2 seconds", on="A.k = B.k")
    frame = window_join(
        spark, tmp_path / "db", streams={"A": "a", "B": "b"}, windows="2 seconds",
        on="A.k = B.k AND soundex(A.k) = soundex(B.k)", select="A.v AS one, reverse(B.k) AS back",
    )  # fmt: skip
    query = frame.writeStream.format("memory").queryName("reversed").trigger(availableNow=True).start()
    query.awaitTermination(120)
    got = frame.sparkSession.sql("SELECT one, back FROM reversed").collect()
    assert sorted(row.one for row in got) == [one for one, _ in wanted]
    assert all(row.back.endswith("k") for row in got)


RIGHT: dict[str, Any] = {"streams": {"A": "a", "B": "b"}, "windows": "1 second", "on": "A.k = B.k"}


@pytest.mark.parametrize(
    "wrong",
    [
        {"windows": None}, {"windows": 1.5}, {"windows": {("A", "B"): 5}}, {"windows": {"A": "1 second"}},
        {"windows": ("1 second",)}, {"select": ["A.k"]}, {"select": "A.k FROM a --"}, {"select": ""},
        {"select": "count(*)"}, {"streams": ["a", "a"]}, {"streams": []}, {"streams": "a"}, {"on": 5},
    ],
)  # fmt: skip
def test_wrong_arguments_are_told(tmp_path: Path, spark: SparkSession, wrong: dict[str, Any]) -> None:
    with anabranch.open(tmp_path / "db", queries=False) as db:
        fill(db)
    with pytest.raises(AnabranchError) as caught:
        window_join(spark, tmp_path / "db", **{**RIGHT, **wrong})
    assert caught.value.name in ("JOIN_ARGUMENT_INVALID", "AGGREGATE_UNBOUNDED", "SYNTAX_ERROR")


def test_parallelism_may_change_between_restarts(tmp_path: Path, spark: SparkSession) -> None:
    select = "SELECT A.v AS one, B.v AS two FROM a A, b B WINDOW = INTERVAL 2 SECONDS WHERE A.k = B.k"
    tables = {"a": rows(1_500, 1), "b": rows(900, 2)}
    for turn, parallelism in enumerate((1, 3, 2)):
        with anabranch.open(tmp_path / "db", settings={"batch_rows": 250, "parallelism": parallelism}) as db:
            for name, table in tables.items():
                if turn == 0:
                    db.sql(f"CREATE STREAM {name} (k STRING, v BIGINT, ts TIMESTAMP) TIMESTAMP BY ts")
                third = table.num_rows // 3
                db.append(name, table.slice(turn * third, third))
            query = db.query(select, name="q") if turn == 0 else db.queries()[0]
            answer = query.wait(120).table()
    got = zip(answer.column("one").to_pylist(), answer.column("two").to_pylist(), strict=True)
    assert sorted(got) == pairs(tables["a"], tables["b"])
