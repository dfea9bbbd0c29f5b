"""Arrays and structs: their fields and elements, how many there are, whether a value is among them, and making them.

Without ANSI mode nothing fails: an element that is not there is NULL.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from sqlglot import exp

from anabranch.errors import SqlError, did_you_mean
from anabranch.expressions.expr import Build, Datum, Expr, NotEvaluable, apply, null
from anabranch.expressions.types import BOOLEAN, INT, coerce, common_type, is_whole, name
from anabranch.kernels.nested import as_bytes
from anabranch.kernels.values import compared_numbers, has_order_number, integers, one_array, valid


def comparable(values: Datum) -> Datum:
    """Arrays and structs as bytes that Arrow's kernels compare."""
    if isinstance(values, pa.Scalar):
        return as_bytes(pa.array([values.as_py()], values.type))[0]
    return as_bytes(values)


def _equal_form(values: pa.Array) -> pa.Array:
    """Values as others that are the same exactly where Spark's `=` holds."""
    if pa.types.is_nested(values.type):
        return as_bytes(values)
    if has_order_number(values.type):
        return pa.array(compared_numbers(values, 0), mask=~valid(values))
    return values


# -- reaching in -----------------------------------------------------------------------------------


def field(node: exp.Dot, build: Build) -> Expr:
    """`struct.field`; names match without regard to case."""
    return _field(node, build(node.this), node.expression.name)


def _field(node: exp.Expr, operand: Expr, wanted: str) -> Expr:
    if pa.types.is_list(operand.type) and pa.types.is_struct(operand.type.value_type):
        raise NotEvaluable("a field of all elements of an array is not evaluated here")
    said = node.this.sql(dialect="spark").replace("`", "").strip("()")
    if not pa.types.is_struct(operand.type):
        raise SqlError("COLUMN_NOT_FOUND", f'"{said}" is {name(operand.type)}, which has no field "{wanted}"')
    names = [own.name for own in operand.type]
    found = [place for place, own in enumerate(names) if own.lower() == wanted.lower()]
    if len(found) > 1:
        raise SqlError("COLUMN_AMBIGUOUS", f'field "{wanted}" is in "{said}" {len(found)} times')
    if not found:
        raise SqlError("COLUMN_NOT_FOUND", f'field "{wanted}" is not in "{said}"', hint=did_you_mean(wanted, names))
    return apply(operand.type[found[0]].type, lambda a: pc.struct_field(a, found), operand)


def element(node: exp.Bracket, build: Build) -> Expr:
    """`array[place]` from 0 on, `element_at(array, place)` from 1 on or from the end, `struct['field']`."""
    if len(node.expressions) != 1:
        raise NotEvaluable(f"{node.sql(dialect='spark')}: one place is evaluated here")
    (written,) = node.expressions
    operand, from_one = build(node.this), bool(node.args.get("offset"))
    if pa.types.is_struct(operand.type) and isinstance(written, exp.Literal) and written.is_string and not from_one:
        return _field(node, operand, written.name)
    place = build(written)
    _require_array(operand, "an element")
    if not is_whole(place.type):
        raise NotEvaluable(f"an element at a place of {name(place.type)} is not evaluated here")
    if from_one and (place.constant is None or not place.constant.is_valid or place.constant.as_py() == 0):
        raise NotEvaluable("element_at() fails at place 0, so it is evaluated with a constant")

    def kernel(values: Datum, at: Datum) -> Datum:
        array = one_array(values)
        starts, lengths, items = _elements(array)
        places = _numbers(at, len(array))
        if from_one:
            places = np.where(places > 0, places - 1, lengths + places)
        there = (places >= 0) & (places < lengths) & _present(at, len(array))
        return items.take(pa.array(starts + np.where(there, places, 0), mask=~there))

    return apply(operand.type.value_type, _of_arrays(kernel), operand, place)


def _require_array(operand: Expr, what: str) -> None:
    if not pa.types.is_list(operand.type):
        raise NotEvaluable(f"{what} of {name(operand.type)} is not evaluated here")


def _of_arrays(kernel: Callable[..., Datum]) -> Callable[..., Datum]:
    """A kernel whose first argument may be one array for all rows, too."""

    def run(values: Datum, *more: Datum) -> Datum:
        if not isinstance(values, pa.Scalar):
            return kernel(values, *more)
        count = next((len(other) for other in more if not isinstance(other, pa.Scalar)), 1)
        found = kernel(pa.array([values.as_py()] * count, values.type), *more)
        return found[0] if all(isinstance(other, pa.Scalar) for other in more) else found

    return run


def _elements(array: pa.ListArray) -> tuple[NDArray[np.int64], NDArray[np.int64], pa.Array]:
    """Where the elements of each array begin, how many there are (of NULL none), and all elements."""
    offsets = np.frombuffer(array.buffers()[1], np.int32, len(array) + 1, array.offset * 4).astype(np.int64)
    lengths = np.where(valid(array), offsets[1:] - offsets[:-1], 0)
    return offsets[:-1], lengths, array.values


def _numbers(values: Datum, count: int) -> NDArray[np.int64]:
    if isinstance(values, pa.Scalar):
        return np.full(count, values.as_py() or 0, np.int64)
    return integers(values)


def _present(values: Datum, count: int) -> NDArray[np.bool_]:
    return np.full(count, values.is_valid) if isinstance(values, pa.Scalar) else valid(values)


# -- about all elements ----------------------------------------------------------------------------


def size(node: exp.Expr, build: Build) -> Expr:
    """How many elements; of NULL -1, as Spark has it without ANSI mode."""
    written = node.expressions if isinstance(node, exp.Anonymous) else [node.this]
    if len(written) != 1:
        raise NotEvaluable(f"{node.sql(dialect='spark')}: it is evaluated with one argument")
    operand = build(written[0])
    _require_array(operand, "the size")
    return apply(INT, lambda a: pc.fill_null(_length_of(a), -1), operand)


def array_size(node: exp.Anonymous, build: Build) -> Expr:
    """How many elements; of NULL it is NULL."""
    if len(node.expressions) != 1:
        raise NotEvaluable(f"{node.sql(dialect='spark')}: it is evaluated with one argument")
    operand = build(node.expressions[0])
    _require_array(operand, "the size")
    return apply(INT, _length_of, operand)


def _length_of(arrays: Datum) -> Datum:
    return pc.cast(pc.list_value_length(arrays), INT)


def contains(node: exp.ArrayContains, build: Build) -> Expr:
    """Whether a value is among the elements; NULL where it may be one of those that are NULL."""
    operand, value = build(node.this), build(node.expression)
    _require_array(operand, "what is contained")
    type_ = operand.type.value_type
    if value.is_null or not common_type([null(type_), value], "array_contains()", nested=True).equals(type_):
        raise NotEvaluable(f"{name(value.type)} in {name(operand.type)} is not looked for here")
    value = coerce(value, type_)

    def kernel(values: Datum, wanted: Datum) -> Datum:
        array = one_array(values)
        count = len(array)
        _, lengths, _ = _elements(array)
        of = np.repeat(np.arange(count), lengths)
        items = _equal_form(array.flatten())
        single = isinstance(wanted, pa.Scalar)
        others = _equal_form(pa.array([wanted.as_py()], wanted.type) if single else one_array(wanted))
        others = others.take(pa.array(np.zeros(len(of), np.int64) if single else of))
        same = pc.fill_null(pc.equal(items, others), False).to_numpy(zero_copy_only=False)
        found = np.bincount(of, weights=same, minlength=count) > 0
        doubtful = np.bincount(of, weights=~valid(items), minlength=count) > 0
        unknown = ~valid(array) | ~_present(wanted, count) | (~found & doubtful)
        return pa.array(found, mask=unknown)

    return apply(BOOLEAN, _of_arrays(kernel), operand, value)


# -- making them -----------------------------------------------------------------------------------


def array(node: exp.Array, build: Build) -> Expr:
    """An array of values of one type."""
    items = [build(item) for item in node.expressions]
    if not items:
        raise NotEvaluable("array() without elements has no type here")
    type_ = common_type(items, "array()", nested=True)
    if pa.types.is_null(type_):
        raise NotEvaluable("an array of NULLs has no type here")
    width = len(items)

    def kernel(*columns: Datum) -> Datum:
        if all(isinstance(column, pa.Scalar) for column in columns):
            return pa.scalar([column.as_py() for column in columns], pa.list_(type_))
        count = _length(columns)
        flat = pa.concat_arrays([_column(column, count) for column in columns])
        in_turn = np.arange(count * width).reshape(width, count).T.ravel()
        offsets = pa.array(np.arange(count + 1, dtype=np.int32) * np.int32(width))
        return pa.ListArray.from_arrays(offsets, flat.take(pa.array(in_turn)), pa.list_(type_))

    return apply(pa.list_(type_), kernel, *(coerce(item, type_) for item in items))


def struct(node: exp.Struct, build: Build) -> Expr:
    """A struct of values with names."""
    fields = []
    for written in node.expressions:
        if not (isinstance(written, exp.PropertyEQ) and isinstance(written.this, exp.Identifier)):
            raise NotEvaluable(f"{node.sql(dialect='spark')}: a field without a name is not evaluated here")
        fields.append((written.this.name, build(written.expression)))
    if not fields or len({known.lower() for known, _ in fields}) < len(fields) or any(v.is_null for _, v in fields):
        raise NotEvaluable(f"{node.sql(dialect='spark')}: fields have types, and names that differ")
    type_ = pa.struct([pa.field(known, value.type) for known, value in fields])

    def kernel(*columns: Datum) -> Datum:
        if all(isinstance(column, pa.Scalar) for column in columns):
            pairs = zip(fields, columns, strict=True)
            return pa.scalar({known: column.as_py() for (known, _), column in pairs}, type_)
        count = _length(columns)
        return pa.StructArray.from_arrays([_column(column, count) for column in columns], fields=list(type_))

    return apply(type_, kernel, *(value for _, value in fields))


def _length(columns: tuple[Datum, ...]) -> int:
    return next(len(column) for column in columns if not isinstance(column, pa.Scalar))


def _column(values: Datum, count: int) -> pa.Array:
    return pa.repeat(values, count) if isinstance(values, pa.Scalar) else one_array(values)
