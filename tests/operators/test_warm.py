"""Warming up runs a real windowed aggregate, a real join and real selections."""

from __future__ import annotations

from anabranch.operators.warm import warm_up


def test_warming_up_answers_every_window_of_both_groups_joins_every_row_and_looks_up_two_selections() -> None:
    # 8 rows at times 0…7, windows of 4 sliding by 2 end at 2, 4, 6 and 8; two groups in each.
    # Each row meets itself, and no other has its number. One wants the row 3, the other those from 2 to 4.
    assert warm_up() == 8 + 8 + 1 + 3
