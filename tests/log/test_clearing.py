"""A log of many without what nobody can read any more, against a naive version row by row."""

from __future__ import annotations

import random
from collections import defaultdict

import numpy as np
import pyarrow as pa
import pytest

from anabranch.log.clearing import Living, cleared, dead_bytes, is_empty
from anabranch.log.slices import SCHEMA, index_of, sliced, slices_of
from tests.sampling import SEED

Answers = dict[int, list[tuple[int, int]]]
"""Of each member the numbers of its answers, and what they say."""


def a_log(chance: random.Random, rows: int) -> pa.Table:
    """Rows of a log whose members' answers say which they are."""
    numbers: dict[int, int] = defaultdict(int)
    indices, payloads = [], []
    for _ in range(rows):
        members = sorted(chance.sample(range(12), chance.randrange(0, 6)))
        counts = [chance.randrange(1, 5) for _ in members]
        said = [100 * m + numbers[m] + i for m, count in zip(members, counts, strict=True) for i in range(count)]
        data, payload = sliced(pa.table({"v": said}), np.array(members, np.int64), np.array(counts, np.int64))
        index = index_of(data).copy()
        for place, (member, count) in enumerate(zip(members, counts, strict=True)):
            index[place, 1] = numbers[member]
            numbers[member] += count
        indices.append(index.tobytes())
        payloads.append(bytes(payload))
    times = pa.array(range(rows)).cast(SCHEMA.arrow.field(0).type)
    return pa.table([times, pa.array(indices, pa.binary()), pa.array(payloads, pa.binary())], schema=SCHEMA.arrow)


def answers(log: pa.Table) -> Answers:
    """All answers in a log, each with its number."""
    found: Answers = defaultdict(list)
    said = list(slices_of(log))
    firsts = [entry for data in log.column("index") for entry in index_of(data.as_buffer()).tolist() if entry[2]]
    for (member, rows), (of, first, count) in zip(said, firsts, strict=True):
        assert (member, rows.num_rows) == (of, count)
        found[member] += list(enumerate(rows.column("v").to_pylist(), first))
    return found


def ends(log: pa.Table) -> dict[int, int]:
    """Up to where the numbers of each member have come at the end of a log."""
    return {
        member: first + count
        for data in log.column("index")
        for member, first, count in index_of(data.as_buffer()).tolist()
    }


@pytest.mark.parametrize("round_", range(20))
def test_what_is_left_is_what_can_be_read(round_: int) -> None:
    chance = random.Random(f"{SEED} {round_}")
    log = a_log(chance, chance.randrange(1, 30))
    came_later = chance.choice([12, 9])
    living = sorted(chance.sample(range(came_later), chance.randrange(0, came_later)))
    told = answers(log)
    # Whole rows of the log leave: a member keeps from a number that one of them begins with.
    begins = {member: [0] for member in living}
    for data in log.column("index"):
        for member, first, _ in index_of(data.as_buffer()).tolist():
            begins.get(member, []).append(first)
    firsts = [chance.choice(begins[member]) for member in living]
    state = Living(np.array(living, np.int64), np.array(firsts, np.int64), came_later)
    left = cleared(log, state)
    kept = dict(zip(living, firsts, strict=True)) | dict.fromkeys(range(came_later, 12), 0)
    expected = {
        member: [(number, v) for number, v in rows if number >= kept[member]]
        for member, rows in told.items()
        if member in kept
    }
    assert answers(left) == {member: rows for member, rows in expected.items() if rows}
    assert left.num_rows == log.num_rows
    assert left.column(0).equals(log.column(0))
    assert ends(left) == {member: end for member, end in ends(log).items() if member in kept}
    assert dead_bytes(left, state) == 0
    assert is_empty(left, state) == is_empty(log, state) == (not any(expected.values()))
    assert cleared(left, state).equals(left)
    assert left.nbytes <= log.nbytes


def test_half_the_bytes_are_those_of_half_the_answers() -> None:
    rows = pa.table({"v": list(range(10_000))})
    data, payload = sliced(rows, np.array([3, 4]), np.array([5000, 5000]))
    log = pa.table([pa.array([0]).cast(SCHEMA.arrow.field(0).type), [data], [bytes(payload)]], schema=SCHEMA.arrow)
    dead = dead_bytes(log, Living(np.array([4]), np.array([0]), 5))
    assert len(payload) / 2 <= dead <= len(payload) / 2 + 24
    assert cleared(log, Living(np.array([4]), np.array([0]), 5)).nbytes < log.nbytes * 0.52
