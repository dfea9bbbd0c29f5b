"""Calls of aggregates: what a node asks for, in the words of the operator.

The operator knows a function with its constants, such as `percentile(0.95)`, and one argument.
Here the many ways to write that are read: `percentile(x, 0.95)`, `quantile(x, 0.95)`,
`percentile_cont(0.95) WITHIN GROUP (ORDER BY x)`, `count(DISTINCT x)`, `sum(x) FILTER (WHERE y > 1)`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from anabranch import expressions
from anabranch.errors import AnabranchError, SqlError
from anabranch.sql.aggregate_functions import AVAILABLE, FUNCTIONS, aggregate_name
from anabranch.sql.columns import sql_of
from anabranch.sql.tree import Select

DEFAULT_DEVIATION = 0.05
"""The relative standard deviation of approx_count_distinct, as in Spark."""
DEVIATIONS = (0.01, 0.4)
"""What can be asked for: a finer sketch would take too much for each pane and group."""


@dataclass(frozen=True)
class Call:
    """An aggregate: the operator's function, its argument (None: every row), and how it is shown, with {} for that."""

    function: str
    argument: exp.Expr | None
    pattern: str

    def shown(self, argument: str) -> str:
        """The call as people read it."""
        return self.pattern.replace("{}", argument.replace("`", ""))


def read_call(select: Select, node: exp.Expr) -> Call:
    """What an aggregate's node asks for; `node` is one that `aggregate_name` knows."""
    name = aggregate_name(node)
    assert name is not None
    return _Reader(select, node, name).read()


def without_filter(node: exp.Filter) -> exp.Expr:
    """The aggregate over a CASE that is NULL where the condition of FILTER does not hold: aggregates skip NULL."""
    call: exp.Expr = node.this.copy()
    inner = call.this if isinstance(call, exp.WithinGroup) else call
    keys = [key.this for key in call.expression.expressions] if isinstance(call, exp.WithinGroup) else []
    distinct = [value for each in inner.expressions if isinstance(each, exp.Distinct) for value in each.expressions]
    value = next(iter([*keys, *distinct, *inner.expressions]), None)
    if value is None or (isinstance(value, exp.Star) and aggregate_name(call) != "count"):
        return call  # means nothing, with FILTER or without
    counted = exp.Literal.number(1) if isinstance(value, exp.Star) else value.copy()
    value.replace(exp.Case(ifs=[exp.If(this=node.expression.this.copy(), true=counted)]))
    return call


@dataclass(frozen=True)
class _Reader:
    select: Select
    node: exp.Expr
    name: str

    def read(self) -> Call:
        if self.name not in FUNCTIONS.values():
            raise self._error(
                "AGGREGATE_NOT_AVAILABLE",
                f"{self.name}() cannot be computed over windows",
                hint=f"there are: {AVAILABLE}",
            )
        if isinstance(self.node, exp.WithinGroup):
            return self._within_group(self.node)
        arguments = list(self.node.expressions)
        if any(isinstance(each, exp.Distinct) for each in arguments):
            return self._distinct(arguments)
        if any(isinstance(each, exp.Star) for each in arguments) and (self.name != "count" or len(arguments) > 1):
            raise self._error("FUNCTION_ARGUMENTS", f"{self.name}(*) means nothing", hint="name a column")
        return _FORMS.get(self.name, _Reader._of_one)(self, arguments)

    # -- the ways to write one -------------------------------------------------------------------

    def _of_one(self, arguments: list[exp.Expr]) -> Call:
        if len(arguments) != 1:
            raise self._error("FUNCTION_ARGUMENTS", f"{self.name}() takes one argument")
        argument = arguments[0]
        if self.name == "count" and isinstance(argument, exp.Star | exp.Literal):
            return Call("count", None, "count(*)")
        return Call(self.name, argument, f"{self.name}({{}})")

    def _count_if(self, arguments: list[exp.Expr]) -> Call:
        only = self._of_one(arguments)
        holds = exp.Case(ifs=[exp.If(this=arguments[0].copy(), true=exp.Literal.number(1))])
        return Call("count", holds, only.pattern)

    def _with_share(self, arguments: list[exp.Expr]) -> Call:
        if len(arguments) == 3 and self.name == "approx_percentile":
            raise self._error(
                "FUNCTION_ARGUMENTS",
                f"{self.name}() takes a value and a share from 0 to 1",
                hint="leave the accuracy out; the error is at most 0.8 % of the value",
            )
        if len(arguments) != 2:
            raise self._error(
                "FUNCTION_ARGUMENTS",
                f"{self.name}() takes a value and a share from 0 to 1",
                hint=f"write for example {self.name}(x, 0.95)",
            )
        return self._at_share(self.name, arguments[0], arguments[1])

    def _only_within_group(self, arguments: list[exp.Expr]) -> Call:
        raise self._error(
            "FUNCTION_ARGUMENTS",
            f"{self.name}() says within which order",
            hint=f"write {self.name}(0.5) WITHIN GROUP (ORDER BY x)",
        )

    def _approximate_median(self, arguments: list[exp.Expr]) -> Call:
        only = self._of_one(arguments)
        return Call("approx_percentile(0.5)", only.argument, only.pattern)

    def _approximate_count(self, arguments: list[exp.Expr]) -> Call:
        if len(arguments) not in (1, 2):
            raise self._error(
                "FUNCTION_ARGUMENTS",
                f"{self.name}() takes a value and perhaps the standard error",
                hint=f"write for example {self.name}(x, {DEFAULT_DEVIATION})",
            )
        deviation = DEFAULT_DEVIATION
        if len(arguments) == 2:
            deviation = self._constant(arguments[1], *DEVIATIONS, "the standard error")
        given = f", {deviation:g}" if len(arguments) == 2 else ""
        return Call(f"{self.name}({deviation!r})", arguments[0], f"{self.name}({{}}{given})")

    def _distinct(self, arguments: list[exp.Expr]) -> Call:
        (distinct, *rest) = arguments
        values = distinct.expressions
        if self.name in ("min", "max") and len(values) == 1 and not rest:
            return self._of_one(values)
        if self.name != "count":
            raise self._error(
                "AGGREGATE_NOT_AVAILABLE",
                f"{self.name}(DISTINCT …) cannot be computed over windows",
                hint="make a stream of SELECT DISTINCT … WINDOW = …, and aggregate over its windows",
            )
        if len(values) != 1 or rest or isinstance(values[0], exp.Star):
            raise self._error(
                "AGGREGATE_NOT_AVAILABLE",
                "count(DISTINCT …) counts the values of one column",
                hint="make a stream of SELECT DISTINCT … WINDOW = …, and count the rows of its windows",
            )
        return Call("count_distinct", values[0], "count(DISTINCT {})")

    def _within_group(self, node: exp.WithinGroup) -> Call:
        keys = node.expression.expressions if isinstance(node.expression, exp.Order) else []
        shares = list(node.this.expressions)
        wanted = 0 if self.name == "mode" else 1
        if self.name not in ("percentile_cont", "percentile_disc", "mode") or len(keys) != 1 or len(shares) != wanted:
            raise self._error(
                "FUNCTION_ARGUMENTS",
                f"{self.name}() cannot stand like this before WITHIN GROUP",
                hint="write percentile_cont(0.5), percentile_disc(0.5) or mode() WITHIN GROUP (ORDER BY x)",
            )
        key = keys[0]
        if key.args.get("desc"):
            from_top = "percentile_cont(p) DESC is percentile_cont(1 - p)"
            near = "percentile_disc(1 - p) may give the value beside it"
            raise self._error(
                "NOT_IN_THE_LANGUAGE",
                "WITHIN GROUP goes from the smallest value up",
                at=key,
                hint=f"leave DESC out; {near if self.name == 'percentile_disc' else from_top}",
            )
        if self.name == "mode":
            return self._of_one([key.this])
        function = "percentile" if self.name == "percentile_cont" else self.name
        return self._at_share(function, key.this, shares[0])

    # -- constants -------------------------------------------------------------------------------

    def _at_share(self, function: str, argument: exp.Expr, written: exp.Expr) -> Call:
        if isinstance(written, exp.Array):
            raise self._error(
                "FUNCTION_ARGUMENTS",
                f"{self.name}() takes one share, and a stream cannot hold an array",
                at=written,
                hint=f"write {self.name} once for each share",
            )
        share = self._constant(written, 0.0, 1.0, "the share p")
        return Call(f"{function}({share!r})", argument, f"{function}({{}}, {share:g})")

    def _constant(self, written: exp.Expr, low: float, high: float, what: str) -> float:
        """A number that can be worked out now."""
        nothing = pa.table({"": pa.nulls(1)})
        try:
            value = float(expressions.compile(sql_of(written), pa.schema([])).evaluate(nothing)[0].as_py())
        except (AnabranchError, expressions.NotEvaluable, TypeError, ValueError):
            value = float("nan")
        if not low <= value <= high:
            raise self._error(
                "FUNCTION_ARGUMENTS",
                f"{what} is a constant from {low:g} to {high:g}, got {sql_of(written)}",
                at=written,
            )
        return value

    def _error(self, name: str, message: str, *, hint: str | None = None, at: exp.Expr | None = None) -> SqlError:
        return self.select.error(name, message, at if at is not None else self.node, hint=hint)


_FORMS: dict[str, Callable[[_Reader, list[exp.Expr]], Call]] = {
    "count_if": _Reader._count_if,
    "percentile": _Reader._with_share,
    "approx_percentile": _Reader._with_share,
    "percentile_cont": _Reader._only_within_group,
    "percentile_disc": _Reader._only_within_group,
    "approx_median": _Reader._approximate_median,
    "approx_count_distinct": _Reader._approximate_count,
}
"""Functions that take something else than one value."""
