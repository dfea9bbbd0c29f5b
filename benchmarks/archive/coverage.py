"""How often the bounds of reduced reads hold the truth: all trials of tests/archive/coverage.py."""

from __future__ import annotations

import importlib
import os
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import product
from multiprocessing import get_context
from typing import Any

from benchmarks.harness import Bar, Report, say

FRACTIONS = (0.01, 0.02, 0.1, 0.5)
LEAST, MOST = 0.93, 0.97
SEED = 17


@dataclass(frozen=True)
class Covered:
    """The share of trials whose 95 % bounds held the truth, of those with bounds; and the share of those without."""

    kind: str
    fraction: float
    count: float
    sum: float
    avg: float
    withheld: float = 0.0


def measure(trials: int, report: Report) -> list[Covered]:
    """All kinds of data and fractions, in as many processes as there are cores."""
    cells = list(product(_trials().KINDS, FRACTIONS))
    cores = os.cpu_count() or 1
    parts = [(kind, fraction, trials // cores + (core < trials % cores), SEED + core) for core in range(cores)
             for kind, fraction in cells]  # fmt: skip
    parts = [part for part in parts if part[2]]
    with ProcessPoolExecutor(cores, get_context("spawn")) as pool:
        shares = list(pool.map(_share, parts))
    covered = []
    for kind, fraction in cells:
        mine = [(part[2], share) for part, share in zip(parts, shares, strict=True) if part[:2] == (kind, fraction)]
        count = sum(number for number, _ in mine)
        mean = [sum(number * share[i] for number, share in mine) / count for i in range(4)]
        covered.append(Covered(kind, fraction, *mean))
    found = {
        f"{name} of {c.kind} at {c.fraction:.0%}": getattr(c, name) for c in covered for name in ("count", "sum", "avg")
    }
    # Where a group has few rows and its values a long tail, bounds are wider on purpose: `archive.estimation.doubt`.
    usual = [name for name in found if not name.startswith(("sum", "avg")) or ", grouped" not in name]
    lowest, highest = min(found, key=lambda name: found[name]), max(usual, key=lambda name: found[name])
    say(f"bounds hold the truth in {found[lowest]:.1%} ({lowest}) to {found[highest]:.1%} ({highest}) of trials")
    report.add("coverage_lowest", found[lowest], "of trials", bar=Bar(LEAST, "at least"))
    report.add("coverage_highest", found[highest], "of trials", bar=Bar(MOST, "at most"))
    withheld = max(c.withheld for c in covered)
    report.notes["coverage"] = {"lowest": lowest, "highest": highest, "most withheld": f"{withheld:.1%}"}
    return covered


def _trials() -> Any:
    return importlib.import_module("tests.archive.coverage")


def _share(part: tuple[str, float, int, int]) -> tuple[float, float, float, float]:
    kind, fraction, count, seed = part
    found = _trials().trials(kind, fraction, count, seed)
    return found.count, found.sum, found.avg, found.withheld
