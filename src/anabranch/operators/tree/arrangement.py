"""Arrangement: rows with weights, found by a key.

What comes is a new run; runs are joined as they grow, each at least twice as large as the next, so that a row is
joined a few times in its life and a key is looked for in few places. A row stands in several runs when it came, went
or came again: its weight is the sum of these.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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


class Found(NamedTuple):
    """The rows of some keys: each row with its weight, and the place of its key among those that were asked for."""

    changes: Changes
    of: Places


class Arrangement:
    """Rows of a schema with weights, by the columns of a key; without a key all rows have the same one.

    NULL is a key like any other. No two rows that it gives are the same, and none has a weight of 0. With `in_order`
    rows stand in the order of the key, one column with order numbers, and `before` finds those below a bound.
    """

    def __init__(self, schema: pa.Schema, key: Sequence[str], *, in_order: bool = False) -> None:
        self.schema = schema
        self.key = tuple(key)
        self._code_of: CodeOf = ordered if in_order else hashed
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
            self._runs = joined([*self._runs, run_of(changes, self.key, self._code_of)], merged_run)

    # -- reading -----------------------------------------------------------------------------------

    def all(self) -> Changes:
        """All rows."""
        if len(self._runs) == 1:
            return self._runs[0].changes()
        whole: Run | None = None
        for run in reversed(self._runs):  # the small ones first
            whole = run if whole is None else merged_run(run, whole)
        return Changes.none(self.schema) if whole is None else whole.changes()

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
                parts.append(Changes(run.rows, run.weights).take(pairs.found))
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
                    yield pairs.asked, Changes(run.rows, run.weights).take(pairs.found)

    def beside(self, count: int) -> Iterator[tuple[Places, Changes]]:
        """All rows, as they stand in runs, beside each of so many places."""
        for run in self._runs:
            for pairs in _in_parts(np.zeros(count, np.int64), np.full(count, len(run))):
                yield pairs.asked, Changes(run.rows, run.weights).take(pairs.found)

    def _same_keys(self, run: Run, pairs: Pairs, keys: Sequence[pa.Array]) -> Pairs:
        """Those of some pairs whose keys are the same, and not only their codes."""
        same = same_rows([run.rows.column(name) for name in self.key], pairs.found, keys, pairs.asked)
        return pairs if same.all() else Pairs(pairs.asked[same], pairs.found[same])

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
        return together(parts, self.schema).consolidated()

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
