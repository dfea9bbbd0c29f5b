"""Warming up runs a real windowed aggregate and a real join."""

from __future__ import annotations

from anabranch.operators.warm import warm_up


def test_warming_up_answers_every_window_of_both_groups_and_joins_every_row() -> None:
    # 8 rows at times 0…7, windows of 4 sliding by 2 end at 2, 4, 6 and 8; two groups in each.
    # Each row meets itself, and no other has its number.
    assert warm_up() == 8 + 8
