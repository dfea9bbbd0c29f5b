"""The clauses about history as they were written: archives, SINCE, REDUCE BY, and how exact an answer has to be.

Times are microseconds since 1970, lengths of time microseconds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

CONFIDENCE = 0.95
"""How sure the bounds of an answer are where nothing is said."""


@dataclass(frozen=True)
class ReduceBy:
    """`REDUCE BY name(argument, …)`: numbers, lengths of time (timedelta) and names of columns."""

    name: str
    arguments: tuple[Any, ...] = ()
    start: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Portions:
    """`LAST count INTERVAL period WITHIN INTERVAL within IN EACH`: which portions of history a live row is seen in."""

    count: int
    period: int
    within: int
    match: Literal["each", "any"] = "each"
    start: int = field(default=0, compare=False)


@dataclass(frozen=True)
class ArchiveTable:
    """`ARCHIVE [name ON] stream …` in the place of a table; the stream's name stands at `table` in the text.

    `until` is excluded.
    """

    name: str | None = None
    since: int | None = None
    until: int | None = None
    portions: Portions | None = None
    reducing: ReduceBy | None = None
    start: int = field(default=0, compare=False)
    table: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Since:
    """`SINCE TIMESTAMP … [UNTIL TIMESTAMP …] [REDUCE BY …]` behind a stream; `until` is excluded."""

    since: int
    until: int | None = None
    reducing: ReduceBy | None = None
    start: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Accuracy:
    """`WITH ERROR` (percent), `WITHIN` (microseconds) or `WITH CONFIDENCE` alone, at the end of a query."""

    error: float | None = None
    within: int | None = None
    confidence: float = CONFIDENCE
    start: int = field(default=0, compare=False)

    @property
    def said(self) -> str:
        """The words it begins with."""
        return "WITH ERROR" if self.error is not None else "WITHIN" if self.within is not None else "WITH CONFIDENCE"
