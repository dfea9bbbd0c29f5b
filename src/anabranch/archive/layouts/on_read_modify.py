"""A smaller copy made of what reduced reads have left (OnReadModify, §4.1.2): the lazy approach.

The first reduced read of a run marks the other rows dead: it notes the part of the run that lives
(§5.3 keeps it for each block). The vacuumer copies the living to a second table, to which new rows go as
well; later reads take that, unless they need more of a run than lives there. See `archive.marks` and
`archive.vacuum`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from anabranch.archive.layouts.base import PRIMARY, Layout, ReadPlace
from anabranch.archive.runs import Run

COPY = "copy"


@dataclass(frozen=True)
class OnReadModify(Layout):
    """One table of all rows, and once the vacuumer was there, one of those that live."""

    name: ClassVar[str] = "on_read_modify"

    has_copy: bool = False

    def tables(self) -> tuple[str, ...]:
        return (PRIMARY, COPY) if self.has_copy else (PRIMARY,)

    def choose(self, run: Run, keep: float, by: str | None, copies: Mapping[str, Mapping[int, Run]]) -> ReadPlace:
        copy = copies.get(COPY, {}).get(run.first)
        if by is None and keep < 1 and copy is not None and copy.rows == run.rows and copy.holds(keep):
            return ReadPlace(COPY, copy, copy.blocks)
        return ReadPlace(PRIMARY, run, run.blocks)
