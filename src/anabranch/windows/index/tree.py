"""T-INDEX: the values of each group in an AVL tree.

L. Golab, S. Garg and M. T. Özsu, "On Indexing Sliding Windows over On-line Data Streams" (2003), §5.2.
Purging waits for many nodes of count 0 and then builds the tree anew, without rotations (§5.5).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import numpy as np

from anabranch.windows.draw import draw_tree
from anabranch.windows.index import avl
from anabranch.windows.index.base import Codes, Counts, Groups, Nodes, SetIndex, grown, prepared

_FEW = 16
"""Up to a 1/16 of the nodes, walking to each touched one costs less than a pass over all."""


class TreeIndex(SetIndex):
    """A balanced search tree: locating costs O(log D) per tuple; so do any quantile and the mode once it is summed up.

    Each node knows the tuples below it and the highest count below it, as of the last time these were asked for.
    """

    name: ClassVar[str] = "T"

    def __init__(self) -> None:
        super().__init__()
        size = len(self._key)
        self._key[0] = np.iinfo(np.int64).min
        self._child = np.zeros(2 * size, np.uint32)
        self._height = np.zeros(size, np.int8)
        self._counted = np.zeros(size, np.int64)
        """The count as it went into the two sums above the node."""
        self._weight = np.zeros(size, np.int64)
        self._best = np.zeros(size, np.int64)
        self._is_touched = np.zeros(size, np.bool_)
        self._root = np.zeros(1, np.int32)
        self._touched: list[Nodes] = []
        self._touches = 0
        self._sums_lost = True
        """Too much has changed since the sums were right to tell what."""

    def select(self, groups: Groups, ranks: Counts) -> Codes:
        self._sum_up()
        codes: Codes = avl.select(
            prepared(groups, np.int32),
            prepared(ranks, np.int64),
            self._key,
            self._count,
            self._child,
            self._weight,
            self._root,
        )
        return codes

    def mode(self, groups: Groups) -> tuple[Codes, Counts]:
        self._sum_up()
        nodes = avl.mode(prepared(groups, np.int32), self._count, self._child, self._best, self._root)
        return self._key[nodes], self._count[nodes]

    def draw(self, decode: Callable[[int], str] = str, group: int = 0) -> str:
        def label(node: int) -> str:
            return f"{decode(int(self._key[node]))}:{self._count[node]}"

        return draw_tree(int(self._root[group]), lambda n: self._child[2 * n : 2 * n + 2].tolist(), label)

    def _locate(self, codes: Codes, groups: Groups, start: int, nodes: Nodes) -> int:
        done: int = avl.locate(
            codes,
            groups,
            start,
            nodes,
            self._root,
            self._key,
            self._count,
            self._group,
            self._link,
            self._tally,
            self._child,
            self._height,
            self._counted,
            self._weight,
            self._best,
        )
        return done

    def _find(self, codes: Codes, groups: Groups) -> Nodes:
        nodes: Nodes = avl.find(codes, groups, self._root, self._key, self._child, self._height)
        return nodes

    def _ordered(self, groups: Groups) -> tuple[Nodes, Counts]:
        size = int(self._distinct[groups].sum())
        nodes, bounds = avl.in_order(groups, size, self._root, self._count, self._child)
        return nodes, bounds

    def _change(self, nodes: Nodes, counts: Counts | None, sign: int) -> None:
        super()._change(nodes, counts, sign)
        if self._sums_lost:
            return
        touched = avl.touch(prepared(nodes, np.int32), self._is_touched)
        self._touched.append(touched)
        self._touches += len(touched)
        if self._touches * _FEW > self.live:
            self._lose_sums()

    def _lose_sums(self) -> None:
        self._sums_lost = True
        self._touched, self._touches = [], 0
        self._is_touched.fill(False)

    def _sum_up(self) -> None:
        """Bring the sums up to date."""
        sums = (self._root, self._group, self._key, self._count, self._child, self._counted, self._weight, self._best)
        if self._sums_lost:
            avl.sum_all(self.live, *sums)
            self._sums_lost = False
        else:
            for touched in self._touched:
                avl.sum_paths(touched, self._is_touched, *sums)
            self._touched, self._touches = [], 0

    def _purge(self) -> None:
        avl.rebuild(
            self.live,
            self._root,
            self._count,
            self._group,
            self._link,
            self._tally,
            self._child,
            self._height,
        )
        self._lose_sums()

    def _grow_nodes(self, size: int) -> None:
        super()._grow_nodes(size)
        self._child, self._height = grown(self._child, 2 * size), grown(self._height, size)
        self._counted, self._weight = grown(self._counted, size), grown(self._weight, size)
        self._best, self._is_touched = grown(self._best, size), grown(self._is_touched, size)

    def _grow_groups(self, size: int) -> None:
        super()._grow_groups(size)
        self._root = grown(self._root, size)
