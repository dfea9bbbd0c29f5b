"""Archives that trade I/O for accuracy: the figures of the paper, and bars beside what others have.

S. Chandrasekaran and M. Franklin, "Remembrance of Streams Past: Overload-Sensitive Management of Archived Streams"
(2004). Counts and sums are compared with those of the tuples themselves before a figure is given.
"""

from __future__ import annotations

import tempfile
from argparse import Namespace
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

import anabranch as ab
from benchmarks.archive import coverage as archive_coverage
from benchmarks.archive import inserts as archive_inserts
from benchmarks.archive import large as archive_large
from benchmarks.archive import overload as archive_overload
from benchmarks.archive import reads as archive_reads
from benchmarks.archive import together
from benchmarks.archive.claims import claims
from benchmarks.archive.coverage import Covered
from benchmarks.archive.data import VARIANTS, Tuples, stream_of
from benchmarks.archive.inserts import Insert
from benchmarks.archive.overload import Course, OverloadSizes
from benchmarks.archive.reads import Read
from benchmarks.harness import Report, say
from benchmarks.merge.claims import Claim
from benchmarks.peers.environments import FOLDER, Peers

PEER = "the plain layout; Spark's sample and DuckDB on the same files; the paper"
STREAM = "tuples"


@dataclass(frozen=True)
class Sizes:
    """How much is archived, and how often it is read."""

    rows: int
    """Of Figures 9 to 12."""
    run_rows: int
    rounds: int
    together_rows: int
    """That are inserted while queries run, and that each of those reads."""
    together_run_rows: int
    queries: tuple[int, ...]
    trials: int
    """Of each kind of data and fraction."""
    overload: OverloadSizes
    large_rows: int | None
    """None: left out."""
    large_run_rows: int
    peers: str | None = str(FOLDER)
    """Where other engines are installed; None: they are left out."""


FULL = Sizes(
    rows=20_000_000,
    run_rows=1 << 22,
    rounds=3,
    together_rows=1_000_000,
    together_run_rows=1 << 20,
    queries=together.QUERIES,
    trials=1000,
    overload=OverloadSizes(
        cars=100_000,
        run_rows=2_000_000,
        blocks=500,
        batch_rows=20_000,
        calibration_days=200,
        calibration_seconds=45,
        seconds=300,
        seconds_without=60,
        most_days=3500,
    ),
    large_rows=200_000_000,
    large_run_rows=4_000_000,
)
QUICK = replace(
    FULL,
    rows=4_000_000,
    rounds=1,
    together_rows=500_000,
    queries=(0, 1, 4, 16),
    trials=50,
    overload=replace(
        FULL.overload, calibration_days=60, calibration_seconds=12, seconds=20, seconds_without=20, most_days=250,
    ),
    large_rows=None,
)  # fmt: skip


def chosen(sizes: Sizes, given: Namespace) -> Sizes:
    """What was said on the command line about peers."""
    if given.peers:
        return replace(sizes, peers=None if given.peers == "none" else given.peers)
    return sizes


@dataclass
class ArchiveReport(Report):
    """The bars, and beside them the paper's figures with what they say to its claims."""

    inserts: list[Insert] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)
    cells: list[together.Cell] = field(default_factory=list)
    coverage: list[Covered] = field(default_factory=list)
    overload: list[Course] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)

    def as_dict(self, name: str, quick: bool, machine: dict[str, Any]) -> dict[str, Any]:
        found = super().as_dict(name, quick, machine)
        for part in ("inserts", "reads", "cells", "coverage", "overload", "claims"):
            found[part] = [asdict(each) for each in getattr(self, part)]
        return found

    def show(self, name: str, machine: dict[str, Any], console: Console) -> None:
        super().show(name, machine, console)
        table = Table("the paper", "ours", "seen", title="claims", title_justify="left")
        for each in self.claims:
            table.add_row(each.claim, "[green]holds[/]" if each.holds else "[yellow]does not hold[/]", each.seen)
        console.print(table)


def run(sizes: Sizes) -> Report:
    report = ArchiveReport(PEER, sizes)
    peers = Peers(None if sizes.peers is None else Path(sizes.peers))
    with tempfile.TemporaryDirectory(prefix="bench-archive-") as folder:
        with ab.open(f"{folder}/river") as db:
            # Archives are filled when it is asked for and not in the background, so that the time is what it takes.
            db.archives.close()
            db.engine()
            tuples = Tuples(sizes.rows)
            say("Figures 9 and 11")
            report.inserts = archive_inserts.measure(db, STREAM, tuples, sizes.run_rows, sizes.rounds, report)
            say("Figures 10 and 12")
            report.reads = archive_reads.measure(db, STREAM, tuples, sizes.run_rows, sizes.rounds, report)
            for variant in VARIANTS:
                db.drop_stream(stream_of(STREAM, variant.name))
            say("Figures 13 to 18")
            report.cells = together.measure(db, sizes.together_rows, sizes.together_run_rows, sizes.queries)
            report.claims = claims(report.inserts, report.reads, report.cells)
        say("coverage of bounds")
        report.coverage = archive_coverage.measure(sizes.trials, report)
        with ab.open(f"{folder}/overload") as db:
            db.archives.close()
            say("overload")
            report.overload = archive_overload.measure(db, sizes.overload, report)
        if sizes.large_rows is not None:
            with ab.open(f"{folder}/large") as db:
                db.archives.close()
                say("a large archive")
                archive_large.measure(db, sizes.large_rows, sizes.large_run_rows, Path(folder, "files"), peers, report)
    return report
