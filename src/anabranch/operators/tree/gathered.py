"""Gathered: rows known by their places in tables, of which a column is taken only when it is looked at.

A pair of a join is a row of each side, and mostly a few columns decide whether the next step keeps it. So rows go from
step to step as places, and what they say is copied once, where they are kept or answered.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.kernels.values import one_array

Places = NDArray[np.int64]


class Picked(NamedTuple):
    """Values of a column at some places; None: all of them as they stand."""

    values: pa.Array
    places: Places | None

    def at(self, places: Places | None) -> pa.Array:
        """Those of the values that stand at some places among these."""
        if places is None:
            places = self.places
        elif self.places is not None:
            places = self.places[places]
        return self.values if places is None else self.values.take(pa.array(places))


class Block(NamedTuple):
    """So many rows, as columns of equal length."""

    columns: tuple[Picked, ...]
    length: int

    def take(self, places: Places) -> Block:
        composed: dict[int, Places] = {}
        columns = []
        for values, mine in self.columns:
            if id(mine) not in composed:
                composed[id(mine)] = places if mine is None else mine[places]
            columns.append(Picked(values, composed[id(mine)]))
        return Block(tuple(columns), len(places))


class _Apart(NamedTuple):
    """Places in some blocks one behind the other: those in each of them, and where these come in turn."""

    places: list[Places]
    back: pa.Array

    @staticmethod
    def of(blocks: Sequence[Block], places: Places) -> _Apart:
        parts, found, begin = [], [], 0
        for block in blocks:
            mine = np.flatnonzero((places >= begin) & (places < begin + block.length))
            found.append(mine)
            parts.append(places[mine] - begin)
            begin += block.length
        back = np.empty(len(places), np.int64)
        back[np.concatenate(found)] = np.arange(len(places))
        return _Apart(parts, pa.array(back))


class Gathered:
    """Rows of a schema: those of some blocks one behind the other, or in some `order` of them."""

    def __init__(self, schema: pa.Schema, blocks: Sequence[Block], order: Places | None = None) -> None:
        self.schema = schema
        self._blocks = tuple(blocks)
        self._order = order
        self._length = sum(block.length for block in blocks) if order is None else len(order)
        self._known: dict[int, pa.Array] = {}

    @staticmethod
    def of(rows: pa.Table) -> Gathered:
        """All rows of a table."""
        columns = tuple(Picked(one_array(column), None) for column in rows.columns)
        return Gathered(rows.schema, [Block(columns, rows.num_rows)])

    @staticmethod
    def together(parts: Sequence[Gathered]) -> Gathered:
        """All rows of some, one behind the other; there is at least one."""
        blocks = [block for part in parts for block in part._blocks]
        if all(part._order is None for part in parts):
            return Gathered(parts[0].schema, blocks)
        orders, begin = [], 0
        for part in parts:
            total = sum(block.length for block in part._blocks)
            orders.append(begin + (np.arange(total) if part._order is None else part._order))
            begin += total
        return Gathered(parts[0].schema, blocks, np.concatenate(orders))

    def __len__(self) -> int:
        return self._length

    def column(self, which: str | int) -> pa.Array:
        """The values of a column, by its name or place."""
        number = which if isinstance(which, int) else self.schema.get_field_index(which)
        if number not in self._known:
            self._known[number] = self._taken(number, self._order)
        return self._known[number]

    def taken(self, which: str | int, places: Places) -> pa.Array:
        """The values of a column of the rows at some places."""
        number = which if isinstance(which, int) else self.schema.get_field_index(which)
        if number in self._known:
            return self._known[number].take(pa.array(places))
        return self._taken(number, places if self._order is None else self._order[places])

    def _taken(self, number: int, places: Places | None) -> pa.Array:
        if len(self._blocks) == 1:
            return self._blocks[0].columns[number].at(places)
        if not self._blocks:
            return pa.array([], self.schema.field(number).type)
        if places is None:
            return pa.concat_arrays([block.columns[number].at(None) for block in self._blocks])
        apart = self._apart if places is self._order else _Apart.of(self._blocks, places)
        parts = [block.columns[number].at(mine) for block, mine in zip(self._blocks, apart.places, strict=True)]
        return pa.concat_arrays(parts).take(apart.back)

    @cached_property
    def _apart(self) -> _Apart:
        assert self._order is not None
        return _Apart.of(self._blocks, self._order)

    def columns(self) -> list[pa.Array]:
        return [self.column(number) for number in range(len(self.schema))]

    def table(self, names: Iterable[str] | None = None) -> pa.Table:
        """The rows as they stand in memory; those of the columns that are named, or all."""
        wanted = self.schema.names if names is None else list(names)
        schema = self.schema if names is None else pa.schema([self.schema.field(name) for name in wanted])
        if not wanted:
            return pa.table({"": pa.nulls(len(self))}).select([])
        return pa.Table.from_arrays([self.column(name) for name in wanted], schema=schema)

    # -- others made of it, which take nothing ---------------------------------------------------------

    def take(self, places: Places) -> Gathered:
        """The rows at some places."""
        if len(self._blocks) == 1:
            block = self._blocks[0]
            return Gathered(self.schema, [block.take(places if self._order is None else self._order[places])])
        return Gathered(self.schema, self._blocks, places if self._order is None else self._order[places])

    def filter(self, kept: NDArray[np.bool_]) -> Gathered:
        return self if kept.all() else self.take(np.flatnonzero(kept))

    def with_columns(self, schema: pa.Schema, columns: Sequence[int | pa.Array]) -> Gathered:
        """Rows of another schema: each column is the one with a number here, or some values."""
        places = [column for column in columns if isinstance(column, int)]
        if len(places) == len(columns):
            blocks = [Block(tuple(block.columns[at] for at in places), block.length) for block in self._blocks]
            return Gathered(schema, blocks, self._order)
        if len(self._blocks) != 1 or self._order is not None:
            chosen = [self.column(column) if isinstance(column, int) else column for column in columns]
            return Gathered(schema, [Block(tuple(Picked(values, None) for values in chosen), len(self))])
        mine = self._blocks[0].columns
        picked = (
            (Picked(self._known[column], None) if column in self._known else mine[column])
            if isinstance(column, int)
            else Picked(column, None)
            for column in columns
        )
        return Gathered(schema, [Block(tuple(picked), len(self))])

    def beside(self, other: Gathered, schema: pa.Schema) -> Gathered:
        """The columns of these rows and then those of as many others."""
        blocks = []
        for rows in (self, other):
            whole = rows if len(rows._blocks) == 1 and rows._order is None else Gathered.of(rows.table())
            blocks.append(whole._blocks[0])
        return Gathered(schema, [Block((*blocks[0].columns, *blocks[1].columns), len(self))])
