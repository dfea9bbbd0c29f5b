"""Sums that are exact, of whole numbers and of doubles, so that what was added can be taken away again.

A sum is a whole number of as many digits of 32 bits as it takes, as the places of the binary point go: doubles are
multiples of 2^-1074 (R. M. Neal, "Fast exact summation using small and large superaccumulators", 2015), of which only
the digits in use are kept. It has no other form for the same number, so what is kept says what there is, and nothing
of how it came about. NaN and ±∞ are counted beside it.

A sum is bytes: the number of its lowest digit, the counts if any is not 0, and the digits from the lowest on, the
last of which has the sign (two's complement). 0 is no bytes at all.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.kernels.compiled import compiled
from anabranch.kernels.values import Column, floats, frozen, integers, one_array

TYPE = pa.binary()
DOUBLES, SQUARES, WHOLE = -1074, -2148, 0
"""The power of two that is the unit of sums of doubles, of their squares, and of whole numbers."""

_MASK = 0xFFFF_FFFF
_COUNTED = 1 << 16
"""In the first word: NaN, ∞ and -∞ have counts."""
_MOST = 2**31 - 1
"""A weight beyond is added in parts."""

Ints = NDArray[np.int64]


class Parts(NamedTuple):
    """Numbers to be added: where the lowest digit is, digits, and the sign; or what else it is that is counted."""

    first: Ints
    digits: Ints
    """A row for each number, lowest digit first."""
    sign: Ints
    special: NDArray[np.int8]
    """1 for NaN, 2 for ∞, 3 for -∞, and else 0."""


def parts_of_integers(column: Column) -> Parts:
    """Whole numbers of 64 bits; NULL as 0."""
    return Parts(*_of_integers(integers(column)))


def parts_of_doubles(column: Column) -> Parts:
    """Numbers as doubles; NULL as 0."""
    return Parts(*_of_doubles(floats(column)))


def parts_of_squares(column: Column) -> Parts:
    """The squares of numbers as doubles; NULL as 0."""
    return Parts(*_of_squares(floats(column)))


def parts_of_decimals(column: Column) -> Parts:
    """Decimals in units of their last place; NULL as 0."""
    array = one_array(column).cast(pa.decimal128(38, column.type.scale))
    if array.null_count:
        array = array.fill_null(pa.scalar(0, array.type))
    words = np.frombuffer(array.buffers()[1], np.uint32, 4 * len(array), 16 * array.offset).reshape(-1, 4)
    return Parts(*_of_words(frozen(words.astype(np.int64))))


def added(known: pa.Array, of: Ints, size: int, groups: Ints, weights: Ints, parts: Parts) -> pa.Array:
    """The sums of so many groups: those that are known `of` some, and what is added to them, so many times."""
    starts, words = _words(known)
    numbers = [frozen(each) for each in parts]
    offsets, out = _added(starts, words, frozen(of), size, frozen(groups), frozen(weights), *numbers)
    return pa.Array.from_buffers(TYPE, size, [None, pa.py_buffer(offsets), pa.py_buffer(out)])


def none(size: int) -> pa.Array:
    """Sums of nothing."""
    return pa.repeat(pa.scalar(b"", TYPE), size)


def as_doubles(sums: pa.Array, unit: int) -> NDArray[np.float64]:
    """Sums as the nearest doubles."""
    doubles: NDArray[np.float64] = _as_doubles(*_words(sums), unit)
    return doubles


def as_integers(sums: pa.Array) -> tuple[Ints, bool]:
    """Sums of whole numbers, and whether they all have 64 bits."""
    numbers, fits = _as_integers(*_words(sums))
    return numbers, bool(fits)


def as_decimals(sums: pa.Array, scale: int) -> pa.Array:
    """Sums of decimals; pa.ArrowInvalid where one has more than 38 digits."""
    words, fits = _as_words(*_words(sums))
    if not fits:
        raise pa.ArrowInvalid("more than 76 digits")
    wide = pa.decimal256(76, scale)
    return pa.Array.from_buffers(wide, len(sums), [None, pa.py_buffer(words)]).cast(pa.decimal128(38, scale))


def squared_differences(counts: Ints, sums: pa.Array, squares: pa.Array) -> NDArray[np.float64]:
    """How many times the sum of squared differences from the mean each of the counts is: n Σx² - (Σx)², rounded once.

    NaN where NaN or an ∞ is among them.
    """
    found: NDArray[np.float64] = _squared_differences(frozen(counts), *_words(sums), *_words(squares))
    return found


def _words(sums: pa.Array) -> tuple[Ints, NDArray[np.uint32]]:
    if len(sums) == 0:
        return frozen(np.zeros(1, np.int64)), frozen(np.zeros(0, np.uint32))
    _, offsets, data = sums.buffers()
    starts = np.frombuffer(offsets, np.int32, len(sums) + 1, sums.offset * 4).astype(np.int64) >> 2
    size = int(starts[-1])
    words = np.frombuffer(data, np.uint32, size) if size else np.zeros(0, np.uint32)
    return frozen(starts), frozen(words)


@compiled
def _of_integers(values):  # type: ignore[no-untyped-def]
    n = len(values)
    digits, sign = np.empty((n, 2), np.int64), np.ones(n, np.int64)
    for i in range(n):
        x = np.uint64(values[i])
        if values[i] < 0:
            sign[i] = -1
            x = np.uint64(0) - x
        digits[i, 0] = np.int64(x & np.uint64(_MASK))
        digits[i, 1] = np.int64(x >> np.uint64(32))
    return np.zeros(n, np.int64), digits, sign, np.zeros(n, np.int8)


@compiled
def _of_words(words):  # type: ignore[no-untyped-def]
    n = len(words)
    digits, sign = words.copy(), np.ones(n, np.int64)
    for i in range(n):
        if digits[i, 3] >> 31:
            sign[i] = -1
            carry = 1
            for at in range(4):
                carry += ~digits[i, at] & _MASK
                digits[i, at] = carry & _MASK
                carry >>= 32
    return np.zeros(n, np.int64), digits, sign, np.zeros(n, np.int8)


@compiled
def _of_doubles(values):  # type: ignore[no-untyped-def]
    n = len(values)
    bits = values.view(np.int64)
    first, digits, sign = np.zeros(n, np.int64), np.zeros((n, 3), np.int64), np.ones(n, np.int64)
    special = np.zeros(n, np.int8)
    for i in range(n):
        exponent, mantissa = bits[i] >> 52 & 2047, bits[i] & ((1 << 52) - 1)
        if bits[i] < 0:
            sign[i] = -1
        if exponent == 2047:
            special[i] = 1 if mantissa else 2 if bits[i] >= 0 else 3
            continue
        if exponent:
            mantissa |= 1 << 52
            exponent -= 1
        first[i] = exponent >> 5
        shift = exponent & 31
        low, high = (mantissa & _MASK) << shift, (mantissa >> 32) << shift
        digits[i, 0] = low & _MASK
        high += low >> 32 & _MASK
        digits[i, 1] = high & _MASK
        digits[i, 2] = high >> 32
    return first, digits, sign, special


@compiled
def _of_squares(values):  # type: ignore[no-untyped-def]
    n = len(values)
    bits = values.view(np.int64)
    first, digits, sign = np.zeros(n, np.int64), np.zeros((n, 5), np.int64), np.ones(n, np.int64)
    special = np.zeros(n, np.int8)
    for i in range(n):
        exponent, mantissa = bits[i] >> 52 & 2047, bits[i] & ((1 << 52) - 1)
        if exponent == 2047:
            special[i] = 1
            continue
        if exponent:
            mantissa |= 1 << 52
            exponent -= 1
        low, high = mantissa & _MASK, mantissa >> 32
        square = np.zeros(5, np.int64)
        _add_product(square, 0, low, low)
        _add_product(square, 1, low, high)
        _add_product(square, 1, low, high)
        _add_product(square, 2, high, high)
        first[i] = 2 * exponent >> 5
        shift = 2 * exponent & 31
        carry = 0
        for at in range(5):
            carry += square[at]
            digit = (carry & _MASK) << shift
            carry >>= 32
            digits[i, at] += digit & _MASK
            if at < 4:
                digits[i, at + 1] += digit >> 32 & _MASK
    return first, digits, sign, special


@compiled
def _add_product(digits, at, x, y):  # type: ignore[no-untyped-def]
    """Add the product of two digits; those of the sum may be larger than digits for a while."""
    product = np.uint64(x) * np.uint64(y)
    digits[at] += np.int64(product & np.uint64(_MASK))
    digits[at + 1] += np.int64(product >> np.uint64(32))


@compiled
def _body(starts, words, i):  # type: ignore[no-untyped-def]
    """Where the digits of a sum begin and end, and the number of the first; there are none in a sum of 0."""
    begin, end = starts[i], starts[i + 1]
    if begin == end:
        return begin, end, 0
    head = np.int64(words[begin])
    return begin + (7 if head & _COUNTED else 1), end, head & (_COUNTED - 1)


@compiled
def _counted(words, at, which):  # type: ignore[no-untyped-def]
    return np.int64(words[at + 2 * which]) | np.int64(words[at + 2 * which + 1]) << 32


@compiled
def _signed(word):  # type: ignore[no-untyped-def]
    number = np.int64(word)
    return number - (1 << 32) if number >> 31 else number


@compiled
def _added(starts, words, of, size, groups, weights, first, digits, sign, special):  # type: ignore[no-untyped-def]
    width = digits.shape[1]
    low, high = np.full(size, 1 << 40, np.int64), np.zeros(size, np.int64)
    counts = np.zeros((size, 3), np.int64)
    for i in range(len(of)):
        g = of[i]
        begin, end, number = _body(starts, words, i)
        if begin < end:
            low[g], high[g] = number, number + end - begin + 1
        if starts[i] < starts[i + 1] and words[starts[i]] & _COUNTED:
            for which in range(3):
                counts[g, which] = _counted(words, starts[i] + 1, which)
    for i in range(len(groups)):
        g = groups[i]
        if special[i]:
            counts[g, special[i] - 1] += weights[i]
            continue
        low[g] = min(low[g], first[i])
        high[g] = max(high[g], first[i] + width + 2)
    begins = np.zeros(size + 1, np.int64)
    for g in range(size):
        begins[g + 1] = begins[g] + max(high[g] - low[g], 0)
    sums = np.zeros(begins[size], np.int64)
    for i in range(len(of)):
        begin, end, number = _body(starts, words, i)
        base = begins[of[i]] + number - low[of[i]] - begin
        for at in range(begin, end):
            sums[base + at] = _signed(words[at]) if at == end - 1 else np.int64(words[at])
    for i in range(len(groups)):
        if special[i]:
            continue
        base = begins[groups[i]] + first[i] - low[groups[i]]
        left = weights[i] * sign[i]
        while left != 0:
            times = min(max(left, -_MOST), _MOST)
            left -= times
            for at in range(width):
                product = digits[i, at] * times
                sums[base + at] += product & _MASK
                sums[base + at + 1] += product >> 32
    offsets = np.zeros(size + 1, np.int32)
    room = begins[size]
    for g in range(size):
        room += 1 + (6 if counts[g, 0] or counts[g, 1] or counts[g, 2] else 0)
    out = np.empty(room, np.uint32)
    at = 0
    for g in range(size):
        begin, end = begins[g], begins[g + 1]
        for digit in range(begin, end - 1):
            sums[digit + 1] += sums[digit] >> 32
            sums[digit] &= _MASK
        while begin < end and sums[begin] == 0:
            begin += 1
        while end - begin > 1 and (
            (sums[end - 1] == 0 and sums[end - 2] >> 31 == 0) or (sums[end - 1] == -1 and sums[end - 2] >> 31 == 1)
        ):
            end -= 1
            if sums[end] == -1:
                sums[end - 1] -= 1 << 32
        has_counts = counts[g, 0] != 0 or counts[g, 1] != 0 or counts[g, 2] != 0
        if begin < end or has_counts:
            number = low[g] + begin - begins[g] if begin < end else 0
            out[at] = number | (_COUNTED if has_counts else 0)
            at += 1
            if has_counts:
                for which in range(3):
                    out[at] = counts[g, which] & _MASK
                    out[at + 1] = counts[g, which] >> 32 & _MASK
                    at += 2
            for digit in range(begin, end):
                out[at] = sums[digit] & _MASK
                at += 1
        offsets[g + 1] = 4 * at
    return offsets, out[:at].copy()


@compiled
def _rounded(digits, count, exponent):  # type: ignore[no-untyped-def]
    """The double nearest to a whole number of digits, of two the even one, times a power of two; digits may go."""
    while count > 0 and digits[count - 1] == 0:
        count -= 1
    if count == 0:
        return 0.0
    negative = digits[count - 1] < 0
    if negative:
        carry = 0
        for at in range(count):
            carry -= digits[at]
            digits[at] = carry & _MASK
            carry >>= 32
        while count > 0 and digits[count - 1] == 0:
            count -= 1
    whole, length, rest = digits[count - 1], 0, False
    while whole >> length:
        length += 1
    exponent += 32 * (count - 1)
    at = count - 2
    while at >= 0 and length < 62:
        taken = min(32, 62 - length)
        whole = whole << taken | digits[at] >> (32 - taken)
        rest = digits[at] & ((1 << (32 - taken)) - 1) != 0
        length += taken
        exponent -= taken
        at -= 1
    while at >= 0 and not rest:
        rest = digits[at] != 0
        at -= 1
    found = math.ldexp(np.float64(whole | 1 if rest else whole), exponent)
    return -found if negative else found


@compiled
def _copied(words, begin, end):  # type: ignore[no-untyped-def]
    digits = np.empty(end - begin, np.int64)
    for at in range(begin, end):
        digits[at - begin] = _signed(words[at]) if at == end - 1 else np.int64(words[at])
    return digits


@compiled
def _as_doubles(starts, words, unit):  # type: ignore[no-untyped-def]
    out = np.zeros(len(starts) - 1, np.float64)
    for i in range(len(out)):
        begin, end, number = _body(starts, words, i)
        if starts[i] < starts[i + 1] and words[starts[i]] & _COUNTED:
            nans, ups, downs = (
                _counted(words, starts[i] + 1, 0),
                _counted(words, starts[i] + 1, 1),
                _counted(words, starts[i] + 1, 2),
            )
            out[i] = np.nan if nans or (ups and downs) else np.inf if ups else -np.inf
        elif begin < end:
            out[i] = _rounded(_copied(words, begin, end), end - begin, unit + 32 * number)
    return out


@compiled
def _as_integers(starts, words):  # type: ignore[no-untyped-def]
    out, fits = np.zeros(len(starts) - 1, np.int64), True
    for i in range(len(out)):
        begin, end, number = _body(starts, words, i)
        if number + end - begin > 2:
            fits = False
        elif begin < end:
            top = _signed(words[end - 1])
            out[i] = top << 32 * (number + end - begin - 1)
            if end - begin == 2:
                out[i] |= np.int64(words[begin])
    return out, fits


@compiled
def _as_words(starts, words):  # type: ignore[no-untyped-def]
    out, fits = np.zeros((len(starts) - 1, 8), np.uint32), True
    for i in range(len(out)):
        begin, end, number = _body(starts, words, i)
        if number + end - begin > 8:
            fits = False
        elif begin < end:
            for at in range(begin, end):
                out[i, number + at - begin] = words[at]
            if words[end - 1] >> 31:
                for at in range(number + end - begin, 8):
                    out[i, at] = _MASK
    return out, fits


@compiled
def _squared_differences(counts, starts, words, square_starts, squares):  # type: ignore[no-untyped-def]
    out = np.zeros(len(counts), np.float64)
    for i in range(len(counts)):
        if (starts[i] < starts[i + 1] and words[starts[i]] & _COUNTED) or (
            square_starts[i] < square_starts[i + 1] and squares[square_starts[i]] & _COUNTED
        ):
            out[i] = np.nan
            continue
        begin, end, number = _body(starts, words, i)
        square_begin, square_end, square_number = _body(square_starts, squares, i)
        if square_begin == square_end:
            continue
        total = _copied(words, begin, end)
        if end > begin and total[-1] < 0:
            carry = 0
            for at in range(len(total)):
                carry -= total[at]
                total[at] = carry & _MASK
                carry >>= 32
        low = min(2 * number, square_number) if end > begin else square_number
        high = max(2 * (number + len(total)), square_number + square_end - square_begin + 2) + 1
        digits = np.zeros(high - low, np.int64)
        for at in range(square_begin, square_end):
            base = square_number - low + at - square_begin
            _add_product(digits, base, squares[at], counts[i] & _MASK)
            _add_product(digits, base + 1, squares[at], counts[i] >> 32)
        for a in range(len(total)):
            for b in range(len(total)):
                product = np.uint64(total[a]) * np.uint64(total[b])
                base = 2 * number - low + a + b
                digits[base] -= np.int64(product & np.uint64(_MASK))
                digits[base + 1] -= np.int64(product >> np.uint64(32))
        for at in range(len(digits) - 1):
            digits[at + 1] += digits[at] >> 32
            digits[at] &= _MASK
        out[i] = _rounded(digits, len(digits), 32 * low - 2148)
    return out
