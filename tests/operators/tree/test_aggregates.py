"""Aggregates of rows that come and go, against their definition."""

from __future__ import annotations

import random
from collections import Counter
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from anabranch.errors import QueryError
from anabranch.operators.tree.arrangement import Arrangement, Found
from anabranch.operators.tree.changes import Changes
from anabranch.operators.tree.nodes import Aggregate, Call
from anabranch.operators.tree.steps import step_of
from anabranch.operators.tree.steps.functions import FUNCTIONS
from tests.operators.tree.aggregate_oracle import wanted
from tests.operators.tree.playing import brought_back, play
from tests.operators.tree.rows import Source, bag, changes_of
from tests.sampling import SEED

SCHEMA = pa.schema(
    [
        ("k", pa.string()),
        ("z", pa.float64()),
        ("i", pa.int32()),
        ("d", pa.float64()),
        ("m", pa.decimal128(10, 2)),
        ("s", pa.string()),
        ("t", pa.timestamp("us", tz="UTC")),
        ("b", pa.bool_()),
    ]
)


def calls(*said: tuple[str, str], distinct: bool = False, filter: str | None = None) -> tuple[Call, ...]:
    return tuple(
        Call(f"c{n}", function, tuple(columns.split()), distinct, filter) for n, (function, columns) in enumerate(said)
    )


NUMBERS = ("i", "d", "m")
GROUPS_OF_CALLS = {
    "counts": [("count", ""), ("count", "d"), ("count", "d s"), ("count_if", "b")],
    "sums": [(f, c) for f in ("sum", "avg", "mean") for c in NUMBERS],
    "truths": [(f, "b") for f in ("bool_and", "every", "bool_or", "some", "any")],
    "extremes": [(f, c) for f in ("min", "max") for c in ("i", "d", "m", "s", "t", "b")],
    "by": [("min_by", "s d"), ("max_by", "s d"), ("max_by", "d t"), ("min_by", "m s"), ("any_value", "s")],
    "spread": [(f, "d") for f in ("variance", "var_samp", "var_pop", "stddev", "std", "stddev_pop")]
    + [("variance", "i"), ("stddev", "m")],
    "places": [
        *(("median", c) for c in NUMBERS),
        ("percentile(0.3)", "d"),
        ("percentile_cont(0.9)", "i"),
        ("percentile_disc(0.5)", "s"),
        ("percentile_approx(0.2)", "d"),
        ("approx_median", "i"),
        ("mode", "s"),
        ("mode", "d"),
    ],
    "distinct": [("count_distinct", "d"), ("approx_count_distinct", "s")],
    "in order": [
        ("collect_list", "d"),
        ("collect_list", "m"),
        ("string_agg", "s"),
        ("first", "s"),
        ("last", "i"),
    ],
}


@pytest.mark.parametrize("only_come", [False, True])
@pytest.mark.parametrize("keys", [(), ("k",), ("z", "b")], ids=str)
@pytest.mark.parametrize("which", GROUPS_OF_CALLS)
def test_aggregates(which: str, keys: tuple[str, ...], only_come: bool, tmp_path: Path) -> None:
    node = Aggregate(0, keys, calls(*GROUPS_OF_CALLS[which]))
    for seed in range(1 if only_come else 2):
        play(node, [SCHEMA], wanted(node, SCHEMA), f"{SEED} {seed}", tmp_path, only_come=[only_come])


@pytest.mark.parametrize(("distinct", "filter_"), [(True, None), (False, "b"), (True, "b")])
def test_aggregates_of_some_values(distinct: bool, filter_: str | None, tmp_path: Path, hashing: str) -> None:
    said = [
        ("count", "d"),
        ("sum", "d"),
        ("avg", "i"),
        ("min", "s"),
        ("variance", "d"),
        ("median", "i"),
        ("mode", "s"),
        ("bool_and", "b"),
        ("count_if", "b"),
    ]
    said += [("count", "i s")] if distinct else [("count", ""), ("max_by", "s t")]
    node = Aggregate(0, ("k",), calls(*said, distinct=distinct, filter=filter_))
    play(node, [SCHEMA], wanted(node, SCHEMA), SEED, tmp_path)


@pytest.mark.parametrize("keys", [(), ("k",)], ids=str)
def test_aggregates_of_values_in_an_order(keys: tuple[str, ...], tmp_path: Path, hashing: str) -> None:
    up, down, nulls_last = (False, True), (True, False), (False, False)
    said: list[tuple[str, str, dict[str, object]]] = [
        ("collect_list", "s d", {"order": (down,)}),
        ("collect_list", "d i s", {"order": (up, down)}),
        ("string_agg", "s d t", {"order": (nulls_last, up), "separator": ", "}),
        ("first", "d t", {"order": (up,)}),
        ("last", "d t", {"order": (up,)}),
        ("first", "i d", {"order": (down,), "ignore_nulls": True}),
        ("last", "s b", {"order": (nulls_last,), "ignore_nulls": True}),
    ]
    plain = [
        Call(f"c{n}", function, tuple(columns.split()), filter="b" if n % 3 == 0 else None, options=tuple(more.items()))
        for n, (function, columns, more) in enumerate(said)
    ]
    sets = [
        Call("set", "collect_list", ("d",), distinct=True),
        Call("set_down", "collect_list", ("s", "s"), distinct=True, options=(("order", (down,)),)),
        Call("texts", "string_agg", ("s",), distinct=True, options=(("separator", "/"),)),
    ]
    node = Aggregate(0, keys, (*plain, *sets))
    for seed in range(2):
        play(node, [SCHEMA], wanted(node, SCHEMA), f"{SEED} {seed}", tmp_path)


@pytest.mark.parametrize("only_come", [False, True])
@pytest.mark.parametrize("keys", [("z",), ("k", "m")], ids=str)
def test_without_calls_it_is_distinct(keys: tuple[str, ...], only_come: bool, tmp_path: Path, hashing: str) -> None:
    node = Aggregate(0, keys)
    step = play(node, [SCHEMA], wanted(node, SCHEMA), SEED, tmp_path, only_come=[only_come])
    assert step.only_comes == only_come


def test_every_function_is_tested() -> None:
    said = {function.partition("(")[0] for each in GROUPS_OF_CALLS.values() for function, _ in each}
    assert set(FUNCTIONS) <= said | {"approx_percentile"}  # which is percentile_approx


def test_without_keys_there_is_a_row_over_nothing(tmp_path: Path) -> None:
    def make() -> object:
        return step_of(Aggregate(0, (), calls(("count", ""), ("sum", "i"))), [SCHEMA], [False])

    step = make()
    none = Changes.none(SCHEMA)
    assert bag(step.take([none], 0)) == {(0, None): 1}  # type: ignore[attr-defined]
    assert not bag(step.take([none], 0))  # type: ignore[attr-defined]
    again = brought_back(step, make, tmp_path)  # type: ignore[arg-type]
    assert not bag(again.take([none], 0))


def one(function: str, type_: pa.DataType, values: list[object], weight: int = 1) -> object:
    schema = pa.schema([("x", type_)])
    step = step_of(Aggregate(0, (), (Call("f", function, ("x",)),)), [schema], [False])
    return step.take([changes_of(schema, [((value,), weight) for value in values])], 0).rows.column("f").to_pylist()[0]


def test_a_sum_that_does_not_fit_says_what_to_write() -> None:
    with pytest.raises(QueryError, match=r"SUM_OVERFLOW a sum does not fit BIGINT.*sum\(CAST\(… AS DECIMAL"):
        one("sum", pa.int64(), [2**63 - 1, 1])
    assert one("sum", pa.int64(), [2**63 - 1, 1, -1]) == 2**63 - 1
    nines = Decimal("9" * 36 + ".99")
    with pytest.raises(QueryError, match=r"SUM_OVERFLOW a sum does not fit DECIMAL\(38,2\).*AS DOUBLE"):
        one("sum", pa.decimal128(38, 2), [nines, nines])
    assert one("sum", pa.decimal128(38, 2), [nines, nines, Decimal(f"-{nines}")]) == nines


@pytest.mark.parametrize(
    ("function", "type_", "name"),
    [
        ("sum", pa.string(), "AGGREGATE_TYPE_MISMATCH"),
        ("bool_and", pa.int64(), "AGGREGATE_TYPE_MISMATCH"),
        ("percentile(2)", pa.int64(), "AGGREGATE_PARAMETER"),
        ("string_agg", pa.int64(), "AGGREGATE_TYPE_MISMATCH"),
        ("kurtosis", pa.int64(), "AGGREGATE_NOT_AVAILABLE"),
        ("summ", pa.int64(), "AGGREGATE_NOT_FOUND"),
    ],
)
def test_what_cannot_be_is_said(function: str, type_: pa.DataType, name: str) -> None:
    with pytest.raises(QueryError, match=name):
        one(function, type_, [])


def test_small_numbers_are_still_there_when_a_large_one_has_gone() -> None:
    schema = pa.schema([("x", pa.float64())])
    step = step_of(Aggregate(0, (), (Call("f", "sum", ("x",)), Call("g", "variance", ("x",)))), [schema], [False])
    step.take([changes_of(schema, [((1e300,), 1), ((1e-300,), 1), ((3e-300,), 1)])], 0)
    change = step.take([changes_of(schema, [((1e300,), -1)])], 0)
    assert change.rows.column("f").to_pylist()[1] == 4e-300


def test_sums_and_counts_keep_no_rows_nor_do_extremes_where_rows_only_come() -> None:
    draw = random.Random(SEED)
    changes = Source(SCHEMA, draw, only_come=True).some(2000)
    plain_calls = calls(("sum", "d"), ("count", ""), ("variance", "d"), ("avg", "m"))
    extremes = calls(("min", "d"), ("max_by", "s d"))
    for said, only_come, most in ((plain_calls, False, 6), (extremes, True, 6), (extremes, False, 2000)):
        step = step_of(Aggregate(0, ("k",), said), [SCHEMA], [only_come])
        step.take([changes], 0)
        kept = sum(held.entries for held in step.kept().values())
        assert kept <= most
        assert most == 6 or kept > 20


def test_another_minimum_is_looked_for_only_where_it_has_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = pa.schema([("k", pa.int64()), ("x", pa.int64())])
    step = step_of(Aggregate(0, ("k",), (Call("f", "min", ("x",)),)), [schema], [False])
    rows = pa.table({"k": np.arange(1000) % 3, "x": np.arange(1000)})
    step.take([Changes.of(rows)], 0)
    looked: list[int] = []
    found = Arrangement.edge_of

    def counting(arrangement: Arrangement, keys: list[pa.Array], count: int, *, last: bool) -> Found:
        looked.append(count)
        return found(arrangement, keys, count, last=last)

    monkeypatch.setattr(Arrangement, "edge_of", counting)
    step.take([Changes.of(rows.slice(3), -1)], 0)
    assert not looked
    step.take([Changes.of(rows.slice(3))], 0)
    change = step.take([Changes.of(rows.slice(1, 1), -1)], 0)
    assert looked == [1]
    assert bag(change) == Counter({(1, 1): -1, (1, 4): 1})


@pytest.mark.parametrize("function", ["min", "max", "mode", "median", "percentile_disc(0)"])
def test_of_two_zeros_it_is_the_same_whichever_came(function: str) -> None:
    schema = pa.schema([("x", pa.float64())])
    step = step_of(Aggregate(0, (), (Call("f", function, ("x",)),)), [schema], [False])
    rows = [((-0.0,), 1), ((5.0,), 1), ((-5.0,), 1)] if function == "mode" else [((-0.0,), 1)]
    change = step.take([changes_of(schema, [*rows, ((-0.0,), 1), ((7.0,), 2), ((-7.0,), 2)])], 0)
    more = step.take([changes_of(schema, [((7.0,), -2), ((-7.0,), -2)])], 0)
    said = [*change.rows.column("f").to_pylist(), *more.rows.column("f").to_pylist()]
    assert str(said[-1]) == "0.0"
