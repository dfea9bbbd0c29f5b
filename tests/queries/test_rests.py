"""Members with a rest: what goes into the log is finished, in the same commit, and of nobody else's failure smaller.

Here the rest is computed in Arrow, in place of Spark SQL: it is about what becomes of the rows before and after.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from sqlglot import exp

from anabranch.engine.options import SourceOptions
from anabranch.engine.rests import Unfinished
from anabranch.errors import AnabranchError, QueryError
from anabranch.log import Storage
from anabranch.operators import operator_from_json
from anabranch.operators.base import Inputs
from anabranch.operators.columns import bind, project
from anabranch.operators.opening import open_stream
from anabranch.operators.windows.program import kept_rows
from anabranch.queries import membership
from anabranch.queries.sink import StreamSink
from anabranch.sql.standing.columns import Scope
from anabranch.sql.standing.rest import rest_of
from anabranch.testing.sparkless import LocalEngine, SparklessDatabase, Unkindness
from tests.queries.test_together import STREAM, a_query, a_row, alone, fill, told
from tests.sampling import SEED

LEFT = (exp.Mul, exp.Or, exp.NullSafeEQ)
"""What is left to the rest here."""


class SparkInArrow:
    """Computes rests as Spark SQL would, row by row; those that speak of `trouble` may fail."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.trouble: float | None = None
        self.broken: AnabranchError | None = None

    def answer_schema(self, options: SourceOptions, residual_sql: str) -> pa.Schema:
        readers = {name: open_stream(Storage(path), options.access) for name, path in options.streams.items()}
        source = operator_from_json(options.operator).schema(Inputs(readers))
        return pa.schema([(name, bind(sql, source).type) for name, sql in rest_of(residual_sql).columns])

    def finish(self, parts: Sequence[Unfinished], staging: Storage) -> list[pa.Table] | AnabranchError:
        self.asked.append(len(parts))
        if self.broken is not None:
            raise self.broken
        answers = []
        for part in parts:
            rows = part.rows
            if part.rest.condition is not None:
                rows = rows.filter(pa.array(kept_rows(bind(part.rest.condition, rows.schema), rows)))
            answers.append(project(rows, [bind(sql, rows.schema) for _, sql in part.rest.columns], part.schema))
            if self.trouble is not None and "x" in rows.column_names and self.trouble in rows.column("x").to_pylist():
                return QueryError("QUERY_FAILED", f"{self.trouble} makes trouble")
        return answers


@pytest.fixture
def rests(monkeypatch: pytest.MonkeyPatch) -> SparkInArrow:
    made = SparkInArrow()
    can_compile = Scope.can_compile

    def can(scope: Scope, node: exp.Expr) -> bool:
        return can_compile(scope, node) and node.find(*LEFT) is None

    monkeypatch.setattr(Scope, "can_compile", can)
    monkeypatch.setattr(LocalEngine, "answer_schema", made.answer_schema)
    monkeypatch.setattr(LocalEngine, "finish", made.finish)
    return made


@pytest.mark.parametrize(
    "how", [Unkindness(), Unkindness(replay=True), Unkindness(faults=True)], ids=["kind", "repeated", "faulty"]
)
def test_they_answer_what_each_does_alone(
    tmp_path: Path, rests: SparkInArrow, monkeypatch: pytest.MonkeyPatch, how: Unkindness
) -> None:
    chance = random.Random(f"{SEED} {how}")
    asked = {f"q{i}": a_query(chance) for i in range(40)}
    asked |= {f"r{i}": f"SELECT x * {i % 3} AS y, k, at FROM s WHERE k > {i % 5}" for i in range(10)}
    asked["pairs"] = (
        "SELECT a.x * b.x AS y, a.k FROM s a, s b WINDOW = INTERVAL 4 SECONDS WHERE a.k = b.k AND a.x < b.x"
    )
    parts = [[a_row(chance, 40 * part + i) for i in range(40)] for part in range(5)]
    names = list(asked)
    with SparklessDatabase(tmp_path / "river", settings={"batch_rows": 37}, unkindness=how) as db:
        db.sql(STREAM)
        for part in parts:
            db.append("s", part)
            new, names = names[:15], names[15:]
            if new:
                db.create_queries({name: asked[name] for name in new})
            if chance.random() < 0.7:
                db.catch_up()
        db.catch_up()
        with_rest = [name for name in asked if db.get_query(name)._member.plan.residual_sql is not None]
        answers = {name: told(db, name) for name in asked}
    assert len(with_rest) > 15
    assert max(rests.asked) > 10
    monkeypatch.undo()
    expected = alone(tmp_path / "alone", asked, parts)
    for name, text in asked.items():
        assert answers[name] == expected[name], text


def test_the_one_to_blame_fails_alone_and_is_told_before_the_commit(
    tmp_path: Path, rests: SparkInArrow, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_commit: list[str] = []
    take = StreamSink.take
    with SparklessDatabase(tmp_path / "river", unkindness=Unkindness(replay=True)) as db:

        def noted(sink: StreamSink, *more: Any) -> None:
            if "q5" in asked and rests.trouble is not None:
                at_commit.append(db.get_query("q5").status)
            take(sink, *more)

        monkeypatch.setattr(StreamSink, "take", noted)
        db.sql(STREAM)
        asked = {f"q{i}": f"SELECT x * 2 AS y, x, at FROM s WHERE k = {i}" for i in range(8)}
        db.create_queries(asked | {"plain": "SELECT x, k, at FROM s"})
        fill(db, 0, 100)
        db.catch_up()
        rests.trouble = 105.0
        fill(db, 100, 200)
        db.catch_up()
        fill(db, 200, 300)
        db.catch_up()
        assert [name for name in asked if db.get_query(name).status == "failed"] == ["q5"]
        assert set(at_commit) == {"failed"}
        assert "105.0 makes trouble" in str(db.get_query("q5").failure)
        assert [len(told(db, name)) for name in ("q4", "q5", "q6", "plain")] == [30, 10, 30, 300]


def test_nobody_fails_where_the_engine_does(tmp_path: Path, rests: SparkInArrow) -> None:
    with SparklessDatabase(tmp_path / "river") as db:
        db.sql(STREAM)
        db.create_queries({"q": "SELECT x * 2 AS y FROM s", "plain": "SELECT x FROM s"})
        db.catch_up()
        rests.broken = QueryError("ENGINE_LOST", "Spark's JVM ended")
        fill(db, 0, 10)
        db.catch_up()
        assert db.get_query("host").status == "failed"
        assert told(db, "plain") == []
        rests.broken = None
        db.get_query("host").start()
        db.catch_up()
        assert [db.get_query(name).status for name in ("q", "plain")] == ["running"] * 2
        assert [len(told(db, name)) for name in ("q", "plain")] == [10, 10]


def test_nothing_is_asked_where_there_are_no_rows(tmp_path: Path, rests: SparkInArrow) -> None:
    with SparklessDatabase(tmp_path / "river") as db:
        db.sql(STREAM)
        db.create_queries({"q": "SELECT x * 2 AS y FROM s WHERE k = 77", "plain": "SELECT x FROM s"})
        fill(db, 0, 100)
        db.catch_up()
        assert rests.asked == []
        assert len(told(db, "plain")) == 100


def test_one_host_has_at_most_so_many_different_rests(
    tmp_path: Path, rests: SparkInArrow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(membership, "MOST_RESTS", 3)
    monkeypatch.setattr("anabranch.queries.hosts.MOST_RESTS", 3)
    with SparklessDatabase(tmp_path / "river", settings={"alone_queries": 1}) as db:
        db.sql(STREAM)
        db.sql("CREATE CONTINUOUS QUERY alone AS SELECT x FROM s")
        db.create_queries({f"q{i}": f"SELECT x * {i % 3} AS y FROM s WHERE k = {i}" for i in range(9)})
        with pytest.raises(QueryError, match=r"HOST_IS_FULL.*more than 3 different rests"):
            db.create_queries({"more": "SELECT x * 4 AS y FROM s"})
        db.create_queries({"more": "SELECT x FROM s", "same": "SELECT x * 2 AS y FROM s"})
        assert db.query("SELECT x * 4 AS y FROM s", name="other").host == "host_2"
        assert db.query("SELECT x * 1 AS y FROM s", name="again").host == "host"


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT UPPER(`t`) AS `AS``t, `, `at` AS `_time` FROM `__input`",
        "SELECT `a` IS DISTINCT FROM `b` AS `c`, EXTRACT(YEAR FROM `at`) AS `y` FROM `__input` WHERE f(`t`) IN (1, 2)",
        "SELECT TRANSFORM(ARRAY(1, 2), `x` -> `x` + 1)[0] AS `x` FROM `__input` WHERE `t` = ' FROM `__input` WHERE '",
        "SELECT 'it''s, \\'a\\' \\u0024{x}' AS `it` FROM `__input`",
    ],
)
def test_a_rest_that_is_taken_apart_and_put_together_again_is_the_same(sql: str) -> None:
    rest = rest_of(sql)
    columns = ", ".join(f"{value} AS `{name.replace('`', '``')}`" for name, value in rest.columns)
    where = "" if rest.condition is None else f" WHERE {rest.condition}"
    assert f"SELECT {columns} FROM `__input`{where}" == sql
