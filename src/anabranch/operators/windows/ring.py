"""The rows of the current window under a ring index: which of them come first in an order.

L. Golab, S. Garg and M. T. Özsu, "On Indexing Sliding Windows over On-line Data Streams" (2003), §6. The
index holds the values of the first sort key, a ring for each value the rows that have it. Like
`values`, it is kept in the memory of the process between batches and follows from the log.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from anabranch.column_types import is_nested
from anabranch.kernels.nested import comparable
from anabranch.kernels.spans import pane_runs
from anabranch.kernels.values import Column, frozen, one_array, valid
from anabranch.operators.base import MIN_TIME
from anabranch.windows.basic.values import Codes, Domain, Rekey
from anabranch.windows.index import make_index
from anabranch.windows.panes.axis import Panes
from anabranch.windows.ring import make_ring

Rows = NDArray[np.int64]

_FEWEST_ZEROS = 1024


class _Piece(NamedTuple):
    """Rows of one pane that are read and not yet attached."""

    pane: int
    rows: Rows
    """Numbers of the rows with a value, and of those with NULL."""
    nulls: Rows
    codes: Codes


class _Basic(NamedTuple):
    """A basic window that is attached."""

    pane: int
    rows: Rows
    nulls: Rows
    nodes: NDArray[np.int32]


class WindowRing:
    """The rows of one window after the other, found by their first sort key."""

    def __init__(self, panes: Panes, type_: pa.DataType, descending: bool, nulls_first: bool, index: str, ring: str):
        self._panes = panes
        self._descending, self._nulls_first = descending, nulls_first
        self._domain = Domain(pa.binary() if is_nested(type_) else type_)
        self._index = make_index(index)
        self._ring = make_ring(ring, self._index)
        self._pending: deque[_Piece] = deque()
        self._window: deque[_Basic] = deque()
        self.next_row = 0
        """The rows of the stream before this one are taken, from the start of the newest window on."""
        self.reached = MIN_TIME
        """How far on the axis it has come: earlier windows cannot be asked for any more."""

    @property
    def rows(self) -> int:
        return sum(len(basic.rows) for basic in self._window)

    @property
    def nbytes(self) -> int:
        held = sum(basic.rows.nbytes + basic.nodes.nbytes for basic in self._window)
        return held + self._index.nbytes + self._ring.nbytes

    def take(self, axis: NDArray[np.int64], rows: Rows, key: Column, next_row: int) -> None:
        """Rows that follow those taken before, up to `next_row`; they are in no answer until `reach`."""
        self.next_row = next_row
        panes, bounds = pane_runs(frozen(axis), self._panes.length)
        key, kept = comparable(key), valid(key)
        codes = self._encode(one_array(pc.drop_null(key) if key.null_count else key))
        where = np.append(0, np.cumsum(kept))[bounds]
        for i, pane in enumerate(panes.tolist()):
            part = slice(bounds[i], bounds[i + 1])
            here, there = rows[part], kept[part]
            self._pending.append(_Piece(pane, here[there], here[~there], codes[where[i] : where[i + 1]]))

    def _encode(self, values: pa.Array) -> Codes:
        """Codes in the order asked for; where values get new codes, the index and what is pending follow."""
        codes, moved = self._domain.encode(values)
        if moved is not None:
            moved = Rekey(~moved.old[::-1], ~moved.new[::-1]) if self._descending else moved
            self._index.rekey(moved.old, moved.new)
            self._pending = deque(piece._replace(codes=moved.of(piece.codes)) for piece in self._pending)
        return ~codes if self._descending else codes

    def reach(self, end: int) -> None:
        """Hold the rows of the window that ends at `end`."""
        self.reached = max(self.reached, end)
        pane, low = end // self._panes.length, (end - self._panes.size) // self._panes.length
        while self._pending and self._pending[0].pane < pane:
            pieces = [self._pending.popleft()]
            while self._pending and self._pending[0].pane == pieces[0].pane:
                pieces.append(self._pending.popleft())
            if pieces[0].pane >= low:
                self._attach(pieces)
        while self._window and self._window[0].pane < low:
            self._ring.evict()
            self._index.subtract(self._window.popleft().nodes)
        if self._index.zeros > _FEWEST_ZEROS and self._index.zeros * 2 > self._index.live:
            self._index.purge()
            self._forget_values()

    def _attach(self, pieces: list[_Piece]) -> None:
        nodes = self._index.locate(np.concatenate([piece.codes for piece in pieces]))
        self._ring.append(nodes)
        self._index.add(nodes)
        self._ring.attach()
        rows, nulls = (np.concatenate(arrays) for arrays in zip(*((p.rows, p.nulls) for p in pieces), strict=True))
        self._window.append(_Basic(pieces[0].pane, rows, nulls, nodes))

    def _forget_values(self) -> None:
        if self._domain.remapping:
            codes = np.concatenate([self._index.codes(), *(piece.codes for piece in self._pending)])
            self._domain.retain(np.unique(~codes if self._descending else codes))

    def panes(self) -> NDArray[np.int64]:
        """The panes that have rows."""
        held = [basic.pane for basic in self._window] + [piece.pane for piece in self._pending]
        return np.unique(np.array(held, np.int64))

    def first(self, limit: int | None) -> Rows:
        """Rows of the window, ascending, among which the first `limit` in order are, and all equal to the last."""
        nulls = np.concatenate([np.empty(0, np.int64), *(basic.nulls for basic in self._window)])
        nodes = self._index.ordered_nodes(0)
        if limit is not None:
            counts = np.cumsum(self._index.count(nodes))
            wanted = limit - (len(nulls) if self._nulls_first else 0)
            nodes = nodes[: int(np.searchsorted(counts, wanted)) + 1] if wanted > 0 else nodes[:0]
            if not self._nulls_first and len(counts) and counts[-1] >= limit:
                nulls = nulls[:0]
        rows = np.concatenate([np.empty(0, np.int64), *(basic.rows for basic in self._window)])
        ordered = rows[self._ring.of_nodes(nodes) - self._ring.first] if len(nodes) else rows[:0]
        return np.sort(np.concatenate([ordered, nulls]))
