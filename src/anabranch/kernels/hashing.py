"""Hashes of values: the same in every process, and the same for values that SQL calls equal.

NaN equals NaN and -0.0 equals 0.0; NULL has a hash of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from anabranch.kernels.compiled import compiled
from anabranch.kernels.nested import comparable
from anabranch.kernels.values import Column, frozen, has_order_number, one_array, order_numbers, valid

Hashes = NDArray[np.uint64]

_NULL = 0x6E75_6C6C


def hashes(column: Column) -> Hashes:
    """A hash of each value.

    >>> len(set(hashes(pa.array([0.0, -0.0, None, 1.0])).tolist()))
    3
    """
    if has_order_number(column.type):
        if pa.types.is_floating(column.type):
            column = pc.add(column, pa.scalar(0.0, column.type))  # -0.0 becomes 0.0
        hashed: Hashes = _mixed(order_numbers(column, 0))
    else:
        array = one_array(comparable(column))
        if not (pa.types.is_string(array.type) or pa.types.is_binary(array.type)):
            array = array.cast(pa.string())
        hashed = _of_text(*_buffers(array))
    if column.null_count:
        hashed[~valid(column)] = _NULL
    return hashed


def hashes_of_rows(columns: Sequence[Column], length: int) -> Hashes:
    """A hash of each row of several columns."""
    hashed = np.zeros(length, np.uint64)
    for column in columns:
        hashed = _mixed(frozen((hashed * np.uint64(31) + hashes(column)).view(np.int64)))
    return hashed


def _buffers(array: pa.Array) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
    _, offsets, data = array.buffers()
    starts = np.frombuffer(offsets, np.int32, len(array) + 1, array.offset * 4) if len(array) else np.zeros(1, np.int32)
    return frozen(starts), frozen(np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8))


@compiled
def _mixed(numbers):  # type: ignore[no-untyped-def]
    """Every bit of the number reaches every bit of the hash (the finisher of SplitMix64)."""
    out = np.empty(len(numbers), np.uint64)
    for i in range(len(numbers)):
        x = np.uint64(numbers[i]) + np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        out[i] = x ^ (x >> np.uint64(31))
    return out


@compiled
def _of_text(starts, data):  # type: ignore[no-untyped-def]
    out = np.empty(len(starts) - 1, np.uint64)
    for i in range(len(starts) - 1):
        x = np.uint64(0xCBF29CE484222325)
        for at in range(starts[i], starts[i + 1]):
            x = (x ^ np.uint64(data[at])) * np.uint64(0x100000001B3)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        out[i] = x ^ (x >> np.uint64(31))
    return out
