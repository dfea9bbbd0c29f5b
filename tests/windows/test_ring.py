"""Every ring finds the tuples that a list of all tuples finds, and follows as many links as its section says."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.windows.index import Ranges, make_index
from anabranch.windows.ring import RINGS, make_ring
from tests.sampling import examples


@pytest.mark.parametrize("index_name", ["L", "T", "H", "UH"])
@pytest.mark.parametrize("name", RINGS)
@examples(40)
@given(seed=st.integers(0, 2**32), spread=st.sampled_from([1, 4, 30]), longest=st.sampled_from([3, 30]))
def test_a_ring_equals_a_list_of_tuples(name: str, index_name: str, seed: int, spread: int, longest: int) -> None:
    dice = random.Random(seed)
    index = make_index(index_name)
    ring = make_ring(name, index)
    attached: list[list[tuple[int, int]]] = []
    newest: list[tuple[int, int]] = []
    nodes: dict[int, int] = {}
    number = 0
    for _ in range(40):
        step = dice.choices(["append", "attach", "evict", "purge"], [5, 3, 3, 1])[0]
        if step == "append":
            codes = [dice.randrange(spread) for _ in range(dice.randrange(longest))]
            found = index.locate(np.array(codes, np.int64))
            nodes.update(zip(codes, found.tolist(), strict=True))
            ring.append(found)
            newest += [(code, number + i) for i, code in enumerate(codes)]
            number += len(codes)
        elif step == "attach":
            index.add(np.array([nodes[c] for c, _ in newest], np.int32))
            ring.attach()
            attached.append(newest)
            newest = []
        elif step == "evict" and attached:
            ring.evict()
            index.subtract(np.array([nodes[c] for c, _ in attached.pop(0)], np.int32))
        elif step == "purge" and not newest:
            index.purge()
        visible = sorted(t for basic_window in attached for t in basic_window)
        assert ring.in_order().tolist() == [t for _, t in visible]
        for code in range(-1, spread):
            assert ring.tuples(code).tolist() == [t for c, t in visible if c == code]
        assert ring.draw() == "\n".join(
            f"{code}: " + " ".join(f"#{t}" for c, t in visible if c == code) for code in sorted({c for c, _ in visible})
        )


def links_followed(name: str, values: int, basic_windows: int) -> tuple[int, int]:
    dice = np.random.default_rng(7)
    index = make_index("T")
    ring = make_ring(name, index)
    held = []
    for _ in range(3 * basic_windows):
        nodes = index.locate(dice.integers(0, values, 2000 // basic_windows))
        ring.append(nodes)
        index.add(nodes)
        ring.attach()
        held.append(nodes)
        if len(held) > basic_windows:
            index.subtract(held.pop(0))
            ring.evict()
    return ring.steps


@pytest.mark.parametrize(("values", "basic_windows"), [(10, 5), (10, 50), (200, 5), (200, 50)])
def test_each_ring_follows_fewer_links_than_the_one_before(values: int, basic_windows: int) -> None:
    plain, aux, bw, db = (links_followed(name, values, basic_windows) for name in ("plain", "AUX", "BW", "DB"))
    assert db[0] <= bw[0] <= aux[0] < plain[0]
    assert db[1] < bw[1] < aux[1] <= plain[1]


def test_deleting_from_db_costs_one_step_per_tuple_however_long_the_rings() -> None:
    deleted = 2 * 2000
    assert links_followed("DB", 5, 10)[1] == links_followed("DB", 500, 10)[1] == deleted
    assert links_followed("BW", 5, 10)[1] > 1.5 * deleted
    assert links_followed("AUX", 5, 10)[1] > 100 * deleted


def test_a_ring_needs_single_values() -> None:
    with pytest.raises(ValueError, match="not G"):
        make_ring("DB", make_index("G", ranges=Ranges.relative(3)))
    with pytest.raises(ValueError, match="plain, AUX, BW, DB"):
        make_ring("round", make_index("T"))


@pytest.mark.parametrize("name", RINGS)
def test_memory_stays_that_of_the_window(name: str) -> None:
    index = make_index("H")
    ring = make_ring(name, index)
    for first in range(0, 40_000, 100):
        nodes = index.locate(np.arange(first, first + 100) % 700)
        ring.append(nodes)
        index.add(nodes)
        ring.attach()
        if first >= 1000:
            ring.evict()
    assert ring.nbytes < 100_000
