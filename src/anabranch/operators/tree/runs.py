"""Runs: rows with weights in an order that lets a key be found, and that never change once they are made.

A run has entries that are sorted by the code of their rows, which is a hash of the key or, where keys are wanted in
their order, the number of the key in it. Those with the same code are in the order of a rank. Each entry has the place
of its row: rows that are found by hashes stay where they came, as to move them costs more than all else, and only when
some of them go the others close up. Weights, codes, ranks and places are columns of the run, so that one that is
mapped from a file needs nothing in memory to be searched.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.kernels.digests import digests
from anabranch.kernels.groups import encode
from anabranch.kernels.same_rows import same_rows
from anabranch.kernels.sorted_codes import Codes, in_order, merged
from anabranch.kernels.values import Column, compared_numbers
from anabranch.operators.tree.changes import Changes, Weights
from anabranch.operators.tree.gathered import Gathered

Places = NDArray[np.int64]
CodeOf = Callable[[Sequence[Column], int], Codes]

_EXTRA = (
    pa.field("weight", pa.int64()),
    pa.field("code", pa.uint64()),
    pa.field("rank", pa.uint64()),
    pa.field("place", pa.int64()),
)
_MOST_BYTES = 1 << 30
"""Runs are not joined beyond this: a column of texts has at most 2 GB."""


class Run:
    """Rows as they stand, and as the last columns of the same table the entries, in their order."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table.combine_chunks()
        self.name: str | None = None
        """The name of a file that it was written to or read from."""

    @staticmethod
    def of(rows: pa.Table, weights: Weights, codes: Codes, ranks: Codes, places: Places | None = None) -> Run:
        """Entries that are in order, of which each has its row at a place; None: the first the first, and so on."""
        if places is None:
            places = np.arange(len(weights))
        schema = pa.schema([*rows.schema, *_EXTRA])
        columns = [*rows.columns, *(pa.chunked_array([pa.array(each)]) for each in (weights, codes, ranks, places))]
        return Run(pa.Table.from_arrays(columns, schema=schema))

    @staticmethod
    def schema_of(rows: pa.Schema) -> pa.Schema:
        """The schema of the tables of runs of rows."""
        return pa.schema([*rows, *_EXTRA])

    def __len__(self) -> int:
        return int(self.table.num_rows)

    @cached_property
    def nbytes(self) -> int:
        return int(self.table.nbytes)

    @cached_property
    def rows(self) -> pa.Table:
        return self.table.select(range(self.table.num_columns - len(_EXTRA)))

    @cached_property
    def weights(self) -> Weights:
        return self._extra(0)

    @cached_property
    def codes(self) -> Codes:
        return self._extra(1)

    @cached_property
    def ranks(self) -> Codes:
        return self._extra(2)

    @cached_property
    def weights_from(self) -> Weights:
        """For each place, and the one past the last, the sum of the weights from there on."""
        sums = np.zeros(len(self) + 1, np.int64)
        np.cumsum(self.weights[::-1], out=sums[1:])
        return sums[::-1]

    def _extra(self, which: int) -> NDArray[Any]:
        column = self.table.column(self.table.num_columns - len(_EXTRA) + which)
        numbers: NDArray[Any] = column.chunk(0).to_numpy() if column.num_chunks else column.to_numpy()
        return numbers

    @cached_property
    def places(self) -> Places:
        return self._extra(3)

    @cached_property
    def gathered(self) -> Gathered:
        """The rows as they stand."""
        return Gathered.of(self.rows)

    def taken(self, entries: Places) -> Changes:
        """The rows of some entries, with their weights."""
        return Changes(self.gathered.take(self.places[entries]), self.weights[entries])

    def changes(self, begin: int = 0, end: int | None = None) -> Changes:
        """The rows of the entries from one on and before another."""
        some = slice(begin, len(self) if end is None else end)
        return Changes(self.gathered.take(self.places[some]), self.weights[some])

    def without(self, count: int) -> Run:
        """All but its first entries, and rows, which are in the order of these."""
        rest = self.table.slice(count)
        return Run(rest.set_column(rest.num_columns - 1, _EXTRA[3], [self.places[count:] - count]))


def hashed(columns: Sequence[Column], length: int) -> Codes:
    """The code of each row where keys need no order."""
    return digests(columns, length).first


def ordered(columns: Sequence[Column], length: int) -> Codes:
    """The code of each row by the order of the one column of a key that has order numbers; NULL comes first."""
    (column,) = columns
    return numbered(column)


def numbered(column: Column) -> Codes:
    """The order of values as numbers from 0 on: NULL first, NaN last."""
    return compared_numbers(column, -(2**63)).view(np.uint64) ^ np.uint64(1 << 63)


def run_of(
    changes: Changes, key: Sequence[str], code_of: CodeOf, ranked: str | None = None, *, apart: bool = False
) -> Run:
    """Changes as a run: each row once, or `apart` as often as they have it.

    `ranked`: the one column besides the key, in whose order those of a key are.
    """
    rows, count = changes.rows.combine_chunks(), len(changes)
    codes = code_of([rows.column(name) for name in key], count)
    if ranked is not None:
        ranks = numbered(rows.column(ranked))
    elif apart or (code_of is hashed and tuple(key) == tuple(rows.column_names)):
        ranks = codes
    else:
        ranks = hashed(rows.columns, count)
    entries = _Entries(rows, changes.weights, codes, ranks, np.arange(count))
    return entries.run(in_order(codes, ranks), apart=apart, moves=code_of is ordered)


def merged_run(one: Run, other: Run, _oldest: bool = False, *, apart: bool = False, moves: bool = False) -> Run:
    """Two runs as one, each row once, or `apart` as often as they have it."""
    rows = pa.concat_tables([one.rows, other.rows]).combine_chunks()
    entries = _Entries(
        rows,
        np.concatenate([one.weights, other.weights]),
        np.concatenate([one.codes, other.codes]),
        np.concatenate([one.ranks, other.ranks]),
        np.concatenate([one.places, other.places + one.rows.num_rows]),
    )
    order = merged(one.codes, one.ranks, other.codes, other.ranks)
    return entries.run(order, apart=apart, moves=moves)


def summed_by(rows: pa.Table, weights: Weights, codes: Codes, ranks: Codes) -> Run:
    """Rows in the order of code and rank, each once for each code."""
    entries = _Entries(rows, weights, codes, ranks, np.arange(len(weights)))
    return entries.run(in_order(codes, ranks), apart=False, moves=False)


class _Entries(NamedTuple):
    """What becomes a run."""

    rows: pa.Table
    weights: Weights
    codes: Codes
    ranks: Codes
    places: Places

    def run(self, order: Places, *, apart: bool, moves: bool) -> Run:
        """Entries in an order, as a run. `moves`: rows are put in the order of their entries, too."""
        codes, ranks = self.codes[order], self.ranks[order]
        places, sums = self.places[order], self.weights[order]
        if not apart:
            tied = (codes[1:] == codes[:-1]) & (ranks[1:] == ranks[:-1])
            ties = np.flatnonzero(tied)
            if len(ties):
                columns = self.rows.columns
                if not same_rows(columns, places[ties], columns, places[ties + 1]).all():
                    return self._through_encoding()
                first = np.flatnonzero(np.concatenate([[True], ~tied]))
                sums = np.add.reduceat(sums, first)
                codes, ranks, places = codes[first], ranks[first], places[first]
            if not sums.all():
                stays = sums != 0
                codes, ranks, places, sums = codes[stays], ranks[stays], places[stays], sums[stays]
        rows = self.rows
        if moves:
            if len(places) < rows.num_rows or (places[1:] < places[:-1]).any():
                rows = rows.take(pa.array(places))
            places = np.arange(len(places))
        elif len(places) < rows.num_rows:
            stays = np.zeros(rows.num_rows, np.bool_)
            stays[places] = True
            rows, places = rows.filter(pa.array(stays)), (np.cumsum(stays) - 1)[places]
        return Run.of(rows, sums, codes, ranks, places)

    def _through_encoding(self) -> Run:
        """The same where hashes collide: what rows are the same is looked for among all of them."""
        rows = self.rows.take(pa.array(self.places))
        groups = encode([*rows.columns, pa.array(self.codes)], len(self.codes))
        sums = np.zeros(groups.size, np.int64)
        np.add.at(sums, groups.codes, self.weights)
        first = np.full(groups.size, len(self.codes), np.int64)
        np.minimum.at(first, groups.codes, np.arange(len(self.codes)))
        places = first[sums != 0]
        places = places[np.lexsort((places, self.ranks[places], self.codes[places]))]
        sums = sums[groups.codes[places]]
        return Run.of(rows.take(pa.array(places)), sums, self.codes[places], self.ranks[places])


Join = Callable[[Run, Run, bool], Run]
"""An older run and a newer one as one; whether none is older than these."""


def joined(runs: list[Run], join: Join) -> list[Run]:
    """Runs that are each at least twice as large as the next, except for those that are too large to be joined."""
    kept: list[Run] = []
    for run in runs:
        while kept and len(kept[-1]) < 2 * len(run) and kept[-1].nbytes + run.nbytes <= _MOST_BYTES:
            before = kept.pop()
            run = join(before, run, not kept)
        if len(run):
            kept.append(run)
    return kept
