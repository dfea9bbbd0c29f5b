"""A window's basic windows: those that fill up, and the circular array of those that are attached.

L. Golab, S. Garg and M. T. Özsu, "On Indexing Sliding Windows over On-line Data Streams" (2003), §3.1 and 5.1.

A basic window that fills up is a list of tuples nobody sees. When it is complete, its storage is built,
its entries are pointed to their nodes in the index, and counted there; the pointer to it overwrites that
to the oldest one, whose entries are uncounted. Pointing waits until then (it costs the same), so a
value that nobody counts has no pointers to it and may be purged at any time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from anabranch.kernels.values import frozen
from anabranch.windows.basic.cutting import Cutter, Pieces
from anabranch.windows.basic.spill import Spilled, SpillFile
from anabranch.windows.basic.values import Rekey
from anabranch.windows.index.base import Codes, Counts, Groups, Nodes
from anabranch.windows.ring import Ring
from anabranch.windows.storage import Storage

PURGES = 5
"""Purges of the index each time the whole window has been replaced (§7.1)."""


class Counted(Protocol):
    """What basic windows need of an index."""

    def locate(self, codes: Codes, groups: Groups | None = None) -> Nodes: ...
    def add(self, nodes: Nodes, counts: Counts | None = None) -> None: ...
    def subtract(self, nodes: Nodes, counts: Counts | None = None) -> None: ...
    def purge(self) -> int: ...


class BasicWindow(NamedTuple):
    """One that is attached. Its entries are in memory or in the file."""

    number: int
    time: int | None
    """Of its oldest tuple: the one time that is kept."""
    nodes: Nodes | None
    counts: Counts | None
    spilled: Spilled | None
    rows: pa.Table | None
    """Other attributes of its tuples."""


class _Filling:
    """One that fills up."""

    __slots__ = ("codes", "groups", "rows", "time")

    def __init__(self) -> None:
        self.codes: list[Codes] = []
        self.groups: list[Groups] = []
        self.rows: list[pa.Table] = []
        self.time: int | None = None


class BasicWindows:
    """The last `count` complete basic windows, kept in the index, and those that are not complete."""

    def __init__(
        self,
        count: int,
        cutter: Cutter,
        index: Counted,
        storage: Storage | None,
        ring: Ring | None = None,
        memory_bytes: int | None = None,
        on_first: Callable[[Codes, Groups | None], None] | None = None,
        on_purge: Callable[[], None] | None = None,
    ) -> None:
        self.count = count
        self.cutter = cutter
        self.index = index
        self.storage = storage
        self.ring = ring
        self._memory_bytes = memory_bytes
        self._on_first = on_first
        self._on_purge = on_purge
        self._circle: list[BasicWindow | None] = [None] * count
        self._filling: dict[int, _Filling] = {}
        self._attached: int | None = None
        """The window ends before the basic window of this number."""
        self._until_purge = max(1, count // PURGES)
        self._spill = SpillFile()
        self._bytes = 0

    def fill(self, pieces: Pieces, codes: Codes, groups: Groups | None, rows: pa.Table | None) -> None:
        """Put tuples in the basic windows they belong to, cut as `pieces` says."""
        bounds = pieces.bounds
        for i, number in enumerate(pieces.numbers):
            low, high = bounds[i], bounds[i + 1]
            filling = self._filling.get(number)
            if filling is None:
                filling = self._filling[number] = _Filling()
            time = pieces.times[i]
            if time is not None and (filling.time is None or time < filling.time):
                filling.time = time
            if high > low:
                # The last piece waits for the next batch, and must not hold on to all of this one.
                filling.codes.append(codes[low:high] if high < len(codes) else codes[low:high].copy())
                if groups is not None:
                    filling.groups.append(groups[low:high])
                if rows is not None:
                    filling.rows.append(rows.slice(low, high - low))

    def slide(self) -> int:
        """Attach all that is complete; give by how many basic windows the window went on."""
        if self.cutter.began is None:
            return 0
        if self._attached is None:
            self._attached = self.cutter.began
        before, complete = self._attached, self.cutter.complete
        if complete == before:
            return 0
        for number in sorted(number for number in self._filling if number < complete):
            filling = self._filling.pop(number)
            # One that is too old by now was never seen by anybody.
            if number >= complete - self.count and filling.codes:
                self._go_on_to(number + 1)
                self._attach(number, filling)
                self._purge_in_time()
        if complete > self._attached:
            self._go_on_to(complete)
            self._purge_in_time()
        return complete - before

    def attached(self) -> list[BasicWindow]:
        """The attached basic windows that have tuples, oldest first."""
        return sorted((window for window in self._circle if window is not None), key=lambda window: window.number)

    def rekey(self, rekey: Rekey) -> None:
        """Tuples that fill up have changed codes."""
        for filling in self._filling.values():
            filling.codes = [rekey.of(codes) for codes in filling.codes]

    def waiting(self) -> Codes:
        """The codes of the tuples in basic windows that are not complete."""
        parts = [codes for filling in self._filling.values() for codes in filling.codes]
        return np.concatenate(parts) if parts else np.empty(0, np.int64)

    def _attach(self, number: int, filling: _Filling) -> None:
        codes = filling.codes[0] if len(filling.codes) == 1 else np.concatenate(filling.codes)
        groups = None
        if filling.groups:
            groups = filling.groups[0] if len(filling.groups) == 1 else np.concatenate(filling.groups)
        if self._on_first is not None:
            self._on_first(codes, groups)
            self._on_first = None
        assert self.storage is not None
        entries = self.storage.build(codes, groups)
        nodes = frozen(self.index.locate(entries.codes, entries.groups))
        self.index.add(nodes, entries.counts)
        if self.ring is not None:
            self.ring.append(nodes)
            self.ring.attach()
        rows = pa.concat_tables(filling.rows) if filling.rows else None
        self._circle[number % self.count] = self._kept(number, filling.time, nodes, entries.counts, rows)

    def _kept(
        self, number: int, time: int | None, nodes: Nodes, counts: Counts | None, rows: pa.Table | None
    ) -> BasicWindow:
        size = nodes.nbytes + (0 if counts is None else counts.nbytes)
        if self._memory_bytes is not None and self._bytes + size > self._memory_bytes:
            return BasicWindow(number, time, None, None, self._spill.write(nodes, counts), rows)
        self._bytes += size
        return BasicWindow(number, time, nodes, counts, None, rows)

    def _go_on_to(self, number: int) -> None:
        """Let the window end before a basic window: uncount those that fall out of it, oldest first."""
        assert self._attached is not None
        for old in range(self._attached - self.count, min(number - self.count, self._attached)):
            window = self._circle[old % self.count]
            if window is not None:
                self._circle[old % self.count] = None
                self._evict(window)
        self._until_purge -= number - self._attached
        self._attached = number

    def _evict(self, window: BasicWindow) -> None:
        nodes, counts = window.nodes, window.counts
        if nodes is None:
            assert window.spilled is not None
            nodes, counts = self._spill.read(window.spilled)
        else:
            self._bytes -= nodes.nbytes + (0 if counts is None else counts.nbytes)
        if self.ring is not None:
            self.ring.evict()
        self.index.subtract(nodes, counts)

    def _purge_in_time(self) -> None:
        if self._until_purge <= 0:
            self._until_purge = max(1, self.count // PURGES)
            if self.index.purge() and self._on_purge is not None:
                self._on_purge()

    @property
    def nbytes(self) -> int:
        """Bytes of entries in memory, and of tuples that wait."""
        return self._bytes + sum(codes.nbytes for f in self._filling.values() for codes in f.codes)

    @property
    def spilled_bytes(self) -> int:
        """Bytes of the file."""
        return self._spill.size
