"""Reading rows to fold them group by group, for operators that keep something of each group."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.kernels.hashing import hashes_of_rows
from anabranch.kernels.values import Column, integers
from anabranch.operators.base import MIN_TIME, Inputs, LogReader, Offset, Work
from anabranch.operators.state import SavedState, StateFiles
from anabranch.operators.windows.program import WindowProgram, kept_rows


class Rows(NamedTuple):
    """Rows that WHERE kept, of the groups that a task folds."""

    numbers: NDArray[np.int64]
    times: NDArray[np.int64]
    keys: list[Column]
    arguments: list[Column]
    reached: int
    """The time of the last row that was read, whether it was kept or not."""


class Share(NamedTuple):
    """Which groups a task folds: those whose keys have a hash of `part` modulo `parts`."""

    part: int = 0
    parts: int = 1

    def of(self, keys: list[Column], length: int) -> NDArray[np.bool_] | None:
        """Which rows with these keys are its own; None: all are."""
        if self.parts == 1:
            return None
        own: NDArray[np.bool_] = hashes_of_rows(keys, length) % np.uint64(self.parts) == self.part
        return own


ALL_GROUPS = Share()


def read_rows(
    program: WindowProgram, reader: LogReader, low: int, high: int, work: Work, share: Share, since: int
) -> Rows:
    """The rows low ≤ n < high, of which there is one at least; those before `since` were thrown away before."""
    table = reader.read(low, high, program.reads)
    work.rows_read += table.num_rows
    work.bytes_read += table.nbytes
    times = integers(table.column(program.time_column))
    reached, numbers = int(times[-1]), np.arange(low, low + table.num_rows)
    if program.where is not None:
        keep = kept_rows(program.where, table)
        if not keep.all():
            table, numbers, times = table.filter(pa.array(keep)), numbers[keep], times[keep]
            if share.part == 0:  # counted by one of the tasks that share the groups
                work.rows_thrown += int(np.count_nonzero(~keep[max(since - low, 0) :]))
    keys: list[Column] = [key.evaluate(table) for key in program.keys]
    own = share.of(keys, table.num_rows)
    if own is not None:
        mine = pa.array(own)
        table, numbers, times = table.filter(mine), numbers[own], times[own]
        keys = [key.filter(mine) for key in keys]
    return Rows(numbers, times, keys, [value.evaluate(table) for value in program.arguments], reached)


def blocks(begin: int, end: int, size: int) -> list[tuple[int, int]]:
    """Row ranges to read one after the other; none if there is nothing to read."""
    return list(itertools.pairwise([*range(begin, end, size), end])) if begin < end else []


class GroupsRun:
    """A task of an operator that keeps something of each group: what it reads, and the states it goes on with."""

    def __init__(
        self,
        kind: str,
        program: WindowProgram,
        identity: str,
        inputs: Inputs,
        start: Offset,
        end: Offset,
        share: Share,
    ) -> None:
        self._program = program
        self._reader = inputs.readers[program.stream]
        self._work = inputs.work
        self._start, self._end = start, end
        self._share = share
        self._places = inputs.places
        self._keeps = inputs.scratch is not None or share.parts == 1
        self._files = StateFiles(inputs.scratch, kind, f"{identity} {self._reader.identity}")

    def _kept(self) -> list[SavedState] | None:
        """What was kept at the start; None: nothing, or it is lost."""
        return None if self._start.time == MIN_TIME else self._files.load(str(self._start.row))

    def _keep(self, state: SavedState) -> None:
        """Keep what the next micro-batch goes on with."""
        self._files.save(str(self._end.row), str(self._start.row), *self._share, state, self._wanted)
        self._work.keeps(state.rows, state.nbytes)

    def _wanted(self) -> set[str]:
        """The names of states from which someone goes on later."""
        return {str(at[self._program.stream].row) for at in self._places}

    def _read(self, low: int, high: int) -> Rows:
        return read_rows(self._program, self._reader, low, high, self._work, self._share, self._start.row)
