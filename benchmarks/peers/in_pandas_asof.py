"""pandas: both files sorted by key, then merge_asof to the nearest within the tolerance."""

from __future__ import annotations

import time

import pandas as pd

from benchmarks.peers.job import PRIME, Job, Said, answer_to


def work(job: Job) -> Said:
    seconds = []
    for _ in range(job.rounds + 1):
        began = time.perf_counter()
        a, b = (pd.read_parquet(job.file(f"{name}.parquet")).sort_values("k") for name in "ab")
        b = b.rename(columns={"id": "id_b", "v": "v_b"})
        table = pd.merge_asof(a, b, on="k", direction="nearest", tolerance=job.width)
        seconds.append(time.perf_counter() - began)
    pairs = table.dropna(subset="id_b")
    checksum = int((pairs["id"] * pairs["id_b"].astype("int64") % PRIME).sum())
    measured = "reading Parquet, sorting, merge_asof nearest, a frame in memory"
    return Said(seconds, job.rows, len(pairs), checksum, measured, pd.__version__)


if __name__ == "__main__":
    answer_to(work)
