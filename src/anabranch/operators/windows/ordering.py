"""ORDER BY and LIMIT inside each window, with Spark's order of values: NaN is the largest number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.kernels.groups import encode
from anabranch.kernels.values import Column, has_order_number, one_array, order_numbers, valid
from anabranch.operators.columns import Bound


@dataclass(frozen=True)
class SortKey:
    """One sort key."""

    value: Bound
    descending: bool
    nulls_first: bool


def ranks(column: Column, descending: bool, nulls_first: bool) -> NDArray[np.int64]:
    """Numbers whose ascending order is the order asked for.

    >>> ranks(pa.array([2.0, None, float("nan"), -1.0]), True, False).argsort().tolist()
    [2, 0, 3, 1]
    """
    if has_order_number(column.type):
        numbers = order_numbers(column, 0)
        if pa.types.is_floating(column.type):
            numbers = np.where(numbers == -1, 0, numbers)  # -0.0 stands beside 0.0
    else:
        groups = encode([column], len(column))
        numbers = groups.ranks()[groups.codes]
    if descending:
        numbers = ~numbers
    if column.null_count == 0:
        return numbers
    # Room for NULL at either end: places among the numbers that occur.
    numbers = np.unique(numbers, return_inverse=True)[1].astype(np.int64)
    edge = -1 if nulls_first else len(numbers)
    return np.where(valid(column), numbers, edge)


def first_of_each(table: pa.Table, windows: Column, order: Sequence[SortKey], limit: int | None) -> pa.Array:
    """The rows of each window in order, no more than `limit`; `windows` never decreases."""
    _, window = np.unique(one_array(windows.cast(pa.int64())).to_numpy(), return_inverse=True)
    keys = [ranks(key.value.evaluate(table), key.descending, key.nulls_first) for key in reversed(order)]
    chosen = np.lexsort([*keys, window]) if keys else np.arange(len(window))
    if limit is not None:
        starts = np.searchsorted(window, window, side="left")
        chosen = chosen[np.arange(len(chosen)) - starts < limit]
    return pa.array(chosen)
