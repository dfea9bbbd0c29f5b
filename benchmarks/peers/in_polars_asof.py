"""Polars: both files sorted by key, then its as-of join to the nearest within the tolerance; lazy or eager."""

from __future__ import annotations

import time
from collections.abc import Callable

import polars as pl

from benchmarks.peers.job import PRIME, Job, Said, answer_to


def work(job: Job) -> Said:
    files = [job.file(f"{name}.parquet") for name in "ab"]
    tolerance = job.width

    def eager() -> pl.DataFrame:
        a, b = (pl.read_parquet(file).sort("k") for file in files)
        return a.join_asof(b, on="k", strategy="nearest", tolerance=tolerance, coalesce=False)

    def lazy() -> pl.DataFrame:
        a, b = (pl.scan_parquet(file).sort("k") for file in files)
        return a.join_asof(b, on="k", strategy="nearest", tolerance=tolerance, coalesce=False).collect()

    ways: dict[str, Callable[[], pl.DataFrame]] = {"eager": eager, "lazy": lazy}
    taken: dict[str, list[float]] = {name: [] for name in ways}
    answers = set()
    for _ in range(job.rounds + 1):
        for name, way in ways.items():
            began = time.perf_counter()
            table = way()
            taken[name].append(time.perf_counter() - began)
            pairs = table.drop_nulls("id_right")
            answers.add((pairs.height, int((pairs["id"] * pairs["id_right"] % PRIME).sum())))
    if len(answers) != 1:
        raise SystemExit(f"the ways to write the join do not agree: {answers}")
    ((count, checksum),) = answers
    best = min(taken, key=lambda name: min(taken[name]))
    each = "; ".join(f"{name} {min(seconds):.3f} s" for name, seconds in taken.items())
    measured = (
        f"reading Parquet, sorting, join_asof nearest, a frame in memory, {pl.thread_pool_size()} threads; {each}"
    )
    return Said(taken[best], job.rows, count, checksum, measured, pl.__version__)


if __name__ == "__main__":
    answer_to(work)
