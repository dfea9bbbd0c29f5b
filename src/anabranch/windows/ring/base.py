"""Ring indices: from a value to its tuples, and all tuples in the order of values.

L. Golab, S. Garg and M. T. Özsu, "On Indexing Sliding Windows over On-line Data Streams" (2003), §6.

Tuples of equal value are linked together; the index points to one end of the ring, the tuple at
the other end points back to the index. Rings stand on any index of single values (L, T, H, UH). Tuples are
numbered as they come, NULL left out; those of the newest basic window stay invisible until it is
attached.

Links lie in circular arrays, which hold the tuples of the window and no more. A link is the number of a tuple,
or ~node: back to the index.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from anabranch.windows.index.base import Codes, Nodes, SetIndex, grown, prepared

Numbers: TypeAlias = NDArray[np.int64]

NONE = -(1 << 62)
"""Where a pointer leads nowhere."""

INSERTING, DELETING = 0, 1


class Ring(ABC):
    """Rings over the values of one index."""

    name: ClassVar[str]

    def __init__(self, index: SetIndex) -> None:
        self._index = index
        self._link = np.full(64, NONE, np.int64)
        """By tuple number, modulo the length, which is a power of two."""
        self._node = np.zeros(64, np.int32)
        """The value of each tuple (domain storage)."""
        self._bounds: deque[int] = deque([0])
        """The first tuple of each attached basic window, and the first one after them."""
        self._next = 0
        self._steps = np.zeros(2, np.int64)

    @property
    def steps(self) -> tuple[int, int]:
        """Links followed so far when inserting and when deleting."""
        inserting, deleting = self._steps.tolist()
        return inserting, deleting

    @property
    def first(self) -> int:
        """The number of the oldest tuple."""
        return self._bounds[0]

    def append(self, nodes: Nodes) -> None:
        """Tuples of the newest basic window, as nodes of their values; invisible until attached."""
        size = len(self._link)
        while self._next - self.first + len(nodes) > size:
            size *= 2
        if size > len(self._link):
            self._grow_tuples(size)
        if self._index.capacity > len(self._per_value()[0]):
            self._grow_values(self._index.capacity)
        begin = self._next & (size - 1)
        self._node[begin : begin + len(nodes)] = nodes[: size - begin]
        self._node[: max(0, begin + len(nodes) - size)] = nodes[size - begin :]
        self._insert(prepared(nodes, np.int32), self._next)
        self._next += len(nodes)

    def attach(self) -> None:
        """Make the newest basic window visible."""
        self._attach(self._bounds[-1], self._next)
        self._bounds.append(self._next)

    def evict(self) -> None:
        """Remove the oldest basic window."""
        first = self._bounds.popleft()
        self._delete(first, self._bounds[0])

    def tuples(self, code: int, group: int = 0) -> Numbers:
        """The numbers of the visible tuples with a value, oldest first."""
        nodes = self._index.find(np.array([code]), np.array([group], np.int32))
        return self._collect(nodes[nodes >= 0])

    def in_order(self, group: int = 0) -> Numbers:
        """The numbers of all visible tuples, smallest value first, oldest first where values are equal."""
        return self._collect(self._index.ordered_nodes(group))

    def of_nodes(self, nodes: Nodes) -> Numbers:
        """The numbers of the visible tuples with the values of nodes, value by value, oldest first."""
        return self._collect(prepared(nodes, np.int32))

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in vars(self).values() if isinstance(array, np.ndarray))

    def draw(self, decode: Callable[[int], str] = str, group: int = 0) -> str:
        """A line for each value: the numbers of its tuples, oldest first."""
        nodes = self._index.ordered_nodes(group)
        codes: Codes = self._index.key(nodes)
        lines = []
        for code, node in zip(codes.tolist(), nodes, strict=True):
            lines.append(f"{decode(code)}: {' '.join(f'#{t}' for t in self._collect(node[None]).tolist())}")
        return "\n".join(lines)

    @abstractmethod
    def _per_value(self) -> tuple[NDArray[Any], ...]:
        """The arrays with an element for each node of the index."""

    @abstractmethod
    def _grow_values(self, size: int) -> None: ...

    @abstractmethod
    def _insert(self, nodes: Nodes, number: int) -> None:
        """Link tuples `number`, `number` + 1, … of the newest basic window."""

    @abstractmethod
    def _attach(self, first: int, after: int) -> None:
        """Make tuples first ≤ t < after visible."""

    @abstractmethod
    def _delete(self, first: int, after: int) -> None:
        """Take tuples first ≤ t < after, the oldest of all, out of their rings."""

    @abstractmethod
    def _collect(self, nodes: Nodes) -> Numbers:
        """The visible tuples of values, value by value, oldest first."""

    def _grow_tuples(self, size: int) -> None:
        numbers = np.arange(self.first, self._next)
        link, node = np.full(size, NONE, np.int64), np.zeros(size, np.int32)
        link[numbers % size] = self._link[numbers % len(self._link)]
        node[numbers % size] = self._node[numbers % len(self._node)]
        self._link, self._node = link, node


def more_pointers(pointers: Numbers, size: int) -> Numbers:
    """A longer array of pointers that lead nowhere."""
    return grown(pointers, size, NONE)
