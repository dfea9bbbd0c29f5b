"""The slices of history that live rows are looked up in, kept in memory from one batch to the next.

A slice moves along with the live rows, a whole number of periods behind them. So of a slice only the rows that
it moves on to are read; what it leaves behind is dropped.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from anabranch.kernels.recurrence import HIGH, LOW, count_recurring
from anabranch.kernels.sampling import Lots, kept
from anabranch.kernels.values import Column, frozen
from anabranch.operators.base import MIN_TIME, Piece
from anabranch.operators.history.key_codes import KeyCodes
from anabranch.operators.live import Live

Ints = NDArray[np.int64]

AHEAD = 1 << 18
"""Rows that are read at once where they lie together: a file gives many, whether one is wanted or all."""
MOST_ROWS = 1 << 22
"""Rows of a portion that are read before live rows are looked up in them."""
_SPARE_CODES = 1 << 16


class PastRows(NamedTuple):
    """Rows of history with their keys, none of which is NULL; lots where they are drawn by key."""

    keys: list[Column]
    times: Ints
    lots: Lots | None


class Past(Protocol):
    """Where rows of history come from."""

    def row_at(self, time: int) -> int:
        """A row before which all are older than a time; the first such row, or one not far before it."""
        ...

    def piece(self, start: int, rows: int) -> Piece | None:
        """Rows from `start` on that lie together, at most so many; the times may be those of more rows."""
        ...

    def read(self, start: int, end: int, keep: float, since: int) -> PastRows:
        """Rows start ≤ n < end that are not older than `since`, of which a fraction is kept."""
        ...


class _Slice:
    """Rows of one portion, in order of time."""

    def __init__(self, ago: int) -> None:
        self.ago = ago
        self._codes, self._times = np.empty(0, np.int32), np.empty(0, np.int64)
        self._begin = self._end = 0
        self._state = np.zeros(2, np.int64)
        self._counts = np.zeros(0, np.int64)
        self.next_row = 0
        """Rows before it are read, as far as they are still needed."""
        self.known_to = MIN_TIME
        """No row up to this time has yet to be read."""

    @property
    def codes(self) -> NDArray[np.int32]:
        return self._codes[self._begin : self._end]

    @property
    def times(self) -> Ints:
        return self._times[self._begin : self._end]

    @property
    def nbytes(self) -> int:
        return int(self._codes.nbytes + self._times.nbytes + self._counts.nbytes)

    def begin_at(self, row: int) -> None:
        """Nothing before a row is needed any more."""
        if row > self.next_row:
            self._put(np.empty(0, np.int32), np.empty(0, np.int64))
            self._counts[:] = 0
            self._state[:] = 0
            self.next_row = row

    def _put(self, codes: NDArray[np.int32], times: Ints) -> None:
        self._codes, self._times, self._begin, self._end = codes, times, 0, len(codes)

    def append(self, codes: Ints, times: Ints) -> None:
        size, new = self._end - self._begin, len(codes)
        if self._end + new > len(self._codes):
            room = 2 * (size + new)
            held = self.codes, self.times
            self._codes, self._times = np.empty(room, np.int32), np.empty(room, np.int64)
            self._codes[:size], self._times[:size] = held
            self._begin, self._end = 0, size
        self._codes[self._end : self._end + new] = codes
        self._times[self._end : self._end + new] = times
        self._end += new

    def count(self, live_codes: Ints, live_times: Ints, within: int, size: int) -> Ints:
        """How many rows each live row meets."""
        if size > len(self._counts):
            self._counts = np.concatenate([self._counts, np.zeros(2 * size - len(self._counts), np.int64)])
        counts = np.zeros(len(live_codes), np.int64)
        count_recurring(
            self._counts, frozen(self.codes), frozen(self.times), self._state,
            frozen(live_codes), frozen(live_times), self.ago, within, counts,
        )  # fmt: skip
        self._begin += int(self._state[LOW])
        self._state[HIGH] -= self._state[LOW]
        self._state[LOW] = 0
        return counts

    def recode(self, known: NDArray[np.bool_], new: Ints) -> None:
        """Give rows other codes, and drop those of codes that are not known any more."""
        mine = known[self.codes]
        counted = int(np.count_nonzero(mine[: self._state[HIGH]]))
        self._put(new[self.codes[mine]].astype(np.int32), self.times[mine].copy())
        self._state[HIGH] = counted
        self._counts = np.bincount(self._codes[:counted], minlength=len(self._counts)).astype(np.int64)


class Slices:
    """The slices of all portions."""

    def __init__(self, period: int, portions: int, within: int, columns: int) -> None:
        self._within = within
        self._columns = columns
        self._slices = [_Slice(period * (i + 1)) for i in range(portions)]
        self._fresh()
        self.keep = 1.0
        """Of history, the keys with the lowest lots are here, up to this fraction."""
        self.reached = MIN_TIME
        """The time of the last live row: later ones only can be looked up."""

    def _fresh(self) -> None:
        self._keys = KeyCodes(self._columns)
        self._lots: Lots = np.empty(0, np.uint64)

    @property
    def nbytes(self) -> int:
        return self._keys.nbytes + self._lots.nbytes + sum(slice_.nbytes for slice_ in self._slices)

    @property
    def rows(self) -> int:
        """Rows of history that are here."""
        return sum(len(slice_.times) for slice_ in self._slices)

    def reduce_to(self, keep: float) -> None:
        """Drop the keys beyond a fraction; where more is wanted than is here, begin anew."""
        if keep > self.keep:
            self._slices = [_Slice(slice_.ago) for slice_ in self._slices]
            self._fresh()
        elif keep < self.keep:
            self._drop_codes(kept(self._lots, keep))
        self.keep = keep

    def look_up(
        self, keys: list[Column], present: NDArray[np.bool_], times: Ints, past: Past
    ) -> Iterator[tuple[slice, Ints]]:
        """For blocks of live rows, one after the other, how many rows of each portion each of them meets.

        `keys` are those of the rows that are `present`: of the others one is NULL, and they meet nothing.
        """
        places = np.append(0, np.cumsum(present))
        low = 0
        while low < len(times):
            first, last = int(times[low]), int(times[-1])
            known = min(self._read_on(slice_, first, last, past) + slice_.ago - self._within for slice_ in self._slices)
            high = int(np.searchsorted(times, known, side="right"))
            part = slice(low, high)
            codes = np.full(high - low, -1, np.int64)
            begin, count = int(places[low]), int(places[high] - places[low])
            codes[present[part]] = self._keys.find([key.slice(begin, count) for key in keys])
            counts = [slice_.count(codes, times[part], self._within, self._keys.size) for slice_ in self._slices]
            yield part, np.stack(counts)
            self.reached = int(times[high - 1])
            self._forget_codes()
            low = high

    def _read_on(self, slice_: _Slice, first: int, last: int, past: Past) -> int:
        """Take in the rows that live rows between two times may meet, or many of them; gives how far they are known."""
        oldest, newest = first - slice_.ago - self._within, last - slice_.ago + self._within
        most, rows = int(AHEAD / max(self.keep, 1e-3)), 0
        if oldest > slice_.known_to:
            piece = past.piece(slice_.next_row, most) if slice_.known_to != MIN_TIME else None
            if piece is None or piece.time_last < oldest:
                slice_.begin_at(past.row_at(oldest))
        while slice_.known_to < newest and (rows < MOST_ROWS or slice_.known_to < first - slice_.ago + self._within):
            piece = past.piece(slice_.next_row, most)
            if piece is None:
                slice_.known_to = newest
            elif piece.time_first > newest:
                slice_.known_to = piece.time_first - 1
            else:
                read = past.read(piece.first, piece.end, self.keep, oldest)
                slice_.append(self._coded(read), read.times)
                slice_.next_row = piece.end
                rows += len(read.times)
                if len(read.times):
                    slice_.known_to = max(slice_.known_to, int(read.times[-1]) - 1)
        return slice_.known_to

    def _coded(self, rows: PastRows) -> Ints:
        size = self._keys.size
        codes = self._keys.add(rows.keys)
        if rows.lots is not None and self._keys.size > size:
            lots = np.empty(self._keys.size, np.uint64)
            lots[:size] = self._lots
            lots[codes] = rows.lots
            self._lots = lots
        return codes

    def _forget_codes(self) -> None:
        """Keys that no row of a slice has any more are let go once they are many."""
        if self._keys.size > 2 * self.rows + _SPARE_CODES:
            used = np.zeros(self._keys.size, np.bool_)
            for slice_ in self._slices:
                used[slice_.codes] = True
            self._drop_codes(used)

    def _drop_codes(self, known: NDArray[np.bool_]) -> None:
        new = np.cumsum(known) - 1
        for slice_ in self._slices:
            slice_.recode(known, new)
        self._keys = self._keys.only(np.flatnonzero(known))
        self._lots = self._lots[known] if len(self._lots) else self._lots


live: Live[Slices] = Live()
"""The slices of this process, by query."""
