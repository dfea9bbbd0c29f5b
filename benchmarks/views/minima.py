"""What it costs that the minimum of a group goes: rows that are read, and time, by how large the group is."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from anabranch.operators.tree.arrangement import Arrangement, Found
from anabranch.operators.tree.changes import Changes
from anabranch.operators.tree.nodes import Aggregate, Call
from anabranch.operators.tree.steps import step_of
from benchmarks.harness import check, median

SCHEMA = pa.schema([("k", pa.int64()), ("x", pa.int64())])


@dataclass(frozen=True)
class Cost:
    """Of one minimum that goes."""

    seconds: float
    rows_read: float


class _Counting:
    """Counts the rows that are looked at where the edge of a key is looked for."""

    def __init__(self) -> None:
        self.read = 0
        self._was = Arrangement._edge

    def __enter__(self) -> _Counting:
        was = self._was

        def counted(arrangement: Arrangement, *arguments: Any) -> tuple[Found, int]:
            found, read = was(arrangement, *arguments)
            self.read += read
            return found, read

        Arrangement._edge = counted  # type: ignore[method-assign, assignment]
        return self

    def __exit__(self, *problem: object) -> None:
        Arrangement._edge = self._was  # type: ignore[method-assign]


def cost_of_a_minimum(rows: int, size: int, rounds: int = 50) -> Cost:
    """In groups of one size, one minimum after the other goes, each from another group or from the one there is."""
    draw = np.random.default_rng(3)
    groups = rows // size
    values = draw.permutation(rows)
    table = pa.Table.from_arrays([pa.array(np.arange(rows) % groups), pa.array(values)], schema=SCHEMA)
    step = step_of(Aggregate(0, ("k",), (Call("f", "min", ("x",)),)), [SCHEMA], [False])
    step.take([Changes.of(table)], 0)
    of_group = [np.sort(values[group::groups]) for group in range(min(groups, rounds))]
    seconds, read = [], []
    for number in range(rounds):
        group = number % len(of_group)
        gone = of_group[group][number // len(of_group)]
        change = Changes.of(pa.Table.from_arrays([pa.array([group]), pa.array([gone])], schema=SCHEMA), -1)
        with _Counting() as counting:
            began = time.perf_counter()
            answered = step.take([change], 0)
            seconds.append(time.perf_counter() - began)
        read.append(counting.read)
        wanted = {(group, int(gone)): -1, (group, int(of_group[group][number // len(of_group) + 1])): 1}
        columns = (column.to_pylist() for column in answered.rows.columns)
        check(
            dict(zip(zip(*columns, strict=True), answered.weights.tolist(), strict=True)) == wanted, "the next minimum"
        )
    return Cost(median(seconds), float(np.mean(read)))
