"""The merge alone: from two Parquet files to merged records, sorting and all, and its kernel over arrays.

On one core everything runs in one thread, and time is processor time. Against other engines time is by the clock, in
one thread or in two, whichever is faster: with two, columns that are not keys are read while keys are merged.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import parquet

from anabranch.kernels.merge import (
    CONTROLS,
    FIRST,
    NEVER,
    REACHED,
    ROUNDS,
    SIZE,
    STEP,
    Known,
    Side,
    Terms,
    merge_groups,
)
from anabranch.log.offset import MIN_TIME
from benchmarks.harness import Bar, Report, check, median, say
from benchmarks.merge.data import TOLERANCE, Disorder, MergeFeed, keys_of
from benchmarks.merge.paper import SHARES
from benchmarks.peers.environments import Peers
from benchmarks.peers.job import Job
from benchmarks.peers.programs import Missing
from benchmarks.window_join.data import Answer, Ints, answer_of

STORED = {"compression": "none", "use_dictionary": False}
"""Doubles of which no two are equal: neither helps. With pyarrow's defaults it is a figure of its own."""
ENGINES: dict[str, float | None] = {"polars": 1.3, "pandas": None, "duckdb": None}
"""What we must be times as fast as, where there is a bar."""
TURNS = 3


@dataclass(frozen=True)
class Merged:
    """Places of records that were merged, and in how many rounds."""

    left: Ints
    right: Ints
    rounds: int


def merge(
    keys: Sequence[NDArray[np.float64]],
    window: int,
    step: int,
    times: Sequence[Ints] | None = None,
    every: int = 0,
    known: int = NEVER,
) -> Merged:
    """Merge two streams; without times, in lockstep as the paper does, each record at the time of its number."""
    sides = []
    for i in (0, 1):
        rows = np.arange(len(keys[i]))
        at = rows if times is None else times[i]
        usable, met = np.ones(len(rows), np.bool_), np.zeros(len(rows), np.bool_)
        # Machine code is made for arrays that may be written to, as those of the operator.
        key = keys[i] if keys[i].flags.writeable else keys[i].copy()
        own = at if at.flags.writeable else at.copy()
        bounds, in_window = np.array([0, len(rows)]), np.zeros(1, np.int64)
        sides.append(Side(bounds, in_window, key.reshape(1, -1), usable, at, own, rows, met))
    control = np.zeros((1, CONTROLS), np.int64)
    control[0, [SIZE, STEP, REACHED]] = window, step, MIN_TIME
    rings = np.zeros((1, 20, 3), np.int64)
    terms = Terms(np.array([TOLERANCE]), FIRST, every, 0, False, False, 0.0, window, 1)
    pairs, *_ = merge_groups(*sides, terms, Known.until(known), control, rings)
    return Merged(pairs[0], pairs[1], int(control[0, ROUNDS]))


def match_percent(feed: MergeFeed, window: int, step: int) -> float:
    """How many of the records are merged."""
    return 100 * len(merge([keys_of(feed.table(i)) for i in (0, 1)], window, step).left) / feed.rows


def merge_files(files: Sequence[Path], window: int, step: int) -> pa.Table:
    """The records of two Parquet files, merged: all columns of both; in one thread."""
    tables = [_read(file) for file in files]
    merged = merge([keys_of(table) for table in tables], window, step)
    return _side_by_side([_taken(t, at) for t, at in zip(tables, (merged.left, merged.right), strict=True)])


def merge_files_in_threads(files: Sequence[Path], window: int, step: int) -> pa.Table:
    """The same in two threads: keys are read first, and all else while they are merged."""
    with ThreadPoolExecutor(2) as pool:
        keys = list(pool.map(lambda file: _read(file, ["k"]), files))
        rest = pool.submit(lambda: [_read(file, ["v", "id"]) for file in files])
        merged = merge([keys_of(table) for table in keys], window, step)
        tables = [
            k.append_column("v", r["v"]).append_column("id", r["id"]) for k, r in zip(keys, rest.result(), strict=True)
        ]
        return _side_by_side(list(pool.map(_taken, tables, (merged.left, merged.right))))


def _read(file: Path, columns: list[str] | None = None) -> pa.Table:
    """A file without the threads and the pieces that `read_table` would make."""
    return parquet.ParquetFile(file, memory_map=True).read(columns, use_threads=False)


def _side_by_side(tables: list[pa.Table]) -> pa.Table:
    left, right = tables
    return pa.table(
        [*left.columns, *right.columns], names=[*left.column_names, *(f"{n}_b" for n in right.column_names)]
    )


def _taken(table: pa.Table, places: Ints) -> pa.Table:
    """Some of the records, without the threads that `take` would use for the columns."""
    return pa.table([column.take(pa.array(places)) for column in table.columns], names=table.column_names)


Way: TypeAlias = Callable[[Sequence[Path], int, int], pa.Table]
WAYS: tuple[Way, ...] = (merge_files, merge_files_in_threads)


def measure(rows: int, window: int, rounds: int, root: Path, peers: Peers, report: Report) -> None:
    """2 % out of order, against what others have for it."""
    feed = MergeFeed(rows, Disorder.of(SHARES[0], window))
    folder, packed = root / "merge", root / "packed"
    for place, stored in ((folder, STORED), (packed, {})):
        place.mkdir()
        for i, name in enumerate("ab"):
            parquet.write_table(feed.table(i), place / f"{name}.parquet", **stored)
    for way in WAYS:  # loads machine code
        _timed(way, folder, window, feed.all_merged)
    one = [_timed(merge_files, folder, window, feed.all_merged, time.process_time) for _ in range(rounds)]
    report.add("merge_on_one_core", median(one), "records/s", bar=Bar(20e6, "at least"))
    ours = _against(feed, folder, window, rounds, peers, report)
    say(f"merging Parquet: {median(one):,.0f} records/s on one core, {median(ours):,.0f} by the clock")
    report.add("merge_from_parquet", median(ours), "records/s")
    compressed = [max(_timed(way, packed, window, feed.all_merged) for way in WAYS) for _ in range(rounds)]
    report.add("merge_from_packed_parquet", median(compressed), "records/s")
    report.notes["merge_milliseconds_on_one_core"] = _parts(folder, window, rounds)
    _disorder_cost(rows, window, rounds, report)


def _against(feed: MergeFeed, folder: Path, window: int, rounds: int, peers: Peers, report: Report) -> list[float]:
    """Each engine and ours in turns, the fastest of some rounds each; gives ours."""
    notes = report.notes.setdefault("peers", {})
    ours, ratios = [], dict[str, list[float]]()
    for _ in range(TURNS):
        for name in ENGINES:
            said = peers.ask(f"{name}_asof", Job(str(folder), 2 * feed.rows, 0, TOLERANCE, rounds), feed.all_merged)
            ours.append(max(_timed(way, folder, window, feed.all_merged) for way in WAYS for _ in range(rounds)))
            if isinstance(said, Missing):
                notes[name] = f"missing: {said.reason}"
            else:
                notes[name] = f"{said.version}, {said.rows:,} records, {said.measured}"
                ratios.setdefault(name, []).append(ours[-1] * min(said.seconds) / said.rows)
    for name, each in ratios.items():
        limit = ENGINES[name]
        bar = None if limit is None else Bar(limit, "at least")
        report.add(f"merge_against_{name}", median(ours), "records/s", peer=median(ours) / median(each), bar=bar)
    return ours


def _timed(
    way: Way, folder: Path, window: int, expected: Answer, clock: Callable[[], float] = time.perf_counter
) -> float:
    """Records/s, the answer checked."""
    began = clock()
    table = way([folder / "a.parquet", folder / "b.parquet"], window, window // 5)
    seconds = clock() - began
    got = answer_of([table.column("id"), table.column("id_b")])
    check(got == expected, f"the merge of two files answered {got}, not {expected}")
    return 2 * int(table.num_rows) / seconds


def _parts(folder: Path, window: int, rounds: int) -> dict[str, float]:
    """What dominates on one core: milliseconds of reading, of the kernel, and of gathering columns."""
    taken: dict[str, list[float]] = {}
    for _ in range(rounds + 1):
        marks = [time.process_time()]
        tables = [_read(folder / f"{name}.parquet") for name in "ab"]
        keys = [keys_of(table) for table in tables]
        marks.append(time.process_time())
        merged = merge(keys, window, window // 5)
        marks.append(time.process_time())
        for table, places in zip(tables, (merged.left, merged.right), strict=True):
            _taken(table, places)
        marks.append(time.process_time())
        for part, seconds in zip(("read Parquet", "merge", "gather columns"), np.diff(marks), strict=True):
            taken.setdefault(part, []).append(float(seconds))
    return {part: round(1000 * min(seconds), 1) for part, seconds in taken.items()}


def _disorder_cost(rows: int, window: int, rounds: int, report: Report) -> None:
    """What the kernel takes for records that are 2 % out of order, over what it takes for records in order."""
    files = [MergeFeed(rows, Disorder.of(share, window)) for share in (0.0, SHARES[0])]
    keys = [[keys_of(feed.table(i)) for i in (0, 1)] for feed in files]
    taken: list[list[float]] = [[], []]
    for _ in range(rounds + 1):
        for seconds, each in zip(taken, keys, strict=True):
            began = time.process_time()
            merge(each, window, window // 5)
            seconds.append(time.process_time() - began)
    report.add("merge_kernel", 2 * rows / min(taken[1]), "records/s")
    report.add("merge_kernel_in_order", 2 * rows / min(taken[0]), "records/s")
