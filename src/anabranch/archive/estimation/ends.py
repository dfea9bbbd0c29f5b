"""How far values reach: those that were read of each group, and those that may be among what was not read.

What a sample shows is worth as much as it could have shown. Rows were left out at random, so of rows beyond the last
that was read there are few (`unseen`), and how far they may lie out is known from the archive (`archive.facts`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from anabranch.archive.facts import ANYTHING, NOTHING, Range

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Ends:
    """By group the least and the largest value of rows that stand for others, and the range of all such rows."""

    least: Floats
    most: Floats
    range: Range

    @property
    def known(self) -> bool:
        """Whether it is known how far rows may lie out that were not read."""
        return self.range == NOTHING or bool(np.isfinite(self.range).all())

    def moved(self, code: NDArray[np.int64], groups: int) -> Ends:
        """The same with each group under its new number; groups may have become one."""
        least, most = _none(groups)
        np.fmin.at(least, code, self.least)
        np.fmax.at(most, code, self.most)
        return Ends(least, most, self.range)


def no_ends(groups: int, known: bool = True) -> Ends:
    """Those of groups of which no row stands for others."""
    return Ends(*_none(groups), NOTHING if known else ANYTHING)


def ends_of(codes: NDArray[np.int64], values: Floats, present: NDArray[np.bool_], groups: int, reach: Range) -> Ends:
    """The ends of the values that are present.

    >>> ends_of(np.array([0, 0, 1]), np.array([1.0, 5.0, 7.0]), np.ones(3, bool), 2, NOTHING).most.tolist()
    [5.0, 7.0]
    """
    least, most = _none(groups)
    np.fmin.at(least, codes[present], values[present])
    np.fmax.at(most, codes[present], values[present])
    return Ends(least, most, reach)


def all_ends(parts: Sequence[Ends]) -> Ends:
    """Those of several parts, one after the other."""
    reach = NOTHING
    for part in parts:
        reach = reach.with_(part.range)
    return Ends(np.concatenate([p.least for p in parts]), np.concatenate([p.most for p in parts]), reach)


def unseen(keep: float, confidence: float) -> float:
    """At most so many rows of any kind were there, if none was read; one of either side is left out of account.

    >>> round(unseen(0.01, 0.95))
    367
    """
    return math.log((1 - confidence) / 2) / math.log1p(-keep) if keep < 1 else 0.0


def _none(groups: int) -> tuple[Floats, Floats]:
    return np.full(groups, np.inf), np.full(groups, -np.inf)
