"""The packed R-tree against looking at every point."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from anabranch.kernels.rtree import build, keys_of, scan, search

EVERYTHING = 1 << 30
ODD = [0.0, -0.0, 1.0, 2.0, 2.5, -3.0, np.inf, -np.inf, np.nan, 1e300, -1e300]


def inside(keys: NDArray[np.float64], low: NDArray[np.float64], high: NDArray[np.float64]) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = np.all((keys >= low) & (keys <= high), axis=1)
    return found


def rows_of(keys: NDArray[np.float64], cube: tuple[NDArray[np.float64], ...]) -> list[int]:
    low, high, cut_low, cut_high = cube
    usable = ~np.isnan(keys).any(axis=1)
    found = np.flatnonzero(usable & inside(keys, low, high) & ~inside(keys, cut_low, cut_high))
    return [int(row) for row in found]


@st.composite
def points_and_cubes(draw: st.DrawFn) -> tuple[NDArray[np.float64], list[NDArray[np.float64]]]:
    dimensions = draw(st.integers(1, 5))
    count = draw(st.integers(0, 700))
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    keys = random.integers(-6, 7, (count, dimensions)) / draw(st.sampled_from([1.0, 3.0]))
    odd = random.random(keys.shape) < draw(st.sampled_from([0.0, 0.05]))
    keys[odd] = random.choice(ODD, int(odd.sum()))
    corners = random.integers(-7, 8, (4, 6, dimensions)) / draw(st.sampled_from([1.0, 3.0]))
    corners[1] += corners[0]
    corners[3] += corners[2]
    corners[0][0], corners[1][0] = -np.inf, np.inf
    return keys, list(corners.astype(np.float64))


@given(points_and_cubes())
def test_cubes_hold_the_rows_that_lie_in_them(case: tuple[NDArray[np.float64], list[NDArray[np.float64]]]) -> None:
    keys, cubes = case
    rows, bounds, overfull = search(build(keys), *cubes, EVERYTHING)
    assert not overfull.any()
    for i, cube in enumerate(zip(*cubes, strict=True)):
        assert rows[bounds[i] : bounds[i + 1]].tolist() == rows_of(keys, cube)


@given(points_and_cubes(), st.integers(0, 50))
def test_cubes_with_more_than_most_are_overfull_and_scanned(
    case: tuple[NDArray[np.float64], list[NDArray[np.float64]]], most: int
) -> None:
    keys, cubes = case
    tree = build(keys)
    rows, bounds, overfull = search(tree, *cubes, most)
    for i, cube in enumerate(zip(*cubes, strict=True)):
        wanted = rows_of(keys, cube)
        assert overfull[i] == (len(wanted) > most)
        assert rows[bounds[i] : bounds[i + 1]].tolist() == ([] if overfull[i] else wanted)
        begin, end = len(keys) // 4, len(keys) * 3 // 4
        scanned = scan(tree, *cube, begin, end, 7)
        assert scanned.tolist() == [row for row in wanted if begin <= row < end][:7]


@given(points_and_cubes())
def test_keys_come_back_out_of_a_tree(case: tuple[NDArray[np.float64], list[NDArray[np.float64]]]) -> None:
    keys, _ = case
    back = keys_of(build(keys), keys.shape[1])
    unusable = np.isnan(keys).any(axis=1)
    assert np.isnan(back[unusable]).all()
    assert np.array_equal(back[~unusable], keys[~unusable])


@pytest.mark.parametrize("rows", [1, 15, 16, 17, 255, 256, 257, 4095, 4096, 4097, 70_001])
def test_trees_of_any_size_have_all_their_points_once(rows: int) -> None:
    keys = np.random.default_rng(rows).random((rows, 3))
    tree = build(keys)
    assert sorted(tree.rows.tolist()) == list(range(rows))
    cubes = [np.full((1, 3), value) for value in (-1.0, 2.0, np.inf, -np.inf)]
    assert search(tree, *cubes, EVERYTHING)[0].tolist() == list(range(rows))


@pytest.mark.parametrize("shape", ["organ pipe", "sorted", "all the same", "few values"])
def test_building_does_not_depend_on_the_order_of_rows(shape: str) -> None:
    """An unlucky choice of pivots would take minutes here."""
    at = np.arange(300_000)
    series = {
        "organ pipe": np.minimum(at, len(at) - at),
        "sorted": at,
        "all the same": np.zeros(len(at)),
        "few values": at % 3,
    }
    keys = np.stack([series[shape], series[shape]], axis=1).astype(np.float64)
    tree = build(keys)
    corners = [np.array([[low, low]]) for low in (1.0, 2.0, np.inf, -np.inf)]
    wanted = [int(row) for row in np.flatnonzero((keys[:, 0] >= 1) & (keys[:, 0] <= 2))]
    assert search(tree, *corners, EVERYTHING)[0].tolist() == wanted
