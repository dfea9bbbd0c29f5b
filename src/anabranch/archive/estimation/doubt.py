"""What a sample may have missed: rows so far out that one of them would change what the others say.

Bounds that follow from how the rows that were read differ hold if no single row decides. Whether one does, the sample
alone cannot tell, but the range of all values can: as long as the squares of what was read are more than that of one
row at the end of the range, a normal estimate is as good as it says (each row has but a small part of the variance).
Where they are less, bounds reach further by what rows that were not read may add. That a sample missed such rows and
how those that it has happen to lie are two errors that know nothing of each other: they add up as squares do.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from anabranch.archive.estimation.ends import Ends, unseen
from anabranch.archive.estimation.reasons import ALIKE, CARRIED, KEPT_WHOLE, Case, Reasons, first_of
from anabranch.archive.estimation.variance import Design, Showing

_CARRIED_BY, _OF_ROWS = 1.5, 10.0
"""Where no range is known: few rows carry the sum if the squares of all that were read are less than those of so many
rows as far out as the last; of few rows, less than that of one in so many."""

Floats = NDArray[np.float64]


class Doubt(NamedTuple):
    """By group, how much further the bounds of a total reach, and why nothing can be said where that is so."""

    below: Floats
    above: Floats
    unknown: Reasons

    def widened(self, value: Floats, low: Floats, high: Floats, rows: Floats | float = 1.0) -> tuple[Floats, Floats]:
        """The bounds of a total, or where it is divided by so many `rows`, with what may have been missed."""
        below, above = self.below / rows, self.above / rows
        return (
            np.where(below > 0, value - np.hypot(np.maximum(value - low, 0), below), low),
            np.where(above > 0, value + np.hypot(np.maximum(high - value, 0), above), high),
        )


def doubt_of(design: Design, ends: Ends, seen: Showing, confidence: float) -> Doubt:
    """What to think of bounds that only follow from the rows that were read."""
    sure = Doubt(np.zeros(design.groups), np.zeros(design.groups), np.zeros(design.groups, np.int8))
    if design.exact or ends.range.low == ends.range.high:
        return sure
    there = seen.sampled > 0
    if not ends.known:
        few = _carried_by_few(ends, seen) & there & (not design.by_key)
        return sure._replace(unknown=first_of(design.groups, [Case(ALIKE, seen.alike), Case(CARRIED, few)]))
    low, high = ends.range
    if low > high:  # no values that were not read
        return sure
    one_row = np.maximum(high - seen.mean, seen.mean - low) ** 2
    missing = np.where(there, np.maximum(1 - seen.weighed / one_row, 0.0), 1.0)
    if design.by_key:  # how many keys were missed says nothing of how many rows
        return sure._replace(unknown=first_of(design.groups, [Case(KEPT_WHOLE, (missing > 0) & there)]))
    rows = missing * unseen(design.least_keep, confidence)
    above = rows * np.maximum(high - np.where(there, ends.most, 0.0), 0.0)
    below = rows * np.maximum(np.where(there, ends.least, 0.0) - low, 0.0)
    return sure._replace(below=below, above=above)


def _carried_by_few(ends: Ends, seen: Showing) -> NDArray[np.bool_]:
    with np.errstate(invalid="ignore"):
        reach = np.maximum(ends.most - seen.mean, seen.mean - ends.least)
        few: NDArray[np.bool_] = seen.squares < np.minimum(_CARRIED_BY, seen.sampled / _OF_ROWS) * reach**2
    return few
