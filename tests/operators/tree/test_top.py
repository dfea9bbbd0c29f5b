"""The corners of the first rows of an order; random ones are in test_random_trees."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

from anabranch.operators.tree.nodes import Top
from anabranch.operators.tree.steps import top
from anabranch.operators.tree.steps.top import TopStep
from tests.operators.tree.oracle_tree import Bag, bag_of
from tests.operators.tree.run import Entry, Played

SCHEMA = pa.schema([("g", pa.string()), ("x", pa.int64()), ("s", pa.string())])


@pytest.fixture(autouse=True)
def little_to_spare(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(top, "SPARE", 1)
    monkeypatch.setattr(top, "SPARE_OF_ALL", 1)


def first(limit: int | None, offset: int = 0, only_comes: bool = False, **more: Any) -> Played:
    order = more.pop("order", (("x", False, True),))
    node = Top(0, more.pop("partition", ("g",)), order, limit, offset)
    return Played(TopStep(node, [SCHEMA], [only_comes]), SCHEMA)


def row(x: int | None, s: str = "", g: str | None = "g") -> tuple[Any, ...]:
    return (g, x, s)


def test_ties_are_broken_by_all_columns_whatever_comes_first() -> None:
    played = first(2)
    assert played.take((row(1, "c"), 1), (row(1, "b"), 1), (row(1, "a"), 1)) == [row(1, "a"), row(1, "b")]
    assert played.take((row(1, ""), 1)) == [row(1, ""), row(1, "a")]


@pytest.mark.parametrize(
    ("descending", "nulls_first", "wanted"),
    [(False, True, None), (False, False, 1), (True, True, None), (True, False, 3)],
)
def test_nulls_stand_where_the_order_says(descending: bool, nulls_first: bool, wanted: int | None) -> None:
    played = first(1, order=(("x", descending, nulls_first),))
    assert played.take((row(1), 1), (row(None), 1), (row(3), 1)) == [row(wanted)]


def test_null_is_a_part_of_its_own() -> None:
    assert first(1).take((row(2, g=None), 1), (row(1, g=None), 1), (row(5), 1)) == [row(5), row(1, g=None)]


@pytest.mark.parametrize("only_comes", [False, True])
def test_a_row_that_is_there_three_times_takes_three_places(only_comes: bool) -> None:
    played = first(2, 1, only_comes)
    assert played.take((row(5), 3), (row(6), 1)) == [row(5), row(5)]
    assert played.take((row(4), 1)) == [row(5), row(5)]
    assert played.last == {}
    assert played.take((row(1), 2)) == [row(1), row(4)]


def test_offset_beyond_the_end_shows_nothing_until_there_are_enough() -> None:
    played = first(1, 2)
    assert played.take((row(1), 1), (row(2), 1)) == []
    assert played.take((row(3), 1)) == [row(3)]
    assert played.take((row(2), -1)) == []


def test_without_a_limit_all_but_the_first_are_shown() -> None:
    played = first(None, 2)
    assert played.take((row(3), 1), (row(1), 1), (row(2), 1), (row(4), 1)) == [row(3), row(4)]
    assert played.take((row(1), -1)) == [row(4)]


def test_nothing_is_asked_for() -> None:
    assert first(0).take((row(3), 1)) == []


def test_rows_that_go_from_the_top_are_followed_by_the_next_down_to_the_last() -> None:
    played = first(2, partition=())
    rows = [row(x) for x in range(10, 60)]
    assert played.take(*((one, 1) for one in random.Random(1).sample(rows, 50))) == rows[:2]
    assert len(played.step.kept()["rest"]) > 40
    for gone in range(50):
        assert played.take((rows[gone], -1)) == rows[gone + 1 : gone + 3]
    assert {len(kept.all()) for kept in played.step.kept().values()} == {0}


def test_a_part_that_vanishes_goes_and_may_come_back() -> None:
    played = first(1)
    every: list[Entry] = [(row(x), 1) for x in range(30)]
    played.take(*every, (row(7, g="h"), 1))
    assert played.take(*((entry[0], -1) for entry in every)) == [row(7, g="h")]
    assert played.take((row(40), 1)) == [row(40), row(7, g="h")]


def test_a_row_that_comes_and_goes_in_one_batch_never_was() -> None:
    played = first(1)
    played.take((row(5), 1))
    assert played.take((row(1), 1), (row(1), -1)) == [row(5)]
    assert played.last == {}


def test_of_rows_that_only_come_no_more_are_kept_than_are_asked_for() -> None:
    played = first(3, only_comes=True, partition=())
    chance = random.Random(2)
    for _ in range(20):
        played.take(*((row(chance.randrange(10**6)), 1) for _ in range(50)))
        assert list(played.step.kept()) == ["first"]
        assert len(played.step.kept()["first"]) == 3


def test_first_and_rest_keep_what_the_module_promises() -> None:
    """Each in `first` before each in `rest`, and a part that is short in `first` has nothing in `rest`."""
    played = first(2, 1)
    chance = random.Random(3)
    there: list[tuple[Any, ...]] = []
    for _ in range(200):
        entries: list[Entry] = []
        for _ in range(chance.randint(1, 12)):
            if there and chance.random() < 0.5:
                entries.append((there.pop(chance.randrange(len(there))), -1))
            else:
                there.append(row(chance.randrange(40), chance.choice("ab"), chance.choice("gh")))
                entries.append((there[-1], 1))
        played.take(*entries)
        sides = {name: bag_of(kept.all().rows, kept.all().weights) for name, kept in played.step.kept().items()}
        for g in "gh":
            front, behind = ([r[1:] for r in sides[name].elements() if r[0] == g] for name in ("first", "rest"))
            assert len(front) + len(behind) == sum(r[0] == g for r in there)
            assert len(front) >= 3 or not behind
            assert not behind or max(front) < min(behind)


@pytest.mark.parametrize("only_comes", [False, True])
def test_what_is_kept_in_both_and_what_is_answered_depends_on_the_rows_not_on_the_cuts(only_comes: bool) -> None:
    chance = random.Random(4)
    entries: list[Entry] = [
        (row(chance.randrange(9), "", chance.choice("gh")), chance.randint(1, 2)) for _ in range(60)
    ]
    if not only_comes:
        entries += [(one, -weight) for one, weight in entries[:40:2]]
    at_once, one_by_one = first(2, 1, only_comes), first(2, 1, only_comes)
    at_once.take(*entries)
    for entry in entries:
        one_by_one.take(entry)
    assert at_once.answer == one_by_one.answer
    assert kept(at_once) == kept(one_by_one)


def kept(played: Played) -> Bag:
    found: Bag = Counter()
    for held in played.step.kept().values():
        found.update(bag_of(held.all().rows, held.all().weights))
    return found
