"""A join with less memory than its windows need: what it keeps, what it says of it, and that it recovers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from anabranch.errors import QueryError
from anabranch.operators.base import Inputs
from anabranch.operators.join.operator import WindowJoin
from anabranch.operators.join.steps import live
from anabranch.operators.live import forget_all
from anabranch.schema import TIME_TYPE, StreamSchema
from anabranch.testing import MemoryLog, OperatorHarness
from anabranch.testing.harness import run_batch, same
from anabranch.windows.index.chains import BYTES_PER_ROW

SCHEMA = StreamSchema.of({"k": "BIGINT", "ts": "TIMESTAMP"}, time="ts")
WINDOW = 1_000
ROOM = 400
"""Rows of one stream that memory has room for."""


def join(shed: Any, memory: int | None = 2 * ROOM * BYTES_PER_ROW) -> WindowJoin:
    columns = [("k", "`A.k`"), ("a", "`A.ts`"), ("b", "`B.ts`"), ("_time", "_time")]
    if memory is not None:
        columns.append(("complete", "_completeness"))
    return WindowJoin(
        (("A", "a", None), ("B", "b", None)), "time", ((0, 1, -WINDOW, WINDOW),), ("`A.k` = `B.k`",),
        tuple(columns), "_time", "time", memory, shed if memory is not None else None,
    )  # fmt: skip


def rows(seed: int, count: int, until: int, skewed: bool = False, since: int = 0) -> pa.Table:
    chance = np.random.default_rng(seed)
    times = np.sort(chance.integers(since, until, count))
    keys = chance.integers(0, 200, count)
    if skewed:
        keys = np.where(chance.random(count) < 0.3, 0, chance.integers(1, 2_000, count))
    return pa.table({"k": keys, "ts": pa.array(times).cast(TIME_TYPE)})


def harness_of(operator: WindowJoin, *tables: tuple[pa.Table, pa.Table]) -> OperatorHarness:
    harness = OperatorHarness(operator, {"a": SCHEMA, "b": SCHEMA})
    for a, b in tables:
        harness.push("a", a)
        harness.push("b", b)
    for name in "ab":
        harness.advance(name, 1_000_000)
    return harness


BUSY = (rows(1, 8_000, 8_000), rows(2, 8_000, 8_000))
"""A thousand rows in a window, of which four hundred have room."""


@pytest.mark.parametrize("shed", ["random", "oldest", "matches"])
def test_the_estimate_of_completeness_is_near_the_truth(shed: str) -> None:
    everything = harness_of(join(shed, None), BUSY).run().num_rows
    harness = harness_of(join(shed), BUSY)
    found = harness.run()
    truth = found.num_rows / everything
    assert 0.2 < truth < 0.7
    counted = harness.work.reports["completeness"]
    estimate = counted["found"] / counted["expected"]
    assert estimate == pytest.approx(truth, abs=0.06)
    assert counted["found"] == found.num_rows
    each = np.array(found.column("complete").to_pylist())
    assert ((each > 0) & (each <= 1)).all()


@pytest.mark.slow
@pytest.mark.parametrize("shed", ["random", "oldest", "matches"])
def test_what_is_kept_does_not_depend_on_batches(shed: str) -> None:
    data = (rows(3, 3_000, 3_000), rows(4, 3_000, 3_000))
    wanted = harness_of(join(shed), data).run()
    harness = harness_of(join(shed), data)
    for turn in range(40):
        harness.step(rows=211, parallelism=1 + turn % 2)
        if turn % 5 == 0:
            harness.replay()
            harness.forget()
    harness.run()
    assert same(harness.answers(), wanted)


@pytest.mark.slow
@pytest.mark.parametrize("shed", ["random", "oldest"])
def test_answers_are_some_of_those_of_the_whole_join(shed: str) -> None:
    whole = set(zip(*(harness_of(join(shed, None), BUSY).run().column(c).to_pylist() for c in "kab"), strict=True))
    some = set(zip(*(harness_of(join(shed), BUSY).run().column(c).to_pylist() for c in "kab"), strict=True))
    assert some < whole


def test_oldest_rows_go_first() -> None:
    found = harness_of(join("oldest"), BUSY).run()
    a, b = (found.column(name).cast(pa.int64()).to_numpy() for name in "ab")
    # With 1,000 rows a window, room for 400 is 0.4 of the window.
    assert np.quantile(np.abs(a - b), 0.99) < 0.5 * WINDOW


@pytest.mark.slow
def test_rows_by_matches_keep_more_results_than_any_rows() -> None:
    data = (rows(5, 6_000, 6_000, skewed=True), rows(6, 6_000, 6_000, skewed=True))
    by_matches, at_random = (harness_of(join(shed), data).run().num_rows for shed in ("matches", "random"))
    assert by_matches > 1.5 * at_random


@pytest.mark.parametrize("shed", ["random", "oldest", "matches"])
def test_it_recovers_when_the_rush_is_over(shed: str) -> None:
    quiet = (rows(7, 2_000, 28_000, since=8_000), rows(8, 2_000, 28_000, since=8_000))
    harness = harness_of(join(shed), BUSY, quiet)
    found = harness.run()
    late = np.array(found.column("_time").cast(pa.int64()).to_pylist()) > 12_000
    assert set(np.array(found.column("complete").to_pylist())[late]) == {1.0}
    whole = harness_of(join(shed, None), BUSY, quiet).run()
    times = np.array(whole.column("_time").cast(pa.int64()).to_pylist())
    assert late.sum() == (times > 12_000).sum()


def test_memory_stays_within_the_budget() -> None:
    forget_all()
    harness = harness_of(join("random"), BUSY)
    harness.run(rows=1_000)
    rooms = [index.room for index in live._kept.values()]
    # Room is a power of two, at least that of 1,024 rows.
    assert rooms
    assert max(rooms) <= 1_024
    harness = harness_of(join("random", None), BUSY)
    forget_all()
    harness.run(rows=1_000)
    assert max(index.room for index in live._kept.values()) >= 2_048


def pairs(partner: str, shed: Any, *others: str) -> WindowJoin:
    """Rows of "a" with those of another stream, or of several."""
    sources = (("A", "a", None), ("B", partner, None), *((other.upper(), other, None) for other in others))
    windows = tuple((0, i, -WINDOW, WINDOW) for i in range(1, len(sources)))
    equal = tuple(f"`A.k` = `{alias}.k`" for alias, _, _ in sources[1:])
    return WindowJoin(
        sources, "time", windows, equal, (("a", "`A.ts`"), ("_time", "_time")), "_time", "time",
        ROOM * BYTES_PER_ROW, shed,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    "operators",
    [(pairs("b", "matches"), pairs("c", "matches")), (pairs("b", "random"), pairs("b", "random", "c"))],
    ids=["other partners", "another number of streams"],
)
def test_joins_that_keep_other_rows_share_no_index(operators: tuple[WindowJoin, WindowJoin]) -> None:
    logs = {name: MemoryLog(SCHEMA) for name in "abc"}
    for seed, log in enumerate(logs.values()):
        log.append(rows(seed, 900, 3_000, skewed=True))
    ends = [{name: log.offset(row) for name, log in logs.items()} for row in (0, 300, 600, 900)]

    def answer(operator: WindowJoin, low: int) -> pa.Table:
        readers = {name: logs[name] for name in operator.inputs}
        start, end = ({name: each[name] for name in readers} for each in ends[low : low + 2])
        return run_batch(operator, Inputs(readers), start, end, 1)

    alone = []
    for operator in operators:
        forget_all()
        alone.append([answer(operator, low) for low in range(3)])
    forget_all()
    together = [[answer(operator, low) for operator in operators] for low in range(3)]
    for number in range(2):
        for low in range(3):
            assert same(together[low][number], alone[number][low])


def test_what_was_found_is_never_said_to_be_nothing_of_all() -> None:
    """Keys that come in turns: those that are kept had met nobody in the time that says what they are worth."""
    count = 6_000
    times, n = np.sort(np.random.default_rng(1).integers(0, 9_000, count)), np.arange(count)
    turn = times // WINDOW - (n % 10 == 0)
    keys = turn % 5 * 100 + n % 50
    turns = pa.table({"k": keys, "ts": pa.array(times).cast(TIME_TYPE)})
    harness = harness_of(join("matches"), (turns, turns))
    found = harness.run()
    assert found.num_rows
    # Rows drawn at random, as many as there is room for, would find this much.
    assert min(found.column("complete").to_pylist()) >= 0.2
    counted = harness.work.reports["completeness"]
    assert counted["expected"] < 10 * counted["found"]


def test_matches_need_a_key() -> None:
    operator = WindowJoin(
        (("A", "a", None), ("B", "b", None)), "time", ((0, 1, -WINDOW, WINDOW),), ("`A.k` < `B.k`",),
        (("_time", "_time"),), "_time", "time", 1_000, "matches",
    )  # fmt: skip
    with pytest.raises(QueryError, match="only if one key is equal in all streams"):
        harness_of(operator, BUSY).step()


@pytest.mark.parametrize("shed", ["random", "matches"])
def test_a_window_that_fills_or_a_rush_after_a_quiet_time_stays_near_the_bound(shed: str) -> None:
    """One row of b at the end meets all rows of a that are kept, which have its key."""
    one_key = pa.array(np.zeros(5_000, np.int64))
    fills = pa.table({"k": one_key, "ts": pa.array(np.arange(5_000) // 5).cast(TIME_TYPE)})
    quiet = pa.table({"k": one_key[:50], "ts": pa.array(np.arange(50) * 20).cast(TIME_TYPE)})
    rush = pa.table({"k": one_key, "ts": pa.array(1_000 + np.arange(5_000) // 5).cast(TIME_TYPE)})
    for tables, last in (([fills], 999), ([quiet, rush], 1_999)):
        harness = OperatorHarness(join(shed), {"a": SCHEMA, "b": SCHEMA})
        for table in tables:
            harness.push("a", table)
        harness.push("b", pa.table({"k": one_key[:1], "ts": pa.array([last]).cast(TIME_TYPE)}))
        for name in "ab":
            harness.advance(name, 1_000_000)
        found = harness.run()
        assert ROOM / 4 < found.num_rows < 5 * ROOM
        estimated = (1 / np.array(found.column("complete").to_pylist())).sum()
        assert estimated == pytest.approx(sum(table.num_rows for table in tables), rel=0.25)
