"""Sums of doubles are those of exact arithmetic, rounded once, and the same in any order and from any parts."""

from __future__ import annotations

import math
import random
import struct
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.kernels.fold import Slots
from anabranch.kernels.sums import DoubleSum, totals

NOTHING = [pa.array([], DoubleSum.types[0])]


def into(slots: list[int], count: int) -> Slots:
    return Slots(np.array(slots, np.int32), np.zeros(count, np.int32), np.array([0, count]))


def sum_of(values: list[float]) -> pa.Array:
    (column,) = DoubleSum().fold(into([0] * len(values), 1), NOTHING, pa.array(values, pa.float64()))
    return column


def total(values: list[float]) -> float:
    return float(totals(sum_of(values))[0])


def bits(value: float) -> bytes:
    return struct.pack("<d", math.nan if math.isnan(value) else value)


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False, min_value=-1e30, max_value=1e30), max_size=30))
def test_values_of_similar_size_add_up_exactly(values: list[float]) -> None:
    near = [math.copysign(math.ldexp(math.frexp(value)[0], 40), value) for value in values if value]
    assert total(near) == math.fsum(near)


@given(st.lists(st.floats(), max_size=12), st.randoms(use_true_random=False))
def test_the_order_and_the_parts_do_not_matter(values: list[float], chance: random.Random) -> None:
    other = values.copy()
    chance.shuffle(other)
    cut = chance.randint(0, len(values))
    (parts,) = DoubleSum().combine(into([0, 0], 1), [pa.concat_arrays([sum_of(other[cut:]), sum_of(other[:cut])])])
    (resumed,) = DoubleSum().fold(
        into([0] * (1 + len(other) - cut), 1), [sum_of(other[:cut])], pa.array(other[cut:], pa.float64())
    )
    assert bits(total(values)) == bits(total(other)) == bits(float(totals(parts)[0])) == bits(float(totals(resumed)[0]))


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=12))
def test_little_is_lost_below_the_largest(values: list[float]) -> None:
    exact, largest = sum(map(Fraction, values), Fraction(0)), max(map(abs, values))
    found = total(values)
    if math.isfinite(found):
        most = Fraction(largest) * Fraction(len(values), 2**75) + abs(Fraction(math.ulp(found)))
        assert abs(Fraction(found) - exact) <= most
    else:
        assert abs(exact) > Fraction(1.79e308)


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        ([], 0.0),
        ([-0.0], 0.0),
        ([5e-324, 5e-324], 1e-323),
        ([5e-324, -5e-324], 0.0),
        ([2.0**-1022, -(2.0**-1074)], 2.0**-1022 - 2.0**-1074),
        ([1e308, 1e308], math.inf),
        ([-1e308, -1e308], -math.inf),
        ([1e308, 1e308, -1e308], 1e308),
        ([math.inf, 1.0], math.inf),
        ([math.inf, -math.inf], math.nan),
        ([math.nan, 1.0], math.nan),
        ([2.0**53, 1.0, 1.0], 2.0**53 + 2),
        ([0.1] * 10, 1.0),
        ([1.0, -(2.0**-53), -(2.0**-54)], 1 - 2.0**-52),
        ([-1.0, 2.0**-30], -1 + 2.0**-30),
    ],
)
def test_what_lies_at_the_edges(values: list[float], wanted: float) -> None:
    assert bits(total(values)) == bits(wanted)


def test_null_counts_as_nothing_and_whole_numbers_are_taken() -> None:
    (column,) = DoubleSum().fold(into([0, 1, 0], 2), NOTHING, pa.array([1, None, 2], pa.int64()))
    assert totals(column).tolist() == [3.0, 0.0]


def test_many_equal_values_need_no_carry() -> None:
    ones = np.full(1 << 20, 1 - 2.0**-53)
    slots = Slots(np.zeros(len(ones), np.int32), np.zeros(1, np.int32), np.array([0, 1]))
    (column,) = DoubleSum().fold(slots, NOTHING, pa.array(ones))
    assert totals(column)[0] == float(Fraction(1 - 2.0**-53) * len(ones))
