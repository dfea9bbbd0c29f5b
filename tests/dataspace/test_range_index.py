"""The growing index against looking at every row, however it grew and however its answers are cut."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from anabranch.dataspace.range_index import RangeIndex


def brute(
    keys: NDArray[np.float64],
    low: NDArray[np.float64],
    high: NDArray[np.float64],
    below: int | None = None,
    without: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None,
    after: int = -1,
) -> list[int]:
    inside = ((keys >= low) & (keys <= high)).all(axis=1)
    if without is not None:
        inside &= ~((keys >= without[0]) & (keys <= without[1])).all(axis=1)
    numbers = np.arange(len(keys))
    inside &= (numbers > after) & (numbers < (len(keys) if below is None else below))
    return [int(row) for row in numbers[inside]]


@given(
    parts=st.lists(st.integers(0, 200), max_size=12),
    seed=st.integers(0, 2**32),
    dimensions=st.integers(1, 4),
    limit=st.integers(1, 60),
    largest=st.sampled_from([16, 100, 1 << 20]),
    nulls=st.sampled_from([0.0, 0.1]),
)
def test_answers_are_those_of_looking_at_every_row(
    parts: list[int], seed: int, dimensions: int, limit: int, largest: int, nulls: float
) -> None:
    random = np.random.default_rng(seed)
    keys = random.integers(0, 6, (sum(parts), dimensions)).astype(np.float64)
    keys[random.random(keys.shape) < nulls] = np.nan
    index = RangeIndex(dimensions, largest)
    at = 0
    for size in parts:
        index.extend(keys[at : at + size])
        at += size
    assert index.rows == len(keys)
    for _ in range(4):
        low = random.integers(-1, 5, dimensions).astype(np.float64)
        high = low + random.integers(0, 5, dimensions)
        cut = random.integers(-1, 5, dimensions).astype(np.float64)
        without = (cut, cut + 1) if random.random() < 0.5 else None
        after, below = int(random.integers(-1, 50)), int(random.integers(0, len(keys) + 50))
        wanted = brute(keys, low, high, below, without, after)
        rows, more = index.query(low, high, limit, below, without, after)
        assert rows.tolist() == wanted[:limit]
        assert more == (len(wanted) > limit)


@given(seed=st.integers(0, 1000), limit=st.integers(1, 40))
def test_going_on_after_the_last_row_gives_every_row_once(seed: int, limit: int) -> None:
    random = np.random.default_rng(seed)
    keys = random.random((1500, 2))
    index = RangeIndex(2, largest_run=512)
    for part in np.array_split(keys, 7):
        index.extend(part)
    low, high = np.array([0.2, 0.1]), np.array([0.4, 0.9])
    gathered: list[int] = []
    after, more = -1, True
    while more:
        rows, more = index.query(low, high, limit, after=after)
        gathered += rows.tolist()
        after = gathered[-1] if gathered else -1
    assert gathered == brute(keys, low, high)


@pytest.mark.slow
def test_many_cubes_at_once_answer_like_one_after_the_other() -> None:
    random = np.random.default_rng(4)
    keys = random.random((50_000, 3))
    index = RangeIndex(3, largest_run=1 << 13)
    index.extend(keys)
    lows = random.random((200, 3))
    highs = lows + random.random((200, 3)) * 0.4
    cuts = (lows + 0.05, lows + 0.1)
    after = random.integers(-1, 50_000, 200)
    together = index.query_many(lows, highs, 20, 40_000, cuts, after)
    for i, (rows, more) in enumerate(together):
        alone = index.query(lows[i], highs[i], 20, 40_000, (cuts[0][i], cuts[1][i]), int(after[i]))
        assert (rows.tolist(), more) == (alone[0].tolist(), alone[1])
        assert rows.tolist() == brute(keys, lows[i], highs[i], 40_000, (cuts[0][i], cuts[1][i]), int(after[i]))[:20]


def test_a_cube_around_everything_is_answered_a_part_at_a_time() -> None:
    keys = np.random.default_rng(5).random((300_000, 2))
    index = RangeIndex(2)
    index.extend(keys)
    after, seen, rounds = -1, 0, 0
    while True:
        rows, more = index.query([0, 0], [1, 1], 50_000, after=after)
        assert np.array_equal(rows, np.arange(after + 1, after + 1 + len(rows)))
        seen, rounds, after = seen + len(rows), rounds + 1, int(rows[-1])
        if not more:
            break
    assert (seen, rounds) == (300_000, 6)


def test_an_empty_index_finds_nothing() -> None:
    index = RangeIndex(2)
    assert index.query([0, 0], [1, 1], 10)[0].tolist() == []
    index.extend(np.empty((0, 2)))
    assert index.rows == 0
    index.extend(np.full((5, 2), np.nan))
    rows, more = index.query([-np.inf, -np.inf], [np.inf, np.inf], 10)
    assert (rows.tolist(), more) == ([], False)
    assert index.rows == 5


def test_small_additions_are_merged_so_that_few_trees_are_left() -> None:
    index = RangeIndex(1)
    for at in range(1000):
        index.extend(np.array([[float(at)]]))
    assert len(index._runs.in_order) <= 11
    assert index.query([100], [102], 10)[0].tolist() == [100, 101, 102]


def test_queries_meanwhile_see_a_whole_number_of_additions() -> None:
    index = RangeIndex(1, largest_run=4096)
    keys = np.arange(64, dtype=np.float64).reshape(-1, 1)
    wrong: list[int] = []
    done = threading.Event()

    def ask() -> None:
        while not done.is_set():
            rows, _ = index.query([5], [5], 1_000_000)
            if not np.array_equal(rows, np.arange(len(rows)) * 64 + 5):
                wrong.append(len(rows))

    asking = threading.Thread(target=ask)
    asking.start()
    for _ in range(300):
        index.extend(keys)
    done.set()
    asking.join()
    assert wrong == []
    assert len(index.query([5], [5], 1_000_000)[0]) == 300
