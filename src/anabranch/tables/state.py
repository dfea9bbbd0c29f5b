"""The rows of a table at one version: immutable runs of rows, and which rows of each are still there.

A change leaves runs as they are: it takes rows out by a new mask, and adds what came as a run of its own. Runs are
joined as they grow, each far larger than the next, so that a row is joined a few times in its life, and a key is
looked for in few places.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from anabranch.kernels.groups import encode
from anabranch.kernels.keyed import KeyIndex, Places, last_of_each
from anabranch.kernels.nested import comparable
from anabranch.kernels.values import Column

Mask = NDArray[np.bool_]

_SMALL = 1024
"""A run of so few rows may be mostly dead."""


@dataclass(frozen=True, eq=False)
class Run:
    """Rows whose keys are all different, and among them, once it is asked for, an index of their keys."""

    rows: pa.Table
    key: tuple[str, ...]
    is_sorted: bool = False
    """Whether they stand in the order of their keys."""

    @cached_property
    def index(self) -> KeyIndex:
        return KeyIndex([self.rows.column(name) for name in self.key])


class Piece(NamedTuple):
    """Rows that lie together: the place of the first, and which of them are still there."""

    base: int
    rows: pa.Table
    alive: Mask


class State:
    """See the module. A place is the number of a row among those of all runs, dead ones too."""

    def __init__(
        self,
        schema: pa.Schema,
        key: tuple[str, ...],
        runs: Sequence[Run] = (),
        alive: Sequence[Mask] = (),
        row: int = 0,
        version: int = 0,
    ) -> None:
        self.schema = schema
        self.key = key
        self.row = row
        """How many rows of the log of changes are taken in."""
        self.version = version
        self._runs = tuple(runs)
        self._alive = tuple(alive)
        self._counts = [int(mask.sum()) for mask in self._alive]
        self._base = np.cumsum([0, *(run.rows.num_rows for run in self._runs)])

    def __len__(self) -> int:
        return sum(self._counts)

    @property
    def nbytes(self) -> int:
        return sum(run.rows.nbytes + 16 * run.rows.num_rows for run in self._runs)

    # -- reading -----------------------------------------------------------------------------------

    def find(self, keys: Sequence[Column]) -> Places:
        """The place of the row of each key, -1 where there is none; keys have no NULL."""
        found = np.full(len(keys[0]), -1, np.int64)
        for number in range(len(self._runs) - 1, -1, -1):
            at = self._runs[number].index.find(keys)
            there = np.flatnonzero(at >= 0)
            there = there[self._alive[number][at[there]]]
            found[there] = at[there] + self._base[number]
        return found

    def pieces(self) -> list[Piece]:
        """All rows as they lie."""
        return [
            Piece(int(base), run.rows, alive)
            for run, alive, base in zip(self._runs, self._alive, self._base, strict=False)
        ]

    def take(self, places: Places, names: Sequence[str] | None = None) -> pa.Table:
        """The rows at some places, in that order; one of NULLs where a place is -1."""
        names = list(self.schema.names if names is None else names)
        parts, order = [], []
        numbers = np.searchsorted(self._base, places, side="right") - 1
        for number in np.unique(numbers).tolist():
            mine = np.flatnonzero(numbers == number)
            order.append(mine)
            if number < 0:
                fields = [self.schema.field(name) for name in names]
                parts.append(pa.table([pa.nulls(len(mine), f.type) for f in fields], names=names))
            else:
                at = pa.array(places[mine] - self._base[number])
                parts.append(self._runs[number].rows.select(names).take(at))
        if len(parts) == 1:
            return parts[0].combine_chunks()
        if not parts:
            return self.schema.empty_table().select(names)
        back = np.empty(len(places), np.int64)
        back[np.concatenate(order)] = np.arange(len(places))
        return pa.concat_tables(parts).combine_chunks().take(pa.array(back))

    @cached_property
    def table(self) -> pa.Table:
        """All rows in the order of their keys: the same however the runs lie."""
        pieces = [rows if alive.all() else rows.filter(pa.array(alive)) for _, rows, alive in self.pieces()]
        if not pieces:
            return self.schema.empty_table()
        whole = pa.concat_tables(pieces).combine_chunks()
        if len(self._runs) == 1 and self._runs[0].is_sorted:
            return whole
        by = pa.table({name: comparable(whole.column(name)) for name in self.key})
        return whole.take(pc.sort_indices(by, sort_keys=[(name, "ascending") for name in self.key]))

    # -- changing ----------------------------------------------------------------------------------

    def changed(self, gone: Places, came: pa.Table, row: int, version: int) -> State:
        """The state after rows at some places have gone, and others came whose keys are then all different."""
        alive = list(self._alive)
        numbers = np.searchsorted(self._base, gone, side="right") - 1
        for number in np.unique(numbers).tolist():
            mask = alive[number].copy()
            mask[gone[numbers == number] - self._base[number]] = False
            alive[number] = mask
        runs = list(self._runs)
        if came.num_rows:
            runs.append(Run(came.combine_chunks(), self.key))
            alive.append(np.ones(came.num_rows, np.bool_))
        return State(self.schema, self.key, *_joined(runs, alive), row, version)

    def replayed(self, changes: pa.Table, comes: Mask, row: int, version: int) -> State:
        """The state after changes from the log, those of any number of statements: the last of each key decides.

        `comes`: the changes after which the row is there.
        """
        groups = encode([changes.column(name) for name in self.key], changes.num_rows)
        last = last_of_each(groups.codes, groups.size)
        known = self.find([column.take(pa.array(last)) for column in map(changes.column, self.key)])
        came = changes.select(self.schema.names).take(pa.array(last[comes[last]]))
        return self.changed(known[known >= 0], came, row, version)

    def as_one_run(self) -> State:
        """The same rows as one run in the order of their keys."""
        run = Run(self.table, self.key, is_sorted=True)
        return State(self.schema, self.key, [run], [np.ones(len(self), np.bool_)], self.row, self.version)


def _joined(runs: list[Run], alive: list[Mask]) -> tuple[list[Run], list[Mask]]:
    """Runs that are each at least twice as large as the next, and not mostly dead."""
    kept: list[tuple[Run, Mask, int]] = []
    for run, mask in zip(runs, alive, strict=True):
        count = int(mask.sum())
        if count == 0:
            continue
        if run.rows.num_rows > _SMALL and 2 * count < run.rows.num_rows:
            rows = run.rows.filter(pa.array(mask)).combine_chunks()
            run, mask = Run(rows, run.key, run.is_sorted), np.ones(count, np.bool_)
        while kept and kept[-1][2] < 2 * count:
            before, before_mask, _ = kept.pop()
            parts = [before.rows.filter(pa.array(before_mask)), run.rows.filter(pa.array(mask))]
            run = Run(pa.concat_tables(parts).combine_chunks(), run.key)
            count = run.rows.num_rows
            mask = np.ones(count, np.bool_)
        kept.append((run, mask, count))
    return [run for run, _, _ in kept], [mask for _, mask, _ in kept]
