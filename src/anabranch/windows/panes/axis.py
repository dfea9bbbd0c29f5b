"""How an axis (time in µs, or row numbers) is cut into panes so that every window is a run of whole panes.

These are the basic windows of L. Golab, S. Garg and M. T. Özsu, "On Indexing Sliding Windows over
On-line Data Streams" (2003), §3: rows are folded once, into their pane; a window's answer is
combined from those of its panes. The pane is as long as possible: gcd(size, slide).

A window of thousands of panes is combined from nodes, blocks of 4, 16, 64, … panes
(`kernels.spans`). Which nodes make a window depends on the numbers of its panes alone, so an
answer is the same to the last bit however the rows came in.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from anabranch.kernels.spans import LEVELS, cover, window_ends

Nodes = NDArray[np.int64]


@dataclass(frozen=True)
class Panes:
    """Windows [e - size, e) for every multiple e of slide.

    >>> p = Panes(size=6, slide=4)
    >>> p.length, p.per_window, p.per_slide
    (2, 3, 2)
    >>> p.first_needed(axis=4)    # the next window ends at 8 and starts at 2, which is pane 1
    1
    """

    size: int
    slide: int

    @property
    def length(self) -> int:
        return math.gcd(self.size, self.slide)

    @property
    def per_window(self) -> int:
        return self.size // self.length

    @property
    def per_slide(self) -> int:
        return self.slide // self.length

    @property
    def top(self) -> int:
        """The highest level of node that windows are made of."""
        level = 0
        while level < LEVELS - 1 and 4 ** (level + 1) * 2 <= self.per_window:
            level += 1
        return level

    def of(self, axis: int) -> int:
        """The pane that holds a point of the axis."""
        return axis // self.length

    def next_end(self, axis: int) -> int:
        """The end, on the axis, of the first window that is not complete when the axis has reached `axis`."""
        return (axis // self.slide + 1) * self.slide

    def first_needed(self, axis: int) -> int:
        """The first pane of the first window that is not complete at `axis`."""
        return (self.next_end(axis) - self.size) // self.length

    def used(self, panes: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which panes lie in any window; all of them unless windows leave gaps."""
        return self.per_slide - panes % self.per_slide <= self.per_window

    def ends(self, after: int, upto: int, filled: NDArray[np.int64], before: int | None) -> Nodes:
        """Ends, in panes, of the windows that end on the axis in (after, upto] and may hold rows.

        `filled` are panes known to hold rows; with `before`, any pane below it may hold rows too.
        """
        low, high = self.of(after), self.of(upto)
        ends: Nodes = window_ends(filled, self.per_window, self.per_slide, low, high)
        if before is None:
            return ends
        last = min(high, before - 1 + self.per_window)
        old = np.arange((low // self.per_slide + 1) * self.per_slide, last + 1, self.per_slide)
        return np.union1d(old, ends)

    def cover(self, ends: Nodes) -> tuple[Nodes, NDArray[np.int64]]:
        """The nodes of each window, in order, and the bounds of each window's list."""
        nodes, bounds = cover(ends, self.per_window, self.top)
        return nodes, bounds

    def straddling(self, low: int, pane: int, high: int) -> Nodes:
        """Nodes that begin at or after `low` and before `pane`, and end after `pane`, up to `high`."""
        nodes = []
        for level in range(1, self.top + 1):
            index = pane >> 2 * level
            if low <= index << 2 * level < pane and (index + 1) << 2 * level <= high:
                nodes.append(index * LEVELS + level)
        return np.array(nodes, np.int64)


@dataclass(frozen=True)
class FinePanes(Panes):
    """The same windows of panes that are cut into parts.

    >>> p = FinePanes(size=6, slide=4, parts=2)
    >>> p.length, p.per_window, p.per_slide
    (1, 6, 4)
    """

    parts: int = 1

    @property
    def length(self) -> int:
        return super().length // self.parts


FIRST_DATE = -62_135_596_800_000_000
"""0001-01-01, in µs: no date is earlier, for Python and Spark."""


def window_starts(ends: NDArray[np.int64], size: int | NDArray[np.int64], by_rows: bool = False) -> NDArray[np.int64]:
    """Where windows begin, as they are told: not before the first row or date there can be.

    >>> window_starts(np.array([5, 20]), 10, by_rows=True)
    array([ 0, 10])
    """
    first = 0 if by_rows else FIRST_DATE
    return np.where(ends > first, np.maximum(ends - size, first), ends - size)


def node_start(nodes: Nodes) -> Nodes:
    """The first pane of each node."""
    return (nodes // LEVELS) << 2 * (nodes % LEVELS)


def node_end(nodes: Nodes) -> Nodes:
    """The pane after the last of each node."""
    return (nodes // LEVELS + 1) << 2 * (nodes % LEVELS)


def children(nodes: Nodes) -> Nodes:
    """The four nodes each node is made of, in order."""
    index, level = np.divmod(nodes, LEVELS)
    parts: Nodes = ((index[:, None] * 4 + np.arange(4)) * LEVELS + (level[:, None] - 1)).ravel()
    return parts
