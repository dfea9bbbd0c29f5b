"""An average within an error, over many rows, against DuckDB that scans the plain archive of the same rows in full."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from anabranch.database import Database
from anabranch.schema import TIME_TYPE
from benchmarks.archive.data import APART, START, forget_footers, reader_of
from benchmarks.harness import Bar, Report, check, median, say
from benchmarks.peers.environments import Peers
from benchmarks.peers.job import Job
from benchmarks.peers.programs import Missing
from benchmarks.window_join.data import Answer

STREAM, PLAIN, DEALT = "large", "plain", "dealt"
BLOCKS = 500
ERROR = 1.0
"""Percent."""
SECONDS_LIMIT, FASTER = 2.0, 5.0
ROUNDS = 11
CHUNK = 4_000_000
LATER_CHUNKS = 8
"""Rows are archived when so many chunks have come."""


@dataclass(frozen=True)
class Large:
    """Rows with a value that is skewed: its deviation is 1.3 times its mean."""

    rows: int

    def chunks(self) -> Iterator[pa.Table]:
        time = START
        for number, low in enumerate(range(0, self.rows, CHUNK)):
            random = np.random.default_rng([3, number])
            rows = min(CHUNK, self.rows - low)
            times = time + np.cumsum(random.integers(1, APART // 10, rows, endpoint=True))
            time = int(times[-1])
            values = np.minimum(1000 * random.lognormal(0, 1, rows), 2**31 - 1).astype(np.int32)
            yield pa.table({"ts": pa.array(times).cast(TIME_TYPE), "v": pa.array(values)})


def fill(db: Database, rows: int, run_rows: int) -> Answer:
    """Rows and their sum; both archives hold them when it returns."""
    db.sql(f"CREATE STREAM {STREAM} (ts TIMESTAMP, v INT) TIMESTAMP BY ts")
    options = {"run_rows": str(run_rows)}
    db.create_archive(STREAM, "plain", PLAIN, options=options)
    db.create_archive(STREAM, "randomize_then_sort", DEALT, options={**options, "blocks": str(BLOCKS)})
    count = total = 0
    began = time.perf_counter()
    for number, chunk in enumerate(Large(rows).chunks(), 1):
        db.append(STREAM, chunk)
        count += chunk.num_rows
        total += int(chunk.column("v").to_numpy().sum(dtype=np.int64))
        if number % LATER_CHUNKS == 0:
            _archive(db, all_rows=False)
    _archive(db, all_rows=True)
    say(f"{count:,} rows in two archives after {time.perf_counter() - began:.0f} s")
    return Answer(count, total)


def _archive(db: Database, *, all_rows: bool) -> None:
    for name in (PLAIN, DEALT):
        db.archive(STREAM, name).append(all_rows=all_rows)


def measure(db: Database, rows: int, run_rows: int, folder: Path, peers: Peers, report: Report) -> None:
    expected = fill(db, rows, run_rows)
    exact = expected.checksum / expected.rows
    sql = f"SELECT avg(v) AS mean FROM ARCHIVE {DEALT} ON {STREAM} WITH ERROR {ERROR:g} PERCENT"
    forget_footers()
    seconds, held, inside, fraction = [], 0, 0, 0.0
    for _ in range(ROUNDS + 1):
        began = time.perf_counter()
        row = db.sql(sql).table().to_pylist()[0]
        seconds.append(time.perf_counter() - began)
        held += row["mean_low"] <= exact <= row["mean_high"]
        inside += abs(row["mean"] / exact - 1) <= ERROR / 100
        fraction = row["_fraction"]
    # The sample is the same each time: it is one draw, outside its bounds with 5 %, and far outside never.
    check(abs(row["mean"] / exact - 1) <= 3 * ERROR / 100, f"the average is {exact:.2f}, and {sql} answered {row}")
    warm = median(seconds[1:])
    report.notes["average_within_1_percent"] = {
        "cold_seconds": round(seconds[0], 4),
        "warm_seconds": round(warm, 4),
        "fraction_read": fraction,
        "off_by_percent": round(100 * abs(row["mean"] / exact - 1), 4),
        "bounds_held": bool(held),
    }
    say(f"avg within {ERROR:g} %: {seconds[0]:.2f} s cold, {warm:.3f} s warm, {fraction:.3%} read")
    report.add("average_within_1_percent_seconds", warm, "s", bar=Bar(SECONDS_LIMIT, "at most"))
    said = peers.ask("duckdb_scan", Job(str(_files(db, folder)), rows, 0, rounds=3), expected)
    if isinstance(said, Missing):
        report.notes.setdefault("peers", {})["duckdb"] = f"missing: {said.reason}"
        return
    report.notes.setdefault("peers", {})["duckdb"] = f"{said.version}, {rows:,} rows, {said.measured}"
    bar = Bar(FASTER, "at least")
    report.add("average_within_1_percent", 1 / warm, "queries/s", peer=1 / min(said.seconds), bar=bar)


def _files(db: Database, folder: Path) -> Path:
    """The files of the plain archive, and no other, in a folder."""
    table = reader_of(db, STREAM, PLAIN)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for run in table.runs:
        (folder / run.path).symlink_to(Path(table.storage.path, "table", run.path))
    return folder
