"""Whether large changes are better computed anew: `python -m benchmarks.views.anew`.

Each step of a tree takes a change beside 400 k kept rows, by what changes and anew: a new step takes all rows there
are then, and its answer is compared with the one before, which is taken as kept for nothing. On one core, in processor
time, the best of three; both ways must come to the same.
"""

from __future__ import annotations

import os

os.environ.setdefault("NUMBA_NUM_THREADS", "1")

import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from anabranch.operators.tree.changes import Changes, together
from anabranch.operators.tree.nodes import Aggregate, Call, Join, Node, Ranked, Top
from anabranch.operators.tree.steps import step_of
from anabranch.operators.tree.steps.base import Step
from benchmarks.harness import check, say

ROWS, GROUPS, ROUNDS = 400_000, 20_000, 3
LEFT = pa.schema([("k", pa.int64()), ("g", pa.int64()), ("x", pa.int64()), ("s", pa.string())])
RIGHT = pa.schema([("i", pa.int64()), ("price", pa.float64())])
BY_X = (("x", False, True),)
_TEXTS = pa.array([f"text {number}" for number in range(1000)])
NODES: dict[str, Node] = {
    "DISTINCT": Aggregate(0, ("g", "s")),
    "sum by group": Aggregate(0, ("g",), (Call("f", "sum", ("x",)),)),
    "min by group": Aggregate(0, ("g",), (Call("f", "min", ("x",)),)),
    "inner join": Join(0, 1, "inner", (("k", "i"),)),
    "left join": Join(0, 1, "left", (("k", "i"),)),
    "NOT EXISTS": Join(0, 1, "anti", (("k", "i"),)),
    "first 5 of each group": Top(0, ("g",), BY_X, 5),
    "first 100": Top(0, (), BY_X, 100),
    "rank in each group": Ranked(0, ("g",), BY_X, (Call("r", "row_number"),)),
}
CHANGES = {
    "a tenth comes": (0.0, 0.1),
    "half is replaced": (0.5, 0.5),
    "all is replaced": (1.0, 1.0),
    "nine tenths go": (0.9, 0.0),
}
"""What part of the rows goes, and how much comes."""


class Measured(NamedTuple):
    """One way to take a change."""

    seconds: float
    answer: Changes


def rows(draw: np.random.Generator, count: int) -> pa.Table:
    columns = [draw.integers(0, ROWS, count), draw.integers(0, GROUPS, count), draw.integers(0, 10**9, count)]
    texts = _TEXTS.take(pa.array(draw.integers(0, len(_TEXTS), count)))
    return pa.Table.from_arrays([*map(pa.array, columns), texts], schema=LEFT)


def loaded(node: Node) -> Step:
    """A step that knows the other side of a join, if it is one."""
    if len(node.reads) == 1:
        return step_of(node, [LEFT], [False])
    step = step_of(node, [LEFT, RIGHT], [False, False])
    items = np.arange(0, ROWS, 2)
    other = pa.Table.from_arrays([pa.array(items), pa.array(items / 7)], schema=RIGHT)
    step.take([Changes.none(LEFT), Changes.of(other)], 0)
    return step


def taken(node: Node, step: Step, change: Changes) -> Changes:
    return step.take([change, *[Changes.none(RIGHT)] * (len(node.reads) - 1)], 0)


def timed(work: Callable[[], Changes]) -> Measured:
    began = time.process_time()
    answer = work()
    return Measured(time.process_time() - began, answer)


def both(node: Node, goes: float, comes: float, seed: int) -> tuple[Measured, Measured]:
    """A change by what changes, and anew."""
    draw = np.random.default_rng(seed)
    there, came = rows(draw, ROWS), rows(draw, int(comes * ROWS))
    gone = np.zeros(ROWS, np.bool_)
    gone[draw.choice(ROWS, int(goes * ROWS), replace=False)] = True
    step, fresh = loaded(node), loaded(node)
    before = taken(node, step, Changes.of(there)).consolidated()
    change = together([Changes.of(came), Changes.of(there.filter(pa.array(gone)), -1)], LEFT)
    after = Changes.of(pa.concat_tables([there.filter(pa.array(~gone)), came]))
    kept = timed(lambda: taken(node, step, change).consolidated())
    anew = timed(lambda: together([taken(node, fresh, after), before.negated()], step.schema).consolidated())
    check(_rows(kept.answer) == _rows(anew.answer), "both ways come to the same")
    return kept, anew


def _rows(changes: Changes) -> dict[tuple[object, ...], int]:
    columns = [column.to_pylist() for column in changes.rows.columns]
    return dict(zip(zip(*columns, strict=True), changes.weights.tolist(), strict=True))


def main() -> None:
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    for name, node in NODES.items():
        both(node, 0.5, 0.1, 0)  # machine code is made
        for what, (goes, comes) in CHANGES.items():
            pairs = [both(node, goes, comes, seed) for seed in range(ROUNDS)]
            kept, anew = (min(pair[way].seconds for pair in pairs) for way in (0, 1))
            say(f"{name:22} {what:18} by what changes {kept:6.2f} s, anew {anew:6.2f} s: {kept / anew:4.1f}")


if __name__ == "__main__":
    main()
