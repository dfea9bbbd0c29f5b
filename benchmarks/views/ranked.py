"""How many changes a second window functions and the first of an order take: `python -m benchmarks.views.ranked`.

On one core, in processor time; half of the changes are deletes of rows that are there. Answers are checked against all
rows.
"""

from __future__ import annotations

import os

os.environ.setdefault("NUMBA_NUM_THREADS", "1")

import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.operators.tree.changes import Changes, together
from anabranch.operators.tree.nodes import Call, Node, Ranked, Top
from anabranch.operators.tree.steps import step_of
from benchmarks.harness import check, say

ROWS, PARTS, BATCH, ROUNDS = 1_000_000, 100_000, 100_000, 20
SCHEMA = pa.schema([("g", pa.int64()), ("x", pa.int64()), ("s", pa.string())])
_TEXTS = pa.array([f"text {number}" for number in range(1000)])


@dataclass
class Rows:
    """Rows that come and go."""

    draw: np.random.Generator
    parts: int
    there: pa.Table = field(init=False)

    def __post_init__(self) -> None:
        self.there = self._some(ROWS)

    def _some(self, count: int) -> pa.Table:
        draw = self.draw
        texts = _TEXTS.take(pa.array(draw.integers(0, len(_TEXTS), count)))
        columns = [pa.array(draw.integers(0, self.parts, count)), pa.array(draw.integers(0, 10**9, count)), texts]
        return pa.Table.from_arrays(columns, schema=SCHEMA)

    def batches(self, size: int, gone_first: bool) -> Iterator[Changes]:
        """As many come as go: any rows, or of all those with the lowest x."""
        while True:
            half = size // 2
            gone = np.zeros(len(self.there), np.bool_)
            if gone_first:
                gone[np.argpartition(self.there.column("x").to_numpy(), half)[:half]] = True
            else:
                gone[self.draw.choice(len(gone), half, replace=False)] = True
            came = self._some(size - half)
            change = together([Changes.of(came), Changes.of(self.there.filter(pa.array(gone)), -1)], SCHEMA)
            self.there = pa.concat_tables([self.there.filter(pa.array(~gone)), came]).combine_chunks()
            yield change.take(self.draw.permutation(size))


def timed(name: str, node: Node, parts: int, size: int = BATCH, gone_first: bool = False) -> None:
    rows = Rows(np.random.default_rng(11), parts)
    step = step_of(node, [SCHEMA], [False])
    answers = [step.take([Changes.of(rows.there)], 0)]
    batches = rows.batches(size, gone_first)
    seconds = []
    for _ in range(ROUNDS):
        change = next(batches)
        began = time.process_time()
        answers.append(step.take([change], 0))
        seconds.append(time.process_time() - began)
    answer = together(answers, step.schema).consolidated()
    check(bool((answer.weights > 0).all()), "only rows that are there are answered")
    if isinstance(node, Top):
        check(_first_are_right(answer.rows, rows.there, node), "the first of each part are answered")
    else:
        check(int(answer.weights.sum()) == ROWS, "each row is answered")
        check(_numbers_are_right(answer.rows), "each row has the number it has among all of its part")
    all_, worst = size * ROUNDS / sum(seconds), size / max(seconds)
    print(f"{name:64} {all_:12,.0f} changes/s (in the slowest round {worst:,.0f})")


def _in_parts(rows: pa.Table, parted: bool) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Part, x and number of each row, in order."""
    part, x = rows.column("g").to_numpy() * parted, rows.column("x").to_numpy()
    order = np.lexsort((x, part))
    begins = np.flatnonzero(np.diff(part[order], prepend=-1))
    numbers = np.arange(len(order)) - np.repeat(begins, np.diff(begins, append=len(order))) + 1
    return part[order], x[order], numbers


def _first_are_right(answer: pa.Table, rows: pa.Table, node: Top) -> bool:
    part, x, number = _in_parts(rows, bool(node.partition))
    asked = number <= (node.limit or 0)
    answered = _in_parts(answer, bool(node.partition))
    return np.array_equal(answered[0], part[asked]) and np.array_equal(answered[1], x[asked])


def _numbers_are_right(answer: pa.Table) -> bool:
    by_number = answer.take(pa.array(np.argsort(answer.column("it").to_numpy(), kind="stable")))
    *_, number = _in_parts(by_number, True)
    order = np.lexsort((by_number.column("x").to_numpy(), by_number.column("g").to_numpy()))
    return bool((by_number.column("it").to_numpy()[order] == number).all())


def main() -> None:
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    say(f"{ROWS:,} rows, {ROUNDS} rounds, half of the changes deletes")
    by_x = (("x", False, True),)
    number = (Call("it", "row_number"),)
    timed("row_number, 100 k parts, batches of 100 k", Ranked(0, ("g",), by_x, number), PARTS)
    timed("row_number, 100 k parts, batches of 1 k", Ranked(0, ("g",), by_x, number), PARTS, 1000)
    timed("first 10 of all, any rows go, batches of 100 k", Top(0, (), by_x, 10), PARTS)
    timed("first 10 of all, any rows go, batches of 1 k", Top(0, (), by_x, 10), PARTS, 1000)
    timed("first 10 of all, the first go, batches of 1 k", Top(0, (), by_x, 10), PARTS, 1000, True)
    timed("first 10 of all, the first go, batches of 10", Top(0, (), by_x, 10), PARTS, 10, True)
    timed("first 3 of 100 k parts, any rows go, batches of 100 k", Top(0, ("g",), by_x, 3), PARTS)


if __name__ == "__main__":
    main()
