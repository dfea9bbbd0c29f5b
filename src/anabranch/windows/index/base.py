"""What every index over a window can do: the values in the window and how often each is there.

L. Golab, S. Garg and M. T. Özsu, "On Indexing Sliding Windows over On-line Data Streams" (2003), §5.

An index holds one independent histogram per *group*; without groups all is in group 0. Values are
int64 codes (`windows.basic.values`). A value has a *node*, a number that stays the same until the value is
purged; basic windows keep nodes instead of values (the domain storage model), so what comes in and what goes
out only follows them. Nodes are rows of flat arrays; node 0 stands for "none".

Costs are given as in Table 1: D values are in the window, and locating is per entry of a basic window, so per tuple
for LIST and d / b times per tuple for AGGR and HASH, with d values among b tuples. Counting an entry is O(1).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from anabranch.kernels.compiled import compiled
from anabranch.kernels.values import frozen

Codes: TypeAlias = NDArray[np.int64]
Counts: TypeAlias = NDArray[np.int64]
Groups: TypeAlias = NDArray[np.int32]
Nodes: TypeAlias = NDArray[np.int32]

USED, FREE, ZEROS, LIVE = range(4)
"""Places in `_tally`: nodes ever used, the first free one, nodes of count 0, nodes in the index."""

_FIRST_NODES = 64
_NO_GROUPS: Groups = frozen(np.empty(0, np.int32))


class SetIndex(ABC):
    """Values and their counts, per group."""

    name: ClassVar[str]

    def __init__(self) -> None:
        self._key = np.zeros(_FIRST_NODES, np.int64)
        self._count = np.zeros(_FIRST_NODES, np.int64)
        self._group = np.full(_FIRST_NODES, -1, np.int32)
        self._link = np.zeros(_FIRST_NODES, np.int32)
        """The next node of a list, or the next free node."""
        self._tally = np.zeros(4, np.int64)
        self._distinct = np.zeros(1, np.int64)
        self._total = np.zeros(1, np.int64)

    # -- keeping it up to date -------------------------------------------------------------------

    def reserve_groups(self, count: int) -> None:
        """Make room for groups 0 ≤ g < count."""
        if count > len(self._distinct):
            self._grow_groups(max(count, 2 * len(self._distinct)))

    def locate(self, codes: Codes, groups: Groups | None = None) -> Nodes:
        """The node of each value, made with count 0 where the value is new."""
        codes, owners = prepared(codes, np.int64), _NO_GROUPS if groups is None else prepared(groups, np.int32)
        nodes = np.empty(len(codes), np.int32)
        done = self._locate(codes, owners, 0, nodes)
        while done < len(codes):
            self._grow_nodes(2 * len(self._key))
            done = self._locate(codes, owners, done, nodes)
        return nodes

    def find(self, codes: Codes, groups: Groups | None = None) -> Nodes:
        """The node of each value, -1 where it is not in the index."""
        codes, owners = prepared(codes, np.int64), _NO_GROUPS if groups is None else prepared(groups, np.int32)
        return self._find(codes, owners)

    def add(self, nodes: Nodes, counts: Counts | None = None) -> None:
        """Count the values of these nodes, `counts` times each or once."""
        self._change(nodes, counts, 1)

    def subtract(self, nodes: Nodes, counts: Counts | None = None) -> None:
        """Take back what was added."""
        self._change(nodes, counts, -1)

    def purge(self) -> int:
        """Remove the nodes of count 0, give how many there were; the numbers of the others stay valid."""
        gone = self.zeros
        if gone:
            self._purge()
            self._tally[ZEROS] = 0
            self._tally[LIVE] -= gone
        return gone

    def rekey(self, old: Codes, new: Codes) -> None:
        """The codes `old`, ascending, are now `new`, ascending."""
        nodes = self._nodes()
        self._key[nodes] = new[np.searchsorted(old, self._key[nodes])]

    # -- asking it -------------------------------------------------------------------------------

    def count(self, nodes: Nodes) -> Counts:
        """How often the value of each node is there."""
        return self._count[nodes]

    @property
    def zeros(self) -> int:
        """Nodes of count 0, which wait to be purged."""
        return int(self._tally[ZEROS])

    @property
    def live(self) -> int:
        """Nodes in the index, those of count 0 too."""
        return int(self._tally[LIVE])

    def distinct(self, groups: Groups) -> Counts:
        """How many values each group has."""
        return self._distinct[groups]

    def total(self, groups: Groups) -> Counts:
        """How many tuples each group has."""
        return self._total[groups]

    def select(self, groups: Groups, ranks: Counts) -> Codes:
        """The code of the rank-th smallest tuple, from 0, of each group."""
        some, which = np.unique(groups, return_inverse=True)
        nodes, bounds = self._ordered(prepared(some, np.int32))
        seen = np.cumsum(self._count[nodes])
        before = np.append(0, seen)[bounds[:-1]]
        return self._key[nodes[np.searchsorted(seen, before[which] + ranks, side="right")]]

    def mode(self, groups: Groups) -> tuple[Codes, Counts]:
        """The most frequent value of each group, the smallest of several, and its count."""
        some, which = np.unique(groups, return_inverse=True)
        nodes, bounds = self._ordered(prepared(some, np.int32))
        if not len(nodes):
            return np.zeros(len(groups), np.int64), np.zeros(len(groups), np.int64)
        counts = self._count[nodes]
        highest = np.maximum.reduceat(counts, bounds[:-1])
        top = np.flatnonzero(counts == np.repeat(highest, np.diff(bounds)))
        first = top[np.searchsorted(top, bounds[:-1])]
        return self._key[nodes[first]][which], highest[which]

    def histogram(self, group: int = 0) -> tuple[Codes, Counts]:
        """The values in the group, ascending, and their counts."""
        nodes = self.ordered_nodes(group)
        return self._key[nodes], self._count[nodes]

    def top(self, group: int, k: int) -> tuple[Codes, Counts]:
        """The k most frequent values, the smaller one first where counts are equal."""
        codes, counts = self.histogram(group)
        if 0 < k < len(counts):
            least = np.partition(counts, len(counts) - k)[len(counts) - k]
            codes, counts = codes[counts >= least], counts[counts >= least]
        order = np.argsort(-counts, kind="stable")[:k]
        return codes[order], counts[order]

    def codes(self) -> Codes:
        """All codes in the index, ascending, those of count 0 too."""
        return np.unique(self._key[self._nodes()])

    def ordered_nodes(self, group: int = 0) -> Nodes:
        """The nodes of the values in the group, ascending by value."""
        return self._ordered(prepared(np.array([group]), np.int32))[0]

    def key(self, nodes: Nodes) -> Codes:
        """The code of each node's value."""
        return self._key[nodes]

    @property
    def groups(self) -> int:
        """How many groups there is room for."""
        return len(self._distinct)

    @property
    def capacity(self) -> int:
        """No node has a number as high as this; it grows."""
        return len(self._key)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(array.nbytes for array in vars(self).values() if isinstance(array, np.ndarray))

    @abstractmethod
    def draw(self, decode: Callable[[int], str] = str, group: int = 0) -> str:
        """The index as text."""

    # -- for each kind of index ------------------------------------------------------------------

    @abstractmethod
    def _locate(self, codes: Codes, groups: Groups, start: int, nodes: Nodes) -> int:
        """Fill nodes[start:]; where there is no room for a new node, stop and give the place."""

    @abstractmethod
    def _find(self, codes: Codes, groups: Groups) -> Nodes: ...

    @abstractmethod
    def _purge(self) -> None:
        """Unlink and `release` the nodes of count 0."""

    def _ordered(self, groups: Groups) -> tuple[Nodes, Counts]:
        """Nodes of count > 0 of distinct groups, ascending in each, and where each group's begin and end."""
        place = np.full(len(self._distinct), -1, np.int32)
        place[groups] = np.arange(len(groups))
        nodes = self._nodes()
        nodes = nodes[self._count[nodes] > 0]
        at = place[self._group[nodes]]
        nodes, at = nodes[at >= 0], at[at >= 0]
        order = np.argsort(self._key[nodes]) if len(groups) == 1 else np.lexsort((self._key[nodes], at))
        bounds = np.append(0, np.cumsum(np.bincount(at, minlength=len(groups))))
        return nodes[order], bounds

    def _nodes(self) -> Nodes:
        """All nodes in the index."""
        return np.flatnonzero(self._group[: self._tally[USED] + 1] >= 0).astype(np.int32)

    def _change(self, nodes: Nodes, counts: Counts | None, sign: int) -> None:
        nodes = prepared(nodes, np.int32)
        state = (self._count, self._group, self._distinct, self._total, self._tally)
        if counts is None:
            _count_once(nodes, sign, *state)
        else:
            _count_often(nodes, prepared(counts, np.int64), sign, *state)

    def _grow_nodes(self, size: int) -> None:
        self._key, self._count = grown(self._key, size), grown(self._count, size)
        self._group, self._link = grown(self._group, size, -1), grown(self._link, size)

    def _grow_groups(self, size: int) -> None:
        self._distinct, self._total = grown(self._distinct, size), grown(self._total, size)


def prepared(array: NDArray[Any], dtype: type) -> NDArray[Any]:
    """The array as kernels take it: of this type, in one piece, read-only."""
    flags = array.flags
    if array.dtype == dtype and flags.c_contiguous and not flags.writeable:
        return array
    return frozen(np.ascontiguousarray(array, dtype))


def grown(array: NDArray[Any], size: int, fill: int = 0) -> NDArray[Any]:
    """A longer copy."""
    longer = np.full(size, fill, array.dtype)
    longer[: len(array)] = array
    return longer


@compiled
def _count_once(nodes, sign, count, group, distinct, total, tally):  # type: ignore[no-untyped-def]
    for i in range(len(nodes)):
        node = nodes[i]
        before = count[node]
        after = before + sign
        count[node] = after
        total[group[node]] += sign
        if before == 0:
            distinct[group[node]] += 1
            tally[ZEROS] -= 1
        if after == 0:
            distinct[group[node]] -= 1
            tally[ZEROS] += 1


@compiled
def _count_often(nodes, counts, sign, count, group, distinct, total, tally):  # type: ignore[no-untyped-def]
    for i in range(len(nodes)):
        node = nodes[i]
        before = count[node]
        after = before + sign * counts[i]
        count[node] = after
        total[group[node]] += after - before
        if before == 0 and after != 0:
            distinct[group[node]] += 1
            tally[ZEROS] -= 1
        if after == 0 and before != 0:
            distinct[group[node]] -= 1
            tally[ZEROS] += 1


@compiled
def take_node(code, owner, key, count, group, link, tally):  # type: ignore[no-untyped-def]
    """A node for a new value, 0 if there is no room."""
    node = tally[FREE]
    if node != 0:
        tally[FREE] = link[node]
    elif tally[USED] + 1 < len(key):
        tally[USED] += 1
        node = tally[USED]
    else:
        return 0
    key[node] = code
    count[node] = 0
    group[node] = owner
    link[node] = 0
    tally[ZEROS] += 1
    tally[LIVE] += 1
    return node
