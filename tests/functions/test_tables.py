"""What the tables of functions say is so: examples run, classes and estimators exist, parsers know the nodes."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from sqlglot import exp
from sqlglot.errors import SqlglotError

from anabranch import expressions
from anabranch.archive.estimation.sums import ESTIMATORS
from anabranch.archive.summaries import questions
from anabranch.expressions.functions import SCALARS
from anabranch.expressions.functions.declaring import ScalarFunction
from anabranch.expressions.reading import read
from anabranch.expressions.rules import REFUSED, RULES
from anabranch.functions import function_names, named, spark_has
from anabranch.functions.aggregates import AGGREGATES, Aggregate, AggregateFunction, ValueAggregate, aggregate, rows
from anabranch.functions.aggregates.declaring import SAMPLE
from anabranch.testing.sparkless import SparklessDatabase

WINDOWED = [row for row in rows() if row.in_windows]
ON_ARROW = list({row.name: row for row in SCALARS.values() if row.rules}.values())


def answer_in_a_window(db: SparklessDatabase, row: AggregateFunction) -> Any:
    """The example of an aggregate, answered by a standing query over `SAMPLE`."""
    assert row.example is not None
    db.sql("CREATE STREAM sample (x INT, ts TIMESTAMP) TIMESTAMP BY ts")
    query = db.query(f"SELECT {row.example.call} AS a FROM sample WINDOW = {len(SAMPLE)} ROWS", name="example")
    for second, x in enumerate(SAMPLE):
        db.append("sample", [{"x": x, "ts": f"2026-01-01 00:00:0{second}"}])
    db.catch_up()
    (answer,) = query.table().column("a").to_pylist()
    return answer


def value_of(row: ScalarFunction) -> Any:
    """The example of a function, evaluated on Arrow columns."""
    assert row.example is not None
    compiled = expressions.compile(row.example.call, pa.schema([]))
    value = compiled.evaluate(pa.table({"": pa.nulls(1)}))[0].as_py()
    if isinstance(value, dt.datetime):
        return value.replace(tzinfo=None).isoformat(" ")
    return value.isoformat() if isinstance(value, dt.date) else value


@pytest.mark.parametrize("row", WINDOWED, ids=lambda row: row.name)
def test_examples_of_aggregates_give_what_they_say(row: AggregateFunction, tmp_path: Path) -> None:
    assert row.example is not None
    with SparklessDatabase(tmp_path / "db") as db:
        answer = answer_in_a_window(db, row)
    assert answer == (pytest.approx(row.example.gives) if isinstance(answer, float) else row.example.gives)
    assert type(answer) is type(row.example.gives)


@pytest.mark.parametrize("row", ON_ARROW, ids=lambda row: row.name)
def test_examples_of_functions_give_what_they_say(row: ScalarFunction) -> None:
    assert row.example is not None
    value = value_of(row)
    assert (value, type(value)) == (row.example.gives, type(row.example.gives))
    assert type(read(row.example.call)) in row.rules


def test_every_function_has_a_line_that_says_what_it_gives() -> None:
    for name in function_names():
        row = named(name)
        assert row is not None
        assert row.doc[-1] == "."
        assert "\n" not in row.doc


@pytest.mark.parametrize("row", WINDOWED, ids=lambda row: row.name)
def test_an_aggregate_is_what_its_row_says(row: AggregateFunction) -> None:
    assert (row.bind is None) == (row.stands_for is not None)
    meant = AGGREGATES[row.stands_for or row.name]
    assert meant.bind is not None
    assert (row.kind, row.empty, row.approximate) == (meant.kind, meant.empty, meant.approximate)
    parameter = meant.parameter
    function = meant.name if parameter is None else f"{meant.name}({parameter.default or parameter.high})"
    bound = aggregate(function, pa.int32())
    assert isinstance(bound, ValueAggregate if row.kind == "holistic" else Aggregate)
    assert isinstance(bound, Aggregate) or bound.approximate == row.approximate
    if row.kind == "distributive" and isinstance(bound, Aggregate):
        assert set(bound.states) <= {"count", "integer_sum", "min", "max"}
    assert row.estimator is None or row.estimator in ESTIMATORS
    assert row.distinct is None or AGGREGATES[row.distinct].bind is not None


def test_every_estimator_and_summary_belongs_to_an_aggregate() -> None:
    assert {row.estimator for row in WINDOWED if row.estimator} == set(ESTIMATORS)
    assert set(questions.FUNCTIONS) <= set(AGGREGATES)


ARGUMENTS = ("a", "a, b", "a, b, c", "'day', a", "a AS INT", "YEAR FROM a")


def calls_of(name: str) -> list[exp.Expr]:
    """What calls of a function may be parsed to."""
    calls = []
    for arguments in ARGUMENTS:
        try:
            calls.append(read(f"{name}({arguments})"))
        except (SqlglotError, IndexError):  # the parser of `map` counts its arguments by taking them
            continue
    return calls


def understood(call: exp.Expr) -> bool:
    return {name for name, value in call.args.items() if value} <= set(RULES[type(call)].args)


@pytest.mark.parametrize("name", sorted(SCALARS))
def test_the_parser_makes_of_a_name_what_its_row_says(name: str) -> None:
    row, calls = SCALARS[name], calls_of(name)
    kinds = {type(call) for call in calls}
    evaluated = {type(call) for call in calls if type(call) in RULES and understood(call)}
    if exp.Anonymous in row.rules:
        assert kinds == {exp.Anonymous}
    else:
        assert bool(evaluated) == bool(row.rules)
        assert evaluated <= set(row.rules)
    assert bool(kinds & set(row.refused)) == bool(row.refused)
    assert {kind for kind in kinds if kind in REFUSED} <= {*row.refused, exp.Escape, exp.Ln}


def test_what_spark_does_not_have_is_ours_and_replaced_by_what_it_has() -> None:
    ours = {name for name in function_names() if not spark_has(name)}
    assert ours == {"getsecond", "getminute", "gethour", "getday", "quantile", "approx_median"}
    for name in ours:
        row = named(name)
        assert row is not None
        instead = row.in_spark[name]
        assert instead is not None
        assert spark_has(instead.name)


def test_a_name_is_that_of_one_function() -> None:
    assert set(SCALARS) & set(AGGREGATES) == set()
    assert named("count_distinct") is None
    assert named("count") is AGGREGATES["count"]
