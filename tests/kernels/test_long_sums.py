"""Sums that are exact, against fractions."""

from __future__ import annotations

import math
import random
from collections import Counter
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from anabranch.kernels import long_sums
from tests.sampling import SEED

DOUBLES = [0.0, -0.0, 1.0, -1.0, 0.1, -0.3, 1e16, -1e16, 1e308, -1e308, 5e-324, -2.2e-308, 1e-10, 2.0**53 + 2, 3.5e7]
SPECIAL = [math.nan, math.inf, -math.inf]


def as_double(number: Fraction) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def same(one: float, other: float) -> bool:
    return one == other or (math.isnan(one) and math.isnan(other))


def total(values: Counter[float]) -> float:
    there = {value for value, count in values.items() if count and not math.isfinite(value)}
    if there:
        return there.pop() if len(there) == 1 else math.nan
    return as_double(sum((Fraction(v) * n for v, n in values.items() if math.isfinite(v)), Fraction(0)))


@pytest.mark.parametrize("seed", range(20))
def test_doubles_that_come_and_go(seed: int) -> None:
    draw = random.Random(f"{SEED} {seed}")
    choice = DOUBLES + SPECIAL if seed % 2 else DOUBLES
    groups = 4
    sums, squares, counts = long_sums.none(groups), long_sums.none(groups), np.zeros(groups, np.int64)
    there: list[Counter[float]] = [Counter() for _ in range(groups)]
    nan = math.nan
    for _ in range(12):
        values, of, weights = [], [], []
        for _ in range(draw.randrange(20)):
            g = draw.randrange(groups)
            value = nan if math.isnan(value := draw.choice(choice)) else value
            # Often all of a value goes, and now and then far more come than one weight of 31 bits says.
            weight = draw.choice([1, 1, 2, -there[g][value], 2**33, -5])
            there[g][value] += weight
            values.append(value)
            of.append(g)
            weights.append(weight)
        column = pa.array(values, pa.float64())
        order = np.array(draw.sample(range(groups), groups))
        # What is known may stand in any order.
        arguments = (order, groups, np.array(of, np.int64), np.array(weights, np.int64))
        sums = long_sums.added(sums.take(pa.array(order)), *arguments, long_sums.parts_of_doubles(column))
        squares = long_sums.added(squares.take(pa.array(order)), *arguments, long_sums.parts_of_squares(column))
        np.add.at(counts, np.array(of, np.int64), np.array(weights, np.int64))
        found = long_sums.as_doubles(sums, long_sums.DOUBLES).tolist()
        assert all(map(same, found, map(total, there))), (found, [total(each) for each in there])
        spread = long_sums.squared_differences(counts, sums, squares).tolist()
        for said, each, count in zip(spread, there, counts.tolist(), strict=True):
            if any(n and not math.isfinite(v) for v, n in each.items()):
                assert math.isnan(said)
            elif all(n >= 0 for n in each.values()):
                first = sum((Fraction(v) * n for v, n in each.items() if n), Fraction(0))
                second = sum((Fraction(v) ** 2 * n for v, n in each.items() if n), Fraction(0))
                assert said == as_double(count * second - first**2)


def test_what_is_kept_says_what_there_is_and_nothing_of_how_it_came() -> None:
    draw = random.Random(SEED)
    values = [draw.choice(DOUBLES + SPECIAL) for _ in range(60)]
    gone = [draw.choice(DOUBLES + SPECIAL) for _ in range(60)]

    def kept(parts: list[tuple[float, int]]) -> pa.Array:
        sums = long_sums.none(1)
        while parts:
            some, parts = parts[:7], parts[7:]
            column, weights = pa.array([v for v, _ in some]), np.array([w for _, w in some])
            of = np.zeros(len(some), np.int64)
            sums = long_sums.added(sums, np.zeros(1, np.int64), 1, of, weights, long_sums.parts_of_doubles(column))
        return sums

    direct = [(value, 1) for value in values]
    around = [*direct, *((value, 1) for value in gone), *((value, -1) for value in gone)]
    draw.shuffle(around)
    assert kept(direct) == kept(around)
    assert kept([(value, 1) for value in gone] + [(value, -1) for value in gone]) == long_sums.none(1)


def test_whole_numbers_and_where_they_do_not_fit() -> None:
    numbers = [2**63 - 1, -(2**63), 2**63 - 1, 1, -7, 2**32, -(2**32), 2**31]
    of = np.zeros(1, np.int64)
    sums, known = long_sums.none(1), 0
    for number in [*numbers, *numbers, -1, -1, 5]:
        parts = long_sums.parts_of_integers(pa.array([number]))
        sums = long_sums.added(sums, of, 1, of, np.array([1]), parts)
        known += number
        found, fits = long_sums.as_integers(sums)
        assert fits == (-(2**63) <= known < 2**63)
        if fits:
            assert found.tolist() == [known]


def test_decimals_and_where_they_have_too_many_digits() -> None:
    numbers = [
        Decimal(text) for text in ("99999999999999999999999999999999.99", "-0.05", "1.10", "-12345678901.5", "0")
    ]
    column = pa.array([*numbers, None], pa.decimal128(34, 2))
    of = np.zeros(6, np.int64)
    none = long_sums.none(0)
    weights = np.array([3, 2, -4, 1, 1, 9])
    sums = long_sums.added(none, of[:0], 1, of, weights, long_sums.parts_of_decimals(column))
    with localcontext(prec=60):
        wanted = sum((n * int(w) for n, w in zip(numbers, weights, strict=False)), Decimal(0))
    assert long_sums.as_decimals(sums, 2).to_pylist() == [wanted]
    many = long_sums.added(none, of[:0], 1, of, np.full(6, 10**5), long_sums.parts_of_decimals(column))
    with pytest.raises(pa.ArrowInvalid):
        long_sums.as_decimals(many, 2)
    huge = long_sums.added(none, of[:0], 1, of, np.full(6, 2**40), long_sums.parts_of_decimals(column))
    for _ in range(8):
        huge = long_sums.added(huge, of[:1], 1, of, np.full(6, 2**40), long_sums.parts_of_decimals(column))
    with pytest.raises(pa.ArrowInvalid):
        long_sums.as_decimals(huge, 2)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_what_is_added_at_the_bottom_may_make_it_longer_at_the_top(sign: float) -> None:
    of, sums = np.zeros(1, np.int64), long_sums.none(1)
    for number in (2.0 ** (191 - 1074), -5e-324, 5e-324):
        parts = long_sums.parts_of_doubles(pa.array([sign * number]))
        sums = long_sums.added(sums, of, 1, of, np.array([1]), parts)
    assert long_sums.as_doubles(sums, long_sums.DOUBLES).tolist() == [sign * 2.0 ** (191 - 1074)]
