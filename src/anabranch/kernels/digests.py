"""Digests of rows: two numbers of 64 bits each, the same in every process, and the same for rows that SQL calls equal.

Text is read eight bytes at a time, so that long texts cost little. One of the numbers is a hash as good as those of
`kernels.hashing`; both together tell rows apart that nobody has made to be mistaken for each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.kernels.compiled import compiled
from anabranch.kernels.nested import comparable
from anabranch.kernels.values import Column, compared_numbers, frozen, has_order_number, one_array, valid

Hashes = NDArray[np.uint64]

_NULL = 0x6E75_6C6C


class Digests(NamedTuple):
    """The two numbers of each row."""

    first: Hashes
    second: Hashes


def digests(columns: Sequence[Column], length: int) -> Digests:
    """The digest of each row of some columns.

    >>> some = digests([pa.array([0.0, -0.0, None]), pa.array(["a", "a", "a"])], 3)
    >>> [len(set(numbers.tolist())) for numbers in some]
    [2, 2]
    """
    first, second = np.zeros(length, np.uint64), np.zeros(length, np.uint64)
    for column in columns:
        array = one_array(column)
        null = np.flatnonzero(~valid(array)) if array.null_count else np.zeros(0, np.int64)
        before = first[null], second[null]
        if has_order_number(array.type):
            _with_numbers(first, second, compared_numbers(array, 0))
        else:
            array = one_array(comparable(array))
            if not (pa.types.is_string(array.type) or pa.types.is_binary(array.type)):
                array = array.cast(pa.string())
            _with_texts(first, second, *_buffers(array))
        if len(null):
            some = before[0].copy(), before[1].copy()
            _with_numbers(*some, frozen(np.full(len(null), _NULL)))
            first[null], second[null] = ~some[0], ~some[1]
    return Digests(first, second)


def _buffers(array: pa.Array) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
    _, offsets, data = array.buffers()
    starts = np.frombuffer(offsets, np.int32, len(array) + 1, array.offset * 4) if len(array) else np.zeros(1, np.int32)
    return frozen(starts), frozen(np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8))


@compiled
def _with_numbers(first, second, numbers):  # type: ignore[no-untyped-def]
    for i in range(len(numbers)):
        first[i], second[i] = _with_word(first[i], second[i], np.uint64(numbers[i]))


@compiled
def _with_texts(first, second, starts, data):  # type: ignore[no-untyped-def]
    """Whole words, then the last eight bytes, of which some may have been read before; the length tells."""
    eight = np.uint64(8)
    for i in range(len(starts) - 1):
        at, end = np.uint64(starts[i]), np.uint64(starts[i + 1])
        length = end - at
        x, y = _with_word(first[i], second[i], length)
        if length < eight:
            word = np.uint64(0)
            while at < end:
                word = (word << eight) | np.uint64(data[at])
                at += np.uint64(1)
            x, y = _with_word(x, y, word)
        else:
            while at + eight < end:
                x, y = _with_word(x, y, _word(data, at))
                at += eight
            x, y = _with_word(x, y, _word(data, end - eight))
        first[i], second[i] = x, y


@compiled
def _word(data, at):  # type: ignore[no-untyped-def]
    """Eight bytes as a number; the compiler makes one load of them."""
    return (
        np.uint64(data[at])
        | np.uint64(data[at + np.uint64(1)]) << np.uint64(8)
        | np.uint64(data[at + np.uint64(2)]) << np.uint64(16)
        | np.uint64(data[at + np.uint64(3)]) << np.uint64(24)
        | np.uint64(data[at + np.uint64(4)]) << np.uint64(32)
        | np.uint64(data[at + np.uint64(5)]) << np.uint64(40)
        | np.uint64(data[at + np.uint64(6)]) << np.uint64(48)
        | np.uint64(data[at + np.uint64(7)]) << np.uint64(56)
    )


@compiled
def _with_word(x, y, word):  # type: ignore[no-untyped-def]
    """Both numbers with eight bytes more, one by the finisher of SplitMix64 and one by that of MurmurHash3."""
    x = (x ^ word) + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    y = y + word ^ np.uint64(0x452821E638D01377)
    y = (y ^ (y >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
    y = (y ^ (y >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53)
    return x ^ (x >> np.uint64(31)), y ^ (y >> np.uint64(33))
