"""What window functions say of a row by its place: among the rows of its part, which stand together and in order.

Peers are rows that the order does not tell apart; neither parts nor peers are empty.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from anabranch.kernels.refining import Bounds

Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Standing:
    """Where parts and peers begin, and where the last one ends; the rest is said for each row."""

    parts: Bounds
    peers: Bounds

    def __len__(self) -> int:
        return int(self.parts[-1])

    @functools.cached_property
    def place(self) -> Numbers:
        return np.arange(len(self))

    @functools.cached_property
    def begin(self) -> Numbers:
        """Where its part begins."""
        return np.repeat(self.parts[:-1], np.diff(self.parts))

    @functools.cached_property
    def end(self) -> Numbers:
        """Behind the last row of its part."""
        return np.repeat(self.parts[1:], np.diff(self.parts))

    @functools.cached_property
    def first_peer(self) -> Numbers:
        return np.repeat(self.peers[:-1], np.diff(self.peers))

    @functools.cached_property
    def behind_peers(self) -> Numbers:
        return np.repeat(self.peers[1:], np.diff(self.peers))


def row_number(at: Standing) -> Numbers:
    return at.place - at.begin + 1


def rank(at: Standing) -> Numbers:
    """One more than rows stand before all its peers.

    >>> rank(Standing(np.array([0, 4]), np.array([0, 1, 3, 4]))).tolist()
    [1, 2, 2, 4]
    """
    return at.first_peer - at.begin + 1


def dense_rank(at: Standing) -> Numbers:
    """One more than different peers stand before.

    >>> dense_rank(Standing(np.array([0, 4, 5]), np.array([0, 1, 3, 4, 5]))).tolist()
    [1, 2, 2, 3, 1]
    """
    number = np.repeat(np.arange(len(at.peers) - 1), np.diff(at.peers))
    return number - number[at.begin] + 1


def percent_rank(at: Standing) -> NDArray[np.float64]:
    """The rank as a share of the others, 0 where there are none."""
    share: NDArray[np.float64] = (rank(at) - 1) / np.maximum(at.end - at.begin - 1, 1)
    return share


def cume_dist(at: Standing) -> NDArray[np.float64]:
    """The share of rows that come before or with it."""
    share: NDArray[np.float64] = (at.behind_peers - at.begin) / (at.end - at.begin)
    return share


def ntile(at: Standing, count: int) -> Numbers:
    """Which of `count` tiles it is in; sizes differ by one at most, the first are the larger ones.

    >>> ntile(Standing(np.array([0, 5]), np.array([0, 5])), 3).tolist()
    [1, 1, 2, 2, 3]
    """
    place = at.place - at.begin
    size, larger = np.divmod(at.end - at.begin, count)
    in_larger = larger * (size + 1)
    behind: Numbers = larger + (place - in_larger) // np.maximum(size, 1)
    return np.where(place < in_larger, place // (size + 1), behind) + 1
