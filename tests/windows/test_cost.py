"""The model chooses what the paper's lessons say, and every choice can be made into a window."""

from __future__ import annotations

import numpy as np
import pytest

from anabranch.windows import SlidingWindow, choose
from anabranch.windows.cost import estimated_distinct, expected_distinct, maintenance


def test_aggregating_pays_only_if_values_repeat_within_a_basic_window() -> None:
    assert choose(100_000, 100_000, 100).storage == "LIST"
    assert choose(10_000_000, 1_000, 100).storage == "HASH"
    for needs in (["count"], ["histogram"], ["quantile", "mode"]):
        storages = [choose(tuples, 1000, 100, needs).storage for tuples in (10_000, 100_000, 10_000_000)]
        assert storages == sorted(storages, key=["LIST", "HASH"].index)


def test_a_list_is_never_the_index_of_many_values() -> None:
    for tuples in (1e4, 1e6, 1e8):
        assert choose(tuples, tuples / 10, 100).index != "L"
    assert maintenance("LIST", "L", 1e5, 1e4, 100) > 50 * maintenance("LIST", "T", 1e5, 1e4, 100)


def test_order_is_asked_of_a_tree_and_counts_of_a_hash_table() -> None:
    assert choose(100_000, 10_000, 100, ["quantile"]).index == "T"
    assert choose(100_000, 10_000, 100, ["count"]).index == "H"


@pytest.mark.parametrize("needs", [["count"], ["histogram"], ["sorted"], ["lookup", "quantile"], ["join", "mode"]])
@pytest.mark.parametrize("distinct", [1, 50, 5000])
def test_every_choice_works(needs: list[str], distinct: int) -> None:
    choice = choose(10_000, distinct, 10, needs)
    assert (choice.ring is not None) == (needs[0] in ("sorted", "lookup", "join"))
    window = SlidingWindow(10_000, 10, storage=choice.storage, index=choice.index, ring=choice.ring)
    window.append(np.arange(20_000) % distinct)
    assert window.distinct() == distinct
    assert "ns per tuple" in choice.why


def test_distinct_values_are_estimated_from_one_basic_window() -> None:
    dice = np.random.default_rng(1)
    for distinct in (10, 1000, 20_000):
        seen = len(np.unique(dice.integers(0, distinct, 5000)))
        assert abs(estimated_distinct(seen, 5000, 1e6) - distinct) <= 0.1 * distinct + 1
        assert abs(expected_distinct(distinct, 5000) - seen) <= 0.05 * seen + 1
    assert estimated_distinct(5000, 5000, 1e6) == pytest.approx(1e6)


def test_an_unknown_need_is_named() -> None:
    with pytest.raises(ValueError, match="not cube"):
        choose(10, 10, 10, ["cube"])
