"""Rows dealt to blocks, each in their order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.kernels.compiled import compiled
from anabranch.kernels.sampling import Lots, blocks_of, lot_of
from anabranch.kernels.values import frozen, one_array

Ints = NDArray[np.int64]
Places = NDArray[np.int32]
Width = type[np.int32] | type[np.int64]


def deal(drawn: Lots, blocks: int, apart: Ints | None = None) -> tuple[Places, Ints]:
    """The place of each row among all, block by block and in order inside each, and where each block begins.

    Rows at the places `apart` are a block of their own, before all others.

    >>> places, starts = deal(np.array([2**63, 0, 2**63 + 1, 2**64 - 1], np.uint64), 3)
    >>> places.tolist(), starts.tolist()
    ([1, 0, 2, 3], [0, 1, 3, 4])
    """
    places: Places
    starts: Ints
    places, starts = _placed(*_with_apart(blocks_of(drawn, blocks), blocks, apart))
    return places, starts


def deal_numbers(first: int, count: int, seed: int, blocks: int, apart: Ints | None = None) -> tuple[Places, Ints]:
    """The same for `count` rows from number `first` on, by the lots that their numbers draw.

    >>> from anabranch.kernels.sampling import lots
    >>> places, starts = deal_numbers(5, 1000, 7, 10)
    >>> same = deal(lots(np.arange(5, 1005), 7), 10)
    >>> bool((places == same[0]).all()), bool((starts == same[1]).all())
    (True, True)
    """
    places: Places
    starts: Ints
    dealt_to = _blocks_of_numbers(first, count, np.uint64(seed), np.uint64(blocks))
    places, starts = _placed(*_with_apart(dealt_to, blocks, apart))
    return places, starts


def _with_apart(block: NDArray[np.uint16], blocks: int, apart: Ints | None) -> tuple[NDArray[np.uint16], int]:
    """The blocks numbered on by one, if some rows are a block before them."""
    if apart is None or not len(apart):
        return frozen(block), blocks
    block = block + np.uint16(1)
    block[apart] = 0
    return frozen(block), blocks + 1


def dealt(rows: pa.Table, places: Places) -> pa.Table:
    """Rows at their places.

    >>> dealt(pa.table({"a": [7, 8, 9]}), np.array([2, 0, 1], np.int32)).to_pydict()
    {'a': [8, 9, 7]}
    """
    order: pa.Array | None = None
    columns = []
    for column in rows.columns:
        width = _WIDTHS.get(column.type.bit_width if pa.types.is_primitive(column.type) else 0)
        if width is not None and column.null_count == 0:
            # Written to many places but read in order, which is several times as fast as the other way round.
            parts = [_values(chunk, width) for chunk in column.chunks]
            columns.append(pa.Array.from_buffers(column.type, len(column), [None, _scattered(parts, places, width)]))
        else:
            if order is None:
                numbers = _scattered([np.arange(len(places))], places, np.int64)
                order = pa.Array.from_buffers(pa.int64(), len(places), [None, numbers])
            columns.append(one_array(column).take(order))
    return pa.table(columns, schema=rows.schema)


_WIDTHS: dict[int, Width] = {32: np.int32, 64: np.int64}


@compiled
def _blocks_of_numbers(first, count, seed, blocks):  # type: ignore[no-untyped-def]
    """The block of each of some row numbers; small numbers, since this is about how fast memory is."""
    out = np.empty(count, np.uint16)
    for i in range(count):
        drawn = lot_of(np.uint64(first + i), seed)
        out[i] = np.uint16(((drawn >> np.uint64(32)) * blocks) >> np.uint64(32))
    return out


@compiled
def _placed(block, blocks):  # type: ignore[no-untyped-def]
    starts = np.zeros(blocks + 1, np.int64)
    for i in range(len(block)):
        starts[block[i] + 1] += 1
    for b in range(blocks):
        starts[b + 1] += starts[b]
    at = starts.copy()
    places = np.empty(len(block), np.int32)
    for i in range(len(block)):
        b = block[i]
        places[i] = at[b]
        at[b] += 1
    return places, starts


def _values(chunk: pa.Array, width: Width) -> NDArray[Any]:
    return np.frombuffer(chunk.buffers()[1], width, len(chunk), chunk.offset * np.dtype(width).itemsize)


def _scattered(parts: Sequence[NDArray[Any]], places: Places, width: Width) -> pa.Buffer:
    # Arrow's memory is used again for the next run; fresh memory costs more than filling it.
    buffer = pa.allocate_buffer(len(places) * np.dtype(width).itemsize)
    out, at = np.frombuffer(buffer, width), 0
    for part in parts:
        _scatter(frozen(part), frozen(places[at : at + len(part)]), out)
        at += len(part)
    return buffer


@compiled
def _scatter(values, places, out):  # type: ignore[no-untyped-def]
    for i in range(len(values)):
        out[places[i]] = values[i]
