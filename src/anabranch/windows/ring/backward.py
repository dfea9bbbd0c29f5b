"""Rings linked backwards in time: BW, and BW with dirty bits (DB).

L. Golab, S. Garg and M. T. Özsu, "On Indexing Sliding Windows over On-line Data Streams" (2003), §6.3 and 6.4.

The index points to the newest tuple of a ring, each tuple to the next older one, the oldest back to
the index. Going backwards, all tuples of an expiring basic window come last in their ring, so they go
together. The newest basic window has an auxiliary index with rings of its own until it is attached.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from anabranch.kernels.compiled import compiled
from anabranch.windows.index.base import Nodes, SetIndex, prepared
from anabranch.windows.ring.base import DELETING, INSERTING, NONE, Numbers, Ring, more_pointers


class BackwardRing(Ring):
    """One walk through the ring per distinct value that goes, to the oldest tuple that stays: O(d / b · N / D).

    A tuple that comes costs O(1): the newest tuple before it is where the index points to.
    """

    name: ClassVar[str] = "BW"
    _dirty_bits: ClassVar[bool] = False

    def __init__(self, index: SetIndex) -> None:
        super().__init__(index)
        self._newest = np.full(index.capacity, NONE, np.int64)
        self._local_newest = np.full(index.capacity, NONE, np.int64)
        self._local_oldest = np.full(index.capacity, NONE, np.int64)
        self._stale = np.full(index.capacity, NONE, np.int64)
        """The expired tuple that a ring still ends with; the dirty bit is set where there is one."""

    def _per_value(self) -> tuple[NDArray[Any], ...]:
        return self._newest, self._local_newest, self._local_oldest, self._stale

    def _grow_values(self, size: int) -> None:
        longer = (more_pointers(array, size) for array in self._per_value())
        self._newest, self._local_newest, self._local_oldest, self._stale = longer

    def _insert(self, nodes: Nodes, number: int) -> None:
        _insert(nodes, number, self._link, self._local_newest, self._local_oldest, self._steps)

    def _attach(self, first: int, after: int) -> None:
        arrays = (self._link, self._newest, self._local_newest, self._local_oldest, self._steps)
        _join(first, after, self._node, *arrays)

    def _delete(self, first: int, after: int) -> None:
        arrays = (self._link, self._newest, self._stale, self._steps)
        _delete(first, after, self._dirty_bits, self._node, *arrays)

    def _collect(self, nodes: Nodes) -> Numbers:
        size = int(self._index.count(nodes).sum())
        numbers: Numbers = _collect(prepared(nodes, np.int32), size, self._link, self._newest, self._stale)
        return numbers


class DirtyBitRing(BackwardRing):
    """No walk at all: a ring may end with one expired tuple, which queries know by the dirty bit. O(1) per tuple."""

    name: ClassVar[str] = "DB"
    _dirty_bits: ClassVar[bool] = True

    @property
    def dirty(self) -> NDArray[np.bool_]:
        """By node: whether the ring's last tuple is expired."""
        bits: NDArray[np.bool_] = self._stale != NONE
        return bits


@compiled
def _insert(nodes, number, link, local_newest, local_oldest, steps):  # type: ignore[no-untyped-def]
    for i in range(len(nodes)):
        node = nodes[i]
        new = number + i
        if local_newest[node] == NONE:
            local_oldest[node] = new
            link[new & (len(link) - 1)] = ~np.int64(node)
        else:
            link[new & (len(link) - 1)] = local_newest[node]
            steps[INSERTING] += 1
        local_newest[node] = new


@compiled
def _join(first, after, node_of, link, newest, local_newest, local_oldest, steps):  # type: ignore[no-untyped-def]
    """Put the rings of the newest basic window in front of those of the window."""
    mask = len(link) - 1
    for number in range(first, after):
        node = node_of[number & mask]
        if local_newest[node] == NONE:
            continue
        if newest[node] != NONE:
            link[local_oldest[node] & mask] = newest[node]
            steps[INSERTING] += 1
        newest[node] = local_newest[node]
        local_newest[node] = local_oldest[node] = NONE


@compiled
def _delete(first, after, dirty_bits, node_of, link, newest, stale, steps):  # type: ignore[no-untyped-def]
    mask = len(link) - 1
    # From the youngest on: the first tuple met of each ring has all others that go behind it.
    for number in range(after - 1, first - 1, -1):
        steps[DELETING] += 1
        if link[number & mask] == NONE:
            continue
        node = node_of[number & mask]
        behind = number
        while behind >= first:
            older = link[behind & mask]
            link[behind & mask] = NONE
            behind = older
        stale[node] = NONE
        if newest[node] == number:
            newest[node] = NONE
        elif dirty_bits:
            stale[node] = number
        else:
            active = newest[node]
            steps[DELETING] += 1
            while link[active & mask] != number:
                active = link[active & mask]
                steps[DELETING] += 1
            link[active & mask] = ~np.int64(node)


@compiled
def _collect(nodes, size, link, newest, stale):  # type: ignore[no-untyped-def]
    numbers = np.empty(size, np.int64)
    done = 0
    for i in range(len(nodes)):
        node = nodes[i]
        begin = done
        number = newest[node]
        while number >= 0 and number != stale[node]:
            numbers[done] = number
            done += 1
            number = link[number & (len(link) - 1)]
        numbers[begin:done] = numbers[begin:done][::-1].copy()
    return numbers[:done]
