"""AGGR: distinct values with counts in a sorted linked list."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import numpy as np

from anabranch.kernels.compiled import compiled
from anabranch.windows.draw import draw_list
from anabranch.windows.index.base import Codes, Groups
from anabranch.windows.storage.base import Entries, Storage, kernel_input, labelled


class AggregatedStorage(Storage):
    """A count for each distinct value, ascending: O(d) per tuple, as the list is scanned for its place; O(d) space."""

    name: ClassVar[str] = "AGGR"

    def build(self, codes: Codes, groups: Groups | None = None) -> Entries:
        owners, values, counts = _insert_all(*kernel_input(codes, groups))
        return Entries(None if groups is None else owners, values, counts)

    def draw(self, entries: Entries, decode: Callable[[int], str] = str) -> str:
        return draw_list(labelled(entries, decode))


@compiled
def _insert_all(codes, groups):  # type: ignore[no-untyped-def]
    size = len(codes)
    key, count = np.empty(size + 1, np.int64), np.zeros(size + 1, np.int64)
    group, link = np.zeros(size + 1, np.int32), np.zeros(size + 1, np.int32)
    # Node 0 is the head: its link is the first entry, and a link to it ends the list.
    used = np.int32(0)
    for i in range(size):
        owner = groups[i] if len(groups) else np.int32(0)
        before = np.int32(0)
        node = link[0]
        while node != 0 and (group[node] < owner or (group[node] == owner and key[node] < codes[i])):
            before = node
            node = link[node]
        if node == 0 or group[node] != owner or key[node] != codes[i]:
            used += np.int32(1)
            key[used], group[used] = codes[i], owner
            link[used] = node
            link[before] = used
            node = used
        count[node] += 1
    order = np.empty(used, np.int32)
    node = link[0]
    for i in range(used):
        order[i] = node
        node = link[node]
    return group[order], key[order], count[order]
