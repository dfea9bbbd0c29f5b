"""Ranges of values: how GROUP and the G-INDEX make many values into few.

A range has a *label*, an int64 of the order of the ranges. Its *middle* is the code that stands for
all values in it, and lies in it.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.kernels.values import float_order
from anabranch.windows.basic.values import Domain
from anabranch.windows.index.base import Codes

_INFINITY = 0x7FF0_0000_0000_0000
_MANTISSA_BITS = 52


class Ranges(ABC):
    """A division of a type's values into ranges."""

    @staticmethod
    def equal(low: Any, high: Any, count: int, type_: pa.DataType | None = None) -> Ranges:
        """`count` ranges of the same width from low to high; what lies outside goes to the ranges at the ends.

        The middle is at most half a width, (high - low) / count / 2, from any value between low and high; for whole
        numbers this is rounded up.

        >>> ten = Ranges.equal(0, 100, 10)
        >>> label = ten.labels(np.array([37]))[0]
        >>> ten.bounds(label), ten.middles(np.array([label])).tolist()
        ((30, 40), [34])
        """
        return _EqualRanges(low, high, count, type_ or pa.int64())

    @staticmethod
    def relative(bits: int, type_: pa.DataType | None = None) -> Ranges:
        """Ranges that are wider the larger the numbers: 2**bits of them from each power of two to the next.

        The middle is within a relative error of 2**-bits of any value in the range (absolute below 2.3e-308); integers
        below 2**(bits + 1) have ranges of their own. There are no first and last range.

        >>> percent = Ranges.relative(7)
        >>> [percent.bounds(label) for label in percent.labels(np.array([5, 1000, -1000]))]
        [(5, 6), (1000, 1004), (-1003, -999)]
        """
        return _RelativeRanges(bits, type_ or pa.int64())

    @abstractmethod
    def labels(self, codes: Codes) -> NDArray[np.int64]:
        """The range of each value."""

    @abstractmethod
    def middles(self, labels: NDArray[np.int64]) -> Codes:
        """The codes that stand for ranges."""

    @abstractmethod
    def limits(self, labels: NDArray[np.int64]) -> tuple[Codes, Codes]:
        """The codes of the smallest value of each range, and of the smallest one above it."""

    def __init__(self, type_: pa.DataType) -> None:
        self.domain = Domain(type_)
        if self.domain.remapping:
            raise ValueError(f"values of type {type_} cannot be put in ranges; numbers and times can")

    def bounds(self, label: int) -> tuple[Any, Any]:
        """The values low ≤ v < high of a range."""
        low, high = self.domain.decode(np.concatenate(self.limits(np.array([label], np.int64)))).to_pylist()
        return low, high

    def draw(self, label: int) -> str:
        low, high = self.bounds(label)
        return f"[{low}, {high})"


class _EqualRanges(Ranges):
    def __init__(self, low: Any, high: Any, count: int, type_: pa.DataType) -> None:
        super().__init__(type_)
        ends = pa.array([low, high], type_)
        first, last = self.domain.encode(ends)[0].tolist()
        if count < 1 or first >= last:
            raise ValueError(f"{count} ranges from {low} to {high} cannot be made")
        if pa.types.is_floating(type_):
            edges = np.linspace(ends[0].as_py(), ends[1].as_py(), count + 1)
            self._starts = float_order(pa.array(edges + 0.0))
            self._middles = float_order(pa.array((edges[:-1] + (edges[1:] - edges[:-1]) / 2) + 0.0))
        else:
            # In Python's integers, which do not overflow; rounded up, as a range begins with its first integer.
            starts = [first + -((first - last) * i // count) for i in range(count + 1)]
            self._starts = np.array(starts, np.int64)
            self._middles = np.array([(a + max(b - 1, a)) // 2 for a, b in itertools.pairwise(starts)], np.int64)

    def labels(self, codes: Codes) -> NDArray[np.int64]:
        return np.searchsorted(self._starts[1:-1], codes, side="right")

    def middles(self, labels: NDArray[np.int64]) -> Codes:
        return self._middles[labels]

    def limits(self, labels: NDArray[np.int64]) -> tuple[Codes, Codes]:
        return self._starts[labels], self._starts[labels + 1]


class _RelativeRanges(Ranges):
    """The bits of a double, without the last ones of its mantissa, are labels of just this kind."""

    def __init__(self, bits: int, type_: pa.DataType) -> None:
        super().__init__(type_)
        if not 1 <= bits <= _MANTISSA_BITS:
            raise ValueError(f"bits must be from 1 to {_MANTISSA_BITS}, not {bits}")
        if not (pa.types.is_floating(type_) or pa.types.is_signed_integer(type_)):
            raise ValueError(f"ranges of relative width are for numbers, not for {type_}")
        self._shift = _MANTISSA_BITS - bits
        self._whole = not pa.types.is_floating(type_)

    def labels(self, codes: Codes) -> NDArray[np.int64]:
        numbers = float_order(pa.array(codes.astype(np.float64))) if self._whole else np.asarray(codes, np.int64)
        return numbers >> self._shift

    def middles(self, labels: NDArray[np.int64]) -> Codes:
        labels = np.asarray(labels, np.int64)
        low = labels << self._shift
        middles = low + ((1 << self._shift) >> 1)
        # Zero and the infinities are what is really met in their ranges.
        infinite = (_INFINITY >> self._shift) << self._shift
        middles[(labels == 0) | (low == infinite)] = low[(labels == 0) | (low == infinite)]
        below = (~_INFINITY >> self._shift) << self._shift
        middles[low == below] = ~_INFINITY
        if not self._whole:
            return middles
        lows, highs = self.limits(labels)
        with np.errstate(invalid="ignore"):
            rounded = _integers(np.rint(_doubles(middles)))
        within = np.clip(rounded, lows, np.maximum(highs - 1, lows))
        least, most = _limits_of(self.domain.type)
        return np.clip(within, least, most)

    def limits(self, labels: NDArray[np.int64]) -> tuple[Codes, Codes]:
        if not self._whole:
            return labels << self._shift, (labels + 1) << self._shift
        # The first integer of each range and the first one after it.
        low, high = _doubles(labels << self._shift), _doubles((labels + 1) << self._shift)
        return _integers(np.ceil(low)), _integers(np.ceil(high))


def _limits_of(type_: pa.DataType) -> tuple[int, int]:
    """The smallest and the largest integer of a type."""
    info = np.iinfo(type_.to_pandas_dtype())
    return int(info.min), int(info.max)


def _doubles(codes: Codes) -> NDArray[np.float64]:
    bits = codes ^ ((codes >> 63) & np.int64(0x7FFF_FFFF_FFFF_FFFF))
    return bits.view(np.float64)


def _integers(numbers: NDArray[np.float64]) -> Codes:
    """Doubles as int64, those that do not fit as the nearest one."""
    large, small = numbers >= 2.0**63, numbers < -(2.0**63)
    whole = np.where(large | small, 0.0, numbers).astype(np.int64)
    return np.where(large, np.iinfo(np.int64).max, np.where(small, np.iinfo(np.int64).min, whole))
