"""Hashes are the same for values that SQL calls equal, in every process and wherever they lie, and for no others."""

from __future__ import annotations

import datetime as dt
import math
import struct
import subprocess
import sys
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.kernels.hashing import hashes, hashes_of_rows

TYPES: list[tuple[pa.DataType, list[Any]]] = [
    (pa.int8(), [-128, -1, 0, 1, 127]),
    (pa.int32(), [-(2**31), -1, 0, 1, 2**31 - 1]),
    (pa.int64(), [-(2**63), -1, 0, 1, 2**63 - 1]),
    (pa.float32(), [-math.inf, -1.5, 0.0, 0.5, math.inf, math.nan]),
    (pa.float64(), [-math.inf, -1.5, 0.0, 5e-324, 0.1, math.inf, math.nan]),
    (pa.string(), ["", "a", "aa", "b", "é", "ab" * 50]),
    (pa.binary(), [b"", b"\0", b"\0\0", b"a"]),
    (pa.bool_(), [False, True]),
    (pa.date32(), [dt.date(1969, 12, 31), dt.date(1970, 1, 1), dt.date(2026, 1, 1)]),
    (pa.timestamp("us", tz="UTC"), [dt.datetime(1969, 1, 1, tzinfo=dt.UTC), dt.datetime(2026, 1, 1, tzinfo=dt.UTC)]),
    (pa.decimal128(9, 2), [Decimal("-1.25"), Decimal("0.00"), Decimal("0.10"), Decimal("1.00"), Decimal("9999999.99")]),
    (pa.decimal128(38, 0), [Decimal(-(10**37)), Decimal(1), Decimal(10**37)]),
]
each_type = pytest.mark.parametrize(
    ("type_", "values"), TYPES, ids=lambda v: str(v) if isinstance(v, pa.DataType) else ""
)


@each_type
def test_different_values_and_null_have_different_hashes(type_: pa.DataType, values: list[Any]) -> None:
    found = hashes(pa.array([*values, None], type_)).tolist()
    assert len(set(found)) == len(values) + 1


@each_type
def test_hash_depends_on_nothing_but_the_value(type_: pa.DataType, values: list[Any]) -> None:
    mixed = [None, *values, None, *reversed(values), values[0]]
    array = pa.array(mixed, type_)
    alone = {repr(v): int(hashes(pa.array([v], type_))[0]) for v in mixed}
    wanted = [alone[repr(v)] for v in mixed]
    assert hashes(array).tolist() == wanted
    assert hashes(array.slice(3, 4)).tolist() == wanted[3:7]
    pieces = pa.chunked_array([array.slice(0, 2), array.slice(2, 0), array.slice(2)], type_)
    assert hashes(pieces).tolist() == wanted
    assert hashes(pa.array([], type_)).tolist() == []
    assert hashes(pa.chunked_array([], type_)).tolist() == []
    assert hashes(pa.nulls(3, type_)).tolist() == [alone["None"]] * 3


@pytest.mark.parametrize("type_", [pa.float32(), pa.float64()])
def test_values_that_are_equal_though_their_bits_are_not(type_: pa.DataType) -> None:
    quiet, other = struct.unpack("<dd", struct.pack("<QQ", 0x7FF8000000000000, 0xFFF8000000000001))
    zero, minus, one, two = hashes(pa.array(np.array([0.0, -0.0, quiet, other]), pa.float64()).cast(type_)).tolist()
    assert zero == minus
    assert one == two
    assert zero != one


def test_integers_of_any_width_and_dictionaries_of_text_agree() -> None:
    numbers = [-5, 0, 7, None]
    widths = [hashes(pa.array(numbers, t)).tolist() for t in (pa.int8(), pa.int16(), pa.int32(), pa.int64())]
    assert widths[0] == widths[1] == widths[2] == widths[3]
    words = pa.array(["a", None, "bb", "a"])
    assert hashes(words.dictionary_encode()).tolist() == hashes(words).tolist()
    assert hashes(words.cast(pa.large_string())).tolist() == hashes(words).tolist()


@pytest.mark.slow
def test_hashes_are_the_same_in_another_process() -> None:
    code = """
import pyarrow as pa
from anabranch.kernels.hashing import hashes, hashes_of_rows
print(hashes(pa.array(["", "a", None])).tolist(), hashes(pa.array([1.5, None, -0.0])).tolist(),
      hashes_of_rows([pa.array([1, 2]), pa.array(["x", None])], 2).tolist())
"""
    told = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, env={"PYTHONHASHSEED": "1"}
    ).stdout
    here = (
        hashes(pa.array(["", "a", None])).tolist(),
        hashes(pa.array([1.5, None, -0.0])).tolist(),
        hashes_of_rows([pa.array([1, 2]), pa.array(["x", None])], 2).tolist(),
    )
    assert told.strip() == " ".join(map(str, here))


@given(rows=st.lists(st.tuples(st.sampled_from([None, 0, 1, 2]), st.sampled_from([None, "", "a", "b"])), max_size=30))
def test_rows_have_the_same_hash_if_and_only_if_they_are_the_same(rows: list[tuple[Any, Any]]) -> None:
    first, second = pa.array([a for a, _ in rows], pa.int32()), pa.array([b for _, b in rows], pa.string())
    found = hashes_of_rows([first, second], len(rows)).tolist()
    assert len(set(found)) == len(set(rows))
    assert len(set(zip(rows, found, strict=True))) == len(set(rows))


def test_columns_of_a_row_are_not_interchangeable() -> None:
    one, two = pa.array([1, 2]), pa.array([2, 1])
    assert hashes_of_rows([one, two], 2).tolist() != hashes_of_rows([two, one], 2).tolist()
    assert hashes_of_rows([], 3).tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    "column",
    [
        pa.array(range(20_000)),
        pa.array([i * 0.5 for i in range(20_000)]),
        pa.array([i << 40 for i in range(20_000)]),
        pa.array([f"user-{i}" for i in range(20_000)]),
        pa.array([Decimal(i) for i in range(20_000)]),
    ],
    ids=["integers", "doubles", "multiples", "text", "decimals"],
)
def test_every_bit_is_set_in_half_of_the_hashes(column: pa.Array) -> None:
    """Of 20 000 coins 10 000 ± 71 show heads: five deviations are 355."""
    found = hashes(column)
    assert len(np.unique(found)) == len(column)
    for bit in range(64):
        heads = int(np.count_nonzero(found >> np.uint64(bit) & np.uint64(1)))
        assert abs(heads - 10_000) < 5 * 71, f"bit {bit} is set in {heads}"
    for parts in (2, 3, 7):
        sizes = np.bincount((found % np.uint64(parts)).astype(np.int64), minlength=parts)
        assert np.all(np.abs(sizes - 20_000 / parts) < 5 * math.sqrt(20_000 / parts))
