"""Pathway: its interval join, with as many workers as there are cores.

The rows are a bounded stream of lines, the answer is written as lines.
"""

from __future__ import annotations

import csv
import os
import tempfile
import time

from benchmarks.peers.job import Job, Said, answer_to, sum_up


def work(job: Job) -> Said:
    if job.width is not None:
        raise SystemExit("Pathway's interval join without a key compares all rows of an interval")
    os.environ["PATHWAY_THREADS"] = str(job.threads)
    import pathway as pw  # type: ignore[import-not-found, unused-ignore]

    class Row(pw.Schema):  # type: ignore[misc, name-defined, unused-ignore]
        """A row of either stream; t is in milliseconds."""

        k: int
        v: int
        t: int

    with tempfile.TemporaryDirectory(prefix="peer-") as folder:
        a, b = (pw.io.csv.read(job.file(f"{name}.csv"), schema=Row, mode="static") for name in "ab")
        interval = pw.temporal.interval(-job.window_ms, job.window_ms)
        joined = a.interval_join(b, a.t, b.t, interval, a.k == b.k).select(v=a.v, w=b.v)
        pw.io.csv.write(joined, f"{folder}/answer.csv")
        began = time.perf_counter()
        pw.run(monitoring_level=pw.MonitoringLevel.NONE)
        seconds = time.perf_counter() - began
        with open(f"{folder}/answer.csv") as lines, open(f"{folder}/plain.csv", "w") as plain:
            for row in csv.DictReader(lines):
                if row["diff"] != "1":
                    raise SystemExit("a result was taken back")
                plain.write(f"{row['v']},{row['w']}\n")
        count, checksum = sum_up(f"{folder}/plain.csv")
    return Said([seconds], job.rows, count, checksum, "pw.run: reading CSV, joining, writing CSV", pw.__version__)


if __name__ == "__main__":
    answer_to(work)
