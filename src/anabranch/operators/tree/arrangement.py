"""Arrangement: rows with weights, found by a key.

What comes is a new run; runs are joined as they grow, each at least twice as large as the next, so that a row is
joined a few times in its life and a key is looked for in few places. A row stands in several runs when it came, went
or came again: its weight is the sum of these.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.kernels.same_rows import same_rows
from anabranch.kernels.sorted_codes import Codes, Pairs, ranges, spread
from anabranch.operators.tree.changes import Changes, together
from anabranch.operators.tree.runs import (
    CodeOf,
    Run,
    hashed,
    joined,
    merged_run,
    numbered,
    ordered,
    run_of,
    summed_by,
)

Places = NDArray[np.int64]

PAIRS = 1 << 21
"""So many pairs of rows are looked at at a time, as far as those of one row allow."""


_FIRST_DEPTH, _DEEPER = 4, 8
"""At the edge of a key so many rows are read at first, and then so many times more."""


class Found(NamedTuple):
    """The rows of some keys: each row with its weight, and the place of its key among those that were asked for."""

    changes: Changes
    of: Places


class Arrangement:
    """Rows of a schema with weights, by the columns of a key; without a key all rows have the same one.

    NULL is a key like any other. No two rows that it gives are the same, and none has a weight of 0. With `in_order`
    rows stand in the order of the key, one column with order numbers, and those below a bound can be taken out. With
    `ranked`, the one column besides the key, which has order numbers, `edge_of` finds its first and last values.
    Where rows only come and are only met, they can stay `apart`: then one may be there several times, and is not
    compared with others.
    """

    def __init__(
        self,
        schema: pa.Schema,
        key: Sequence[str],
        *,
        in_order: bool = False,
        ranked: str | None = None,
        apart: bool = False,
    ) -> None:
        self.schema = schema
        self.key = tuple(key)
        self._code_of: CodeOf = ordered if in_order else hashed
        self._ranked = ranked
        self._apart = apart
        self._merged = partial(merged_run, apart=apart, moves=in_order)
        self._runs: list[Run] = []

    # -- what it holds -----------------------------------------------------------------------------

    def runs(self) -> tuple[Run, ...]:
        """Its runs, largest first: all there is to write down."""
        return tuple(self._runs)

    def take_runs(self, runs: Sequence[Run]) -> None:
        """Hold the runs that another had, in the place of what is here."""
        wanted = Run.schema_of(self.schema)
        for run in runs:
            if run.table.schema.names != wanted.names or run.table.schema.types != wanted.types:
                raise ValueError(f"a run has the columns {run.table.schema.names}, wanted are {wanted.names}")
        self._runs = list(runs)

    @classmethod
    def from_runs(cls, schema: pa.Schema, key: Sequence[str], runs: Sequence[Run]) -> Arrangement:
        """One that holds the runs that another had."""
        made = cls(schema, key)
        made.take_runs(runs)
        return made

    @property
    def entries(self) -> int:
        """How many rows stand in runs, which is quickly told; those that went may still be among them."""
        return sum(map(len, self._runs))

    def __len__(self) -> int:
        """How many different rows there are."""
        return len(self.all())

    @property
    def nbytes(self) -> int:
        return sum(run.nbytes for run in self._runs)

    # -- changing ----------------------------------------------------------------------------------

    def take_in(self, changes: Changes) -> None:
        """The rows after some changes."""
        if len(changes):
            came = run_of(changes, self.key, self._code_of, self._ranked, apart=self._apart)
            self._runs = joined([*self._runs, came], self._merged)

    # -- reading -----------------------------------------------------------------------------------

    def all(self) -> Changes:
        """All rows."""
        if len(self._runs) == 1:
            return self._runs[0].changes()
        whole = self._as_one()
        return Changes.none(self.schema) if whole is None else whole.changes()

    def _as_one(self) -> Run | None:
        whole: Run | None = None
        for run in reversed(self._runs):  # the small ones first
            whole = run if whole is None else self._merged(run, whole)
        return whole

    def rows_of(self, keys: pa.Table) -> Found:
        """The rows of some keys, which are all different and have the columns of the key in its order."""
        return self.found([column.combine_chunks() for column in keys.columns], keys.num_rows)

    def found(self, keys: Sequence[pa.Array], count: int) -> Found:
        """The same for so many keys as columns, of which there are none where there is no key."""
        codes = self._code_of(keys, count)
        parts, of, ranks = [], [], []
        for run in self._runs:
            pairs = self._same_keys(run, spread(*ranges(run.codes, codes)), keys)
            if len(pairs.asked):
                parts.append(run.taken(pairs.found))
                of.append(pairs.asked)
                ranks.append(run.ranks[pairs.found])
        if not parts:
            return Found(Changes.none(self.schema), np.zeros(0, np.int64))
        if len(parts) == 1:  # in one run no row stands twice
            return Found(parts[0], of[0])
        found = together(parts, self.schema)
        asked = np.concatenate(of).astype(np.uint64)
        summed = summed_by(found.rows, found.weights, asked, np.concatenate(ranks))
        return Found(summed.changes(), summed.codes.astype(np.int64))

    def meeting(self, keys: Sequence[pa.Array], count: int) -> Iterator[tuple[Places, Changes]]:
        """Rows beside their keys, of which there may be many that are the same: for each key its place.

        They come as they stand in runs: the same row may come several times, and the sum of its weights counts.
        """
        codes = self._code_of(keys, count)
        for run in self._runs:
            for some in _in_parts(*ranges(run.codes, codes)):
                pairs = self._same_keys(run, some, keys)
                if len(pairs.asked):
                    yield pairs.asked, run.taken(pairs.found)

    def beside(self, count: int) -> Iterator[tuple[Places, Changes]]:
        """All rows, as they stand in runs, beside each of so many places."""
        for run in self._runs:
            for pairs in _in_parts(np.zeros(count, np.int64), np.full(count, len(run))):
                yield pairs.asked, run.taken(pairs.found)

    def _same_keys(self, run: Run, pairs: Pairs, keys: Sequence[pa.Array]) -> Pairs:
        """Those of some pairs whose keys are the same, and not only their codes."""
        same = same_rows([run.rows.column(name) for name in self.key], run.places[pairs.found], keys, pairs.asked)
        return pairs if same.all() else Pairs(pairs.asked[same], pairs.found[same])

    def edge_of(self, keys: Sequence[pa.Array], count: int, *, last: bool) -> Found:
        """Of each of some keys, which are all different, the first or the last row; only `ranked`.

        So many rows of each key are read as it takes to find one that is there. Where many have gone from the edge
        all runs are joined, so that they are not read again and again.
        """
        codes = self._code_of(keys, count)
        bounds = [ranges(run.codes, codes) for run in self._runs]
        most = np.max([high - low for low, high in bounds], axis=0, initial=0)
        left, depth = np.flatnonzero(most), _FIRST_DEPTH
        parts, of = [], []
        read = 0
        while len(left):
            some = [key.take(pa.array(left)) for key in keys]
            found, read = self._edge(some, [(low[left], high[left]) for low, high in bounds], depth, last)
            parts.append(found.changes)
            of.append(left[found.of])
            done = np.zeros(count, np.bool_)
            done[left[found.of]] = True
            left = left[~done[left] & (most[left] > depth)]
            depth *= _DEEPER
        if read > max(self.entries // 8, 1 << 12) and len(self._runs) > 1:
            self._runs = joined([run for run in (self._as_one(),) if run is not None], self._merged)
        return Found(together(parts, self.schema), np.concatenate([*of, np.zeros(0, np.int64)]))

    def _edge(
        self, keys: Sequence[pa.Array], bounds: Sequence[tuple[Places, Places]], depth: int, last: bool
    ) -> tuple[Found, int]:
        """The rows at the edge of those keys for which so many of each run tell, and how many were looked at."""
        limit = np.full(len(bounds[0][0]), np.iinfo(np.uint64).max, np.uint64)
        cut = np.zeros(len(limit), np.bool_)
        asked, ranks, weights, runs, places = [], [], [], [], []
        for number, (run, (low, high)) in enumerate(zip(self._runs, bounds, strict=True)):
            if last:
                low, end = np.maximum(high - depth, low), low
                more = np.flatnonzero(low > end)
                limit[more] = np.minimum(limit[more], ~run.ranks[low[more] - 1])
            else:
                high, end = np.minimum(low + depth, high), high
                more = np.flatnonzero(high < end)
                limit[more] = np.minimum(limit[more], run.ranks[high[more]])
            cut[more] = True
            pairs = self._same_keys(run, spread(low, high), keys)
            asked.append(pairs.asked)
            ranks.append(~run.ranks[pairs.found] if last else run.ranks[pairs.found])
            weights.append(run.weights[pairs.found])
            runs.append(np.full(len(pairs.asked), number))
            places.append(pairs.found)
        of, rank, weight = np.concatenate(asked), np.concatenate(ranks), np.concatenate(weights)
        read = len(of)
        order = np.lexsort((rank, of))
        of, rank, weight = of[order], rank[order], weight[order]
        first = np.flatnonzero(np.concatenate([[True], (of[1:] != of[:-1]) | (rank[1:] != rank[:-1])])[:read])
        sums = np.add.reduceat(weight, first) if read else weight
        whole = ~cut[of[first]] | (rank[first] < limit[of[first]])  # what no run has behind the part that was read
        there = np.flatnonzero((sums > 0) & whole)
        there = there[np.unique(of[first[there]], return_index=True)[1]]
        chosen = order[first[there]]
        run_of_each, place = np.concatenate(runs)[chosen], np.concatenate(places)[chosen]
        numbers = np.unique(run_of_each)
        found = [np.flatnonzero(run_of_each == number) for number in numbers]
        rows = [self._runs[number].taken(place[mine]) for number, mine in zip(numbers, found, strict=True)]
        mine = np.concatenate([*found, np.zeros(0, np.int64)])
        edge = together(rows, self.schema).gathered
        return Found(Changes(edge, sums[there][mine]), of[first[there]][mine]), read

    # -- in order ----------------------------------------------------------------------------------

    def take_out_before(self, bound: pa.Scalar) -> Changes:
        """Take the rows out whose key is below a bound, and give them; only `in_order`."""
        end = self._code(bound)
        parts, kept = [], []
        for run in self._runs:
            count = int(ranges(run.codes, end)[0][0])
            parts.append(run.changes(0, count))
            kept.append(run.without(count) if count else run)
        self._runs = [run for run in kept if len(run)]
        taken = together(parts, self.schema)
        return taken if self._apart else taken.consolidated()

    def first(self) -> pa.Scalar | None:
        """The lowest key of which rows are there, if any; only `in_order`."""
        count = 1
        while True:
            fewer = [run for run in self._runs if len(run) > count]
            whole = min((run.codes[count] for run in fewer), default=None)
            parts = [run.changes(0, len(run) if whole is None else self._before(run, whole)) for run in self._runs]
            some = together(parts, self.schema).consolidated()
            if len(some):
                column = some.rows.column(self.key[0])
                return column[int(np.argmin(numbered(column)))]
            if whole is None:
                return None
            count *= 2

    def not_below(self, bounds: Places) -> Places:
        """How many rows, by their weights, have keys that are not below each of some bounds; only `in_order`."""
        sums = np.zeros(len(bounds), np.int64)
        codes = numbered(pa.array(bounds))
        for run in self._runs:
            sums += run.weights_from[np.searchsorted(run.codes, codes)]
        return sums

    def last_in_runs(self) -> pa.Scalar | None:
        """The highest key that stands in runs, if any does, though its rows may have gone; only `in_order`."""
        lasts = [(run.codes[-1], run.rows.column(self.key[0])[-1]) for run in self._runs if len(run)]
        return max(lasts, key=lambda last: last[0])[1] if lasts else None

    def _before(self, run: Run, code: np.uint64) -> int:
        return int(ranges(run.codes, np.array([code], np.uint64))[0][0])

    def _code(self, bound: pa.Scalar) -> Codes:
        return self._code_of([pa.repeat(bound, 1)], 1)


def _in_parts(low: Places, high: Places) -> Iterator[Pairs]:
    """All places from `low` on and before `high`, each with the number of its range, not too many at a time."""
    ends = np.cumsum(high - low)
    begin = 0
    while begin < len(low):
        done = int(ends[begin - 1]) if begin else 0
        past = max(int(np.searchsorted(ends, done + PAIRS, side="right")), begin + 1)
        some = spread(low[begin:past], high[begin:past])
        if len(some.asked):
            yield Pairs(some.asked + begin, some.found)
        begin = past
