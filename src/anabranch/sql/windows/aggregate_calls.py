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
from anabranch.functions.aggregates import AggregateFunction, rows
from anabranch.functions.aggregates.declaring import Form, Parameter
from anabranch.sql.standing.columns import sql_of
from anabranch.sql.tree import Select
from anabranch.sql.windows.aggregate_functions import aggregate_row


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
    """What an aggregate's node asks for; `node` is one that `aggregate_row` knows."""
    row = aggregate_row(node)
    assert row is not None
    return _Reader(select, node, row).read()


def without_filter(node: exp.Filter) -> exp.Expr:
    """The aggregate over a CASE that is NULL where the condition of FILTER does not hold: aggregates skip NULL."""
    call: exp.Expr = node.this.copy()
    inner = call.this if isinstance(call, exp.WithinGroup) else call
    keys = [key.this for key in call.expression.expressions] if isinstance(call, exp.WithinGroup) else []
    distinct = [
        value for argument in inner.expressions if isinstance(argument, exp.Distinct) for value in argument.expressions
    ]
    value = next(iter([*keys, *distinct, *inner.expressions]), None)
    row = aggregate_row(call)
    if value is None or row is None or (isinstance(value, exp.Star) and not row.of_rows):
        return call  # means nothing, with FILTER or without
    counted = exp.Literal.number(1) if isinstance(value, exp.Star) else value.copy()
    value.replace(exp.Case(ifs=[exp.If(this=node.expression.this.copy(), true=counted)]))
    return call


@dataclass(frozen=True)
class _Reader:
    select: Select
    node: exp.Expr
    row: AggregateFunction

    @property
    def name(self) -> str:
        return self.row.name

    @property
    def function(self) -> str:
        """The operator's function."""
        function = self.row.stands_for or self.name
        return function if self.row.constant is None else f"{function}({self.row.constant!r})"

    def read(self) -> Call:
        if not self.row.in_windows:
            available = sorted(row.name for row in rows() if row.in_windows and row.has_call)
            raise self._error(
                "AGGREGATE_NOT_AVAILABLE",
                f"{self.name}() cannot be computed over windows",
                hint=f"there are: {', '.join(available)}",
            )
        if isinstance(self.node, exp.WithinGroup):
            return self._within_group(self.node)
        arguments = list(self.node.expressions)
        if any(isinstance(argument, exp.Distinct) for argument in arguments):
            return self._distinct(arguments)
        has_star = any(isinstance(argument, exp.Star) for argument in arguments)
        if has_star and (not self.row.of_rows or len(arguments) > 1):
            raise self._error("FUNCTION_ARGUMENTS", f"{self.name}(*) means nothing", hint="name a column")
        return _FORMS[self.row.form](self, arguments)

    # -- the ways to write one -------------------------------------------------------------------

    def _of_one(self, arguments: list[exp.Expr]) -> Call:
        if len(arguments) != 1:
            raise self._error("FUNCTION_ARGUMENTS", f"{self.name}() takes one argument")
        argument = arguments[0]
        if self.row.of_rows and isinstance(argument, exp.Star | exp.Literal):
            return Call(self.function, None, f"{self.name}(*)")
        return Call(self.function, argument, f"{self.name}({{}})")

    def _of_condition(self, arguments: list[exp.Expr]) -> Call:
        only = self._of_one(arguments)
        holds = exp.Case(ifs=[exp.If(this=arguments[0].copy(), true=exp.Literal.number(1))])
        return Call(self.function, holds, only.pattern)

    def _with_share(self, arguments: list[exp.Expr]) -> Call:
        if len(arguments) == 3 and self.row.approximate:
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
        return self._at_share(arguments[0], arguments[1])

    def _only_within_group(self, arguments: list[exp.Expr]) -> Call:
        raise self._error(
            "FUNCTION_ARGUMENTS",
            f"{self.name}() says within which order",
            hint=f"write {self.name}(0.5) WITHIN GROUP (ORDER BY x)",
        )

    def _perhaps_with_error(self, arguments: list[exp.Expr]) -> Call:
        parameter = self._parameter()
        if len(arguments) not in (1, 2):
            raise self._error(
                "FUNCTION_ARGUMENTS",
                f"{self.name}() takes a value and perhaps the standard error",
                hint=f"write for example {self.name}(x, {parameter.default})",
            )
        deviation = parameter.default
        if len(arguments) == 2:
            deviation = self._constant(arguments[1], parameter)
        given = f", {deviation:g}" if len(arguments) == 2 else ""
        return Call(f"{self.function}({deviation!r})", arguments[0], f"{self.name}({{}}{given})")

    def _distinct(self, arguments: list[exp.Expr]) -> Call:
        (distinct, *rest) = arguments
        values = distinct.expressions
        counted = self.row.distinct
        if counted == self.name and len(values) == 1 and not rest:
            return self._of_one(values)
        if counted is None or counted == self.name:
            raise self._error(
                "AGGREGATE_NOT_AVAILABLE",
                f"{self.name}(DISTINCT …) cannot be computed over windows",
                hint="make a stream of SELECT DISTINCT … WINDOW = …, and aggregate over its windows",
            )
        if len(values) != 1 or rest or isinstance(values[0], exp.Star):
            raise self._error(
                "AGGREGATE_NOT_AVAILABLE",
                f"{self.name}(DISTINCT …) counts the values of one column",
                hint="make a stream of SELECT DISTINCT … WINDOW = …, and count the rows of its windows",
            )
        return Call(counted, values[0], f"{self.name}(DISTINCT {{}})")

    def _within_group(self, node: exp.WithinGroup) -> Call:
        keys = node.expression.expressions if isinstance(node.expression, exp.Order) else []
        shares = list(node.this.expressions)
        wanted = 0 if self.row.parameter is None else 1
        if not self.row.within_group or len(keys) != 1 or len(shares) != wanted:
            *others, last = (f"{row.name}({'0.5' if row.parameter else ''})" for row in rows() if row.within_group)
            raise self._error(
                "FUNCTION_ARGUMENTS",
                f"{self.name}() cannot stand like this before WITHIN GROUP",
                hint=f"write {', '.join(others)} or {last} WITHIN GROUP (ORDER BY x)",
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
        return self._at_share(key.this, shares[0]) if shares else self._of_one([key.this])

    # -- constants -------------------------------------------------------------------------------

    def _at_share(self, argument: exp.Expr, written: exp.Expr) -> Call:
        if isinstance(written, exp.Array):
            raise self._error(
                "FUNCTION_ARGUMENTS",
                f"{self.name}() takes one share, and a stream cannot hold an array",
                at=written,
                hint=f"write {self.name} once for each share",
            )
        share = self._constant(written, self._parameter())
        return Call(f"{self.function}({share!r})", argument, f"{self.function}({{}}, {share:g})")

    def _parameter(self) -> Parameter:
        assert self.row.parameter is not None
        return self.row.parameter

    def _constant(self, written: exp.Expr, parameter: Parameter) -> float:
        """A number that can be worked out now."""
        nothing = pa.table({"": pa.nulls(1)})
        try:
            value = float(expressions.compile(sql_of(written), pa.schema([])).evaluate(nothing)[0].as_py())
        except (AnabranchError, expressions.NotEvaluable, TypeError, ValueError):
            value = float("nan")
        if not parameter.low <= value <= parameter.high:
            raise self._error(
                "FUNCTION_ARGUMENTS",
                f"{parameter.what} is a constant from {parameter.low:g} to {parameter.high:g}, got {sql_of(written)}",
                at=written,
            )
        return value

    def _error(self, name: str, message: str, *, hint: str | None = None, at: exp.Expr | None = None) -> SqlError:
        return self.select.error(name, message, at if at is not None else self.node, hint=hint)


_FORMS: dict[Form, Callable[[_Reader, list[exp.Expr]], Call]] = {
    "value": _Reader._of_one,
    "condition": _Reader._of_condition,
    "value and share": _Reader._with_share,
    "value, perhaps error": _Reader._perhaps_with_error,
    "within group": _Reader._only_within_group,
}
"""How the arguments of each form are read; `g(DISTINCT x)` is read where g is."""
