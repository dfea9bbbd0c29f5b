"""How answers are put together from what indices and rings give."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from anabranch.windows.basic.basic import BasicWindows
from anabranch.windows.index.base import Counts
from anabranch.windows.ring.base import Numbers


def is_number(type_: pa.DataType) -> bool:
    return bool(pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_))


def interpolated(p: float, size: int, at_rank: Callable[[list[int]], pa.Array]) -> float:
    """The value at a part p of `size` > 0 sorted tuples, on the line between its neighbours.

    The formula is that of Spark's percentile, so that it comes to the same bits.
    """
    position = p * (size - 1)
    low, high = math.floor(position), math.ceil(position)
    below, above = (float(value) for value in at_rank([low, high]).to_pylist())
    return below if low == high or below == above else (high - position) * below + (position - low) * above


def discrete_rank(p: float, size: int) -> int:
    """The first place, from 0, of `size` > 0 sorted tuples up to which there are at least a part p of them.

    >>> discrete_rank(0.07, 100), discrete_rank(0, 100), discrete_rank(1, 100)
    (6, 0, 99)
    """
    rank = max(0, math.ceil(p * size) - 1)
    # The product is rounded: 0.07 · 100 comes to more than 7.
    return rank - 1 if rank > 0 and rank / size >= p else rank


def equal_pairs(counts: Counts) -> tuple[Numbers, Numbers]:
    """Every pair of places with equal values, if the first counts[0] places have one value, and so on.

    >>> [side.tolist() for side in equal_pairs(np.array([2, 1]))]
    [[0, 0, 1, 1, 2], [0, 1, 0, 1, 2]]
    """
    partners = np.repeat(counts, counts)
    left = np.repeat(np.arange(len(partners)), partners)
    # The partners of a place are its value's places, which lie side by side.
    begin = np.repeat(np.cumsum(counts) - counts, counts)
    return left, begin[left] + np.arange(len(left)) - np.repeat(np.cumsum(partners) - partners, partners)


def attributes(basic: BasicWindows, numbers: Numbers, columns: Sequence[str] | None) -> dict[str, pa.ChunkedArray]:
    """Other attributes of tuples by their numbers in the ring; all there are if `columns` is None."""
    tables = [window.rows for window in basic.attached() if window.rows is not None]
    if not tables:
        if columns and len(numbers):
            raise ValueError(f"no rows were appended, so there is no column {columns[0]!r}")
        return {}
    assert basic.ring is not None
    table = pa.concat_tables(tables)
    taken = pa.array(numbers - basic.ring.first)
    return {name: table.column(name).take(taken) for name in (table.column_names if columns is None else columns)}
