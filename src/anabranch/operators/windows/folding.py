"""Reading rows to fold them group by group, for operators that keep something of each group."""

from __future__ import annotations

import hashlib
import itertools
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.kernels.hashing import hashes_of_rows
from anabranch.kernels.values import Column, integers
from anabranch.operators.base import LogReader, Work
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


def state_kind(kind: str, identity: str) -> str:
    """The beginning of the names of an operator's state files: a view may have several of a kind in one folder."""
    return f"{kind}_{hashlib.sha256(identity.encode()).hexdigest()[:12]}"
