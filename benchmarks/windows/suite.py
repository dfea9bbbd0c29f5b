"""Sliding windows under indices: the figures of the paper, and bars for what is built on them.

L. Golab, S. Garg and M. T. Özsu, "On Indexing Sliding Windows over On-line Data Streams" (2003), §7. Every structure's
answer is compared with NumPy's before it is timed and, if it was asked while being timed, once more after that.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

import anabranch as ab
from benchmarks.harness import Report
from benchmarks.progress import keep_progress
from benchmarks.windows import bars as windows_bars
from benchmarks.windows import figures as windows_figures
from benchmarks.windows import spark as windows_spark
from benchmarks.windows.bars import BarSizes
from benchmarks.windows.cells import Effort
from benchmarks.windows.figures import Cells, FigureSizes
from benchmarks.windows.orderings import Ordering, orderings
from benchmarks.windows.spark import SparkSizes

PEER = "NumPy sorting the window, Spark recomputing it"


@dataclass(frozen=True)
class Sizes:
    """The sizes of all parts."""

    figures: FigureSizes
    bars: BarSizes
    spark: SparkSizes


FULL = Sizes(
    FigureSizes(
        window=100_000,
        large_window=10_000_000,
        basic_windows=(50, 100, 500),
        distinct=(1_000, 10_000),
        effort=Effort(rounds=10, seconds=1.0),
    ),
    BarSizes(windows=(100_000, 10_000_000), rounds=5, slides=100, peer_slides=5, flat_rows=40_000_000),
    SparkSizes(
        median_rows=5_000_000,
        median_windows=((100_000, 1_000), (1_000_000, 10_000)),
        peer_slides=30,
        overlap_rows=10_000_000,
        peer_rows=500_000,
        batch_rows=1_000_000,
        rounds=3,
    ),
)
QUICK = Sizes(
    FigureSizes(
        window=100_000,
        large_window=1_000_000,
        basic_windows=(50, 500),
        distinct=(1_000, 10_000),
        effort=Effort(rounds=1, seconds=0.2),
    ),
    BarSizes(windows=(100_000, 1_000_000), rounds=3, slides=50, peer_slides=5, flat_rows=4_000_000),
    SparkSizes(
        median_rows=1_000_000,
        median_windows=((100_000, 1_000),),
        peer_slides=10,
        overlap_rows=2_000_000,
        peer_rows=100_000,
        batch_rows=500_000,
        rounds=1,
    ),
)


@dataclass
class WindowsReport(Report):
    """The bars, and beside them the cells of the figures with what they say to the paper's orderings."""

    cells: Cells | None = None
    orderings: list[Ordering] = field(default_factory=list)

    def as_dict(self, name: str, quick: bool, machine: dict[str, Any]) -> dict[str, Any]:
        found = super().as_dict(name, quick, machine)
        found["orderings"] = [vars(ordering) for ordering in self.orderings]
        found["cells"] = [] if self.cells is None else self.cells.as_dicts()
        return found

    def show(self, name: str, machine: dict[str, Any], console: Console) -> None:
        super().show(name, machine, console)
        table = Table("fig.", "the paper", "ours", "seen", title="orderings", title_justify="left")
        for each in self.orderings:
            verdict = "[green]agrees[/]" if each.agrees else "[yellow]differs[/]"
            table.add_row(each.figure, each.claim, verdict, each.seen)
        console.print(table)


def run(sizes: Sizes) -> Report:
    report = WindowsReport(PEER, sizes)
    windows_bars.default_index(sizes.bars, report)
    windows_bars.histogram(sizes.bars, report)
    windows_bars.cost_flatness(sizes.bars, report)
    with_spark(sizes.spark, report)
    report.cells = windows_figures.run(sizes.figures)
    report.orderings = orderings(report.cells)
    return report


def with_spark(sizes: SparkSizes, report: Report) -> None:
    settings = {"batch_rows": sizes.batch_rows}
    with (
        tempfile.TemporaryDirectory(prefix="bench-windows-") as root,
        ab.open(f"{root}/river", settings=settings) as db,
    ):
        keep_progress(db)
        session = windows_spark.peer_session(db)
        windows_spark.sliding_median(db, session, Path(root), sizes, report)
        windows_spark.overlaps(db, session, Path(root), sizes, report)
