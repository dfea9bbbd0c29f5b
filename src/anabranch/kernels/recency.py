"""Which rows begin a group anew where only the groups with the newest rows are remembered.

A row finds its group if fewer than so many other groups have had a row since the last one of its own: its distance in
a stack of groups, the newest on top. A tree of counts over the places of rows, of which that of each group's newest row
is marked, tells it (as B. T. Bennett and V. J. Kruskal count LRU stack distances, 1975).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from anabranch.kernels.compiled import compiled
from anabranch.kernels.values import frozen

Ints = NDArray[np.int64]


def begin_anew(groups: Ints, held: Ints, newer: Ints, most: int) -> NDArray[np.bool_]:
    """For each row whether its group, one of `groups` for each row, begins with it, where `most` are remembered.

    `held` is for each group the place among those that were remembered before, from that whose newest row is oldest;
    -1: it was not. `newer` is for each of these how many groups besides, that have no row here, were newer.

    >>> rows, none = np.array([0, 1, 0, 2, 1, 0]), np.zeros(0, np.int64)
    >>> begin_anew(rows, np.full(3, -1), none, 2).tolist()
    [True, True, False, True, True, True]
    >>> begin_anew(rows, np.array([-1, 0, -1]), np.array([0]), 2).tolist()
    [True, False, False, True, True, True]
    """
    anew = np.zeros(len(groups), np.bool_)
    counts = np.zeros(len(newer) + len(groups) + 1, np.int64)
    _begin_anew(frozen(groups), held.astype(np.int64), frozen(newer), most, counts, anew)
    return anew


@compiled
def _begin_anew(groups, places, newer, most, counts, anew):  # type: ignore[no-untyped-def]
    held = len(newer)
    end = len(counts)
    marked = held
    for place in range(held):
        at = place + 1
        while at < end:
            counts[at] += 1
            at += at & -at
    for row in range(len(groups)):
        group = groups[row]
        place = places[group]
        if place < 0:
            anew[row] = True
        else:
            others = marked
            at = place + 1
            while at > 0:
                others -= counts[at]
                at -= at & -at
            if place < held:
                others += newer[place]
            anew[row] = others >= most
            marked -= 1
            at = place + 1
            while at < end:
                counts[at] -= 1
                at += at & -at
        places[group] = held + row
        marked += 1
        at = held + row + 1
        while at < end:
            counts[at] += 1
            at += at & -at
