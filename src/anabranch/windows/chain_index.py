"""The rows of a window chained by key (`kernels.chains`), with room that grows with the window."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anabranch.kernels.chains import CROWDED, CURSOR, NEXT, PROBE, TOP, chain, count_chains, join_chains
from anabranch.kernels.values import frozen

Ints = NDArray[np.int64]
LEAST_ROOM = 1 << 10


class Entries(NamedTuple):
    """Rows to be entered, in the order of their numbers."""

    buckets: Ints
    keys: Ints
    rows: Ints

    @staticmethod
    def by_key(keys: Ints, rows: Ints) -> Entries:
        return Entries(keys, keys, rows)


class Probes(NamedTuple):
    """What is looked up: keys from `least` to `most` in a bucket, of rows low ≤ row < high.

    No later probe asks for rows before `needed`.
    """

    buckets: Ints
    least: Ints
    most: Ints
    low: Ints
    high: Ints
    needed: Ints

    @staticmethod
    def of(buckets: Ints, least: Ints, most: Ints, low: Ints, high: Ints) -> Probes:
        needed = np.minimum.accumulate(low[::-1])[::-1]
        return Probes(buckets, least, most, low, high, frozen(np.ascontiguousarray(needed)))

    @staticmethod
    def by_key(keys: Ints, low: Ints, high: Ints) -> Probes:
        return Probes.of(keys, keys, keys, low, high)


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
        self._state = np.zeros(5, np.int64)
        self._make(room)

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in (self._heads, self._keys, self._rows, self._back))

    @property
    def covers_from(self) -> int:
        """The oldest row that is surely there, if it was ever entered."""
        oldest = int(self._state[TOP]) - len(self._keys)
        return self._first if oldest <= 0 else max(self._first, int(self._rows[oldest & (len(self._keys) - 1)]))

    @property
    def room(self) -> int:
        """Rows that it has room for."""
        return len(self._keys)

    def _make(self, size: int) -> None:
        self._keys: Ints = self._array(size, np.int64)
        self._rows: Ints = self._array(size, np.int64)
        self._back = self._array(size, np.int32)
        self._heads: Ints = self._array(size, np.int64)
        self._heads[:] = -1
        self._shift = 64 - (size.bit_length() - 1)

    def _array(self, size: int, kind: Any) -> Any:
        if size * 28 <= self._memory:
            return np.zeros(size, kind)
        with tempfile.TemporaryFile(prefix="anabranch-join-") as file:
            file.truncate(size * np.dtype(kind).itemsize)
            return np.memmap(file, kind, "r+", shape=(size,)).view(np.ndarray)

    def _grow(self) -> None:
        """Make twice the room."""
        top, size = int(self._state[TOP]), len(self._keys)
        places = np.arange(max(top - size, 0), top) & (size - 1)
        keys, numbers = frozen(self._keys[places]), frozen(self._rows[places])
        self._first = self.covers_from
        self._make(2 * size)
        self._state[TOP], self._state[CURSOR], self._state[CROWDED] = 0, -1, 0
        buckets = keys if self._bucket_of is None else frozen(self._bucket_of(keys))
        self._enter(Entries(buckets, keys, numbers), 0)

    def _enter(self, entries: Entries, low: int) -> None:
        chain(
            self._heads, self._keys, self._rows, self._back, self._shift, self._state,
            *entries, low, len(entries.rows),
        )  # fmt: skip

    def skip_to(self, row: int) -> None:
        """Rows up to here are not needed by anyone, and may be gone."""
        if row > self.next_row:
            self._first = self.next_row = row

    def begin(self) -> None:
        """Get ready for other probes."""
        self._state[PROBE], self._state[CURSOR], self._state[NEXT] = 0, -1, 0

    def done(self, probes: int) -> bool:
        return bool(self._state[PROBE] >= probes)

    def enter_rest(self, entries: Entries, next_row: int) -> None:
        """Enter what the probes had no need of, up to a row number."""
        self._enter(entries, int(self._state[NEXT]))
        self.next_row = next_row

    def join(self, entries: Entries, probes: Probes, out_probes: Ints, out_rows: Ints) -> int:
        """Pairs of probes and rows, up to as many as the output has room for; see `join_chains`."""
        found: int = join_chains(
            self._heads, self._keys, self._rows, self._back, self._shift, self._state,
            *entries, *probes, out_probes, out_rows,
        )  # fmt: skip
        if self._state[CROWDED]:
            self._grow()
        return found

    def count(self, entries: Entries, probes: Probes) -> Ints:
        """How many rows each probe meets."""
        counts = np.zeros(len(probes.buckets), np.int64)
        while not self.done(len(counts)):
            count_chains(
                self._heads, self._keys, self._rows, self._back, self._shift, self._state,
                *entries, *probes, counts,
            )  # fmt: skip
            if self._state[CROWDED]:
                self._grow()
        return counts
