"""Aggregates of the last rows of a part, against adding them up one by one."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from anabranch.kernels.fold import Count, Extreme, IntegerSum
from anabranch.kernels.trailing import trailing


@pytest.mark.parametrize("seed", range(8))
def test_each_row_has_the_last_ones_of_its_part(seed: int) -> None:
    chance = random.Random(seed)
    count = chance.choice([1, 2, 3, 4, 7, 8, 20])
    sizes = [chance.randint(1, 25) for _ in range(chance.randint(1, 5))]
    begin = np.repeat(np.append(0, np.cumsum(sizes)[:-1]), sizes)
    values = [chance.randint(-9, 9) for _ in begin]
    windows = [values[max(first, at - count + 1) : at + 1] for at, first in enumerate(begin.tolist())]
    column = pa.array(values, pa.int64())
    assert trailing(Count(), begin, count, None)[0].to_pylist() == [len(window) for window in windows]
    assert trailing(IntegerSum(), begin, count, column)[0].to_pylist() == [sum(window) for window in windows]
    assert trailing(Extreme(True), begin, count, column)[0].to_pylist() == [max(window) for window in windows]


def test_of_no_rows_there_is_nothing() -> None:
    assert trailing(IntegerSum(), np.zeros(0, np.int64), 5, pa.array([], pa.int64()))[0].to_pylist() == []
