"""Names in a standing query: which column of the stream each one is, and how it is written again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

import pyarrow as pa
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from anabranch import expressions
from anabranch.errors import AnabranchError, SqlError, did_you_mean
from anabranch.functions import AGGREGATES, named
from anabranch.schema import StreamSchema
from anabranch.sql.checking.safety import called
from anabranch.sql.standing.fields import with_fields
from anabranch.sql.tree import Select


@lru_cache(maxsize=4096)
def needs_quotes(name: str) -> bool:
    """True unless the name, written bare, is read back as exactly this column."""
    try:
        tree = sqlglot.parse_one(name, dialect="spark")
    except (SqlglotError, RecursionError):
        return True
    return not (
        isinstance(tree, exp.Column)
        and isinstance(tree.this, exp.Identifier)
        and not tree.table
        and not tree.this.quoted
        and tree.name == name
        and not any(part.comments for part in tree.walk())
    )


def column(name: str) -> exp.Column:
    """A reference to a column, quoted where its name asks for it."""
    return exp.Column(this=exp.Identifier(this=name, quoted=needs_quotes(name)))


WINDOW_COLUMNS = ("window_start", "window_end")
WINDOW_CALLS = ("window", "session_window")
"""What Spark calls a window in GROUP BY, and its column."""


def window_column(node: exp.Expr) -> str | None:
    """`window_start`, `window_end`, and `window.start`, `session_window.end` and so on as Spark has them."""
    if not isinstance(node, exp.Column) or node.args.get("db") is not None:
        return None
    if not node.table and node.name.lower() in WINDOW_COLUMNS:
        return node.name.lower()
    if node.table.lower() in WINDOW_CALLS and node.name.lower() in ("start", "end"):
        return f"window_{node.name.lower()}"
    return None


def sql_of(node: exp.Expr) -> str:
    """The text of an expression, as operators carry it."""
    return node.sql(dialect="spark", comments=False, normalize_functions="lower")


def in_parentheses(value: exp.Expr) -> exp.Expr:
    """A copy that can stand inside another expression."""
    return value.copy() if isinstance(value, exp.Column) else exp.Paren(this=value.copy())


def selects_all(select: Select) -> bool:
    """Whether a query answers with `*`, whatever columns that are."""
    return any(not is_of_rows(star) for star in select.tree.find_all(exp.Star))


def is_of_rows(star: exp.Star) -> bool:
    """Whether a star means every row, as in `count(*)`, and no columns; one that stands nowhere does, too."""
    row = None if star.parent is None else AGGREGATES.get(called(star.parent))
    return star.parent is None or (row is not None and row.of_rows)


def conjuncts(condition: exp.Expr) -> list[exp.Expr]:
    """The parts of a condition that must all be true."""
    if isinstance(condition, exp.Paren):
        return conjuncts(condition.this)
    if isinstance(condition, exp.And):
        return [*conjuncts(condition.this), *conjuncts(condition.expression)]
    return [condition]


def joined(conditions: list[exp.Expr]) -> exp.Expr | None:
    """One condition out of several that must all be true."""
    return exp.and_(*map(_as_truth, conditions), copy=True) if conditions else None


def _as_truth(condition: exp.Expr) -> exp.Expr:
    """A condition as a BOOLEAN: a bare NULL has no type of its own."""
    return exp.cast(exp.Null(), "boolean") if isinstance(condition.unnest(), exp.Null) else condition


def without_own_functions(node: exp.Expr) -> exp.Expr:
    """Functions of ours as Spark has them: getminute(x) is date_trunc('MINUTE', x); all names in lower case."""

    def replace(inner: exp.Expr) -> exp.Expr:
        name = called(inner)
        row = named(name)
        instead = None if row is None else row.in_spark.get(name)
        if instead is not None and instead.arguments in (None, len(inner.expressions)):
            return instead.call(inner.expressions)
        if name:
            inner.set("this", name)
        return inner

    return node.transform(replace)


@dataclass(frozen=True)
class Scope:
    """The one stream a standing query reads, and what its names mean."""

    select: Select
    stream: str
    alias: str
    schema: StreamSchema
    what: str = field(default="stream", kw_only=True)
    """What it is that is read, as errors say it."""

    @property
    def is_join(self) -> bool:
        """True if several streams stand side by side."""
        return False

    @property
    def has_windows(self) -> bool:
        """True if groups lie in windows, the ends of which can be named."""
        return True

    @property
    def inside(self) -> str:
        """Where aggregates are computed, as errors say it."""
        return "inside a window"

    @property
    def instead(self) -> str:
        """What to do with an expression that cannot be computed there."""
        return "put the expression in a CREATE STREAM … AS SELECT … first and read that stream"

    def spelled(self, node: exp.Column) -> str:
        """What a column is called in an answer that does not rename it."""
        return self.find(node.name) or node.name

    def find(self, name: str) -> str | None:
        """The stream's own spelling of a column's name."""
        if name in self.schema.names:
            return name
        return next((known for known in self.schema.names if known.lower() == name.lower()), None)

    def name_of(self, node: exp.Column) -> str | None:
        """The stream's column a reference means, or None; a wrong qualifier is an error."""
        if node.args.get("db") is not None or (node.table and node.table.lower() != self.alias.lower()):
            raise self.select.error(
                "COLUMN_NOT_FOUND",
                f'"{".".join(part.name for part in node.parts)}" is not a column of "{self.alias}"',
                node,
                hint=f"columns are written name or {self.alias}.name",
            )
        return self.find(node.name)

    def resolve(
        self, node: exp.Expr, aliases: Mapping[str, exp.Expr] | None = None, *, in_window: bool = False
    ) -> exp.Expr:
        """The expression over the stream's columns; names of earlier columns of the answer are put in.

        `in_window` it may also use the window's ends.
        """

        def replace(inner: exp.Expr) -> exp.Expr:
            if not isinstance(inner, exp.Column):
                return inner
            if isinstance(inner.this, exp.Star):
                raise self.select.error("SYNTAX_ERROR", "* stands only by itself in the select list", inner)
            name = (window_column(inner) if in_window else None) or self.name_of(inner)
            if in_window and name in WINDOW_COLUMNS and self.find(name) is not None:
                raise self.hidden_by_window(name, inner)
            if name is not None:
                replacement = column(name)
                replacement.this.update_positions(inner.this)
                return replacement
            if aliases and not inner.table and inner.name.lower() in aliases:
                return exp.Paren(this=aliases[inner.name.lower()].copy())
            raise self.not_found(inner, list(aliases or ()))

        return self.reaching(without_own_functions(node.copy())).transform(replace)

    def reaching(self, node: exp.Expr) -> exp.Expr:
        """The expression, changed, in which names that reach into a column are told from columns of sources."""
        return with_fields(node, self.has)

    def has(self, source: str | None, name: str) -> bool:
        """Whether a source, or if None any, has a column."""
        return (source is None or source.lower() == self.alias.lower()) and self.find(name) is not None

    def hidden_by_window(self, name: str, node: exp.Expr) -> SqlError:
        return self.select.error(
            "COLUMN_AMBIGUOUS",
            f'"{name}" is a column of "{self.stream}", and inside a window an end of the window',
            node,
            hint=f"give it another name in a CREATE STREAM … AS SELECT {name} AS …",
        )

    def not_found(self, node: exp.Column, others: list[str]) -> SqlError:
        known = [*self.schema.names, *others]
        return self.select.error(
            "COLUMN_NOT_FOUND",
            f'column "{node.name}" is not in {self.what} "{self.stream}"',
            node,
            hint=did_you_mean(node.name, known),
        )

    def compile(self, node: exp.Expr, schema: pa.Schema | None = None) -> expressions.Compiled:
        """The expression compiled over the stream's columns (or another schema), errors in their place."""
        try:
            return expressions.compile(sql_of(node), schema if schema is not None else self.schema.arrow)
        except AnabranchError as problem:
            if problem.line is not None:
                raise
            raise self.select.error(
                problem.name, problem.message, node, detail=problem.detail, hint=problem.hint
            ) from None

    def can_compile(self, node: exp.Expr) -> bool:
        try:
            self.compile(node)
        except expressions.NotEvaluable:
            return False
        return True
