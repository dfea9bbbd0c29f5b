"""Estimates of how many values are different stay within their promise, however the values are folded and combined."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.kernels.fold import Slots, assign_slots
from anabranch.kernels.hashing import hashes
from anabranch.kernels.registers import Registers
from anabranch.kernels.values import frozen


def slots_of(codes: list[int], bounds: list[int]) -> Slots:
    return assign_slots(frozen(np.array(codes, np.int32)), np.array(bounds), max(codes, default=0) + 1)


def folded(sketch: Registers, values: pa.Array) -> pa.Array:
    """The registers of all values together."""
    seed = [pa.array([], sketch.types[0])]
    (column,) = sketch.fold(slots_of([0] * len(values), [0, len(values)]), seed, values)
    return column


def naive(values: list[Any], type_: pa.DataType, bits: int) -> bytes:
    """By the book: the first bits of a hash choose a register, which keeps the place of the first 1 among the rest."""
    registers = [0] * (1 << bits)
    for value in values:
        if value is not None:
            hash_ = f"{int(hashes(pa.array([value], type_))[0]):064b}"
            rest = hash_[bits:]
            place = int(hash_[:bits], 2)
            registers[place] = max(registers[place], len(rest) - len(rest.lstrip("0")) + 1)
    return bytes(registers)


@given(
    values=st.lists(st.none() | st.integers(-50, 50) | st.integers(-(2**63), 2**63 - 1), max_size=40),
    deviation=st.sampled_from([0.4, 0.2, 0.05]),
)
def test_registers_are_the_naive_ones(values: list[int | None], deviation: float) -> None:
    sketch = Registers(deviation)
    if values:
        array = pa.array(values, pa.int64())
        assert folded(sketch, array).to_pylist() == [naive(values, pa.int64(), sketch.bits)]


@given(
    entries=st.lists(st.tuples(st.integers(0, 3), st.none() | st.integers(0, 99)), min_size=1, max_size=40),
    cut=st.integers(0, 40),
)
def test_folding_in_two_steps_or_combining_gives_the_registers_of_one_fold(
    entries: list[tuple[int, int | None]], cut: int
) -> None:
    sketch, cut = Registers(0.2), min(cut, len(entries))
    values = pa.array([v for _, v in entries], pa.int64())
    codes = [code for code, _ in entries]
    nothing = [pa.array([], sketch.types[0])]
    slots = slots_of(codes, [0, len(codes)])
    (whole,) = sketch.fold(slots, nothing, values)
    wanted = dict(zip(slots.code.tolist(), whole.to_pylist(), strict=True))

    first = slots_of(codes[:cut], [0, cut])
    (begun,) = sketch.fold(first, nothing, values.slice(0, cut))
    on = slots_of([*first.code.tolist(), *codes[cut:]], [0, len(first.code) + len(codes) - cut])
    (continued,) = sketch.fold(on, [begun], values.slice(cut))
    assert dict(zip(on.code.tolist(), continued.to_pylist(), strict=True)) == wanted

    second = slots_of(codes[cut:], [0, len(codes) - cut])
    (rest,) = sketch.fold(second, nothing, values.slice(cut))
    both = [*first.code.tolist(), *second.code.tolist()]
    together = slots_of(both, [0, len(both)])
    (combined,) = sketch.combine(together, [pa.concat_arrays([begun, rest])])
    assert dict(zip(together.code.tolist(), combined.to_pylist(), strict=True)) == wanted


@pytest.mark.parametrize("deviation", [0.01, 0.02, 0.05, 0.1, 0.2, 0.4])
def test_estimate_is_within_five_deviations(deviation: float) -> None:
    sketch = Registers(deviation)
    assert 1.04 / math.sqrt(1 << sketch.bits) <= deviation or sketch.bits == 4
    for count in (1, 2, 3, 10, 100, 1_000, 30_000):
        values = pa.array(range(count)).cast(pa.string())
        (estimate,) = sketch.estimate(folded(sketch, pa.concat_arrays([values, values]))).to_pylist()
        assert abs(estimate - count) <= 5 * deviation * count + 0.5, (count, estimate)


def test_estimates_are_off_by_the_deviation_and_not_to_one_side() -> None:
    """Of 200 samples: the mean error is near 0, the root of the mean square is the deviation promised or less."""
    sketch = Registers(0.1)
    promised = 1.04 / math.sqrt(1 << sketch.bits)
    for count in (50, 300, 5_000):
        values = pa.array(np.arange(200 * count))
        slots = slots_of(np.repeat(np.arange(200), count).tolist(), [0, 200 * count])
        (column,) = sketch.fold(slots, [pa.array([], sketch.types[0])], values)
        errors = sketch.estimate(column).to_numpy() / count - 1
        assert len(errors) == 200
        assert abs(errors.mean()) < 4 * promised / math.sqrt(200) + 0.5 / count
        assert math.sqrt((errors**2).mean()) < 1.25 * promised


def test_nothing_but_null_is_no_value_and_equal_values_are_one() -> None:
    sketch = Registers(0.05)
    for values, wanted in [
        (pa.nulls(5, pa.int32()), 0),
        (pa.array([7] * 1_000), 1),
        (pa.array([0.0, -0.0, None]), 1),
        (pa.array([math.nan, -math.nan, 1.0]), 2),
        (pa.array(["", "", None]), 1),
    ]:
        assert sketch.estimate(folded(sketch, values)).to_pylist() == [wanted]


def test_slices_of_registers_are_read_where_they_begin() -> None:
    sketch = Registers(0.2)
    columns = [folded(sketch, pa.array(range(n))) for n in (1, 5, 20)]
    column = pa.concat_arrays(columns)
    wanted = [sketch.estimate(each).to_pylist()[0] for each in columns]
    assert sketch.estimate(column).to_pylist() == wanted
    assert sketch.estimate(column.slice(1)).to_pylist() == wanted[1:]
    assert sketch.estimate(column.slice(3)).to_pylist() == []
