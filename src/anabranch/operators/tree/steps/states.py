"""What is kept of each group for aggregates, and how it follows changes: counts, sums, the best, places in an order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.kernels import long_sums
from anabranch.kernels.groups import encode
from anabranch.kernels.values import integers, one_array
from anabranch.operators.tree.steps.arguments import Argument, Came, Places
from anabranch.operators.tree.steps.touched import Touched
from anabranch.operators.windows.ordering import ranks

Columns = list[pa.Array]


class State(Protocol):
    """Columns of each group's row."""

    types: tuple[pa.DataType, ...]
    argument: Argument

    def changed(self, known: Columns, of: Places, groups: Touched, came: Came) -> Columns:
        """The columns of all groups after some changes; `known`: those that groups `of` some numbers had."""
        ...


class Counted:
    """How many values there are."""

    types = (pa.int64(),)

    def __init__(self, argument: Argument) -> None:
        self.argument = argument

    def changed(self, known: Columns, of: Places, groups: Touched, came: Came) -> Columns:
        counts = np.zeros(len(groups), np.int64)
        counts[of] = integers(known[0])
        np.add.at(counts, came.of, came.weights)
        return [pa.array(counts)]


class Summed:
    """Their exact sum, or that of what is made of them."""

    types = (long_sums.TYPE,)

    def __init__(self, argument: Argument, parts: Callable[[pa.Array], long_sums.Parts]) -> None:
        self.argument = argument
        self._parts = parts

    def changed(self, known: Columns, of: Places, groups: Touched, came: Came) -> Columns:
        parts = self._parts(came.values[0])
        return [long_sums.added(known[0], of, len(groups), came.of, came.weights, parts)]


class Best:
    """The first of the values in an order, and how often it is there; only if it has gone others are looked at.

    The first column decides, in its order or, `largest`, against it; the others break ties. Where values only come, it
    does not matter how often it is there: then that is 1.
    """

    def __init__(self, argument: Argument, *, largest: bool, only_come: bool) -> None:
        self.argument = argument
        self.types = (*argument.types, pa.int64())
        self._largest = largest
        self._only_come = only_come
        if not only_come:
            argument.arrange()

    def changed(self, known: Columns, of: Places, groups: Touched, came: Came) -> Columns:
        *best, times = known
        there = np.flatnonzero(integers(times))
        at = pa.array(there)
        group = np.concatenate([of[there], came.of])
        values = [pa.concat_arrays([old.take(at), new]) for old, new in zip(best, came.values, strict=True)]
        if self._only_come:
            first = self._first(group, values)
            ones = np.ones(len(first), np.int64)
            return _spread(len(groups), [Came(group[first], ones, [value.take(pa.array(first)) for value in values])])
        weights = np.concatenate([integers(times)[there], came.weights])
        different = encode([pa.array(group), *values], len(group))
        sums = np.zeros(different.size, np.int64)
        np.add.at(sums, different.codes, weights)
        numbers, *values = different.keys(np.arange(different.size, dtype=np.int32))
        group = numbers.to_numpy()
        gone = np.zeros(len(groups), np.bool_)
        was = different.codes[: len(there)]
        gone[group[was[sums[was] <= 0]]] = True
        may = np.flatnonzero((sums > 0) & ~gone[group])
        first = may[self._first(group[may], [value.take(pa.array(may)) for value in values])]
        found = Came(group[first], sums[first], [value.take(pa.array(first)) for value in values])
        again = np.flatnonzero(gone)
        if not len(again):
            return _spread(len(groups), [found])
        if self.argument.has_edges:
            return _spread(len(groups), [found, self.argument.edge_of(groups, again, last=self._largest)])
        rows = self.argument.values_of(groups, again)
        first = self._first(rows.of, rows.values)
        rest = Came(rows.of[first], rows.weights[first], [value.take(pa.array(first)) for value in rows.values])
        return _spread(len(groups), [found, rest])

    def _first(self, group: Places, values: Columns) -> Places:
        """The place of the first value of each group."""
        places = np.arange(len(group))
        for number, column in enumerate(values):
            rank = ranks(column, self._largest and number == 0, False)[places]
            least = np.full(int(group.max(initial=-1)) + 1, np.iinfo(np.int64).max)
            np.minimum.at(least, group[places], rank)
            places = places[rank == least[group[places]]]
        return places


def _spread(size: int, parts: Sequence[Came]) -> Columns:
    """Values of some groups, one of each, as columns of all groups; those without have NULLs, 0 times."""
    of = np.concatenate([part.of for part in parts])
    at = np.full(size, -1, np.int64)
    at[of] = np.arange(len(of))
    missing = at < 0
    places = pa.array(at, mask=missing)
    values = [pa.concat_arrays(each).take(places) for each in zip(*(part.values for part in parts), strict=True)]
    times = np.zeros(size, np.int64)
    times[of] = np.concatenate([part.weights for part in parts])
    return [*values, pa.array(times)]


class Placed:
    """What stands at a place in the order of a group's values, or is there most often; in touched groups only."""

    def __init__(
        self,
        argument: Argument,
        question: Literal["value", "between", "mode"],
        share: float = 0.0,
        *,
        once: bool = False,
    ) -> None:
        self.argument = argument
        self._question = question
        self._share = share
        self._once = once
        self.types = (pa.float64() if question == "between" else argument.types[0],)
        argument.arrange()

    def changed(self, known: Columns, of: Places, groups: Touched, came: Came) -> Columns:
        numbers = np.unique(came.of)
        rows = self.argument.values_of(groups, numbers)
        order = np.lexsort((ranks(rows.values[0], False, False), rows.of))
        group, values = rows.of[order], rows.values[0].take(pa.array(order))
        weights = np.ones(len(order), np.int64) if self._once else rows.weights[order]
        there, starts = np.unique(group, return_index=True)
        if self._question == "mode":
            most = np.maximum.reduceat(weights, starts) if len(starts) else weights
            places = np.flatnonzero(weights == np.repeat(most, np.diff(np.append(starts, len(group)))))
            first = places[np.unique(group[places], return_index=True)[1]]
            new = values.take(pa.array(first))
        else:
            new = self._at_places(values, weights, starts)
        at = np.full(len(groups), -1, np.int64)
        at[of] = np.arange(len(of))
        at[numbers] = -1
        at[there] = len(of) + np.arange(len(there))
        both = pa.concat_arrays([one_array(known[0]), new])
        return [both.take(pa.array(at, mask=at < 0))]

    def _at_places(self, values: pa.Array, weights: Places, starts: Places) -> pa.Array:
        ends = np.cumsum(weights)
        before = ends[starts] - weights[starts]
        totals = np.append(before[1:], ends[-1:])[: len(starts)] - before

        def at(place: Places) -> NDArray[np.int64]:
            return np.searchsorted(ends, before + place, side="right")

        if self._question == "value":
            return values.take(pa.array(at(np.maximum(np.ceil(totals * self._share).astype(np.int64) - 1, 0))))
        place = (totals - 1) * self._share
        below, above = np.floor(place), np.ceil(place)
        doubles = values.cast(pa.float64(), safe=False).to_numpy()
        low, high = doubles[at(below.astype(np.int64))], doubles[at(above.astype(np.int64))]
        with np.errstate(invalid="ignore"):
            middle = (above - place) * low + (place - below) * high
        return pa.array(np.where((below == above) | (low == high), low, middle))
