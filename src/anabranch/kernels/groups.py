"""Group keys as small integers, with SQL's idea of which keys are the same.

NULL is a key like any other, NaN equals NaN, and -0.0 equals 0.0. Rows are never touched one by
one in Python: each key column is encoded by Arrow's hash table, and the codes of several columns
are folded into one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from anabranch.column_types import is_nested
from anabranch.kernels.nested import as_bytes
from anabranch.kernels.values import float_order, frozen, one_array

Codes = NDArray[np.int32]


@dataclass(frozen=True)
class Groups:
    """A code for each entry, 0 ≤ code < `size`, and the way back from codes to keys."""

    codes: Codes
    size: int
    dictionaries: tuple[pa.Array, ...]
    positions: tuple[NDArray[np.int32], ...]
    """For each key column, the place of each code's value in the column's dictionary."""

    def keys(self, codes: Codes) -> list[pa.Array]:
        """The key columns of the given codes."""
        return [values.take(pa.array(at[codes])) for values, at in zip(self.dictionaries, self.positions, strict=True)]

    def ranks(self) -> NDArray[np.int64]:
        """The place of each code among all codes ordered by key: NULL first, NaN last."""
        if self.size <= 1 or not self.positions:
            return np.zeros(self.size, np.int64)
        columns = {
            str(i): _rank_values(values).take(pa.array(at))
            for i, (values, at) in enumerate(zip(self.dictionaries, self.positions, strict=True))
        }
        order = pc.sort_indices(
            pa.table(columns), sort_keys=[(name, "ascending", "at_start") for name in columns]
        ).to_numpy()
        ranks = np.empty(self.size, np.int64)
        ranks[order] = np.arange(self.size)
        return ranks


def encode(columns: Sequence[pa.Array | pa.ChunkedArray], length: int) -> Groups:
    """Codes for the rows of the key columns; without columns all rows are one group.

    >>> encode([pa.array(["b", None, "b"]), pa.array([1, 1, 1])], 3).codes.tolist()
    [0, 1, 0]
    """
    if not columns:
        return Groups(frozen(np.zeros(length, np.int32)), 1, (), ())
    codes, values = _encode_one(columns[0])
    dictionaries, positions, size = [values], [np.arange(len(values), dtype=np.int32)], len(values)
    for column in columns[1:]:
        more, values = _encode_one(column)
        pairs = codes.astype(np.int64) * max(len(values), 1) + more
        codes, distinct = _encode_one(pa.array(pairs))
        first, second = np.divmod(distinct.to_numpy(), max(len(values), 1))
        positions = [at[first] for at in positions]
        positions.append(second.astype(np.int32))
        dictionaries.append(values)
        size = len(distinct)
    return Groups(frozen(codes), size, tuple(dictionaries), tuple(positions))


def _encode_one(column: pa.Array | pa.ChunkedArray) -> tuple[Codes, pa.Array]:
    if is_nested(column.type):
        codes, distinct = _encode_one(as_bytes(column))
        first = np.full(len(distinct), len(codes), np.int64)
        np.minimum.at(first, codes, np.arange(len(codes)))
        return codes, one_array(column).take(pa.array(first))
    column = one_zero_one_nan(column)
    encoded = pc.dictionary_encode(column, null_encoding="encode")
    if isinstance(encoded, pa.ChunkedArray):
        if encoded.num_chunks == 0:
            return np.zeros(0, np.int32), pa.array([], column.type)
        # The chunks grow one dictionary: the last one holds it all.
        values = encoded.chunk(encoded.num_chunks - 1).dictionary
        parts = [chunk.indices.to_numpy() for chunk in encoded.chunks]
        return (np.concatenate(parts) if len(parts) > 1 else parts[0]), values
    return encoded.indices.to_numpy(), encoded.dictionary


def one_zero_one_nan(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """The column with the same bits for all that is the same key."""
    if not pa.types.is_floating(column.type):
        return column
    nan = pa.scalar(float("nan"), column.type)
    return pc.if_else(pc.is_nan(column), nan, pc.add(column, pa.scalar(0.0, column.type)))


def _rank_values(values: pa.Array) -> pa.Array:
    """Values that sort as SQL sorts the keys: Arrow would put NaN beside NULL."""
    if is_nested(values.type):
        return as_bytes(values)
    if not pa.types.is_floating(values.type):
        return values
    return pa.array(float_order(values), mask=pc.is_null(values).to_numpy(zero_copy_only=False))
