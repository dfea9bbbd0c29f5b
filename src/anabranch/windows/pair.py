"""Two windows under one index, for what they have in common and what not.

L. Golab, S. Garg and M. T. Özsu, "On Indexing Sliding Windows over On-line Data Streams" (2003), §4.2 and 7.2.3:
each node has two counts, one per window.
"""

from __future__ import annotations

import datetime
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.kernels.compiled import compiled
from anabranch.kernels.values import frozen
from anabranch.windows.basic.arriving import take_in, times_of
from anabranch.windows.basic.basic import BasicWindows
from anabranch.windows.basic.cutting import make_cutter
from anabranch.windows.basic.values import Domain
from anabranch.windows.index import SetIndex, make_index
from anabranch.windows.index.base import Codes, Counts, Groups, Nodes, grown, prepared
from anabranch.windows.index.grouped import GroupedIndex
from anabranch.windows.storage import Storage, make_storage

Side = Literal["left", "right"]

_NO_COUNTS: Counts = frozen(np.empty(0, np.int64))


class WindowPair:
    """The windows `left` and `right`, of the same size and type.

    Answers are values, ascending; with `all` (as in SQL) a table of values and how often each is there. With a
    G-INDEX they are ranges: those which hold tuples of both windows, and so on.

    >>> pair = WindowPair(size=4, basic_windows=2)
    >>> pair.append("left", [1, 1, 2, 3]), pair.append("right", [1, 3, 3, 4])
    (2, 2)
    >>> pair.intersection().to_pylist(), pair.difference().to_pylist()
    ([1, 3], [2])
    >>> pair.union(all=True).to_pydict()
    {'value': [1, 2, 3, 4], 'count': [3, 1, 3, 1]}
    """

    def __init__(
        self,
        size: int | datetime.timedelta,
        basic_windows: int,
        unit: Literal["rows", "time"] = "rows",
        *,
        storage: str | Storage = "LIST",
        index: str | SetIndex = "T",
        type: pa.DataType | None = None,
        delay: int | datetime.timedelta = 0,
        memory_bytes: int | None = None,
    ) -> None:
        self.domain = Domain(type or pa.int64())
        self._index = index if isinstance(index, SetIndex) else make_index(index)
        kept = make_storage(storage) if isinstance(storage, str) else storage
        self._sides: dict[Side, _Side] = {"left": _Side(self._index), "right": _Side(self._index)}
        self._windows: dict[Side, BasicWindows] = {
            side: BasicWindows(
                basic_windows,
                make_cutter(size, basic_windows, unit, delay),
                counts,
                kept,
                None,
                memory_bytes,
                None,
                self._forget if self.domain.remapping else None,
            )
            for side, counts in self._sides.items()
        }

    def append(self, side: Side, values: Any, times: Any = None) -> int:
        """Take in tuples of one window; give by how many basic windows it went on."""
        window = self._windows[side]
        pieces, codes, rekey = take_in(values, times, self.domain, window.cutter)
        if rekey is not None:
            self._index.rekey(*rekey)
            for either in self._windows.values():
                either.rekey(rekey)
        window.fill(pieces, codes, None, None)
        return window.slide()

    def advance(self, time: Any) -> int:
        """Both streams have come to this time."""
        for window in self._windows.values():
            window.cutter.advance(int(times_of([time])[0]))
        return sum(window.slide() for window in self._windows.values())

    def late(self, side: Side) -> int:
        """Tuples of one window refused because their basic window was complete."""
        return self._windows[side].cutter.late

    def intersection(self, all: bool = False) -> pa.Array | pa.Table:
        """Values in both windows; `all`: as often as in the one that has fewer of them."""
        return self._answer(all, np.minimum)

    def union(self, all: bool = False) -> pa.Array | pa.Table:
        """Values in any of the windows; `all`: as often as in both together."""
        return self._answer(all, np.add)

    def difference(self, all: bool = False) -> pa.Array | pa.Table:
        """Values in the left window and not in the right; `all`: as often as it has more of them."""
        if all:
            return self._answer(all, np.subtract)
        return self._answer(all, lambda left, right: np.where(right > 0, 0, left))

    def draw(self) -> str:
        """A line per value: how often it is in the left and in the right window."""
        nodes, left, right = self._counts()
        texts = self._texts(nodes)
        return "\n".join(f"{t}: {a} | {b}" for t, a, b in zip(texts, left.tolist(), right.tolist(), strict=True))

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        own = sum(window.nbytes for window in self._windows.values()) + sum(
            s.count.nbytes for s in self._sides.values()
        )
        return self._index.nbytes + self.domain.nbytes + own

    def _counts(self) -> tuple[Nodes, Counts, Counts]:
        nodes = self._index.ordered_nodes()
        return nodes, self._sides["left"].of(nodes), self._sides["right"].of(nodes)

    def _answer(self, all_: bool, combine: Any) -> pa.Array | pa.Table:
        nodes, left, right = self._counts()
        counts: NDArray[np.int64] = combine(left, right)
        nodes, counts = nodes[counts > 0], counts[counts > 0]
        if isinstance(self._index, GroupedIndex):
            lows, highs = self._index.ranges.limits(self._index.key(nodes))
            ranges = pa.table({"low": self.domain.decode(lows), "high": self.domain.decode(highs)})
            return ranges.append_column("count", pa.array(counts)) if all_ else ranges
        values = self.domain.decode(self._index.key(nodes))
        return pa.table({"value": values, "count": counts}) if all_ else values

    def _texts(self, nodes: Nodes) -> list[str]:
        keys = self._index.key(nodes)
        if isinstance(self._index, GroupedIndex):
            return [self._index.ranges.draw(label) for label in keys.tolist()]
        return [str(value) for value in self.domain.decode(keys).to_pylist()]

    def _forget(self) -> None:
        waiting = [window.waiting() for window in self._windows.values()]
        self.domain.retain(np.concatenate([self._index.codes(), *waiting]))


class _Side:
    """The shared index as one window sees it, with its own count for each node."""

    def __init__(self, index: SetIndex) -> None:
        self._index = index
        self.count = np.zeros(index.capacity, np.int64)

    def of(self, nodes: Nodes) -> Counts:
        self._reserve()
        return self.count[nodes]

    def locate(self, codes: Codes, groups: Groups | None = None) -> Nodes:
        return self._index.locate(codes, groups)

    def add(self, nodes: Nodes, counts: Counts | None = None) -> None:
        self._index.add(nodes, counts)
        self._change(nodes, counts, 1)

    def subtract(self, nodes: Nodes, counts: Counts | None = None) -> None:
        self._index.subtract(nodes, counts)
        self._change(nodes, counts, -1)

    def purge(self) -> int:
        return self._index.purge()

    def _change(self, nodes: Nodes, counts: Counts | None, sign: int) -> None:
        self._reserve()
        often = _NO_COUNTS if counts is None else prepared(counts, np.int64)
        _change(prepared(nodes, np.int32), often, sign, self.count)

    def _reserve(self) -> None:
        if self._index.capacity > len(self.count):
            self.count = grown(self.count, self._index.capacity)


@compiled
def _change(nodes, counts, sign, count):  # type: ignore[no-untyped-def]
    for i in range(len(nodes)):
        count[nodes[i]] += sign * counts[i] if len(counts) else sign
