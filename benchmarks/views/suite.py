"""`python -m benchmarks views`: what it costs to keep an answer up to date, beside computing it anew."""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.harness import Bar, Report, say
from benchmarks.nexmark.latency import late
from benchmarks.peers.programs import Missing, said
from benchmarks.views.minima import cost_of_a_minimum
from benchmarks.views.recomputed import compared
from tests.nexmark.texts import QUERIES

PEER = "DuckDB, which computes the answer anew after each batch"
WATCHED = QUERIES["q4"]
"""A join and two aggregates over each other, as events of Nexmark come."""


@dataclass(frozen=True)
class Sizes:
    """How many rows."""

    base: int = 1_000_000
    customers: int = 100_000
    cities: int = 1_000
    batch: int = 1_000
    rounds: int = 50
    minimum_rows: int = 1_000_000
    latency_per_second: int = 20_000
    latency_seconds: int = 20
    state_rows: int = 8_000_000


FULL = Sizes()
QUICK = Sizes(rounds=20, latency_seconds=5, state_rows=1_000_000)


def run(sizes: Sizes) -> Report:
    report = Report(PEER, sizes)
    _steps(report)
    _against_anew(sizes, report)
    _minimum(sizes, report)
    _restart(sizes, report)
    with tempfile.TemporaryDirectory(prefix="bench-views-") as place:
        p50, p99 = late(Path(place) / "river", WATCHED, sizes.latency_per_second, sizes.latency_seconds)
        report.add("append_to_view_p50", p50, "s")
        report.add("append_to_view_p99", p99, "s", bar=Bar(1, "at most"))
    return report


def _steps(report: Report) -> None:
    """Steps alone, on one core: in a process that has one."""
    found = _said(["benchmarks.views.steps"])
    for name, bar in (("sum", 1_000_000), ("sum_of_doubles", 1_000_000), ("min", None), ("join", 300_000)):
        report.add(f"{name}_on_one_core", found[name], "changes/s", bar=Bar(bar, "at least") if bar else None)


def _against_anew(sizes: Sizes, report: Report) -> None:
    """With as many groups as there are cities, and as many as there are customers."""
    for groups in (sizes.cities, sizes.customers):
        for batch in (sizes.batch, 10 * sizes.batch):
            found = compared(sizes.base, sizes.customers, groups, batch, sizes.rounds)
            name = f"{groups}_groups_batches_of_{batch}"
            say(f"{name}: {found.ours * 1000:.1f} ms, anew {found.theirs * 1000:.1f} ms")
            bar = Bar(10, "at least") if batch == sizes.batch else None
            report.add(name, 1 / found.ours, "batches/s", peer=1 / found.theirs, bar=bar)


def _minimum(sizes: Sizes, report: Report) -> None:
    """Of groups of all sizes: what is read must not be the group."""
    costs = {size: cost_of_a_minimum(sizes.minimum_rows, size) for size in (10, 1_000, sizes.minimum_rows)}
    for size, cost in costs.items():
        say(f"a minimum of {size:,} rows goes: {cost.seconds * 1000:.2f} ms, {cost.rows_read:.1f} rows read")
    report.add("minimum_goes_rows_read", costs[sizes.minimum_rows].rows_read, "rows", bar=Bar(1000, "at most"))
    ratio = costs[sizes.minimum_rows].seconds / costs[10].seconds
    report.add(f"minimum_of_{sizes.minimum_rows}_over_10_rows", ratio, "×", bar=Bar(3, "at most"))


def _restart(sizes: Sizes, report: Report) -> None:
    """The most memory of a process that goes on, over that of one that runs."""
    with tempfile.TemporaryDirectory(prefix="bench-views-") as place:
        runs = {}
        for mode in ("run", "again"):
            runs[mode] = _said(["benchmarks.views.restart", f"{place}/river", str(sizes.state_rows), mode])
            say(f"{mode}: {runs[mode]['most'] / 2**20:,.0f} MB at most")
    report.add("memory_while_it_runs", runs["run"]["most"] / 2**20, "MB")
    report.add("state_kept", runs["run"]["kept"] / 2**20, "MB")
    report.add(
        "memory_of_a_restart_over_running", runs["again"]["most"] / runs["run"]["most"], "×", bar=Bar(1.2, "at most")
    )


def _said(program: list[str]) -> dict[str, Any]:
    """What a module of ours prints on its last line, run in a process of its own."""
    printed = said([sys.executable, "-m", *program], 1800)
    if isinstance(printed, Missing):
        raise RuntimeError(f"{program[0]}: {printed.reason}")
    found: dict[str, Any] = json.loads(printed.splitlines()[-1])
    return found
