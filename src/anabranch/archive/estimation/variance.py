"""How estimated totals vary: the design of a sample (strata, sizes, keys), and what follows for sums of cells."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from anabranch.archive.estimation.bounds import Spreads
from anabranch.archive.estimation.strata import KEY, KEYED_ROWS, OPEN, OPEN_KEY, ROWS, STRATUM, Strata
from anabranch.archive.estimation.sums import Sums
from anabranch.kernels.moments import Spread

_TELLING = 8.0
_SAME = 1e-14
"""Values that differ by no more than this part are the same, but for rounding."""
_KEYS = 8.0
"""As many equally large keys are few."""
_TOP, _TOP_OF_FEW = 0.1, 10.0
"""A key with more than this part of the squares of all (of few keys: than so many times its share) says that sizes have
a long tail, whose end decides how far estimates are off and is seldom in a sample."""
_TOO_FAR = 3.3
"""By so many deviations the rows of the keys that were kept may miss their share; further out is one in a thousand."""

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class Showing(NamedTuple):
    """By group, of the values that stand for others: how many, their mean, and how they differ."""

    sampled: Floats
    mean: Floats
    squares: Floats
    """Sum of squares about the mean."""
    weighed: Floats
    """The same, each by the square of what its row stands for, as a part of the largest."""
    alike: NDArray[np.bool_]
    """They are all the same, and so say nothing of how far others lie off: of values that are 0 but for one in a
    thousand, most samples of a hundred have zeros alone."""


@dataclass(frozen=True)
class Design:
    """A sample, laid out by cell: what share of which stratum each cell's rows are."""

    strata: Strata
    """Small ones taken together."""
    stratum: Integers
    """Of each cell."""
    group: Integers
    groups: int
    lone: NDArray[np.bool_]
    """Strata of which too little was read to know how their rows differ."""
    complete: bool

    @property
    def exact(self) -> bool:
        """True if all there is was read, at least of the groups that were found."""
        return self.complete or bool(np.all(self._exact_strata | (self.strata.kind == KEYED_ROWS)))

    @property
    def open(self) -> bool:
        """True if it is not known how many rows there are."""
        return bool(np.any((self.strata.kind == OPEN) | (self.strata.kind == OPEN_KEY)))

    @functools.cached_property
    def _exact_strata(self) -> NDArray[np.bool_]:
        all_read = (self.strata.kind == ROWS) & (self.strata.read >= self.strata.there)
        exact: NDArray[np.bool_] = (self.strata.keep >= 1) | all_read
        for mine, _, rows, there in self._keyed():
            if rows.sum() >= there:
                exact |= mine
        return exact

    def _keyed(self) -> Iterator[tuple[NDArray[np.bool_], float, Floats, float]]:
        """For each fraction that keys were kept with: its strata, the rows of each key, and how many there are."""
        kind, keep, _, read, there = self.strata
        for fraction in np.unique(keep[kind == KEY]):
            mine = (kind == KEY) & (keep == fraction)
            rows = there[(kind == KEYED_ROWS) & (keep == fraction)].sum()
            yield mine, float(fraction), read[mine].astype(np.float64), float(rows)

    @functools.cached_property
    def lopsided(self) -> bool:
        """True if single keys decide: one with half of all rows is read, or it is not, and what follows nobody knows.

        That is so if the keys read weigh as few do, if one of them weighs so much that larger ones may well not have
        been read, or if so few rows came with them that some key that was not read must be far larger.
        """
        for mine, keep, rows, there in self._keyed():
            if self.complete or keep >= 1 or self._exact_strata[mine].all():
                continue
            squares = (rows**2).sum()
            few = rows.sum() ** 2 < _KEYS * squares
            tailed = rows.max(initial=0) ** 2 > max(_TOP, _TOP_OF_FEW / max(len(rows), 1)) * squares
            if few or tailed or abs(rows.sum() - keep * there) > _TOO_FAR * np.sqrt((1 - keep) * squares):
                return True
        return False

    @functools.cached_property
    def unseen(self) -> float:
        """The share of all rows that lie where none was read: nothing is known about them."""
        kind, keep, _, read, there = self.strata
        hidden = (kind == ROWS) & (keep < 1) & (read == 0)
        for fraction in keep[kind == KEYED_ROWS]:
            if not np.any(read[(kind == KEY) & (keep == fraction)]):
                hidden |= (kind == KEYED_ROWS) & (keep == fraction)
        share = float(there[hidden].sum() / max(there.sum(), 1))
        # Of an open stratum nobody knows how many rows it has; none read says something only if some would have been.
        blind = ((kind == OPEN) | (kind == OPEN_KEY)) & (read == 0) & (keep * STRATUM < _TELLING)
        return max(share, 1e-12) if blind.any() else share

    def by_group(self, rows: Integers | Floats) -> Floats:
        """Add up over the cells of each group."""
        return _per_group(self.group, rows, self.groups)

    def certain(self, rows: Integers | Floats) -> Floats:
        """The same over the cells of strata that were all read."""
        return self.by_group(np.where(self._exact_strata[self.stratum], rows, 0))

    def most(self, seen: Floats) -> Floats:
        """How many rows a group can have, when so many were seen: all but those seen outside it."""
        if self.open:
            return np.full(len(seen), np.inf)
        return float(self.strata.there.sum() - self.strata.read.sum()) + seen

    def lost(self, sampled: Floats) -> Floats:
        """What estimating a group's mean adds to its variance: one of its rows, not one of all that were read."""
        read = float(self.strata.read[~self._exact_strata].sum())
        if read < 2:
            return np.ones(len(sampled))
        return np.where(sampled > 1, sampled / np.maximum(sampled - 1, 1) * (1 - 1 / read), 1.0)

    def showing(self, count: Integers, centre: Spread) -> Showing:
        """What the values of each group that stand for others show of how they differ."""
        exact = self._exact_strata[self.stratum]
        # Values that were all read may be infinite.
        number, mid, second = (np.where(exact, 0, moment) for moment in (count, centre.mean, centre.second))
        sampled = self.by_group(number)
        mean = _per_group(self.group, number * mid, self.groups) / np.maximum(sampled, 1)
        off = number * (mid - mean[self.group]) ** 2 + second
        squares = _per_group(self.group, off, self.groups)
        alike = (squares <= _SAME**2 * sampled * mean**2) & (sampled > 0)
        weight = np.where(number > 0, self._weight[self.stratum], 0.0)
        heaviest = np.zeros(self.groups)
        np.maximum.at(heaviest, self.group, weight)
        weighed = _per_group(self.group, off * weight**2, self.groups) / np.maximum(heaviest, 1.0) ** 2
        return Showing(sampled, mean, squares, weighed, alike)

    @property
    def by_key(self) -> bool:
        """True if keys were kept, not rows."""
        kind = self.strata.kind[~self._exact_strata]
        return bool(np.any((kind == KEY) | (kind == OPEN_KEY)))

    @property
    def least_keep(self) -> float:
        """The smallest part of a stratum that was read."""
        return float(self.strata.keep[~self._exact_strata].min(initial=1.0))

    def count_slope(self, rows: Integers, spreads: Spreads) -> Floats:
        """The slope of a count; where none or all of the rows were counted, that of a first one more or less."""
        keep = self.strata.keep
        sampled = ~self._exact_strata & (self.strata.kind != KEYED_ROWS)
        if self.exact or not sampled.any():
            return spreads.slope
        by_key = (self.strata.kind == KEY) | (self.strata.kind == OPEN_KEY)
        weight = (1 - keep) / keep
        read = np.where(sampled, self.strata.read, 0)
        # A key is as many rows as keys have on average.
        typical = float((weight * read).sum() / max(read.sum(), 1)) or float(weight[sampled].max())
        if by_key.any():
            typical *= float(self.strata.read[by_key].sum() / by_key.sum())
        all_counted = self.by_group(rows) >= self.strata.read.sum()
        return np.where(spreads.variance > 0, spreads.slope, np.where(all_counted & (not self.open), -typical, typical))

    def spreads(self, count: Integers, centre: Spread, sums: Floats | None = None) -> Spreads:
        """What is known of a total from each cell's `count` values, with their mean and spread (`sums`: exact Σy)."""
        kind = self.strata.kind[self.stratum]
        by_rows = (kind == ROWS) | (kind == OPEN)
        total = count * centre.mean if sums is None else sums
        parts = self._by_rows(count.astype(np.float64), centre)
        group = self.group if by_rows.all() else self.group[by_rows]
        added = [_per_group(group, part if by_rows.all() else part[by_rows], self.groups) for part in parts]
        exact = self._exact_strata[self.stratum]
        sampled = _per_group(self.group, np.where(by_rows & ~exact, count, 0), self.groups)
        if not by_rows.all():
            from_keys = self._by_keys(total, count)
            added = [a + b for a, b in zip(added, from_keys[:3], strict=True)]
            sampled += from_keys[3]
        variance, moving, skew = added
        if self._uneven and by_rows.any():
            pooled = self._pooled(count.astype(np.float64), centre)
            variance, moving, skew = np.where(pooled[0] > variance, pooled, added)
        slope = np.divide(moving, variance, out=np.zeros_like(moving), where=variance > 0)
        slope[~np.isfinite(slope)] = 0.0
        return Spreads(self.totals(total), np.maximum(variance, 0.0), slope, skew, sampled)

    def totals(self, of_cells: Floats) -> Floats:
        """The estimated totals of groups, from those of cells."""
        totals = _per_group(self.group, of_cells * self._weight[self.stratum], self.groups)
        return totals / (1 - self.unseen) if 0 < self.unseen < 1 else totals

    @functools.cached_property
    def _weight(self) -> Floats:
        """How many rows each row read stands for, by stratum."""
        kind, keep, _, read, there = self.strata
        loose = (kind == OPEN) | (kind == OPEN_KEY) | self.lone
        weight = np.where(loose, 1 / keep, there / np.maximum(read, 1))
        for fraction in np.unique(keep[kind == KEY]):
            mine = (kind == KEY) & (keep == fraction)
            weight[mine] = there[(kind == KEYED_ROWS) & (keep == fraction)].sum() / read[mine].sum()
        return np.where(self._exact_strata, 1.0, weight)

    def _by_rows(self, m: Floats, centre: Spread) -> tuple[Floats, Floats, Floats]:
        """Of each cell's total: its variance, how both move together, and the third cumulant."""
        kind, keep, _, read, there = self.strata
        open_ones = (kind == OPEN) | self.lone
        unread = np.where(self._exact_strata, 0.0, 1 - np.where(open_ones, keep, read / np.maximum(there, 1)))
        n, loose = np.maximum(read, 1).astype(np.float64)[self.stratum], open_ones[self.stratum]
        weight, left = self._weight[self.stratum], unread[self.stratum]
        mean, second, third = centre
        # The rows of the stratum that are not in the cell are zeros; of an open one nobody knows how many they are.
        others = n - m
        off = np.where(loose, mean, mean * others / n)
        at = mean - off
        squares = second + m * off**2 + np.where(loose, 0.0, others * at**2)
        cubes = third + 3 * second * off + m * off**3 - np.where(loose, 0.0, others * at**3)
        squares = squares * np.where(loose, 1.0, n / np.maximum(n - 1, 1))
        cubes = cubes * np.where(loose, 1.0, n * n / np.maximum((n - 1) * (n - 2), 1))
        # What was all read does not vary, and its squares may not even be known.
        squares, cubes = np.where(left > 0, squares, 0.0), np.where(left > 0, cubes, 0.0)
        moving = weight**3 * left * cubes
        return weight**2 * left * squares, moving * left, moving * (2 * left - 1)

    @functools.cached_property
    def _uneven(self) -> bool:
        """True if some strata were read with other fractions than others."""
        return len(np.unique(self.strata.keep[self._partly])) > 1

    @functools.cached_property
    def _partly(self) -> NDArray[np.bool_]:
        """Strata that were read in part, of which it is known how many rows they have."""
        partly: NDArray[np.bool_] = (self.strata.kind == ROWS) & ~self._exact_strata & (self.strata.read > 0)
        return partly

    def _pooled(self, m: Floats, centre: Spread) -> Floats:
        """The same by group, as if a group's rows were spread evenly over the strata.

        A small group may not show at all where little was read, and a row that was missed there weighs most: what is
        known of the group from other strata says how many such rows to reckon with.
        """
        kind, _, _, read, there = self.strata
        known = kind == ROWS
        rows = float(there[known].sum())
        cells = known[self.stratum]
        weight = np.where(cells, self._weight[self.stratum], 0.0)
        mean, second, third = centre
        # Squares of what was all read may not be known.
        second, third = np.nan_to_num(second), np.nan_to_num(third)
        moments = (m * mean, second + m * mean**2, third + 3 * mean * second + m * mean**3)
        first, squares, cubes = (_per_group(self.group, weight * moment, self.groups) / rows for moment in moments)
        spread, lean = squares - first**2, cubes - 3 * first * squares + 2 * first**3
        size, left = there[self._partly].astype(np.float64), 1 - read[self._partly] / there[self._partly]
        odds = left / (1 - left)
        return np.array(
            [
                spread * (size * odds).sum(),
                lean * (size * odds**2).sum(),
                lean * (size * odds * (2 * left - 1) / (1 - left)).sum(),
            ]
        )

    def _by_keys(self, total: Floats, count: Integers) -> tuple[Floats, ...]:
        """The same by group, where keys were kept: of one fraction, a cluster sample, its size as a ratio to the rows.

        Parts read with different fractions hold the same keys, so their errors may all go one way: deviations are
        added, not variances.
        """
        kind, keep = self.strata.kind, self.strata.keep
        deviation, moving, skew, keys = (np.zeros(self.groups) for _ in range(4))
        part_variance = np.zeros(self.groups)
        for wanted in (KEY, OPEN_KEY):
            for fraction in np.unique(keep[kind == wanted]):
                mine = (kind == wanted) & (keep == fraction)
                part = self._one_fraction(mine, float(fraction), wanted == OPEN_KEY, total, count)
                deviation += np.sqrt(part[0])
                part_variance += part[0]
                moving += part[1]
                skew += part[2]
                keys = np.maximum(keys, part[3])
        grown = np.divide(deviation**2, part_variance, out=np.ones(self.groups), where=part_variance > 0) ** 1.5
        return deviation**2, moving * grown, skew * grown, keys

    def _one_fraction(
        self, mine: NDArray[np.bool_], keep: float, open: bool, total: Floats, count: Integers
    ) -> tuple[Floats, ...]:
        cells = mine[self.stratum] & (count > 0)
        group = self.group[cells]
        y, size = total[cells], self.strata.read[self.stratum[cells]].astype(np.float64)

        def add(of_cells: Floats) -> Floats:
            return _per_group(group, of_cells, self.groups)

        keys = add(np.ones(len(y)))
        first, second, third = add(y), add(y * y), add(y**3)
        weight, left = 1 / keep, 1 - keep
        if not open:
            rows = self.strata.read[mine].astype(np.float64)
            there = self.strata.there[(self.strata.kind == KEYED_ROWS) & (self.strata.keep == keep)].sum()
            weight = float(there) / max(rows.sum(), 1.0)
            rate = first / max(rows.sum(), 1.0)
            lost = len(rows) / max(len(rows) - 1, 1)
            second, third = (
                lost * np.maximum(second - 2 * rate * add(y * size) + rate**2 * (rows**2).sum(), 0.0),
                third - 3 * rate * add(y * y * size) + 3 * rate**2 * add(y * size**2) - rate**3 * (rows**3).sum(),
            )
        together = weight**3 * left * third
        return weight**2 * left * second, together * left, together * (2 * left - 1), keys


def design_of(sums: Sums) -> Design:
    """The design behind sums whose small strata were taken together."""
    strata = sums.strata
    lone = (strata.kind == ROWS) & (strata.keep < 1) & (strata.read < 2)
    return Design(strata, sums.cells.stratum, sums.cells.group, sums.groups, lone, sums.complete)


def _per_group(group: Integers, of_cells: Floats | Integers, groups: int) -> Floats:
    return np.bincount(group, of_cells, groups).astype(np.float64, copy=False)
