"""What is made of all values of a group in an order: a list, one text, the first or the last of them.

The values of a group are kept, and those of the groups that changes touch are put in order again. Ties, and values of
which no order is said, are in the order of the values themselves: so the answer follows from what there is, and not
from when it came.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from anabranch.kernels.values import one_array
from anabranch.operators.tree.steps.arguments import Argument, Came, Places
from anabranch.operators.tree.steps.touched import Touched
from anabranch.operators.windows.ordering import ranks

Columns = list[pa.Array]
Order = tuple[tuple[bool, bool], ...]
"""For each value behind the first of the argument: whether it is descending, and whether NULLs come first."""
Made = Callable[[pa.Array, NDArray[np.int64]], pa.Array]
"""Of the values of some groups, one group after the other, and how many each has (one at least), something of each."""


class Collected:
    """See the module; `once`: a value that is there several times counts as one."""

    def __init__(self, argument: Argument, order: Order, made: Made, type_: pa.DataType, *, once: bool) -> None:
        self.argument = argument
        self.types = (type_,)
        self._order, self._made, self._once = order, made, once
        argument.arrange()

    def changed(self, known: Columns, of: Places, groups: Touched, came: Came) -> Columns:
        numbers = np.unique(came.of)
        rows = self.argument.values_of(groups, numbers)
        keys = [
            ranks(column, descending, first)
            for column, (descending, first) in zip(rows.values[1:], self._order, strict=True)
        ]
        order = np.lexsort([ranks(rows.values[0], False, True), *reversed(keys), rows.of])
        weights = np.ones(len(order), np.int64) if self._once else rows.weights[order]
        values = rows.values[0].take(pa.array(np.repeat(order, weights)))
        there, counts = np.unique(np.repeat(rows.of[order], weights), return_counts=True)
        at = np.full(len(groups), -1, np.int64)
        at[of] = np.arange(len(of))
        at[numbers] = -1
        at[there] = len(of) + np.arange(len(there))
        both = pa.concat_arrays([one_array(known[0]), self._made(values, counts)])
        return [both.take(pa.array(at, mask=at < 0))]


def as_list(values: pa.Array, counts: NDArray[np.int64]) -> pa.Array:
    """All of them in an array."""
    offsets = np.concatenate([[0], np.cumsum(counts)])
    if offsets[-1] >= 2**31:
        raise OverflowError("more than 2,147,483,647 values are collected at once")
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), values, pa.list_(values.type))


def as_text(separator: str) -> Made:
    """All of them in one text with something between them."""

    def made(values: pa.Array, counts: NDArray[np.int64]) -> pa.Array:
        return pc.binary_join(as_list(values, counts), separator)

    return made


def the_first(values: pa.Array, counts: NDArray[np.int64]) -> pa.Array:
    return values.take(pa.array(np.cumsum(counts) - counts))


def the_last(values: pa.Array, counts: NDArray[np.int64]) -> pa.Array:
    return values.take(pa.array(np.cumsum(counts) - 1))


def without_nothing(lists: pa.Array) -> pa.Array:
    """Lists with an empty one in the place of NULL."""
    offsets = np.concatenate([[0], np.cumsum(pc.fill_null(pc.list_value_length(lists), 0).to_numpy())])
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), lists.flatten(), lists.type)


def order_of(said: Sequence[Sequence[bool]]) -> Order:
    return tuple((bool(descending), bool(first)) for descending, first in said)
