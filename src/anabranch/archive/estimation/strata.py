"""Strata: ranges of row numbers (or keys) that a reduced read is a random sample of, each by itself."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.kernels.compiled import compiled
from anabranch.kernels.groups import encode
from anabranch.kernels.values import frozen

STRATUM = 65_536
"""Rows of a stratum."""

ROWS, OPEN, KEY, OPEN_KEY, KEYED_ROWS = range(5)
"""Kinds of strata: rows of which it is known how many there are, rows of which it is not (only part of the stratum
counts); the same for keys; and how many rows there are, of those read by key."""

LEAST_ROWS = 32
"""A stratum of which fewer rows were read is taken together with its neighbours."""

_LEAST_KEEP = 2.0**-64
"""Nothing at all is a very small part."""

Integers = NDArray[np.int64]


class Strata(NamedTuple):
    """One entry per stratum: how many rows were read, of how many there are."""

    kind: Integers
    keep: NDArray[np.float64]
    unit: Integers
    """The number of the stratum, or the hash of the key; -1 for rows that were all read."""
    read: Integers
    there: Integers


def strata_of(
    rows: Integers,
    start: int,
    end: int,
    keep: float,
    by: NDArray[np.uint64] | None,
    open: bool,
    above: float,
    far: NDArray[np.bool_] | None = None,
    earlier: Integers | None = None,
) -> tuple[Strata, Integers]:
    """The strata of a read, and for each of the rows that were read, by number, which it belongs to.

    Rows that are `far` were read in any case, and stand for none but themselves: a stratum of their own. Of those that
    were given `earlier`, without the sizes of strata, these are the numbers.
    """
    if far is not None and keep < 1:
        strata, place = strata_of(rows[~far], start, end, keep, None if by is None else by[~far], open, above)
        places = np.full(len(rows), len(strata.kind))
        places[~far] = place
        apart = rows[far] if earlier is None else np.append(earlier, rows[far])
        if above <= 0 and not open:
            if by is None:
                np.subtract.at(strata.there, apart // STRATUM - start // STRATUM, 1)
            else:
                strata.there[strata.kind == KEYED_ROWS] -= len(apart)
        mine = int(far.sum())
        return (both(strata, entries([(ROWS, 1.0, -1, mine, mine)])) if mine else strata), places
    new = above <= 0
    keep = max(keep, _LEAST_KEEP)
    size = max(end - start, 0)
    if keep >= 1:
        known = (len(rows) if open else size) if new else 0
        return entries([(ROWS, 1.0, -1, len(rows), known)]), np.zeros(len(rows), np.int64)
    if by is not None:
        coded = encode([pa.array(by.view(np.int64))], len(by))
        units, place = coded.dictionaries[0].to_numpy(), coded.codes.astype(np.int64)
        kind = OPEN_KEY if open else KEY
        strata = _alike(kind, keep, units, np.bincount(place, minlength=len(units)), np.zeros(len(units), np.int64))
        if open or not new:
            return strata, place
        return both(strata, entries([(KEYED_ROWS, keep, -1, 0, size)])), place
    first, last = start // STRATUM, (end - 1) // STRATUM
    units = np.arange(first, last + 1) if size else np.zeros(0, np.int64)
    edges = np.clip(np.append(units, last + 1) * STRATUM, start, end)
    place = rows // STRATUM - first
    there = np.diff(edges) if size and new and not open else np.zeros(len(units), np.int64)
    return _alike(OPEN if open else ROWS, keep, units, np.bincount(place, minlength=len(units)), there), place


def entries(rows: list[tuple[int, float, int, int, int]]) -> Strata:
    kind, keep, unit, read, there = (np.array(column) for column in zip(*rows, strict=True))
    return Strata(kind, keep, unit, read, there)


def both(some: Strata, others: Strata) -> Strata:
    """One after the other."""
    return Strata(*(np.concatenate(two) for two in zip(some, others, strict=True)))


def _alike(kind: int, keep: float, units: Integers, read: Integers, there: Integers) -> Strata:
    return Strata(np.full(len(units), kind), np.full(len(units), keep), units, read.astype(np.int64), there)


def united(labels: Strata) -> tuple[Strata, Integers]:
    """One entry per stratum, in order, and the place of each entry that was given."""
    kind, keep, unit, read, there = labels
    order = np.lexsort([unit, keep, kind])
    new = np.ones(len(order), bool)
    new[1:] = (np.diff(kind[order]) != 0) | (np.diff(keep[order]) != 0) | (unit[order][1:] != unit[order][:-1])
    number = np.cumsum(new) - 1
    place = np.empty(len(order), np.int64)
    place[order] = number
    sizes = [np.zeros(int(new.sum()), np.int64) for _ in range(2)]
    for total, rows in zip(sizes, (read, there), strict=True):
        np.add.at(total, place, rows)
    firsts = order[new]
    return Strata(kind[firsts], keep[firsts], unit[firsts], *sizes), place


def collapsed(strata: Strata) -> Strata:
    """The same strata, small ones under the unit of their neighbour: with `united` they become one.

    Only rows read with one fraction can stand for each other. Strata must be in order.
    """
    kind, keep, unit, read, there = strata
    if not len(kind):
        return strata
    run = np.cumsum(np.append(True, (np.diff(kind) != 0) | (np.diff(keep) != 0)))
    joins = ((kind == ROWS) & (keep < 1)) | (kind == OPEN)
    first = _neighbours(frozen(run.astype(np.int64)), frozen(read), frozen(joins), LEAST_ROWS)
    if np.array_equal(first, np.arange(len(first))):
        return strata
    return Strata(kind, keep, unit[first], read, there)


@compiled
def _neighbours(run, read, joins, least):  # type: ignore[no-untyped-def]
    """The first stratum of those each is taken together with: until enough rows were read; the rest with the last."""
    firsts = np.empty(len(run), np.int64)
    before, first, rows = -1, 0, 0
    for i in range(len(run)):
        begins = i > 0 and run[i] != run[i - 1]
        if i > 0 and (begins or not joins[i] or rows >= least):
            if begins and rows < least and joins[i - 1] and before >= 0:
                firsts[first:i] = before
            before = -1 if begins else first
            first, rows = i, 0
        firsts[i] = first
        rows += read[i]
    if rows < least and before >= 0 and joins[first]:
        firsts[first:] = before
    return firsts
