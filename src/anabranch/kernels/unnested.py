"""The elements of arrays, each with the row it is of."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.kernels.values import Column, one_array, valid


class Unnested(NamedTuple):
    """Elements in the order of their rows, with the place in the array that each has from 0 on."""

    of: NDArray[np.int64]
    items: pa.Array
    places: pa.Array


def unnested(column: Column, *, outer: bool = False) -> Unnested:
    """All elements; `outer`: an array without any, and NULL, has one that is NULL and has no place.

    >>> found = unnested(pa.array([["a", None], None, []]), outer=True)
    >>> found.of.tolist(), found.items.to_pylist(), found.places.to_pylist()
    ([0, 0, 1, 2], ['a', None, None, None], [0, 1, None, None])
    """
    array = one_array(column)
    offsets = np.frombuffer(array.buffers()[1], np.int32, len(array) + 1, array.offset * 4).astype(np.int64)
    lengths = np.where(valid(array), offsets[1:] - offsets[:-1], 0)
    rows = np.maximum(lengths, 1) if outer else lengths
    of = np.repeat(np.arange(len(array)), rows)
    place = np.arange(len(of)) - np.repeat(np.cumsum(rows) - rows, rows)
    missing = lengths[of] == 0
    at = np.where(missing, 0, offsets[:-1][of] + place)
    items = array.values.take(pa.array(at, mask=missing))
    return Unnested(of, items, pa.array(place.astype(np.int32), mask=missing))
