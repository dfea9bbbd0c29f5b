"""Codes keep the order of the values, through relabelling and forgetting."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.windows.basic.values import Domain

COLUMNS: list[tuple[pa.DataType, list[Any]]] = [
    (pa.int8(), [-128, 0, 127]),
    (pa.int64(), [-(2**63), -1, 0, 2**63 - 1]),
    (pa.bool_(), [False, True]),
    (pa.date32(), [datetime.date(1, 1, 1), datetime.date(2026, 1, 1)]),
    (pa.timestamp("us"), [datetime.datetime(1900, 1, 1), datetime.datetime(2026, 1, 1)]),  # noqa: DTZ001 - no zone is meant
    (pa.float64(), [-math.inf, -1.5, -5e-324, 0.0, 5e-324, 1.5, math.inf, math.nan]),
    (pa.float32(), [-math.inf, -1.5, 0.0, 1.5, math.inf, math.nan]),
    (pa.string(), ["", "A", "a", "aa", "z", "ä", "山", "🜂"]),
    (pa.binary(), [b"", b"\x00", b"\x7f", b"\xff"]),
    (pa.decimal128(20, 2), [Decimal("-1.50"), Decimal("0.00"), Decimal("99.25")]),
    (pa.uint64(), [0, 1, 2**64 - 1]),
]


@pytest.mark.parametrize(("type_", "ascending"), COLUMNS, ids=lambda v: str(v) if isinstance(v, pa.DataType) else "")
def test_codes_have_the_order_of_their_values_and_lead_back(type_: pa.DataType, ascending: list[Any]) -> None:
    shuffled = pa.array(ascending[::-1] + ascending, type_)
    domain = Domain(type_)
    codes, rekey = domain.encode(shuffled)
    assert rekey is None
    assert codes.dtype == np.int64
    assert (np.diff(codes[len(ascending) :]) > 0).all()
    assert codes[: len(ascending)].tolist() == codes[len(ascending) :][::-1].tolist()
    assert repr(domain.decode(codes).to_pylist()) == repr(shuffled.to_pylist())
    assert domain.decode(codes).type == type_


def test_minus_zero_is_zero_and_nan_is_one_value() -> None:
    other_nan = np.array([0x7FF8_0000_0000_0001, -1], np.int64).view(np.float64)
    codes, _ = Domain(pa.float64()).encode(pa.array(np.append([0.0, -0.0, math.nan], other_nan)))
    assert len(set(codes[:2].tolist())) == 1
    assert len(set(codes[2:].tolist())) == 1


def test_null_has_no_code() -> None:
    with pytest.raises(ValueError, match="1 NULL"):
        Domain(pa.int64()).encode(pa.array([1, None]))


def test_a_column_in_pieces_and_an_empty_one() -> None:
    domain = Domain(pa.string())
    codes, _ = domain.encode(pa.chunked_array([["b"], [], ["a", "b"]]))
    assert domain.decode(codes).to_pylist() == ["b", "a", "b"]
    assert domain.encode(pa.array([], pa.string()))[0].tolist() == []


@given(
    batches=st.lists(st.lists(st.text("ab", max_size=6), max_size=12), min_size=1, max_size=12)
    | st.lists(st.lists(st.integers(-99, 99).map(Decimal), max_size=12), min_size=1, max_size=12),
    spacing=st.sampled_from([1, 2, 8, 1 << 32]),
    forget=st.booleans(),
)
def test_labels_stay_in_order_and_rekeying_finds_all_old_ones(
    batches: list[list[Any]], spacing: int, forget: bool
) -> None:
    decimal = any(isinstance(value, Decimal) for batch in batches for value in batch)
    type_ = pa.decimal128(5) if decimal else pa.string()
    domain = Domain(type_, spacing)
    held: dict[Any, int] = {}
    for batch in batches:
        before = dict(held)
        codes, rekey = domain.encode(pa.array(batch, type_))
        if rekey is not None:
            assert (np.diff(rekey.old) > 0).all()
            assert (np.diff(rekey.new) > 0).all()
            held = dict(zip(held, rekey.of(np.array(list(held.values()), np.int64)).tolist(), strict=True))
        held.update(zip(batch, codes.tolist(), strict=True))
        if rekey is None:
            assert all(held[value] == code for value, code in before.items())
        assert sorted(held, key=held.__getitem__) == sorted(held)
        assert domain.decode(np.array(list(held.values()), np.int64)).to_pylist() == list(held)
        known = domain.find(pa.array([Decimal(500) if decimal else "unknown", *held], type_))
        assert known[1].tolist() == [False] + [True] * len(held)
        assert known[0][1:].tolist() == list(held.values())
        if forget:
            held = dict(list(held.items())[::2])
            domain.retain(np.array(list(held.values()), np.int64))
            assert len(domain) == len(held)


def test_ascending_values_need_no_relabelling() -> None:
    domain = Domain(pa.string())
    assert all(domain.encode(pa.array([f"{i:06}"]))[1] is None for i in range(500))
    assert all(domain.encode(pa.array([f" {i:06}"]))[1] is None for i in range(500, 0, -1))


def test_values_that_close_in_on_each_other_are_relabelled() -> None:
    domain = Domain(pa.binary())
    domain.encode(pa.array([b"a", b"b"]))
    rekeys = [domain.encode(pa.array([b"a" + b"\x00" * i + b"\x01"]))[1] for i in range(200)]
    assert 0 < sum(rekey is not None for rekey in rekeys) < 20
