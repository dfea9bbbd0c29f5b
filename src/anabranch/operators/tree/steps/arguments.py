"""What aggregates are about: of the changes of a group, the values that count, and what is kept of them.

Calls about the same columns share them. A value that counts once however often it is there (DISTINCT) is kept with how
often it is; what comes then is that a value is there for the first time, or no more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from anabranch.kernels.groups import encode
from anabranch.kernels.nested import one_zero
from anabranch.kernels.values import has_order_number, integers, one_array, valid
from anabranch.operators.tree.arrangement import Arrangement, Found
from anabranch.operators.tree.changes import Changes, Weights
from anabranch.operators.tree.replaced import Replaced
from anabranch.operators.tree.runs import hashed
from anabranch.operators.tree.steps.touched import Touched

Places = NDArray[np.int64]


class About(NamedTuple):
    """Values of some columns, where `needed` are not NULL and all of `filters` are true."""

    columns: tuple[str, ...] = ()
    needed: tuple[str, ...] = ()
    filters: tuple[str, ...] = ()
    distinct: bool = False


@dataclass(frozen=True)
class Came:
    """The values that count, each with the number of its group and its weight."""

    of: Places
    weights: Weights
    values: list[pa.Array]


class Argument:
    """See the module."""

    def __init__(self, about: About, schema: pa.Schema, keys: Sequence[str]) -> None:
        self.about = about
        self.types = [schema.field(name).type for name in about.columns]
        self._keys = [pa.field(f"key {i}", schema.field(name).type) for i, name in enumerate(keys)]
        self._values = [pa.field(f"value {i}", type_) for i, type_ in enumerate(self.types)]
        self._names = [field.name for field in (*self._keys, *self._values)]
        self._often: Replaced | None = None
        if about.distinct:
            self._often = Replaced(pa.schema([*self._keys, *self._values, ("rows", pa.int64())]), self._names)
        self._arranged: Arrangement | None = None
        self.has_edges = False
        """Whether `edge_of` can tell the first and last of values that are kept."""

    def arrange(self) -> None:
        """Keep all values by group, so that `values_of` finds them."""
        if self._arranged is None:
            alone = len(self.types) == 1 and has_order_number(self.types[0])
            self._arranged = Arrangement(
                pa.schema([*self._keys, *self._values]),
                [key.name for key in self._keys],
                ranked=self._values[0].name if alone else None,
            )
            self.has_edges = alone

    def came(self, changes: Changes, groups: Touched) -> Came:
        """The values that count of some changes, which are taken in; once for each."""
        came = self._counting(changes, groups)
        if self._often is not None:
            came = self._first_and_last(came, groups, self._often)
        if self._arranged is not None and len(came.of):
            keys = [key.take(pa.array(came.of)) for key in groups.keys]
            rows = pa.Table.from_arrays([*keys, *came.values], schema=self._arranged.schema)
            self._arranged.take_in(Changes(rows, came.weights))
        return came

    def values_of(self, groups: Touched, numbers: Places) -> Came:
        """All values of some groups as they are now, by their numbers, if they are kept."""
        assert self._arranged is not None
        at = pa.array(numbers)
        return self._came(self._arranged.found([key.take(at) for key in groups.keys], len(numbers)), numbers)

    def edge_of(self, groups: Touched, numbers: Places, *, last: bool) -> Came:
        """The first or last value of each of some groups as they are now, by their numbers."""
        assert self._arranged is not None
        at = pa.array(numbers)
        keys = [key.take(at) for key in groups.keys]
        return self._came(self._arranged.edge_of(keys, len(numbers), last=last), numbers)

    def _came(self, found: Found, numbers: Places) -> Came:
        rows = found.changes.rows
        values = [one_array(rows.column(field.name)) for field in self._values]
        return Came(numbers[found.of], found.changes.weights, values)

    def kept(self) -> Mapping[str, Arrangement]:
        kept: dict[str, Arrangement] = {} if self._often is None else {"often": self._often}
        return kept if self._arranged is None else {**kept, "values": self._arranged}

    def _counting(self, changes: Changes, groups: Touched) -> Came:
        counts = np.ones(len(changes.weights), np.bool_)
        for name in self.about.needed:
            counts &= valid(changes.gathered.column(name))
        for name in self.about.filters:
            counts &= pc.fill_null(one_array(changes.gathered.column(name)), False).to_numpy(zero_copy_only=False)
        of, weights = groups.of_row, changes.weights
        columns = [one_array(changes.gathered.column(name)) for name in self.about.columns]
        if not counts.all():
            of, weights = of[counts], weights[counts]
            columns = [column.filter(pa.array(counts)) for column in columns]
        return Came(of, weights, [one_array(one_zero(column)) for column in columns])

    def _first_and_last(self, came: Came, groups: Touched, often: Replaced) -> Came:
        different = encode([pa.array(came.of), *came.values], len(came.of))
        numbers, *values = different.keys(np.arange(different.size, dtype=np.int32))
        columns = [*(key.take(numbers) for key in groups.keys), *values]
        codes = hashed(columns, different.size)
        before, after = np.zeros(different.size, np.int64), np.zeros(different.size, np.int64)
        latest, at = often.latest(columns, codes)
        before[at] = integers(latest.column("rows"))
        np.add.at(after, different.codes, came.weights)
        after += before
        often.put(pa.Table.from_arrays([*columns, pa.array(after)], schema=often.schema), codes, after != 0)
        turned = (after != 0).astype(np.int64) - (before != 0)
        places = np.flatnonzero(turned)
        at = pa.array(places)
        return Came(numbers.to_numpy()[places], turned[places], [value.take(at) for value in values])
