"""What a basic window keeps of its tuples.

L. Golab, S. Garg and M. T. Özsu, "On Indexing Sliding Windows over On-line Data Streams" (2003), §3.2.
Below, b is the number of tuples in a basic window and d the number of distinct values.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, NamedTuple

import numpy as np

from anabranch.kernels.values import frozen
from anabranch.windows.index.base import Codes, Counts, Groups, prepared

NO_GROUPS: Groups = frozen(np.empty(0, np.int32))


class Entries(NamedTuple):
    """The entries of one basic window."""

    groups: Groups | None
    codes: Codes
    counts: Counts | None
    """How many tuples each entry stands for; None: one."""

    @property
    def tuples(self) -> int:
        return len(self.codes) if self.counts is None else int(self.counts.sum())


class Storage(ABC):
    """Tuples in, entries out."""

    name: ClassVar[str]

    @abstractmethod
    def build(self, codes: Codes, groups: Groups | None = None) -> Entries:
        """The entries of a basic window with these tuples, in order of arrival."""

    @abstractmethod
    def draw(self, entries: Entries, decode: Callable[[int], str] = str) -> str:
        """The basic window as text."""


def labelled(entries: Entries, decode: Callable[[int], str]) -> list[str]:
    """Each entry as text."""
    if entries.counts is None:
        return [decode(code) for code in entries.codes.tolist()]
    return [f"{decode(c)}:{n}" for c, n in zip(entries.codes.tolist(), entries.counts.tolist(), strict=True)]


def kernel_input(codes: Codes, groups: Groups | None) -> tuple[Codes, Groups]:
    """Codes and groups as kernels take them."""
    return prepared(codes, np.int64), NO_GROUPS if groups is None else prepared(groups, np.int32)
