"""How often bounds hold the truth: seeded trials over populations of several shapes.

A trial draws another sample of the same rows (another seed of the lots), and looks whether the bounds of count, sum
and avg hold what the full read says. The rows are those of one run, of which an archive knows which lie far out. The
tests run some trials, `python -m benchmarks archive` a thousand of each.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.archive.estimation.estimates import Drawn, Estimates, Sums, estimates, sums_of
from anabranch.archive.facts import ANYTHING, Facts, facts_of
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
    """Of the bounds that were given, the share that held the truth; and in which share of trials none were given."""

    count: float
    sum: float
    avg: float
    withheld: float = 0.0


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


Values = Callable[[np.random.Generator, int], NDArray[np.float64]]

FEW_CARRY: dict[str, Values] = {
    "spikes of 0.002 %": lambda random, rows: random.random(rows) + 1e6 * (random.random(rows) < 2e-5),
    "spikes of 0.1 %": lambda random, rows: random.random(rows) + 1e6 * (random.random(rows) < 1e-3),
    "pareto 1.2": lambda random, rows: random.pareto(1.2, rows) + 1,
    "lognormal 1.5": lambda random, rows: random.lognormal(0, 1.5, rows),
    "lognormal 3": lambda random, rows: random.lognormal(0, 3, rows),
}
"""Values of which few make most of the sum."""


def _filtered(values: Values) -> Callable[[np.random.Generator, int], Population]:
    """Asked for three rows in ten."""
    return lambda random, rows: Population(values(random, rows), np.zeros(rows, np.int64), random.random(rows) < 0.3)


def _in_groups(values: Values) -> Callable[[np.random.Generator, int], Population]:
    """Ten groups of the sizes of `grouped`."""
    return lambda random, rows: replace(grouped(random, rows), values=values(random, rows))


KINDS: dict[str, Callable[[np.random.Generator, int], Population]] = {
    "uniform": uniform,
    "lognormal": lognormal,
    "pareto": pareto,
    "clustered": clustered,
    "grouped": grouped,
    **{name: _filtered(values) for name, values in FEW_CARRY.items()},
    **{f"{name}, grouped": _in_groups(values) for name, values in FEW_CARRY.items()},
}


def population(kind: str, seed: int, rows: int = ROWS) -> Population:
    return KINDS[kind](np.random.default_rng([seed, sorted(KINDS).index(kind)]), rows)


def facts(all_rows: Population) -> Facts:
    """What an archive knows of all rows."""
    return facts_of(pa.table({"x": all_rows.values}), ["x"])


def sample_of(all_rows: Population, fraction: float, seed: int, known: Facts | None = None) -> Sums:
    """The sums of one sample, with what is `known` of all rows; None: nothing, as of files without facts."""
    rows = len(all_rows.values)
    chance = kept(lots_between(0, rows, seed), fraction)
    far = np.zeros(rows, bool)
    if known is not None:
        far[known.far] = True
    taken = np.flatnonzero(chance | far)
    values = pa.array(all_rows.values[taken])
    sample, groups = pa.table({"_row": taken}), [pa.array(all_rows.groups[taken])]
    chosen = pa.array(all_rows.chosen[taken])
    return sums_of(
        sample,
        Drawn(0, rows, fraction, far=far[taken], ranges=[ANYTHING if known is None else known.ranges["x"]] * 3),
        groups,
        [None, values, values],
        chosen,
        FUNCTIONS,
    )


def held(found: Estimates, truth: NDArray[np.float64]) -> NDArray[np.float64]:
    """For each function, the share of groups whose bounds hold the truth; a group not found is one not told about."""
    groups = found.groups[0].to_numpy()
    return np.array([_share(low, high, truth[i, groups]) for i, (_, low, high) in enumerate(found.columns)])


def _withheld(found: Estimates) -> float:
    return float(np.mean([low.null_count / max(len(low), 1) for _, low, _ in found.columns[1:]]))


def trials(
    kind: str, fraction: float, count: int, seed: int, confidence: float = 0.95, *, known: bool = True
) -> Coverage:
    """The coverage of so many trials, from rows of which an archive has facts or not."""
    all_rows = population(kind, seed)
    truth, told = all_rows.truth(), facts(all_rows) if known else None
    found = [
        estimates(sample_of(all_rows, fraction, seed * 1_000_003 + i, told), FUNCTIONS, confidence)
        for i in range(count)
    ]
    shares = np.array([held(each, truth) for each in found])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # where no bounds were ever given there is no share
        means = np.nan_to_num(np.nanmean(shares, axis=0), nan=1.0)
    count_held, sum_held, avg_held = map(float, means)
    return Coverage(count_held, sum_held, avg_held, withheld=float(np.mean([_withheld(each) for each in found])))


def _share(low: pa.Array, high: pa.Array, truth: NDArray[np.float64]) -> float:
    """NaN if no bounds were given."""
    given = low.is_valid().to_numpy(zero_copy_only=False)
    lows, highs = low.fill_null(0).to_numpy()[given], high.fill_null(np.inf).to_numpy()[given]
    inside = (lows <= truth[given]) & (truth[given] <= highs)
    return float(np.mean(inside)) if given.any() else np.nan
