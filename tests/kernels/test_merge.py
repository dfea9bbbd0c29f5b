"""What merges are made of: sorting what is nearly sorted, and partners within a tolerance."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from anabranch.kernels.matching import Window, match_all, match_first, match_first_by_cursors, match_nearest
from anabranch.kernels.merge import ADAPTED, LAST, NEVER, SIZE, STEP, Known, Waiting, next_due_of_groups
from anabranch.kernels.nearly_sorted import merge_sorted, sort_fully, split_nearly_sorted
from tests.operators.merge_oracle import Pairs, Record, all_pairs, cursors, first, nearest
from tests.sampling import examples

Matrix = NDArray[np.float64]
Places = NDArray[np.int64]

TOLERANCES = [0.0, 0.1, 0.25, 1.0, 3.0]


# -- sorting -----------------------------------------------------------------------------------------


def sorted_nearly(keys: Matrix, places: Places) -> Places:
    count = len(places)
    spine, aside, out = (np.empty(count, np.int64) for _ in range(3))
    kept, set_aside = split_nearly_sorted(keys, places, count, spine, aside)
    assert kept + set_aside == count
    assert merge_sorted(keys, spine, kept, aside, set_aside, out) == count
    return out


def set_aside(keys: Matrix) -> int:
    """How many records did not fit where they came."""
    count = keys.shape[1]
    spine, aside = (np.empty(count, np.int64) for _ in range(2))
    found: tuple[int, int] = split_nearly_sorted(keys, np.arange(count), count, spine, aside)
    return found[1]


def sorted_by_numpy(keys: Matrix, places: Places) -> Places:
    return places[np.lexsort([places, *keys[::-1, places]])]


def disordered(count: int, moved: float, by: int, keys: int, chance: np.random.Generator) -> Matrix:
    """Keys in order, with duplicates, of which a part is moved to another place no further than `by`."""
    first_key = np.sort(chance.integers(0, max(count, 1), count)).astype(np.float64)
    for i in np.flatnonzero(chance.random(count) < moved):
        other = int(np.clip(i + chance.integers(-by, by + 1), 0, count - 1))
        first_key[i], first_key[other] = first_key[other], first_key[i]
    others = chance.integers(0, 3, (keys - 1, count)).astype(np.float64)
    return np.ascontiguousarray(np.vstack([first_key, others]))


@examples(300)
@given(
    count=st.integers(0, 120),
    moved=st.sampled_from([0.0, 0.02, 0.1, 0.33, 1.0]),
    by=st.sampled_from([1, 5, 200]),
    keys=st.integers(1, 3),
    seed=st.integers(0, 2**32),
)
def test_nearly_sorted_is_sorted_as_numpy_sorts(count: int, moved: float, by: int, keys: int, seed: int) -> None:
    chance = np.random.default_rng(seed)
    matrix = disordered(count, moved, by, keys, chance)
    places = np.sort(chance.choice(count, chance.integers(0, count + 1), replace=False)).astype(np.int64)
    wanted = sorted_by_numpy(matrix, places)
    assert sorted_nearly(matrix, places).tolist() == wanted.tolist()
    fully = places.copy()
    sort_fully(matrix, fully, len(fully))
    assert fully.tolist() == wanted.tolist()


@examples(300)
@given(values=st.lists(st.sampled_from([-np.inf, -1.5, -0.0, 0.0, 1.0, 2.0, 1e300, np.inf]), max_size=40))
def test_any_disorder_is_sorted_and_equals_keep_their_order(values: list[float]) -> None:
    matrix = np.array([values], np.float64).reshape(1, -1)
    wanted = sorted(range(len(values)), key=lambda i: values[i])
    assert sorted_nearly(matrix, np.arange(len(values))).tolist() == wanted


@pytest.mark.parametrize("shape", ["rising", "falling", "one_early", "late_block", "saw", "halves"])
@pytest.mark.parametrize("count", [1, 7, 8, 9, 16, 17, 40, 1000])
def test_shapes_of_disorder(shape: str, count: int) -> None:
    rising = np.arange(count, dtype=np.float64)
    values = {
        "rising": rising,
        "falling": rising[::-1],
        "one_early": np.concatenate([[count + 1.0], rising[1:]]),
        "late_block": np.concatenate([rising[count // 3 :], rising[: count // 3]]),
        "saw": rising % 9,
        "halves": np.concatenate([rising[::2], rising[1::2]]),
    }[shape]
    matrix = np.ascontiguousarray(values.reshape(1, -1))
    places = np.arange(count)
    assert sorted_nearly(matrix, places).tolist() == sorted_by_numpy(matrix, places).tolist()


def test_only_what_is_out_of_order_is_sorted_aside() -> None:
    """Records that come too early or too late, alone and in blocks; the rest stays where it is."""
    rising = np.arange(1000, dtype=np.float64)
    late = np.delete(rising, [100, 500])
    assert set_aside(rising.reshape(1, -1)) == 0
    assert set_aside(np.insert(late, [400, 800], [100.0, 500.0]).reshape(1, -1)) == 2
    assert set_aside(np.insert(late, [20, 300], [100.0, 500.0]).reshape(1, -1)) == 2
    block = np.concatenate([rising[:400], rising[500:600], rising[400:500], rising[600:]])
    assert set_aside(block.reshape(1, -1)) <= 200


@given(values=st.lists(st.integers(0, 5), max_size=40), seed=st.integers(0, 2**32))
def test_two_sorted_lists_become_one(values: list[int], seed: int) -> None:
    chance = random.Random(seed)
    matrix = np.array([values], np.float64).reshape(1, -1)
    mine = [i for i in range(len(values)) if chance.random() < 0.5]
    others = [i for i in range(len(values)) if i not in mine]
    lists = [sorted_by_numpy(matrix, np.array(part, np.int64)) for part in (mine, others)]
    out = np.empty(len(values), np.int64)
    count = merge_sorted(matrix, lists[0], len(mine), lists[1], len(others), out)
    assert out[:count].tolist() == sorted_by_numpy(matrix, np.arange(len(values))).tolist()


# -- partners ----------------------------------------------------------------------------------------


class Side:
    """A window as kernels have it, and as the oracle has it."""

    def __init__(self, records: Sequence[tuple[float, ...]], keys: int, chance: random.Random) -> None:
        """Places are in another order than the window, and some belong to no record of it."""
        places = sorted(chance.sample(range(2 * len(records)), len(records)))
        self.keys = np.full((keys, 2 * len(records)), 0.5)
        self.rows = np.arange(2 * len(records)) * 3
        for place, record in zip(places, records, strict=True):
            self.keys[:, place] = record
        ordered = sorted(places, key=lambda place: (*self.keys[:, place], place))
        self.window = np.array(ordered, np.int64)
        self.whole = Window(self.keys, self.window, len(self.window))
        self.records = [Record(int(self.rows[p]), 0, tuple(self.keys[:, p].tolist())) for p in ordered]

    def numbers_from(self, place: int) -> set[int]:
        return {int(self.rows[p]) for p in self.window if p >= place}


def positions(a: Side, b: Side, pairs: Pairs) -> list[tuple[int, int]]:
    return [(a.records.index(one), b.records.index(other)) for one, other in pairs]


def found(out_a: Places, out_b: Places, count: int) -> list[tuple[int, int]]:
    return list(zip(out_a[:count].tolist(), out_b[:count].tolist(), strict=True))


def some_side(count: int, keys: int, chance: random.Random) -> Side:
    """Tenths and quarters, whose sums and differences are not exact, many of them equal."""
    width = chance.choice([2, 10, 40])

    def value() -> float:
        return chance.choice([chance.randrange(10 * width) / 10, chance.randrange(4 * width) / 4, chance.randrange(3)])

    return Side([tuple(value() for _ in range(keys)) for _ in range(count)], keys, chance)


sizes = st.integers(0, 30)
seeds = st.integers(0, 2**32)
tolerances_of = st.lists(st.sampled_from(TOLERANCES), min_size=1, max_size=3)


@examples(300)
@given(count_a=sizes, count_b=sizes, tolerance=st.sampled_from(TOLERANCES), seed=seeds)
def test_cursors_are_those_of_the_paper(count_a: int, count_b: int, tolerance: float, seed: int) -> None:
    chance = random.Random(seed)
    a, b = some_side(count_a, 1, chance), some_side(count_b, 1, chance)
    out_a, out_b = np.empty(30, np.int64), np.empty(30, np.int64)
    count, _ = match_first_by_cursors(a.whole, b.whole, np.array([tolerance]), out_a, out_b)
    wanted = positions(a, b, cursors(a.records, b.records, tolerance))
    assert found(out_a, out_b, count) == wanted
    # What `first` means for several keys is for one what the cursors do.
    assert positions(a, b, first(a.records, b.records, (tolerance,))) == wanted


@examples(300)
@given(count_a=sizes, count_b=sizes, tolerances=tolerances_of, seed=seeds)
def test_first_that_agrees_in_every_key(count_a: int, count_b: int, tolerances: list[float], seed: int) -> None:
    chance = random.Random(seed)
    a, b = some_side(count_a, len(tolerances), chance), some_side(count_b, len(tolerances), chance)
    out_a, out_b = np.empty(30, np.int64), np.empty(30, np.int64)
    limits = np.array(tolerances)
    count = match_first(a.whole, b.whole, limits, out_a, out_b)
    assert found(out_a, out_b, count) == positions(a, b, first(a.records, b.records, tolerances))


@examples(300)
@given(count_a=sizes, count_b=sizes, tolerances=tolerances_of, ended=st.booleans(), seed=seeds)
def test_nearest_free_partner(count_a: int, count_b: int, tolerances: list[float], ended: bool, seed: int) -> None:
    chance = random.Random(seed)
    a, b = some_side(count_a, len(tolerances), chance), some_side(count_b, len(tolerances), chance)
    last = [side.window[-1] if len(side.window) else 0 for side in (a, b)]
    out_a, out_b = np.empty(30, np.int64), np.empty(30, np.int64)
    limits = np.array(tolerances)
    count = match_nearest(a.whole, a.rows, b.whole, b.rows, limits, not ended, last[0], last[1], out_a, out_b)
    assert found(out_a, out_b, count) == positions(a, b, nearest(a.records, b.records, tolerances, ended=ended))


@examples(300)
@given(count_a=sizes, count_b=sizes, tolerances=tolerances_of, seed=seeds)
def test_all_pairs_with_a_new_record(count_a: int, count_b: int, tolerances: list[float], seed: int) -> None:
    chance = random.Random(seed)
    a, b = some_side(count_a, len(tolerances), chance), some_side(count_b, len(tolerances), chance)
    old = [chance.choice([0, side.keys.shape[1], chance.randint(0, side.keys.shape[1])]) for side in (a, b)]
    out_a, out_b = match_all(a.whole, old[0], b.whole, old[1], np.array(tolerances))
    new = a.numbers_from(old[0]), b.numbers_from(old[1])
    assert found(out_a, out_b, len(out_a)) == positions(a, b, all_pairs(a.records, b.records, tolerances, new))


def test_all_pairs_of_many() -> None:
    """More than the room that is made at first."""
    a, b = (Side([(0.0,)] * count, 1, random.Random(1)) for count in (70, 60))
    out: tuple[Any, Any] = match_all(a.whole, 0, b.whole, 0, np.array([0.0]))
    assert found(*out, len(out[0])) == [(i, j) for i in range(70) for j in range(60)]


@pytest.mark.parametrize(("since", "due"), [(100, 160), (LAST - 10, NEVER)])
def test_records_that_wait_beyond_the_end_of_time_are_never_due(since: int, due: int) -> None:
    one, none = np.array([0, 1]), np.array([0, 0])
    a = Waiting(one, np.array([1]), np.array([since]), np.array([since]))
    b = Waiting(none, np.array([0]), np.zeros(0, np.int64), np.zeros(0, np.int64))
    control = np.zeros((1, ADAPTED + 1), np.int64)
    control[0, SIZE], control[0, STEP] = 4, 2
    assert next_due_of_groups(a, b, 10, 50, Known.until(since), control) == due
