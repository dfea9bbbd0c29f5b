"""Unions, expiry, set operations and joins against what they are."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest

from anabranch.operators.tree.changes import Changes
from anabranch.operators.tree.nodes import Expire, Join, JoinKind, Node, SetOperation, Union, Unnest
from anabranch.operators.tree.steps import STEPS, step_of
from anabranch.operators.tree.steps.expire import ExpireStep
from tests.operators.tree.oracle import Condition, answer
from tests.operators.tree.playing import play
from tests.operators.tree.rows import EPOCH, LIST, MICROSECOND, STRUCT, Source, bag, changes_of
from tests.sampling import SEED

TIME = pa.timestamp("us", tz="UTC")
LEFT = pa.schema([("a", pa.int64()), ("b", pa.string()), ("c", pa.float64())])
RIGHT = pa.schema([("d", pa.int64()), ("e", pa.string()), ("f", pa.float64())])


def always(a: object, b: object) -> bool:
    return True


def run(node: Node, schemas: list[pa.Schema], folder: Path, condition: Condition = always, rounds: int = 3) -> None:
    for seed in range(rounds):
        play(node, schemas, lambda bags, at: answer(node, schemas, bags, at, condition), f"{SEED} {seed}", folder)


def test_each_kind_of_node_that_is_here_has_a_step() -> None:
    assert {"join", "aggregate", "union", "set_operation", "expire"} <= set(STEPS)


def test_a_union_has_the_rows_of_all(tmp_path: Path) -> None:
    run(Union((0, 1, 2)), [LEFT, RIGHT, LEFT], tmp_path)


@pytest.mark.parametrize("all_", [False, True])
@pytest.mark.parametrize("operation", ["intersect", "except"])
def test_set_operations(operation: str, all_: bool, tmp_path: Path, hashing: str) -> None:
    node = SetOperation(0, 1, operation, all_)  # type: ignore[arg-type]
    left = pa.schema([("a", pa.float64()), ("b", pa.bool_())])
    run(node, [left, pa.schema([("x", pa.float64()), ("y", pa.bool_())])], tmp_path)


@pytest.mark.parametrize("all_", [False, True])
@pytest.mark.parametrize("operation", ["intersect", "except"])
def test_set_operations_of_arrays_and_structs(operation: str, all_: bool, tmp_path: Path, hashing: str) -> None:
    node = SetOperation(0, 1, operation, all_)  # type: ignore[arg-type]
    run(node, [pa.schema([("a", LIST), ("b", STRUCT)]), pa.schema([("x", LIST), ("y", STRUCT)])], tmp_path)


@pytest.mark.parametrize("place", [None, "at"])
@pytest.mark.parametrize("outer", [False, True])
def test_elements_of_arrays(outer: bool, place: str | None, tmp_path: Path) -> None:
    schema = pa.schema([("a", LIST), ("b", STRUCT)])
    run(Unnest(0, "a", "x", place, outer), [schema], tmp_path, rounds=4)


def test_elements_only_come_where_rows_do() -> None:
    step = step_of(Unnest(0, "a", "x"), [pa.schema([("a", LIST)])], [True])
    assert step.only_comes
    assert step.kept() == {}


# -- expiry ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("after", [0, 3])
def test_rows_expire(after: int, tmp_path: Path) -> None:
    schema = pa.schema([("t", TIME), ("x", pa.string())])
    run(Expire(0, "t", after), [schema], tmp_path, rounds=6)


def test_rows_that_come_too_late_never_come_and_it_is_known_when_the_next_go() -> None:
    schema = pa.schema([("t", TIME), ("x", pa.int64())])
    step = step_of(Expire(0, "t", 5), [schema], [True])
    assert isinstance(step, ExpireStep)
    assert step.due(0) is None
    rows = [((EPOCH + n * MICROSECOND, n), 1) for n in (1, 4, 10)]
    assert len(bag(step.take([changes_of(schema, [*rows, ((None, 0), 1)])], 7))) == 3  # 1 is more than 5 before 7
    assert step.due(7) == 10
    assert len(step.take([Changes.none(schema)], 9)) == 0
    gone = step.take([Changes.none(schema)], 10)
    assert bag(gone) == {rows[1][0]: -1}
    assert step.due(10) == 16
    assert len(step.take([changes_of(schema, [(rows[0][0], -1), (rows[1][0], -1)])], 10)) == 0
    assert bag(step.take([changes_of(schema, [(rows[2][0], -1)])], 11)) == {rows[2][0]: -1}
    assert step.due(11) is None
    assert step.take([Changes.none(schema)], -(2**63)).rows.num_rows == 0


# -- joins -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keys", [(("a", "d"),), (("b", "e"),)], ids=str)
@pytest.mark.parametrize("join", ["inner", "full", "anti", "not_in"])
def test_joins_by_arrays_and_structs(
    join: JoinKind, keys: tuple[tuple[str, str], ...], tmp_path: Path, hashing: str
) -> None:
    left, right = pa.schema([("a", LIST), ("b", STRUCT)]), pa.schema([("d", LIST), ("e", STRUCT), ("f", pa.int32())])
    run(Join(0, 1, join, keys), [left, right], tmp_path, rounds=2)


JOINS: list[JoinKind] = ["inner", "left", "right", "full", "semi", "anti", "not_in"]


def less(a: tuple[object, ...], b: tuple[object, ...]) -> bool | None:
    """The double of the left is less than that of the right; NaN is the largest."""
    x, y = a[2], b[2]
    if x is None or y is None:
        return None
    return x != "NaN" and (y == "NaN" or x < y)  # type: ignore[operator]


def few(schema: pa.Schema, draw: random.Random, only: bool) -> Source:
    return Source(schema, draw, only_come=only)


@pytest.mark.parametrize("keys", [(("a", "d"),), (("c", "f"),), (("a", "d"), ("b", "e")), ()], ids=str)
@pytest.mark.parametrize("join", JOINS)
def test_joins(join: JoinKind, keys: tuple[tuple[str, str], ...], tmp_path: Path, hashing: str) -> None:
    run(Join(0, 1, join, keys), [LEFT, RIGHT], tmp_path, rounds=1)


@pytest.mark.parametrize("keys", [(("a", "d"),), (("a", "d"), ("b", "e")), ()], ids=str)
@pytest.mark.parametrize("join", JOINS)
def test_joins_with_a_condition(join: JoinKind, keys: tuple[tuple[str, str], ...], tmp_path: Path) -> None:
    run(Join(0, 1, join, keys, "c < f"), [LEFT, RIGHT], tmp_path, less, rounds=2)


@pytest.mark.parametrize(("condition", "holds"), [("1 = 1", True), ("1 = 2", False), ("CAST(NULL AS BOOLEAN)", None)])
@pytest.mark.parametrize("join", ["inner", "left", "not_in"])
def test_joins_with_a_condition_about_no_column(
    join: JoinKind, condition: str, holds: bool | None, tmp_path: Path
) -> None:
    run(Join(0, 1, join, (("a", "d"),), condition), [LEFT, RIGHT], tmp_path, lambda a, b: holds, rounds=1)


@pytest.mark.parametrize("join", JOINS)
def test_joins_of_rows_that_only_come(join: JoinKind, tmp_path: Path) -> None:
    node, schemas = Join(0, 1, join, (("a", "d"),)), [LEFT, RIGHT]
    wanted = lambda bags, at: answer(node, schemas, bags, at, always)  # noqa: E731
    step = play(node, schemas, wanted, SEED, tmp_path, only_come=[True, True])
    assert step.only_comes == (join in ("inner", "semi"))


@pytest.mark.parametrize("join", ["inner", "full", "not_in"])
def test_many_pairs_are_looked_at_in_parts(join: JoinKind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anabranch.operators.tree.arrangement.PAIRS", 5)
    run(Join(0, 1, join, (), "c < f"), [LEFT, RIGHT], tmp_path, less)
    run(Join(0, 1, join, (("a", "d"),)), [LEFT, RIGHT], tmp_path)


def test_not_in_with_its_nulls() -> None:
    left, right = pa.schema([("x", pa.int64())]), pa.schema([("y", pa.int64())])
    step = step_of(Join(0, 1, "not_in", (("x", "y"),)), [left, right], [False, False])
    none, null, two = Changes.none(right), changes_of(right, [((None,), 1)]), changes_of(right, [((2,), 1)])
    rows = changes_of(left, [((1,), 1), ((2,), 1), ((None,), 1)])
    assert bag(step.take([rows, none], 0)) == {(1,): 1, (2,): 1, (None,): 1}
    assert bag(step.take([Changes.none(left), two], 0)) == {(2,): -1, (None,): -1}
    assert bag(step.take([Changes.none(left), null], 0)) == {(1,): -1}
    assert bag(step.take([Changes.none(left), null.negated()], 0)) == {(1,): 1}
    assert bag(step.take([Changes.none(left), two.negated()], 0)) == {(2,): 1, (None,): 1}


def test_what_a_semi_join_keeps_of_the_right_is_a_count_for_each_key() -> None:
    step = step_of(Join(0, 1, "semi", (("a", "d"),)), [LEFT, RIGHT], [False, False])
    draw = random.Random(SEED)
    step.take([Changes.none(LEFT), Source(RIGHT, draw).some(1000)], 0)
    assert sum(held.entries for held in step.kept().values()) < 10
    assert "per touched key" in step.why()
