"""What is kept of a range's aggregates so that it comes to the same in any order, and what guards that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.kernels.fold import Count, Exact, Extreme, FloatSum, IntegerSum, Slots, State
from anabranch.kernels.registers import Registers
from anabranch.kernels.sums import DoubleSum
from anabranch.kernels.values import Column, floats

_CLOSE = 1 / 4
"""Magnitudes are added as doubles, and doubt begins well below the limit."""


class WrappingSum(IntegerSum):
    """Sum of integers that does not mind leaving 64 bits on its way, if what it comes to lies in them."""

    def _checked(self, sums: NDArray[np.int64], into: NDArray[np.int32], values: NDArray[np.int64]) -> list[pa.Array]:
        self._add(sums, into, values)
        return [pa.array(sums)]


class Magnitude(FloatSum):
    """About how large a sum of the same values without their signs is."""

    def fold(self, slots: Slots, seed: Sequence[pa.Array], values: Column | None) -> list[pa.Array]:
        assert values is not None
        return super().fold(slots, seed, pa.array(np.abs(floats(values))))


@dataclass(frozen=True)
class Guard:
    """A state by which it is known that no order of adding overflows: its sum over a window stays below `limit`."""

    state: State
    limit: float


def merging(state: State) -> tuple[State, Guard | None]:
    """A state as one that merges in any order, and its guard if it needs one."""
    if isinstance(state, IntegerSum):
        return WrappingSum(), Guard(Magnitude(), 2.0**63 * _CLOSE)
    if isinstance(state, Exact) and pa.types.is_decimal(state.types[0]) and state.function == "sum":
        return state, Guard(Magnitude(), 10.0 ** (38 - state.types[0].scale) * _CLOSE)
    assert isinstance(state, Count | Extreme | Exact | Registers | DoubleSum), type(state)
    return state, None
