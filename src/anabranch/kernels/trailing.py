"""Partial answers of the last rows of a part, for each of its rows, put together from those of 1, 2, 4, … rows.

What a row's answer is made of, and in which order, depends on the rows that it is about alone, so it comes to the same
bits wherever rows before them begin. It takes time in proportion to the rows and the digits of the count.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.kernels.fold import Slots, State
from anabranch.kernels.values import Column, frozen

Places = NDArray[np.int64]


def trailing(state: State, begin: Places, count: int, values: Column | None) -> list[pa.Array]:
    """The state of each row and up to `count` - 1 rows before it, none before `begin`, where its part begins."""
    place = np.arange(len(begin))
    nothing = [pa.array([], type_) for type_ in state.types]
    spans = state.fold(_slots(place, len(place)), nothing, values)
    span, ends, found = 1, place, None
    while count:
        if count & 1:
            found = spans if found is None else _before(state, spans, ends, begin, found)
            ends = ends - span
        count >>= 1
        if count:
            spans = _before(state, spans, place - span, begin, spans)
            span *= 2
    assert found is not None
    return found


def _before(
    state: State, spans: Sequence[pa.Array], ends: Places, begin: Places, later: Sequence[pa.Array]
) -> list[pa.Array]:
    """The state of each row, with that of the span that ends at a place before it, if its part goes back so far."""
    there = np.flatnonzero(ends >= begin)
    taken = pa.array(ends[there])
    both = [pa.concat_arrays([span.take(taken), own]) for span, own in zip(spans, later, strict=True)]
    return state.combine(_slots(np.concatenate([there, np.arange(len(begin))]), len(begin)), both)


def _slots(of_entry: Places, count: int) -> Slots:
    return Slots(frozen(of_entry.astype(np.int32)), np.zeros(count, np.int32), np.array([0, count]))
