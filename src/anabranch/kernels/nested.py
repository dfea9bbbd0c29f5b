"""Arrays and structs as bytes of the same order, so that whatever compares, hashes or sorts bytes does so with them.

Two values are the same exactly if their bytes are: NULL is NULL and no empty array, NaN is NaN, -0.0 is 0.0. NULL
comes first and NaN last. Arrays are ordered by their first element that differs, a shorter one before those that it
begins; structs by their first field that differs: as Spark orders them.

NULL is a byte 0, and other values are a byte 1 before their own. Numbers are big-endian with the sign turned round; a
text ends with two bytes 0, and one that is in it is followed by 255; an element has a byte 1 before it, and a byte 0
ends an array.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from anabranch.column_types import is_nested
from anabranch.kernels.compiled import compiled
from anabranch.kernels.values import Column, compared_numbers, frozen, has_order_number, one_array, order_numbers, valid

Bytes: TypeAlias = NDArray[np.uint8]
Starts: TypeAlias = NDArray[np.int64]


class _Written(NamedTuple):
    """The bytes of some values: those of value i are from `starts[i]` on and before `starts[i + 1]`."""

    starts: Starts
    data: Bytes


def as_bytes(column: Column, *, exactly: bool = False) -> pa.Array:
    """Each value as BINARY, NULL where it is NULL; see the module. `exactly`: -0.0 is another value than 0.0.

    >>> shorter, longer = as_bytes(pa.array([[1.0, None], [1.0, None, -0.0]])).to_pylist()
    >>> shorter < longer
    True
    """
    array = one_array(column)
    written = _written(array, exactly)
    if written.starts[-1] >= 2**31:
        raise OverflowError("more than 2 GB of arrays and structs are compared at once")
    offsets, data = pa.py_buffer(written.starts.astype(np.int32)), pa.py_buffer(written.data)
    present = None if not array.null_count else pa.array(valid(array)).buffers()[1]
    return pa.Array.from_buffers(pa.binary(), len(array), [present, offsets, data])


def comparable(column: Column) -> Column:
    """A column that Arrow's kernels compare, in the place of one of arrays or structs."""
    return as_bytes(column) if is_nested(column.type) else column


def one_zero(column: Column) -> Column:
    """The column with 0.0 in the place of -0.0, in arrays and structs, too.

    >>> one_zero(pa.array([[-0.0], None])).to_pylist()
    [[0.0], None]
    """
    if pa.types.is_floating(column.type):
        return pc.add(column, pa.scalar(0.0, column.type))
    if not is_nested(column.type) or not _has_floats(column.type):
        return column
    array = one_array(column)
    missing = pa.array(~valid(array)) if array.null_count else None
    if pa.types.is_struct(array.type):
        fields = [one_array(one_zero(array.field(i))) for i in range(array.type.num_fields)]
        return pa.StructArray.from_arrays(fields, fields=list(array.type), mask=missing)
    offsets, values = _elements(array)
    return pa.ListArray.from_arrays(
        pa.array(offsets, pa.int32()), one_array(one_zero(values)), array.type, mask=missing
    )


def _has_floats(type_: pa.DataType) -> bool:
    if pa.types.is_struct(type_):
        return any(_has_floats(field.type) for field in type_)
    return _has_floats(type_.value_type) if pa.types.is_list(type_) else bool(pa.types.is_floating(type_))


def _elements(array: pa.ListArray) -> tuple[NDArray[np.int32], pa.Array]:
    """Where the elements of each value begin and end, and the elements; none that another slice has."""
    offsets = np.frombuffer(array.buffers()[1], np.int32, len(array) + 1, array.offset * 4)
    first, last = int(offsets[0]), int(offsets[-1])
    return offsets - np.int32(first), array.values.slice(first, last - first)


def _written(array: pa.Array, exactly: bool) -> _Written:
    type_, present = array.type, frozen(valid(array))
    if len(array) == 0 or pa.types.is_null(type_):
        return _Written(np.arange(len(array) + 1, dtype=np.int64), np.zeros(len(array), np.uint8))
    if pa.types.is_struct(type_):
        whole = _Written(np.zeros(len(array) + 1, np.int64), np.zeros(0, np.uint8))
        for i in range(type_.num_fields):
            field = _written(array.field(i), exactly)
            whole = _Written(*_side_by_side(*whole, *field))
        return _Written(*_marked(present, *whole))
    if pa.types.is_list(type_):
        offsets, values = _elements(array)
        return _Written(*_of_arrays(present, frozen(offsets), *_written(values, exactly)))
    if pa.types.is_decimal(type_):
        return _Written(*_of_fixed(present, frozen(_decimals(array))))
    if has_order_number(type_):
        numbers = order_numbers(array, 0) if exactly else compared_numbers(array, 0)
        turned = numbers.view(np.uint64) ^ np.uint64(1 << 63)
        return _Written(*_of_fixed(present, frozen(turned.astype(">u8").view(np.uint8).reshape(-1, 8))))
    array = array.cast(pa.binary())
    _, offsets, data = array.buffers()
    starts = np.frombuffer(offsets, np.int32, len(array) + 1, array.offset * 4)
    text = np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(0, np.uint8)
    return _Written(*_of_texts(present, frozen(starts), frozen(text)))


def _decimals(array: pa.Array) -> Bytes:
    """The 16 bytes of each, the highest first, with the sign turned round."""
    little = np.frombuffer(array.buffers()[1], np.uint8, len(array) * 16, array.offset * 16).reshape(-1, 16)
    big = np.ascontiguousarray(little[:, ::-1])
    big[:, 0] ^= 0x80
    return big


@compiled
def _of_fixed(present, values):  # type: ignore[no-untyped-def]
    width = values.shape[1]
    starts = np.zeros(len(present) + 1, np.int64)
    for i in range(len(present)):
        starts[i + 1] = starts[i] + (1 + width if present[i] else 1)
    data = np.zeros(starts[-1], np.uint8)
    for i in range(len(present)):
        if present[i]:
            data[starts[i]] = 1
            for j in range(width):
                data[starts[i] + 1 + j] = values[i, j]
    return starts, data


@compiled
def _of_texts(present, begins, text):  # type: ignore[no-untyped-def]
    starts = np.zeros(len(present) + 1, np.int64)
    for i in range(len(present)):
        length = 1
        if present[i]:
            length += 2
            for at in range(begins[i], begins[i + 1]):
                length += 2 if text[at] == 0 else 1
        starts[i + 1] = starts[i] + length
    data = np.zeros(starts[-1], np.uint8)
    for i in range(len(present)):
        if present[i]:
            place = starts[i]
            data[place] = 1
            for at in range(begins[i], begins[i + 1]):
                place += 1
                data[place] = text[at]
                if text[at] == 0:
                    place += 1
                    data[place] = 255
    return starts, data


@compiled
def _of_arrays(present, begins, element_starts, elements):  # type: ignore[no-untyped-def]
    starts = np.zeros(len(present) + 1, np.int64)
    for i in range(len(present)):
        length = 1
        if present[i]:
            length += 1 + (begins[i + 1] - begins[i]) + element_starts[begins[i + 1]] - element_starts[begins[i]]
        starts[i + 1] = starts[i] + length
    data = np.zeros(starts[-1], np.uint8)
    for i in range(len(present)):
        if present[i]:
            place = starts[i]
            data[place] = 1
            for element in range(begins[i], begins[i + 1]):
                place += 1
                data[place] = 1
                for at in range(element_starts[element], element_starts[element + 1]):
                    place += 1
                    data[place] = elements[at]
    return starts, data


@compiled
def _side_by_side(left_starts, left, right_starts, right):  # type: ignore[no-untyped-def]
    count = len(left_starts) - 1
    starts = np.zeros(count + 1, np.int64)
    data = np.empty(left_starts[count] + right_starts[count], np.uint8)
    place = 0
    for i in range(count):
        for at in range(left_starts[i], left_starts[i + 1]):
            data[place] = left[at]
            place += 1
        for at in range(right_starts[i], right_starts[i + 1]):
            data[place] = right[at]
            place += 1
        starts[i + 1] = place
    return starts, data


@compiled
def _marked(present, begins, values):  # type: ignore[no-untyped-def]
    starts = np.zeros(len(present) + 1, np.int64)
    for i in range(len(present)):
        starts[i + 1] = starts[i] + (1 + begins[i + 1] - begins[i] if present[i] else 1)
    data = np.zeros(starts[-1], np.uint8)
    for i in range(len(present)):
        if present[i]:
            data[starts[i]] = 1
            for at in range(begins[i], begins[i + 1]):
                data[starts[i] + 1 + at - begins[i]] = values[at]
    return starts, data
