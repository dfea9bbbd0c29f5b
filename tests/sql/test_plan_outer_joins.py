"""Outer, semi and anti joins in SQL: where their conditions are applied, and that finished answers are DuckDB's."""

from __future__ import annotations

import random
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.operators.join.outer import OuterJoin
from anabranch.schema import TIME_TYPE, StreamSchema
from anabranch.sql import parse, plan_once, plan_standing
from anabranch.sql.statements import SelectOnce
from anabranch.testing import OperatorHarness
from tests.sampling import examples
from tests.sql.joins import SECOND, plan

A_SECOND = "WINDOW = INTERVAL 1 SECOND"


def outer(text: str) -> OuterJoin:
    (statement,) = parse(text)
    assert isinstance(statement, SelectOnce)
    schemas = {name: StreamSchema.of({"k": "BIGINT", "v": "INT"}) for name in "ab"}
    once = plan_once(statement.select, schemas.__getitem__)
    standing = plan_standing(statement.select, schemas.__getitem__)
    assert once.standing == standing
    assert once.ended
    assert isinstance(standing.operator, OuterJoin)
    return standing.operator


def conditions(operator: OuterJoin) -> tuple[Any, ...]:
    """What is applied while each stream is read, what makes a partner, and what is looked at after the join."""
    (_, _, first), (_, _, second) = operator.join.sources
    return first, second, operator.join.conditions, operator.where


@pytest.mark.parametrize(
    ("said", "side"),
    [
        ("LEFT", "left"),
        ("LEFT OUTER", "left"),
        ("right outer", "right"),
        ("FULL", "full"),
        ("FULL OUTER", "full"),
        ("LEFT SEMI", "semi"),
        ("SEMI", "semi"),
        ("LEFT ANTI", "anti"),
        ("ANTI", "anti"),
    ],
)
def test_every_kind_of_join(said: str, side: str) -> None:
    found = outer(f"SELECT x.k FROM a x {said} JOIN b y ON x.k = y.k {A_SECOND}")
    assert found.side == side
    assert conditions(found) == (None, None, ("`x.k` = `y.k`",), ())
    assert found.join.windows == ((0, 1, -SECOND, SECOND),)
    assert found.join.order == "arrival"


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        ("LEFT", ("k > 3", "v > 2", ("`x.k` = `y.k`", "`x.v` > 1"), ("`y.v` IS NULL OR `y.v` > 4",))),
        ("RIGHT", ("v > 1", "v IS NULL OR v > 4", ("`x.k` = `y.k`", "`y.v` > 2"), ("`x.k` > 3",))),
        (
            "FULL",
            (None, None, ("`x.k` = `y.k`", "`x.v` > 1", "`y.v` > 2"), ("`x.k` > 3", "`y.v` IS NULL OR `y.v` > 4")),
        ),
    ],
)
def test_conditions_on_one_stream_are_applied_early_only_where_that_is_the_same(said: str, wanted: Any) -> None:
    found = outer(
        f"SELECT x.k FROM a x {said} JOIN b y ON x.k = y.k AND x.v > 1 AND y.v > 2 {A_SECOND} "
        "WHERE x.k > 3 AND (y.v IS NULL OR y.v > 4)"
    )
    assert _bare(conditions(found)) == _bare(wanted)


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        ("SEMI", ("v > 1 AND k > 3", "v > 2", ("`x.k` = `y.k`",), ())),
        ("ANTI", ("k > 3", "v > 2", ("`x.k` = `y.k`", "`x.v` > 1"), ())),
    ],
)
def test_who_is_answered_alone_is_read_alone(said: str, wanted: Any) -> None:
    found = outer(f"SELECT * FROM a x {said} JOIN b y ON x.k = y.k AND x.v > 1 AND y.v > 2 {A_SECOND} WHERE x.k > 3")
    assert _bare(conditions(found)) == _bare(wanted)
    assert [name for name, _ in found.columns] == ["k", "v", "x__time", "_time"]


def _bare(found: Any) -> Any:
    if isinstance(found, tuple):
        return tuple(_bare(part) for part in found)
    return None if found is None else found.replace("(", "").replace(")", "")


def test_constants_in_on_say_that_all_are_partners_or_none() -> None:
    assert conditions(outer(f"SELECT x.k FROM a x LEFT JOIN b y {A_SECOND}")) == (None, None, (), ())
    assert conditions(outer(f"SELECT x.k FROM a x LEFT JOIN b y ON false {A_SECOND}")) == (None, None, ("FALSE",), ())
    none = outer(f"SELECT x.k FROM a x LEFT JOIN b y ON NULL {A_SECOND}")
    assert conditions(none) == (None, None, ("CAST(NULL AS BOOLEAN)",), ())


def test_plans_are_written_down_and_read_again() -> None:
    found = plan(f"SELECT x.k, y.v FROM a x LEFT JOIN b y ON x.k = y.k {A_SECOND} WHERE y.v IS NULL")
    assert [[f.name, str(f.type)] for f in found.schema.arrow][:2] == [["k", "int64"], ["v", "int32"]]  # type: ignore[union-attr]
    assert "answers: pairs, and rows of the first without a partner" in found.explain_text()


# -- finished answers are those of a database ----------------------------------------------------------

ON = [
    "A.k = B.k", "A.v = B.v", "A.k = B.k AND A.v = B.v", "A.k = B.k AND A.v > 1", "A.k = B.k AND B.v < 3",
    "A.k IS NOT DISTINCT FROM B.k", "abs(A.v - B.v) <= 1", "A.v < B.v", "A.k = B.k OR A.v = B.v", "A.v > 2", "1 = 1",
    "1 = 2", "A.k = B.k AND A.v BETWEEN B.v - 1 AND B.v",
]  # fmt: skip
WHERE = ["A.v > 1", "A.k IS NOT NULL", "A.v % 2 = 0 OR A.k = 'a'"]
WHERE_OF_BOTH = [*WHERE, "B.k IS NULL", "B.v > 1 OR B.v IS NULL", "coalesce(A.v, B.v) > 1", "A.v <> B.v"]
SCHEMA = StreamSchema.of({"n": "INT", "k": "STRING", "v": "INT", "ts": "TIMESTAMP"}, time="ts")


def some_rows(chance: random.Random) -> pa.Table:
    count = chance.randrange(30)
    times = sorted(chance.randrange(60) * SECOND for _ in range(count))
    return pa.table(
        {
            "n": pa.array(range(count), pa.int32()),
            "k": pa.array([chance.choice([None, "a", "b", "c"]) for _ in range(count)], pa.string()),
            "v": pa.array([chance.choice([None, 0, 1, 2, 3]) for _ in range(count)], pa.int32()),
            "ts": pa.array(times, pa.int64()).view(TIME_TYPE),
        }
    )


@pytest.mark.slow
@examples(200)
@given(
    said=st.sampled_from(["LEFT", "RIGHT", "FULL", "SEMI", "ANTI"]),
    on=st.sampled_from(ON),
    seed=st.integers(0, 2**32),
    low=st.sampled_from([-10, -3, 0, 2]),
    length=st.sampled_from([0, 3, 20]),
    order=st.sampled_from(["", "EMIT IN ORDER"]),
)
def test_finished_answers_are_those_of_a_database(
    said: str, on: str, seed: int, low: int, length: int, order: str
) -> None:
    chance = random.Random(seed)
    where = chance.choice([None, *(WHERE if said in ("SEMI", "ANTI") else WHERE_OF_BOTH)])
    columns = "A.n AS a" if said in ("SEMI", "ANTI") else "A.n AS a, B.n AS b, coalesce(A.k, B.k) AS k"
    condition = "" if where is None else f"WHERE {where}"
    ours_on = on.replace("IS NOT DISTINCT FROM", "<=>")
    first, last = (f"- INTERVAL {-s} SECONDS" if s < 0 else f"INTERVAL {s} SECONDS" for s in (low, low + length))
    window = f"WINDOW(A, B) = BETWEEN {first} AND {last}"
    text = f"SELECT {columns} FROM s A {said} JOIN t B ON {ours_on} {window} {condition} {order}"
    (statement,) = parse(text)
    assert isinstance(statement, SelectOnce)
    operator = plan_standing(statement.select, lambda name: SCHEMA).operator
    harness = OperatorHarness(operator, {"s": SCHEMA, "t": SCHEMA})
    tables = {name: some_rows(chance) for name in "st"}
    _fed(harness, tables, chance)
    with duckdb.connect() as database:
        for name, table in tables.items():
            database.register(name, table)
        window = f"epoch_us(B.ts) - epoch_us(A.ts) BETWEEN {low * SECOND} AND {(low + length) * SECOND}"
        wanted = database.sql(
            f"SELECT {columns} FROM s A {said} JOIN t B ON ({on}) AND {window} {condition}"
        ).fetchall()
    answered = harness.answers().drop_columns(["_time"])
    assert sorted(map(str, zip(*answered.to_pydict().values(), strict=True))) == sorted(map(str, wanted))


def _fed(harness: OperatorHarness, tables: dict[str, pa.Table], chance: random.Random) -> None:
    at = dict.fromkeys(tables, 0)
    while any(at[name] < table.num_rows for name, table in tables.items()):
        name = chance.choice([name for name, table in tables.items() if at[name] < table.num_rows])
        count = chance.randint(1, 8)
        harness.push(name, tables[name].slice(at[name], count))
        at[name] += count
        harness.step(parallelism=chance.randint(1, 3), rows=chance.choice([None, 2]))
    for name in tables:
        harness.advance(name, 1_000 * SECOND)
    harness.run()
