"""What window functions say of a row by its frame: rows of its part that stand together, from `low` to before `high`.

From row to row neither end of a frame goes back, so every function here takes time in proportion to the rows, however
wide frames are. Answers are places of rows (-1 for none) or numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.kernels.compiled import compiled
from anabranch.kernels.ranks import Numbers, Standing
from anabranch.kernels.refining import bounds_of
from anabranch.kernels.sums import LIMBS, add_doubles, add_sums, rounded_totals
from anabranch.kernels.values import frozen

Present = NDArray[np.bool_]
"""The rows that count."""


@dataclass(frozen=True)
class Frames:
    """The frame of each row, empty where `low` is `high`."""

    low: Numbers
    high: Numbers

    @staticmethod
    def of(at: Standing, unit: Literal["rows", "range"], start: int | None, end: int | None) -> Frames:
        """From `start` to `end` rows behind the row (None: from the first, to the last), or in peers.

        Of a range only 0 is understood, the row's peers, and None.

        >>> at = Standing(np.array([0, 4]), np.array([0, 1, 3, 4]))
        >>> frames = Frames.of(at, "rows", -1, 0)
        >>> frames.low.tolist(), frames.high.tolist()
        ([0, 0, 1, 2], [1, 2, 3, 4])
        >>> Frames.of(at, "range", None, 0).high.tolist()
        [1, 3, 3, 4]
        """
        if unit == "range":
            low = at.begin if start is None else at.first_peer
            return Frames(low, at.end if end is None else at.behind_peers)
        low = at.begin if start is None else np.clip(at.place + start, at.begin, at.end)
        high = at.end if end is None else np.clip(at.place + end + 1, at.begin, at.end)
        return Frames(low, np.maximum(low, high))

    def counts(self, present: Present) -> Numbers:
        """How many rows count."""
        before = bounds_of(present)
        return before[self.high] - before[self.low]

    def nth(self, present: Present, number: int) -> Numbers:
        """The place of the n-th row that counts, of the first for 1 and of the last for -1."""
        before, of_those = bounds_of(present), np.flatnonzero(present)
        wanted = before[self.low] + number - 1 if number > 0 else before[self.high] + number
        inside = (wanted >= before[self.low]) & (wanted < before[self.high])
        return _at(of_those, wanted, inside)

    def largest(self, present: Present, numbers: Numbers) -> Numbers:
        """The place of the first of the largest numbers that count; the smallest are those of `~numbers`."""
        places: Numbers = _largest(frozen(self.low), frozen(self.high), frozen(present), frozen(numbers))
        return places

    def sums(self, present: Present, numbers: Numbers) -> tuple[Numbers, bool]:
        """The sums of whole numbers, and whether they all fit into 64 bits; where nothing counts it is 0."""
        # Two halves, as the sum of all that came before need not fit.
        numbers = np.where(present, numbers, 0)
        upper, lower = self._differences(numbers >> 32), self._differences(numbers & 0xFFFF_FFFF)
        upper += lower >> 32
        fits = bool((upper == upper.astype(np.int32)).all())
        return (upper << 32) + (lower & 0xFFFF_FFFF), fits

    def decimal_sums(self, present: Present, numbers: pa.Array, wide: pa.DataType) -> pa.Array | None:
        """The sums of decimals as a wider type of the same scale, None if one does not fit; where nothing counts 0."""
        words = np.frombuffer(numbers.buffers()[1], np.uint32, 4 * len(numbers), 16 * numbers.offset)
        parts = np.where(present[:, None], words.reshape(-1, 4), 0).astype(np.int64)
        parts[:, 3] = parts[:, 3].astype(np.int32)
        out = np.empty((len(self.low), 4), np.uint32)
        carry = np.zeros(len(self.low), np.int64)
        for word in range(4):
            carry += self._differences(parts[:, word])
            out[:, word] = carry & 0xFFFF_FFFF
            carry >>= 32
        sums = pa.Array.from_buffers(wide, len(out), [None, pa.py_buffer(out)])
        try:
            sums.validate(full=True)
        except pa.ArrowInvalid:
            return None
        return sums if (carry == out[:, 3].astype(np.int32) >> 31).all() else None

    def double_sums(self, present: Present, numbers: NDArray[np.float64]) -> NDArray[np.float64]:
        """The sums of doubles, to the bit as `kernels.sums` adds them up; where nothing counts it is 0."""
        total: NDArray[np.float64] = _double_sums(
            frozen(self.low), frozen(self.high), frozen(present), frozen(numbers), LIMBS + 1
        )
        return total

    def _differences(self, numbers: Numbers) -> Numbers:
        before = bounds_of(numbers)
        return before[self.high] - before[self.low]


def shifted(at: Standing, present: Present, by: int) -> Numbers:
    """The place of the row that is so many behind each, or before it where `by` is negative, among those that count."""
    if by == 0:
        return at.place
    before, of_those = bounds_of(present), np.flatnonzero(present)
    wanted = before[at.place + 1] + by - 1 if by > 0 else before[at.place] + by
    return _at(of_those, wanted, (wanted >= before[at.begin]) & (wanted < before[at.end]))


def _at(places: Numbers, wanted: Numbers, inside: Present) -> Numbers:
    found = np.full(len(wanted), -1, np.int64)
    found[inside] = places[wanted[inside]]
    return found


@compiled
def _largest(low, high, present, numbers):  # type: ignore[no-untyped-def]
    """Candidates are those behind which no larger one has come: their numbers fall from the first to the last."""
    out = np.full(len(low), -1, np.int64)
    candidates = np.empty(len(numbers), np.int64)
    first, last, seen = 0, 0, 0
    for i in range(len(low)):
        while seen < high[i]:
            if present[seen]:
                while last > first and numbers[candidates[last - 1]] < numbers[seen]:
                    last -= 1
                candidates[last] = seen
                last += 1
            seen += 1
        while first < last and candidates[first] < low[i]:
            first += 1
        if first < last and low[i] < high[i]:
            out[i] = candidates[first]
    return out


@compiled
def _double_sums(low, high, present, numbers, width):  # type: ignore[no-untyped-def]
    """Limbs cannot be taken off again, so there are two sums of a frame.

    One for each place before `middle`, of the rows from there to `middle`; and one of all rows behind. Once a frame
    begins behind the middle, the middle is moved to its end.
    """
    out = np.zeros(len(low), np.float64)
    upto = np.zeros((len(numbers) + 1, width), np.int64)
    behind = np.zeros((1, width), np.int64)
    both = np.zeros((1, width), np.int64)
    here = np.zeros(1, np.int64)
    middle, seen = 0, 0
    for i in range(len(low)):
        if i > 0 and low[i] == low[i - 1] and high[i] == high[i - 1]:
            out[i] = out[i - 1]
            continue
        if (low[i] >= middle and seen > middle) or low[i] > seen:
            middle = max(seen, low[i])
            upto[middle] = 0
            for j in range(middle - 1, low[i] - 1, -1):
                upto[j] = upto[j + 1]
                if present[j]:
                    add_doubles(upto[j : j + 1], here, numbers[j : j + 1])
            behind[:] = 0
            seen = middle
        while seen < high[i]:
            if present[seen]:
                add_doubles(behind, here, numbers[seen : seen + 1])
            seen += 1
        both[:] = behind
        if low[i] < middle:
            add_sums(both, here, upto[low[i] : low[i] + 1])
        out[i] = rounded_totals(both)[0]
    return out
