"""G-INDEX: counts for ranges of values in a sorted list.

L. Golab, S. Garg and M. T. Özsu, "On Indexing Sliding Windows over On-line Data Streams" (2003), §5.4.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from anabranch.windows.index.base import Codes, Counts, Groups, Nodes
from anabranch.windows.index.linked_list import ListIndex
from anabranch.windows.index.ranges import Ranges


class GroupedIndex(ListIndex):
    """A list with one node per range, whose answers are the middles of ranges; how far off they are is up to `ranges`.

    A scan goes on where the last one ended, so a basic window that comes as a sorted list of ranges (GROUP) is
    merged in one pass: O(g / b) per tuple for g ranges and b tuples. Single tuples (LIST) cost O(g) each.
    """

    name: ClassVar[str] = "G"
    _resumes: ClassVar[bool] = True

    def __init__(self, ranges: Ranges) -> None:
        super().__init__()
        self.ranges = ranges

    def locate(self, codes: Codes, groups: Groups | None = None) -> Nodes:
        return super().locate(self.ranges.labels(codes), groups)

    def find(self, codes: Codes, groups: Groups | None = None) -> Nodes:
        return super().find(self.ranges.labels(codes), groups)

    def select(self, groups: Groups, ranks: Counts) -> Codes:
        return self.ranges.middles(super().select(groups, ranks))

    def mode(self, groups: Groups) -> tuple[Codes, Counts]:
        labels, counts = super().mode(groups)
        return self.ranges.middles(labels), counts

    def histogram(self, group: int = 0) -> tuple[Codes, Counts]:
        labels, counts = super().histogram(group)
        return self.ranges.middles(labels), counts

    def labels(self, group: int = 0) -> Codes:
        """The ranges that have tuples, ascending."""
        return super().histogram(group)[0]

    def codes(self) -> Codes:
        return self.ranges.middles(super().codes())

    def rekey(self, old: Codes, new: Codes) -> None:
        raise NotImplementedError("ranges are made of codes that never change")

    def draw(self, decode: Callable[[int], str] = str, group: int = 0) -> str:
        return super().draw(self.ranges.draw, group)
