"""What a sample may have missed: rows so far out that one of them would change what the others say.

Bounds that follow from how the rows that were read differ hold if no single row decides. Whether one does, the sample
alone cannot tell, but the range of all values can: as long as the squares of what was read are more than that of one
row at the end of the range, a normal estimate is as good as it says (each row has but a small part of the variance).
Where they are less, bounds reach so much further as rows that were not read may add.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from anabranch.archive.estimation.ends import Ends, unseen
from anabranch.archive.estimation.variance import Design, Showing

_CARRIED_BY, _OF_ROWS = 1.5, 10.0
"""Where no range is known: few rows carry the sum if the squares of all that were read are less than those of so many
rows as far out as the last; of few rows, less than that of one in so many."""

Floats = NDArray[np.float64]


class Doubt(NamedTuple):
    """By group, how much further the bounds of a total reach, and where nothing can be said."""

    below: Floats
    above: Floats
    unknown: NDArray[np.bool_]


def doubt_of(design: Design, ends: Ends, seen: Showing, confidence: float) -> Doubt:
    """What to think of bounds that only follow from the rows that were read."""
    sure = Doubt(np.zeros(design.groups), np.zeros(design.groups), np.zeros(design.groups, bool))
    if design.exact or ends.range.low == ends.range.high:
        return sure
    there = seen.sampled > 0
    if not ends.known:
        return sure._replace(unknown=seen.alike | (_carried_by_few(ends, seen) & there & (not design.by_key)))
    low, high = ends.range
    if low > high:  # no values that were not read
        return sure
    one_row = np.maximum(high - seen.mean, seen.mean - low) ** 2
    missing = np.where(there, np.maximum(1 - seen.weighed / one_row, 0.0), 1.0)
    if design.by_key:  # how many keys were missed says nothing of how many rows
        return sure._replace(unknown=(missing > 0) & there)
    rows = missing * unseen(design.least_keep, confidence)
    above = rows * np.maximum(high - np.where(there, ends.most, 0.0), 0.0)
    below = rows * np.maximum(np.where(there, ends.least, 0.0) - low, 0.0)
    return Doubt(below, above, np.zeros(design.groups, bool))


def _carried_by_few(ends: Ends, seen: Showing) -> NDArray[np.bool_]:
    with np.errstate(invalid="ignore"):
        reach = np.maximum(ends.most - seen.mean, seen.mean - ends.least)
        few: NDArray[np.bool_] = seen.squares < np.minimum(_CARRIED_BY, seen.sampled / _OF_ROWS) * reach**2
    return few
