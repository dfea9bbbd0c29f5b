"""Aggregates of live rows that were seen in history, per period, against the naive version."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from anabranch.errors import QueryError
from anabranch.kernels.sampling import kept, key_lots
from anabranch.operators.base import Inputs, Offset
from anabranch.operators.history import join as history_join
from anabranch.operators.history.join import HistoryJoin
from anabranch.operators.history.join_aggregate import HistoryJoinAggregate
from anabranch.operators.live import forget_all
from anabranch.schema import TIME_TYPE
from anabranch.testing import MemoryLog, OperatorHarness
from anabranch.testing.harness import run_batch, same
from tests.operators.history_oracle import Portions, Row, rows_of
from tests.operators.test_history_join import LIVE, PAST, drive, join

AGGREGATES = (("n", "count", None), ("exits", "sum", "exit"), ("mean", "avg", "exit"), ("met", "sum", "_matches"))


@pytest.fixture(autouse=True)
def nothing_remembered() -> Iterator[None]:
    forget_all()
    yield
    forget_all()


def counted(
    inner: HistoryJoin, every: int = 90, keys: tuple[str, ...] = ("plate",), **more: Any
) -> HistoryJoinAggregate:
    named = tuple((key, key) for key in keys)
    columns = (*named, *((name, name) for name, _, _ in AGGREGATES))
    given: dict[str, Any] = {"keys": named, "aggregates": AGGREGATES, "columns": columns, "time": "_time"}
    return HistoryJoinAggregate(inner, every, **{**given, **more})


def naive(operator: HistoryJoinAggregate, live: list[Row], past: list[Row], reached: int) -> list[tuple[Any, ...]]:
    inner = operator.join
    portions = Portions(inner.on, inner.period, inner.portions, inner.within)
    groups: dict[Any, list[tuple[Row, int]]] = {}
    for row, _, matches in portions.answered(live, past, inner.match):
        end = (row["ts"] // operator.every + 1) * operator.every
        if end <= reached:
            groups.setdefault((end, *(row[key] for key, _ in operator.keys)), []).append((row, matches))
    found = []
    for key in sorted(groups, key=lambda each: [(value is not None, value) for value in each]):
        exits = [row["exit"] for row, _ in groups[key] if row["exit"] is not None]
        total = sum(exits) if exits else None
        mean = sum(exits) / len(exits) if exits else None
        found.append((*key, len(groups[key]), total, mean, sum(matches for _, matches in groups[key])))
    return found


def told(answer: pa.Table, keys: tuple[str, ...] = ("plate",)) -> list[tuple[Any, ...]]:
    return [
        (r["_time"], *(r[k] for k in keys), r["n"], r["exits"], r["mean"], r["met"]) for r in rows_of(answer, "_time")
    ]


@pytest.mark.parametrize("size", [7, 60, 500])
@pytest.mark.parametrize("keys", [("plate",), ()])
def test_counts_per_period(size: int, keys: tuple[str, ...]) -> None:
    data = drive(500, seed=31, cars=4)
    operator = counted(join(match="any"), keys=keys)
    harness = OperatorHarness(operator, {"cars": LIVE})
    harness.push("cars", data)
    rows = rows_of(data)
    answer = told(harness.run(rows=size), keys)
    assert answer == naive(operator, rows, rows, rows[-1]["ts"])
    assert len(answer) > 10


@pytest.mark.parametrize("size", [9, 400])
def test_history_of_another_stream(size: int) -> None:
    live, past = drive(250, seed=32), drive(300, seed=33, names=("car", "gate"), step=5)
    operator = counted(join(history="past", on=(("plate", "car"), ("exit", "gate")), match="any"), every=40)
    harness = OperatorHarness(operator, {"cars": LIVE, "past": PAST})
    harness.push("cars", live)
    harness.push("past", past)
    harness.advance("past", 10_000)
    harness.advance("cars", 10_000)
    assert told(harness.run(rows=size)) == naive(operator, rows_of(live), rows_of(past), 10_000)


def test_a_period_is_answered_once_its_history_is_there() -> None:
    live, past = drive(60, seed=34), drive(60, seed=35, names=("car", "gate"))
    operator = counted(join(history="past", on=(("plate", "car"),), match="any", portions=1), every=40)
    harness = OperatorHarness(operator, {"cars": LIVE, "past": PAST})
    harness.push("cars", live)
    harness.advance("cars", 1_000)
    assert harness.step().num_rows == 0
    harness.push("past", past)
    harness.advance("past", 49)
    harness.step()
    reached = operator.reached(harness.offsets)
    assert reached == (harness.offsets["past"].time + 70) // 40 * 40 + 40
    harness.advance("past", 1_000)
    harness.step()
    assert told(harness.answers()) == naive(operator, rows_of(live), rows_of(past), 1_000)


def test_restarts_replays_and_tasks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    data = drive(400, seed=36, cars=4)
    operator = counted(join(match="any", within=5, period=20))
    harness = OperatorHarness(operator, {"cars": LIVE})
    harness.push("cars", data)
    whole = harness.step()
    monkeypatch.setattr(history_join, "ROWS_PER_TASK", 50)
    for parallelism in (1, 3):
        harness = OperatorHarness(operator, {"cars": LIVE})
        harness.push("cars", data)
        for _ in range(5):
            harness.step(parallelism, rows=90)
            harness.replay(parallelism)
            harness.restart()
            harness.replay()
            harness.forget()
        harness.run()
        assert same(harness.answers(), whole)
        assert whole.num_rows > 20


# -- reduced -------------------------------------------------------------------------------------


def test_reduced_counts_are_those_of_the_keys_that_are_kept() -> None:
    data = drive(800, seed=37, cars=60)
    log = MemoryLog(LIVE)
    log.append(data)
    operator = counted(join(reducer=("by_key", ("plate", 0.5)), match="any", within=90), every=400, keys=())
    end = {"cars": log.offset()._replace(keep=0.5)}
    answer = run_batch(operator, Inputs({"cars": log}), {"cars": Offset()}, end, 1)
    rows = rows_of(data)
    known = [row for row, keep in zip(rows, kept(key_lots(data.column("plate"), 0), 0.5), strict=True) if keep]
    wanted = naive(operator, known, rows, rows[-1]["ts"])
    assert len(wanted) > 3
    assert [(r["_time"], r["n"], r["exits"], r["mean"]) for r in rows_of(answer, "_time")] == [
        (time, pytest.approx(n / 0.5), pytest.approx(total / 0.5), pytest.approx(mean))
        for time, n, total, mean, _ in wanted
    ]
    names = [name for aggregate, _, _ in AGGREGATES for name in (aggregate, f"{aggregate}_low", f"{aggregate}_high")]
    assert answer.column_names == [*names, "_time", "_fraction"]
    assert set(answer.column("_fraction").to_pylist()) == {0.5}


def test_reduced_counts_of_all_are_exact() -> None:
    data = drive(500, seed=38)
    log = MemoryLog(LIVE)
    log.append(data)
    inner = join(match="any")
    exact = run_batch(counted(inner), Inputs({"cars": log}), {"cars": Offset()}, {"cars": log.offset()}, 1)
    operator = counted(join(match="any", reducer=("by_key", ("plate", 0.5))))
    answer = run_batch(operator, Inputs({"cars": log}), {"cars": Offset()}, {"cars": log.offset()}, 1)
    assert told(answer) == told(exact)
    for name, _, _ in AGGREGATES:
        assert answer.column(name) == answer.column(f"{name}_low") == answer.column(f"{name}_high")


def test_reduced_answers_do_not_depend_on_batches() -> None:
    data = drive(600, seed=39, cars=30)
    operator = counted(join(reducer=("by_key", ("plate", 0.5)), match="any"), every=150)
    answers = []
    for size in (20, 130, 600):
        harness = OperatorHarness(operator, {"cars": LIVE})
        harness.keep = 0.6
        harness.push("cars", data)
        answers.append(harness.run(rows=size))
    assert answers[0].num_rows > 20
    assert all(same(answer, answers[0]) for answer in answers)


@pytest.mark.slow
def test_bounds_hold_the_truth() -> None:
    chance = np.random.default_rng(40)
    held, asked = {"n": 0, "exits": 0, "mean": 0}, 0
    given: dict[str, Any] = {"on": (("plate", "plate"),), "match": "any", "period": 10_000, "portions": 1}
    exact = counted(join(**given, within=9_999), every=10_000, keys=())
    operator = counted(join(**given, within=9_999, reducer=("by_key", ("plate", 0.6))), every=10_000, keys=())
    for _ in range(150):
        log = MemoryLog(LIVE)
        count = 2_000
        log.append(
            {
                "plate": [
                    f"{chance.integers(10**9)} {i}" if i % 3 else f"{i % 211}" for i in chance.integers(0, 400, count)
                ],
                "exit": chance.integers(1, 20, count).astype(np.int32),
                "speed": np.zeros(count),
                "ts": pa.array(np.arange(count) * 10).cast(TIME_TYPE),
            }
        )
        ends = [log.offset()._replace(time=20_000, keep=keep) for keep in (0.4, 1.0)]
        part, whole = (
            rows_of(run_batch(each, Inputs({"cars": log}), {"cars": Offset()}, {"cars": end}, 1), "_time")
            for each, end in zip((operator, exact), ends, strict=True)
        )
        truth = {row["_time"]: row for row in whole}
        for row in part:
            for name in held:
                held[name] += row[f"{name}_low"] <= truth[row["_time"]][name] <= row[f"{name}_high"]
            asked += 1
    assert asked >= 150
    for name, times in held.items():
        assert times / asked >= 0.91, f"{name}: {times} of {asked}"
        assert times / asked < 1, f"{name}: bounds that never miss are too wide"


def test_no_bounds_where_few_live_rows_carry_the_sum() -> None:
    """Cars that were left out may be those with nearly all of the sum: no bounds are better than wrong ones."""
    chance = np.random.default_rng(41)
    aggregates = (("n", "count", None), ("s", "sum", "speed"), ("a", "avg", "speed"))
    named: dict[str, Any] = {"aggregates": aggregates, "columns": tuple((name, name) for name, _, _ in aggregates)}
    inner = join(
        on=(("plate", "plate"),), match="any", period=10_000, portions=1, within=9_999,
        reducer=("by_key", ("plate", 0.9)),
    )  # fmt: skip
    operator = counted(inner, every=10_000, keys=(), **named)
    withheld = 0
    for _ in range(20):
        log, count = MemoryLog(LIVE), 4_000
        speed = chance.random(count)
        speed[chance.choice(count, 4, replace=False)] += 1e6
        plates = chance.permutation(np.tile(np.arange(1_000), 4)).astype(str)
        times = pa.array(np.arange(count) * 10).cast(TIME_TYPE)
        log.append({"plate": plates, "exit": np.ones(count, np.int32), "speed": speed, "ts": times})
        end = log.offset()._replace(time=40_000, keep=0.1)
        for row in rows_of(run_batch(operator, Inputs({"cars": log}), {"cars": Offset()}, {"cars": end}, 1), "_time"):
            mine = (np.arange(count) * 10 < row["_time"]) & (np.arange(count) * 10 >= row["_time"] - 10_000)
            if speed[mine].max() < 1e6 or row["s"] > 1e6:  # none is there, or was read
                assert row["s_low"] < row["s"] < row["s_high"]
            else:
                assert row["s_low"] is row["a_low"] is None
                withheld += 1
            assert row["n_low"] is not None
    assert withheld >= 20


def test_what_nothing_can_be_said_about_is_refused() -> None:
    inputs = Inputs({"cars": MemoryLog(LIVE)})
    reduced = join(reducer=("by_key", ("plate", 0.5)))
    more: dict[str, Any] = {"aggregates": (("m", "stddev", "exit"),), "columns": (("m", "m"),), "keys": ()}
    with pytest.raises(QueryError, match="NOT_ON_REDUCED_DATA nothing can be said about stddev"):
        counted(reduced, **more).schema(inputs)
    assert counted(join(), **more).schema(inputs).names == ["m", "_time"]
    with pytest.raises(QueryError, match="NOT_ON_REDUCED_DATA uniform drops rows of history at random"):
        counted(join(reducer=("uniform", (0.5,)))).schema(inputs)


def test_pairs_of_batches_read_history_once() -> None:
    """Whole periods move the slices on as single rows do."""
    data = drive(900, seed=41)
    operator = counted(join(match="any"), every=30)
    log = MemoryLog(LIVE)
    log.append(data)
    inputs = Inputs({"cars": log})
    offsets = [Offset(), *(log.offset(row) for row in range(10, 901, 10))]
    for start, end in itertools.pairwise(offsets):
        run_batch(operator, inputs, {"cars": start}, {"cars": end}, 1)
    assert inputs.work.rows_read <= 900 * (1 + 3 + 1)
