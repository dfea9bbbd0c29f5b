"""The merge for PySpark programs: the SELECT its arguments mean, and its answer as a streaming DataFrame."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import anabranch
from anabranch.database import Database
from anabranch.errors import AnabranchError, QueryError
from anabranch.operators.merge.operator import Merge
from anabranch.operators.merge.range_operator import RangeMerge
from anabranch.schema import TIME_TYPE
from anabranch.spark import merge_join
from anabranch.spark.merges import merge_text
from tests.sql.merges import SECOND, plan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TWO = {"p": "rain", "f": "floods"}


def planned(
    streams: dict[str, str], on: Any, kind: Any = "inner", select: str = "p.n", where: str | None = None, **options: Any
) -> Merge | RangeMerge:
    operator = plan(merge_text(streams, on, kind, select, where, options)).operator
    assert isinstance(operator, Merge | RangeMerge)
    return operator


# -- arguments as SQL, without Spark -------------------------------------------------------------------


def test_tolerances_by_column() -> None:
    on = {"lat": 0.25, "lon": np.float32(0.5), "n": 3, "ts": "1 hour", "day": 2, "station": None}
    found = planned(TWO, on, where="p.rain > 0 -- with a remark")
    assert found.sources == (("p", "rain"), ("f", "floods"))
    assert found.keys == (
        (
            ("`p.lat`", "`f.lat`", 0.25),
            ("`p.lon`", "`f.lon`", 0.5),
            ("`p.n`", "`f.n`", 3.0),
            ("`p.ts`", "`f.ts`", 3600.0 * SECOND),
            ("`p.day`", "`f.day`", 2.0),
        ),
    )
    assert found.by == ((("`p.station`", "`f.station`"),),)
    assert found.conditions == ("`p.rain` > 0",)


@pytest.mark.parametrize("tolerance", [dt.timedelta(minutes=1), "1 minute", "60 seconds"])
def test_lengths_of_time(tolerance: Any) -> None:
    assert planned(TWO, {"ts": tolerance}).keys == ((("`p.ts`", "`f.ts`", 60.0 * SECOND),),)


@pytest.mark.parametrize("tolerance", [1e-5, Decimal("0.00001"), np.float64(1e-5)])
def test_numbers(tolerance: Any) -> None:
    assert planned(TWO, {"lat": tolerance}).keys == ((("`p.lat`", "`f.lat`", 1e-5),),)


def test_expressions_and_text() -> None:
    pairs = planned(TWO, {("p.lat + 1", "f.lat"): 0.25, ("p.n", "f.n"): None})
    assert pairs.keys == ((("`p.lat` + 1", "`f.lat`", 0.25),),)
    assert pairs.by == ((("CAST(`p.n` AS BIGINT)", "`f.n`"),),)
    assert planned(TWO, "within(p.lat + 1, f.lat, 0.25) AND p.n = f.n") == pairs


def test_several_streams_and_kinds() -> None:
    streams = {"p": "rain", "f": "floods", "w": "winds"}
    found = planned(streams, [{"lat": 1}, "within(f.lat, w.lat, 2)"], ["left", "FULL"])
    assert found.joins == ("left", "full")
    assert found.keys == ((("`p.lat`", "`f.lat`", 1.0),), (("`f.lat`", "`w.lat`", 2.0),))
    assert planned(streams, [{"lat": 1}, {"lat": 2}], "left").keys[1] == (("`p.lat`", "`w.lat`", 2.0),)
    assert planned(TWO, {"lat": 1}, "anti").joins == ("anti",)


def test_options() -> None:
    found = planned(
        TWO, {"lat": 1}, policy="nearest", window=100, step=10, every="1 minute", delta=0.02, over=5, memory="1 MB"
    )
    assert isinstance(found, Merge)
    assert (found.policy, found.window, found.step, found.every) == ("nearest", 100, 10, 60 * SECOND)
    assert (found.delta, found.over, found.memory) == (0.02, 5, 1_000_000)
    ranged = planned(TWO, {"lat": 1}, algorithm="rtm", remainder="difference", every=0)
    assert isinstance(ranged, RangeMerge)
    assert (ranged.remainder, ranged.every) == ("difference", None)
    sized = planned(TWO, {"lat": 1}, delta=1e-5, memory=4096)
    assert isinstance(sized, Merge)
    assert (sized.delta, sized.memory) == (1e-5, 4096)


def test_any_name_can_be_merged() -> None:
    found = planned({"x.y": "x.y", "o": "x.y"}, {"a b": 1, "k`l": None}, select="o.at")
    assert (found.keys, found.by) == (((("`x.y.a b`", "`o.a b`", 1.0),),), ((("`x.y.k``l`", "`o.k``l`"),),))


@pytest.mark.parametrize(
    "wrong",
    [
        {"on": None}, {"on": 5}, {"on": {}}, {"on": ""}, {"on": []}, {"on": [{"lat": 1}, {"lat": 1}]}, {"on": {5: 1}},
        {"on": {("p.lat",): 1}}, {"on": {"lat": -1}}, {"on": {"lat": float("nan")}}, {"on": {"lat": float("inf")}},
        {"on": {"lat": True}}, {"on": {"ts": ["1 hour"]}}, {"kind": "outer"}, {"kind": ["inner", "inner"]}, {"kind": 5},
        {"select": ["p.n"]}, {"select": ""}, {"select": "p.n; DROP"}, {"where": 5}, {"where": " "},
        {"window": 1.5}, {"window": True}, {"window": "5"}, {"step": None, "over": "x"}, {"delta": 1}, {"delta": "0.1"},
        {"every": 5}, {"memory": 1.5}, {"algorithm": 5}, {"policy": True},
    ],
)  # fmt: skip
def test_wrong_arguments_are_told(wrong: dict[str, Any]) -> None:
    with pytest.raises(QueryError) as caught:
        planned(TWO, **{"on": {"lat": 1}, **wrong})
    assert caught.value.name == "JOIN_ARGUMENT_INVALID"


@pytest.mark.parametrize("wrong", [{"policy": "it's"}, {"on": "p.lat = f.lat"}, {"where": "p.n > 3 ORDER BY 1"}])
def test_what_sql_refuses_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(AnabranchError):
        planned(TWO, **{"on": {"lat": 1}, **wrong})


# -- on Spark ------------------------------------------------------------------------------------------

BEGIN = 1_767_225_600 * SECOND
COUNT = 900


def fill(db: Database) -> list[int]:
    """Two streams of the same keys, each a little off and out of order; gives the numbers that must merge."""
    chance = np.random.default_rng(5)
    for name in "ab":
        order = np.argsort(np.arange(COUNT) + chance.uniform(0, 8, COUNT), kind="stable")
        keys = order * 10.0 + chance.uniform(-1, 1, COUNT)
        times = pa.array(BEGIN + np.arange(COUNT) * 10_000).cast(TIME_TYPE)
        db.sql(f"CREATE STREAM {name} (x DOUBLE, k STRING, n BIGINT, ts TIMESTAMP) TIMESTAMP BY ts")
        db.append(name, pa.table({"x": keys, "k": [f"k{n % 3}" for n in order], "n": order, "ts": times}))
        db.append(name, {"x": [None], "k": ["end"], "n": [-1], "ts": [dt.datetime(2026, 1, 2, tzinfo=dt.UTC)]})
    return list(range(COUNT))


@pytest.mark.parametrize("select", ["a.n AS one, b.n AS two", "a.n AS one, b.n AS two, soundex(a.k) AS s"])
def test_as_a_streaming_dataframe(tmp_path: Path, spark: SparkSession, select: str) -> None:
    with anabranch.open(tmp_path / "db") as db:
        wanted = fill(db)
    frame = merge_join(
        spark, tmp_path / "db", streams=["a", "b"], on={"x": 2.5, "k": None}, select=select, where="a.n >= 0",
        window=200, step=20, settings={"batch_rows": 250},
    )  # fmt: skip
    assert frame.isStreaming
    query = frame.writeStream.format("memory").queryName("merged").trigger(availableNow=True).start()
    query.awaitTermination(120)
    got = frame.sparkSession.sql("SELECT one, two FROM merged").collect()
    assert sorted(row.one for row in got) == wanted
    assert all(row.one == row.two for row in got)


def test_a_query_that_is_not_a_merge_is_refused(tmp_path: Path, spark: SparkSession) -> None:
    with anabranch.open(tmp_path / "db") as db:
        fill(db)
    with pytest.raises(AnabranchError) as caught:
        merge_join(spark, tmp_path / "db", streams=["a", "b"], on={"x": 1}, select="count(*)")
    assert caught.value.name == "NOT_IN_THE_LANGUAGE"
