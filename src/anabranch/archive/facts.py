"""What is known of rows without reading them: how far the numbers of a column reach, and which rows lie far out.

A sample cannot see what it missed: of a million rows of which twenty make the sum, one in a hundred has most likely
none of the twenty. So whoever writes a run puts rows apart whose values are far from the others (`kernels.outlying`),
as a block that every estimate reads, and notes between which values all other rows lie. Both stand in the run's own
file, so neither can be lost or be of other rows.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.kernels.outlying import Extent, extent, far_places
from anabranch.kernels.values import floats, one_array, valid

_OF_A_COLUMN, _OF_ALL = 256, 128
"""One row in so many is put apart for a column at most, and for all columns together."""
_LEAST = 64
"""So many may always be."""
_EXACT = 2.0**53


class Range(NamedTuple):
    """Between which values the numbers of a column lie."""

    low: float
    high: float

    def with_(self, other: Range) -> Range:
        return Range(min(self.low, other.low), max(self.high, other.high))


NOTHING = Range(math.inf, -math.inf)
"""The range of no value at all."""
ANYTHING = Range(-math.inf, math.inf)
"""That of values of which nothing is known."""

Ranges = Mapping[str, Range]


class Aside(NamedTuple):
    """Rows that lie far out, with their numbers in a first column, and the ranges of all others by column."""

    rows: pa.Table
    ranges: Ranges
    told: bool = True
    """False if some file does not say which of its rows lie far out, so that there may be others."""


class Facts(NamedTuple):
    """Which rows lie far out, by place, and the ranges of the others."""

    far: NDArray[np.int64]
    ranges: Ranges


def is_number(type_: pa.DataType) -> bool:
    """Whether facts are kept of columns of this type."""
    return bool(pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_))


def facts_of(rows: pa.Table, columns: Iterable[str]) -> Facts:
    """The facts of rows, of those of the columns that are numbers.

    >>> facts_of(pa.table({"v": [*range(100), 10**9], "s": ["a"] * 101}), ["v", "s"])
    Facts(far=array([100]), ranges={'v': Range(low=0.0, high=99.0)})
    """
    numbers = [name for name in columns if is_number(rows.schema.field(name).type)]
    values = {name: floats(rows.column(name)) for name in numbers}
    present = {name: valid(rows.column(name)) if rows.column(name).null_count else None for name in numbers}
    extents = {name: extent(values[name], present[name]) for name in numbers}
    suspect = [name for name in numbers if extents[name].has_far]
    most = max(min(rows.num_rows // _OF_A_COLUMN, rows.num_rows // _OF_ALL // max(len(suspect), 1)), _LEAST)
    far = np.zeros(0, np.int64)
    for name in suspect:
        far = np.union1d(far, far_places(values[name], present[name], extents[name], most))
    if len(far):
        near = np.ones(rows.num_rows, bool)
        near[far] = False
        for name in suspect:
            there = present[name]
            extents[name] = extent(values[name], near if there is None else near & there)
    return Facts(far, {name: _range(extents[name]) for name in numbers})


def ranges_of(rows: pa.Table) -> Ranges:
    """The ranges of rows that are all there, of those of their columns that are numbers."""
    numbers = [name for name in rows.column_names if is_number(rows.schema.field(name).type)]
    return {name: _range(extent(floats(rows.column(name)), valid(rows.column(name)))) for name in numbers}


def _range(reach: Extent) -> Range:
    if reach.odd:
        return ANYTHING
    if not reach.number:
        return NOTHING
    low, high = reach.low, reach.high
    # Beyond this a double may lie beside the number it is of.
    return Range(
        low if abs(low) < _EXACT else np.nextafter(low, -np.inf).item(),
        high if abs(high) < _EXACT else np.nextafter(high, np.inf).item(),
    )


def united(columns: Sequence[str], parts: Iterable[Ranges]) -> Ranges:
    """The ranges of several parts together; of what one says nothing of, nothing is known."""
    ranges = dict.fromkeys(columns, NOTHING)
    for part in parts:
        for name in columns:
            ranges[name] = ranges[name].with_(part.get(name, ANYTHING))
    return ranges


def aside_of(rows: pa.Table, first: int, start: int, end: int, columns: Sequence[str], stretch: int) -> Aside:
    """What lies far out of rows that are not in runs, numbered from `first`, of those start ≤ n < end.

    Facts are those of stretches of so many rows, whichever of them are asked for.
    """
    ranges: list[Ranges] = []
    places: list[NDArray[np.int64]] = [np.zeros(0, np.int64)]
    low = first
    while low < first + rows.num_rows:
        high = min((low // stretch + 1) * stretch, first + rows.num_rows)
        if low < end and high > start:
            facts = facts_of(rows.slice(low - first, high - low), columns)
            ranges.append(facts.ranges)
            places.append(facts.far + low)
        low = high
    numbers = np.concatenate(places)
    numbers = numbers[(numbers >= start) & (numbers < end)]
    far = rows.select(list(columns)).take(pa.array(numbers - first)).add_column(0, "_row", pa.array(numbers))
    return Aside(far, united(columns, ranges))


# -- in files --------------------------------------------------------------------------------------


def to_text(ranges: Ranges) -> bytes:
    """Ranges as they stand in a file.

    >>> from_text(to_text({"v": Range(0.1, 2.0), "w": NOTHING}))
    {'v': Range(low=0.1, high=2.0), 'w': Range(low=inf, high=-inf)}
    """
    return json.dumps({name: [float(end).hex() for end in ends] for name, ends in ranges.items()}).encode()


@functools.lru_cache(maxsize=4096)
def from_text(text: bytes) -> Ranges:
    """What `to_text` gave."""
    return {name: Range(*map(float.fromhex, ends)) for name, ends in json.loads(text).items()}


def places_in(numbers: pa.ChunkedArray | pa.Array, far: pa.ChunkedArray | pa.Array) -> NDArray[np.bool_]:
    """Which of the row numbers are among those of rows that lie far out."""
    mine: NDArray[np.int64] = one_array(numbers).to_numpy()
    others = np.sort(one_array(far).to_numpy())
    if not len(others):
        return np.zeros(len(mine), bool)
    at = np.minimum(np.searchsorted(others, mine), len(others) - 1)
    is_far: NDArray[np.bool_] = others[at] == mine
    return is_far


def with_aside(rows: pa.Table, apart: pa.Table) -> tuple[pa.Table, NDArray[np.bool_]]:
    """Rows of a reduced read and those that lie far out, each once, and which of them do."""
    near = rows.filter(pa.array(~places_in(rows.column("_row"), apart.column("_row"))))
    both = pa.concat_tables([near, apart.select(near.column_names)])
    return both, np.arange(both.num_rows) >= near.num_rows
