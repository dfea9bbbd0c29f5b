"""Which rows reduced reads have marked dead, for OnReadModify (§4.1.2 and §5.3 of the paper).

Of each run, the part that lives: rows with lots below it. A file that any reader may change, so it is
changed under a lock, and only where a mark says more than the one before.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from anabranch.clock import SystemClock
from anabranch.errors import StreamError
from anabranch.log.lock import BEING_WRITTEN, WriterLock
from anabranch.log.storage import Storage

_PLACE = "marks"
_FILE = "marks.json"
_PATIENCE_SECONDS = 10.0


@dataclass
class Marks:
    """The living part of runs by their first row; and how often reads took the copy, or had to take the original."""

    living: dict[int, float] = field(default_factory=dict)
    from_copy: int = 0
    from_original: int = 0

    def of(self, run: int) -> float:
        return self.living.get(run, 1.0)

    @property
    def missed(self) -> float:
        """The part of reads that a copy could not serve."""
        reads = self.from_copy + self.from_original
        return self.from_original / reads if reads else 0.0


def rate_of(keep: float) -> float:
    """A fraction as marks hold it: in millionths, rounded up so that nothing is lost.

    >>> rate_of(1 / 3)
    0.333334
    """
    return min(math.ceil(keep * 1_000_000) / 1_000_000, 1.0)


def load_marks(archive: Storage) -> Marks:
    data: dict[str, Any] = archive.child(_PLACE).read_json(_FILE) or {}
    living = {int(run): rate for run, rate in data.get("living", {}).items()}
    return Marks(living, data.get("from_copy", 0), data.get("from_original", 0))


@contextlib.contextmanager
def changing(archive: Storage) -> Iterator[Marks]:
    """The marks, to be changed; written when the block ends."""
    place = archive.child(_PLACE)
    if not place.exists():
        place.make()
    lock = WriterLock(place, "the marks of an archive", SystemClock())
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            lock.take()
            break
        except StreamError as problem:
            if problem.name != BEING_WRITTEN or time.monotonic() > deadline:
                raise
            time.sleep(0.002)
    try:
        marks = load_marks(archive)
        yield marks
        data = {"living": marks.living, "from_copy": marks.from_copy, "from_original": marks.from_original}
        place.write_json(_FILE, data)
    finally:
        lock.release()


def mark(archive: Storage, runs: list[int], keep: float, *, from_copy: int, from_original: int) -> None:
    """Note what a reduced read has left of runs, and where it found them; nothing is written if nothing is new."""
    if keep <= 0:  # nothing was read, and nothing would be left
        return
    rate = rate_of(keep)
    known = load_marks(archive)
    if not from_copy and not from_original and all(known.of(run) <= rate for run in runs):
        return
    with changing(archive) as marks:
        for run in runs:
            marks.living[run] = min(marks.of(run), rate)
        marks.from_copy += from_copy
        marks.from_original += from_original
