"""One structure of the paper in one setting: filled, checked, and timed.

L. Golab, S. Garg and M. T. Özsu, "On Indexing Sliding Windows over On-line Data Streams" (2003), §7.1: the window is
filled first, then the tuples that follow are timed. They come a basic window at a time. Time is processor time, as
other work on the machine would blur what is compared here. It is taken over the fifth of a roll-over that holds one
purge, and the median of all fifths is what counts, so a cell whose tuples are slow may stop after one of them.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from anabranch.windows.basic.basic import PURGES
from benchmarks.harness import median
from benchmarks.windows.subjects import Ints, Ringed, Setting, Structure, Subject, make_subject


@dataclass(frozen=True)
class Effort:
    """How long a cell may take."""

    rounds: int
    """Roll-overs that are timed, at most."""
    seconds: float
    """After this long no further fifth of a roll-over is begun."""


@dataclass(frozen=True)
class Cell:
    """Nanoseconds per tuple of one structure in one setting."""

    structure: Structure
    setting: Setting
    maintenance: float
    measured: int
    """Tuples that were timed; fewer than the window holds if they were slow."""
    query: float | None = None
    """The query after each basic window, shared among its tuples."""
    deletion: float | None = None
    """Of the maintenance, taking tuples out of rings."""
    deletion_steps: float | None = None
    """Links followed per tuple for that."""
    nbytes: int | None = None

    @property
    def total(self) -> float:
        """Maintenance, and the query after each basic window."""
        assert self.query is not None
        return self.maintenance + self.query

    @property
    def partial(self) -> bool:
        return self.measured < self.setting.window * (2 if self.structure.pair else 1)


class Values:
    """An endless stream of attribute values 0 ≤ v < distinct."""

    def __init__(self, setting: Setting, seed: int = 0) -> None:
        self._random = np.random.default_rng(seed)
        self._distinct = setting.distinct
        self._below: NDArray[np.float64] | None = None
        if setting.distribution == "power":
            weight = 1 / np.arange(1, setting.distinct + 1)
            self._below = np.cumsum(weight) / weight.sum()

    def take(self, count: int) -> Ints:
        if self._below is None:
            return self._random.integers(0, self._distinct, count)
        return np.minimum(np.searchsorted(self._below, self._random.random(count)), self._distinct - 1)


def measure(structure: Structure, setting: Setting, effort: Effort, *, asks: bool = True) -> Cell:
    """Fill, slide on by a fifth, check, and time."""
    drive = _Drive(make_subject(structure, setting), setting)
    drive.run(setting.basic_windows)
    drive.run(drive.steps)
    drive.check()
    links = drive.links
    fifths = [drive.run(drive.steps)]
    while sum(fifth.seconds for fifth in fifths) < effort.seconds and len(fifths) < effort.rounds * PURGES:
        fifths.append(drive.run(drive.steps))
    tuples = drive.tuples * drive.steps
    ringed = structure.ring is not None
    cell = Cell(
        structure,
        setting,
        maintenance=median(fifth.seconds for fifth in fifths) * 1e9 / tuples,
        measured=len(fifths) * tuples,
        deletion=median(fifth.deleting for fifth in fifths) * 1e9 / tuples if ringed else None,
        deletion_steps=(drive.links - links) / (len(fifths) * tuples) if ringed else None,
        nbytes=drive.subject.nbytes,
    )
    if not asks:
        return cell
    taken = [drive.ask()]
    while sum(taken) < effort.seconds and len(taken) < effort.rounds * setting.basic_windows:
        taken.append(drive.ask())
    drive.check()
    return replace(cell, query=median(taken) * 1e9 / drive.tuples)


class _Fifth(NamedTuple):
    seconds: float
    deleting: float


class _Drive:
    """Hands a stream to a subject, basic window by basic window."""

    def __init__(self, subject: Subject, setting: Setting) -> None:
        self.subject = subject
        self.steps = max(setting.basic_windows // PURGES, 1)
        self.tuples = setting.basic_window * subject.sides
        self._values = Values(setting)
        self._last: deque[Ints] = deque(maxlen=setting.basic_windows)

    def run(self, count: int) -> _Fifth:
        """Let the window go on by `count` basic windows."""
        arrays = np.split(self._values.take(count * self.tuples), count)
        self._last.extend(arrays)
        pieces = [self.subject.piece(array) for array in arrays]
        deleting, began = self._deleting, time.thread_time()
        for piece in pieces:
            self.subject.append(*piece)
        return _Fifth(time.thread_time() - began, self._deleting - deleting)

    def ask(self) -> float:
        """Let it go on by one, and give the time the query takes then."""
        self.run(1)
        began = time.thread_time()
        self.subject.ask()
        return time.thread_time() - began

    def check(self) -> None:
        self.subject.check(list(self._last))

    @property
    def links(self) -> int:
        """Followed so far when deleting."""
        return int(self.subject.ring.steps[1]) if isinstance(self.subject, Ringed) else 0

    @property
    def _deleting(self) -> float:
        return self.subject.ring.seconds if isinstance(self.subject, Ringed) else 0.0
