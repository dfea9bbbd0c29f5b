"""Sums of doubles that come to the same bits in whatever order they are added, and from whatever parts.

A sum is kept as whole numbers: five limbs of 24 bits each, at fixed places of the binary point, below the largest
exponent seen. A double is cut at these places, its parts are added to limbs of 64 bits, which take 2^39 of them
without a carry, and what lies below the last limb is dropped; so what is kept depends on which doubles there were, not
on their order. At least 76 bits below the largest of them are kept, and the total is rounded once: for doubles of
similar size it is the exact sum, to the nearest double.

R. M. Neal, "Fast exact summation using small and large superaccumulators" (2015), whose accumulator is as long as
exponents go; that only the limbs below the largest value are kept, and why that does not depend on the order, is from
J. Demmel and H. D. Nguyen, "Parallel reproducible summation" (2015).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.kernels.compiled import compiled
from anabranch.kernels.fold import Slots
from anabranch.kernels.values import Column, floats, frozen

BITS = 24
LIMBS = 5
MASK = (1 << BITS) - 1
NAN, UP, DOWN = 1, 2, 4
"""Flags: a NaN, +∞ or -∞ was added."""
_WIDTH = LIMBS + 1
"""The first number of a row is the place of its highest limb, times 8, and the flags; then come the limbs."""

Limbs = NDArray[np.int64]


class DoubleSum:
    """Sum of doubles, the same in any order."""

    types = (pa.binary(8 * _WIDTH),)

    def fold(self, slots: Slots, seed: Sequence[pa.Array], values: Column | None) -> list[pa.Array]:
        assert values is not None
        sums = np.zeros((slots.count, _WIDTH), np.int64)
        sums[: len(seed[0])] = _rows(seed[0])
        _add_doubles(sums, slots.of_entry[len(seed[0]) :], floats(values))
        return [_column(sums)]

    def combine(self, slots: Slots, partials: Sequence[pa.Array]) -> list[pa.Array]:
        sums = np.zeros((slots.count, _WIDTH), np.int64)
        _add_sums(sums, slots.of_entry, frozen(_rows(partials[0])))
        return [_column(sums)]


def totals(column: pa.Array) -> NDArray[np.float64]:
    """What was added up, as doubles."""
    rounded: NDArray[np.float64] = _totals(frozen(_rows(column)))
    return rounded


def _rows(column: pa.Array) -> Limbs:
    if len(column) == 0:
        return np.zeros((0, _WIDTH), np.int64)
    flat = np.frombuffer(column.buffers()[1], np.int64, len(column) * _WIDTH, column.offset * _WIDTH * 8)
    return flat.reshape(len(column), _WIDTH)


def _column(sums: Limbs) -> pa.Array:
    return pa.Array.from_buffers(DoubleSum.types[0], len(sums), [None, pa.py_buffer(sums)])


@compiled
def _raise_to(sums, s, top):  # type: ignore[no-untyped-def]
    """Make room for a higher limb; the lowest ones go."""
    up = top - (sums[s, 0] >> 3)
    for at in range(LIMBS, 0, -1):
        sums[s, at] = sums[s, at - up] if at > up else 0
    sums[s, 0] = top << 3 | sums[s, 0] & 7


@compiled
def _add_doubles(sums, slots, values):  # type: ignore[no-untyped-def]
    bits = values.view(np.int64)
    for i in range(len(slots)):
        exponent = bits[i] >> 52 & 2047
        mantissa = bits[i] & ((1 << 52) - 1)
        s = slots[i]
        if exponent == 2047:
            sums[s, 0] |= NAN if mantissa else (DOWN if bits[i] < 0 else UP)
            continue
        if exponent:
            mantissa |= 1 << 52
            exponent -= 1
        elif mantissa == 0:
            continue
        low = exponent // BITS
        shift = exponent - low * BITS
        top = low + 3
        down = (sums[s, 0] >> 3) - top
        if down < 0:
            _raise_to(sums, s, top)
            down = 0
        if bits[i] < 0:
            mantissa = -mantissa
        # Parts of a negative number are negative: what is dropped of it is what is dropped of its opposite.
        sign = 1 if mantissa > 0 else -1
        mantissa *= sign
        cut = BITS - shift
        lowest = (mantissa & ((1 << cut) - 1)) << shift
        mantissa >>= cut
        if down < 2:
            sums[s, 1 + down] += sign * (mantissa >> 2 * BITS)
            sums[s, 2 + down] += sign * (mantissa >> BITS & MASK)
            sums[s, 3 + down] += sign * (mantissa & MASK)
            sums[s, 4 + down] += sign * lowest
        elif down < LIMBS:
            sums[s, 1 + down] += sign * (mantissa >> 2 * BITS)
            if down < LIMBS - 1:
                sums[s, 2 + down] += sign * (mantissa >> BITS & MASK)
            if down < LIMBS - 2:
                sums[s, 3 + down] += sign * (mantissa & MASK)


@compiled
def _add_sums(sums, slots, more):  # type: ignore[no-untyped-def]
    for i in range(len(slots)):
        s = slots[i]
        down = (sums[s, 0] >> 3) - (more[i, 0] >> 3)
        if down < 0:
            _raise_to(sums, s, more[i, 0] >> 3)
            down = 0
        sums[s, 0] |= more[i, 0] & 7
        for at in range(1, LIMBS + 1 - down):
            sums[s, at + down] += more[i, at]


@compiled
def _totals(sums):  # type: ignore[no-untyped-def]
    out = np.empty(len(sums), np.float64)
    digits = np.empty(LIMBS + 2, np.int64)
    for i in range(len(sums)):
        flags = sums[i, 0] & 7
        if flags:
            out[i] = np.nan if flags not in (UP, DOWN) else (np.inf if flags == UP else -np.inf)
            continue
        sign = 1
        while True:  # once more with the opposite if it is negative
            carry = 0
            for at in range(LIMBS, 0, -1):
                carry += sign * sums[i, at]
                digits[at + 1] = carry & MASK
                carry >>= BITS
            if carry >= 0:
                break
            sign = -sign
        digits[1] = carry & MASK
        digits[0] = carry >> BITS
        # 62 bits from the first that is set, the last of them set too if any follows: rounded once, to even.
        whole, length, rest = 0, 0, False
        exponent = ((sums[i, 0] >> 3) - LIMBS + 1) * BITS - 1074
        for at in range(LIMBS + 2):
            if length == 0:
                whole = digits[at]
                while whole >> length:
                    length += 1
                continue
            taken = min(BITS, 62 - length)
            whole = whole << taken | digits[at] >> (BITS - taken)
            rest = rest or digits[at] & ((1 << (BITS - taken)) - 1) != 0
            length += taken
            exponent += BITS - taken
        out[i] = sign * math.ldexp(np.float64(whole | 1 if rest else whole), exponent)
    return out
