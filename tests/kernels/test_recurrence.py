"""Counts of keys in a moving slice of history, against looking at every row."""

from __future__ import annotations

import random

import numpy as np
import pytest

from anabranch.kernels.recurrence import HIGH, LOW, count_recurring, enter, look_up
from anabranch.kernels.values import frozen


@pytest.mark.parametrize("seed", range(8))
def test_counts_are_those_of_all_rows_near_enough(seed: int) -> None:
    chance = random.Random(seed)
    times = np.cumsum([chance.randint(0, 3) for _ in range(300)])
    codes = np.array([chance.randint(0, 5) for _ in range(300)], np.int32)
    live_times = np.cumsum([chance.randint(0, 5) for _ in range(120)]) + 50
    live_codes = np.array([chance.randint(-1, 6) for _ in range(120)])
    ago, within = chance.randint(0, 60), chance.randint(0, 20)
    counts, state, found = np.zeros(7, np.int64), np.zeros(2, np.int64), []
    for low in range(0, 120, 40):
        part = np.zeros(40, np.int64)
        mine = slice(low, low + 40)
        count_recurring(
            counts, frozen(codes), frozen(times), state,
            frozen(live_codes[mine]), frozen(live_times[mine]), ago, within, part,
        )  # fmt: skip
        found += part.tolist()
    wanted = [
        int(((codes == code) & (np.abs(times - (time - ago)) <= within)).sum())
        for code, time in zip(live_codes.tolist(), live_times.tolist(), strict=True)
    ]
    assert found == wanted
    assert counts.tolist() == np.bincount(codes[state[LOW] : state[HIGH]], minlength=7).tolist()


@pytest.mark.parametrize("seed", range(4))
def test_hashes_get_codes_in_the_order_they_come(seed: int) -> None:
    chance = np.random.default_rng(seed)
    slots, known = np.full(64, -1, np.int32), np.zeros(32, np.uint64)
    given: dict[int, int] = {}
    for _ in range(6):
        hashed = chance.integers(0, 20, 15).astype(np.uint64) << np.uint64(chance.integers(0, 3))
        codes, firsts = np.empty(15, np.int64), np.empty(15, np.int64)
        look_up(slots, known, frozen(hashed), len(given), False, codes, firsts)
        assert codes.tolist() == [given.get(each, -1) for each in hashed.tolist()]
        new = [i for i, each in enumerate(hashed.tolist()) if each not in given and each not in hashed[:i].tolist()]
        if len(given) + len(new) > 32:
            break
        count = look_up(slots, known, frozen(hashed), len(given), True, codes, firsts)
        assert firsts[:count].tolist() == new
        for i in new:
            given[int(hashed[i])] = len(given)
        assert codes.tolist() == [given[each] for each in hashed.tolist()]
    larger = np.full(128, -1, np.int32)
    enter(larger, known, len(given))
    every = np.array(list(given), np.uint64)
    codes = np.empty(len(every), np.int64)
    look_up(larger, known, frozen(every), len(given), False, codes, np.empty(0, np.int64))
    assert codes.tolist() == list(given.values())
