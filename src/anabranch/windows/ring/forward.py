"""Rings linked forward in time: the plain one, and the one with an auxiliary index (AUX).

L. Golab, S. Garg and M. T. Özsu, "On Indexing Sliding Windows over On-line Data Streams" (2003), §6.1 and 6.2.

The index points to the oldest tuple of a ring, each tuple to the next newer one, the newest back to
the index. A second pointer, the end of the ring, marks the newest tuple that is visible.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from anabranch.kernels.compiled import compiled
from anabranch.windows.index.base import Nodes, SetIndex, prepared
from anabranch.windows.ring.base import DELETING, INSERTING, NONE, Numbers, Ring, more_pointers


class PlainRing(Ring):
    """The ring is walked to its end for each tuple that comes and for each that goes: O(N / D) for both."""

    name: ClassVar[str] = "plain"
    _auxiliary: ClassVar[bool] = False

    def __init__(self, index: SetIndex) -> None:
        super().__init__(index)
        self._oldest = np.full(index.capacity, NONE, np.int64)
        self._end = np.full(index.capacity, NONE, np.int64)
        self._local = np.full(index.capacity, NONE, np.int64)
        """The auxiliary index: the last tuple of each value in the newest basic window."""

    def _per_value(self) -> tuple[NDArray[Any], ...]:
        return self._oldest, self._end, self._local

    def _grow_values(self, size: int) -> None:
        self._oldest, self._end, self._local = (more_pointers(array, size) for array in self._per_value())

    def _insert(self, nodes: Nodes, number: int) -> None:
        _insert(nodes, number, self._auxiliary, self._link, self._oldest, self._local, self._steps)

    def _attach(self, first: int, after: int) -> None:
        _show(first, after, self._node, self._end, self._local)

    def _delete(self, first: int, after: int) -> None:
        _delete(first, after, self._link, self._oldest, self._end, self._steps)

    def _collect(self, nodes: Nodes) -> Numbers:
        size = int(self._index.count(nodes).sum())
        numbers: Numbers = _collect(prepared(nodes, np.int32), size, self._link, self._oldest, self._end)
        return numbers


class AuxiliaryRing(PlainRing):
    """A small index of the newest basic window: the ring is walked once per distinct value that comes.

    O(d / b · N / D) per tuple that comes, O(N / D) for each that goes.
    """

    name: ClassVar[str] = "AUX"
    _auxiliary: ClassVar[bool] = True


@compiled
def _insert(nodes, number, auxiliary, link, oldest, local, steps):  # type: ignore[no-untyped-def]
    mask = len(link) - 1
    for i in range(len(nodes)):
        node = nodes[i]
        new = number + i
        if oldest[node] == NONE:
            oldest[node] = new
        else:
            last = oldest[node]
            if auxiliary and local[node] != NONE:
                last = local[node]
            steps[INSERTING] += 1
            while link[last & mask] >= 0:
                last = link[last & mask]
                steps[INSERTING] += 1
            link[last & mask] = new
        link[new & mask] = ~np.int64(node)
        local[node] = new


@compiled
def _show(first, after, node_of, end, local):  # type: ignore[no-untyped-def]
    for number in range(first, after):
        node = node_of[number & (len(node_of) - 1)]
        end[node] = number
        local[node] = NONE


@compiled
def _delete(first, after, link, oldest, end, steps):  # type: ignore[no-untyped-def]
    mask = len(link) - 1
    for number in range(first, after):
        # Only the newest tuple knows the way to the index.
        following = link[number & mask]
        steps[DELETING] += 1
        last = following
        while last >= 0:
            last = link[last & mask]
            steps[DELETING] += 1
        node = ~last
        oldest[node] = following if following >= 0 else NONE
        if end[node] == number:
            end[node] = NONE


@compiled
def _collect(nodes, size, link, oldest, end):  # type: ignore[no-untyped-def]
    numbers = np.empty(size, np.int64)
    done = 0
    for i in range(len(nodes)):
        last = end[nodes[i]]
        if last == NONE:
            continue
        number = oldest[nodes[i]]
        numbers[done] = number
        done += 1
        while number != last:
            number = link[number & (len(link) - 1)]
            numbers[done] = number
            done += 1
    return numbers[:done]
