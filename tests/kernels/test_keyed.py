"""Rows found by their keys, and versions by time, against searching one by one."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.kernels import keyed
from anabranch.kernels.hashing import hashes_of_rows
from anabranch.kernels.keyed import KeyIndex, differs, first_repeated, last_of_each
from anabranch.kernels.versions import versions_at
from tests.sampling import examples

TEXTS = st.sampled_from(["", "a", "b", "ab", "é", "aa"])
NUMBERS = st.sampled_from([0.0, -0.0, 1.5, math.nan, 1e300, -1.0])


def same(a: Any, b: Any) -> bool:
    return bool(a == b or (a != a and b != b))


@examples(60)
@given(known=st.lists(st.tuples(TEXTS, NUMBERS)), wanted=st.lists(st.tuples(TEXTS, NUMBERS)), few=st.booleans())
def test_an_index_finds_what_looking_at_every_key_finds(known: list[Any], wanted: list[Any], few: bool) -> None:
    distinct: list[Any] = []
    for key in known:
        if not any(all(map(same, key, other)) for other in distinct):
            distinct.append(key)

    def columns(keys: list[Any]) -> list[pa.Array]:
        return [pa.array([k[0] for k in keys], pa.string()), pa.array([k[1] for k in keys], pa.float64())]

    with pytest.MonkeyPatch.context() as patched:
        if few:  # all keys have one of two hashes
            patched.setattr(keyed, "hashes_of_rows", lambda *given: hashes_of_rows(*given) % np.uint64(2))
        found = KeyIndex(columns(distinct)).find(columns(wanted))
    naive = [next((i for i, k in enumerate(distinct) if all(map(same, k, key))), -1) for key in wanted]
    assert found.tolist() == naive


@examples(60)
@given(
    versions=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4))),
    wanted=st.lists(st.tuples(st.integers(0, 4), st.integers(-1, 30))),
)
def test_the_version_in_force_is_the_last_that_is_not_too_late(
    versions: list[tuple[int, int]], wanted: list[tuple[int, int]]
) -> None:
    codes = np.array([code for code, _ in versions], np.int64)
    times = np.array(list(itertools.accumulate(step for _, step in versions)), np.int64)
    asked = np.array(wanted, np.int64).reshape(-1, 2)
    found = versions_at(codes, times, asked[:, 0], asked[:, 1])
    naive = [
        max((i for i in range(len(codes)) if codes[i] == code and times[i] <= at), default=-1) for code, at in wanted
    ]
    assert found.tolist() == naive


@given(st.lists(st.integers(0, 4)))
def test_last_of_each_and_first_repeated(values: list[int]) -> None:
    codes = np.unique(np.array(values, np.int32), return_inverse=True)[1].astype(np.int32)
    size = len(set(values))
    assert last_of_each(codes, size).tolist() == sorted({v: i for i, v in enumerate(values)}.values())
    again = next((i for i, v in enumerate(values) if v in values[:i]), None)
    assert first_repeated(codes, size) == again


@pytest.mark.parametrize("kind", [pa.float64(), pa.float32(), pa.int32(), pa.string()])
def test_columns_differ_where_their_values_do(kind: pa.DataType) -> None:
    of_kind: dict[pa.DataType, list[Any]] = {pa.string(): ["", "a", None], pa.int32(): [0, 1, None]}
    values: list[Any] = of_kind.get(kind, [0.0, -0.0, math.nan, 1.0, None])
    pairs = list(itertools.product(values, repeat=2))

    def said(value: Any) -> str:
        return repr(value)

    got = differs(pa.array([a for a, _ in pairs], kind), pa.array([b for _, b in pairs], kind))
    assert got.tolist() == [said(a) != said(b) for a, b in pairs]
