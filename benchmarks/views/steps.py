"""How many changes a second the steps of a tree take, on one core: `python -m benchmarks.views.steps`.

Each round is timed by the clock and by the processor time of the whole process, so that other cores would show; the
slower one counts. Answers are checked against sums and joins of all rows at once.
"""

from __future__ import annotations

import json
import os

os.environ.setdefault("NUMBA_NUM_THREADS", "1")

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from anabranch.operators.tree.changes import Changes, together
from anabranch.operators.tree.nodes import Aggregate, Call, Join
from anabranch.operators.tree.steps import step_of
from anabranch.operators.tree.steps.base import Step
from benchmarks.harness import check, say

BATCH = 100_000
GROUPS = 100_000
KEPT = 1_000_000
ROUNDS = 20

SALES = pa.schema([("k", pa.int64()), ("x", pa.int64()), ("d", pa.float64())])
ITEMS = pa.schema([("i", pa.int64()), ("price", pa.float64())])


@dataclass(frozen=True)
class Run:
    """Seconds of each round."""

    name: str
    seconds: list[float]

    def __str__(self) -> str:
        all_, worst = (BATCH / each for each in (sum(self.seconds) / len(self.seconds), max(self.seconds)))
        return f"{self.name:56} {all_:12,.0f} changes/s (in the slowest round {worst:,.0f})"


def sales(draw: np.random.Generator, count: int, keys: int) -> pa.Table:
    columns = [draw.integers(0, keys, count), draw.integers(-1000, 1000, count), draw.normal(0, 100, count)]
    return pa.Table.from_arrays([pa.array(column) for column in columns], schema=SALES)


class Sales:
    """Micro-batches of which a third are rows that came before and go, and what is there after them."""

    def __init__(self) -> None:
        self._draw = np.random.default_rng(7)
        self.there = sales(self._draw, 3 * BATCH, GROUPS)

    def batch(self) -> Changes:
        there, draw = self.there, self._draw
        gone = np.zeros(there.num_rows, np.bool_)
        gone[draw.choice(there.num_rows, BATCH // 3, replace=False)] = True
        came = sales(draw, BATCH - BATCH // 3, GROUPS)
        rows = pa.concat_tables([came, there.filter(pa.array(gone))]).combine_chunks()
        weights = np.ones(BATCH, np.int64)
        weights[came.num_rows :] = -1
        self.there = pa.concat_tables([there.filter(pa.array(~gone)), came]).combine_chunks()
        return Changes(rows, weights).take(draw.permutation(BATCH))


def timed(step: Step, batch: Callable[[], list[Changes]], rounds: int) -> tuple[list[float], list[Changes]]:
    """The seconds of each round, and what was answered."""
    seconds, answered = [], []
    for _ in range(rounds):
        inputs = batch()
        began, began_on_processor = time.perf_counter(), time.process_time()
        change = step.take(inputs, 0)
        answered.append(change.with_rows(change.rows))  # all columns are taken
        seconds.append(max(time.perf_counter() - began, time.process_time() - began_on_processor))
    return seconds, answered


def grouped(name: str, function: str, column: str, rounds: int = ROUNDS) -> Run:
    source = Sales()
    step = step_of(Aggregate(0, ("k",), (Call("f", function, (column,)),)), [SALES], [False])
    first = step.take([Changes.of(source.there)], 0)
    seconds, answered = timed(step, lambda: [source.batch()], rounds)
    found = together([first, *answered], step.schema).consolidated()
    wanted = source.there.group_by("k").aggregate([(column, function)])
    wanted = wanted.select(["k", f"{column}_{function}"]).sort_by("k")
    check(bool((found.weights == 1).all()), "each group is there once")
    said = found.rows.sort_by("k")
    check(said.column(0).equals(wanted.column(0)), "the groups are those of the rows that are there")
    check(np.allclose(said.column(1).to_numpy(), wanted.column(1).to_numpy(), rtol=1e-12, atol=1e-9), name)
    return Run(name, seconds)


def joined(name: str, rounds: int = ROUNDS) -> Run:
    draw = np.random.default_rng(8)
    items = pa.Table.from_arrays([pa.array(np.arange(KEPT)), pa.array(draw.normal(0, 1, KEPT))], schema=ITEMS)
    step = step_of(Join(0, 1, "inner", (("k", "i"),)), [SALES, ITEMS], [True, False])
    none = Changes.none(ITEMS)
    step.take([Changes.none(SALES), Changes.of(items)], 0)
    seconds, answered = timed(step, lambda: [Changes.of(sales(draw, BATCH, KEPT)), none], rounds)
    for change in answered:
        prices = items.column("price").take(change.rows.column("k"))
        check(len(change) == BATCH and change.rows.column("price").equals(prices), "each row meets its item")
    return Run(name, seconds)


def main() -> None:
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    say("machine code is made")
    joined("", 1)
    for function, column in (("sum", "x"), ("sum", "d"), ("min", "x")):
        grouped("", function, column, 1)
    say(f"batches of {BATCH:,} changes, {ROUNDS} of them")
    runs = {
        "join": joined("inner join of changes into 1 M kept rows"),
        "sum": grouped("sum of BIGINT in 100 k groups, a third deletes", "sum", "x"),
        "sum_of_doubles": grouped("sum of DOUBLE in 100 k groups, a third deletes", "sum", "d"),
        "min": grouped("min of BIGINT in 100 k groups, a third deletes", "min", "x"),
    }
    for run in runs.values():
        say(str(run))
    print(json.dumps({name: BATCH * len(run.seconds) / sum(run.seconds) for name, run in runs.items()}))


if __name__ == "__main__":
    main()
