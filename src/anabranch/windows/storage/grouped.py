"""GROUP: counts for ranges of values."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import numpy as np

from anabranch.windows.draw import draw_list
from anabranch.windows.index.base import Codes, Groups
from anabranch.windows.index.ranges import Ranges
from anabranch.windows.storage.base import Entries, Storage, kernel_input
from anabranch.windows.storage.hashed import count_values


class GroupedStorage(Storage):
    """A count for each of g ranges, ascending; a range's entry has the code of its middle.

    The paper scans a list of ranges, O(g) per tuple; here a range is found in O(log g) or less. O(g) space.
    """

    name: ClassVar[str] = "GROUP"

    def __init__(self, ranges: Ranges) -> None:
        self.ranges = ranges

    def build(self, codes: Codes, groups: Groups | None = None) -> Entries:
        owners, labels, counts = count_values(*kernel_input(self.ranges.labels(codes), groups))
        order = np.argsort(labels) if groups is None else np.lexsort((labels, owners))
        middles = self.ranges.middles(labels[order])
        return Entries(None if groups is None else owners[order], middles, counts[order])

    def draw(self, entries: Entries, decode: Callable[[int], str] = str) -> str:
        assert entries.counts is not None
        labels = self.ranges.labels(entries.codes).tolist()
        return draw_list(f"{self.ranges.draw(r)}:{n}" for r, n in zip(labels, entries.counts.tolist(), strict=True))
