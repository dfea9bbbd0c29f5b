"""L-INDEX: the values of each group in a sorted linked list.

L. Golab, S. Garg and M. T. Özsu, "On Indexing Sliding Windows over On-line Data Streams" (2003), §5.1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import numpy as np

from anabranch.kernels.compiled import compiled
from anabranch.windows.draw import draw_list
from anabranch.windows.index.base import FREE, Codes, Counts, Groups, Nodes, SetIndex, grown, take_node


class ListIndex(SetIndex):
    """A sorted list: locating scans it, O(D) per tuple; it is itself the answer to a histogram query."""

    name: ClassVar[str] = "L"
    _resumes: ClassVar[bool] = False
    """Whether a scan goes on from where the last one ended instead of from the head."""

    def __init__(self) -> None:
        super().__init__()
        self._head = np.zeros(1, np.int32)

    def draw(self, decode: Callable[[int], str] = str, group: int = 0) -> str:
        labels = []
        node = int(self._head[group])
        while node:
            labels.append(f"{decode(int(self._key[node]))}:{self._count[node]}")
            node = int(self._link[node])
        return draw_list(labels)

    def _locate(self, codes: Codes, groups: Groups, start: int, nodes: Nodes) -> int:
        arrays = (self._head, self._key, self._count, self._group, self._link, self._tally)
        done: int = _locate(codes, groups, start, nodes, self._resumes, *arrays)
        return done

    def _find(self, codes: Codes, groups: Groups) -> Nodes:
        nodes: Nodes = _find(codes, groups, self._resumes, self._head, self._key, self._link)
        return nodes

    def _ordered(self, groups: Groups) -> tuple[Nodes, Counts]:
        size = int(self._distinct[groups].sum())
        nodes, bounds = _in_order(groups, size, self._head, self._count, self._link)
        return nodes, bounds

    def _purge(self) -> None:
        unlink_zeros(self._head, self._count, self._group, self._link, self._tally)

    def _grow_groups(self, size: int) -> None:
        super()._grow_groups(size)
        self._head = grown(self._head, size)


@compiled
def _scan(code, owner, resumes, last, last_owner, head, key, link):  # type: ignore[no-untyped-def]
    """The last node before the code (0: the head) and the one after it."""
    before = np.int32(0)
    if resumes and last != 0 and owner == last_owner and key[last] < code:
        before = last
    node = link[before] if before != 0 else head[owner]
    while node != 0 and key[node] < code:
        before = node
        node = link[node]
    return before, node


@compiled
def _locate(codes, groups, start, nodes, resumes, head, key, count, group, link, tally):  # type: ignore[no-untyped-def]
    last = last_owner = np.int32(0)
    for i in range(start, len(codes)):
        owner = groups[i] if len(groups) else np.int32(0)
        before, node = _scan(codes[i], owner, resumes, last, last_owner, head, key, link)
        if node == 0 or key[node] != codes[i]:
            new = np.int32(take_node(codes[i], owner, key, count, group, link, tally))
            if new == 0:
                return i
            link[new] = node
            if before != 0:
                link[before] = new
            else:
                head[owner] = new
            node = new
        nodes[i] = node
        last, last_owner = before, owner
    return len(codes)


@compiled
def _find(codes, groups, resumes, head, key, link):  # type: ignore[no-untyped-def]
    nodes = np.empty(len(codes), np.int32)
    last = last_owner = np.int32(0)
    for i in range(len(codes)):
        owner = groups[i] if len(groups) else np.int32(0)
        last, node = _scan(codes[i], owner, resumes, last, last_owner, head, key, link)
        last_owner = owner
        nodes[i] = node if node != 0 and key[node] == codes[i] else -1
    return nodes


@compiled
def _in_order(groups, size, head, count, link):  # type: ignore[no-untyped-def]
    nodes = np.empty(size, np.int32)
    bounds = np.zeros(len(groups) + 1, np.int64)
    done = 0
    for i in range(len(groups)):
        node = head[groups[i]]
        while node != 0:
            if count[node] != 0:
                nodes[done] = node
                done += 1
            node = link[node]
        bounds[i + 1] = done
    return nodes, bounds


@compiled
def unlink_zeros(head, count, group, link, tally):  # type: ignore[no-untyped-def]
    """Also for the buckets of a hash table, whose lists have heads of their own."""
    for owner in range(len(head)):
        before = np.int32(0)
        node = head[owner]
        while node != 0:
            after = link[node]
            if count[node] != 0:
                before = node
            else:
                if before != 0:
                    link[before] = after
                else:
                    head[owner] = after
                group[node] = -1
                link[node] = tally[FREE]
                tally[FREE] = node
            node = after
