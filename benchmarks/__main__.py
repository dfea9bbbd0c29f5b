"""`python -m benchmarks NAME [--quick] [--json FILE] [--page FILE]`; without a name, what there is.

The answer is checked first. A wrong one ends the run with exit code 1 and no figures. The last
line on stdout is one JSON object with all figures; a missed bar is said there and in the table,
and changes nothing in the exit code: bars are meant for an idle machine.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.markup import escape

from benchmarks import append, pipeline
from benchmarks.archive import page as archive_page
from benchmarks.archive import suite as archive
from benchmarks.harness import Report, WrongAnswer, machine
from benchmarks.many_queries import suite as many_queries
from benchmarks.merge import page as merge_page
from benchmarks.merge import suite as merge
from benchmarks.nexmark import suite as nexmark
from benchmarks.views import suite as views
from benchmarks.window_join import page as window_join_page
from benchmarks.window_join import suite as window_join
from benchmarks.windows import page as windows_page
from benchmarks.windows import suite as windows


class Benchmark(NamedTuple):
    """What a benchmark measures, in a line, and its sizes."""

    what: str
    run: Callable[[Any], Report]
    full: Any
    quick: Any
    page: Callable[[dict[str, Any], Path], None] | None = None
    """Puts the figures on a page of the documentation."""
    chosen: Callable[[Any, argparse.Namespace], Any] | None = None
    """Sizes changed by what was said on the command line."""


BENCHMARKS: dict[str, Benchmark] = {
    "append": Benchmark("rows/s into a stream, against plain Arrow files", append.run, append.FULL, append.QUICK),
    "pipeline": Benchmark(
        "filter and count per key through a standing query, against Spark; fixed cost; latency",
        pipeline.run,
        pipeline.FULL,
        pipeline.QUICK,
    ),
    "windows": Benchmark(
        "indexed sliding windows: the figures of the paper; medians and overlapping windows, against Spark",
        windows.run,
        windows.FULL,
        windows.QUICK,
        windows_page.write,
    ),
    "window_join": Benchmark(
        "joins of streams inside windows, against Spark, Pathway, Flink and DuckDB; Figure 7 of the paper",
        window_join.run,
        window_join.FULL,
        window_join.QUICK,
        window_join_page.write,
        window_join.chosen,
    ),
    "many_queries": Benchmark(
        "thousands of standing queries in one host: speed, lag, memory, making and dropping one; against Esper",
        many_queries.run,
        many_queries.FULL,
        many_queries.QUICK,
        chosen=many_queries.chosen,
    ),
    "merge": Benchmark(
        "merges of streams whose keys nearly agree, against as-of joins; data servers; the tables of the paper",
        merge.run,
        merge.FULL,
        merge.QUICK,
        merge_page.write,
        merge.chosen,
    ),
    "archive": Benchmark(
        "archives in four layouts, read in part; bounds; overload; against Spark's sample and DuckDB",
        archive.run,
        archive.FULL,
        archive.QUICK,
        archive_page.write,
        archive.chosen,
    ),
    "views": Benchmark(
        "answers kept up to date: changes a second, against computing them anew; latency; memory of a restart",
        views.run,
        views.FULL,
        views.QUICK,
    ),
    "nexmark": Benchmark(
        "the queries of Nexmark over a backlog of events and as they come, against Flink and DuckDB",
        nexmark.run,
        nexmark.FULL,
        nexmark.QUICK,
        chosen=nexmark.chosen,
    ),
}


def measure(name: str, sizes: Any, *, quick: bool, console: Console) -> dict[str, Any]:
    """Run a benchmark, show its table, and give the object of the JSON line."""
    here = machine()
    report = BENCHMARKS[name].run(sizes)
    report.show(name, here, console)
    return report.as_dict(name, quick, here)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Figures beside a named peer.")
    parser.add_argument("name", nargs="?", choices=[*BENCHMARKS], help="what to run; left out: list what there is")
    parser.add_argument("--quick", action="store_true", help="fewer rows and rounds")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the JSON object there too")
    parser.add_argument("--page", type=Path, metavar="FILE", help="put tables and pictures on this page")
    parser.add_argument("--memory", action="store_true", help="window_join: the long run that watches memory, too")
    parser.add_argument(
        "--peers",
        metavar="DIR",
        help="where other engines are installed, or 'none'",
    )
    given = parser.parse_args(arguments)
    console = Console(width=None if sys.stdout.isatty() else 120)
    if given.name is None:
        for name, benchmark in BENCHMARKS.items():
            console.print(f"[bold]{name:10}[/] {escape(benchmark.what)}")
        return 0
    benchmark = BENCHMARKS[given.name]
    if given.page is not None and benchmark.page is None:
        parser.error(f"{given.name} has no page")
    try:
        sizes = benchmark.quick if given.quick else benchmark.full
        if benchmark.chosen is not None:
            sizes = benchmark.chosen(sizes, given)
        found = measure(given.name, sizes, quick=given.quick, console=console)
    except WrongAnswer as problem:
        print(f"wrong answer, nothing was measured: {problem}", file=sys.stderr)
        return 1
    line = json.dumps(found)
    if given.json is not None:
        given.json.write_text(line + "\n")
    if given.page is not None and benchmark.page is not None:
        benchmark.page(json.loads(line), given.page)
    print(line)
    return 0


if __name__ == "__main__":
    # Whoever is told to end puts away what it has started: processes, and namespaces of the network.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(main())
