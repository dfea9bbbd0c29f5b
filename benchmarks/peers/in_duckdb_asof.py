"""DuckDB: its as-of join, which knows "the last before" but not "the nearest".

Since no two records of a stream are within the tolerance of one record, the last record of b up to the tolerance
behind that of a is the one there is, if it is within the tolerance. So one join is enough.
"""

from __future__ import annotations

import time

import duckdb  # type: ignore[import-not-found, unused-ignore]

from benchmarks.peers.job import PRIME, Job, Said, answer_to


def work(job: Job) -> Said:
    database = duckdb.connect()
    database.execute(f"SET threads = {job.threads}")
    database.execute("SET preserve_insertion_order = false")
    a, b = (f"read_parquet('{job.file(name)}')" for name in ("a.parquet", "b.parquet"))
    join = (
        f"SELECT A.*, B.k AS k_b, B.v AS v_b, B.id AS id_b FROM {a} A ASOF JOIN {b} B "
        f"ON A.k + {job.width} >= B.k WHERE B.k >= A.k - {job.width}"
    )
    seconds = []
    for _ in range(job.rounds + 1):
        database.execute("DROP TABLE IF EXISTS answer")
        began = time.perf_counter()
        database.execute(f"CREATE TABLE answer AS {join}")
        seconds.append(time.perf_counter() - began)
    check = f"SELECT count(*), CAST(sum(id * id_b % {PRIME}) AS BIGINT) FROM answer"
    count, checksum = database.execute(check).fetchall()[0]
    measured = "reading Parquet, ASOF JOIN, a table in memory"
    return Said(seconds, job.rows, count, int(checksum or 0), measured, duckdb.__version__)


if __name__ == "__main__":
    answer_to(work)
