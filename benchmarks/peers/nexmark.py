"""Queries of Nexmark: what a peer is told and what it says, as JSON.

This file is read by the Python of each peer's environment, so it needs nothing but the standard library.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Question:
    """A query in the peer's words, and a whole number of each row of its answer that is summed up."""

    name: str
    sql: str
    check: str

    @property
    def summed(self) -> str:
        """How many rows it answers, and the sum of their numbers."""
        return f"SELECT count(*) AS n, CAST(sum(CAST({self.check} AS BIGINT)) AS BIGINT) AS s FROM ({self.sql}) answer"


@dataclass(frozen=True)
class Asked:
    """Questions over the files of a folder: see `benchmarks.nexmark.files`."""

    folder: str
    questions: list[dict[str, str]]
    rounds: int
    threads: int = 2

    def file(self, name: str) -> Path:
        return Path(self.folder) / name


@dataclass(frozen=True)
class Answer:
    """Seconds of each round, and the answer summed up."""

    seconds: list[float]
    count: int
    checksum: int
