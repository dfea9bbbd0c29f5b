"""Merges of streams whose keys nearly agree: the tables and figures of the paper, and bars beside what others have.

M. Mazzucco et al., "Merging Multiple Data Streams on Common Keys over High Performance Networks" (2002). Every answer
is compared with that of the same merge over all records at once, or with that of a batch as-of join, before a
figure is given.
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
from benchmarks.harness import Report, say
from benchmarks.merge import index as merge_index
from benchmarks.merge import kernel as merge_kernel
from benchmarks.merge import line as merge_line
from benchmarks.merge import ranges as merge_ranges
from benchmarks.merge import servers as merge_servers
from benchmarks.merge import spark as merge_spark
from benchmarks.merge import tables as merge_tables
from benchmarks.merge.claims import Claim, claims
from benchmarks.merge.ranges import RangeCell
from benchmarks.merge.tables import Cell, Point
from benchmarks.peers.environments import FOLDER, Peers
from benchmarks.progress import keep_progress

PEER = "Polars, pandas and DuckDB in batch; the paper; rtree and PostgreSQL for range queries"


@dataclass(frozen=True)
class Sizes:
    """How much is merged, and how often. All numbers of records are per stream."""

    rows: int
    """Of Tables 1 and 2, and of the merge alone."""
    windows: tuple[int, int]
    """Of the tables; the first is that of all other merges too."""
    rounds: int
    range_rows: int
    range_files: int
    served_rows: int
    line_rows: int | None
    """None: no line is made."""
    spark_rows: int
    batch_rows: int
    index_rows: int
    cubes: int
    peers: str | None = str(FOLDER)
    """Where other engines are installed; None: they are left out."""


FULL = Sizes(
    rows=750_000,
    windows=(5000, 10_000),
    rounds=7,
    range_rows=100_000,
    range_files=8,
    served_rows=7_500_000,
    line_rows=15_000_000,
    spark_rows=6_000_000,
    batch_rows=2_000_000,
    index_rows=1_000_000,
    cubes=10_000,
)
QUICK = replace(
    FULL,
    rounds=3,
    range_files=4,
    served_rows=2_000_000,
    line_rows=4_000_000,
    spark_rows=2_000_000,
    batch_rows=1_000_000,
    index_rows=200_000,
    cubes=2000,
)


def chosen(sizes: Sizes, given: Namespace) -> Sizes:
    """What was said on the command line about peers."""
    if given.peers:
        return replace(sizes, peers=None if given.peers == "none" else given.peers)
    return sizes


@dataclass
class MergeReport(Report):
    """The bars, and beside them the paper's tables with what they say to its claims."""

    cells: list[Cell] = field(default_factory=list)
    range_cells: list[RangeCell] = field(default_factory=list)
    figure_4: list[Point] = field(default_factory=list)
    figure_5: list[Point] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)

    def as_dict(self, name: str, quick: bool, machine: dict[str, Any]) -> dict[str, Any]:
        found = super().as_dict(name, quick, machine)
        for part in ("cells", "range_cells", "figure_4", "figure_5", "claims"):
            found[part] = [asdict(each) for each in getattr(self, part)]
        return found

    def show(self, name: str, machine: dict[str, Any], console: Console) -> None:
        super().show(name, machine, console)
        table = Table("the paper", "ours", "seen", title="claims", title_justify="left")
        for each in self.claims:
            table.add_row(each.claim, "[green]holds[/]" if each.holds else "[yellow]does not hold[/]", each.seen)
        console.print(table)


def run(sizes: Sizes) -> Report:
    report = MergeReport(PEER, sizes)
    peers = Peers(None if sizes.peers is None else Path(sizes.peers))
    window, rounds = sizes.windows[0], sizes.rounds
    with tempfile.TemporaryDirectory(prefix="bench-merge-") as folder:
        root = Path(folder)
        merge_kernel.measure(sizes.rows, window, rounds, root, peers, report)
        merge_index.measure(sizes.index_rows, sizes.cubes, rounds, root, peers, report)
        say("Tables 1 and 2")
        report.cells = merge_tables.measure(sizes.rows, sizes.windows, rounds, root / "tables", report)
        report.figure_4 = merge_tables.figure_4(sizes.rows, sizes.windows[1], rounds)
        report.figure_5 = merge_tables.figure_5(sizes.rows, sizes.windows[1], rounds)
        say("Tables 3 and 4")
        report.range_cells = merge_ranges.measure(
            sizes.range_rows, sizes.windows, sizes.range_files, rounds, root / "ranges", report
        )
        report.claims = claims(report.cells, report.figure_4, report.figure_5, report.range_cells)
        merge_servers.measure(sizes.served_rows, window, rounds, root / "servers", report)
        if sizes.line_rows is not None:
            merge_line.measure(sizes.line_rows, window, min(rounds, 3), root / "line", report)
        with ab.open(f"{folder}/river", settings={"batch_rows": sizes.batch_rows}) as db:
            keep_progress(db)
            merge_spark.measure(db, sizes.spark_rows, sizes.batch_rows, window, rounds, report)
    return report
