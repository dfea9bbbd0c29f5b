"""Merges equal the naive oracle, micro-batch by micro-batch, however the streams come in."""

from __future__ import annotations

import contextlib
import datetime as dt
import itertools
import random
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.errors import AnabranchError
from anabranch.operators.base import Inputs, Offset
from anabranch.operators.merge import operator
from anabranch.operators.merge.operator import Merge
from anabranch.schema import TIME_TYPE, StreamSchema
from anabranch.testing import MemoryLog, OperatorHarness
from anabranch.testing.harness import same as same_rows
from tests.operators.join_oracle import Condition, told
from tests.operators.join_rows import EPOCH, SCHEMA, Row, at_most, minus, rows_of, table_of
from tests.operators.join_rows import equal as equals
from tests.operators.merge_cases import (
    Answer,
    Case,
    Join,
    Key,
    Value,
    answer,
    check,
    column,
    equal,
    keyed,
    same,
    some_streams,
)
from tests.operators.merge_oracle import MAX_TIME, Policy, Record, group_rounds, kappa, nearest, shortfall
from tests.sampling import examples, sampled

NAN, INF = float("nan"), float("inf")
POLICIES: list[Policy] = ["first", "nearest", "all"]
SAME_COLUMN: dict[str, list[float]] = {
    "i": [0, 1, 1, 2, 5],
    "l": [0, 1, 2],
    "x": [0, 0.1, 0.25, 0.3, 1, 2.5],
    "f": [0, 0.25, 0.3, 1],
    "d": [0, 0.1, 0.25, 1],
    "at": [0, 250_000, 1_000_000, 2_500_000],
    "day": [0, 1, 2],
    "ts": [0, 1, 5, 30],
}
"""Columns of each type that a key may have, with tolerances."""


def computed(left: str, right: str, tolerance: float) -> list[Key]:
    """Keys of two types, and such as are computed first; SQL and Python side by side."""

    def value(alias: str, sql: str, of: Callable[[Row], Any]) -> Value:
        return Value(sql.replace("{}", alias), lambda rows: of(rows[alias]))

    def plus(row: Row, name: str, more: Any) -> Any:
        return None if row[name] is None else row[name] + more

    return [
        Key(column(left, "i"), column(right, "x"), tolerance),
        Key(column(left, "d"), column(right, "c"), tolerance),
        Key(column(left, "d"), column(right, "l"), tolerance),
        Key(column(left, "x"), column(right, "f"), tolerance),
        Key(column(left, "h"), column(right, "c"), tolerance),
        Key(value(left, "`{}.i` + 1", lambda row: plus(row, "i", 1)), column(right, "i"), tolerance),
        Key(column(left, "x"), value(right, "`{}.x` - 0.5D", lambda row: plus(row, "x", -0.5)), tolerance),
    ]


def some_keys(left: str, right: str, count: int, chance: random.Random) -> tuple[Key, ...]:
    keys = []
    for _ in range(count):
        if chance.random() < 0.25:
            keys.append(chance.choice(computed(left, right, chance.choice([0, 0.25, 0.5, 1, 2]))))
        else:
            # A key that rises with time comes first more often than not, as merges want it.
            rising = ["i", "x", "at", "ts"]
            name = chance.choice(list(SAME_COLUMN) + (3 * rising if not keys else []))
            keys.append(same(name, chance.choice(SAME_COLUMN[name]), left, right))
    return tuple(keys)


def some_by(left: str, right: str, chance: random.Random) -> tuple[tuple[Value, Value], ...]:
    pairs = [equal("s", left, right), equal("h", left, right), (column(left, "h"), column(right, "l"))]
    pairs += [equal("x", left, right), (column(left, "d"), column(right, "c")), equal("ok", left, right)]
    return tuple(chance.sample(pairs, chance.choice([1, 1, 1, 2])))


def some_where(chance: random.Random) -> tuple[Condition, ...]:
    """Conditions over what has merged; where a side has no partner, its columns are NULL."""
    conditions = [
        Condition("`A.l` <= `B.l`", lambda rows: at_most(rows["A"]["l"], rows["B"]["l"])),
        Condition("`A.x` - `B.x` >= 0D", lambda rows: _at_least(minus(rows["A"]["x"], rows["B"]["x"]))),
        Condition("`B.n` IS NULL OR `A.ok`", lambda rows: rows["B"]["n"] is None or rows["A"]["ok"] is True),
        Condition("`A.n` % 3 <> 1", lambda rows: None if rows["A"]["n"] is None else rows["A"]["n"] % 3 != 1),
        Condition("false", lambda rows: False),
    ]
    return tuple(chance.sample(conditions, chance.choice([1, 1, 2])))


def _at_least(value: Any) -> bool | None:
    # Spark's NaN is above all numbers.
    return None if value is None else bool(value >= 0 or value != value)


def some_case(count: int, policy: Any, chance: random.Random, **more: Any) -> Case:
    """A merge of `count` streams, with windows so small that they overflow."""
    aliases = "ABCD"
    window = chance.choice([1, 2, 3, 5, 8, 8, 20, 100])
    lefts = [aliases[chance.randrange(place + 1)] for place in range(count - 1)]
    rights = aliases[1:count]
    by = [some_by(a, b, chance) if chance.random() < 0.35 else () for a, b in zip(lefts, rights, strict=True)]
    joins: list[Join] = [chance.choice(["inner", "left"]) for _ in rights]
    joins[-1] = chance.choice(["inner", "inner", "left", "full", "anti"])
    case = Case(
        keys=tuple(some_keys(a, b, chance.choice([1, 1, 2, 3]), chance) for a, b in zip(lefts, rights, strict=True)),
        by=tuple(by),
        joins=tuple(joins),
        where=some_where(chance) if joins[-1] != "anti" and chance.random() < 0.25 else (),
        policy=policy,
        window=window,
        step=chance.randint(1, window),
        every=chance.choice([None, None, 1, 3, 10, 50, 1_000_000]),
        streams="stuv"[:count],
    )
    return replace(case, **more)


@contextlib.contextmanager
def all_sizes(chance: random.Random) -> Iterator[None]:
    """Now and then what is made for millions of rows is made for a handful: tasks and batches."""
    with pytest.MonkeyPatch.context() as patch:
        if chance.random() < 0.75:
            patch.setattr(operator, "ROWS_PER_TASK", chance.choice([1, 10]))
            patch.setattr(operator, "_ROWS_PER_BATCH", chance.choice([1, 7, 1000]))
        yield


# -- against the oracle ------------------------------------------------------------------------------


@pytest.mark.slow
@examples(100)
@given(policy=st.sampled_from(POLICIES), seed=st.integers(0, 2**32))
def test_two_streams(policy: str, seed: int) -> None:
    chance = random.Random(seed)
    case = some_case(2, policy, chance)
    streams = some_streams(case.streams, chance, 40)
    with all_sizes(chance):
        check(case, streams, chance)


@pytest.mark.slow
@examples(40)
@given(policy=st.sampled_from(POLICIES), count=st.sampled_from([3, 3, 4]), seed=st.integers(0, 2**32))
def test_several_streams(policy: str, count: int, seed: int) -> None:
    chance = random.Random(seed)
    case = some_case(count, policy, chance)
    streams = some_streams(case.streams, chance, 24)
    with all_sizes(chance):
        check(case, streams, chance)


@pytest.mark.slow
@examples(25)
@given(
    policy=st.sampled_from(POLICIES), streams=st.sampled_from(["ss", "ss", "sts", "sss"]), seed=st.integers(0, 2**32)
)
def test_a_stream_merged_with_itself(policy: str, streams: str, seed: int) -> None:
    chance = random.Random(seed)
    case = some_case(len(streams), policy, chance, streams=streams)
    with all_sizes(chance):
        check(case, some_streams(streams, chance, 24), chance)


@pytest.mark.slow
@examples(100)
@given(policy=st.sampled_from(POLICIES), seed=st.integers(0, 2**32))
def test_two_streams_by_rows(policy: str, seed: int) -> None:
    chance = random.Random(seed)
    case = some_case(2, policy, chance, pace="rows")
    streams = some_streams(case.streams, chance, 40)
    with all_sizes(chance):
        check(case, streams, chance)


@pytest.mark.slow
@examples(40)
@given(
    policy=st.sampled_from(POLICIES), names=st.sampled_from(["stu", "stuv", "ss", "sts"]), seed=st.integers(0, 2**32)
)
def test_several_streams_by_rows(policy: str, names: str, seed: int) -> None:
    chance = random.Random(seed)
    case = some_case(len(names), policy, chance, streams=names, pace="rows")
    with all_sizes(chance):
        check(case, some_streams(names, chance, 24), chance)


@pytest.mark.slow
@examples(60)
@given(
    policy=st.sampled_from(POLICIES),
    pace=st.sampled_from(["time", "rows"]),
    names=st.sampled_from(["st", "st", "stu"]),
    seed=st.integers(0, 2**32),
)
def test_records_that_wait_no_longer_than_they_may(policy: str, pace: Any, names: str, seed: int) -> None:
    chance = random.Random(seed)
    case = some_case(
        len(names), policy, chance, streams=names, pace=pace, wait=chance.choice([1, 5, 20, 1_000]),
        every=chance.choice([1, 3, 10, 50]),
    )  # fmt: skip
    with all_sizes(chance):
        check(case, some_streams(names, chance, 30), chance)


@pytest.mark.slow
@examples(25)
@given(policy=st.sampled_from(POLICIES), seed=st.integers(0, 2**32))
def test_windows_that_grow(policy: str, seed: int) -> None:
    chance = random.Random(seed)
    window = chance.choice([1, 2, 4])
    case = some_case(
        2, policy, chance, delta=chance.choice([0.01, 0.2, 0.6]), over=chance.choice([1, 2, 5]), window=window,
        step=chance.randint(1, window),
    )  # fmt: skip
    with all_sizes(chance):
        check(case, some_streams(case.streams, chance, 60), chance)


@pytest.mark.parametrize("seed", range(4))
def test_streams_in_real_logs(seed: int) -> None:
    chance = random.Random(seed)
    case = some_case(2 + seed % 2, POLICIES[seed % 3], chance, joins=("left",) * (1 + seed % 2), where=())
    with tempfile.TemporaryDirectory() as directory:
        check(case, some_streams(case.streams, chance, 30), chance, directory=directory)


@pytest.mark.slow
@pytest.mark.parametrize(("policy", "grouped"), sampled(itertools.product(POLICIES, [False, True]), 2, "cut"))
def test_the_answer_is_the_same_however_cut(policy: Any, grouped: bool) -> None:
    chance = random.Random(8)
    case = Case(
        keys=((same("i", 1), same("f", 0.5)), (same("i", 2, "B", "C"),)),
        by=((equal("s"),) if grouped else (), ()),
        joins=("left", "full"), policy=policy, window=12, step=5, every=20, streams="stu",
    )  # fmt: skip
    streams = {
        name: rows_of(
            sorted(begin + chance.randrange(150) for _ in range(90)),
            i=[n + chance.randrange(-3, 4) for n in range(90)],
            f=[chance.randrange(5) / 4 for _ in range(90)],
            s=[chance.choice("ab") for _ in range(90)],
        )
        for name, begin in (("s", 1_000), ("t", 1_020), ("u", 990))
    }

    def filled() -> OperatorHarness:
        harness = case.harness()
        for name, rows in streams.items():
            harness.push(name, table_of(rows))
            harness.advance(name, MAX_TIME)
        return harness

    wanted = filled().step()
    assert told(wanted) == answer(case, streams)
    # A without B has no key for C, so it never comes with one.
    kinds = {tuple(number is None for number in row[:3]) for row in told(wanted)}
    assert kinds == {(False, False, False), (False, False, True), (True, True, False), (False, True, True)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(operator, "ROWS_PER_TASK", 1)
        for size in (1, 3, 17):
            for parallelism in (1, 3):
                assert same_rows(filled().run(parallelism, rows=size), wanted)


def found_by(run: Callable[[], pa.Table]) -> list[tuple[int | None, ...]]:
    """What a run answers, row by row; a side without a partner is None."""
    return [*told(run())]


# -- keys --------------------------------------------------------------------------------------------


DAY = dt.date(2026, 1, 1)
LATE = dt.datetime(9999, 1, 1, 0, 0, 0, 1, tzinfo=dt.UTC)
TYPES: dict[str, tuple[str, list[Any], list[Any], float]] = {
    "int": ("i", [1, 5, 9, None], [2, 7, 9, None], 1),
    "smallint": ("h", [1, 5, 9, None], [2, 7, 9, None], 1),
    "bigint": ("l", [2**53 - 1, -(2**53) + 1, 9, None], [2**53 - 2, -(2**53) + 3, 9, None], 1),
    "largest bigint": ("l", [2**63 - 1, -(2**63), 2**53 + 1, None], [2**63 - 2, -(2**63) + 2, 2**53 + 1, None], 1),
    "double": ("x", [1.0, 5.0, 9.0, NAN], [1.25, 5.5, 9.0, NAN], 0.25),
    "infinity": ("x", [1.0, 5.0, 9.0, INF], [1.25, 5.5, 9.0, INF], 0.25),
    "float": ("f", [1.0, 5.0, 9.0, NAN], [1.25, 5.5, 9.0, INF], 0.25),
    "decimal": (
        "d",
        [Decimal("1.10"), Decimal("5.00"), Decimal("9.99"), None],
        [Decimal("1.35"), Decimal("5.26"), Decimal("9.99"), None],
        0.25,
    ),
    "timestamp": (
        "at",
        [EPOCH, EPOCH + dt.timedelta(hours=1), EPOCH + dt.timedelta(days=9), None],
        [EPOCH + dt.timedelta(seconds=1), EPOCH + dt.timedelta(hours=2), EPOCH + dt.timedelta(days=9), None],
        1_000_000,
    ),
    "timestamp of a far year": (
        "at",
        [LATE, LATE + dt.timedelta(hours=1), LATE + dt.timedelta(days=9), None],
        [LATE + dt.timedelta(microseconds=1), LATE + dt.timedelta(hours=2), LATE + dt.timedelta(days=9), None],
        1,
    ),
    "date": (
        "day",
        [DAY, DAY + dt.timedelta(days=5), DAY + dt.timedelta(days=9), None],
        [DAY - dt.timedelta(days=1), DAY + dt.timedelta(days=7), DAY + dt.timedelta(days=9), None],
        1,
    ),
}


@pytest.mark.parametrize("name", TYPES)
def test_keys_of_every_type(name: str) -> None:
    """The first pair is just within tolerance, the second just beyond, the third equal; the last keys are none."""
    of, a, b, tolerance = TYPES[name]
    streams = {"s": rows_of(range(4), **{of: a}), "t": rows_of(range(4), **{of: b})}
    for policy in POLICIES:
        case = Case(keys=((same(of, tolerance),),), joins=("full",), policy=policy)
        found = told(check(case, streams, random.Random(1)).answers())
        assert sorted(row[:2] for row in found if None not in row) == [(0, 0), (2, 2)]
        assert len(found) == 6


def test_zero_and_minus_zero_are_one_key() -> None:
    streams = {"s": rows_of([1, 2], x=[-0.0, 1.0]), "t": rows_of([1, 2], x=[0.0, 1.0])}
    found = told(check(Case(keys=((same("x", 0),),)), streams, random.Random(1)).answers())
    assert [row[:2] for row in found] == [(0, 0), (1, 1)]


def test_no_pair_is_missed_for_lack_of_order_in_later_keys() -> None:
    """In order of (i, f) the partner stands far from where the first key alone would look."""
    count = 60
    a = rows_of(range(count), i=[n // 20 for n in range(count)], f=[float(n % 20) for n in range(count)])
    b = rows_of(range(count), i=[n // 20 for n in range(count)], f=[float(19 - n % 20) for n in range(count)])
    for tolerance in (0, 1):
        case = Case(keys=((same("i", tolerance), same("f", 0)),), policy="all", window=count, step=count)
        found = {row[:2] for row in told(check(case, {"s": a, "t": b}, random.Random(1)).answers())}
        assert found == {
            (n, m)
            for n in range(count)
            for m in range(count)
            if abs(a[n]["i"] - b[m]["i"]) <= tolerance and a[n]["f"] == b[m]["f"]
        }


def test_a_tolerance_far_beyond_all_keys() -> None:
    streams = {name: rows_of(range(12), x=[float(n * n) for n in range(12)]) for name in "st"}
    counts: dict[Policy, int] = {"first": 1, "nearest": 12, "all": 144}
    for policy, pairs in counts.items():
        case = Case(keys=((same("x", 1e300),),), policy=policy, window=12, step=12)
        assert check(case, streams, random.Random(1)).answers().num_rows == pairs


# -- groups ------------------------------------------------------------------------------------------


def test_only_equal_values_are_merged() -> None:
    streams = {
        "s": rows_of(range(6), i=[1, 1, 2, 2, 3, 3], s=["a", "b", "a", None, "b", "a"]),
        "t": rows_of(range(6), i=[1, 1, 2, 2, 3, 3], s=["b", "a", None, "a", "a", "é"]),
    }
    case = Case(keys=((same("i", 0),),), by=((equal("s"),),), joins=("full",))
    found = told(check(case, streams, random.Random(1)).answers())
    assert sorted(row[:2] for row in found if None not in row) == [(0, 1), (1, 0), (2, 3), (5, 4)]
    assert sorted(row[0] for row in found if row[1] is None) == [3, 4]
    assert sorted(row[1] for row in found if row[0] is None) == [2, 5]


@pytest.mark.slow
def test_every_value_has_a_window_of_its_own() -> None:
    """One value has many records between two of another, and its window does not push them out."""
    count = 160
    groups = ["rare" if n % 40 == 0 else "often" for n in range(count)]
    a = rows_of(range(count), i=list(range(count)), s=groups)
    b = rows_of(range(count), i=[n if s == "rare" else -n - 1 for n, s in enumerate(groups)], s=groups)
    late = rows_of(range(count), i=[row["i"] for row in b[60:] + b[:60]], s=[r["s"] for r in b[60:] + b[:60]])
    case = Case(keys=((same("i", 0),),), by=((equal("s"),),), window=5, step=1)
    assert check(case, {"s": a, "t": late}, random.Random(1)).answers().num_rows == 4
    alone = replace(case, by=((),))
    assert check(alone, {"s": a, "t": late}, random.Random(1)).answers().num_rows < 4


def test_groups_of_two_values_and_of_two_types() -> None:
    streams = {
        "s": rows_of(range(4), i=1, h=[1, 1, 2, 2], s=["a", "b", "a", "b"]),
        "t": rows_of(range(4), i=1, l=[2, 2, 1, 1], s=["a", "b", "b", "a"]),
    }
    case = Case(keys=((same("i", 0),),), by=((equal("s"), (column("A", "h"), column("B", "l"))),))
    found = told(check(case, streams, random.Random(1)).answers())
    assert sorted(row[:2] for row in found) == [(0, 3), (1, 2), (2, 0), (3, 1)]


def test_nan_is_one_group_and_so_are_the_zeros() -> None:
    x = [NAN, 0.0, 1.0]
    streams = {"s": rows_of(range(3), i=1, x=x), "t": rows_of(range(3), i=1, x=[1.0, NAN, -0.0])}
    found = told(check(Case(keys=((same("i", 0),),), by=((equal("x"),),)), streams, random.Random(1)).answers())
    assert sorted(row[:2] for row in found) == [(0, 1), (1, 2), (2, 0)]


# -- policies ----------------------------------------------------------------------------------------


def pairs_of(case: Case, a: Sequence[float], b: Sequence[float]) -> list[tuple[Any, Any]]:
    """Keys of the pairs that a merge of x finds, with records that come one a microsecond."""
    streams = {"s": rows_of(range(len(a)), x=list(a)), "t": rows_of(range(len(b)), x=list(b))}
    found = told(check(case, streams, random.Random(1)).answers())
    return [(None if n is None else a[n], None if m is None else b[m]) for n, m, _ in found]


def test_first_takes_the_first_and_passes_over_its_neighbours() -> None:
    case = Case(keys=((same("x", 1),),), window=10, step=10)
    assert pairs_of(case, [1, 2, 3], [2, 2.5, 4]) == [(1, 2), (3, 4)]


def test_nearest_takes_the_nearest_and_then_the_nearest_of_the_rest() -> None:
    case = Case(keys=((same("x", 1),),), policy="nearest", window=10, step=10)
    assert pairs_of(case, [1, 2, 3], [2, 2.5, 4]) == [(2, 2), (3, 2.5)]
    # 1 is as far from 0.5 as from 1.5: who came first decides.
    assert pairs_of(case, [1, 1.5, 9], [1.5, 0.5, 9]) == [(1, 0.5), (1.5, 1.5), (9, 9)]
    assert pairs_of(case, [1, 9], [1.5, 0.5, 9]) == [(1, 1.5), (9, 9)]
    assert pairs_of(case, [1, 9], [0.5, 1.5, 9]) == [(1, 0.5), (9, 9)]


def test_nearest_waits_for_a_nearer_one() -> None:
    """3.9 would do for 3, and 3.1 comes a round later."""
    case = Case(keys=((same("x", 1),),), policy="nearest", window=8, step=1, every=2)
    assert (3, 3.1) in pairs_of(case, [1, 2, 3, 3.2, 5], [1, 2, 3.9, 3.1, 5])
    eager = replace(case, policy="first")
    assert (3, 3.9) in pairs_of(eager, [1, 2, 3, 3.2, 5], [1, 2, 3.9, 3.1, 5])


def test_nearest_leaves_nobody_for_one_that_is_further_away() -> None:
    """10.5 is nearer to 11.0 than to 9.75, though 11.0 is near the front; 11.5 waits: 11.75 may find a nearer one."""
    case = Case(keys=((same("x", 0.75),),), policy="nearest", joins=("left",), window=100, step=100, every=3)
    a, b = [9.75, 11.0, 11.5], [10.5, 11.75]
    assert pairs_of(case, a, b) == [(11.0, 10.5), (11.5, 11.75), (9.75, None)]


@pytest.mark.slow
@examples(150)
@given(seed=st.integers(0, 2**32))
def test_nearest_in_order_is_the_closest_pair_first_of_all(seed: int) -> None:
    """Of streams in order of their first key nothing is decided too early: round by round is like all at once."""
    chance = random.Random(seed)
    steps = chance.choice([[0.25, 0.5, 1.0], [0.0, 0.25], [0.5], [0.0, 0.75, 3.0]])
    streams = {}
    for name in "st":
        x, values = chance.choice([0.0, 0.5]), []
        for _ in range(chance.randint(0, 30)):
            values.append(x)
            x += chance.choice(steps)
        times = sorted(chance.randrange(40) for _ in values)
        streams[name] = rows_of(times, x=values, l=[chance.randrange(4) for _ in values])
    keys: tuple[Key, ...] = (same("x", chance.choice([0, 0.25, 0.75, 2])),)
    if chance.random() < 0.4:
        keys += (same("l", chance.choice([0, 1, 3])),)
    case = Case(keys=(keys,), policy="nearest", window=1000, step=1000, every=chance.choice([1, 3, 10, None]))
    found = [row[:2] for row in told(check(case, streams, chance).answers())]
    a, b, tolerances = keyed(case, streams)
    closest = [(one.number, other.number) for one, other in nearest(a, b, tolerances, ended=True)]
    assert sorted(found) == sorted(closest)


def test_all_gives_every_pair_once() -> None:
    case = Case(keys=((same("x", 1),),), policy="all", window=6, step=2, every=2)
    a, b = [1, 1, 2, 3, 5, 5], [1, 2, 2, 3, 5, 6]
    found = pairs_of(case, a, b)
    assert sorted(found) == sorted((x, y) for x in a for y in b if abs(x - y) <= 1)


# -- those that merge with none ----------------------------------------------------------------------


def test_left_full_and_anti_tell_who_had_no_partner() -> None:
    a, b = [1, 4, 6, 8, NAN], [1, 5, 6, 9, INF]
    case = Case(keys=((same("x", 0),),), window=2, step=1, every=2)
    merged = {(1, 1), (6, 6)}
    nobody: set[float] = set()
    alone: dict[Join, tuple[set[float], set[float]]] = {
        "inner": (nobody, nobody),
        "left": ({4, 8}, nobody),
        "full": ({4, 8}, {5, 9, INF}),
    }
    for join, (left, right) in alone.items():
        found = pairs_of(replace(case, joins=(join,)), a, b)
        assert {pair for pair in found if None not in pair} == merged
        assert {x for x, y in found if y is None and x == x} == left
        assert {y for x, y in found if x is None} == right
    anti = replace(case, joins=("anti",))
    streams = {"s": rows_of(range(5), x=a), "t": rows_of(range(5), x=b)}
    assert sorted(row[0] for row in told(check(anti, streams, random.Random(1)).answers())) == [1, 3, 4]


@pytest.mark.parametrize("policy", POLICIES)
def test_every_record_of_a_full_merge_is_told(policy: Any) -> None:
    chance = random.Random(3)
    for grouped in (False, True):
        case = Case(
            keys=((same("i", 1),),), by=((equal("s"),) if grouped else (),), joins=("full",), policy=policy, window=4,
            step=2, every=7,
        )  # fmt: skip
        streams = some_streams("st", chance, 50)
        found = told(check(case, streams, chance).answers())
        for place, name in enumerate("st"):
            numbers = sorted(row[place] for row in found if row[place] is not None)
            assert sorted(set(numbers)) == list(range(len(streams[name])))
            if policy != "all":
                assert len(numbers) == len(set(numbers))


# -- time --------------------------------------------------------------------------------------------


def test_a_round_is_due_even_if_only_one_stream_has_rows() -> None:
    case = Case(keys=((same("i", 0),),), joins=("left",), window=3, step=3, every=10)
    harness = case.harness()
    harness.push("s", table_of(rows_of([1, 2, 3, 4, 12], i=[1, 2, 3, 4, 5])))
    harness.advance("s", 30)
    assert harness.step().num_rows == 0, "nothing is known of the other stream"
    harness.advance("t", 9)
    assert harness.step().num_rows == 0, "the step was full at 3, and no record had to leave"
    harness.advance("t", 30)
    assert found_by(harness.step) == [(0, None, 10), (1, None, 20)]


def test_a_heartbeat_lets_a_round_go() -> None:
    case = Case(keys=((same("i", 0),),), window=100, step=10, every=10)
    harness = case.harness()
    for name in "st":
        harness.push(name, table_of(rows_of([1, 5], i=[1, 5])))
    assert harness.step().num_rows == 0
    harness.advance("s", 10)
    assert harness.step().num_rows == 0
    harness.advance("t", 10)
    assert told(harness.step()) == [(0, 0, 10), (1, 1, 10)]
    harness.replay()


def test_rows_of_the_time_that_is_reached_wait() -> None:
    case = Case(keys=((same("i", 0),),), window=1, step=1)
    harness = case.harness()
    for name in "st":
        harness.push(name, table_of(rows_of([5], i=1)))
    assert harness.step().num_rows == 0
    for name in "st":
        harness.advance(name, 6)
    assert told(harness.step()) == [(0, 0, 5)]


def test_the_stream_that_is_ahead_waits_for_the_other() -> None:
    """Reading goes by time: a fast stream does not push the partners of a slow one out of the window."""
    a = rows_of(range(300), i=list(range(300)))
    b = rows_of(range(0, 300, 10), i=list(range(0, 300, 10)))
    case = Case(keys=((same("i", 0),),), window=20, step=5)
    assert check(case, {"s": a, "t": b}, random.Random(1)).answers().num_rows == 30


# -- completeness ------------------------------------------------------------------------------------


def finished(case: Case, streams: dict[str, list[Row]], end: int = MAX_TIME) -> dict[str, Any]:
    harness = case.harness()
    for name, rows in streams.items():
        harness.push(name, table_of(rows))
        harness.advance(name, end)
    harness.run(rows=50)
    said: dict[str, Any] = harness.reported("merge")
    return said


@pytest.mark.parametrize("policy", POLICIES)
def test_the_report_counts_what_the_oracle_counts(policy: Any) -> None:
    chance = random.Random(5)
    i = {name: [n + chance.choice([0, 0, 0, 40]) for n in range(300)] for name in "st"}
    streams = {name: rows_of(range(300), i=i[name]) for name in "st"}
    case = Case(keys=((same("i", 0),),), policy=policy, window=16, step=8, over=5)
    report = finished(case, streams, end=300)
    a, b = ([Record(row["n"], row["t"], (float(row["i"]),)) for row in streams[name]] for name in "st")
    rounds = group_rounds((), a, b, case.options(0), 300)
    counts = [done.counts for done in rounds]
    assert report["rounds"] == len(rounds)
    assert report["merged"] == sum(count[0] for count in counts)
    assert report["dropped"] == {"A": sum(c[1] for c in counts), "B": sum(c[2] for c in counts)}
    assert report["kappa"] == pytest.approx(kappa(*counts[-1]))
    assert report["delta"] == pytest.approx(shortfall(counts[-5:]))
    assert (report["window"], report["step"]) == (16, 8)
    assert report["merged"] > 50
    assert min(report["dropped"].values()) > 20


@pytest.mark.slow
def test_unsorted_streams_are_merged_and_the_completeness_falls() -> None:
    chance = random.Random(6)
    keys = list(range(1_000))
    reports = []
    for far in (0, 20, 1_000):
        moved = [sorted(keys, key=lambda k: k + chance.uniform(0, far)) for _ in "st"]
        streams = {name: rows_of(keys, i=order) for name, order in zip("st", moved, strict=True)}
        reports.append(finished(Case(keys=((same("i", 0),),), window=50, step=10), streams))
    merged = [report["merged"] for report in reports]
    assert merged[0] == 1_000
    assert merged[0] >= merged[1] > merged[2] > 0
    deltas = [report["delta"] for report in reports]
    assert deltas[0] == 0
    assert deltas[1] <= deltas[2]
    assert deltas[2] > 0.3
    # What a window without end would have found is estimated on a sample.
    assert all(0.8 <= report["kappa_max"] <= 1 for report in reports)


def test_kappa_max_tells_what_no_window_could_merge() -> None:
    """Half of the records have no partner anywhere."""
    keys = list(range(2_000))
    other = [k if k % 2 else k + 1_000_000 for k in keys]
    streams = {"s": rows_of(keys, i=keys), "t": rows_of(keys, i=other)}
    report = finished(Case(keys=((same("i", 0),),), window=50, step=10), streams)
    assert report["merged"] == 1_000
    assert report["kappa_max"] == pytest.approx(0.5, abs=0.15)


@pytest.mark.slow
def test_a_promise_that_cannot_be_kept_is_told() -> None:
    chance = random.Random(7)
    keys = list(range(1_500))
    moved = [sorted(keys, key=lambda k: k + chance.uniform(0, 1_000)) for _ in "st"]
    streams = {name: rows_of(keys, i=order) for name, order in zip("st", moved, strict=True)}
    case = Case(keys=((same("i", 0),),), window=8, step=2, delta=0.01, over=3)
    kept = finished(case, streams)
    assert kept["window"] > 8
    broken = finished(replace(case, memory=2_000), streams)
    assert broken["promise"] == "broken"
    assert broken["window"] < kept["window"]
    assert finished(replace(case, delta=None), streams).get("promise") is None


# -- columns and names -------------------------------------------------------------------------------


def test_columns_are_computed_from_all_sources_and_the_time() -> None:
    merge = Merge(
        sources=(("left one", "s"), ("r", "t")), keys=((("`left one.i` + 1", "`r.l`", 0.0),),), by=((),),
        joins=("full",), conditions=("coalesce(`left one.i`, 0) <> 9",),
        columns=(
            ("sum", "`left one.i` + `r.l`"), ("both", "`left one.s` || `r.s`"), ("one", "1"), ("at", "_time"),
            ("late", "_time > `r.ts`"),
        ),
        time="at", every=10,
    )  # fmt: skip
    harness = OperatorHarness(merge, {"s": SCHEMA, "t": SCHEMA})
    harness.push("s", table_of(rows_of([1, 2, 3], i=[3, 9, 5], s=["a", "b", None])))
    harness.push("t", table_of(rows_of([1, 1, 5], l=[4, 6, 50], s="z")))
    for name in "st":
        harness.advance(name, MAX_TIME)
    found = harness.run()
    assert found.schema == pa.schema(
        [("sum", pa.int64()), ("both", pa.string()), ("one", pa.int32()), ("at", TIME_TYPE), ("late", pa.bool_())]
    )
    columns = [found.column(name).to_pylist() for name in ("sum", "both", "one", "late")]
    assert list(zip(*columns, strict=True)) == [(7, "az", 1, True), (11, None, 1, True), (None, None, 1, True)]
    assert found.column("at").cast(pa.int64()).to_pylist() == [10, 10, 10]


def test_names_with_dots_quotes_and_blanks() -> None:
    schema = StreamSchema.of({"a.b": "INT", "it's `it`": "INT", "n": "INT", "when": "TIMESTAMP"}, time="when")
    merge = Merge(
        sources=(("x y", "one stream"), ("z", "other.stream")), keys=((("`x y.a.b`", "`z.it's ``it```", 0.0),),),
        by=((("`x y.n`", "`z.n`"),),), joins=("inner",), conditions=(), columns=(("n", "`z.n`"), ("_time", "_time")),
        time="_time",
    )  # fmt: skip
    harness = OperatorHarness(merge, {"one stream": schema, "other.stream": schema})
    rows = [{"a.b": n, "it's `it`": n, "n": n % 2, "when": f"1970-01-01 00:00:00.00000{n}"} for n in range(8)]
    for name in ("one stream", "other.stream"):
        harness.push(name, rows)
        harness.advance(name, MAX_TIME)
    harness.step(rows=3)
    harness.restart()
    harness.run()
    assert sorted(harness.answers().column("n").to_pylist()) == [0, 0, 0, 0, 1, 1, 1, 1]


def test_where_is_for_what_has_merged() -> None:
    """A row that WHERE does not want has merged all the same: its partner is not free for another."""
    streams = {"s": rows_of([1, 2], x=[1.0, 1.5]), "t": rows_of([1, 2], x=[1.0, 90.0])}
    wanted = Condition("`A.n` = 1", lambda rows: equals(rows["A"]["n"], 1))
    case = Case(keys=((same("x", 1),),), where=(wanted,), joins=("left",))
    assert found_by(check(case, streams, random.Random(1)).answers)[0][:2] == (1, None)


def test_where_may_ask_for_the_time() -> None:
    streams = {name: rows_of(range(30), i=list(range(30))) for name in "st"}
    late = Condition("_time > TIMESTAMP'1970-01-01 00:00:00.00001Z'", lambda rows: rows["_time"]["t"] > 10)
    case = Case(keys=((same("i", 0),),), where=(late,), window=3, step=3, every=5)
    assert check(case, streams, random.Random(1)).answers().num_rows == 20


# -- what is kept ------------------------------------------------------------------------------------


class Shortened(MemoryLog):
    """A stream whose first rows may be gone."""

    gone = 0

    def first_row(self) -> int:
        return self.gone


class Logs:
    """Two streams in memory whose first rows may be gone, and a merge over them without a guard."""

    def __init__(self, case: Case, streams: dict[str, list[Row]], gone: int = 0) -> None:
        self.operator = case.operator()
        self._logs = {name: Shortened(SCHEMA) for name in streams}
        for name, rows in streams.items():
            self._logs[name].append(table_of(rows))
            self._logs[name].gone = gone

    def run(self, since: int | None, until: int, scratch: Path) -> Answer:
        """The micro-batch from one time to another."""
        start, end = (
            {name: Offset() if t is None else Offset(log.row_at_time(t, 10**9), t) for name, log in self._logs.items()}
            for t in (since, until)
        )
        inputs = Inputs(self._logs, str(scratch))
        tasks = self.operator.plan(start, end, inputs, 1)
        return [row for task in tasks for batch in self.operator.run(task, inputs) for row in told(pa.table(batch))]


@pytest.fixture
def kept() -> tuple[Case, dict[str, list[Row]]]:
    """A merge of three streams in which records wait."""
    case = Case(
        keys=((same("i", 1),), (same("i", 2, "A", "C"),)), by=((equal("s"),), ()), joins=("left", "left"), window=6,
        step=2, every=10, streams="stu", policy="nearest",
    )  # fmt: skip
    chance = random.Random(4)
    streams = {
        name: rows_of(range(80), i=[n + chance.randrange(-4, 5) for n in range(80)], s=[chance.choice("ab")] * 80)
        for name in "stu"
    }
    return case, streams


@pytest.mark.slow
def test_what_is_kept_may_be_lost_while_all_rows_are_there(kept: Any, tmp_path: Path) -> None:
    case, streams = kept
    logs = Logs(case, streams)
    wanted = [row for row in answer(case, streams, 70) if row not in answer(case, streams, 35)]
    assert len(wanted) > 10
    logs.run(None, 35, tmp_path / "kept")
    assert logs.run(35, 70, tmp_path / "kept") == wanted
    assert logs.run(35, 70, tmp_path / "fresh") == wanted


def test_a_file_that_is_not_whole_is_not_taken_for_what_was_kept(kept: Any, tmp_path: Path) -> None:
    case, streams = kept
    logs = Logs(case, streams)
    logs.run(None, 35, tmp_path)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert files
    for path in files:
        path.write_bytes(path.read_bytes()[:-100])
    assert logs.run(35, 70, tmp_path) == answer(case, streams, 70)[len(answer(case, streams, 35)) :]


def test_lost_for_good_is_told(kept: Any, tmp_path: Path) -> None:
    case, streams = kept
    with pytest.raises(AnabranchError) as caught:
        Logs(case, streams, gone=5).run(35, 70, tmp_path)
    assert caught.value.name == "MERGE_STATE_LOST"


def test_lost_when_all_rows_before_are_gone_is_no_beginning(kept: Any, tmp_path: Path) -> None:
    case, streams = kept
    logs = Logs(case, streams, gone=35)
    with pytest.raises(AnabranchError, match="MERGE_STATE_LOST"):
        logs.run(35, 70, tmp_path)


def test_a_query_that_comes_late_begins_with_the_rows_there_are(kept: Any, tmp_path: Path) -> None:
    case, streams = kept
    later = {name: rows[5:] for name, rows in streams.items()}
    numbered = {name: [{**row, "n": n} for n, row in enumerate(rows)] for name, rows in later.items()}
    wanted = [(*(None if n is None else n + 5 for n in numbers), time) for *numbers, time in answer(case, numbered, 70)]
    assert Logs(case, streams, gone=5).run(None, 70, tmp_path) == wanted


def test_files_of_old_offsets_are_removed() -> None:
    harness = Case(keys=((same("i", 1),),), every=5).harness()
    rows = rows_of(range(300), i=list(range(300)))
    for at in range(0, 300, 10):
        for name in "st":
            harness.push(name, table_of(rows[at : at + 10]))
        harness.step()
    assert 1 <= len([path for path in harness.scratch.rglob("*") if path.is_file()]) < 25


# -- bounds ------------------------------------------------------------------------------------------


def test_only_rows_of_the_windows_and_unread_ones_are_needed() -> None:
    """The harness refuses to read what `needs` gave away; it must not keep everything either."""
    case = Case(keys=((same("i", 0),),), window=20, step=5, every=10)
    harness = case.harness()
    rows = rows_of(range(2_000), i=list(range(2_000)))
    for at in range(0, 2_000, 100):
        for name in "st":
            harness.push(name, table_of(rows[at : at + 100]))
        harness.step()
    assert harness.answers().num_rows > 1_900
    assert harness.work.rows_read <= 3 * 4_000


def test_many_rows_at_once() -> None:
    """Twenty windows and more in one batch, in disorder; every record that comes back in time finds its partner."""
    count = 20_000
    numbers = np.random.default_rng(1)
    keys = np.arange(count)
    late = keys[np.argsort(keys + numbers.integers(0, 200, count), kind="stable")]
    schema = StreamSchema.of({"k": "DOUBLE", "ts": "TIMESTAMP"}, time="ts")
    merge = Merge(
        sources=(("a", "A"), ("b", "B")), keys=((("`a.k`", "`b.k`", 0.25),),), by=((),), joins=("inner",),
        conditions=(), columns=(("a", "`a.k`"), ("b", "`b.k`"), ("_time", "_time")), time="_time", window=1_000,
        step=200, every=None,
    )  # fmt: skip
    harness = OperatorHarness(merge, {"A": schema, "B": schema})
    for name, of in (("A", keys), ("B", late)):
        times = pa.array(np.arange(count)).cast(TIME_TYPE)
        harness.push(name, pa.table({"k": pa.array(of + (0.25 if name == "A" else 0)), "ts": times}))
        harness.advance(name, MAX_TIME)
    found = harness.run()
    a, b = (found.column(name).to_numpy() for name in "ab")
    assert np.array_equal(np.sort(b), keys)
    assert np.array_equal(a - 0.25, b)
