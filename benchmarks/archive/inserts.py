"""Figures 9 and 11, and the writes of Table 1: the time to archive what a log holds, and what is written for it."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, replace

from anabranch.archive.declaration import archives_of
from anabranch.database import Database
from benchmarks.archive.data import (
    COPIED,
    HYBRIDS,
    LAZY,
    PAPER_NAMES,
    VARIANTS,
    Tuples,
    Variant,
    archive_all,
    create,
    reader_of,
    stream_of,
)
from benchmarks.archive.paper import WRITES, insert_seconds
from benchmarks.harness import Bar, Report, check, median, say

FIRST_ROWS = 65_536
"""Of the stream whose archive gets its copy before the others come."""
HYBRID_LIMIT, EAGER_LIMIT = 1.25, 3.0
"""Times as long as the strawman."""


@dataclass(frozen=True)
class Insert:
    """What it takes to insert the tuples into one layout."""

    variant: str
    legend: str
    seconds: float
    rows_written: int
    bytes_written: int
    files_written: int
    formula: float
    """Table 1, in units of the strawman."""
    paper_seconds: float
    """Figure 9."""


def measure(db: Database, prefix: str, tuples: Tuples, run_rows: int, rounds: int, report: Report) -> list[Insert]:
    """Time every layout in turns with plain; each has its own stream, and the archives of the last turn stay."""
    appends: list[float] = []
    for variant in VARIANTS:
        began = time.perf_counter()
        tuples.fill(db, stream_of(prefix, variant.name))
        appends.append(time.perf_counter() - began)
    appending = median(appends)
    seconds: dict[str, list[float]] = {}
    inserts: dict[str, Insert] = {}
    plain_one, *others = VARIANTS
    for other in others:
        for number in range(2 * rounds + 1):  # the first turn compiles and fills caches
            for variant in (plain_one, other):  # what came before makes a difference, so it is always the same
                taken = _archived_again(db, stream_of(prefix, variant.name), variant, run_rows)
                if number:
                    seconds.setdefault(variant.name, []).append(taken)
    for variant in VARIANTS:
        stream = stream_of(prefix, variant.name)
        inserts[variant.name] = _insert(db, stream, variant.name, seconds[variant.name], tuples.rows)
    copied = [_with_copy(db, tuples, run_rows) for _ in range(1 + max(1, rounds // 2))][1:]
    inserts[COPIED] = replace(copied[0], seconds=median(each.seconds for each in copied))
    plain = inserts["plain"]
    for name, insert in inserts.items():
        over = insert.seconds / plain.seconds
        say(f"insert, {name}: {insert.seconds:.2f} s, {over:.2f} × plain, {insert.bytes_written / 1e6:,.0f} MB")
    # As in the paper, inserting is from the tuple's arrival (here: the append to the stream's log) to the archive.
    whole = {name: appending + insert.seconds for name, insert in inserts.items()}
    for name in HYBRIDS:
        bar = Bar(HYBRID_LIMIT, "at most")
        report.add(f"insert_{name}", whole[name], "s", peer=whole["plain"], bar=bar)
    eager = "on_write_replicate"
    report.add(f"insert_{eager}", whole[eager], "s", peer=whole["plain"], bar=Bar(EAGER_LIMIT, "at most"))
    for name in (LAZY, COPIED):
        report.add(f"insert_{name}", whole[name], "s", peer=whole["plain"])
    for name in (*HYBRIDS, eager):
        report.add(f"archive_{name}", inserts[name].seconds, "s", peer=plain.seconds)
    report.add("insert_plain", tuples.rows / whole["plain"], "rows/s")
    report.add("archive_plain", tuples.rows / plain.seconds, "rows/s")
    return list(inserts.values())


def _archived_again(db: Database, stream: str, variant: Variant, run_rows: int) -> float:
    if archives_of(db.catalog.stream_storage(stream)):
        db.drop_archive(stream)
    os.sync()  # what was written before is not written at the expense of this one
    began = time.perf_counter()
    archive_all(db, stream, variant, run_rows)
    return time.perf_counter() - began


def _insert(db: Database, stream: str, name: str, seconds: list[float], rows: int) -> Insert:
    """What an archive holds, its rows counted."""
    tables = db.describe_archive(stream)["tables"]
    check(tables["table"]["rows"] == rows, f"{name} has archived {tables['table']['rows']} of {rows} rows")
    return Insert(
        variant=name,
        legend=PAPER_NAMES[name],
        seconds=median(seconds),
        rows_written=sum(table["rows"] for table in tables.values()),
        bytes_written=sum(table["bytes"] for table in tables.values()),
        files_written=sum(table["runs"] for table in tables.values()),
        formula=WRITES[name],
        paper_seconds=insert_seconds(name),
    )


def _with_copy(db: Database, tuples: Tuples, run_rows: int) -> Insert:
    """OnReadModify after it was vacuumed: a few tuples make the copy, to which all that follow go as well."""
    stream, variant = "copied", next(each for each in VARIANTS if each.name == LAZY)
    create(db, stream)
    chunks = tuples.chunks()
    chunk = next(chunks)
    first = min(FIRST_ROWS, chunk.num_rows // 2)
    db.append(stream, chunk.slice(0, first))
    archive_all(db, stream, variant, run_rows)
    reader_of(db, stream, LAZY).read_sample(0, first, [], 0.5)
    db.archive(stream, LAZY).vacuum()
    check("copy" in db.describe_archive(stream, LAZY)["tables"], "the vacuumer made no copy")
    db.append(stream, chunk.slice(first))
    for chunk in chunks:
        db.append(stream, chunk)
    began = time.perf_counter()
    db.archive(stream, LAZY).append()
    taken = time.perf_counter() - began
    made = _insert(db, stream, COPIED, [taken], tuples.rows)
    db.drop_stream(stream)
    return made
