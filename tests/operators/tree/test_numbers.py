"""How often rows of an answer are there, by their digests and by themselves."""

from __future__ import annotations

import random
from collections import Counter

import pyarrow as pa
import pytest

from anabranch.operators.tree.changes import Changes
from anabranch.operators.tree.numbers import Numbers
from tests.sampling import SEED

SCHEMA = pa.schema([("a", pa.string()), ("b", pa.int64())])


def come(draw: random.Random, count: int) -> list[tuple[str | None, int]]:
    return [(draw.choice(["x", "y", None]), draw.randrange(3)) for _ in range(count)]


def changes_of(rows: Counter[tuple[str | None, int]]) -> Changes:
    a, b = zip(*rows, strict=True) if rows else ((), ())
    table = pa.table({"a": pa.array(a, pa.string()), "b": pa.array(b, pa.int64())})
    return Changes(table, pa.array(list(rows.values()), pa.int64()).to_numpy())


@pytest.mark.parametrize("only_comes", [True, False])
def test_each_row_has_been_there_as_often_as_it_came(only_comes: bool) -> None:
    draw = random.Random(SEED)
    numbers, known = Numbers(SCHEMA, only_comes=only_comes), Counter[tuple[str | None, int]]()
    for _ in range(20):
        rows = Counter(come(draw, draw.choice([0, 1, 5])))
        assert numbers.take_in(changes_of(rows)).tolist() == [known[row] for row in rows]
        known += rows


def test_rows_with_one_digest_never_have_the_same_number(hashing: str) -> None:
    draw = random.Random(SEED)
    numbers, given = Numbers(SCHEMA, only_comes=True), Counter[tuple[str | None, int]]()
    seen = set()
    for _ in range(20):
        rows = Counter(come(draw, 5))
        for (row, times), before in zip(rows.items(), numbers.take_in(changes_of(rows)).tolist(), strict=True):
            for number in range(before, before + times):
                assert (row, number) not in seen
                seen.add((row, number))
        given += rows
    assert len(seen) == given.total()
    if hashing == "as it is":
        assert seen == {(row, number) for row, count in given.items() for number in range(count)}


def test_where_rows_only_come_they_are_not_kept() -> None:
    long = pa.table({"a": ["long " * 1000], "b": [1]}, SCHEMA)
    by_digest, whole = Numbers(SCHEMA, only_comes=True), Numbers(SCHEMA, only_comes=False)
    for numbers in (by_digest, whole):
        numbers.take_in(Changes.of(long))
    assert by_digest.kept.nbytes < 100 < 5000 < whole.kept.nbytes
