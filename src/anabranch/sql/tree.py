"""A SELECT as it was written: sqlglot's tree, and beside it the clauses that are ours."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Literal

from sqlglot import exp

from anabranch.errors import SqlError
from anabranch.sql.archive_tree import Accuracy, ArchiveTable, Since
from anabranch.sql.reading.intervals import format_us
from anabranch.sql.reading.tokens import error_at


@dataclass(frozen=True)
class WindowTable:
    """`SESSION(TABLE s PARTITION BY k, DESCRIPTOR(ts), …)`: what a window in FROM says besides, as it is written."""

    function: str
    column: str
    partition: tuple[str, ...] | None
    start: int


WindowForm = Literal["sliding", "session", "last rows", "table function"]
"""Of one length; ended by a pause; for each row the last ones of its key. And however it is, it may be said in FROM."""


@dataclass(frozen=True)
class Window:
    """`WINDOW = size SLIDE slide`: what an answer row looks back on, and how often there is one.

    `WINDOW = SESSION size` ends with a pause that is longer than `size`, `WINDOW = size ROWS PER k` are, for each row,
    the last ones of its key.
    """

    unit: Literal["time", "rows"]
    size: int
    slide: int
    start: int = field(default=0, compare=False)
    slide_start: int | None = field(default=None, compare=False)
    kind: WindowForm = "sliding"
    per: tuple[str, ...] = ()
    over: WindowTable | None = field(default=None, compare=False)

    @property
    def forms(self) -> set[WindowForm]:
        return {self.kind, "table function"} if self.over is not None else {self.kind}

    def describe(self) -> str:
        if self.kind == "session":
            return "SESSION INTERVAL " + format_us(self.size)
        if self.kind == "last rows":
            return f"{self.size} ROWS PER {', '.join(self.per)}"
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
class Pair:
    """`WINDOW(first, second) = …`: how far the time of the second may be from that of the first.

    The difference of their times, second minus first, is from `low` to `high`; in ROWS both are the number.
    """

    first: str
    second: str
    unit: Literal["time", "rows"]
    low: int
    high: int
    start: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Shedding:
    """`WITH (memory = …, shed = …)`: how many bytes of rows a join may keep, and which it lets go first."""

    memory: int
    shed: Literal["random", "oldest", "matches"]
    start: int = field(default=0, compare=False)


@dataclass(frozen=True)
class MergeOptions:
    """`WITH (…)` of MERGE JOIN; `every` is in microseconds, None where only a full step makes a round.

    So is `wait`, 0 where records wait as long as there is room. None: as the streams and keys suggest.
    """

    algorithm: Literal["cgm", "rtm"] = "cgm"
    policy: Literal["first", "nearest", "all"] = "first"
    window: int = 5000
    step: int = 1000
    every: int | None = 1_000_000
    delta: float | None = None
    over: int = 20
    memory: int = 64 << 20
    remainder: Literal["rest", "difference"] = "rest"
    pace: Literal["time", "rows"] | None = None
    wait: int | None = None
    start: int | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Merging:
    """The MERGE JOINs of a SELECT: where each MERGE stands, and the options of all."""

    starts: tuple[int, ...]
    options: MergeOptions = MergeOptions()


@dataclass(frozen=True)
class Emit:
    """`EMIT CHANGES`, `FINAL`, `IN ORDER` or `EVERY INTERVAL …` at the end of a query; `every` is in microseconds."""

    kind: Literal["CHANGES", "FINAL", "IN ORDER", "EVERY"]
    start: int = field(default=0, compare=False)
    every: int | None = None

    @property
    def changes(self) -> bool:
        return self.kind == "CHANGES"


@dataclass(frozen=True)
class Bounding:
    """`ACCEPT UNBOUNDED`, `EXPIRE AFTER INTERVAL …` or `KEEP GROUPS n` at the end of a query: what bounds it.

    `after` is in microseconds, `groups` how many there are; both are None where nothing has to.
    """

    after: int | None
    start: int = field(default=0, compare=False)
    groups: int | None = None

    @property
    def accepts(self) -> bool:
        """Whether it may keep ever more."""
        return self.after is None and self.groups is None

    @property
    def said(self) -> str:
        if self.groups is not None:
            return f"KEEP GROUPS {self.groups}"
        return "ACCEPT UNBOUNDED" if self.after is None else f"EXPIRE AFTER INTERVAL {format_us(self.after)}"


@dataclass(frozen=True)
class Side:
    """The clauses of one SELECT: of the whole query, of one side of a set operation, or of a subquery."""

    window: Window | None = None
    hints: tuple[Hint, ...] = ()
    pairs: tuple[Pair, ...] = ()
    shedding: Shedding | None = None
    merge: Merging | None = None
    since: Since | None = None

    @property
    def is_empty(self) -> bool:
        return self == Side()


@dataclass(frozen=True)
class Inner:
    """The clauses of a subquery, which stands between two characters of the text."""

    begin: int
    end: int
    side: Side


@dataclass(frozen=True)
class Select:
    """A query's tree without our clauses, those clauses, and the text it came from.

    `window` is the first there is; a set operation has one in each of its `sides`. `archives` are the
    tables that are read from an archive, wherever they stand. `source` is the query's own text, `text` the
    whole text it stands in, so that errors found later still point at the place the user sees.
    """

    tree: exp.Expr
    window: Window | None
    source: str
    text: str = field(default="", compare=False, repr=False)
    start: int = field(default=0, compare=False, repr=False)
    sides: tuple[Side, ...] = ()
    emit: Emit | None = None
    inner: tuple[Inner, ...] = ()
    archives: tuple[ArchiveTable, ...] = ()
    accuracy: Accuracy | None = None
    bounding: Bounding | None = None
    spans: tuple[Inner, ...] = field(default=(), compare=False, repr=False)
    """Where every SELECT stands, with its clauses."""

    @property
    def windows(self) -> list[Window]:
        """All WINDOWs of it and of its subqueries."""
        sides = (*self.sides, *(inner.side for inner in self.inner))
        return [side.window for side in sides if side.window is not None]

    @property
    def hints(self) -> tuple[Hint, ...]:
        return tuple(hint for side in self.sides for hint in side.hints)

    @property
    def pairs(self) -> tuple[Pair, ...]:
        return tuple(pair for side in self.sides for pair in side.pairs)

    @property
    def shedding(self) -> Shedding | None:
        return next((side.shedding for side in self.sides if side.shedding is not None), None)

    @property
    def merge(self) -> Merging | None:
        return next((side.merge for side in self.sides if side.merge is not None), None)

    @property
    def merges(self) -> bool:
        """Whether MERGE JOIN stands in it, or in a subquery of it."""
        return self.merge is not None or any(span.side.merge is not None for span in self.spans)

    @property
    def since(self) -> Since | None:
        return next((side.since for side in self.sides if side.since is not None), None)

    def archive(self, table: exp.Table) -> ArchiveTable | None:
        """What says that a table is read from an archive."""
        start = start_of(table)
        return next((archive for archive in self.archives if archive.table == start), None)

    @property
    def every(self) -> int | None:
        """How often `EMIT EVERY` wants an answer."""
        return self.emit.every if self.emit is not None else None

    def side(self, number: int, tree: exp.Expr) -> Select:
        """One side of a set operation as a query of its own."""
        own = self.sides[number]
        return replace(self, tree=tree, window=own.window, sides=(own,), emit=None)

    def subquery(self, tree: exp.Expr) -> Select:
        """A subquery with its clauses as a query of its own."""
        own = self.clauses_of(tree)
        return replace(self, tree=tree, window=own.window, sides=(own,), emit=None, inner=())

    def clauses_of(self, tree: exp.Expr) -> Side:
        """The clauses of a SELECT inside the query: those of the closest parentheses, or side, around it."""
        start = start_of(tree)
        around = [inner for inner in self.spans if start is not None and inner.begin <= start <= inner.end]
        return min(around, key=lambda inner: inner.end - inner.begin).side if around else Side()

    def part(self, tree: exp.Expr, sides: tuple[Side, ...]) -> Select:
        """A part of the query, with the clauses of its sides, as a query of its own."""
        window = next((side.window for side in sides if side.window is not None), None)
        return replace(self, tree=tree, window=window, sides=sides, emit=None, inner=(), bounding=None)

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
            keywords = list(re.finditer(rf"\b{keyword}\b", self.text[self.start : start], re.IGNORECASE))
            start = self.start + keywords[-1].start() if keywords else start
        return error_at(name, message, self.text, self.start if start is None else start, detail=detail, hint=hint)


def start_of(node: exp.Expr) -> int | None:
    """Where a node begins in the text: the first place known in it, else around it."""
    starts = [inner.meta["start"] for inner in node.walk() if "start" in inner.meta]
    if starts:
        return int(min(starts))
    return start_of(node.parent) if node.parent is not None else None
