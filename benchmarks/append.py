"""Appending to a stream, against writing the same batches as plain Arrow IPC files with fsync.

The peer does the least that keeps rows safe: one file per batch, written and synchronised. It
numbers nothing, checks no order, names nothing by content and does not synchronise the directory.
"""

from __future__ import annotations

import gc
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil
import pyarrow as pa
from pyarrow import ipc

import anabranch as ab
from anabranch.database import Database
from benchmarks.harness import Bar, Report, check, median, percentile, say
from benchmarks.packets import CREATE, Packets

PEER = "plain Arrow IPC files with fsync"
ROUNDS = 10


@dataclass(frozen=True)
class Sizes:
    """How much is appended."""

    rows: int
    batch: int
    small_appends: int
    small_rows: int = 1000


FULL = Sizes(rows=10_000_000, batch=100_000, small_appends=2_000)
QUICK = Sizes(rows=1_000_000, batch=100_000, small_appends=300)

Write = Callable[[pa.Table], object]


def run(sizes: Sizes) -> Report:
    report = Report(PEER, sizes)
    with tempfile.TemporaryDirectory(prefix="bench-append-") as root, ab.open(f"{root}/river") as db:
        say("checking that what was appended is read back")
        _check(db, sizes, Path(root) / "checked")
        _large(db, sizes, Path(root) / "files", report)
        _small(db, sizes, Path(root) / "small", report)
    return report


class PlainFiles:
    """The peer."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self._directory = directory
        self._count = 0

    def append(self, table: pa.Table) -> None:
        with open(self._directory / f"{self._count:08d}.arrow", "wb") as file:
            with ipc.new_file(file, table.schema) as out:
                out.write_table(table)
            file.flush()
            os.fsync(file.fileno())
        self._count += 1

    def table(self) -> pa.Table:
        files = sorted(self._directory.iterdir())
        return pa.concat_tables([ipc.open_file(pa.memory_map(str(f))).read_all() for f in files])

    def clear(self) -> None:
        for file in self._directory.iterdir():
            file.unlink()


def _check(db: Database, sizes: Sizes, directory: Path) -> None:
    db.sql(CREATE.format(name="checked"))
    rows = min(sizes.rows, 3 * sizes.batch)
    files = PlainFiles(directory)
    tables = list(Packets(rows, sizes.batch, rows / 10_000).batches())
    for table in tables:
        db.append("checked", table)
        files.append(table)
    wanted = pa.concat_tables(tables)
    check(db.tail("checked", rows).equals(wanted), "the stream does not hold the rows that were appended")
    check(files.table().equals(wanted), "the plain files do not hold the rows that were written")
    db.drop_stream("checked")


def _large(db: Database, sizes: Sizes, directory: Path, report: Report) -> None:
    """Rounds of batches that are made first and then written by both, each in turn the first."""
    db.sql(CREATE.format(name="packets"))
    files = PlainFiles(directory)
    packets = Packets(sizes.rows, sizes.batch, sizes.rows / 10_000)
    firsts = range(0, sizes.rows, sizes.batch)
    per_round = max(len(firsts) // ROUNDS, 1)
    process = psutil.Process()
    ours: list[float] = []
    peers: list[float] = []
    resident: list[float] = []
    for start in range(0, len(firsts), per_round):
        tables = [packets.table(f, min(f + sizes.batch, sizes.rows)) for f in firsts[start : start + per_round]]
        rows = sum(t.num_rows for t in tables)
        both: list[tuple[list[float], Write]] = [
            (ours, lambda table: db.append("packets", table)),
            (peers, files.append),
        ]
        for speeds, write in both if len(ours) % 2 == 0 else reversed(both):
            speeds.append(rows / _seconds(tables, write))
        files.clear()
        del tables
        gc.collect()
        resident.append(process.memory_info().rss / 2**20)
        say(f"round {len(ours)}: {ours[-1]:,.0f} rows/s, {PEER} {peers[-1]:,.0f}")
    check(db.reader("packets").end().row == sizes.rows, "not every appended row is in the stream")
    ratio = median(a / b for a, b in zip(ours, peers, strict=True))
    report.add("append_rows_per_second", median(ours), "rows/s", peer=median(ours) / ratio, bar=Bar(0.7, "at least"))
    tenth, half, whole = (resident[max(round(len(resident) * s) - 1, 0)] for s in (0.1, 0.5, 1))
    report.add("resident_growth", whole - tenth, "MB", bar=Bar(100, "at most"))
    report.notes["resident_mb"] = {"at 10 %": round(tenth), "at 50 %": round(half), "at 100 %": round(whole)}


def _seconds(tables: list[pa.Table], write: Write) -> float:
    began = time.perf_counter()
    for table in tables:
        write(table)
    return time.perf_counter() - began


def _small(db: Database, sizes: Sizes, directory: Path, report: Report) -> None:
    """Appends of few rows, where what an append costs besides its rows shows."""
    db.sql(CREATE.format(name="trickle"))
    files = PlainFiles(directory)
    rows = sizes.small_appends * sizes.small_rows
    ours, peers = [], []
    for table in Packets(rows, sizes.small_rows, rows / 20_000).batches():
        ours.append(_seconds([table], lambda t: db.append("trickle", t)))
        peers.append(_seconds([table], files.append))
    check(db.reader("trickle").end().row == rows, "not every row of the small appends is in the stream")
    say(f"{sizes.small_appends} small appends")
    report.add("small_appends_per_second", len(ours) / sum(ours), "/s", peer=len(peers) / sum(peers))
    for share in (0.5, 0.99):
        name = f"small_append_p{round(share * 100)}"
        report.add(name, percentile(ours, share) * 1000, "ms", peer=percentile(peers, share) * 1000)
