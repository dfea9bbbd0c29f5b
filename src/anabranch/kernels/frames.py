"""What window functions say of a row by its frame: rows of its part that stand together, from `low` to before `high`.

From row to row neither end of a frame goes back, so every function here takes time in proportion to the rows, however
wide frames are. Answers are places of rows (-1 for none) or numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.kernels.compiled import compiled
from anabranch.kernels.ranks import Numbers, Standing
from anabranch.kernels.refining import bounds_of
from anabranch.kernels.values import frozen

Keys = NDArray[Any]
"""Whole numbers of 64 bits, or floating ones."""
Present = NDArray[np.bool_]
"""The rows that count."""

_LIMBS = 72
"""Of 32 bits: doubles take 66 of them, from 2^-1074 on."""
_MASK = 0xFFFF_FFFF


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

    @staticmethod
    def within(at: Standing, keys: Keys, present: Present, start: float | None, end: float | None) -> Frames:
        """The rows whose keys are from `start` to `end` behind that of each row; None as for `of`.

        Keys that are present rise in each part and stand together. A row without one (NULL, NaN) has its peers.

        >>> at, keys = Standing(np.array([0, 4]), np.array([0, 1, 2, 4])), np.array([1, 2, 5, 5])
        >>> frames = Frames.within(at, keys, np.ones(4, bool), -3, 0)
        >>> frames.low.tolist(), frames.high.tolist()
        ([0, 0, 1, 1], [1, 2, 4, 4])
        """
        lowest, highest = _moved(keys, start or 0), _moved(keys, end or 0)
        low, high = _within(*map(frozen, (at.begin, at.end, present, keys, lowest, highest)))
        low = at.begin if start is None else np.where(present, low, at.first_peer)
        high = at.end if end is None else np.where(present, high, at.behind_peers)
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
        """The exact sums of doubles, rounded once, as `kernels.long_sums` has them; where nothing counts it is 0."""
        sums: NDArray[np.float64] = _double_sums(
            frozen(self.low), frozen(self.high), frozen(present), frozen(numbers.view(np.int64))
        )
        return sums

    def _differences(self, numbers: Numbers) -> Numbers:
        before = bounds_of(numbers)
        return before[self.high] - before[self.low]


def _moved(keys: Keys, by: float) -> Keys:
    """Keys so much larger; whole ones stay at the last there is."""
    if keys.dtype.kind == "f":
        moved: Keys = keys + keys.dtype.type(by)
        return moved
    with np.errstate(over="ignore"):
        moved = keys + np.int64(by)
    beyond = moved < keys if by > 0 else moved > keys
    return np.where(beyond, np.iinfo(np.int64).max if by > 0 else np.iinfo(np.int64).min, moved)


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
def _within(begin, end, present, keys, lowest, highest):  # type: ignore[no-untyped-def]
    """Where keys are no more below, and where they are above: from row to row of a part neither goes back."""
    low, high = np.zeros(len(keys), np.int64), np.zeros(len(keys), np.int64)
    first, behind, stretch = 0, 0, 0
    for i in range(len(keys)):
        if not present[i]:
            stretch = i + 1
            continue
        stretch = max(stretch, begin[i])
        first, behind = max(first, stretch), max(behind, stretch)
        while first < end[i] and present[first] and keys[first] < lowest[i]:
            first += 1
        while behind < end[i] and present[behind] and keys[behind] <= highest[i]:
            behind += 1
        low[i], high[i] = first, behind
    return low, high


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
def _double_sums(low, high, present, bits):  # type: ignore[no-untyped-def]
    """One sum as long as doubles go, to which rows are added as frames reach them, and from which they are taken."""
    out = np.zeros(len(low), np.float64)
    limbs, digits = np.zeros(_LIMBS, np.int64), np.zeros(_LIMBS, np.int64)
    special = np.zeros(3, np.int64)
    lowest, highest = _LIMBS, 0
    gone, seen = 0, 0
    for i in range(len(low)):
        if i > 0 and low[i] == low[i - 1] and high[i] == high[i - 1]:
            out[i] = out[i - 1]
            continue
        if low[i] >= seen:
            limbs[:] = 0
            special[:] = 0
            lowest, highest = _LIMBS, 0
            gone, seen = low[i], low[i]
        while gone < low[i]:
            if present[gone]:
                _add_double(limbs, special, bits[gone], -1)
            gone += 1
        while seen < high[i]:
            if present[seen]:
                at = _add_double(limbs, special, bits[seen], 1)
                lowest, highest = min(lowest, at), max(highest, at + 2)
            seen += 1
        out[i] = _rounded(limbs, special, lowest, highest, digits)
    return out


@compiled
def _add_double(limbs, special, bits, sign):  # type: ignore[no-untyped-def]
    """Add a double, or with a sign of -1 take it off; gives the lowest of the three limbs it is in."""
    exponent = bits >> 52 & 2047
    mantissa = bits & ((1 << 52) - 1)
    if exponent == 2047:
        special[0 if mantissa else (1 if bits < 0 else 2)] += sign
        return 0
    if exponent:
        mantissa |= 1 << 52
        exponent -= 1
    if bits < 0:
        sign = -sign
    at, shift = exponent >> 5, exponent & 31
    limbs[at] += sign * ((mantissa & ((1 << (32 - shift)) - 1)) << shift)
    mantissa >>= 32 - shift
    limbs[at + 1] += sign * (mantissa & _MASK)
    limbs[at + 2] += sign * (mantissa >> 32)
    return at


@compiled
def _rounded(limbs, special, lowest, highest, digits):  # type: ignore[no-untyped-def]
    """The double nearest to a sum, of two the even one."""
    if special[0] or (special[1] and special[2]):
        return np.nan
    if special[1] or special[2]:
        return -np.inf if special[1] else np.inf
    sign = 1
    while True:  # once more with the opposite if it is negative
        carry = 0
        for at in range(lowest, highest + 1):
            carry += sign * limbs[at]
            digits[at] = carry & _MASK
            carry >>= 32
        if carry >= 0:
            break
        sign = -sign
    digits[highest + 1] = carry
    # 62 bits from the first that is set, the last of them set too if any follows: rounded once.
    whole, length, rest, exponent = 0, 0, False, 0
    for at in range(highest + 1, lowest - 1, -1):
        if length == 0:
            whole, exponent = digits[at], 32 * at - 1074
            while whole >> length:
                length += 1
            continue
        taken = min(32, 62 - length)
        whole = whole << taken | digits[at] >> (32 - taken)
        rest = rest or digits[at] & ((1 << (32 - taken)) - 1) != 0
        length += taken
        exponent -= taken
    return sign * math.ldexp(np.float64(whole | 1 if rest else whole), exponent)
