"""Partial answers: one entry per (node, group), as an Arrow table.

The table has the column `node` (see `kernels.spans`), the group keys `k0, k1, …` and the columns
of the states `s0, s1, …`. Entries of a node stand together, in order of first appearance.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.kernels.fold import Slots, State, assign_slots
from anabranch.kernels.groups import Groups, encode
from anabranch.kernels.spans import LEVELS, expand
from anabranch.kernels.values import Column, frozen, one_array
from anabranch.windows.panes.axis import Nodes, node_start

_ENTRIES_AT_ONCE = 1 << 21
"""Entries combined in one go: bounds the memory that many overlapping windows take."""


class Shelf:
    """Entries of many nodes, found by node."""

    def __init__(self) -> None:
        self._tables: dict[int, pa.Table] = {}
        self._next = 0
        self._places = np.empty((0, 4), np.int64)
        """By node: the node, and of its entries the number of the table, the first, and the one after the last."""
        self._added: list[NDArray[np.int64]] = []

    def add(self, table: pa.Table) -> None:
        nodes = one_array(table.column("node")).to_numpy()
        if len(nodes) == 0:
            return
        first = np.flatnonzero(np.diff(nodes, prepend=nodes[0] - 1))
        last = np.append(first[1:], len(nodes))
        self._added.append(np.column_stack([nodes[first], np.full(len(first), self._next), first, last]))
        self._tables[self._next] = table
        self._next += 1

    def forget_before(self, pane: int) -> None:
        """Drop the nodes that begin before a pane."""
        places = self._by_node()
        self._places = places[node_start(places[:, 0]) >= pane]
        used = set(np.unique(self._places[:, 1]).tolist())
        self._tables = {number: table for number, table in self._tables.items() if number in used}

    def gather(self, nodes: Nodes) -> tuple[list[pa.Table], NDArray[np.int64], NDArray[np.int64]]:
        """The entries of distinct nodes as few slices, and where each node's entries begin and end in them."""
        places = self._by_node()
        first, last = np.zeros(len(nodes), np.int64), np.zeros(len(nodes), np.int64)
        if len(places) == 0:
            return [], first, last
        at = np.minimum(np.searchsorted(places[:, 0], nodes), len(places) - 1)
        present = np.flatnonzero(places[at, 0] == nodes)
        if len(present) == 0:
            return [], first, last
        table, low, high = places[at[present], 1:].T
        order = np.lexsort((low, table))
        present, table, low, high = present[order], table[order], low[order], high[order]
        ends = np.cumsum(high - low)
        first[present], last[present] = ends - (high - low), ends
        cuts = np.flatnonzero((np.diff(table, prepend=-1) != 0) | (low != np.append(-1, high[:-1])))
        slices = zip(
            table[cuts].tolist(), low[cuts].tolist(), high[np.append(cuts[1:], len(high)) - 1].tolist(), strict=True
        )
        return [self._tables[number].slice(begin, end - begin) for number, begin, end in slices], first, last

    def _by_node(self) -> NDArray[np.int64]:
        """All places in the order of nodes; of a node that was added twice the last one."""
        if self._added:
            places = np.concatenate([self._places, *self._added])
            places = places[np.argsort(places[:, 0], kind="stable")]
            self._places = places[np.append(np.diff(places[:, 0]) != 0, True)]
            self._added = []
        return self._places


@dataclass(frozen=True)
class Partials:
    """How entries are folded from rows and combined with each other."""

    key_types: tuple[pa.DataType, ...]
    states: tuple[State, ...]
    arguments: tuple[int | None, ...]
    """For each state the number of the argument it folds; None: it counts rows."""

    @property
    def schema(self) -> pa.Schema:
        keys = [(f"k{i}", type_) for i, type_ in enumerate(self.key_types)]
        types = [type_ for state in self.states for type_ in state.types]
        return pa.schema([("node", pa.int64()), *keys, *((f"s{i}", type_) for i, type_ in enumerate(types))])

    def keys(self, entries: pa.Table) -> list[pa.ChunkedArray]:
        return [entries.column(1 + i) for i in range(len(self.key_types))]

    def state_columns(self, entries: pa.Table) -> list[list[pa.Array]]:
        """For each state its columns."""
        columns, at = [], 1 + len(self.key_types)
        for state in self.states:
            columns.append([one_array(entries.column(at + i)) for i in range(len(state.types))])
            at += len(state.types)
        return columns

    def fold(
        self,
        open_pane: pa.Table,
        panes: Nodes,
        bounds: NDArray[np.int64],
        keys: Sequence[Column],
        values: Sequence[Column],
    ) -> pa.Table:
        """Entries of the given panes and of the open pane, which the rows may continue.

        Row i is in panes[p] if bounds[p] ≤ i < bounds[p + 1].
        """
        seeds = open_pane.num_rows
        nodes = panes * LEVELS
        if seeds:
            (node,) = np.unique(one_array(open_pane.column("node")).to_numpy())
            bounds = bounds + seeds
            if len(nodes) and nodes[0] == node:
                bounds[0] = 0
            else:
                nodes, bounds = np.append(node, nodes), np.append(0, bounds)
            keys = [joined(a, b) for a, b in zip(self.keys(open_pane), keys, strict=True)]
        groups = encode(keys, int(bounds[-1]))
        slots = assign_slots(groups.codes, bounds, groups.size)
        return self.fold_into(nodes, slots, groups, open_pane, values)

    def fold_into(
        self, targets: Nodes, slots: Slots, groups: Groups, seeds: pa.Table, values: Sequence[Column]
    ) -> pa.Table:
        """Entries of each target, folded from rows; the first slots go on with the entries of `seeds`."""
        states = [
            state.fold(slots, seed, None if at is None else values[at])
            for state, at, seed in zip(self.states, self.arguments, self.state_columns(seeds), strict=True)
        ]
        return self._table(targets, slots, groups, states)

    def combine(self, shelf: Shelf, nodes: Nodes, bounds: NDArray[np.int64], targets: Nodes) -> Iterator[pa.Table]:
        """Entries of each target, combined in order from nodes[bounds[t]..bounds[t + 1]]; `node` is the target."""
        distinct, members = np.unique(nodes, return_inverse=True)
        slices, first, last = shelf.gather(distinct)
        if not slices:
            return
        entries = pa.concat_tables(slices).combine_chunks()
        groups = encode(self.keys(entries), entries.num_rows)
        columns = self.state_columns(entries)
        sizes = np.append(0, np.cumsum((last - first)[members]))[bounds]
        begin = 0
        while begin < len(targets):
            limit = sizes[begin] + _ENTRIES_AT_ONCE
            end = max(begin + 1, int(np.searchsorted(sizes, limit, side="right")) - 1)
            some = bounds[begin : end + 1]
            take, ends = expand(members[some[0] : some[-1]], some - some[0], first, last)
            slots = assign_slots(frozen(groups.codes[take]), ends, groups.size)
            picked = pa.array(take)
            states = [
                state.combine(slots, [column.take(picked) for column in own])
                for state, own in zip(self.states, columns, strict=True)
            ]
            yield self._table(targets[begin:end], slots, groups, states)
            begin = end

    def _table(self, targets: Nodes, slots: Slots, groups: Groups, states: list[list[pa.Array]]) -> pa.Table:
        node = pa.array(np.repeat(targets, np.diff(slots.bounds)))
        flat = [column for columns in states for column in columns]
        return pa.Table.from_arrays([node, *groups.keys(slots.code), *flat], schema=self.schema)


def key_order(first: NDArray[np.int64], keys: Sequence[Column]) -> NDArray[np.int64]:
    """The order of entries by `first`, then by keys ascending: NULL first, NaN last."""
    groups = encode(keys, len(first))
    if groups.size <= 1:
        return np.argsort(first, kind="stable")
    lines = np.unique(first, return_inverse=True)[1]
    return np.argsort(lines * groups.size + groups.ranks()[groups.codes], kind="stable")


def joined(a: Column, b: Column) -> pa.ChunkedArray:
    """Two columns of a type as one."""
    chunks = [c for column in (a, b) for c in (column.chunks if isinstance(column, pa.ChunkedArray) else [column])]
    return pa.chunked_array(chunks, a.type)
