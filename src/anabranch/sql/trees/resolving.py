"""Expressions over the columns of the tree: names are looked up, subqueries become joins.

What is read is left as it was written but for the names, so that nothing changes its meaning.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from sqlglot import exp

from anabranch.sql.checking.safety import called
from anabranch.sql.standing.columns import column, conjuncts, joined, without_own_functions
from anabranch.sql.standing.fields import with_fields
from anabranch.sql.trees.context import Context, Ctes
from anabranch.sql.trees.joining import Attachment, Condition
from anabranch.sql.trees.scope import Scope
from anabranch.sql.trees.subqueries import attached_test, attached_value, attached_where, is_any_or_all
from anabranch.sql.windows.aggregate_functions import aggregate_name

RANKING = frozenset(
    {"row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile", "lag", "lead", "nth_value"}
)
"""Functions that only a window has."""


@dataclass
class Resolver:
    """Reads expressions in a scope; `where` is the clause they stand in.

    `attached` are the subqueries met so far, which the rows have to be joined with before.
    """

    context: Context
    scope: Scope
    ctes: Ctes
    where: str
    aliases: Mapping[str, exp.Expr] = field(default_factory=dict)
    attached: list[Attachment] = field(default_factory=list)
    positive: bool = False
    """Whether NULL may be taken for false where the expression stands."""

    def read(self, written: exp.Expr) -> exp.Expr:
        return self.visit(self._prepared(written))

    def _prepared(self, written: exp.Expr) -> exp.Expr:
        """A copy in which functions and fields are as they are read."""
        return with_fields(without_own_functions(written.copy()), self.scope.has)

    def conditions(self, written: exp.Expr) -> list[Condition]:
        """A condition as its parts that must all be true."""
        parts = conjuncts(self._prepared(written))
        return [self._condition(each) for part in parts for each in factored(part)]

    def _condition(self, written: exp.Expr) -> Condition:
        reader = replace(self, attached=[])
        test, negated = _negated(written)
        if isinstance(test, exp.Exists) or (isinstance(test, exp.In) and test.args.get("query") is not None):
            value, attachment = attached_where(reader, test, negated=negated)
            reader.attached.append(attachment)
            return Condition(value, written, tuple(reader.attached))
        reader.positive = True
        value = reader.visit(written.copy())
        return Condition(value, written, tuple(reader.attached))

    # -- nodes -------------------------------------------------------------------------------------

    def visit(self, node: exp.Expr) -> exp.Expr:
        """The expression of a node that is a copy."""
        positive, self.positive = self.positive, self.positive and isinstance(node, exp.And | exp.Or | exp.Paren)
        try:
            return self._visit(node, positive)
        finally:
            self.positive = positive

    def _visit(self, node: exp.Expr, positive: bool) -> exp.Expr:
        if isinstance(node, exp.Column):
            return self.column(node)
        if isinstance(node, exp.Subquery):
            return attached_value(self, node)
        if isinstance(node, exp.Exists) or (isinstance(node, exp.In) and node.args.get("query") is not None):
            return attached_test(self, node, positive=positive)
        if is_any_or_all(node) or isinstance(node, exp.Query):
            raise self.context.refuse(
                "ANY and ALL are not available", node, "write IN (SELECT …), EXISTS (…), or compare with max() or min()"
            )
        if isinstance(node, exp.Window):
            return self.window(node)
        if isinstance(node, exp.Filter | exp.WithinGroup) or aggregate_name(node):
            return self.aggregate(node)
        if called(node) in RANKING:
            raise self.context.select.error(
                "FUNCTION_ARGUMENTS", f"{called(node)}() needs OVER (…)", node, hint=f"write {called(node)}(…) OVER (…)"
            )
        if isinstance(node, exp.Star):
            raise self.context.select.error("SYNTAX_ERROR", "* stands only by itself in the select list", node)
        if isinstance(node, exp.Lambda):
            raise self.context.select.error(
                "EXPRESSION_NEEDS_SPARK",
                "a function with -> needs Spark SQL, which cannot keep an answer that changes",
                node,
                hint="compute it in a CREATE STREAM … AS SELECT … first and read that stream",
            )
        for part in list(node.iter_expressions()):
            value = self.visit(part)
            if value is not part:
                part.replace(value)
        return node

    def column(self, node: exp.Column) -> exp.Expr:
        found = self.scope.here(node)
        if found is None and not node.table and node.name.lower() in self.aliases:
            return exp.Paren(this=self.aliases[node.name.lower()].copy())
        found = found or self.scope.around(node)
        if found is None:
            raise self.scope.not_found(node, self.aliases)
        return placed(found.column, node)

    def aggregate(self, node: exp.Expr) -> exp.Expr:
        call = node.find(exp.Anonymous)
        name = aggregate_name(node) or aggregate_name(node.this) or (called(call) if call is not None else "")
        if isinstance(node, exp.Filter) and aggregate_name(node.this) is None:
            raise self.context.refuse("FILTER is for aggregates", node, "write CASE WHEN … END")
        inside = self.where == "an aggregate"
        raise self.context.select.error(
            "AGGREGATE_MISPLACED",
            f"{self.where} cannot hold {'another' if inside else f'{name}()'}",
            call if call is not None else node,
            hint="aggregate in a subquery in FROM first" if inside or self.where != "WHERE" else "use HAVING",
        )

    def window(self, node: exp.Window) -> exp.Expr:
        raise self.context.refuse(
            f"{self.where} cannot hold a window function", node,
            "write QUALIFY, or compute it in a subquery in FROM" if self.where in ("WHERE", "HAVING")
            else "compute it in a subquery in FROM",
        )  # fmt: skip


def placed(name: str, node: exp.Column) -> exp.Column:
    """A column of the tree that stands where another was written."""
    value = column(name)
    if isinstance(node.this, exp.Identifier):
        value.this.update_positions(node.this)
    return value


def factored(condition: exp.Expr) -> list[exp.Expr]:
    """`(a AND b) OR (a AND c)` as `a` and `b OR c`, so that an equality that is in all of them can be a key."""
    branches = _branches(condition)
    if len(branches) < 2:
        return [condition]
    parts = [conjuncts(branch) for branch in branches]
    common = [part for part in parts[0] if all(part in other for other in parts[1:])]
    if not common or any(part.find(exp.Query) for part in common):
        return [condition]
    rests = [joined([part for part in some if part not in common]) for some in parts]
    whole = [] if None in rests else [exp.or_(*(rest for rest in rests if rest is not None), copy=True)]
    return [*common, *whole]


def _branches(condition: exp.Expr) -> list[exp.Expr]:
    """The parts of a condition of which one must be true."""
    if isinstance(condition, exp.Paren):
        return _branches(condition.this)
    if isinstance(condition, exp.Or):
        return [*_branches(condition.this), *_branches(condition.expression)]
    return [condition]


def _negated(written: exp.Expr) -> tuple[exp.Expr, bool]:
    """What stands behind NOT and parentheses, and whether it is denied."""
    negated = False
    while isinstance(written, exp.Not | exp.Paren):
        negated ^= isinstance(written, exp.Not)
        written = written.this
    return written, negated
