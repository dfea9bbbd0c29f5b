"""H-INDEX and UH-INDEX: values in the buckets of a hash table, each a linked list.

L. Golab, S. Garg and M. T. Özsu, "On Indexing Sliding Windows over On-line Data Streams" (2003), §5.3.
With groups, values of all groups share the buckets, found by (group, value): locating stays as cheap, but to
go through one group's values all nodes are looked at, and sorted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Literal

import numpy as np

from anabranch.kernels.compiled import compiled
from anabranch.windows.draw import draw_buckets
from anabranch.windows.index.base import Codes, Groups, Nodes, SetIndex, take_node
from anabranch.windows.index.linked_list import unlink_zeros

_GOLDEN = np.uint64(0x9E37_79B9_7F4A_7C15)
_OTHER = np.uint64(0xD6E8_FEB8_6659_FD93)


class HashIndex(SetIndex):
    """Buckets sorted by value: locating costs O(D / h) per tuple with h buckets, O(1) if the table grows.

    `buckets` fixes their number; without it there are two for each node there is room for. The hash is a mixing
    one, or value mod buckets as in the paper's experiments (100 buckets).
    """

    name: ClassVar[str] = "H"
    _sorted: ClassVar[bool] = True

    def __init__(self, buckets: int | None = None, hash: Literal["mix", "mod"] = "mix") -> None:
        super().__init__()
        self._grows = buckets is None
        self._mod = hash == "mod"
        self._bucket = np.zeros(buckets or 2 * len(self._key), np.int32)
        """The first node of each bucket."""

    def rekey(self, old: Codes, new: Codes) -> None:
        super().rekey(old, new)
        self._rehash(len(self._bucket))

    def draw(self, decode: Callable[[int], str] = str, group: int = 0) -> str:
        buckets: list[list[str]] = []
        for head in self._bucket.tolist():
            buckets.append([])
            node = head
            while node:
                if self._group[node] == group:
                    buckets[-1].append(f"{decode(int(self._key[node]))}:{self._count[node]}")
                node = int(self._link[node])
        return draw_buckets(buckets)

    def _locate(self, codes: Codes, groups: Groups, start: int, nodes: Nodes) -> int:
        arrays = (self._bucket, self._key, self._count, self._group, self._link, self._tally)
        done: int = _locate(codes, groups, start, nodes, self._mod, self._sorted, *arrays)
        return done

    def _find(self, codes: Codes, groups: Groups) -> Nodes:
        arrays = (self._bucket, self._key, self._group, self._link)
        nodes: Nodes = _find(codes, groups, self._mod, self._sorted, *arrays)
        return nodes

    def _purge(self) -> None:
        unlink_zeros(self._bucket, self._count, self._group, self._link, self._tally)

    def _grow_nodes(self, size: int) -> None:
        super()._grow_nodes(size)
        if self._grows:
            self._rehash(2 * size)

    def _rehash(self, buckets: int) -> None:
        self._bucket = np.zeros(buckets, np.int32)
        nodes = self._nodes()
        if self._sorted:
            nodes = nodes[np.lexsort((self._group[nodes], self._key[nodes]))[::-1]]
        _put_first(nodes, self._mod, self._bucket, self._key, self._group, self._link)


class UnsortedHashIndex(HashIndex):
    """New values at the head of their bucket: O(D / h) per tuple, good when equal values come close together."""

    name: ClassVar[str] = "UH"
    _sorted: ClassVar[bool] = False


@compiled
def bucket_of(code, owner, mod, buckets):  # type: ignore[no-untyped-def]
    if mod:
        return (code + owner) % buckets
    mixed = np.uint64(code) + np.uint64(owner) * _OTHER
    mixed = (mixed ^ (mixed >> np.uint64(32))) * _GOLDEN
    # The high half times the number of buckets: an even spread over any number of them.
    return np.int64(((mixed >> np.uint64(32)) * np.uint64(buckets)) >> np.uint64(32))


@compiled
def _scan(code, owner, in_order, first, key, group, link):  # type: ignore[no-untyped-def]
    """Whether the bucket holds the value, the last node before it or its place, and the node after that."""
    before = np.int32(0)
    node = first
    while node != 0:
        if key[node] == code and group[node] == owner:
            return True, before, node
        if in_order and (key[node] > code or (key[node] == code and group[node] > owner)):
            break
        before = node
        node = link[node]
    return False, before, node


@compiled
def _locate(codes, groups, start, nodes, mod, in_order, bucket, key, count, group, link, tally):  # type: ignore[no-untyped-def]
    for i in range(start, len(codes)):
        owner = groups[i] if len(groups) else np.int32(0)
        place = bucket_of(codes[i], owner, mod, len(bucket))
        found, before, node = _scan(codes[i], owner, in_order, bucket[place], key, group, link)
        if not found:
            new = np.int32(take_node(codes[i], owner, key, count, group, link, tally))
            if new == 0:
                return i
            if before == 0 or not in_order:
                link[new] = bucket[place]
                bucket[place] = new
            else:
                link[new] = node
                link[before] = new
            node = new
        nodes[i] = node
    return len(codes)


@compiled
def _find(codes, groups, mod, in_order, bucket, key, group, link):  # type: ignore[no-untyped-def]
    nodes = np.empty(len(codes), np.int32)
    for i in range(len(codes)):
        owner = groups[i] if len(groups) else np.int32(0)
        first = bucket[bucket_of(codes[i], owner, mod, len(bucket))]
        found, _, node = _scan(codes[i], owner, in_order, first, key, group, link)
        nodes[i] = node if found else -1
    return nodes


@compiled
def _put_first(nodes, mod, bucket, key, group, link):  # type: ignore[no-untyped-def]
    for i in range(len(nodes)):
        node = nodes[i]
        place = bucket_of(key[node], group[node], mod, len(bucket))
        link[node] = bucket[place]
        bucket[place] = node
