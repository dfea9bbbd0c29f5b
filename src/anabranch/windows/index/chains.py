"""The rows of a window chained by key (`kernels.chains`), with room that grows with the window."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np

from anabranch.kernels.chains import (
    CROWDED,
    CURSOR,
    KEY,
    NEXT,
    OLDEST,
    PROBE,
    ROW,
    TOP,
    ChainEntries,
    Chains,
    Ints,
    Probes,
    chain,
    count_chains,
    join_chains,
)
from anabranch.kernels.values import frozen

LEAST_ROOM = 1 << 10
BYTES_PER_ROW = 32
"""What one row takes: three numbers of an entry, and the heads of two buckets."""
_MOST_ENTRIES = (1 << 31) - 1
"""Heads of buckets are numbers of 32 bits; before entries have larger numbers they are numbered anew."""


class ChainIndex:
    """Rows by key, entered in the order of their numbers; those that no window needs are written over.

    Room doubles when a window has more rows. Past `memory` bytes it is in a file that is mapped.
    `bucket_of` gives the buckets of keys, if they are not the keys themselves.
    """

    def __init__(
        self, first_row: int, memory: int, room: int = LEAST_ROOM, bucket_of: Callable[[Ints], Ints] | None = None
    ) -> None:
        self._bucket_of = bucket_of
        self._first = first_row
        self.next_row = first_row
        """Rows before it are entered."""
        self.odd = False
        """Whether rows were entered that their keys do not tell all about."""
        self._memory = memory
        self._state = np.zeros(7, np.int64)
        self._make(room)

    @property
    def nbytes(self) -> int:
        return int(self._chains.heads.nbytes + self._chains.entries.nbytes)

    @property
    def rows(self) -> int:
        """How many rows it holds that a window asked for last may need."""
        top = int(self._state[TOP])
        return top - max(int(self._state[OLDEST]), top - self.room, 0)

    @property
    def covers_from(self) -> int:
        """The oldest row that is surely there, if it was ever entered."""
        oldest = int(self._state[TOP]) - self.room
        return (
            self._first if oldest <= 0 else max(self._first, int(self._chains.entries[oldest & (self.room - 1), ROW]))
        )

    @property
    def room(self) -> int:
        """Rows that it has room for."""
        return len(self._chains.entries)

    def _make(self, size: int) -> None:
        entries, heads = self._array((size, 3), np.int64), self._array((2 * size,), np.int32)
        heads[:] = -1
        self._chains = Chains(heads, entries, 64 - size.bit_length(), self._state)

    def _array(self, shape: tuple[int, ...], kind: Any) -> Any:
        if shape[0] * BYTES_PER_ROW <= self._memory:
            return np.zeros(shape, kind)
        with tempfile.TemporaryFile(prefix="anabranch-join-") as file:
            file.truncate(math.prod(shape) * np.dtype(kind).itemsize)
            return np.memmap(file, kind, "r+", shape=shape).view(np.ndarray)

    def _resize(self, size: int) -> None:
        """Make all anew with another size; entries are numbered from 0 again."""
        top, room = int(self._state[TOP]), self.room
        kept = self._chains.entries[np.arange(max(top - room, 0), top) & (room - 1)]
        keys, rows = (frozen(np.ascontiguousarray(kept[:, field])) for field in (KEY, ROW))
        self._first = self.covers_from
        self._make(size)
        self._state[TOP], self._state[CURSOR], self._state[CROWDED], self._state[OLDEST] = 0, -1, 0, 0
        buckets = keys if self._bucket_of is None else frozen(self._bucket_of(keys))
        self._enter(ChainEntries(buckets, keys, rows), 0)

    def _enter(self, entries: ChainEntries, low: int) -> None:
        if self._state[TOP] + len(entries.rows) > _MOST_ENTRIES:
            self._resize(self.room)
        chain(self._chains, entries, low, len(entries.rows))

    def skip_to(self, row: int) -> None:
        """Rows up to here are not needed by anyone, and may be gone."""
        if row > self.next_row:
            self._first = self.next_row = row

    def begin(self) -> None:
        """Get ready for other probes."""
        self._state[PROBE], self._state[CURSOR], self._state[NEXT] = 0, -1, 0

    def done(self, probes: int) -> bool:
        return bool(self._state[PROBE] >= probes)

    def enter_rest(self, entries: ChainEntries, next_row: int) -> None:
        """Enter what the probes had no need of, up to a row number."""
        self._enter(entries, int(self._state[NEXT]))
        self.next_row = next_row

    def join(self, entries: ChainEntries, probes: Probes, out_probes: Ints, out_rows: Ints) -> int:
        """Pairs of probes and rows, up to as many as the output has room for; see `join_chains`."""
        if self._state[TOP] + len(entries.rows) > _MOST_ENTRIES and self._state[CURSOR] < 0:
            self._resize(self.room)
        pairs: int = join_chains(self._chains, entries, probes, out_probes, out_rows)
        if self._state[CROWDED]:
            self._resize(2 * self.room)
        return pairs

    def count(self, entries: ChainEntries, probes: Probes) -> Ints:
        """How many rows each probe meets."""
        if self._state[TOP] + len(entries.rows) > _MOST_ENTRIES:
            self._resize(self.room)
        counts = np.zeros(len(probes.buckets), np.int64)
        while not self.done(len(counts)):
            count_chains(self._chains, entries, probes, counts)
            if self._state[CROWDED]:
                self._resize(2 * self.room)
        return counts
