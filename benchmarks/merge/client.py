"""The third process: fetches two streams from data servers and merges them, each alone and both at once.

`python -m benchmarks.merge.client JOB` with a job as JSON prints what it took as JSON. The merge is the operator's own
(`operators.merge.step`), a block of each stream at a time; what comes next is fetched meanwhile (`dataspace.prefetch`).
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from anabranch.dataspace.client import DataSpaceClient
from anabranch.dataspace.prefetch import prefetch
from anabranch.kernels.merge import NEVER, Known
from anabranch.operators.merge.completeness import KeySample
from anabranch.operators.merge.operator import Merge
from anabranch.operators.merge.program import joined, program_of
from anabranch.operators.merge.records import Records
from anabranch.operators.merge.step import MergeGroups, WaitingRecords, run_step
from benchmarks.merge.data import TOLERANCE
from benchmarks.window_join.data import answer_of

PATIENCE = 120.0
"""Seconds a server may be silent."""
AHEAD = 16 << 20
"""Bytes fetched ahead of each stream: twice what is on the way on a long line, and little enough to stay in caches."""


@dataclass(frozen=True)
class Asked:
    """A data set of both servers, and how its records are merged."""

    dataset: str
    window: int
    step: int


@dataclass(frozen=True)
class ClientJob:
    """What is measured: each data set so many times; `alone`: fetching and merging for themselves, too."""

    urls: list[str]
    sets: list[Asked]
    rounds: int
    alone: bool = True


@dataclass
class Took:
    """Seconds of each round, and the answer."""

    fetch: list[float] = field(default_factory=list)
    merge: list[float] = field(default_factory=list)
    total: list[float] = field(default_factory=list)
    megabytes: float = 0
    rows: int = 0
    checksum: int = 0


class Merging:
    """Two streams merged in lockstep, a block of each at a time."""

    def __init__(self, schema: pa.Schema, window: int, step: int) -> None:
        keys = ((("`a.k`", "`b.k`", TOLERANCE),),)
        sources, columns = (("a", "a"), ("b", "b")), (("_time", "_time"),)
        merge = Merge(sources, keys, ((),), ("inner",), (), columns, "_time", window=window, step=step, every=None)
        (self._rules,) = merge._rules(program_of(merge, (schema, schema)))
        self._schemas = [pa.schema([(f"{alias}.{f.name}", f.type) for f in schema]) for alias in "ab"]
        self._read = [0, 0]
        none = [self._records(i, None) for i in (0, 1)]
        self._waiting = WaitingRecords(none[0], none[1], MergeGroups.none(self._rules), KeySample.empty(1))

    def _records(self, side: int, block: pa.RecordBatch | None) -> Records:
        schema = self._schemas[side]
        table = schema.empty_table() if block is None else pa.table(block.columns, schema=schema)
        first = self._read[side]
        self._read[side] += table.num_rows
        return Records.new(table, np.arange(first, self._read[side]), first)

    def take(self, left: pa.RecordBatch | None, right: pa.RecordBatch | None) -> pa.Table:
        """The records that merge now; None: there are no more of that stream."""
        new = self._records(0, left), self._records(1, right)
        known = NEVER if left is None and right is None else min(self._read)
        merged, self._waiting = run_step(self._rules, self._waiting, *new, Known.until(known), sampled=False)
        return joined(merged, merged.answers)


def merge_all(streams: Iterable[Iterable[pa.RecordBatch]], schema: pa.Schema, asked: Asked) -> list[pa.Table]:
    """All merged records; of each piece only the numbers are kept, as if somebody had used the rest."""
    merging = Merging(schema, asked.window, asked.step)
    sides: list[Iterator[pa.RecordBatch]] = [iter(stream) for stream in streams]
    found = []
    while True:
        blocks = [next(side, None) for side in sides]
        found.append(merging.take(*blocks).select(["a.id", "b.id"]))
        if blocks == [None, None]:
            return found


def measure(clients: list[DataSpaceClient], asked: Asked, took: Took, *, alone: bool) -> None:
    """One round."""
    schema = clients[0].schema(asked.dataset)
    if alone:
        took.megabytes = 0
        began = time.perf_counter()
        for fetched in _side_by_side(clients, lambda client: sum(b.nbytes for b in client.read(asked.dataset))):
            took.megabytes += fetched / 1e6
        took.fetch.append(time.perf_counter() - began)
        blocks = _side_by_side(clients, lambda client: list(client.read(asked.dataset)))
        began = time.perf_counter()
        merge_all(blocks, schema, asked)
        took.merge.append(time.perf_counter() - began)
        del blocks
    began = time.perf_counter()
    fetching = [prefetch(client.read(asked.dataset), AHEAD) for client in clients]
    tables = merge_all(fetching, schema, asked)
    took.total.append(time.perf_counter() - began)
    answer = pa.concat_tables(tables)
    took.rows, took.checksum = answer_of([answer.column("a.id"), answer.column("b.id")])


def _side_by_side(clients: list[DataSpaceClient], work: Any) -> list[Any]:
    """The same work with each client at once."""
    found: list[Any] = [None] * len(clients)

    def do(number: int) -> None:
        found[number] = work(clients[number])

    threads = [threading.Thread(target=do, args=(number,)) for number in range(len(clients))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if any(each is None for each in found):
        raise SystemExit("a data server could not be read")
    return found


def work(job: ClientJob) -> list[Took]:
    clients = [DataSpaceClient(url, patience=PATIENCE) for url in job.urls]
    found = []
    for asked in job.sets:
        took = Took()
        for _ in range(job.rounds + 1):
            measure(clients, asked, took, alone=job.alone)
        # The first round loads machine code and opens connections.
        took.fetch, took.merge, took.total = took.fetch[1:], took.merge[1:], took.total[1:]
        found.append(took)
    return found


def main() -> int:
    sys.setswitchinterval(0.0005)  # threads that fetch wait less long for the one that merges
    given = json.loads(sys.argv[1])
    job = ClientJob(**{**given, "sets": [Asked(**each) for each in given["sets"]]})
    print(json.dumps([asdict(took) for took in work(job)]), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
