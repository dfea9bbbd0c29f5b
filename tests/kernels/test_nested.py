"""Arrays and structs as bytes: the same exactly where SQL says so, and in the order that Spark puts them in."""

from __future__ import annotations

import datetime as dt
import functools
import itertools
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.kernels.groups import encode
from anabranch.kernels.hashing import hashes
from anabranch.kernels.keyed import KeyIndex, differs
from anabranch.kernels.nested import as_bytes, one_zero
from anabranch.kernels.same_rows import same_rows
from anabranch.schema import TIME_TYPE
from tests.sampling import examples

_LEAVES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int8(): st.sampled_from([-128, -1, 0, 1, 127]),
    pa.int64(): st.sampled_from([-(2**63), -1, 0, 1, 2**63 - 1]),
    pa.float64(): st.sampled_from([-math.inf, -1.5, -0.0, 0.0, 1e-300, math.inf, math.nan]),
    pa.float32(): st.sampled_from([-1.5, -0.0, 0.0, math.nan]),
    pa.bool_(): st.booleans(),
    pa.string(): st.sampled_from(["", "a", "a\x00", "a\x00b", "ab", "é", "\x00"]),
    pa.binary(): st.sampled_from([b"", b"\x00", b"\x00\xff", b"\xff"]),
    pa.decimal128(10, 2): st.sampled_from([Decimal("-1.50"), Decimal("0.00"), Decimal("2.25"), Decimal("99999999.99")]),
    pa.date32(): st.sampled_from([dt.date(1969, 12, 31), dt.date(1970, 1, 1)]),
    TIME_TYPE: st.sampled_from([dt.datetime(1969, 1, 1, tzinfo=dt.UTC), dt.datetime(2026, 1, 1, tzinfo=dt.UTC)]),
}


def _values(type_: pa.DataType) -> st.SearchStrategy[Any]:
    some: st.SearchStrategy[Any]
    if pa.types.is_list(type_):
        some = st.lists(_values(type_.value_type), max_size=3)
    elif pa.types.is_struct(type_):
        some = st.fixed_dictionaries({field.name: _values(field.type) for field in type_})
    else:
        some = _LEAVES[type_]
    return st.none() | some


def _struct(types: list[pa.DataType]) -> pa.DataType:
    return pa.struct([(f"f{number}", type_) for number, type_ in enumerate(types)])


_TYPES = st.recursive(
    st.sampled_from(list(_LEAVES)),
    lambda inner: st.one_of(inner.map(pa.list_), st.lists(inner, min_size=1, max_size=3).map(_struct)),
    max_leaves=4,
)


@st.composite
def _columns(draw: st.DrawFn) -> pa.Array:
    type_ = draw(_TYPES.filter(pa.types.is_nested))
    values = draw(st.lists(_values(type_), max_size=8))
    begin = draw(st.integers(0, len(values)))
    return pa.array(values, type_).slice(begin)


def _compare(one: Any, other: Any) -> int:
    """Spark's order of values, one value after the other."""
    if one is None or other is None:
        return (one is not None) - (other is not None)
    if isinstance(one, dict):
        one, other = list(one.values()), list(other.values())
    if isinstance(one, list):
        parts = (_compare(a, b) for a, b in zip(one, other, strict=False))
        return next((part for part in parts if part), (len(one) > len(other)) - (len(one) < len(other)))
    if isinstance(one, float) and (math.isnan(one) or math.isnan(other)):
        return math.isnan(one) - math.isnan(other)
    if isinstance(one, str):
        one, other = one.encode(), other.encode()
    return int(one > other) - int(one < other)


@examples(300)
@given(column=_columns())
def test_bytes_compare_as_values_do(column: pa.Array) -> None:
    values, written = column.to_pylist(), as_bytes(column)
    assert written.null_count == column.null_count
    data = written.to_pylist()
    for i, one in enumerate(values):
        for j, other in enumerate(values):
            assert _compare(one, other) == _compare(data[i], data[j]), (one, other)


@examples(100)
@given(column=_columns())
def test_what_groups_hashes_and_finds_rows_goes_by_value(column: pa.Array) -> None:
    values, count = column.to_pylist(), len(column)
    groups, hashed = encode([column], count), hashes(column)
    ordered = sorted(set(groups.codes.tolist()), key=lambda code: groups.ranks()[code])
    of_code = {code: values[groups.codes.tolist().index(code)] for code in ordered}
    assert all(_compare(of_code[a], of_code[b]) < 0 for a, b in itertools.pairwise(ordered))
    for code, key in enumerate(groups.keys(np.arange(groups.size, dtype=np.int32))[0].to_pylist()):
        assert _compare(of_code[code], key) == 0
    places = np.arange(count)
    for i, one in enumerate(values):
        alike = [_compare(one, other) == 0 for other in values]
        assert (groups.codes[i] == groups.codes).tolist() == alike
        assert same_rows([column], np.full(count, i), [column], places).tolist() == alike
        assert (hashed[np.array(alike, bool)] == hashed[i]).all()
    firsts = [i for i in range(count) if not any(_compare(values[i], values[j]) == 0 for j in range(i))]
    if firsts:
        found = KeyIndex([column.take(pa.array(firsts))]).find([column])
        assert all(_compare(values[firsts[at]], value) == 0 for at, value in zip(found, values, strict=True))


@examples(100)
@given(column=_columns())
def test_zeros_are_one_and_nothing_else_changes(column: pa.Array) -> None:
    made = one_zero(column)
    assert made.type == column.type
    assert as_bytes(made).equals(as_bytes(column))
    assert "-0.0" not in repr(made.to_pylist())
    made.validate(full=True)


def test_a_value_that_differs_in_a_zero_alone_is_another_one_for_who_writes_it_down() -> None:
    one, other = pa.array([[0.0], [math.nan], None, []]), pa.array([[-0.0], [math.nan], [], None])
    assert differs(one, other).tolist() == [True, False, True, True]
    assert differs(one, one).tolist() == [False] * 4


@pytest.mark.parametrize("type_", [pa.list_(pa.int64()), pa.struct([("a", pa.list_(pa.string()))])])
def test_no_rows_have_no_bytes(type_: pa.DataType) -> None:
    assert as_bytes(pa.array([], type_)).to_pylist() == []
    assert encode([pa.array([], type_)], 0).size == 0


def test_the_oracle_orders_as_spark_does() -> None:
    values: list[Any] = [[2], None, [1, None], [], [1], [1, 0]]
    in_order = sorted(values, key=functools.cmp_to_key(_compare))
    assert in_order == [None, [], [1], [1, None], [1, 0], [2]]
