"""Runs: rows with weights in an order that lets a key be found, and that never change once they are made.

A run is sorted by the code of its rows, which is a hash of the key or, where keys are wanted in their order, the
number of the key in it. Rows with the same code are in the order of a rank. Both are columns of the run, so that one
that is mapped from a file needs nothing in memory to be searched.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.kernels.groups import encode
from anabranch.kernels.hashing import hashes_of_rows
from anabranch.kernels.same_rows import same_rows
from anabranch.kernels.sorted_codes import Codes, in_order, merged
from anabranch.kernels.values import Column, compared_numbers
from anabranch.operators.tree.changes import Changes, Weights

Places = NDArray[np.int64]
CodeOf = Callable[[Sequence[Column], int], Codes]

_EXTRA = (pa.field("weight", pa.int64()), pa.field("code", pa.uint64()), pa.field("rank", pa.uint64()))
_MOST_BYTES = 1 << 30
"""Runs are not joined beyond this: a column of texts has at most 2 GB."""


class Run:
    """Rows with their weights, codes and ranks, as a table whose last columns these are."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table.combine_chunks()
        self.name: str | None = None
        """The name of a file that it was written to or read from."""

    @staticmethod
    def of(rows: pa.Table, weights: Weights, codes: Codes, ranks: Codes) -> Run:
        """Rows that are in order."""
        schema = pa.schema([*rows.schema, *_EXTRA])
        columns = [*rows.columns, *(pa.chunked_array([pa.array(each)]) for each in (weights, codes, ranks))]
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

    def changes(self, begin: int = 0, end: int | None = None) -> Changes:
        """Its rows from a place on and before another."""
        end = len(self) if end is None else end
        return Changes(self.rows.slice(begin, end - begin), self.weights[begin:end])

    def without(self, count: int) -> Run:
        """All but its first rows."""
        return Run(self.table.slice(count))


def hashed(columns: Sequence[Column], length: int) -> Codes:
    """The code of each row where keys need no order."""
    return hashes_of_rows(columns, length)


def ordered(columns: Sequence[Column], length: int) -> Codes:
    """The code of each row by the order of the one column of a key that has order numbers; NULL comes first."""
    (column,) = columns
    return numbered(column)


def numbered(column: Column) -> Codes:
    """The order of values as numbers from 0 on: NULL first, NaN last."""
    return compared_numbers(column, -(2**63)).view(np.uint64) ^ np.uint64(1 << 63)


def run_of(changes: Changes, key: Sequence[str], code_of: CodeOf, ranked: str | None = None) -> Run:
    """Changes as a run: each row once. `ranked`: the one column besides the key, in whose order those of a key are."""
    rows, count = changes.rows.combine_chunks(), len(changes)
    codes = code_of([rows.column(name) for name in key], count)
    if ranked is not None:
        ranks = numbered(rows.column(ranked))
    elif code_of is hashed and tuple(key) == tuple(rows.column_names):
        ranks = codes
    else:
        ranks = hashes_of_rows(rows.columns, count)
    summed = _summed(rows, changes.weights, codes, ranks, in_order(codes, ranks))
    return _through_encoding(Changes(rows, changes.weights), codes, ranks) if summed is None else summed


def merged_run(one: Run, other: Run, _oldest: bool = False) -> Run:
    """Two runs as one, each row once."""
    rows = pa.concat_tables([one.rows, other.rows]).combine_chunks()
    weights = np.concatenate([one.weights, other.weights])
    codes, ranks = np.concatenate([one.codes, other.codes]), np.concatenate([one.ranks, other.ranks])
    summed = _summed(rows, weights, codes, ranks, merged(one.codes, one.ranks, other.codes, other.ranks))
    return _through_encoding(Changes(rows, weights), codes, ranks) if summed is None else summed


def summed_by(rows: pa.Table, weights: Weights, codes: Codes, ranks: Codes) -> Run:
    """Rows in the order of code and rank, each once for each code."""
    summed = _summed(rows, weights, codes, ranks, in_order(codes, ranks))
    return _through_encoding(Changes(rows, weights), codes, ranks) if summed is None else summed


def _summed(rows: pa.Table, weights: Weights, codes: Codes, ranks: Codes, order: Places) -> Run | None:
    """Rows in an order, those that are the same once; None if different ones cannot be told by code and rank."""
    in_turn, rank_in_turn = codes[order], ranks[order]
    tied = (in_turn[1:] == in_turn[:-1]) & (rank_in_turn[1:] == rank_in_turn[:-1])
    ties = np.flatnonzero(tied)
    sums = weights[order]
    if len(ties):
        if not same_rows(rows.columns, order[ties], rows.columns, order[ties + 1]).all():
            return None
        first = np.flatnonzero(np.concatenate([[True], ~tied]))
        sums = np.add.reduceat(sums, first)
        order, in_turn, rank_in_turn = order[first], in_turn[first], rank_in_turn[first]
    if not sums.all():
        stays = sums != 0
        order, sums, in_turn, rank_in_turn = order[stays], sums[stays], in_turn[stays], rank_in_turn[stays]
    return Run.of(rows.take(pa.array(order)), sums, in_turn, rank_in_turn)


def _through_encoding(changes: Changes, codes: Codes, ranks: Codes) -> Run:
    """The same where hashes collide: what rows are the same is looked for among all of them."""
    groups = encode([*changes.rows.columns, pa.array(codes)], len(changes))
    sums = np.zeros(groups.size, np.int64)
    np.add.at(sums, groups.codes, changes.weights)
    first = np.full(groups.size, len(changes), np.int64)
    np.minimum.at(first, groups.codes, np.arange(len(changes)))
    places = first[sums != 0]
    places = places[np.lexsort((places, ranks[places], codes[places]))]
    sums = sums[groups.codes[places]]
    return Run.of(changes.rows.take(pa.array(places)), sums, codes[places], ranks[places])


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
