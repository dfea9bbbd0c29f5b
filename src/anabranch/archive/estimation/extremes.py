"""Smallest, largest and different values by group: what part of the rows says about them is true of one side only."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.kernels.groups import encode
from anabranch.kernels.values import from_order_numbers, has_order_number, order_numbers, valid


@dataclass(frozen=True)
class Extremes:
    """Values kept for groups: one per group of min or max, each different one of count_distinct."""

    function: str
    group: NDArray[np.int64]
    values: pa.Array
    groups: int

    def plus(self, other: Extremes) -> Extremes:
        """Both, one after the other; groups of the second are numbered on from those of the first."""
        values = pa.concat_arrays([self.values, other.values])
        group = np.concatenate([self.group, other.group + self.groups])
        return Extremes(self.function, group, values, self.groups + other.groups)

    def moved(self, code: NDArray[np.int64], groups: int) -> Extremes:
        """The same with each group under its new number; groups may have become one."""
        if self.function == "count_distinct":
            return distinct_of(code[self.group], self.values, groups)
        return extremes_of(self.function, code[self.group], self.values, groups)

    def by_group(self) -> pa.Array:
        """One value for each group: the extreme, or how many different ones."""
        if self.function == "count_distinct":
            return pa.array(np.bincount(self.group, minlength=self.groups).astype(np.float64))
        place = np.full(self.groups, -1, np.int64)
        place[self.group] = np.arange(len(self.group))
        return self.values.take(pa.array(np.where(place < 0, 0, place), mask=place < 0))


def extremes_of(function: str, codes: NDArray[np.int64], values: pa.Array, groups: int) -> Extremes:
    """The smallest or largest value of each group that has one; NaN is the largest, as in Spark.

    >>> extremes_of("max", np.array([0, 1, 0]), pa.array([3, None, 7]), 2).by_group().to_pylist()
    [7, None]
    """
    present = valid(values)
    codes, values = codes[present], values.filter(pa.array(present))
    if has_order_number(values.type):
        numbers = order_numbers(values, 0)
        order = np.lexsort([numbers, codes])
        place = order[_lasts(codes[order]) if function == "max" else _firsts(codes[order])]
        extremes = from_order_numbers(numbers[place], np.ones(len(place), bool), values.type)
        return Extremes(function, codes[place], extremes, groups)
    folded = pa.table({"code": codes, "value": values}).group_by("code", use_threads=False)
    table = folded.aggregate([("value", function)]).combine_chunks()
    kept = table.column(f"value_{function}").combine_chunks()
    return Extremes(function, table.column("code").to_numpy(), kept, groups)


def distinct_of(codes: NDArray[np.int64], values: pa.Array, groups: int) -> Extremes:
    """The different values of each group.

    >>> distinct_of(np.array([0, 1, 0, 0]), pa.array(["a", "a", "b", "a"]), 2).by_group().to_pylist()
    [2.0, 1.0]
    """
    present = valid(values)
    pairs = encode([pa.array(codes[present]), values.filter(pa.array(present))], int(present.sum()))
    group, kept = pairs.keys(np.arange(pairs.size, dtype=np.int32))
    return Extremes("count_distinct", group.to_numpy(), kept, groups)


def _firsts(ordered: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.flatnonzero(np.diff(ordered, prepend=ordered[:1] - 1) != 0)


def _lasts(ordered: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.flatnonzero(np.diff(ordered, append=ordered[-1:] + 1) != 0)
