"""INTERSECT, EXCEPT and UNION of windows equal the naive oracle, over one stream or two of different speed."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.operators.base import Inputs
from anabranch.operators.windows import values as window_values
from anabranch.operators.windows.aggregate import WindowAggregate
from anabranch.operators.windows.sets import WindowSetOperation
from anabranch.testing import MemoryLog, OperatorHarness
from anabranch.testing.harness import run_batch
from anabranch.testing.slt.small_tasks import small_tasks
from anabranch.windows.basic.spill import SpillFile
from tests.operators.oracle import (
    SHAPES,
    STREAM,
    Bag,
    Drive,
    Row,
    answer,
    bag,
    set_answer,
    some_rows,
    table_of,
    told,
    windows,
)
from tests.sampling import examples

OPERATIONS = [(name, keep_all) for name in ("intersect", "except", "union") for keep_all in (False, True)]
COLUMNS = [["i"], ["s", "b"], ["x"], ["d", "day"]]


def side(
    stream: str, unit: Any, size: int, slide: int, columns: list[str], where: str | None = None
) -> WindowAggregate:
    """The rows of a stream, each with the number of times it is there."""
    names = tuple((c, c) for c in columns)
    return WindowAggregate(
        stream, unit, size, slide, keys=names, aggregates=(("__n", "count", None),),
        columns=(*names, ("__n", "__n"), ("_time", "_time")), time="_time", filter=where,
    )  # fmt: skip


def sets(operation: Any, left: WindowAggregate, right: WindowAggregate, columns: list[str]) -> WindowSetOperation:
    name, keep_all = operation
    return WindowSetOperation(name, keep_all, left, right, tuple(columns), "_time")


def bags(
    rows: list[Row],
    unit: str,
    shape: tuple[int, int],
    reached: int,
    columns: list[str],
    where: Callable[[Row], bool] = lambda row: True,
) -> dict[int, Bag]:
    """The rows of each window."""
    found = windows(rows, unit, *shape, reached, where)
    return {end: bag([row[c] for c in columns] for row in members) for end, members in found}


def combined(operation: tuple[str, bool], left: dict[int, Bag], right: dict[int, Bag]) -> dict[int, Bag]:
    """What the operation gives in each window, where that is anything."""
    ends = sorted(left.keys() | right.keys())
    found = {end: set_answer(*operation, left.get(end, Bag()), right.get(end, Bag())) for end in ends}
    return {end: rows for end, rows in found.items() if rows}


def by_time(table: pa.Table) -> dict[int, Bag]:
    """Rows of an answer by their time, which for windows of time is the window's end."""
    found: dict[int, Bag] = {}
    *columns, times = (column.to_pylist() for column in [*table.columns[:-1], table.column(-1).cast(pa.int64())])
    for time, *row in zip(times, *columns, strict=True):
        found[time] = found.get(time, Bag()) + bag([row])
    return found


@examples(50)
@given(
    counts=st.tuples(st.integers(0, 40), st.integers(0, 40)),
    seed=st.integers(0, 2**32),
    shape=st.sampled_from(SHAPES),
    operation=st.sampled_from(OPERATIONS),
    columns=st.sampled_from(COLUMNS),
    begins=st.tuples(st.sampled_from([-50, 1_000, 1_100]), st.sampled_from([1_000, 1_050, 3_000])),
    beat=st.sampled_from([0, 500]),
)
def test_two_streams_of_different_speed(
    counts: tuple[int, int],
    seed: int,
    shape: tuple[int, int],
    operation: Any,
    columns: list[str],
    begins: tuple[int, int],
    beat: int,
) -> None:
    chance = random.Random(seed)
    streams = {name: some_rows(n, chance, t) for name, n, t in zip(("a", "b"), counts, begins, strict=True)}
    left, right = (side(name, "time", *shape, columns) for name in streams)
    op = sets(operation, left, right, columns)
    with small_tasks():
        drive = Drive(OperatorHarness(op, {"a": STREAM, "b": STREAM}), chance, every=(1, 1, 2))
        steps = drive.play(streams, beat)
    sides = (bags(rows, "time", shape, steps[-1].after, columns) for rows in streams.values())
    everything = combined(operation, *sides)
    for step in steps:
        wanted = {end: rows for end, rows in everything.items() if step.asks(end, op.slide)}
        assert by_time(step.answer) == wanted


@examples(40)
@given(
    count=st.integers(1, 60),
    seed=st.integers(0, 2**32),
    unit=st.sampled_from(["time", "rows"]),
    shape=st.sampled_from(SHAPES),
    operation=st.sampled_from(OPERATIONS),
    columns=st.sampled_from(COLUMNS),
)
def test_one_stream_twice(
    count: int, seed: int, unit: str, shape: tuple[int, int], operation: Any, columns: list[str]
) -> None:
    chance = random.Random(seed)
    rows = some_rows(count, chance)
    left, right = side("in", unit, *shape, columns, "ok"), side("in", unit, *shape, columns, "i < 5")
    op = sets(operation, left, right, columns)
    with small_tasks():
        drive = Drive(OperatorHarness(op, {"in": STREAM}), chance, every=(1, 1, 3))
        steps = drive.play({"in": rows}, beat=30)
    ok = bags(rows, unit, shape, steps[-1].after, columns, lambda row: row["ok"] is True)
    small = bags(rows, unit, shape, steps[-1].after, columns, lambda row: row["i"] is not None and row["i"] < 5)
    everything = combined(operation, ok, small)
    for step in steps:
        wanted: dict[int, Bag] = {}
        for end, members in everything.items():
            if step.asks(end, op.slide):
                time = rows[end - 1]["t"] if unit == "rows" else end
                wanted[time] = wanted.get(time, Bag()) + members
        assert by_time(step.answer) == wanted


def aggregated(stream: str, function: str, where: str | None = None) -> WindowAggregate:
    """Of each `b` one row with an aggregate of `i`."""
    return WindowAggregate(
        stream, "time", 20, 5, keys=(("b", "b"),), aggregates=(("v", function, "i"),),
        columns=(("b", "b"), ("v", "v"), ("_time", "_time")), time="_time", filter=where,
    )  # fmt: skip


@examples(30)
@given(
    count=st.integers(1, 60),
    seed=st.integers(0, 2**32),
    function=st.sampled_from(["percentile_disc(0.5)", "mode", "max"]),
    where=st.sampled_from([None, "ok"]),
    operation=st.sampled_from(OPERATIONS),
)
def test_aggregates_of_each_window(count: int, seed: int, function: str, where: str | None, operation: Any) -> None:
    """Also of two sides that are the very same, and read the same index."""
    chance = random.Random(seed)
    rows = some_rows(count, chance)
    op = sets(operation, aggregated("in", function, where), aggregated("in", function), ["b", "v"])
    with small_tasks():
        steps = Drive(OperatorHarness(op, {"in": STREAM}), chance).play({"in": rows}, beat=30)
    sides: list[dict[int, Bag]] = []
    for keep in (lambda row: where is None or row["ok"] is True, lambda row: True):
        found: dict[int, Bag] = {}
        for end, *row in answer(rows, "time", 20, 5, ["b"], [(function, "i")], steps[-1].after, keep):
            found[end] = found.get(end, Bag()) + bag([row])
        sides.append(found)
    assert by_time(told(steps)) == combined(operation, *sides)


def two_streams(operation: str) -> OperatorHarness:
    left, right = (side(name, "time", 20, 10, ["i"]) for name in ("a", "b"))
    return OperatorHarness(sets((operation, False), left, right, ["i"]), {"a": STREAM, "b": STREAM})


def test_nothing_is_answered_before_both_streams_have_come_so_far() -> None:
    harness = two_streams("union")
    rows = [row | {"i": 1} for row in some_rows(50, random.Random(1))]
    harness.push("a", table_of(rows))
    harness.advance("a", 10_000)
    assert harness.step().num_rows == 0
    harness.advance("b", 1_005)
    assert harness.step().num_rows == 0
    harness.advance("b", 1_010)
    assert by_time(harness.step()) == {1_010: bag([[1]])}
    harness.replay()
    harness.restart()
    harness.advance("b", 20_000)
    last = harness.step()
    ends = {end for end in bags(rows, "time", (20, 10), 10_000, ["i"]) if end > 1_010}
    assert by_time(last) == {end: bag([[1]]) for end in ends}


def test_heartbeat_completes_windows_of_the_faster_stream() -> None:
    rows = [row | {"i": n} for n, row in enumerate(some_rows(30, random.Random(2)))]
    harness, twin = two_streams("except"), two_streams("except")
    harness.push("a", table_of(rows))
    for time in range(1_000, 1_400, 7):
        harness.advance("b", time)
        harness.step()
    twin.push("a", table_of(rows))
    for each in (harness, twin):
        each.advance("a", 9_000)
        each.advance("b", 9_000)
        each.step()
    assert by_time(harness.answers()) == by_time(twin.answers()) == bags(rows, "time", (20, 10), 9_000, ["i"])


def test_memory_of_windows_is_limited_on_both_sides(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[Any] = []
    write = SpillFile.write

    def noted(file: SpillFile, *entries: Any) -> Any:
        written.append(entries)
        return write(file, *entries)

    monkeypatch.setattr(SpillFile, "write", noted)
    log = MemoryLog(STREAM)
    log.append(table_of(some_rows(60, random.Random(3))))
    op = sets(("union", True), aggregated("in", "mode"), aggregated("in", "mode", "ok"), ["b", "v"])
    start, end = {"in": log.offset(0)}, {"in": log.offset()}
    in_memory = run_batch(op, Inputs({"in": log}), start, end, 1)
    assert not written
    window_values.live.clear()
    assert run_batch(op, Inputs({"in": log}, window_memory=1), start, end, 1).equals(in_memory)
    assert written
