"""The table that a change feed tells of, against a dict."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest

from anabranch.operators.tree.changes import Changes
from anabranch.operators.tree.nodes import Latest
from anabranch.operators.tree.steps import step_of
from anabranch.operators.tree.steps.base import Step
from tests.operators.tree.playing import brought_back
from tests.operators.tree.rows import Bag, Row, bag, changes_of, row, settled
from tests.sampling import SEED

SCHEMA = pa.schema([("name", pa.string()), ("id", pa.int64()), ("op", pa.string()), ("part", pa.float64())])
COMES = ["c", "R", "u", "U", "I", "insert", "UPDATE", "upsert", "update_after", "+I", "+u"]
GOES = ["d", "D", "delete", "-D"]
BEFORE = ["update_before", "-U"]


def made(key: Sequence[str] = ("id",)) -> Step:
    return step_of(Latest(0, tuple(key), "op"), [SCHEMA], [True])


def told(rows: Sequence[Row], key: tuple[int, ...]) -> Bag:
    """What is there after some rows of a feed: the definition."""
    there: dict[Row, Row] = {}
    for values in rows:
        which, word = tuple(row(values)[i] for i in key), str(values[2]).lower()
        if word in map(str.lower, GOES):
            there.pop(which, None)
        elif word not in map(str.lower, BEFORE):
            there[which] = row(values[:2] + values[3:])
    return Counter(there.values())


def some(draw: random.Random, count: int) -> list[Row]:
    words = draw.choices([COMES, GOES, BEFORE], [5, 3, 1], k=count)
    parts = [0.0, -0.0, float("nan"), 1.5]
    return [(draw.choice([None, "a", "b"]), draw.randrange(6), draw.choice(of), draw.choice(parts)) for of in words]


@pytest.mark.parametrize("key", [("id",), ("id", "part"), ("part", "name")], ids=str)
def test_the_last_row_of_each_key_counts_however_rows_are_cut(
    key: tuple[str, ...], tmp_path: Path, hashing: str
) -> None:
    for number in range(6):
        draw = random.Random(f"{SEED} {number} {key}")
        rows = some(draw, draw.randrange(120))
        ends = sorted({0, len(rows), *(draw.randrange(len(rows) + 1) for _ in range(draw.randrange(12)))})
        step, answered = made(key), Counter[Row]()
        for begin, end in pairwise(ends):
            change = step.take([changes_of(SCHEMA, [(values, 1) for values in rows[begin:end]])], 0)
            assert change.rows.schema.equals(step.schema)
            answered.update(bag(change))
            assert settled(answered) == told(rows[:end], tuple(map(SCHEMA.get_field_index, key)))
            assert bag(step.kept()["rows"].all()) == settled(answered)
            if draw.random() < 0.3:
                step = brought_back(step, lambda: made(key), tmp_path if draw.random() < 0.3 else None)


def test_a_row_that_is_replaced_goes_and_one_that_was_not_there_does_not() -> None:
    step = made()
    first = step.take([changes_of(SCHEMA, [(("a", 1, "c", 0.5), 1), (("b", 1, "u", 0.5), 1)])], 0)
    assert bag(first) == {("b", 1, 0.5): 1}
    again = step.take([changes_of(SCHEMA, [(("c", 1, "insert", 0.5), 1), ((None, 2, "delete", None), 1)])], 0)
    assert bag(again) == {("b", 1, 0.5): -1, ("c", 1, 0.5): 1}
    assert len(step.take([changes_of(SCHEMA, [(("d", 1, "-U", 0.5), 1)])], 0)) == 0
    assert bag(step.take([changes_of(SCHEMA, [((None, 1, "d", None), 1)])], 0)) == {("c", 1, 0.5): -1}
    assert sum(held.all().weights.sum() for held in step.kept().values()) == 0
    assert len(step.take([Changes.none(SCHEMA)], 0)) == 0


def test_what_is_kept_is_a_row_for_each_key() -> None:
    step, draw = made(), random.Random(SEED)
    for _ in range(50):
        step.take([changes_of(SCHEMA, [(values, 1) for values in some(draw, 20)])], 0)
    assert sum(len(held) for held in step.kept().values()) <= 6
    assert sum(held.entries for held in step.kept().values()) <= 24
    assert not step.only_comes
    assert "id" in step.why()
