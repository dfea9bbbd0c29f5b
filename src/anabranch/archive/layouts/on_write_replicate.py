"""Smaller copies that are written along (OnWriteReplicate, §4.1.1): the eager approach.

A reduced read takes the smallest copy that holds all it keeps, and drops the rest itself. Samples nest,
so a copy of 20 % holds the rows of every smaller sample.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from anabranch.archive.layouts.base import PRIMARY, Layout, ReadPlace
from anabranch.archive.runs import Run

COPIES = "copies"


@dataclass(frozen=True)
class OnWriteReplicate(Layout):
    """One table of all rows, and one for each level of reduction."""

    name: ClassVar[str] = "on_write_replicate"

    def tables(self) -> tuple[str, ...]:
        return (PRIMARY, *(copy_of(level) for level in self.info.levels))

    def rate(self, table: str) -> float:
        return 1.0 if table == PRIMARY else 1 - int(table.rpartition("/")[2]) / 100

    def choose(self, run: Run, keep: float, by: str | None, copies: Mapping[str, Mapping[int, Run]]) -> ReadPlace:
        if by is None:
            for level in sorted(self.info.levels, reverse=True):
                copy = copies.get(copy_of(level), {}).get(run.first)
                # A copy may still lack runs, or hold them cut otherwise, while compaction is on its way.
                if copy is not None and copy.rows == run.rows and copy.holds(keep):
                    return ReadPlace(copy_of(level), copy, copy.blocks)
        return ReadPlace(PRIMARY, run, run.blocks)


def copy_of(level: int) -> str:
    """The table of the copy that is reduced by `level` percent."""
    return f"{COPIES}/{level}"
