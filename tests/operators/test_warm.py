"""Warming up runs a real windowed aggregate."""

from __future__ import annotations

from anabranch.operators.warm import warm_up


def test_warming_up_answers_every_window_of_both_groups() -> None:
    # 8 rows at times 0…7, windows of 4 sliding by 2 end at 2, 4, 6 and 8; two groups in each.
    assert warm_up() == 8
