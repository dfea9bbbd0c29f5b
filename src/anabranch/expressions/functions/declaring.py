"""What is said of a function, once: a row of the table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeVar

from sqlglot import exp

from anabranch.expressions.expr import Build, Expr, Handler, NotEvaluable


@dataclass(frozen=True)
class Rule:
    """How one kind of node is evaluated; `typing` says what it takes and gives."""

    handler: Handler
    typing: str
    args: tuple[str, ...] = ("this",)


@dataclass(frozen=True)
class Example:
    """A call, and what it gives; one of a time says so as text, for people to read."""

    call: str
    gives: Any


@dataclass(frozen=True)
class InSpark:
    """How Spark has a function of ours: another name, and constants before and behind its arguments.

    With another number of `arguments` it is left as it is, and refused; None: any number will do.
    """

    name: str
    before: tuple[str | float, ...] = ()
    behind: tuple[str | float, ...] = ()
    arguments: int | None = None

    def call(self, arguments: Sequence[exp.Expr]) -> exp.Anonymous:
        """The call as Spark has it."""
        before, behind = ([_literal(value) for value in values] for values in (self.before, self.behind))
        return exp.Anonymous(this=self.name, expressions=[*before, *arguments, *behind])


def _literal(value: str | float) -> exp.Expr:
    return exp.Literal.string(value) if isinstance(value, str) else exp.Literal.number(value)


@dataclass(frozen=True)
class ScalarFunction:
    """A function that is no aggregate: of one row, or in a one-time query of several."""

    name: str
    doc: str
    aliases: tuple[str, ...] = ()
    group: str = ""
    """What it is about; the file it stands in says so."""
    rules: Mapping[type[exp.Expr], Rule] = field(default_factory=dict)
    """How the nodes that calls are parsed to are evaluated on Arrow columns; none: Spark SQL alone does it.

    `exp.Anonymous` is for names that the parser does not know; such a rule is given the node with all its arguments.
    """
    refused: Mapping[type[exp.Expr], str] = field(default_factory=dict)
    """Why nodes that one would expect to be evaluated on Arrow columns are left to Spark SQL."""
    varies: Literal["never", "always", "without arguments"] = "never"
    """When it gives another answer each time (the clock, chance): a standing query could not be repeated with that."""
    takes_times: bool = False
    """Whether Spark reads a text among its arguments as a time, which the clock may decide."""
    truncates_to: str | None = None
    """The unit it cuts a time to: in GROUP BY it says windows of that length."""
    in_spark: Mapping[str, InSpark | None] = field(default_factory=dict)
    """Those of its names that Spark does not have, and what it has instead, if anything."""
    example: Example | None = None

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name, *self.aliases)


class Named(Protocol):
    """A row of a table, and the names it is called by."""

    @property
    def names(self) -> tuple[str, ...]: ...


Row = TypeVar("Row", bound=Named)


def by_name(families: Iterable[Iterable[Row]]) -> dict[str, Row]:
    """Rows by each of their names; a name stands for one row only."""
    table: dict[str, Row] = {}
    for row in (row for family in families for row in family):
        for name in row.names:
            assert name not in table, f"{name} is in the table twice"
            table[name] = row
    return table


def left_to_spark(group: str, lines: str, **more: Any) -> tuple[ScalarFunction, ...]:
    """Functions that Spark SQL alone evaluates, each a line with its names and what it gives."""
    return tuple(_row(group, line, more) for line in lines.strip().splitlines())


def _row(group: str, line: str, more: dict[str, Any]) -> ScalarFunction:
    names, _, doc = line.partition(": ")
    name, *aliases = names.split(", ")
    return ScalarFunction(name, doc, tuple(aliases), group, **more)


def of_one(evaluated: Callable[[Expr], Expr]) -> Handler:
    """For a function of one argument that the parser knows only by name."""

    def handler(node: exp.Anonymous, build: Build) -> Expr:
        if len(node.expressions) != 1:
            raise NotEvaluable(f"{node.sql(dialect='spark')}: it is evaluated with one argument")
        return evaluated(build(node.expressions[0]))

    return handler
