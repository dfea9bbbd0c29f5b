"""A SELECT as it was written: sqlglot's tree, and beside it the clauses that are ours."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Literal

from sqlglot import exp

from anabranch.errors import SqlError
from anabranch.sql.intervals import format_us
from anabranch.sql.tokens import error_at


@dataclass(frozen=True)
class Window:
    """`WINDOW = size SLIDE slide`: what an answer row looks back on, and how often there is one."""

    unit: Literal["time", "rows"]
    size: int
    slide: int
    start: int = field(default=0, compare=False)

    def describe(self) -> str:
        if self.unit == "time":
            size, slide = "INTERVAL " + format_us(self.size), "INTERVAL " + format_us(self.slide)
        else:
            size, slide = f"{self.size} ROWS", f"{self.slide} ROWS"
        return size if self.size == self.slide else f"{size} SLIDE {slide}"


@dataclass(frozen=True)
class Hint:
    """One hint of `SELECT /*+ INDEX(T) */`, both words in upper case."""

    name: str
    value: str
    start: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Emit:
    """`EMIT CHANGES` or `EMIT FINAL` at the end of a query."""

    changes: bool
    start: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Side:
    """The clauses of one SELECT: of the whole query, or of one side of a set operation."""

    window: Window | None = None
    hints: tuple[Hint, ...] = ()


@dataclass(frozen=True)
class Select:
    """A query's tree without our clauses, those clauses, and the text it came from.

    `window` is the first there is; a set operation has one in each of its `sides`. `source` is the
    query's own text, `text` the whole text it stands in, so that errors found later still point at
    the place the user sees.
    """

    tree: exp.Expr
    window: Window | None
    source: str
    text: str = field(default="", compare=False, repr=False)
    start: int = field(default=0, compare=False, repr=False)
    sides: tuple[Side, ...] = ()
    emit: Emit | None = None

    @property
    def hints(self) -> tuple[Hint, ...]:
        return tuple(hint for side in self.sides for hint in side.hints)

    def side(self, number: int, tree: exp.Expr) -> Select:
        """One side of a set operation as a query of its own."""
        own = self.sides[number]
        return replace(self, tree=tree, window=own.window, sides=(own,), emit=None)

    def error(
        self,
        name: str,
        message: str,
        node: exp.Expr | None = None,
        *,
        detail: str | None = None,
        hint: str | None = None,
        keyword: str | None = None,
        start: int | None = None,
    ) -> SqlError:
        """An error that points at a place: a character, the nearest known for a node, or the keyword before it."""
        if start is None and node is not None:
            start = start_of(node)
        if keyword is not None:
            found = list(re.finditer(rf"\b{keyword}\b", self.text[self.start : start], re.IGNORECASE))
            start = self.start + found[-1].start() if found else start
        return error_at(name, message, self.text, self.start if start is None else start, detail=detail, hint=hint)


def start_of(node: exp.Expr) -> int | None:
    """Where a node begins in the text: the first place known in it, else around it."""
    starts = [each.meta["start"] for each in node.walk() if "start" in each.meta]
    if starts:
        return int(min(starts))
    return start_of(node.parent) if node.parent is not None else None
