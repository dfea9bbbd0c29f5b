"""Bytewax: it has no interval join, so this is one as its users would write it, a list of rows per key and side.

A row leaves once the other side of its key is past its window. There is one worker: more would share Python's lock.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from importlib import metadata
from typing import Any

import bytewax.operators as op  # type: ignore[import-not-found, unused-ignore]
from bytewax.dataflow import Dataflow  # type: ignore[import-not-found, unused-ignore]
from bytewax.inputs import DynamicSource, StatelessSourcePartition  # type: ignore[import-not-found, unused-ignore]
from bytewax.testing import TestingSink, run_main  # type: ignore[import-not-found, unused-ignore]
from pyarrow import parquet

from benchmarks.peers.job import PRIME, Job, Said, answer_to

BATCH = 10_000
Row = tuple[str, tuple[int, int, int]]
Sides = tuple[deque[tuple[int, int]], deque[tuple[int, int]]]


class Rows(StatelessSourcePartition):  # type: ignore[misc, unused-ignore]
    """Batches of (key, (side, time, value))."""

    def __init__(self, file: str, side: int) -> None:
        self._batches = self._read(file, side)

    @staticmethod
    def _read(file: str, side: int) -> Iterator[list[Row]]:
        for batch in parquet.ParquetFile(file).iter_batches(BATCH):
            k, v, t = (batch.column(name).cast("int64").to_pylist() for name in ("k", "v", "ts"))
            yield [(str(key), (side, time // 1000, value)) for key, value, time in zip(k, v, t, strict=True)]

    def next_batch(self) -> list[Row]:
        return next(self._batches)


class File(DynamicSource):  # type: ignore[misc, unused-ignore]
    """The rows of one stream."""

    def __init__(self, file: str, side: int) -> None:
        self._file, self._side = file, side

    def build(self, step_id: str, worker_index: int, worker_count: int) -> Rows:
        return Rows(self._file, self._side)


def work(job: Job) -> Said:
    if job.width is not None:
        raise SystemExit("only joins on equal keys are written for Bytewax")
    window = job.window_ms

    def join(sides: Sides | None, row: tuple[int, int, int]) -> tuple[Sides, list[tuple[int, int]]]:
        sides = sides or (deque(), deque())
        side, at, value = row
        others = sides[1 - side]
        while others and others[0][0] < at - window:
            others.popleft()
        sides[side].append((at, value))
        found = [other for then, other in others if then <= at + window]
        return sides, [(value, other) if side == 0 else (other, value) for other in found]

    answer: list[tuple[str, Any]] = []
    flow = Dataflow("join")
    a, b = (op.input(name, flow, File(job.file(f"{name}.parquet"), side)) for side, name in enumerate("ab"))
    joined = op.stateful_flat_map("join", op.merge("both", a, b), join)
    op.output("answer", joined, TestingSink(answer))
    began = time.perf_counter()
    run_main(flow)
    seconds = time.perf_counter() - began
    checksum = sum(v * w % PRIME for _, (v, w) in answer)
    measured = "reading Parquet, joining, a list in memory; one worker"
    return Said([seconds], job.rows, len(answer), checksum, measured, metadata.version("bytewax"))


if __name__ == "__main__":
    answer_to(work)
