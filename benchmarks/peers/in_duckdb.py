"""DuckDB, in batch over all rows at once: the fastest of several ways to write the join.

The files are read as part of the job. The answer becomes a table in memory, while ours goes to disk.
"""

from __future__ import annotations

import threading
import time
from typing import Any

import duckdb  # type: ignore[import-not-found, unused-ignore]

from benchmarks.peers.job import PRIME, Job, Said, answer_to

PATIENCE = 3
"""A way that takes this many times as long as the best one is given up."""


def ways(job: Job) -> dict[str, str]:
    """The same join, in cells that must be equal and as one would write it first.

    Rows that match are at most a window (and a width) apart. So if cells are that wide, a row of b is put into the
    cell before, its own and the one after; if they are twice as wide, into those of its two ends.
    """
    a, b = (f"read_parquet('{job.file(name)}')" for name in ("a.parquet", "b.parquet"))
    window = f"INTERVAL {job.window_ms} MILLISECONDS"
    match = f"A.ts BETWEEN B.ts - {window} AND B.ts + {window}"
    axes = {"t": ("epoch_ms(ts)", float(job.window_ms))}
    columns = "A.v, B.v AS w"
    if job.width is None:
        match += " AND A.k = B.k"
        columns = f"A.k, {columns}"
    else:
        match += f" AND A.x BETWEEN B.x - {job.width} AND B.x + {job.width}"
        axes["c"] = ("x", job.width * 1.001)
    return {
        "in cells of a window": _in_cells(a, b, columns, match, axes, 1, (-1, 0, 1)),
        "in cells of two windows": _in_cells(a, b, columns, match, axes, 2, (-0.5, 0.5)),
        "as written": f"SELECT {columns} FROM {a} A, {b} B WHERE {match}",
    }


def _in_cells(
    a: str, b: str, columns: str, match: str, axes: dict[str, tuple[str, float]], size: int, steps: tuple[float, ...]
) -> str:
    def cell(axis: str, moved: str = "") -> str:
        value, width = axes[axis]
        return f"CAST(floor({value} / {width * size!r}{moved}) AS BIGINT) AS {axis}"

    own = ", ".join(cell(axis) for axis in axes)
    moved = ", ".join(cell(axis, f" + d{axis}") for axis in axes)
    copies = ", ".join(f"(VALUES {', '.join(f'({s})' for s in steps)}) s{axis}(d{axis})" for axis in axes)
    same = " AND ".join(f"A.{axis} = B.{axis}" for axis in axes)
    return (
        f"SELECT {columns} FROM (SELECT *, {own} FROM {a}) A, (SELECT *, {moved} FROM {b}, {copies}) B "
        f"WHERE {same} AND {match}"
    )


def timed(database: Any, sql: str, limit: float | None) -> float | None:
    """Seconds to make the table `answer`, or None once they are more than `limit`."""
    database.execute("DROP TABLE IF EXISTS answer")
    alarm = threading.Timer(limit or 0, database.interrupt) if limit else None
    began = time.perf_counter()
    try:
        if alarm:
            alarm.start()
        database.execute(f"CREATE TABLE answer AS {sql}")
    except duckdb.InterruptException:
        return None
    finally:
        if alarm:
            alarm.cancel()
    return time.perf_counter() - began


def work(job: Job) -> Said:
    database = duckdb.connect()
    database.execute(f"SET threads = {job.threads}")
    database.execute("SET preserve_insertion_order = false")
    taken: dict[str, list[float]] = {}
    given_up = []
    answers = set()
    for name, sql in ways(job).items():
        for number in range(job.rounds):
            best = min((min(seconds) for seconds in taken.values()), default=None)
            seconds = timed(database, sql, None if best is None else PATIENCE * best + 0.1)
            if seconds is None:
                given_up.append(f"{name} given up")
                break
            taken.setdefault(name, []).append(seconds)
            if number == 0:
                check = f"SELECT count(*), CAST(sum(v * w % {PRIME}) AS BIGINT) FROM answer"
                answers.add(database.execute(check).fetchall()[0])
    if len(answers) != 1:
        raise SystemExit(f"the ways to write the join do not agree: {answers}")
    ((count, checksum),) = answers
    best_way = min(taken, key=lambda name: min(taken[name]))
    each = "; ".join([*(f"{name} {min(seconds):.2f} s" for name, seconds in taken.items()), *given_up])
    measured = f"reading Parquet, joining, a table in memory; {each}"
    return Said(taken[best_way], job.rows, count, int(checksum or 0), measured, duckdb.__version__)


if __name__ == "__main__":
    answer_to(work)
