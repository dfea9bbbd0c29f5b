"""Folds equal naive ones, and an interrupted fold reaches the same bits."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.errors import QueryError
from anabranch.kernels.fold import Count, Exact, Extreme, FloatSum, IntegerSum, Moments, Slots, State, assign_slots
from anabranch.kernels.sums import DoubleSum
from anabranch.kernels.values import from_order_numbers, frozen, order_numbers

STATES: list[tuple[State, pa.DataType]] = [
    (Count(), pa.float64()),
    (FloatSum(), pa.float64()),
    (FloatSum(), pa.float32()),
    (DoubleSum(), pa.float64()),
    (IntegerSum(), pa.int32()),
    (Extreme(largest=True), pa.float64()),
    (Extreme(largest=False), pa.int8()),
    (Moments(), pa.float64()),
    (Exact("min", pa.string()), pa.string()),
    (Exact("sum", pa.decimal128(38, 1)), pa.decimal128(5, 1)),
]


def values_of(type_: pa.DataType, numbers: list[int | None]) -> pa.Array:
    if pa.types.is_string(type_):
        return pa.array([None if n is None else str(n) for n in numbers])
    if pa.types.is_decimal(type_):
        return pa.array([None if n is None else Decimal(n) / 10 for n in numbers], type_)
    if pa.types.is_floating(type_):
        return pa.array([None if n is None else n / 7 for n in numbers], type_)
    return pa.array(numbers, type_)


def slots_of(codes: list[int], bounds: list[int]) -> Slots:
    return assign_slots(frozen(np.array(codes, np.int32)), np.array(bounds), max(codes, default=0) + 1)


def exact(columns: list[pa.Array]) -> list[Any]:
    return [[v.hex() if isinstance(v, float) else v for v in c.to_pylist()] for c in columns]


def test_slots_follow_first_appearance_in_each_segment() -> None:
    slots = slots_of([2, 0, 2, 0, 0, 2], [0, 3, 3, 6])
    assert slots.of_entry.tolist() == [0, 1, 0, 2, 2, 3]
    assert slots.code.tolist() == [2, 0, 0, 2]
    assert slots.bounds.tolist() == [0, 2, 2, 4]
    assert slots.segments().tolist() == [0, 0, 2, 2]


@pytest.mark.parametrize(("state", "type_"), STATES, ids=lambda v: getattr(v, "__class__", v).__name__)
@given(
    entries=st.lists(st.tuples(st.integers(0, 3), st.none() | st.integers(-99, 99)), min_size=1, max_size=30),
    cut=st.integers(0, 30),
)
def test_a_fold_that_was_interrupted_goes_on_to_the_same_bits(
    state: State, type_: pa.DataType, entries: list[tuple[int, int | None]], cut: int
) -> None:
    codes = [c for c, _ in entries]
    values = values_of(type_, [v for _, v in entries])
    cut = min(cut, len(codes))
    empty = [pa.array([], t) for t in state.types]
    whole = slots_of(codes, [0, len(codes)])
    before = slots_of(codes[:cut], [0, cut])
    seed = state.fold(before, empty, values[:cut])
    after = slots_of([*before.code.tolist(), *codes[cut:]], [0, before.count + len(codes) - cut])
    assert after.code.tolist() == whole.code.tolist()
    assert exact(state.fold(after, seed, values[cut:])) == exact(state.fold(whole, empty, values))


@given(parts=st.lists(st.lists(st.floats(-1e6, 1e6), max_size=8), min_size=1, max_size=6))
def test_combined_moments_are_those_of_all_values(parts: list[list[float]]) -> None:
    moments, empty = Moments(), [pa.array([], t) for t in Moments.types]
    partials = [moments.fold(slots_of([0] * len(p), [0, len(p)]), empty, pa.array(p, pa.float64())) for p in parts if p]
    if not partials:
        return
    columns = [pa.concat_arrays([p[i] for p in partials]) for i in range(3)]
    n, mean, m2 = (c[0].as_py() for c in moments.combine(slots_of([0] * len(partials), [0, len(partials)]), columns))
    everything = [v for p in parts for v in p]
    assert n == len(everything)
    assert math.isclose(mean, math.fsum(everything) / n, rel_tol=1e-9, abs_tol=1e-6)
    centre = math.fsum(everything) / n
    assert math.isclose(m2, math.fsum((v - centre) ** 2 for v in everything), rel_tol=1e-9, abs_tol=1e-3)


@given(values=st.lists(st.floats() | st.none(), min_size=1))
def test_order_numbers_keep_the_order_and_come_back(values: list[float | None]) -> None:
    array = pa.array(values, pa.float64())
    numbers = order_numbers(array, 0)
    known = [(n, v) for n, v in zip(numbers.tolist(), values, strict=True) if v is not None]
    for n, v in known:
        for m, w in known:
            if v < w or (math.isnan(w) and not math.isnan(v)):
                assert n < m
    back = from_order_numbers(numbers, np.array([v is not None for v in values]), pa.float64()).to_pylist()
    assert exact([pa.array(back, pa.float64())]) == exact([array])


def test_a_sum_that_leaves_64_bits_is_refused() -> None:
    slots = slots_of([0, 0], [0, 2])
    for pair in ([2**63 - 1, 1], [-(2**63), -1]):
        with pytest.raises(QueryError, match="SUM_OVERFLOW"):
            IntegerSum().fold(slots, [pa.array([], pa.int64())], pa.array(pair, pa.int64()))
