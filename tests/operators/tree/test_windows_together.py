"""Answers of windows that come into a tree at once: which of them are taken in together."""

from __future__ import annotations

import pyarrow as pa
import pytest

from anabranch.operators.tree.changes import Changes
from anabranch.operators.tree.entering import window_by_window
from anabranch.schema import TIME_TYPE


def rows(*times: int) -> Changes:
    return Changes.of(pa.table({"at": pa.array(times, pa.int64()).cast(TIME_TYPE)}))


@pytest.mark.parametrize(
    ("stays", "wanted"),
    [
        (0, [(10, 2), (12, 1), (20, 1), (30, 0)]),
        (1, [(10, 2), (12, 1), (20, 1), (30, 0)]),
        (2, [(12, 3), (20, 1), (30, 0)]),
        (9, [(12, 3), (20, 1), (30, 0)]),
        (10, [(20, 4), (30, 0)]),
    ],
)
def test_windows_of_which_nothing_goes_are_taken_in_together(stays: int, wanted: list[tuple[int, int]]) -> None:
    came = {"part 1": rows(10, 20, 10), "part 2": rows(12), "other": rows(5)}
    times = {"part 1": "at", "part 2": "at"}
    taken = list(window_by_window(came, times, 30, stays))
    counts = [(time, sum(len(some[name]) for name in times if name in some)) for time, some in taken]
    assert counts == wanted
    assert ["other" in some for _, some in taken] == [True] + [False] * (len(taken) - 1)
