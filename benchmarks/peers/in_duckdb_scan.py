"""DuckDB: count, sum and average of a column over all files of a folder, read in full."""

from __future__ import annotations

import time

import duckdb  # type: ignore[import-not-found, unused-ignore]

from benchmarks.peers.job import Job, Said, answer_to


def work(job: Job) -> Said:
    database = duckdb.connect()
    database.execute(f"SET threads = {job.threads}")
    files = f"read_parquet('{job.file('*.parquet')}')"
    ways = {"with a cache of footers": True, "without": False}
    taken: dict[str, list[float]] = {}
    for name, cached in ways.items():
        database.execute(f"SET parquet_metadata_cache = {str(cached).lower()}")
        for number in range(job.rounds + 1):
            began = time.perf_counter()
            database.execute(f"SELECT avg(v) FROM {files}").fetchone()
            if number:
                taken.setdefault(name, []).append(time.perf_counter() - began)
    count, total = database.execute(f"SELECT count(*), CAST(sum(v) AS BIGINT) FROM {files}").fetchall()[0]
    best = min(taken, key=lambda name: min(taken[name]))
    each = ", ".join(f"{name} {min(seconds):.2f} s" for name, seconds in taken.items())
    return Said(taken[best], job.rows, count, int(total), f"avg over Parquet read in full; {each}", duckdb.__version__)


if __name__ == "__main__":
    answer_to(work)
