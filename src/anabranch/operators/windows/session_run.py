"""One task of a session aggregate: the sessions of its groups from an offset to an offset of their stream."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.errors import QueryError
from anabranch.kernels.groups import encode
from anabranch.kernels.sessions import Times, assign_sessions
from anabranch.kernels.values import integers
from anabranch.operators.base import MIN_TIME, Inputs, Offset, time_of_row
from anabranch.operators.state import SavedState
from anabranch.operators.windows.folding import GroupsRun, Rows, Share, blocks
from anabranch.operators.windows.program import WindowProgram
from anabranch.windows.panes.partials import joined

_ROWS_PER_READ = 1 << 21
_ROWS_PER_BATCH = 1 << 17
_FIRST, _LAST = "__first", "__last"


class _Open(NamedTuple):
    """Sessions that may go on: of each its partial aggregates, and the times of its first and its last row."""

    entries: pa.Table
    first: Times
    last: Times

    def where(self, mask: NDArray[np.bool_]) -> _Open:
        return self if mask.all() else _Open(self.entries.filter(pa.array(mask)), self.first[mask], self.last[mask])

    def as_state(self) -> SavedState:
        table = self.entries.append_column(_FIRST, pa.array(self.first)).append_column(_LAST, pa.array(self.last))
        return SavedState({"open": table.combine_chunks()})

    @staticmethod
    def of(states: list[SavedState]) -> _Open:
        table = pa.concat_tables([state.tables["open"] for state in states]).combine_chunks()
        return _Open(table.drop_columns([_FIRST, _LAST]), integers(table.column(_FIRST)), integers(table.column(_LAST)))


class SessionRun(GroupsRun):
    """Folds the rows of a task block by block, and answers sessions when no later row can belong to them."""

    def __init__(
        self,
        program: WindowProgram,
        identity: str,
        gap: int,
        inputs: Inputs,
        start: Offset,
        end: Offset,
        share: Share,
    ) -> None:
        super().__init__("sessions", program, identity, inputs, start, end, share)
        self._gap = gap

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The answer; leaves what the next batch goes on with."""
        known, open_ = self._recall()
        open_ = self._mine(open_)
        for begin, end in blocks(self._start.row, self._end.row, _ROWS_PER_READ):
            rows = self._read(begin, end)
            open_ = self._fold(open_, rows)
            if end < self._end.row:
                done = self._over(open_, min(rows.reached, self._end.time))
                yield from self._answer(open_.where(done))
                open_ = open_.where(~done)
        yield from self._answer(open_.where(self._over(open_, self._end.time)))
        if self._end.row > self._start.row or not known:
            self._keep_open(open_)

    def ends(self) -> Times:
        """The ends of the sessions that are open at the start."""
        return self._recall()[1].last + self._gap

    # -- what is open at the start ---------------------------------------------------------------------

    def _recall(self) -> tuple[bool, _Open]:
        """Whether it was kept, and what is open; what has ended before was answered."""
        states = self._kept()
        open_ = self._again() if states is None else _Open.of(states)
        return states is not None, open_.where(~self._over(open_, self._start.time))

    def _again(self) -> _Open:
        """The same from the rows there are; an error if a session may have begun before them."""
        open_ = self._nothing()
        if self._start.time == MIN_TIME:
            return open_
        low = self._reader.first_row()
        for begin, end in blocks(low, self._start.row, _ROWS_PER_READ):
            rows = self._read(begin, end)
            open_ = self._fold(open_, rows)
            open_ = open_.where(~self._over(open_, rows.reached))
        if low == 0:
            return open_
        open_ = open_.where(~self._over(open_, self._start.time))
        # A row before the first that is here may be in a session that begins soon after that, or be all of one.
        seen = time_of_row(self._reader, low) if low < self._start.row else self._start.time
        if seen + self._gap >= self._start.time or (open_.first <= seen + self._gap).any():
            raise QueryError(
                "STATE_LOST",
                f'what was kept of open sessions is lost, and rows of stream "{self._program.stream}" that they may '
                "have begun with are gone",
                hint="drop the query and create it again: it begins with the rows there are",
            )
        return open_

    def _nothing(self) -> _Open:
        none = np.zeros(0, np.int64)
        return _Open(self._program.partials.schema.empty_table(), none, none)

    def _mine(self, open_: _Open) -> _Open:
        """Those of the groups that this task answers for."""
        own = self._share.of(list(self._program.partials.keys(open_.entries)), open_.entries.num_rows)
        return open_ if own is None else open_.where(own)

    def _over(self, open_: _Open, time: int) -> NDArray[np.bool_]:
        """Which of them no row can belong to any more, once time has reached `time`."""
        over: NDArray[np.bool_] = open_.last + self._gap < time
        return over

    # -- folding and answering -------------------------------------------------------------------------

    def _fold(self, open_: _Open, rows: Rows) -> _Open:
        """All sessions with these rows, those that go on first, then in the order in which they began."""
        if not len(rows.numbers):
            return open_
        partials = self._program.partials
        keys = [joined(a, b) for a, b in zip(partials.keys(open_.entries), rows.keys, strict=True)]
        times = np.concatenate([open_.last, rows.times])
        groups = encode(keys, len(times))
        found = assign_sessions(groups.codes, groups.size, times, self._gap, open_.first)
        entries = partials.fold_into(np.zeros(1, np.int64), found.slots, groups, open_.entries, rows.arguments)
        return _Open(entries, found.first, found.last)

    def _answer(self, done: _Open) -> list[pa.RecordBatch]:
        ends = done.last + self._gap
        rows = self._program.answer(done.entries, ends, ends - done.first, ends, partial=self._share.parts > 1)
        batches: list[pa.RecordBatch] = rows.to_batches(max_chunksize=_ROWS_PER_BATCH)
        return batches

    def _keep_open(self, open_: _Open) -> None:
        """Those that are open at the end, or were when its last row came, if it has gone on in silence."""
        if not self._keeps:
            return
        time = self._end.time
        if len(open_.last):
            time = min(time, int(open_.last.max()))
        self._keep(open_.where(~self._over(open_, time)).as_state())
