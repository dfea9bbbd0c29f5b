"""How often bounds hold the truth: seeded trials over populations of several shapes.

A trial draws another sample of the same rows (another seed of the lots), and looks whether the bounds of count, sum
and avg hold what the full read says. The tests run some trials, `python -m benchmarks archive` a thousand of each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.archive.estimation.estimates import Estimates, Sums, estimates, sums_of
from anabranch.kernels.sampling import kept, lots_between

ROWS = 200_000
FUNCTIONS = ("count", "sum", "avg")


@dataclass(frozen=True)
class Population:
    """All the rows: a value and a group for each, and which of them are asked for."""

    values: NDArray[np.float64]
    groups: NDArray[np.int64]
    chosen: NDArray[np.bool_]

    def truth(self) -> NDArray[np.float64]:
        """Count, sum and avg of each group."""
        group, values = self.groups[self.chosen], self.values[self.chosen]
        count, total = np.bincount(group).astype(float), np.bincount(group, values)
        return np.array([count, total, total / count])


@dataclass(frozen=True)
class Coverage:
    """The share of trials (and groups) whose bounds held the truth."""

    count: float
    sum: float
    avg: float


def uniform(random: np.random.Generator, rows: int) -> Population:
    return Population(random.uniform(0, 100, rows), np.zeros(rows, np.int64), random.random(rows) < 0.3)


def lognormal(random: np.random.Generator, rows: int) -> Population:
    return Population(random.lognormal(0, 1, rows), np.zeros(rows, np.int64), random.random(rows) < 0.3)


def pareto(random: np.random.Generator, rows: int) -> Population:
    """A few rows make much of the total; the variance is finite (α = 3)."""
    return Population(random.pareto(3, rows) + 1, np.zeros(rows, np.int64), random.random(rows) < 0.3)


def clustered(random: np.random.Generator, rows: int) -> Population:
    """Values that wander with time, asked for in bursts."""
    wave = np.repeat(np.cumsum(random.normal(0, 1, rows // 500 + 1)), 500)[:rows]
    burst = np.repeat(random.random(rows // 2000 + 1) < 0.3, 2000)[:rows]
    return Population(50 + wave + random.normal(0, 3, rows), np.zeros(rows, np.int64), burst)


def grouped(random: np.random.Generator, rows: int) -> Population:
    """Ten groups, the largest of 30 % of the rows, the smallest of 2 %; each with its own level."""
    share = np.geomspace(0.3, 0.02, 10)
    group = random.choice(10, rows, p=share / share.sum())
    return Population(random.gamma(2, 1 + group), group, random.random(rows) < 0.5)


KINDS: dict[str, Callable[[np.random.Generator, int], Population]] = {
    "uniform": uniform,
    "lognormal": lognormal,
    "pareto": pareto,
    "clustered": clustered,
    "grouped": grouped,
}


def population(kind: str, seed: int, rows: int = ROWS) -> Population:
    return KINDS[kind](np.random.default_rng([seed, sorted(KINDS).index(kind)]), rows)


def sample_of(all_rows: Population, fraction: float, seed: int) -> Sums:
    """The sums of one sample."""
    rows = len(all_rows.values)
    taken = np.flatnonzero(kept(lots_between(0, rows, seed), fraction))
    values = pa.array(all_rows.values[taken])
    sample, groups = pa.table({"_row": taken}), [pa.array(all_rows.groups[taken])]
    chosen = pa.array(all_rows.chosen[taken])
    return sums_of(sample, 0, rows, fraction, groups, [None, values, values], chosen, functions=FUNCTIONS)


def held(found: Estimates, truth: NDArray[np.float64]) -> NDArray[np.float64]:
    """For each function, the share of groups whose bounds hold the truth; a group not found is one not told about."""
    groups = found.groups[0].to_numpy()
    return np.array([_share(low, high, truth[i, groups]) for i, (_, low, high) in enumerate(found.columns)])


def trials(kind: str, fraction: float, count: int, seed: int, confidence: float = 0.95) -> Coverage:
    """The coverage of so many trials."""
    all_rows = population(kind, seed)
    truth = all_rows.truth()
    shares: Any = np.mean(
        [
            held(estimates(sample_of(all_rows, fraction, seed * 1_000_003 + i), FUNCTIONS, confidence), truth)
            for i in range(count)
        ],
        axis=0,
    )
    return Coverage(*map(float, shares))


def _share(low: pa.Array, high: pa.Array, truth: NDArray[np.float64]) -> float:
    lows, highs = low.fill_null(-np.inf).to_numpy(), high.fill_null(np.inf).to_numpy()
    return float(np.mean((lows <= truth) & (truth <= highs)))
