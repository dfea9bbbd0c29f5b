"""The keys that changes touch, each once: everything but rows and unions is answered for these."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.kernels.groups import encode, one_zero_one_nan
from anabranch.kernels.same_rows import same_rows
from anabranch.kernels.sorted_codes import Codes, Places
from anabranch.kernels.values import Column, one_array
from anabranch.operators.tree.runs import hashed


@dataclass(frozen=True)
class Touched:
    """Different keys in the order of their hashes, and for each row the number of its key."""

    keys: list[pa.Array]
    codes: Codes
    of_row: Places

    def __len__(self) -> int:
        return len(self.codes)

    def sums(self, weights: NDArray[np.int64]) -> NDArray[np.int64]:
        """The sum of the weights of each key's rows."""
        sums = np.zeros(len(self), np.int64)
        np.add.at(sums, self.of_row, weights)
        return sums


def touched(columns: Sequence[Column], length: int) -> Touched:
    """The keys in some columns; without columns all rows have the same one, which is there even without rows."""
    codes = hashed(columns, length)
    order = np.argsort(codes)
    in_turn = codes[order]
    tied = in_turn[1:] == in_turn[:-1]
    ties = np.flatnonzero(tied)
    if not columns or not same_rows(columns, order[ties], columns, order[ties + 1]).all():
        return _through_encoding(columns, length)
    begins = np.concatenate([[True], ~tied])[:length]
    of_row = np.empty(length, np.int64)
    of_row[order] = np.cumsum(begins) - 1
    first = pa.array(order[begins])
    keys = [one_zero_one_nan(one_array(column).take(first)) for column in columns]
    return Touched(keys, in_turn[begins], of_row)


def _through_encoding(columns: Sequence[Column], length: int) -> Touched:
    """The same without columns, and where hashes collide."""
    groups = encode(columns, length)
    keys = groups.keys(np.arange(groups.size, dtype=np.int32))
    codes = hashed(keys, groups.size)
    order = np.argsort(codes)
    back = np.empty(groups.size, np.int64)
    back[order] = np.arange(groups.size)
    at = pa.array(order)
    return Touched([key.take(at) for key in keys], codes[order], back[groups.codes])
