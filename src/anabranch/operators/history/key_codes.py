"""Keys of any types as small numbers, exactly: a hash finds the number, the values themselves decide."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from anabranch.kernels.hashing import hashes_of_rows
from anabranch.kernels.recurrence import enter, look_up
from anabranch.kernels.values import Column, frozen, has_order_number, one_array, order_numbers

Codes = NDArray[np.int64]
Hashed = NDArray[np.uint64]

_LEAST_ROOM = 1 << 10


class KeyCodes:
    """A number for each distinct key, given in the order in which keys are first seen.

    Keys have no NULL.

    >>> keys = KeyCodes(1)
    >>> keys.add([pa.array(["b", "a", "b"])]).tolist(), keys.find([pa.array(["a", "c"])]).tolist()
    ([0, 1, 0], [1, -1])
    """

    def __init__(self, columns: int) -> None:
        self.size = 0
        self._pieces: list[tuple[pa.Array, ...]] = []
        """The values of all codes in order, in pieces of which each is far longer than the next."""
        self._columns = columns
        self._hashed: Hashed = np.zeros(_LEAST_ROOM, np.uint64)
        """For each code the hash that it is found by."""
        self._slots = np.full(2 * _LEAST_ROOM, -1, np.int32)

    @property
    def nbytes(self) -> int:
        values = sum(values.nbytes for piece in self._pieces for values in piece)
        return int(self._slots.nbytes + self._hashed.nbytes + values)

    def add(self, columns: Sequence[Column]) -> Codes:
        """The codes of keys; those that are new get one."""
        return self._encode([_plain(column) for column in columns], add=True)

    def find(self, columns: Sequence[Column]) -> Codes:
        """The codes of keys, -1 for those that have none."""
        return self._encode([_plain(column) for column in columns], add=False)

    def only(self, codes: Codes) -> KeyCodes:
        """The keys of some codes, which are numbered anew in the order they are given."""
        taken = KeyCodes(self._columns)
        if len(codes) == 0:
            return taken
        at = pa.array(codes)
        taken.add([pa.concat_arrays([piece[i] for piece in self._pieces]).take(at) for i in range(self._columns)])
        return taken

    def _encode(self, columns: list[pa.Array], *, add: bool) -> Codes:
        hashed = hashes_of_rows(columns, len(columns[0]))
        codes = self._look_up(hashed, columns, add)
        wrong = self._of_other_keys(codes, columns)
        while len(wrong):
            # Another key is found by this hash: go on with a hash that follows from it, as in open addressing.
            hashed[wrong] = _next(hashed[wrong])
            some = [column.take(pa.array(wrong)) for column in columns]
            codes[wrong] = self._look_up(hashed[wrong], some, add)
            wrong = wrong[self._of_other_keys(codes[wrong], some)]
        return codes

    def _look_up(self, hashed: Hashed, columns: list[pa.Array], add: bool) -> Codes:
        codes: Codes = np.empty(len(hashed), np.int64)
        firsts: Codes = np.empty(len(hashed) if add else 0, np.int64)
        if add:
            self._make_room(self.size + len(hashed))
        given = look_up(self._slots, self._hashed, frozen(hashed), self.size, add, codes, firsts)
        if given:
            self.size += given
            self._append(tuple(column.take(pa.array(firsts[:given])) for column in columns))
        return codes

    def _make_room(self, codes: int) -> None:
        if codes > len(self._hashed):
            room = 1 << (codes - 1).bit_length()
            self._hashed = np.concatenate([self._hashed, np.zeros(room - len(self._hashed), np.uint64)])
            self._slots = np.full(2 * room, -1, np.int32)
            enter(self._slots, self._hashed, self.size)

    def _append(self, piece: tuple[pa.Array, ...]) -> None:
        while self._pieces and 2 * len(piece[0]) >= len(self._pieces[-1][0]):
            piece = tuple(pa.concat_arrays(columns) for columns in zip(self._pieces.pop(), piece, strict=True))
        self._pieces.append(piece)

    def _of_other_keys(self, codes: Codes, columns: list[pa.Array]) -> Codes:
        """The places where a code is that of a key with other values."""
        is_other = np.zeros(len(codes), np.bool_)
        base = 0
        for piece in self._pieces:
            here = np.flatnonzero((codes >= base) & (codes < base + len(piece[0])))
            at, rows = pa.array(codes[here] - base), pa.array(here)
            for known, column in zip(piece, columns, strict=True):
                is_other[here] |= pc.not_equal(known.take(at), column.take(rows)).to_numpy(zero_copy_only=False)
            base += len(piece[0])
        return np.flatnonzero(is_other)


def _plain(column: Column) -> pa.Array:
    """Values that are equal wherever SQL says so: numbers and times as integers, text as it is."""
    if not has_order_number(column.type):
        return one_array(column)
    if pa.types.is_floating(column.type):
        column = pc.add(column, pa.scalar(0.0, column.type))  # -0.0 becomes 0.0
    return pa.array(order_numbers(column, 0))


def _next(hashed: Hashed) -> Hashed:
    return hashed * np.uint64(0x9E3779B97F4A7C15) + np.uint64(1)
