"""Keys of more digits than a double has are merged exactly, by rounds and by range queries."""

from __future__ import annotations

import random
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.operators.merge.operator import Merge
from anabranch.schema import StreamSchema
from anabranch.testing import OperatorHarness
from tests.operators import test_range_merge
from tests.operators.join_oracle import told
from tests.operators.join_rows import EPOCH, Row, rows_of
from tests.operators.merge_cases import Case, Key, check, column, equal, same
from tests.operators.merge_oracle import MAX_TIME
from tests.sampling import examples

POLICIES = ["first", "nearest", "all"]
SCALES = {"l": 0, "w": 10, "u": 15, "v": 20}
"""Columns, and how many digits they have behind the point."""
WHOLE = [0, 9, 2**52 - 2, 2**53 - 2, 10**17 + 7]
"""What all of these columns can hold before the point, but for `u`."""


def decimal(units: int, scale: int) -> Decimal:
    """The number of so many units of the last digit; arithmetic of decimals would round it to 28 digits."""
    with localcontext(prec=76):
        return Decimal(units).scaleb(-scale)


def nasty_streams(chance: random.Random, most: int) -> dict[str, list[Row]]:
    """Neighbours in the last digit of one of the columns, at a place where doubles no longer tell them apart."""
    fine = chance.choice([0, 10, 10, 15, 20, 20])
    sign, whole, odd = chance.choice([1, -1]), chance.choice(WHOLE), chance.choice([0.0, 0.2])
    huge = chance.choice([0, 0, 10**27 + 1])  # only `w` has room for it
    disorder, rising = chance.choice([0, 2, 9]), chance.choice([0.3, 1, 3])

    def rows() -> list[Row]:
        count = chance.choice([most, most, most // 2, 1, 0])
        times = sorted(chance.randrange(count) for _ in range(count))
        numbers = [
            sign * whole * 10**20 + (int(t * rising) + chance.randrange(-disorder, disorder + 1)) * 10 ** (20 - fine)
            for t in times
        ]
        columns: dict[str, list[Any]] = {name: [] for name in SCALES}
        for number in numbers:
            for name, scale in SCALES.items():
                within = number % 10**20 + 8 * 10**20 if name == "u" else number
                units = within // 10 ** (20 - scale) + (sign * huge * 10**10 if name == "w" else 0)
                value = units if name == "l" else decimal(units, scale)
                columns[name].append(None if chance.random() < odd else value)
        groups = [chance.randrange(3) for _ in times]
        return rows_of(times, **columns, x=[float(t) for t in times], d=groups)

    return {"s": rows(), "t": rows()}


def nasty_keys(chance: random.Random) -> tuple[Key, ...]:
    names = chance.choice(["l", "u", "v", "v", "w", "w", "wv", "vw", "lv", "wl", "uw"])
    left, right = names[0], names[-1]
    units = 10 ** max(SCALES[left], SCALES[right])
    tolerances: list[float | str] = [
        0,
        said(Fraction(1, units)),
        said(Fraction(5, 2 * units)),
        said(Fraction(3 * 10**12 + 1, 10**12 * units)),
        said(Fraction(2 * units - 1, units)),
        "0.1",
        "12345678901.00000000000000000001",
        "0.999999999999999999999999999999",
    ]
    keys = [Key(column("A", left), column("B", right), chance.choice(tolerances))]
    if chance.random() < 0.3:
        few = said(Fraction(2, units))
        other = chance.choice([same("x", 3), same("d", 1), Key(column("A", right), column("B", left), few)])
        keys = [Key(column("A", left), column("B", right), few), other]
        chance.shuffle(keys)
    return tuple(keys)


def said(number: Fraction) -> str:
    """A number as SQL says it, all digits of it."""
    digits = 40
    return str(decimal(int(number * 10**digits), digits))


def nasty_case(policy: Any, chance: random.Random, joins: list[Any]) -> Case:
    by = [(), (), (equal("d"),), (equal("w"),), ((column("A", "w"), column("B", "v")),), (equal("l"),)]
    window = chance.choice([1, 3, 8, 40])
    return Case(
        keys=(nasty_keys(chance),),
        by=(chance.choice(by),),
        joins=(chance.choice(joins),),
        policy=policy,
        window=window,
        step=chance.randint(1, window),
        every=chance.choice([None, 1, 10]),
    )


@pytest.mark.slow
@examples(150)
@given(policy=st.sampled_from(POLICIES), seed=st.integers(0, 2**32))
def test_neighbours_in_the_last_digit(policy: str, seed: int) -> None:
    chance = random.Random(seed)
    case = nasty_case(policy, chance, ["inner", "left", "full", "anti"])
    check(case, nasty_streams(chance, 30), chance)


@pytest.mark.slow
@examples(150)
@given(policy=st.sampled_from(POLICIES), seed=st.integers(0, 2**32))
def test_neighbours_in_the_last_digit_by_range_queries(policy: str, seed: int) -> None:
    """The index has doubles, so it gives more than was asked for."""
    chance = random.Random(seed)
    case = nasty_case(policy, chance, ["inner", "left", "anti"])
    remainder: Any = "difference" if policy == "first" and not any(case.by) and chance.random() < 0.5 else "rest"
    test_range_merge.check(case, remainder, nasty_streams(chance, 30), chance)


# -- numbers that can be looked at -------------------------------------------------------------------

MANY = StreamSchema.of(
    {"a": "DECIMAL(16,15)", "b": "DECIMAL(38,10)", "c": "DECIMAL(38,38)", "l": "BIGINT", "n": "INT", "ts": "TIMESTAMP"},
    time="ts",
)


def merged(key: tuple[str, str, float | str], rows: list[dict[str, Any]], policy: Any = "all") -> Any:
    """Row numbers of the pairs that a stream makes with itself."""
    left, right, tolerance = key
    merge = Merge(
        sources=(("A", "s"), ("B", "s")), keys=(((f"`A.{left}`", f"`B.{right}`", tolerance),),), by=((),),
        joins=("inner",), conditions=(), columns=(("a", "`A.n`"), ("b", "`B.n`"), ("_time", "_time")), time="_time",
        policy=policy,
    )  # fmt: skip
    harness = OperatorHarness(merge, {"s": MANY})
    nothing = dict.fromkeys(MANY.names)
    harness.push("s", [{**nothing, **row, "n": n, "ts": EPOCH} for n, row in enumerate(rows)])
    harness.advance("s", MAX_TIME)
    return sorted(row[:2] for row in told(harness.run()))


def near(count: int, units: int) -> list[tuple[int, int]]:
    return [(n, m) for n in range(count) for m in range(count) if abs(n - m) <= units]


@pytest.mark.parametrize(
    ("name", "first", "unit", "text"),
    [
        ("a", 9 * 10**15, 15, "0.000000000000001"),
        ("a", -9 * 10**15, 15, "0.000000000000001"),
        ("b", 123456789012345678901234567890, 10, "0.0000000001"),
        ("b", -(10**38) + 1, 10, "1e-10"),
        ("c", 10**38 - 9, 38, "1e-38"),
        ("l", 2**63 - 9, 0, "1"),
        ("l", -(2**63), 0, "1"),
    ],
)
def test_decimals_of_many_digits(name: str, first: int, unit: int, text: str) -> None:
    values = [first + n if name == "l" else decimal(first + n, unit) for n in range(7)]
    rows = [{name: value} for value in values]
    assert merged((name, name, 0), rows) == near(7, 0)
    assert merged((name, name, text), rows) == near(7, 1)
    assert merged((name, name, float(text)), rows) == near(7, 1)
    assert merged((name, name, said(Fraction(text) * Fraction(29, 10))), rows) == near(7, 2)


def test_keys_whose_units_have_more_than_38_digits() -> None:
    """A BIGINT counted in units of 38 digits behind the point."""
    rows: list[dict[str, Any]] = [{"l": 2**63 - 1}, {"c": decimal(1, 38)}, {"c": decimal(2, 38)}]
    assert merged(("l", "c", f"{2**63 - 2}.{'9' * 37}8"), rows) == [(0, 2)]
    assert merged(("l", "c", f"{2**63 - 2}.{'9' * 38}"), rows) == [(0, 1), (0, 2)]


def test_a_tolerance_is_itself_to_the_last_digit() -> None:
    """As a double each of the two would be 1."""
    rows = [{"l": 0}, {"l": 1}]
    assert merged(("l", "l", "0.999999999999999999999999999999"), rows) == near(2, 0)
    assert merged(("l", "l", "1.000000000000000000000000000001"), rows) == near(2, 1)


def test_the_nearest_is_nearer_by_one_unit() -> None:
    """The first three partners are as far as the fourth as doubles, and came before it."""
    far = [5 * 10**19 + n for n in (3, 2, 1, 0)]
    rows = [{"c": decimal(0, 38)}, *({"b": decimal(units, 10)} for units in far)]
    assert merged(("c", "b", "1e10"), rows, "nearest") == [(0, 4)]
    rows = [{"c": decimal(0, 38)}, *({"b": decimal(-units, 10)} for units in far)]
    assert merged(("c", "b", "1e10"), rows, "nearest") == [(0, 4)]


def test_a_whole_number_and_a_double_are_compared_as_doubles() -> None:
    streams = {"s": rows_of([1], l=[2**53 + 1]), "t": rows_of([1], x=[2.0**53])}
    case = Case(keys=((Key(column("A", "l"), column("B", "x"), 0),),))
    assert [row[:2] for row in told(check(case, streams, random.Random(1)).answers())] == [(0, 0)]
