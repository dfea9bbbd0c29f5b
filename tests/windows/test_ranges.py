"""Ranges cover every value once, in order, and their middles are as near as they say."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from anabranch.windows.basic.values import Domain
from anabranch.windows.index import Ranges, make_index

INT64 = st.integers(-(2**63), 2**63 - 1)


@given(value=INT64 | st.integers(-5000, 5000), other=INT64, bits=st.integers(1, 20))
@example(value=2**63 - 1, other=2**63 - 600, bits=7)
@example(value=-(2**63), other=0, bits=7)
def test_whole_numbers_in_ranges_of_relative_width(value: int, other: int, bits: int) -> None:
    ranges = Ranges.relative(bits)
    labels = ranges.labels(np.array([value, other]))
    assert (labels[0] <= labels[1]) if value <= other else (labels[0] >= labels[1])
    middle = int(ranges.middles(labels)[0])
    assert ranges.labels(np.array([middle]))[0] == labels[0]
    # A double in between, whose 53 bits are far more than `bits`.
    assert abs(Fraction(middle - value)) <= Fraction(abs(value), 2**bits)
    if abs(value) < 2 ** (bits + 1):
        assert middle == value
    low, high = ranges.bounds(int(labels[0]))
    assert low <= middle
    if abs(value) < 2**52:
        assert low <= value < high


@given(value=st.floats(), other=st.floats(), bits=st.integers(1, 20))
@example(value=math.inf, other=math.nan, bits=1)
@example(value=-math.inf, other=0.0, bits=3)
@example(value=1.7976931348623157e308, other=-0.0, bits=3)
@example(value=-1.7976931348623157e308, other=-0.0, bits=3)
def test_doubles_in_ranges_of_relative_width(value: float, other: float, bits: int) -> None:
    ranges, domain = Ranges.relative(bits, pa.float64()), Domain(pa.float64())
    codes, _ = domain.encode(pa.array([value, other]))
    labels = ranges.labels(codes)
    assert (labels[0] <= labels[1]) if codes[0] <= codes[1] else (labels[0] >= labels[1])
    middles = ranges.middles(labels)
    assert ranges.labels(middles).tolist() == labels.tolist()
    middle = domain.decode(middles)[0].as_py()
    if math.isnan(value) or math.isinf(value) or value == 0:
        assert repr(middle) == repr(value + 0.0)
    elif abs(value) > 2.3e-308:
        assert abs(Fraction(middle) - Fraction(value)) <= Fraction(abs(value)) / 2**bits
    else:
        assert abs(middle - value) <= 2.3e-308


@given(low=st.integers(-1000, 1000), width=st.integers(1, 5000), count=st.integers(1, 60), value=INT64)
def test_whole_numbers_in_equal_ranges(low: int, width: int, count: int, value: int) -> None:
    ranges = Ranges.equal(low, low + width, count)
    for v in (value, low + value % width):
        label = int(ranges.labels(np.array([v]))[0])
        assert 0 <= label < count
        if low <= v < low + width:
            assert label == (v - low) * count // width
            first, after = ranges.bounds(label)
            assert first <= v < after
            middle = int(ranges.middles(np.array([label]))[0])
            assert abs(middle - v) <= math.ceil(Fraction(width, 2 * count))
            assert ranges.labels(np.array([middle])).tolist() == [label]
        else:
            assert label == (0 if v < low else count - 1)


@given(value=st.floats(-100, 100), count=st.integers(1, 60))
def test_doubles_in_equal_ranges(value: float, count: int) -> None:
    ranges, domain = Ranges.equal(-100.0, 100.0, count, pa.float64()), Domain(pa.float64())
    label = ranges.labels(domain.encode(pa.array([value]))[0])
    middle = domain.decode(ranges.middles(label))[0].as_py()
    assert abs(middle - value) <= 100 / count * (1 + 1e-12)


def test_an_index_of_ranges_counts_them() -> None:
    values = np.random.default_rng(3).integers(0, 100_000, 5000)
    index = make_index("G", ranges=Ranges.relative(4))
    index.add(index.locate(values))
    ranks = np.arange(0, 5000, 250)
    found = index.select(np.zeros(len(ranks), np.int32), ranks)
    exact = np.sort(values)[ranks]
    assert (np.abs(found - exact) <= exact / 2**4).all()
    labels = Ranges.relative(4).labels(values)
    assert index.histogram()[1].tolist() == [n for _, n in sorted(Counter(labels.tolist()).items())]
    assert index.mode(np.zeros(1, np.int32))[1].tolist() == [max(Counter(labels.tolist()).values())]
    index.subtract(index.find(values[:4000]))
    index.purge()
    assert index.total(np.zeros(1, np.int32)).tolist() == [1000]
    assert index.histogram()[0].tolist() == Ranges.relative(4).middles(np.unique(labels[4000:])).tolist()


def test_what_cannot_be_put_in_ranges() -> None:
    with pytest.raises(ValueError, match="type string"):
        Ranges.equal("a", "b", 2, pa.string())
    with pytest.raises(ValueError, match="relative width"):
        Ranges.relative(3, pa.timestamp("us"))
    with pytest.raises(ValueError, match="0 ranges"):
        Ranges.equal(0, 10, 0)
    with pytest.raises(ValueError, match="from 1 to 52"):
        Ranges.relative(0)
