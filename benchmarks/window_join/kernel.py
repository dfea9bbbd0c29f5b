"""The join on one core, without Spark: the operator over a log on disk, and its kernel over arrays.

The kernel is what finds the pairs: the rows each probe may meet (`kernels.bounds`) and the chains of equal keys
(`kernels.chains`). The operator also reads the log, puts results in order and makes their columns. Time is processor
time, all threads together, so that it is that of one core however many take part.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from anabranch.database import Database
from anabranch.kernels.bounds import first_at_least
from anabranch.kernels.chains import ChainEntries, Probes
from anabranch.kernels.values import frozen, integers
from anabranch.operators.base import Inputs, Offset
from anabranch.sql.reading.parser import parse
from anabranch.sql.standing.plan import plan_standing
from anabranch.sql.statements import SelectOnce
from anabranch.windows.index.chains import ChainIndex
from benchmarks.harness import check, median
from benchmarks.window_join.data import Answer, Ints, answer_of

MEMORY = 1 << 30
ROOM = 1 << 17
"""Pairs that are found at once."""
PROBES = 1 << 17
"""Probes that are taken at once, as the operator does."""


def operator_rows_per_second(db: Database, sql: str, names: Sequence[str], expected: Answer, rounds: int) -> float:
    """The operator of a query, in one task, from the log on disk to Arrow batches in memory."""
    (statement,) = parse(sql)
    assert isinstance(statement, SelectOnce)
    operator = plan_standing(statement.select, db.catalog.schema).operator
    speeds = []
    for number in range(rounds + 1):
        readers = {name: db.reader(name) for name in names}
        ends = {name: Offset.at(reader.end()) for name, reader in readers.items()}
        inputs = Inputs(readers, None)
        began = time.process_time()
        (task,) = operator.plan({name: Offset() for name in names}, ends, inputs, 1)
        answer = pa.Table.from_batches(operator.run(task, inputs))
        seconds = time.process_time() - began
        got = answer_of([answer.column(name) for name in answer.column_names if name[0] in "vw"])
        check(got == expected, f"the operator answered {got}, not {expected}")
        if number:  # the first round compiles
            speeds.append(sum(end.row for end in ends.values()) / seconds)
    return median(speeds)


def kernel_rows_per_second(tables: Sequence[pa.Table], window: int, expected: Answer, rounds: int) -> float:
    """Pairs of equal keys within `window` milliseconds, from arrays to arrays."""
    (keys, times, values), (other_keys, other_times, other_values) = (
        [frozen(np.ascontiguousarray(integers(table.column(name)))) for name in ("k", "ts", "v")] for table in tables
    )
    speeds = []
    for number in range(rounds + 1):
        began = time.process_time()
        found = _pairs(keys, times, other_keys, other_times, window * 1000)
        seconds = time.process_time() - began
        probes, rows = (np.concatenate([pair[i] for pair in found]) for i in (0, 1))
        got = answer_of([values[probes], other_values[rows]])
        check(got == expected, f"the kernel answered {got}, not {expected}")
        if number:
            speeds.append((len(keys) + len(other_keys)) / seconds)
    return median(speeds)


def _pairs(keys: Ints, times: Ints, other_keys: Ints, other_times: Ints, window: int) -> list[tuple[Ints, Ints]]:
    """Places of rows in both arrays, in pieces."""
    index = ChainIndex(0, MEMORY)
    numbers = frozen(np.arange(len(other_keys)))
    out_probes, out_rows = np.empty(ROOM, np.int64), np.empty(ROOM, np.int64)
    found = []
    for first in range(0, len(keys), PROBES):
        at = times[first : first + PROBES]
        low, high = np.empty(len(at), np.int64), np.empty(len(at), np.int64)
        first_at_least(other_times, at, -window, low)
        first_at_least(other_times, at, window + 1, high)
        probes = Probes.by_key(keys[first : first + PROBES], frozen(low), frozen(high))
        fresh = slice(index.next_row, max(int(high[-1]), index.next_row))
        entries = ChainEntries.by_key(other_keys[fresh], numbers[fresh])
        index.begin()
        while not index.done(len(at)):
            many = index.join(entries, probes, out_probes, out_rows)
            found.append((out_probes[:many] + first, out_rows[:many].copy()))
        index.enter_rest(entries, fresh.stop)
    return found
