"""L. Golab, S. Garg and M. T. Özsu, "On Indexing Sliding Windows over On-line Data Streams" (2003).

Its figures, as far as the text gives them, and what it says of costs where that can be counted.
"""

from __future__ import annotations

from textwrap import dedent
from typing import Any

import numpy as np
import pytest

from anabranch.windows import Ranges, SlidingWindow, WindowPair, make_index, make_storage
from anabranch.windows.index.base import SetIndex
from anabranch.windows.ring import Ring, make_ring
from anabranch.windows.ring.backward import BackwardRing, DirtyBitRing
from anabranch.windows.ring.base import NONE
from anabranch.windows.ring.forward import PlainRing

SIXTEEN = np.array([12, 14, 16, 17, 15, 4, 19, 17, 16, 23, 12, 19, 1, 12, 5, 23])
FIRST, SECOND = np.array([12, 14, 16, 17]), np.array([19, 4, 15, 17])


def drawing(text: str) -> str:
    return dedent(text).strip("\n")


# -- Figure 1 and §3.1: the circular array -----------------------------------------------------------


def test_figure_1_the_pointer_to_the_newest_basic_window_overwrites_that_to_the_oldest() -> None:
    window = SlidingWindow(8, 4, storage="LIST", index="L")
    window.append(np.arange(8))
    before = list(window.basic_windows._circle)
    window.append(np.array([8]))
    assert window.basic_windows._circle == before
    window.append(np.array([9]))
    after = window.basic_windows._circle
    assert [old is new for old, new in zip(before, after, strict=True)] == [False, True, True, True]
    assert after[0] is not None
    assert after[0].number == 4


# -- Figure 2: four ways to keep a basic window -------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "options", "drawn"),
    [
        ("LIST", {}, "→ 12 → 14 → 16 → 17 → 15 → 4 → 19 → 17 → 16 → 23 → 12 → 19 → 1 → 12 → 5 → 23"),
        ("AGGR", {}, "→ 1:1 → 4:1 → 5:1 → 12:3 → 14:1 → 15:1 → 16:2 → 17:2 → 19:2 → 23:2"),
        (
            "HASH",
            {"buckets": 4, "hash": "mod"},
            """
            0 → 4:1 → 12:3 → 16:2
            1 → 1:1 → 5:1 → 17:2
            2 → 14:1
            3 → 15:1 → 19:2 → 23:2
            """,
        ),
        (
            "GROUP",
            {"ranges": Ranges.equal(0, 25, 5)},
            "→ [0, 5):2 → [5, 10):1 → [10, 15):4 → [15, 20):7 → [20, 25):2",
        ),
    ],
)
def test_figure_2(name: str, options: dict[str, Any], drawn: str) -> None:
    storage = make_storage(name, **options)
    entries = storage.build(SIXTEEN)
    assert storage.draw(entries) == drawing(drawn)
    assert entries.tuples == 16


# -- Figure 3: three indices over two basic windows ---------------------------------------------------


def two_basic_windows(index: SetIndex) -> SlidingWindow:
    window = SlidingWindow(8, 2, storage="LIST", index=index)
    window.append(FIRST)
    window.append(SECOND)
    return window


@pytest.mark.parametrize(
    ("name", "options", "drawn"),
    [
        ("L", {}, "→ 4:1 → 12:1 → 14:1 → 15:1 → 16:1 → 17:2 → 19:1"),
        (
            "T",
            {},
            """
                   14:1
                 ┌───┴───────────┐
               12:1            17:2
             ┌───┘           ┌───┴───┐
            4:1            16:1    19:1
                         ┌───┘
                       15:1
            """,
        ),
        (
            "H",
            {"buckets": 4, "hash": "mod"},
            """
            0 → 4:1 → 12:1 → 16:1
            1 → 17:2
            2 → 14:1
            3 → 15:1 → 19:1
            """,
        ),
    ],
)
def test_figure_3(name: str, options: dict[str, Any], drawn: str) -> None:
    window = two_basic_windows(make_index(name, **options))
    assert window.index.draw() == drawing(drawn)
    # Tuples have pointers to their values in the index, those of equal value the same one.
    first, second = window.basic_windows.attached()
    assert first.nodes is not None
    assert second.nodes is not None
    assert window.index.key(first.nodes).tolist() == FIRST.tolist()
    assert first.nodes[3] == second.nodes[3]


def test_section_5_3_the_unsorted_hash_index_has_the_newest_values_first() -> None:
    # 12 before 16 before 4 and 19 before 15, as the paper has it, is the order of tuples written newest first.
    index = make_index("UH", buckets=4, hash="mod")
    index.add(index.locate(SECOND[::-1]))
    index.add(index.locate(FIRST[::-1]))
    assert index.draw() == drawing(
        """
        0 → 12:1 → 16:1 → 4:1
        1 → 17:2
        2 → 14:1
        3 → 19:1 → 15:1
        """
    )


def test_section_5_4_the_grouped_index_counts_ranges() -> None:
    ranges = Ranges.equal(0, 20, 4)
    index = make_index("G", ranges=ranges)
    window = SlidingWindow(8, 2, storage=make_storage("GROUP", ranges=ranges), index=index)
    window.append(np.append(FIRST, SECOND))
    assert index.draw() == "→ [0, 5):1 → [10, 15):2 → [15, 20):5"
    window.append(np.array([7, 7, 8, 8]))
    assert index.draw() == "→ [0, 5):1 → [5, 10):4 → [15, 20):3"


# -- §5.5: purging ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["L", "T", "H", "UH"])
def test_section_5_5_zero_counts_wait_and_are_purged_five_times_per_roll_over(name: str) -> None:
    window = SlidingWindow(1000, 50, index=name, storage="LIST")
    purges = []
    most = 0
    for first in range(0, 6000, 20):
        window.append(np.arange(first, first + 20))
        most = max(most, window.index.live)
        if first >= 1000:
            purges.append(window.index.zeros == 0)
    assert sum(purges) == 5 * 5
    assert most == 1000 + 9 * 20


# -- §5.6, Table 1: what each basic window costs the index --------------------------------------------


def test_table_1_aggregated_basic_windows_touch_the_index_once_per_distinct_value() -> None:
    values = np.random.default_rng(0).integers(0, 50, 400)
    looked_up = {}
    for name in ("LIST", "AGGR", "HASH"):
        looked_up[name] = len(make_storage(name).build(values).codes)
    assert looked_up == {"LIST": 400, "AGGR": 50, "HASH": 50}


# -- Figures 4 to 6: rings through basic windows of four tuples ---------------------------------------

BASIC_WINDOWS = [[5, 1, 5, 2], [3, 5, 4, 1], [2, 6, 5, 5]]
"""Tuples number 0 to 11; those of value five are 0, 2, 5, 10 and 11."""
NEWEST = [5, 7, 3, 5]
"""Tuples number 12 to 15."""


class RingOfFives:
    """A ring index over three full basic windows, with a fourth that fills up."""

    def __init__(self, name: str) -> None:
        self.index = make_index("L")
        self.ring: Ring = make_ring(name, self.index)
        self.held: list[Any] = []
        for values in BASIC_WINDOWS:
            self.fill(values)
            self.attach()
        self.five = int(self.index.find(np.array([5]))[0])

    def fill(self, values: list[int]) -> None:
        self.newest = self.index.locate(np.array(values))
        self.ring.append(self.newest)

    def attach(self) -> None:
        self.ring.attach()
        self.index.add(self.newest)
        self.held.append(self.newest)

    def evict(self) -> None:
        self.index.subtract(self.held.pop(0))
        self.ring.evict()

    def link(self, number: int) -> int | str:
        """Where a tuple leads: to another tuple, or to the index."""
        link = int(self.ring._link[number % len(self.ring._link)])
        return "index" if link == ~self.five else link


@pytest.mark.parametrize("name", ["plain", "AUX"])
def test_figure_4_and_5_a_ring_forward_in_time(name: str) -> None:
    fives = RingOfFives(name)
    ring = fives.ring
    assert isinstance(ring, PlainRing)
    fives.fill(NEWEST)
    # (a) The index points to the oldest tuple, the newest one back to the index; the end of the ring hides 12 and 15.
    assert ring._oldest[fives.five] == 0
    assert [fives.link(n) for n in (0, 2, 5, 10, 11, 12, 15)] == [2, 5, 10, 11, 12, 15, "index"]
    assert ring._end[fives.five] == 11
    assert ring.tuples(5).tolist() == [0, 2, 5, 10, 11]
    # The auxiliary index knows the last five of the newest basic window until this is attached.
    assert ring._local[fives.five] == 15
    fives.attach()
    assert ring._local[fives.five] == NONE
    # (b, c) The oldest basic window goes: the pointer from the index is advanced, the end has moved on.
    fives.evict()
    assert ring._oldest[fives.five] == 5
    assert ring._end[fives.five] == 15
    assert ring.tuples(5).tolist() == [5, 10, 11, 12, 15]
    assert ring.draw() == drawing(
        """
        1: #7
        2: #8
        3: #4 #14
        4: #6
        5: #5 #10 #11 #12 #15
        6: #9
        7: #13
        """
    )


def test_figure_6_a_ring_backwards_in_time() -> None:
    fives = RingOfFives("BW")
    ring = fives.ring
    assert isinstance(ring, BackwardRing)
    fives.fill(NEWEST)
    assert ring._newest[fives.five] == 11
    assert [fives.link(n) for n in (11, 10, 5, 2, 0)] == [10, 5, 2, 0, "index"]
    assert ring.tuples(5).tolist() == [0, 2, 5, 10, 11]
    fives.attach()
    assert [fives.link(n) for n in (15, 12, 11)] == [12, 11, 10]
    # The youngest five of the oldest basic window is 2; both go at once, and 5 gets the pointer to the index.
    before = ring.steps[1]
    fives.evict()
    assert fives.link(5) == "index"
    assert ring._newest[fives.five] == 15
    assert ring.tuples(5).tolist() == [5, 10, 11, 12, 15]
    # Four tuples go; the rings of one, two and five are walked once, past one, one and five active tuples.
    assert ring.steps[1] - before == 4 + 1 + 1 + 5


def test_section_6_4_a_dirty_bit_marks_the_one_expired_tuple_a_ring_ends_with() -> None:
    fives = RingOfFives("DB")
    ring = fives.ring
    assert isinstance(ring, DirtyBitRing)
    assert not ring.dirty.any()
    fives.fill(NEWEST)
    fives.attach()
    before = ring.steps[1]
    fives.evict()
    assert ring.steps[1] - before == 4
    dirty = {int(code) for code in fives.index.key(np.flatnonzero(ring.dirty).astype(np.int32))}
    assert dirty == {1, 2, 5}
    # 5 still leads to 2, the youngest inactive tuple, which a query knows to be stale.
    assert fives.link(5) == ring._stale[fives.five] == 2
    assert ring.tuples(5).tolist() == [5, 10, 11, 12, 15]
    fives.evict()
    assert ring._stale[fives.five] == 5
    assert ring.tuples(5).tolist() == [10, 11, 12, 15]
    assert ring.tuples(1).tolist() == []
    # The ring of ones is empty, so nothing in it is stale.
    ones = fives.index.find(np.array([1]))[0]
    assert not ring.dirty[ones]


def test_section_6_the_newest_basic_window_is_invisible_to_every_ring() -> None:
    for name in ("plain", "AUX", "BW", "DB"):
        fives = RingOfFives(name)
        fives.fill(NEWEST)
        assert fives.ring.in_order().tolist() == [1, 7, 3, 8, 4, 6, 0, 2, 5, 10, 11, 9]
        fives.attach()
        assert fives.ring.in_order().tolist() == [1, 7, 3, 8, 4, 14, 6, 0, 2, 5, 10, 11, 12, 15, 9, 13]


# -- §7.2.3: intersection with two counts per node ------------------------------------------------------


def test_section_7_2_3_a_value_is_in_the_intersection_if_both_its_counts_are_not_zero() -> None:
    pair = WindowPair(4, 1)
    pair.append("left", FIRST)
    pair.append("right", SECOND)
    assert pair.draw() == drawing(
        """
        4: 0 | 1
        12: 1 | 0
        14: 1 | 0
        15: 0 | 1
        16: 1 | 0
        17: 1 | 1
        19: 0 | 1
        """
    )
    assert pair.intersection().to_pylist() == [17]


def test_section_7_2_3_the_grouped_index_gives_ranges_that_occur_in_both() -> None:
    ranges = Ranges.equal(0, 20, 4)
    pair = WindowPair(4, 1, storage=make_storage("GROUP", ranges=ranges), index=make_index("G", ranges=ranges))
    pair.append("left", FIRST)
    pair.append("right", SECOND)
    assert pair.intersection().to_pydict() == {"low": [15], "high": [20]}
