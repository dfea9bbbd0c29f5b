"""How many changes a second the steps of a tree take, on one core: `python -m benchmarks.views.steps`.

Time is processor time of the whole process, so that what other cores do would count, too. Answers are checked against
sums and joins of all rows at once.
"""

from __future__ import annotations

import os

os.environ.setdefault("NUMBA_NUM_THREADS", "1")

import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from anabranch.operators.tree.changes import Changes
from anabranch.operators.tree.nodes import Aggregate, Call, Join, Node
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
    """Processor time of each round."""

    name: str
    seconds: list[float]
    changes: int
    """In each round."""

    def __str__(self) -> str:
        all_, worst = (self.changes / each for each in (sum(self.seconds) / ROUNDS, max(self.seconds)))
        return f"{self.name:56} {all_:12,.0f} changes/s (in the slowest round {worst:,.0f})"


def sales(draw: np.random.Generator, count: int, keys: int) -> pa.Table:
    columns = [draw.integers(0, keys, count), draw.integers(-1000, 1000, count), draw.normal(0, 100, count)]
    return pa.Table.from_arrays([pa.array(column) for column in columns], schema=SALES)


def with_deletes(draw: np.random.Generator) -> Iterator[Changes]:
    """Micro-batches of which a third are rows that came before and go."""
    there = sales(draw, 3 * BATCH, GROUPS)
    yield Changes.of(there)
    while True:
        gone = np.zeros(there.num_rows, np.bool_)
        gone[draw.choice(there.num_rows, BATCH // 3, replace=False)] = True
        came = sales(draw, BATCH - BATCH // 3, GROUPS)
        rows = pa.concat_tables([came, there.filter(pa.array(gone))]).combine_chunks()
        weights = np.ones(BATCH, np.int64)
        weights[came.num_rows :] = -1
        there = pa.concat_tables([there.filter(pa.array(~gone)), came]).combine_chunks()
        order = draw.permutation(BATCH)
        yield Changes(rows, weights).take(order)


def timed(name: str, step: Step, first: list[Changes], batches: Iterator[list[Changes]]) -> tuple[Run, int]:
    """Time rounds after some changes; the number of rows in the answer's changes."""
    answered = len(step.take(first, 0))
    seconds = []
    for _ in range(ROUNDS):
        inputs = next(batches)
        began = time.process_time()
        change = step.take(inputs, 0)
        seconds.append(time.process_time() - began)
        answered += len(change)
    return Run(name, seconds, BATCH), answered


def grouped(name: str, calls: tuple[Call, ...]) -> Run:
    batches = with_deletes(np.random.default_rng(7))
    step = step_of(Aggregate(0, ("k",), calls), [SALES], [False])
    run, _ = timed(name, step, [next(batches)], ([batch] for batch in batches))
    return run


def joined() -> Run:
    draw = np.random.default_rng(8)
    items = pa.Table.from_arrays([pa.array(np.arange(KEPT)), pa.array(draw.normal(0, 1, KEPT))], schema=ITEMS)
    node: Node = Join(0, 1, "inner", (("k", "i"),))
    step = step_of(node, [SALES, ITEMS], [True, False])
    none = Changes.none(ITEMS)
    batches = ([Changes.of(sales(draw, BATCH, KEPT)), none] for _ in range(ROUNDS))
    run, answered = timed(
        "inner join of changes into 1 M kept rows", step, [Changes.none(SALES), Changes.of(items)], batches
    )
    check(answered == ROUNDS * BATCH, "each row meets one item")
    return run


def main() -> None:
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    say(f"batches of {BATCH:,} changes, {ROUNDS} of them")
    runs = [
        joined(),
        grouped("grouped sum of BIGINT, a third deletes, 100 k groups", (Call("s", "sum", ("x",)),)),
        grouped("grouped sum of DOUBLE, a third deletes, 100 k groups", (Call("s", "sum", ("d",)),)),
        grouped("grouped min of BIGINT, a third deletes, 100 k groups", (Call("s", "min", ("x",)),)),
    ]
    for run in runs:
        print(run)


if __name__ == "__main__":
    main()
