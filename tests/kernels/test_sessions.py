"""Sessions of rows, against going from row to row; those that go on begin where they began."""

from __future__ import annotations

import random

import numpy as np
import pytest

from anabranch.kernels.sessions import assign_sessions

NOTHING = np.zeros(0, np.int64)


@pytest.mark.parametrize("seed", range(8))
def test_sessions_are_runs_without_a_longer_pause(seed: int) -> None:
    chance = random.Random(seed)
    gap, count = chance.randint(1, 9), chance.randint(0, 80)
    times = np.cumsum([chance.choice([0, 1, 3, 9]) for _ in range(count)]).astype(np.int64)
    codes = np.array([chance.randint(0, 4) for _ in range(count)], np.int32)
    runs: list[tuple[int, list[int]]] = []
    wanted = []
    for code, time in zip(codes.tolist(), times.tolist(), strict=True):
        at = next((n for n in range(len(runs) - 1, -1, -1) if runs[n][0] == code), None)
        if at is None or time - runs[at][1][-1] > gap:
            at = len(runs)
            runs.append((code, []))
        runs[at][1].append(time)
        wanted.append(at)
    found = assign_sessions(codes, 5, times, gap, NOTHING)
    assert found.slots.of_entry.tolist() == wanted
    assert found.slots.code.tolist() == [code for code, _ in runs]
    assert found.first.tolist() == [run[0] for _, run in runs]
    assert found.last.tolist() == [run[-1] for _, run in runs]


def test_a_session_that_goes_on_begins_where_it_began() -> None:
    codes, times = np.array([1, 0, 1, 0], np.int32), np.array([50, 52, 55, 70])
    found = assign_sessions(codes, 2, times, 10, np.array([3, 40]))
    assert found.slots.of_entry.tolist() == [0, 1, 0, 2]
    assert (found.first.tolist(), found.last.tolist()) == ([3, 40, 70], [55, 52, 70])
