"""Many statements over one stream: what a peer is told and what it says, as JSON.

This file is read by the Python of each peer's environment, so it needs nothing but the standard library.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Asked:
    """The first `count` of the statements in a folder, over the first rows there."""

    folder: str
    name: str
    """Of the statements: a file for each language they are written in, a line for each."""
    count: int
    rows: int
    """Of s."""
    few_rows: int
    """Of e, that come beside them."""
    warm_rows: int
    """How many of those of s come before anything is measured."""
    per_second: int
    """Of the rows' own time."""
    threads: int = 2

    def statements(self, language: str) -> list[str]:
        return self.file(f"{self.name}.{language}").read_text(encoding="utf-8").splitlines()[: self.count]

    def file(self, name: str) -> Path:
        return Path(self.folder) / name


@dataclass(frozen=True)
class AskedInTime(Asked):
    """The same, with the rows at the speed of their own time: how many statements keep up."""

    ladder: tuple[int, ...] = ()
    """How many are tried, from `count` up while they keep up, or down until they do."""


@dataclass(frozen=True)
class Answered:
    """How long the rows took; it counts only if the answers are as many as they should be."""

    seconds: float
    rows: int
    counts: list[int]
    """For each statement how many rows it answered; of windows, how many rows they counted together."""
    version: str
    notes: dict[str, float]


@dataclass(frozen=True)
class Step:
    """So many statements, and how late the latest of the rows were answered once all ran, in seconds."""

    statements: int
    late: float
    counts: list[int]
