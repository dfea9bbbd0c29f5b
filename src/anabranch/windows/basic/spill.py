"""Entries of basic windows that memory has no room for, in one temporary file.

Each is written once, when its basic window is attached, and read once, when it is evicted.
"""

from __future__ import annotations

import os
import tempfile
from typing import IO, NamedTuple

import numpy as np

from anabranch.windows.index.base import Counts, Nodes


class Spilled(NamedTuple):
    """Where entries are in the file."""

    offset: int
    entries: int
    counted: bool

    @property
    def end(self) -> int:
        return self.offset + _bytes(self.entries, self.counted)


class SpillFile:
    """Entries in a file that disappears with it; what was read leaves room for what comes."""

    def __init__(self) -> None:
        self._file: IO[bytes] | None = None
        self._held: list[Spilled] = []
        """By offset."""

    def write(self, nodes: Nodes, counts: Counts | None) -> Spilled:
        """Keep entries in the first gap that is wide enough."""
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="anabranch-window-")  # noqa: SIM115 - it lives as long as this
        size = _bytes(len(nodes), counts is not None)
        offset, at = 0, 0
        while at < len(self._held) and self._held[at].offset - offset < size:
            offset = self._held[at].end
            at += 1
        self._file.seek(offset)
        self._file.write(nodes.tobytes() if counts is None else nodes.tobytes() + counts.tobytes())
        self._file.flush()
        spilled = Spilled(offset, len(nodes), counts is not None)
        self._held.insert(at, spilled)
        return spilled

    def read(self, spilled: Spilled) -> tuple[Nodes, Counts | None]:
        """Give entries back, and their room free."""
        assert self._file is not None
        self._held.remove(spilled)
        self._file.seek(spilled.offset)
        content = self._file.read(_bytes(spilled.entries, spilled.counted))
        nodes = np.frombuffer(content, np.int32, spilled.entries)
        if not spilled.counted:
            return nodes, None
        return nodes, np.frombuffer(content, np.int64, spilled.entries, 4 * spilled.entries)

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return 0 if self._file is None else os.fstat(self._file.fileno()).st_size


def _bytes(entries: int, counted: bool) -> int:
    """A node has 4 bytes, a count 8."""
    return entries * (12 if counted else 4)
