"""Which k a micro-batch answers every k-th window with, as a table."""

from __future__ import annotations

import pytest

from anabranch.operators.pace import Pace

FULL, HALF, SOME, MUCH = 100, 50, 150, 500
"""Rows waiting, where a micro-batch takes 100: no more than one batch, between one and two, more than two."""


@pytest.mark.parametrize(
    ("pace", "last", "waiting", "wanted"),
    [
        # Without a limit above it the pace stays, whatever waits.
        (Pace(), 1, MUCH, 1),
        (Pace(3), 1, MUCH, 3),
        (Pace(3), 8, 0, 3),
        (Pace(3, 3), 1, MUCH, 3),
        (Pace(4, 2), 4, MUCH, 4),
        # Behind: every second, fourth, … window, up to the limit.
        (Pace(1, 8), 1, MUCH, 2),
        (Pace(1, 8), 2, MUCH, 4),
        (Pace(1, 8), 8, MUCH, 8),
        (Pace(1, 6), 4, MUCH, 6),
        (Pace(3, 10), 3, MUCH, 6),
        (Pace(3, 10), 6, MUCH, 10),
        # Neither behind nor ahead: as before.
        (Pace(1, 8), 4, SOME, 4),
        (Pace(1, 8), 4, 2 * FULL, 4),
        (Pace(1, 8), 1, SOME, 1),
        # Caught up: twice as many windows, down to the pace.
        (Pace(1, 8), 8, FULL, 4),
        (Pace(1, 8), 2, HALF, 1),
        (Pace(1, 8), 1, 0, 1),
        (Pace(3, 10), 10, 0, 5),
        (Pace(3, 10), 5, 0, 3),
        # The pace was changed meanwhile.
        (Pace(5, 20), 1, SOME, 5),
        (Pace(1, 4), 16, MUCH, 4),
        (Pace(1, 4), 16, 0, 4),
        (Pace(5, 20), 2, MUCH, 5),
    ],
)
def test_next_pace(pace: Pace, last: int, waiting: int, wanted: int) -> None:
    assert pace.next(last, waiting, batch=FULL) == wanted


def test_pace_goes_up_while_behind_and_comes_back() -> None:
    pace, k, seen = Pace(1, 16), 1, []
    for waiting in [500, 600, 700, 800, 900, 180, 90, 40, 10, 0, 0]:
        k = pace.next(k, waiting, batch=100)
        seen.append(k)
    assert seen == [2, 4, 8, 16, 16, 16, 8, 4, 2, 1, 1]
