"""The keys that changes touch, each once: everything but rows and unions is answered for these."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.kernels.groups import encode
from anabranch.kernels.sorted_codes import Codes, Places
from anabranch.kernels.values import Column
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
    groups = encode(columns, length)
    keys = groups.keys(np.arange(groups.size, dtype=np.int32))
    codes = hashed(keys, groups.size)
    order = np.argsort(codes)
    back = np.empty(groups.size, np.int64)
    back[order] = np.arange(groups.size)
    at = pa.array(order)
    return Touched([key.take(at) for key in keys], codes[order], back[groups.codes])
