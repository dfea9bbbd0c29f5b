"""Summaries of windows, as functions on Arrow tables.

This is the windowed aggregation of S. Chandrasekaran and M. Franklin, Remembrance of Streams Past (VLDB 2004), section
4.2. A summary has one row per tumbling window (counted from 1970) and group: `window_start`, `window_end`, the keys,
`rows`, and for each value column v `v_count` (not NULL), `v_sum`, `v_min` and `v_max`. Summaries of finer windows and
more keys add up to those of coarser windows and fewer keys. Sums of whole numbers and decimals are exact; those of
doubles are added in the order of rows, windows and groups.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from anabranch.kernels.fold import Count, Exact, Extreme, IntegerSum, Slots, assign_slots
from anabranch.kernels.groups import encode
from anabranch.kernels.sums import DoubleSum
from anabranch.kernels.sums import totals as sums_of
from anabranch.kernels.values import Column, from_order_numbers, frozen, has_order_number, integers, one_array
from anabranch.schema import TIME_TYPE

PARTS = ("count", "sum", "min", "max")
"""What is kept of each value column."""
_LARGE_SUM = pa.decimal128(38, 0)


@dataclass(frozen=True)
class Shape:
    """Which summaries: of windows of `every` µs, by which key columns, of which value columns."""

    every: int
    keys: tuple[str, ...] = ()
    values: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        """The columns of its summaries, no two the same even if the stream's are named like ours.

        >>> Shape(60, ("rows",), ("v",)).names[2:6]
        ['rows', 'rows_', 'v_count', 'v_sum']
        """
        wanted = ["window_start", "window_end", *self.keys, "rows"]
        names: list[str] = []
        for name in [*wanted, *(f"{value}_{part}" for value in self.values for part in PARTS)]:
            while name.lower() in {n.lower() for n in names}:
                name += "_"
            names.append(name)
        return names

    @property
    def rows_at(self) -> int:
        """The place of the column that counts rows; those of the values follow it."""
        return 2 + len(self.keys)

    def value_at(self, value: str, part: str) -> int:
        """The place of the column with a part of a value."""
        return self.rows_at + 1 + self.values.index(value) * len(PARTS) + PARTS.index(part)

    def schema(self, rows: pa.Schema) -> pa.Schema:
        """The schema of its summaries of rows with this schema."""
        types = [TIME_TYPE, TIME_TYPE, *(rows.field(key).type for key in self.keys), pa.int64()]
        for value in self.values:
            own = rows.field(value).type
            types += [pa.int64(), sum_type(own), own, own]
        return pa.schema(list(zip(self.names, types, strict=True)))

    def makes(self, other: Shape) -> bool:
        """Whether its summaries add up to those of another shape."""
        return (
            other.every % self.every == 0
            and set(other.keys) <= set(self.keys)
            and set(other.values) <= set(self.values)
        )


def is_value(type_: pa.DataType) -> bool:
    """Whether summaries can be made of a column of this type: it is a number."""
    return bool(pa.types.is_signed_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_))


def sum_type(type_: pa.DataType) -> pa.DataType:
    """The type that holds every sum of a number's type; a sum of BIGINTs may need more than 64 bits."""
    if pa.types.is_int64(type_):
        return _LARGE_SUM
    if pa.types.is_signed_integer(type_):
        return pa.int64()
    return pa.decimal128(38, type_.scale) if pa.types.is_decimal(type_) else pa.float64()


def window_of(time: int, every: int) -> int:
    """The start of the window that holds a time.

    >>> window_of(-1, 10), window_of(10, 10)
    (-10, 10)
    """
    return time // every * every


def summarise(
    table: pa.Table, time_column: str, every: int, keys: Sequence[str] = (), values: Sequence[str] = ()
) -> pa.Table:
    """The summaries of rows, by window and then by keys, NULL first. Rows may stand in any order of time.

    >>> rows = pa.table({"ts": pa.array([1, 2, 11], pa.timestamp("us", "UTC")), "v": [5, None, 7]})
    >>> summarise(rows, "ts", 10, values=["v"]).select(["rows", "v_count", "v_max"]).to_pylist()
    [{'rows': 2, 'v_count': 1, 'v_max': 5}, {'rows': 1, 'v_count': 1, 'v_max': 7}]
    """
    shape = Shape(every, tuple(keys), tuple(values))
    windows = integers(table.column(time_column)) // every
    slots, ordered, order = _slots(windows, [table.column(key) for key in keys], table.num_rows)
    columns: list[pa.Array] = [_counted(slots, None)]
    for value in values:
        column = one_array(table.column(value))
        column = column if order is None else column.take(pa.array(order))
        counts = _counted(slots, column)
        present = counts.to_numpy() > 0
        columns += [counts, _sum(slots, column, present)]
        columns += [_extreme(slots, column, present, largest) for largest in (False, True)]
    return _table(shape, shape.schema(table.schema), ordered, columns)


def combine(
    summaries: pa.Table | Iterable[pa.Table], shape: Shape, every: int | None = None, keys: Sequence[str] | None = None
) -> pa.Table:
    """The summaries of coarser windows (a multiple of the finer ones) and fewer keys, of summaries of a shape.

    Several summaries of the same window and group, such as those of parts of it, are added up.
    """
    tables = [summaries] if isinstance(summaries, pa.Table) else list(summaries)
    given = pa.concat_tables(tables)
    wanted = Shape(every or shape.every, shape.keys if keys is None else tuple(keys), shape.values)
    if not shape.makes(wanted):
        raise ValueError(f"summaries of {shape} do not add up to {wanted}")
    windows = integers(given.column(0)) // wanted.every
    key_columns = [given.column(2 + shape.keys.index(key)) for key in wanted.keys]
    slots, ordered, order = _slots(windows, key_columns, given.num_rows)
    columns = _combined(given, shape, slots, order)
    kept = [given.schema.field(at) for at in (0, 1, *(2 + shape.keys.index(key) for key in wanted.keys))]
    kept += [given.schema.field(at) for at in range(shape.rows_at, given.num_columns)]
    schema = pa.schema([f.with_name(name) for f, name in zip(kept, wanted.names, strict=True)])
    return _table(wanted, schema, ordered, columns)


def selected(summaries: pa.Table, held: Shape, wanted: Shape) -> pa.Table:
    """Summaries with fewer value columns: those of `held` cut down to `wanted`, which has the same keys and windows."""
    held = Shape(wanted.every, wanted.keys, held.values)
    places = [*range(wanted.rows_at + 1)]
    places += [held.value_at(value, part) for value in wanted.values for part in PARTS]
    return summaries.select(places).rename_columns(wanted.names)


def totals(summaries: pa.Table, shape: Shape, keys: Sequence[Column]) -> tuple[list[pa.Array], list[pa.Array]]:
    """Summaries of all windows together by any keys: the keys, NULL first, and the columns from `rows` on."""
    slots, ordered, order = _slots(np.zeros(summaries.num_rows, np.int64), keys, summaries.num_rows)
    by_key = pa.array(ordered.order)
    columns = _combined(summaries, shape, slots, order)
    return [key.take(by_key) for key in ordered.keys], [column.take(by_key) for column in columns]


def _combined(given: pa.Table, shape: Shape, slots: Slots, order: NDArray[np.int64] | None) -> list[pa.Array]:
    """The columns from `rows` on, added up by slot."""

    def column(at: int) -> pa.Array:
        whole = one_array(given.column(at))
        return whole if order is None else whole.take(pa.array(order))

    columns = [_added(slots, column(shape.rows_at))]
    for value in shape.values:
        counts, sums, *extremes = (column(shape.value_at(value, part)) for part in PARTS)
        total = _added(slots, counts)
        present = total.to_numpy() > 0
        columns += [total, _sum(slots, sums, present, sums.type)]
        columns += [_extreme(slots, e, present, largest) for e, largest in zip(extremes, (False, True), strict=True)]
    return columns


@dataclass(frozen=True)
class _Ordered:
    """What the rows of the result are, and in which order of slots they come."""

    windows: NDArray[np.int64]
    keys: list[pa.Array]
    order: NDArray[np.int64]


def _slots(
    windows: NDArray[np.int64], keys: Sequence[Column], length: int
) -> tuple[Slots, _Ordered, NDArray[np.int64] | None]:
    """A slot for each (window, group), and how entries must be ordered before they are folded (None: as they are)."""
    groups = encode(keys, length)
    codes, order = groups.codes, None
    if np.any(windows[1:] < windows[:-1]):
        order = np.argsort(windows, kind="stable")
        windows, codes = windows[order], codes[order]
    starts = np.flatnonzero(np.diff(windows, prepend=windows[0] - 1)) if length else np.zeros(0, np.int64)
    slots = assign_slots(frozen(codes), np.append(starts, length), groups.size)
    window_of_slot = windows[starts][slots.segments()]
    ranks = groups.ranks()[slots.code] if slots.count else np.zeros(0, np.int64)
    return slots, _Ordered(window_of_slot, groups.keys(slots.code), np.lexsort((ranks, window_of_slot))), order


def _table(shape: Shape, schema: pa.Schema, ordered: _Ordered, columns: list[pa.Array]) -> pa.Table:
    starts = pa.array(ordered.windows * shape.every).view(TIME_TYPE)
    ends = pa.array((ordered.windows + 1) * shape.every).view(TIME_TYPE)
    table = pa.Table.from_arrays([starts, ends, *ordered.keys, *columns], schema=schema)
    return table if np.all(np.diff(ordered.order) == 1) else table.take(pa.array(ordered.order))


def _counted(slots: Slots, column: pa.Array | None) -> pa.Array:
    return Count().fold(slots, [pa.array([], pa.int64())], column)[0]


def _added(slots: Slots, counts: pa.Array) -> pa.Array:
    return Count().combine(slots, [counts])[0]


def _sum(slots: Slots, column: pa.Array, present: NDArray[np.bool_], to: pa.DataType | None = None) -> pa.Array:
    """The sums of slots, NULL for those without a value. `to` is the type of sums that are added up."""
    wanted = to or sum_type(column.type)
    if pa.types.is_int64(column.type) and to is None:
        return _large_sum(slots, column, present)
    if pa.types.is_decimal(wanted):
        return Exact("sum", wanted).combine(slots, [column])[0] if slots.count else pa.array([], wanted)
    if not pa.types.is_integer(wanted):  # in any order the same, as in a standing query
        (doubles,) = DoubleSum().fold(slots, [pa.array([], DoubleSum.types[0])], column)
        return _null_where(pa.array(sums_of(doubles)), present)
    (sums,) = IntegerSum().fold(slots, [pa.array([], wanted)], column)
    return _null_where(sums, present)


def _large_sum(slots: Slots, column: pa.Array, present: NDArray[np.bool_]) -> pa.Array:
    """Sums of halves of 32 bits fit 64, and are put together where there are few: one per slot."""
    numbers, empty = integers(column), [pa.array([], pa.int64())]
    high, low = (
        IntegerSum().fold(slots, empty, pa.array(half))[0].cast(pa.decimal128(19, 0))
        for half in (numbers >> 32, numbers & 0xFFFF_FFFF)
    )
    whole = pc.add(pc.multiply(high, pa.scalar(Decimal(2**32), pa.decimal128(10, 0))), low)
    return _null_where(whole.cast(_LARGE_SUM), present)


def _extreme(slots: Slots, column: pa.Array, present: NDArray[np.bool_], largest: bool) -> pa.Array:
    if not has_order_number(column.type):
        function = Exact("max" if largest else "min", column.type)
        return function.combine(slots, [column])[0] if slots.count else pa.array([], column.type)
    (numbers,) = Extreme(largest).fold(slots, [pa.array([], pa.int64())], column)
    return from_order_numbers(numbers.to_numpy(), present, column.type)


def _null_where(values: pa.Array, present: NDArray[np.bool_]) -> pa.Array:
    return values if present.all() else pc.if_else(pa.array(present), values, pa.scalar(None, values.type))
