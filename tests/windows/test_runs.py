"""Sorted runs give every rank of every group that sorting the window gives."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.windows.index.runs import SortedRuns

CODES = st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3)
PIECE = st.tuples(st.sampled_from([0, 0, 1, 1, 2, 9, 10_000_000]), st.lists(st.tuples(CODES, st.integers(0, 2))))
"""How many basic windows after the one before, and tuples of (code, group)."""


@given(st.lists(PIECE, min_size=1, max_size=40), st.sampled_from([1, 3, 20, 200]), st.sampled_from([0, 1 << 62]))
def test_every_rank_after_every_slide(pieces: list[tuple[int, list[tuple[int, int]]]], width: int, memory: int) -> None:
    runs = SortedRuns(memory)
    runs.reserve_groups(3)
    number, window = 5, list[tuple[int, int, int]]()
    for step, tuples in pieces:
        number += step
        low = number - width + 1
        window = [each for each in window if each[0] >= low] + [(number, code, group) for code, group in tuples]
        if tuples:
            runs.attach(number, np.array([c for c, _ in tuples]), np.array([g for _, g in tuples], np.int32))
        runs.evict(low)
        for group in range(3):
            wanted = sorted(code for _, code, owner in window if owner == group)
            asked = np.full(len(wanted), group, np.int32)
            assert runs.total(np.array([group], np.int32)).tolist() == [len(wanted)]
            assert runs.select(asked, np.arange(len(wanted))).tolist() == wanted
    assert set(runs.codes().tolist()) >= {code for _, code, _ in window}


def test_a_window_is_few_lists() -> None:
    runs, none = SortedRuns(), np.zeros(3, np.int32)
    for number in range(1000):
        runs.attach(number, np.array([number, -number, 7]), none)
        runs.evict(number - 511)
        starts, _ = runs._lists()
        assert len(starts) <= 4 * 8
    assert len(runs._runs) < 512 * 8 / 7 + 8


def test_codes_that_are_given_anew() -> None:
    runs, groups = SortedRuns(), np.zeros(2, np.int32)
    for number in range(20):
        runs.attach(number, np.array([10, 30]), groups)
    runs.select(groups[:1], np.array([0]))
    runs.rekey(np.array([10, 30]), np.array([1, 2]))
    runs.attach(20, np.array([1, 5]), groups)
    assert runs.codes().tolist() == [1, 2, 5]
    assert runs.select(np.zeros(3, np.int32), np.array([20, 21, 41])).tolist() == [1, 2, 5]


@pytest.mark.parametrize("memory", [0, 1 << 62])
def test_what_is_gone_leaves_room(memory: int) -> None:
    runs, groups = SortedRuns(memory), np.zeros(1000, np.int32)
    chance = np.random.default_rng(1)
    for number in range(300):
        runs.attach(number, chance.integers(-(2**62), 2**62, 1000), groups)
        runs.evict(number - 9)
    assert runs.nbytes < 20 * 10_000 * 6
