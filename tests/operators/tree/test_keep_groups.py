"""Aggregates of which so many groups are kept, against an ordered dict, row by row."""

from __future__ import annotations

import random
from collections import Counter, OrderedDict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.kernels.recency import begin_anew
from anabranch.operators.tree.nodes import Aggregate, Call
from anabranch.operators.tree.steps import step_of
from anabranch.operators.tree.steps.aggregate import AggregateStep
from tests.operators.tree.playing import brought_back
from tests.operators.tree.rows import Bag, Row, bag, changes_of, row, settled
from tests.sampling import SEED, examples

SCHEMA = pa.schema([("k", pa.int64()), ("s", pa.string()), ("x", pa.float64())])
CALLS = (Call("n", "count"), Call("total", "sum", ("x",)), Call("least", "min", ("x",)), Call("last", "max", ("k",)))


def made(most: int, keys: Sequence[str] = ("k",)) -> AggregateStep:
    step = step_of(Aggregate(0, tuple(keys), CALLS, most), [SCHEMA], [True])
    assert isinstance(step, AggregateStep)
    return step


class Kept:
    """The definition: groups in a dict, the newest last."""

    def __init__(self, most: int, places: Sequence[int]) -> None:
        self._most, self._places = most, places
        self._groups: OrderedDict[Row, list[Row]] = OrderedDict()
        self.forgotten = 0

    def take(self, values: Row) -> None:
        key = tuple(row(values)[place] for place in self._places)
        self._groups.setdefault(key, []).append(values)
        self._groups.move_to_end(key)
        if len(self._groups) > self._most:
            self._groups.popitem(last=False)
            self.forgotten += 1

    def bag(self) -> Bag:
        return Counter(row((*key, *_answer(rows))) for key, rows in self._groups.items())


def _answer(rows: Sequence[Row]) -> Iterator[Any]:
    x, k = ([values[place] for values in rows if values[place] is not None] for place in (2, 0))
    yield from (len(rows), sum(x) if x else None, min(x, default=None), max(k, default=None))


def some(draw: random.Random, count: int) -> list[Row]:
    """Rows of few keys, now and then many of one, or of one after the other."""
    rows: list[Row] = []
    while len(rows) < count:
        often = draw.choice([1, 1, 1, 4])
        keys = draw.choice([[draw.choice([None, *range(8)])] * often, list(range(draw.randrange(9)))])
        rows += [(k, draw.choice([None, "a", "b"]), draw.choice([None, 0.5, 1.0, -2.25])) for k in keys]
    return rows[:count]


@pytest.mark.parametrize("most", [1, 2, 3, 5, 9, 100])
@pytest.mark.parametrize("keys", [("k",), ("k", "s")])
def test_groups_are_those_of_a_dict_however_rows_are_cut(
    most: int, keys: tuple[str, ...], tmp_path: Path, hashing: str
) -> None:
    for number in range(6):
        draw = random.Random(f"{SEED} {number} {most} {keys}")
        rows = some(draw, draw.randrange(150))
        ends = sorted({0, len(rows), *(draw.randrange(len(rows) + 1) for _ in range(draw.randrange(14)))})
        step, answered = made(most, keys), Counter[Row]()
        wanted = Kept(most, [SCHEMA.get_field_index(key) for key in keys])
        forgotten = 0
        for begin, end in pairwise(ends):
            change = step.take([changes_of(SCHEMA, [(values, 1) for values in rows[begin:end]])], 0)
            assert change.rows.schema.equals(step.schema)
            answered.update(bag(change))
            for values in rows[begin:end]:
                wanted.take(values)
            assert settled(answered) == wanted.bag()
            assert {name: len(held) for name, held in step.kept().items()} == dict.fromkeys(
                ("groups", "recency"), len(wanted.bag())
            )
            assert forgotten + step.forgotten == wanted.forgotten
            if draw.random() < 0.3:
                forgotten += step.forgotten
                back = brought_back(step, lambda: made(most, keys), tmp_path if draw.random() < 0.3 else None)
                assert isinstance(back, AggregateStep)
                step = back


@examples(300)
@given(
    rows=st.lists(st.integers(0, 6), max_size=60),
    before=st.lists(st.integers(0, 9), max_size=30),
    most=st.integers(1, 7),
)
def test_rows_that_begin_a_group_anew(rows: list[int], before: list[int], most: int) -> None:
    kept: OrderedDict[int, None] = OrderedDict()

    def take(group: int) -> bool:
        anew = group not in kept
        kept[group] = None
        kept.move_to_end(group)
        if len(kept) > most:
            kept.popitem(last=False)
        return anew

    for group in before:
        take(group)
    held = [group for group in kept if group in rows]
    newer = [sum(other not in rows for other in list(kept)[list(kept).index(group) + 1 :]) for group in held]
    places = np.array([held.index(group) if group in held else -1 for group in range(7)], np.int64)
    found = begin_anew(np.array(rows, np.int64), places, np.array(newer, np.int64), most)
    assert found.tolist() == [take(group) for group in rows]


def test_a_group_that_is_forgotten_is_deleted_and_begins_anew() -> None:
    step = made(2)

    def took(*keys: int) -> Bag:
        return bag(step.take([changes_of(SCHEMA, [((k, None, 1.0), 1) for k in keys])], 0))

    assert took(1, 1, 2) == {(1, 2, 2.0, 1.0, 1): 1, (2, 1, 1.0, 1.0, 2): 1}
    assert took(3) == {(1, 2, 2.0, 1.0, 1): -1, (3, 1, 1.0, 1.0, 3): 1}
    assert took(2) == {(2, 1, 1.0, 1.0, 2): -1, (2, 2, 2.0, 1.0, 2): 1}
    assert took(1) == {(3, 1, 1.0, 1.0, 3): -1, (1, 1, 1.0, 1.0, 1): 1}
    assert step.forgotten == 2
    # Forgotten and there again in one micro-batch: it has one row, as before, and 7 has come and gone.
    assert took(7, 8, 1) == {(2, 2, 2.0, 1.0, 2): -1, (8, 1, 1.0, 1.0, 8): 1}
    assert step.forgotten == 5


def test_what_is_kept_does_not_grow() -> None:
    step, draw = made(50), random.Random(SEED)
    for begin in range(0, 40_000, 400):
        rows = [((begin + draw.randrange(400), None, 1.0), 1) for _ in range(400)]
        step.take([changes_of(SCHEMA, rows)], 0)
    assert {name: len(held) for name, held in step.kept().items()} == {"groups": 50, "recency": 50}
    assert all(held.entries < 3_000 for held in step.kept().values())
    assert step.forgotten > 20_000
    assert "50 groups" in step.why()
