"""HASH: distinct values with counts in a hash table."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Literal

import numpy as np

from anabranch.kernels.compiled import compiled
from anabranch.windows.draw import draw_buckets
from anabranch.windows.index.base import Codes, Counts, Groups
from anabranch.windows.index.hash_table import bucket_of
from anabranch.windows.storage.base import Entries, Storage, kernel_input, labelled

_FIRST_BUCKETS = 256


class HashedStorage(Storage):
    """A count for each distinct value, in buckets: O(d / h) per tuple and O(d + h) space with h buckets.

    `buckets` fixes their number (the paper: 5), each a list sorted by value, and entries come bucket by bucket. Without
    it the table grows with the values: O(1) per tuple, and entries come in order of first appearance.
    """

    name: ClassVar[str] = "HASH"

    def __init__(self, buckets: int | None = None, hash: Literal["mix", "mod"] = "mix") -> None:
        self._buckets = buckets
        self._mod = hash == "mod"

    def build(self, codes: Codes, groups: Groups | None = None) -> Entries:
        owners, values, counts = self._build(*kernel_input(codes, groups))
        return Entries(None if groups is None else owners, values, counts)

    def draw(self, entries: Entries, decode: Callable[[int], str] = str) -> str:
        buckets: list[list[str]] = [[] for _ in range(self._buckets or 1)]
        for code, label in zip(entries.codes.tolist(), labelled(entries, decode), strict=True):
            buckets[bucket_of(code, 0, self._mod, len(buckets))].append(label)
        return draw_buckets(buckets)

    def _build(self, codes: Codes, groups: Groups) -> tuple[Groups, Codes, Counts]:
        if self._buckets is None:
            owners, values, counts = count_values(codes, groups)
        else:
            owners, values, counts = _insert_all(codes, groups, self._mod, self._buckets)
        return owners, values, counts


@compiled
def _insert_all(codes, groups, mod, buckets):  # type: ignore[no-untyped-def]
    size = len(codes)
    key, count = np.empty(size + 1, np.int64), np.zeros(size + 1, np.int64)
    group, link = np.zeros(size + 1, np.int32), np.zeros(size + 1, np.int32)
    head = np.zeros(buckets, np.int32)
    used = np.int32(0)
    for i in range(size):
        owner = groups[i] if len(groups) else np.int32(0)
        place = bucket_of(codes[i], owner, mod, buckets)
        before = np.int32(0)
        node = head[place]
        while node != 0 and (key[node] < codes[i] or (key[node] == codes[i] and group[node] < owner)):
            before = node
            node = link[node]
        if node == 0 or group[node] != owner or key[node] != codes[i]:
            used += np.int32(1)
            key[used], group[used] = codes[i], owner
            link[used] = node
            if before != 0:
                link[before] = used
            else:
                head[place] = used
            node = used
        count[node] += 1
    order = np.empty(used, np.int32)
    done = 0
    for place in range(buckets):
        node = head[place]
        while node != 0:
            order[done] = node
            done += 1
            node = link[node]
    return group[order], key[order], count[order]


@compiled
def count_values(codes, groups):  # type: ignore[no-untyped-def]
    """Distinct values in order of first appearance, and their counts."""
    size = len(codes)
    key, count = np.empty(size, np.int64), np.empty(size, np.int64)
    group = np.empty(size if len(groups) else 0, np.int32)
    table = np.full(_FIRST_BUCKETS, -1, np.int32)
    used = 0
    for i in range(size):
        owner = groups[i] if len(groups) else np.int32(0)
        place = bucket_of(codes[i], owner, False, len(table))
        entry = table[place]
        while entry >= 0 and (key[entry] != codes[i] or (len(groups) > 0 and group[entry] != owner)):
            place = place + 1 if place + 1 < len(table) else 0
            entry = table[place]
        if entry >= 0:
            count[entry] += 1
            continue
        table[place] = used
        key[used], count[used] = codes[i], 1
        if len(groups):
            group[used] = owner
        used += 1
        if 2 * used > len(table):
            table = np.full(4 * len(table), -1, np.int32)
            for entry in range(used):
                place = bucket_of(key[entry], group[entry] if len(groups) else np.int32(0), False, len(table))
                while table[place] >= 0:
                    place = place + 1 if place + 1 < len(table) else 0
                table[place] = entry
    return group[:used].copy() if len(groups) else group, key[:used].copy(), count[:used].copy()
