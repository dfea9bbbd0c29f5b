"""Range queries per second of the index that data servers have, against those that were not chosen."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import parquet

from anabranch.dataspace.range_index import RangeIndex
from benchmarks.harness import Report, check, median, say
from benchmarks.peers.environments import Peers
from benchmarks.peers.job import Job
from benchmarks.peers.programs import Missing
from benchmarks.window_join.data import Answer

KEYS = ("lat", "lon", "ts")
FOUND = 100
"""Records in a cube, on average."""
INDEXES = ("rtree", "postgres")
Points = NDArray[np.float64]


def measure(rows: int, cubes: int, rounds: int, root: Path, peers: Peers, report: Report) -> None:
    """Records of three keys, spread evenly, and cubes of about a hundred of them each."""
    random = np.random.default_rng(3)
    points = random.random((rows, len(KEYS)))
    half = (FOUND / rows) ** (1 / len(KEYS)) / 2
    middles = random.uniform(half, 1 - half, (cubes, len(KEYS)))
    lows, highs = middles - half, middles + half
    began = time.perf_counter()
    index = RangeIndex(len(KEYS))
    index.extend(points)
    made = time.perf_counter() - began
    found = index.query_many(lows, highs, rows)
    answer = Answer(sum(len(each) for each, _ in found), int(sum(each.sum() for each, _ in found)))
    _check(points, lows, highs, found)
    single = [_one_by_one(index, lows, highs, rows, answer) for _ in range(rounds + 1)][1:]
    many = [_in_one_call(index, lows, highs, rows, answer) for _ in range(rounds + 1)][1:]
    report.add("range_queries_one_by_one", cubes / median(single), "queries/s")
    report.add("range_queries", cubes / median(many), "queries/s")
    notes = {"ours": f"{rows:,} records of {len(KEYS)} keys, {answer.rows / cubes:.0f} in a cube, made in {made:.2f} s"}
    folder = root / "points"
    folder.mkdir()
    for name, each in (("points", points), ("lows", lows), ("highs", highs)):
        parquet.write_table(pa.table(dict(zip(KEYS, each.T, strict=True))), folder / f"{name}.parquet")
    for name in INDEXES:
        said = peers.ask(name, Job(str(folder), cubes, 0, rounds=min(rounds, 3)), answer)
        if isinstance(said, Missing):
            notes[name] = f"missing: {said.reason}"
        else:
            notes[name] = f"{said.version}, {said.measured}"
            report.add(
                f"range_queries_against_{name}", cubes / median(many), "queries/s", peer=cubes / min(said.seconds)
            )
    report.notes["range_indexes"] = notes
    say(f"range queries: {cubes / median(many):,.0f}/s, {cubes / median(single):,.0f}/s one by one")


def _check(points: Points, lows: Points, highs: Points, found: list[tuple[NDArray[np.int64], bool]]) -> None:
    """The first cubes again by looking at every point."""
    for low, high, (rows, _) in list(zip(lows, highs, found, strict=True))[:20]:
        wanted = np.flatnonzero(((points >= low) & (points <= high)).all(axis=1))
        check(bool(np.array_equal(rows, wanted)), "a range query misses records, or has too many")


def _one_by_one(index: RangeIndex, lows: Points, highs: Points, limit: int, answer: Answer) -> float:
    began = time.perf_counter()
    rows = sum(len(index.query(low, high, limit)[0]) for low, high in zip(lows, highs, strict=True))
    seconds = time.perf_counter() - began
    check(rows == answer.rows, f"range queries found {rows}, not {answer.rows}")
    return seconds


def _in_one_call(index: RangeIndex, lows: Points, highs: Points, limit: int, answer: Answer) -> float:
    began = time.perf_counter()
    found = index.query_many(lows, highs, limit)
    seconds = time.perf_counter() - began
    check(sum(len(each) for each, _ in found) == answer.rows, "range queries found something else the second time")
    return seconds
