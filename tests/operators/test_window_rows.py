"""The rows of windows, in any order asked for, and their changes equal the naive oracle however the stream is cut."""

from __future__ import annotations

import itertools
import random
from collections import OrderedDict
from functools import partial
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.operators.windows import ring as window_ring
from anabranch.operators.windows import rows as window_rows
from anabranch.operators.windows.rows import CHANGE, DELETE, WindowRows
from anabranch.testing import OperatorHarness
from anabranch.testing.slt.small_tasks import small_tasks
from anabranch.windows.basic.values import Domain
from tests.operators.oracle import (
    SHAPES,
    STREAM,
    Bag,
    Drive,
    Order,
    Row,
    bag,
    changes,
    in_order,
    some_rows,
    table_of,
    told,
    windows,
)
from tests.sampling import examples

SORTABLE = ("i", "x", "s", "d", "b", "day", "at")


def operator(unit: Any, size: int, slide: int, ends: bool = True, **more: Any) -> WindowRows:
    columns = (("n", "n"), ("x", "x"), ("minus", "-i"), ("s", "s"))
    told = (("begin", "window_start"), ("e", "window_end")) if ends else ()
    return WindowRows("in", unit, size, slide, columns + told, "_time", **more)


def some_order(chance: random.Random, most: int = 3) -> tuple[Order, ...]:
    columns = chance.sample(SORTABLE, chance.randint(0, most))
    return tuple((column, chance.random() < 0.5, chance.random() < 0.5) for column in columns)


def shown(row: Row) -> tuple[Any, ...]:
    """The columns of the operator that are of the row itself."""
    return row["n"], row["x"], None if row["i"] is None else -row["i"], row["s"]


def rows_of(answer: pa.Table) -> list[tuple[int, tuple[Any, ...]]]:
    """Window ends as numbers, and the columns of the rows themselves."""
    ends = answer.column("e").cast(pa.int64()).to_pylist()
    return list(zip(ends, zip(*(answer.column(i).to_pylist() for i in range(4)), strict=True), strict=True))


def exact(rows: list[tuple[int, tuple[Any, ...]]]) -> list[tuple[Any, ...]]:
    """In a form in which NaN equals NaN and -0.0 is not 0.0."""
    return [(end, *(v.hex() if isinstance(v, float) else v for v in row)) for end, row in rows]


def check_times(op: WindowRows, answer: pa.Table, rows: list[Row]) -> None:
    """The window's start, and its end or, for windows of rows, the time of its last row."""
    times = answer.column("_time").cast(pa.int64()).to_pylist()
    begins = answer.column("begin").cast(pa.int64()).to_pylist()
    for (end, _), begin, time in zip(rows_of(answer), begins, times, strict=True):
        assert begin == (max(end - op.size, 0) if op.unit == "rows" else end - op.size)
        assert time == (rows[end - 1]["t"] if op.unit == "rows" else end)


def lose_ring() -> None:
    window_rows.live_rings.clear()


@examples(60)
@given(
    count=st.integers(1, 60),
    seed=st.integers(0, 2**32),
    unit=st.sampled_from(["time", "rows"]),
    shape=st.sampled_from(SHAPES),
    where=st.booleans(),
    limit=st.sampled_from([None, None, 0, 1, 3, 10]),
    index=st.sampled_from([None, None, "L", "T", "H", "UH"]),
    ring=st.sampled_from([None, None, "PLAIN", "AUX", "BW", "DB"]),
    begin=st.sampled_from([-50, 1_000, 1_700_000_000_000_000]),
    fewest_zeros=st.sampled_from([0, 1024]),
    spacing=st.sampled_from([2, 1 << 32]),
)
def test_windows_in_full_equal_the_oracles(
    count: int,
    seed: int,
    unit: str,
    shape: tuple[int, int],
    where: bool,
    limit: int | None,
    index: str | None,
    ring: str | None,
    begin: int,
    fewest_zeros: int,
    spacing: int,
) -> None:
    chance = random.Random(seed)
    rows, order = some_rows(count, chance, begin), some_order(chance)
    more: Any = {"index": index, "ring": ring} if order else {}
    op = operator(unit, *shape, filter="ok" if where else None, order=order, limit=limit, **more)
    with small_tasks(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(window_ring, "_FEWEST_ZEROS", fewest_zeros)
        patch.setattr(window_ring, "Domain", partial(Domain, spacing=spacing))
        drive = Drive(OperatorHarness(op, {"in": STREAM}), chance, every=(1, 1, 2, 3), faults=(lose_ring,))
        steps = drive.play({"in": rows}, beat=7)
    everything = windows(rows, unit, *shape, steps[-1].after, lambda row: not where or row["ok"] is True)
    for step in steps:
        wanted = [
            (end, shown(row))
            for end, members in everything
            if step.asks(end, op.slide)
            for row in in_order(members, order, limit)
        ]
        assert exact(rows_of(step.answer)) == exact(wanted)
        check_times(op, step.answer, rows)


@examples(60)
@given(
    count=st.integers(1, 60),
    seed=st.integers(0, 2**32),
    unit=st.sampled_from(["time", "rows"]),
    shape=st.sampled_from(SHAPES),
    where=st.booleans(),
    limit=st.sampled_from([None, 0, 1, 3, 10]),
    begin=st.sampled_from([-50, 1_000, 1_700_000_000_000_000]),
    ends=st.booleans(),
)
def test_changes_are_the_differences_of_windows(
    count: int, seed: int, unit: str, shape: tuple[int, int], where: bool, limit: int | None, begin: int, ends: bool
) -> None:
    """Rows that tell the ends of their window are others in each window."""
    chance = random.Random(seed)
    rows, order = some_rows(count, chance, begin), some_order(chance)
    op = operator(unit, *shape, ends, filter="ok" if where else None, order=order, limit=limit, changes=True)
    with small_tasks():
        drive = Drive(OperatorHarness(op, {"in": STREAM}), chance, every=(1, 2, 3))
        steps = drive.play({"in": rows}, beat=1_000)
    everything = windows(rows, unit, *shape, steps[-1].after, lambda row: not where or row["ok"] is True)

    def window(end: int) -> tuple[int, ...]:
        return (max(end - op.size, 0) if unit == "rows" else end - op.size, end) if ends else ()

    answers = {
        end: bag((*shown(row), *window(end)) for row in in_order(members, order, limit)) for end, members in everything
    }
    wanted: dict[int, tuple[Bag, Bag]] = {}
    for end, gone, come in changes(answers, op.slide, steps[-1].after):
        # Windows of rows have the time of their last row, several may have the same.
        time = end if unit == "time" else rows[end - 1]["t"]
        before = wanted.get(time, (Bag(), Bag()))
        wanted[time] = before[0] + gone, before[1] + come
    answer = told(steps)
    assert told_changes(answer) == wanted
    if unit == "time":
        check_order(answer, rows, order)


def changed_rows(answer: pa.Table) -> list[tuple[int, str, tuple[Any, ...]]]:
    """The time of each row, whether it comes or goes, and all it says."""
    times, words = answer.column("_time").cast(pa.int64()).to_pylist(), answer.column(CHANGE).to_pylist()
    ends = [answer.column(name).cast(pa.int64()) for name in ("begin", "e") if name in answer.column_names]
    rows = zip(*(column.to_pylist() for column in [*answer.columns[:4], *ends]), strict=True)
    return list(zip(times, words, rows, strict=True))


def told_changes(answer: pa.Table) -> dict[int, tuple[Bag, Bag]]:
    """By time what was deleted and what was inserted."""
    found = {}
    for time, group in itertools.groupby(changed_rows(answer), key=lambda each: each[0]):
        members = list(group)
        gone, come = (bag(row for _, word, row in members if (word == DELETE) == deleted) for deleted in (True, False))
        found[time] = gone, come
    return found


def check_order(answer: pa.Table, rows: list[Row], order: tuple[Order, ...]) -> None:
    """At an end rows go before others come; those that come, or go, are in the order asked for."""
    pairs = [((time, word), row[0]) for time, word, row in changed_rows(answer)]
    assert [key for key, _ in itertools.groupby(pairs, key=lambda pair: pair[0])] == sorted({key for key, _ in pairs})
    for _, group in itertools.groupby(pairs, key=lambda pair: pair[0]):
        numbers = [n for _, n in group]
        assert numbers == [row["n"] for row in in_order([rows[n] for n in sorted(numbers)], order)]


def test_first_rows_are_found_without_reading_the_window_again() -> None:
    rows = some_rows(2_000, random.Random(1), begin=0)
    for n, row in enumerate(rows):
        row["i"] = n * 7919 % 1009
    harness = OperatorHarness(operator("rows", 1_000, 10, order=(("i", True, False),), limit=1), {"in": STREAM})
    harness.push("in", table_of(rows))
    harness.step(rows=1_200)
    for _ in range(20):
        before = harness.work.rows_read
        harness.step(rows=40)
        assert harness.work.rows_read - before == 40
    first = [max(r["i"] for r in rows[max(end - 1_000, 0) : end]) for end in range(10, 2_001, 10)]
    assert [-minus for minus in harness.answers().column("minus").to_pylist()] == first


def test_heartbeat_that_is_run_again_in_the_same_process() -> None:
    harness = OperatorHarness(operator("time", 20, 10, order=(("s", False, True),), limit=2), {"in": STREAM})
    harness.push("in", table_of(some_rows(15, random.Random(2))))
    harness.step()
    harness.advance("in", 10_000)
    assert harness.step().num_rows > 0
    harness.replay()


def test_ring_of_an_older_batch_takes_in_what_it_missed() -> None:
    rows = some_rows(600, random.Random(3))
    op = operator("rows", 100, 10, order=(("s", True, False), ("x", False, False)), limit=5)
    harness, twin = (OperatorHarness(op, {"in": STREAM}) for _ in range(2))
    for each in (harness, twin):
        each.push("in", table_of(rows))
    rings: list[OrderedDict[str, Any]] = [OrderedDict(), OrderedDict()]
    chance = random.Random(3)
    while harness.offsets["in"].row < 600:
        window_rows.live_rings._kept = chance.choice(rings)
        harness.step(rows=chance.choice([1, 15, 60]))
    twin.step()
    assert exact(rows_of(harness.answers())) == exact(rows_of(twin.answers()))
    window_rows.live_rings._kept = OrderedDict()


@pytest.mark.parametrize("descending", [True, False])
def test_words_that_crowd_between_two_others(descending: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every word comes before the last new one and after "a", so that all get new codes again and again."""
    monkeypatch.setattr(window_ring, "_FEWEST_ZEROS", 0)
    monkeypatch.setattr(window_ring, "Domain", partial(Domain, spacing=4))
    rows = some_rows(600, random.Random(4))
    for n, row in enumerate(rows):
        row["s"] = ("a", f"a{600 - n:05}", f"z{600 - n:05}")[n % 3]
    order = (("s", descending, False),)
    harness = OperatorHarness(operator("rows", 96, 6, order=order, limit=40), {"in": STREAM})
    harness.push("in", table_of(rows))
    wanted = [
        (end, shown(row)) for end, members in windows(rows, "rows", 96, 6, 600) for row in in_order(members, order, 40)
    ]
    assert exact(rows_of(harness.run(rows=17))) == exact(wanted)
