"""How many different values, from registers instead of values: HyperLogLog.

P. Flajolet, É. Fusy, O. Gandouet and F. Meunier (2007); the estimate is that of O. Ertl, "New
cardinality estimation algorithms for HyperLogLog sketches" (2017), which needs no table of
corrections. With m registers the standard error is 1.04/√m. Registers of panes are combined by
taking the larger one, so the state slides like any other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.kernels.compiled import compiled
from anabranch.kernels.fold import Slots
from anabranch.kernels.hashing import hashes
from anabranch.kernels.values import Column, frozen, valid


class Registers:
    """One byte per register, 2^bits registers per slot, as few as keep the standard error asked for."""

    def __init__(self, deviation: float) -> None:
        self.bits = max(4, math.ceil(math.log2((1.04 / deviation) ** 2)))
        self.types = (pa.binary(1 << self.bits),)

    def fold(self, slots: Slots, seed: Sequence[pa.Array], values: Column | None) -> list[pa.Array]:
        assert values is not None
        registers = np.zeros((slots.count, 1 << self.bits), np.uint8)
        registers[: len(seed[0])] = self._matrix(seed[0])
        _note(registers, slots.of_entry[len(seed[0]) :], hashes(values), frozen(valid(values)), self.bits)
        return [self._column(registers)]

    def combine(self, slots: Slots, partials: Sequence[pa.Array]) -> list[pa.Array]:
        registers = np.zeros((slots.count, 1 << self.bits), np.uint8)
        _larger(registers, slots.of_entry, frozen(self._matrix(partials[0])))
        return [self._column(registers)]

    def estimate(self, column: pa.Array) -> pa.Array:
        """The number of different values behind each row of registers."""
        return pa.array(_estimate(frozen(self._matrix(column)), self.bits))

    def _matrix(self, column: pa.Array) -> NDArray[np.uint8]:
        width = 1 << self.bits
        if len(column) == 0:
            return np.zeros((0, width), np.uint8)
        flat = np.frombuffer(column.buffers()[1], np.uint8, len(column) * width, column.offset * width)
        return flat.reshape(len(column), width)

    def _column(self, registers: NDArray[np.uint8]) -> pa.Array:
        return pa.Array.from_buffers(self.types[0], len(registers), [None, pa.py_buffer(registers)])


@compiled
def _note(registers, slots, hashed, present, bits):  # type: ignore[no-untyped-def]
    most = 64 - bits + 1
    for i in range(len(slots)):
        if not present[i]:
            continue
        at = np.int64(hashed[i] >> np.uint64(64 - bits))
        rest = hashed[i] << np.uint64(bits)
        zeros = 1
        while zeros < most and (rest >> np.uint64(63)) == 0:
            zeros += 1
            rest = rest << np.uint64(1)
        if zeros > registers[slots[i], at]:
            registers[slots[i], at] = zeros


@compiled
def _larger(registers, slots, more):  # type: ignore[no-untyped-def]
    for i in range(len(slots)):
        for at in range(more.shape[1]):
            if more[i, at] > registers[slots[i], at]:
                registers[slots[i], at] = more[i, at]


@compiled
def _estimate(registers, bits):  # type: ignore[no-untyped-def]
    width = registers.shape[1]
    top = 64 - bits
    out = np.empty(len(registers), np.int64)
    for i in range(len(registers)):
        counts = np.zeros(top + 2, np.float64)
        for at in range(width):
            counts[registers[i, at]] += 1
        if counts[0] == width:
            out[i] = 0
            continue
        # tau(1 - full/m): what the registers at their limit hide
        x = 1.0 - counts[top + 1] / width
        z = 0.0
        if x != 0.0 and x != 1.0:
            y, z, before = 1.0, 1.0 - x, -1.0
            while z != before:
                x = math.sqrt(x)
                before = z
                y *= 0.5
                z -= (1.0 - x) * (1.0 - x) * y
            z /= 3.0
        z *= width
        for k in range(top, 0, -1):
            z = 0.5 * (z + counts[k])
        # sigma(empty/m): what the empty registers say
        x = counts[0] / width
        y, s, before = 1.0, x, -1.0
        while s != before:
            x *= x
            before = s
            s += x * y
            y += y
        z += width * s
        out[i] = round(width * width / (2.0 * math.log(2.0) * z))
    return out
