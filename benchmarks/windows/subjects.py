"""The structures of the paper as they are driven: tuples of a basic window in, then perhaps the query, and its check.

L. Golab, S. Garg and M. T. Özsu, "On Indexing Sliding Windows over On-line Data Streams" (2003), §3, 5 and 6. Queries
are those of §7: the histogram, the intersection of two windows, and all tuples in order.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.windows import Ranges, SetIndex, SlidingWindow, WindowPair, make_index, make_storage
from anabranch.windows.basic.arriving import take_in
from anabranch.windows.basic.basic import BasicWindows
from anabranch.windows.basic.cutting import RowCutter
from anabranch.windows.basic.values import Domain
from anabranch.windows.ring import Ring
from anabranch.windows.storage import Storage
from benchmarks.harness import check

Ints = NDArray[np.int64]
Piece = tuple[Any, ...]

NO_INDEX = "none"


@dataclass(frozen=True)
class Setting:
    """What the paper varies."""

    window: int
    basic_windows: int
    distinct: int
    distribution: str = "uniform"
    """Or "power": value v comes with a probability like 1 / (v + 1)."""

    @property
    def basic_window(self) -> int:
        return self.window // self.basic_windows


@dataclass(frozen=True)
class Structure:
    """What is measured. A star stands for tables that grow; without it they are the paper's (100, HASH: 5 buckets)."""

    storage: str
    index: str
    ring: str | None = None
    pair: bool = False

    def __str__(self) -> str:
        name = f"{self.index}/{self.storage}" if self.index != NO_INDEX else f"no index/{self.storage}"
        return f"{self.ring} over {name}" if self.ring else name


class Subject(ABC):
    """A structure as it is driven: tuples of one basic window, then perhaps the query."""

    sides = 1

    def piece(self, values: Ints) -> Piece:
        """Tuples as they are handed in, made before the time is taken."""
        return (values,)

    @abstractmethod
    def append(self, *piece: Any) -> object: ...

    @abstractmethod
    def ask(self) -> Any: ...

    @abstractmethod
    def check(self, last: list[Ints]) -> None:
        """The answer is that of the last basic windows."""

    @property
    def nbytes(self) -> int | None:
        return None


def make_subject(structure: Structure, setting: Setting) -> Subject:
    if structure.index == NO_INDEX:
        return Unindexed(structure, setting)
    if structure.pair:
        return Paired(structure, setting)
    return Ringed(structure, setting) if structure.ring else Indexed(structure, setting)


# -- what is driven ----------------------------------------------------------------------------------


class Indexed(Subject):
    """A window under an index, asked for its histogram."""

    def __init__(self, structure: Structure, setting: Setting) -> None:
        self._setting = setting
        self._ranges = _ranges(structure, setting)
        self.window = SlidingWindow(
            setting.window,
            setting.basic_windows,
            storage="LIST" if structure.ring else storage_of(structure, setting),
            index=index_of(structure, setting),
            ring=structure.ring,
        )

    def append(self, *piece: Any) -> object:
        return self.window.append(*piece)

    def ask(self) -> Any:
        return self.window.histogram()

    def check(self, last: list[Ints]) -> None:
        wanted = counted(np.concatenate(last))
        if self._ranges is not None:
            wanted = _in_ranges(wanted, self._ranges)
        _same_histogram(self.ask(), wanted)

    @property
    def nbytes(self) -> int | None:
        return self.window.nbytes


class Ringed(Indexed):
    """A window with rings, asked for its second attribute in the order of the first."""

    def __init__(self, structure: Structure, setting: Setting) -> None:
        super().__init__(structure, setting)
        assert self.window.basic_windows.ring is not None
        self.ring = TimedRing(self.window.basic_windows.ring)
        self.window.basic_windows.ring = self.ring  # type: ignore[assignment]
        self._number = 0

    def piece(self, values: Ints) -> Piece:
        numbers = np.arange(self._number, self._number + len(values))
        self._number += len(values)
        return values, None, pa.table({"second": numbers})

    def ask(self) -> Any:
        return self.window.sorted(["second"])

    def check(self, last: list[Ints]) -> None:
        values = np.concatenate(last)
        order = np.argsort(values, kind="stable")
        answer = self.ask()
        right = np.array_equal(answer.column("value").to_numpy(), values[order]) and np.array_equal(
            answer.column("second").to_numpy(), order + self._number - len(values)
        )
        check(right, "a ring does not give the tuples of the window in order")


class TimedRing:
    """A ring that adds up the time its deletions take."""

    def __init__(self, ring: Ring) -> None:
        self._timed = ring
        self.seconds = 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._timed, name)

    def evict(self) -> None:
        began = time.thread_time()
        self._timed.evict()
        self.seconds += time.thread_time() - began


class Paired(Subject):
    """Two windows under one index, asked for their intersection."""

    sides = 2

    def __init__(self, structure: Structure, setting: Setting) -> None:
        self._ranges = _ranges(structure, setting)
        self._pair = WindowPair(
            setting.window,
            setting.basic_windows,
            storage=storage_of(structure, setting),
            index=index_of(structure, setting),
        )

    def piece(self, values: Ints) -> Piece:
        return tuple(np.split(values, 2))

    def append(self, *piece: Any) -> object:
        left, right = piece
        return self._pair.append("left", left) + self._pair.append("right", right)

    def ask(self) -> Any:
        return self._pair.intersection()

    def check(self, last: list[Ints]) -> None:
        left, right = (np.unique(np.concatenate([np.split(piece, 2)[side] for piece in last])) for side in (0, 1))
        answer = self.ask()
        if self._ranges is None:
            right_answer = np.array_equal(answer.to_numpy(), np.intersect1d(left, right))
        else:
            labels = np.intersect1d(self._ranges.labels(left), self._ranges.labels(right)).tolist()
            wanted = [self._ranges.bounds(label) for label in labels]
            right_answer = list(zip(*answer.to_pydict().values(), strict=True)) == wanted
        check(right_answer, "the intersection of two windows is not that of their tuples")

    @property
    def nbytes(self) -> int | None:
        return self._pair.nbytes


class Unindexed(Subject):
    """Basic windows alone; the histogram is made anew each time: by sorting tuples, or by merging AGGR's lists."""

    def __init__(self, structure: Structure, setting: Setting) -> None:
        storage = storage_of(structure, setting)
        self._domain = Domain(pa.int64())
        self._basic = BasicWindows(setting.basic_windows, RowCutter(setting.basic_window), _NoIndex(), storage)

    def append(self, *piece: Any) -> object:
        pieces, codes, _ = take_in(piece[0], None, self._domain, self._basic.cutter)
        self._basic.fill(pieces, codes, None, None)
        return self._basic.slide()

    def ask(self) -> Any:
        windows = self._basic.attached()
        codes: Ints = np.concatenate([window.nodes for window in windows if window.nodes is not None])
        often = [window.counts for window in windows if window.counts is not None]
        values, counts = merged(codes, np.concatenate(often)) if often else counted(codes)
        return pa.table({"value": values, "count": counts})

    def check(self, last: list[Ints]) -> None:
        _same_histogram(self.ask(), counted(np.concatenate(last)))

    @property
    def nbytes(self) -> int | None:
        return self._basic.nbytes


class _NoIndex:
    """Entries keep their values instead of pointers to nodes."""

    def locate(self, codes: Ints, groups: Any = None) -> Any:
        return codes

    def add(self, nodes: Any, counts: Any = None) -> None: ...

    def subtract(self, nodes: Any, counts: Any = None) -> None: ...

    def purge(self) -> int:
        return 0


# -- what it is made of ------------------------------------------------------------------------------


def index_of(structure: Structure, setting: Setting) -> SetIndex:
    name = structure.index
    if name.startswith("G"):
        return make_index("G", ranges=_ranges(structure, setting))
    if name in ("H", "UH"):
        return make_index(name, buckets=100, hash="mod")
    return make_index(name.rstrip("*"))


def storage_of(structure: Structure, setting: Setting) -> Storage:
    name = structure.storage
    if name == "GROUP":
        return make_storage(name, ranges=_ranges(structure, setting))
    if name == "HASH":
        return make_storage(name, buckets=5, hash="mod")
    return make_storage(name.rstrip("*"))


def _ranges(structure: Structure, setting: Setting) -> Ranges | None:
    """G10 divides the values into ten ranges."""
    if not structure.index.startswith("G"):
        return None
    return Ranges.equal(0, setting.distinct, int(structure.index[1:]))


def counted(values: Ints) -> tuple[Ints, Ints]:
    """The values, ascending, and how often each is there, by sorting all of them."""
    ordered = np.sort(values)
    starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    return ordered[starts], np.diff(np.append(starts, len(ordered)))


def merged(values: Ints, counts: Ints) -> tuple[Ints, Ints]:
    """The same from sorted lists one after the other; NumPy's stable sort of int64 merges what is in order already."""
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    return ordered[starts], np.add.reduceat(counts[order], starts)


def _in_ranges(histogram: tuple[Ints, Ints], ranges: Ranges) -> tuple[Ints, Ints]:
    labels, which = np.unique(ranges.labels(histogram[0]), return_inverse=True)
    return ranges.middles(labels), np.bincount(which, histogram[1]).astype(np.int64)


def _same_histogram(answer: pa.Table, wanted: tuple[Ints, Ints]) -> None:
    got = answer.column("value").to_numpy(), answer.column("count").to_numpy()
    right = all(np.array_equal(a, b) for a, b in zip(got, wanted, strict=True))
    check(right, "a window's histogram is not that of its tuples")
