"""Changes told one after the other lead from nothing to the answer of each window, whatever the answer is made of."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.operators.base import Operator
from anabranch.operators.windows.aggregate import WindowAggregate
from anabranch.operators.windows.changes import WindowChanges
from anabranch.operators.windows.rows import CHANGE, DELETE, INSERT
from anabranch.testing import OperatorHarness
from anabranch.testing.slt.small_tasks import small_tasks
from tests.operators.oracle import (
    SHAPES,
    STREAM,
    Bag,
    Drive,
    Row,
    Step,
    answer,
    at_time,
    bag,
    changes,
    in_order,
    some_rows,
    table_of,
    told,
)
from tests.operators.test_window_sets import OPERATIONS, bags, combined, sets, side
from tests.sampling import examples

AGGREGATES: list[list[tuple[str, str | None]]] = [
    [("count", None), ("sum", "i")],
    [("max", "s"), ("count", "x")],
    [("median", "x"), ("mode", "s")],
    [("percentile_disc(0.3)", "d"), ("count_distinct", "at")],
]


ENDS = (("begin", "window_start"), ("e", "window_end"))


def aggregate(
    unit: Any, size: int, slide: int, keys: list[str], functions: list[Any], ends: bool = False, **more: Any
) -> WindowAggregate:
    names = [*(f"key_{k}" for k in keys), *(f"a{i}" for i in range(len(functions)))]
    return WindowAggregate(
        "in",
        unit,
        size,
        slide,
        keys=tuple((f"key_{k}", k) for k in keys),
        aggregates=tuple((f"a{i}", f, arg) for i, (f, arg) in enumerate(functions)),
        columns=(*((n, n) for n in names), *(ENDS if ends else ())),
        time="_time",
        **more,
    )


def told_changes(table: pa.Table, width: int) -> list[tuple[int, Bag, Bag]]:
    """(time, deleted, inserted) of each answer that differs from the one before it, deleted rows first."""
    columns = [c.cast(pa.int64()) if n in dict(ENDS) else c for n, c in zip(table.column_names, table, strict=True)]
    rows = zip(*(column.to_pylist() for column in columns[:width]), strict=True)
    times, words = table.column("_time").cast(pa.int64()).to_pylist(), table.column(CHANGE).to_pylist()
    found = []
    for time, group in itertools.groupby(zip(times, words, rows, strict=True), key=lambda each: each[0]):
        members = list(group)
        gone, come = ([row for _, word, row in members if word == which] for which in (DELETE, INSERT))
        assert len(gone) + len(come) == len(members)
        found.append((time, bag(gone), bag(come)))
    return found


def check(steps: list[Step], answers: dict[int, Bag], slide: int, width: int) -> None:
    """Applied one after the other the changes give every answer, and none of them takes back another."""
    found, wanted = told_changes(told(steps), width), changes(answers, slide, steps[-1].after)
    held = Bag()
    for end, gone, come in found:
        assert not gone & come, f"at {end} a row is deleted and inserted"
        assert gone <= held, f"at {end} a row is deleted that was not there"
        held = held - gone + come
        assert held == answers.get(end, Bag()), f"at {end}"
    assert found == wanted
    for step in steps:
        assert all(step.before < end <= step.after for end, _, _ in told_changes(step.answer, width))


def check_rows(steps: list[Step], answers: dict[int, Bag], slide: int, width: int, rows: list[Row]) -> None:
    """The same for windows of rows, whose answers have the time of their last row; several may have the same."""
    wanted: dict[int, tuple[Bag, Bag]] = {}
    words = itertools.groupby(changes(answers, slide, steps[-1].after), key=lambda each: rows[each[0] - 1]["t"])
    for time, group in words:
        each = list(group)
        wanted[time] = sum((gone for _, gone, _ in each), Bag()), sum((come for _, _, come in each), Bag())
    assert {time: (gone, come) for time, gone, come in told_changes(told(steps), width)} == wanted


def play(op: Operator, streams: dict[str, list[Row]], chance: random.Random) -> list[Step]:
    harness = OperatorHarness(op, dict.fromkeys(streams, STREAM))
    with small_tasks():
        return Drive(harness, chance, every=(1, 2, 3)).play(streams, beat=chance.choice([0, 7, 500]))


@pytest.mark.slow
@examples(50)
@given(
    count=st.integers(1, 60),
    seed=st.integers(0, 2**32),
    unit=st.sampled_from(["time", "rows"]),
    shape=st.sampled_from(SHAPES),
    keys=st.sampled_from([[], ["b"], ["s"], ["x"], ["i", "b"]]),
    functions=st.sampled_from(AGGREGATES),
    having=st.booleans(),
    limit=st.sampled_from([None, None, 1, 2]),
    begin=st.sampled_from([-50, 1_000, 1_700_000_000_000_000]),
    ends=st.booleans(),
)
def test_changes_of_aggregates(
    count: int,
    seed: int,
    unit: str,
    shape: tuple[int, int],
    keys: list[str],
    functions: list[tuple[str, str | None]],
    having: bool,
    limit: int | None,
    begin: int,
    ends: bool,
) -> None:
    """Every window is told, also where only every k-th is to be answered; with its ends, each row is another."""
    chance = random.Random(seed)
    rows = some_rows(count, chance, begin)
    functions = [*functions, ("count", None)]
    last = f"a{len(functions) - 1}"
    order = (("a0", True, chance.random() < 0.5),) if limit is not None else ()
    more: Any = {"order": order, "limit": limit, "having": f"{last} > 1" if having else None}
    op = WindowChanges(aggregate(unit, *shape, keys, functions, ends, **more))
    steps = play(op, {"in": rows}, chance)
    names = [*(f"key_{k}" for k in keys), *(f"a{i}" for i in range(len(functions)))]
    answers: dict[int, Bag] = {}
    everything = answer(rows, unit, *shape, keys, functions, steps[-1].after)
    for end, group in itertools.groupby(everything, key=lambda row: row[0]):
        named = [dict(zip(names, row[1:], strict=True)) for row in group if not having or row[-1] > 1]
        first = end - shape[0] if unit == "time" else max(end - shape[0], 0)
        window = (first, end) if ends else ()
        answers[end] = bag((*row.values(), *window) for row in in_order(named, order, limit))
    width = len(names) + (2 if ends else 0)
    if unit == "time":
        check(steps, answers, shape[1], width)
    else:
        check_rows(steps, answers, shape[1], width, rows)


@pytest.mark.slow
@examples(40)
@given(
    counts=st.tuples(st.integers(0, 40), st.integers(0, 40)),
    seed=st.integers(0, 2**32),
    shape=st.sampled_from(SHAPES),
    operation=st.sampled_from(OPERATIONS),
    columns=st.sampled_from([["i"], ["s", "b"], ["x"]]),
    begins=st.tuples(st.sampled_from([-50, 1_000, 1_100]), st.sampled_from([1_000, 1_050, 3_000])),
)
def test_changes_of_sets(
    counts: tuple[int, int],
    seed: int,
    shape: tuple[int, int],
    operation: Any,
    columns: list[str],
    begins: tuple[int, int],
) -> None:
    chance = random.Random(seed)
    streams = {name: some_rows(n, chance, t) for name, n, t in zip(("a", "b"), counts, begins, strict=True)}
    left, right = (side(name, "time", *shape, columns) for name in streams)
    op = WindowChanges(sets(operation, left, right, columns))
    steps = play(op, streams, chance)
    sides = (bags(rows, "time", shape, steps[-1].after, columns) for rows in streams.values())
    check(steps, combined(operation, *sides), shape[1], len(columns))


def test_stream_that_has_no_row_yet_but_a_heartbeat() -> None:
    """Its empty windows count: what the other stream has is told."""
    left, right = (side(name, "time", 20, 10, ["i"]) for name in ("a", "b"))
    op = WindowChanges(sets(("union", False), left, right, ["i"]))
    harness = OperatorHarness(op, {"a": STREAM, "b": STREAM})
    harness.push("a", table_of([row | {"i": 1} for row in some_rows(1, random.Random(1), begin=1_003)]))
    harness.advance("a", 1_100)
    harness.advance("b", 1_015)
    assert told_changes(harness.step(), 1) == [(1_010, Bag(), bag([[1]]))]
    harness.advance("b", 1_100)
    assert told_changes(harness.step(), 1) == [(1_030, bag([[1]]), Bag())]


def test_equal_answers_of_windows_that_follow_each_other_are_told_once() -> None:
    rows = [at_time(row, 10 * n) | {"b": True, "i": 4} for n, row in enumerate(some_rows(8, random.Random(2)))]
    harness = OperatorHarness(WindowChanges(aggregate("time", 10, 10, ["b"], [("sum", "i")])), {"in": STREAM})
    harness.push("in", table_of(rows))
    harness.advance("in", 1_000)
    one = bag([[True, 4]])
    assert told_changes(harness.run(rows=3), 2) == [(10, Bag(), one), (90, one, Bag())]
