"""Group codes agree with SQL's idea of equal keys."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.kernels.groups import encode

NAN = math.nan


def same(value: Any) -> Any:
    return "nan" if isinstance(value, float) and math.isnan(value) else value


KEYS = st.tuples(
    st.none() | st.sampled_from(["", "a", "b", "ä"]),
    st.none() | st.sampled_from([0.0, -0.0, 1.0, -1.0, NAN, math.inf, -math.inf]),
    st.none() | st.integers(-3, 3),
)


@given(rows=st.lists(KEYS, max_size=40), pieces=st.integers(1, 3))
def test_rows_share_a_code_exactly_if_their_keys_are_equal(rows: list[tuple[Any, ...]], pieces: int) -> None:
    types = [pa.string(), pa.float64(), pa.int32()]
    step = max(1, len(rows) // pieces)
    columns = [
        pa.chunked_array([pa.array([r[i] for r in rows[at : at + step]], t) for at in range(0, len(rows), step)], t)
        for i, t in enumerate(types)
    ]
    groups = encode(columns, len(rows))
    seen: dict[tuple[Any, ...], int] = {}
    for row, code in zip(rows, groups.codes.tolist(), strict=True):
        assert seen.setdefault(tuple(map(same, row)), code) == code
    assert len(set(seen.values())) == len(seen) == groups.size
    decoded = list(zip(*(c.to_pylist() for c in groups.keys(groups.codes)), strict=True))
    assert [tuple(map(same, r)) for r in decoded] == [tuple(map(same, r)) for r in rows]


def test_ranks_put_null_first_and_nan_last() -> None:
    values = [NAN, 1.0, None, -math.inf, math.inf, -1.0]
    groups = encode([pa.array(values)], len(values))
    ranks = groups.ranks()[groups.codes]
    assert [values[i] for i in ranks.argsort()][:5] == [None, -math.inf, -1.0, 1.0, math.inf]


def test_ranks_of_several_keys_compare_the_first_one_first() -> None:
    groups = encode([pa.array(["b", "a", None, "a"]), pa.array([1, 2, 9, None])], 4)
    assert groups.ranks()[groups.codes].tolist() == [3, 2, 0, 1]


@pytest.mark.parametrize("type_", [pa.null(), pa.bool_(), pa.decimal128(5, 2), pa.date32(), pa.binary()])
def test_a_column_of_nulls_is_one_group(type_: pa.DataType) -> None:
    groups = encode([pa.nulls(3, type_)], 3)
    assert groups.codes.tolist() == [0, 0, 0]
    assert groups.keys(groups.codes)[0].null_count == 3


def test_no_keys_is_one_group() -> None:
    groups = encode([], 3)
    assert (groups.codes.tolist(), groups.size, groups.keys(groups.codes)) == ([0, 0, 0], 1, [])
