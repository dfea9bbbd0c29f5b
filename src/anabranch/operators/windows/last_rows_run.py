"""One task of an aggregate over the last rows of each key: from an offset to an offset of their stream."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.errors import QueryError
from anabranch.kernels.groups import encode
from anabranch.kernels.trailing import trailing
from anabranch.kernels.values import integers
from anabranch.operators.base import MIN_TIME, Inputs, Offset
from anabranch.operators.state import SavedState
from anabranch.operators.windows.folding import GroupsRun, Rows, Share, blocks
from anabranch.operators.windows.program import WindowProgram

_ROWS_PER_READ = 1 << 18
_ROWS_PER_BATCH = 1 << 17
_NUMBER = "number"
Places = NDArray[np.int64]


class _Sorted(NamedTuple):
    """Kept rows and new ones by key, those of a key in their order: where each stands, and where its key begins."""

    places: Places
    begin: Places
    end: Places


class LastRowsRun(GroupsRun):
    """Answers the rows of a task block by block, and keeps the last ones of each key."""

    def __init__(
        self,
        program: WindowProgram,
        identity: str,
        count: int,
        inputs: Inputs,
        start: Offset,
        end: Offset,
        share: Share,
    ) -> None:
        super().__init__("last_rows", program, identity, inputs, start, end, share)
        self._count = count
        self._key_names = [f"k{i}" for i in range(len(program.keys))]
        self._argument_names = [f"a{i}" for i in range(len(program.arguments))]

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The answer; leaves what the next batch goes on with."""
        kept = self._mine(self._recall())
        for low, high in blocks(self._start.row, self._end.row, _ROWS_PER_READ):
            rows = self._read(low, high)
            if len(rows.numbers):
                there = kept.num_rows
                both = pa.concat_tables([kept, self._table(rows)])
                place, kept = self._place(both, there)
                answer = self._answer(both, there, place, rows.times)
                yield from answer.to_batches(max_chunksize=_ROWS_PER_BATCH)
        if self._keeps:
            self._keep(SavedState({"rows": kept}))

    # -- what is kept ----------------------------------------------------------------------------------

    def _recall(self) -> pa.Table:
        """The last rows of each key before the start."""
        states = self._kept()
        if states is None:
            return self._again()
        kept = pa.concat_tables([self._nothing(), *(state.tables["rows"] for state in states)])
        return kept if len(states) == 1 else kept.sort_by(_NUMBER)

    def _again(self) -> pa.Table:
        """The same from the rows there are, which have to be all there were."""
        kept = self._nothing()
        if self._start.time == MIN_TIME:
            return kept
        if self._reader.first_row() > 0:
            raise QueryError(
                "STATE_LOST",
                f'the last rows of each key are lost, and the first rows of stream "{self._program.stream}" are gone',
                hint="drop the query and create it again: it begins with the rows there are",
            )
        for low, high in blocks(0, self._start.row, _ROWS_PER_READ):
            rows = self._read(low, high)
            _, kept = self._place(pa.concat_tables([kept, self._table(rows)]), kept.num_rows)
        return kept

    def _nothing(self) -> pa.Table:
        program = self._program
        keys = zip(self._key_names, (key.type for key in program.keys), strict=True)
        arguments = zip(self._argument_names, (value.type for value in program.arguments), strict=True)
        return pa.schema([*keys, *arguments, (_NUMBER, pa.int64())]).empty_table()

    def _mine(self, kept: pa.Table) -> pa.Table:
        """Those of the keys that this task answers for."""
        own = self._share.of([kept.column(name) for name in self._key_names], kept.num_rows)
        return kept if own is None else kept.filter(pa.array(own))

    # -- rows ------------------------------------------------------------------------------------------

    def _table(self, rows: Rows) -> pa.Table:
        return pa.Table.from_arrays(
            [*rows.keys, *rows.arguments, pa.array(rows.numbers)], schema=self._nothing().schema
        )

    def _place(self, both: pa.Table, there: int) -> tuple[_Sorted, pa.Table]:
        """The rows of the keys that new ones have, by key, and what is kept of all; `there` were kept before."""
        groups = encode([both.column(name) for name in self._key_names], both.num_rows)
        come = np.zeros(groups.size, np.bool_)
        come[groups.codes[there:]] = True
        moves = come[groups.codes]
        places = np.flatnonzero(moves)
        places = places[np.argsort(groups.codes[places], kind="stable")]
        codes = groups.codes[places]
        first = np.flatnonzero(np.diff(codes, prepend=-1))
        sizes = np.diff(np.append(first, len(codes)))
        placed = _Sorted(places, np.repeat(first, sizes), np.repeat(first + sizes, sizes))
        last = placed.end - np.arange(len(places)) < self._count
        stay = np.sort(np.concatenate([np.flatnonzero(~moves), places[last]]))
        return placed, both.take(pa.array(stay)).combine_chunks()

    def _answer(self, both: pa.Table, there: int, placed: _Sorted, times: Places) -> pa.Table:
        """The answers of the new rows, in their order."""
        program, partials = self._program, self._program.partials
        new = np.flatnonzero(placed.places >= there)
        new = new[np.argsort(placed.places[new])]
        wanted, order = pa.array(new), pa.array(placed.places)
        arguments = [both.column(name).take(order) for name in self._argument_names]
        columns = []
        for state, at in zip(partials.states, partials.arguments, strict=True):
            found = trailing(state, placed.begin, self._count, None if at is None else arguments[at])
            columns += [column.take(wanted) for column in found]
        numbers = integers(both.column(_NUMBER))
        keys = [both.column(name).slice(there) for name in self._key_names]
        entries = pa.Table.from_arrays(
            [pa.array(np.zeros(len(new), np.int64)), *keys, *columns], schema=partials.schema
        )
        oldest = numbers[placed.places[np.maximum(placed.begin[new], new - self._count + 1)]]
        ends = numbers[there:] + 1
        return program.answer(entries, ends, ends - oldest, times, partial=self._share.parts > 1)
