"""Standing queries with aggregates: groups inside windows.

A group is complete, and its answer row final, when its window has passed; that is what bounds
what the query keeps. So every aggregate has a window, from the WINDOW clause or from GROUP BY.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa
from sqlglot import exp

from anabranch.errors import AnabranchError
from anabranch.expressions import NotEvaluable
from anabranch.operators.aggregates import aggregate
from anabranch.operators.window_aggregate import WindowAggregate
from anabranch.schema import ARRIVAL_COLUMN, TIME_TYPE, StreamSchema
from anabranch.sql.aggregate_functions import AVAILABLE, FUNCTIONS, aggregate_name
from anabranch.sql.columns import Scope, column, sql_of
from anabranch.sql.rows import Output, answer_schema, check_condition, check_names, output_name, star_of
from anabranch.sql.safety import called
from anabranch.sql.time_windows import window_of
from anabranch.sql.tree import Window

WINDOW_COLUMNS = ("window_start", "window_end")


@dataclass(frozen=True)
class AggregatePlan:
    """What planning a windowed aggregate gives."""

    operator: WindowAggregate
    schema: StreamSchema
    time: str
    pushed: str | None


def plan_aggregate(scope: Scope, tree: exp.Select) -> AggregatePlan:
    """The operator of a windowed aggregate."""
    return _Planner(scope, tree).plan()


@dataclass
class _Planner:
    """Collects keys and aggregates while the select list and HAVING are rewritten over their names."""

    scope: Scope
    tree: exp.Select
    window: Window | None = None
    window_keys: list[exp.Expr] = field(default_factory=list)
    keys: dict[str, exp.Expr] = field(default_factory=dict)
    aggregates: dict[str, tuple[str, exp.Expr | None]] = field(default_factory=dict)
    aliases: dict[str, exp.Expr] = field(default_factory=dict)

    def plan(self) -> AggregatePlan:
        self.window = self.scope.select.window
        for item in self.tree.expressions:
            if star_of(item) is not None:
                raise self._error(
                    "COLUMN_NOT_GROUPED", "* cannot stand beside aggregates", item, hint="name the columns"
                )
            if isinstance(item, exp.Alias):
                self.aliases.setdefault(item.alias.lower(), item.this)
        self._read_keys()
        if self.window is None:
            self._refuse_unbounded()
        where = self.tree.args.get("where")
        filter_tree = self._checked(where.this, boolean=True) if where is not None else None
        outputs = self._outputs()
        having = self.tree.args.get("having")
        having_tree = self._rewrite(having.this, self.aliases) if having is not None else None
        return self._assemble(outputs, filter_tree, having_tree)

    def _refuse_unbounded(self) -> None:
        found = next((n for item in self.tree.expressions for n in item.walk() if aggregate_name(n)), None)
        what = f"{aggregate_name(found)}()" if found is not None else "GROUP BY"
        node = found if found is not None else self.tree.args.get("group")
        raise self._error(
            "AGGREGATE_UNBOUNDED",
            f'{what} over "{self.scope.stream}" would never be finished, and its groups would be kept forever',
            node,
            hint="add WINDOW = INTERVAL … after FROM",
        )

    def _read_keys(self) -> None:
        group = self.tree.args.get("group")
        if group is None:
            return
        for name in ("all", "cube", "rollup", "grouping_sets", "totals"):
            if group.args.get(name):
                raise self._error(
                    "NOT_IN_THE_LANGUAGE",
                    f"GROUP BY {name.replace('_', ' ').upper()} is not available",
                    group,
                    hint="name the columns",
                )
        for written in group.expressions:
            if isinstance(written, exp.Cube | exp.Rollup | exp.GroupingSets):
                raise self._error(
                    "NOT_IN_THE_LANGUAGE",
                    f"GROUP BY {written.key.upper()} is not available",
                    group,
                    hint="name the columns",
                )
            self._read_key(written)

    def _read_key(self, written: exp.Expr) -> None:
        key = self._key_meant(written)
        if _window_column(key) is not None:
            return
        window = window_of(self.scope, key)
        if window is not None and self.scope.select.window is None:
            if self.window_keys and not _same(key, self.window_keys[0]):
                raise self._error("SYNTAX_ERROR", "GROUP BY can hold one window only", written)
            self.window, self.window_keys = window, [key]
            return
        if window is not None and called(key) != "date_trunc":
            raise self._error(
                "SYNTAX_ERROR",
                f"WINDOW and {sql_of(key)} both say what the window is",
                written,
                hint="leave one of them out",
            )
        for node in key.walk():
            if aggregate_name(node):
                raise self._error("AGGREGATE_MISPLACED", "GROUP BY cannot hold an aggregate", written)
        value = self._checked(key)
        if value in self.keys.values():
            return
        wanted = value.name if isinstance(value, exp.Column) else sql_of(value).replace("`", "")
        self.keys[self._free_name(wanted)] = value

    def _key_meant(self, written: exp.Expr) -> exp.Expr:
        """A key as an expression over the stream: ordinals and aliases are put in."""
        if isinstance(written, exp.Literal) and not written.is_string:
            items = self.tree.expressions
            if not written.name.isdigit() or not 1 <= int(written.name) <= len(items):
                raise self._error("SYNTAX_ERROR", f"there is no column {written.name} in the select list", written)
            item: exp.Expr = items[int(written.name) - 1]
            return item.unalias()
        if isinstance(written, exp.Column) and not written.table and self.scope.find(written.name) is None:
            return self.aliases.get(written.name.lower(), written)
        return written

    def _free_name(self, wanted: str) -> str:
        taken = {name.lower() for name in (*self.keys, *self.aggregates, *WINDOW_COLUMNS, ARRIVAL_COLUMN)}
        name, number = wanted, 1
        while name.lower() in taken:
            number += 1
            name = f"{wanted} {number}"
        return name

    def _checked(self, node: exp.Expr, *, boolean: bool = False) -> exp.Expr:
        """An expression over the stream's columns that Arrow can do."""
        for each in node.walk():
            if aggregate_name(each):
                raise self._error("AGGREGATE_MISPLACED", "an aggregate cannot hold another", each)
        value = self.scope.resolve(node)
        self._compiled(value, node)
        if boolean:
            check_condition(self.scope, value)
        return value

    def _compiled(self, value: exp.Expr, written: exp.Expr, schema: pa.Schema | None = None) -> pa.DataType:
        try:
            return self.scope.compile(value, schema).type
        except NotEvaluable as problem:
            raise self._error(
                "EXPRESSION_NOT_EVALUABLE_IN_WINDOW",
                f"{sql_of(value)} cannot be computed inside a window",
                written,
                detail=str(problem) or None,
                hint="put the expression in a CREATE STREAM … AS SELECT … first and aggregate over that stream",
            ) from None

    def _outputs(self) -> list[Output]:
        outputs: list[Output] = []
        aliases: dict[str, exp.Expr] = {}
        for item in self.tree.expressions:
            written = item.this if isinstance(item, exp.Alias) else item
            value = self._rewrite(written, aliases)
            name = output_name(item, written if isinstance(written, exp.Column) else exp.Null())
            if isinstance(written, exp.Column) and not isinstance(item, exp.Alias):
                name = self.scope.find(written.name) or written.name
            outputs.append(Output(name, value, item))
            if isinstance(item, exp.Alias):
                aliases.setdefault(item.alias.lower(), written)
        return outputs

    def _rewrite(self, node: exp.Expr, aliases: dict[str, exp.Expr], depth: int = 0) -> exp.Expr:
        """The expression over the names of keys, aggregates and the window."""
        if depth > 50:
            raise self._error("SYNTAX_ERROR", "the names of the select list refer to each other", node)
        window_name = self._as_window(node)
        if window_name is not None:
            return column(window_name)
        name = aggregate_name(node)
        if name is not None:
            return column(self._add_aggregate(node, name))
        key = self._as_key(node)
        if key is not None:
            return column(key)
        if isinstance(node, exp.Column):
            if not node.table and node.name.lower() in aliases:
                return exp.Paren(this=self._rewrite(aliases[node.name.lower()], {}, depth + 1))
            raise self._not_grouped(node)
        if isinstance(node, exp.Filter):
            raise self._error(
                "NOT_IN_THE_LANGUAGE", "FILTER is not available", node, hint="write sum(CASE WHEN … THEN … END)"
            )
        copy = node.copy()
        for part, original in zip(_children(copy), _children(node), strict=True):
            part.replace(self._rewrite(original, aliases, depth))
        return copy

    def _as_window(self, node: exp.Expr) -> str | None:
        name = _window_column(node)
        if name is not None:
            return name
        if any(_same(node, key) for key in self.window_keys):
            if called(node) == "window":
                raise self._error(
                    "TYPE_NOT_SUPPORTED",
                    "a stream cannot hold window()",
                    node,
                    hint="select window_start and window_end",
                )
            return "window_start"
        return None

    def _as_key(self, node: exp.Expr) -> str | None:
        if not self.keys or isinstance(node, exp.Literal):
            return None
        try:
            value = self.scope.resolve(node)
        except AnabranchError:
            return None
        return next((name for name, key in self.keys.items() if key == value), None)

    def _not_grouped(self, node: exp.Column) -> AnabranchError:
        name = self.scope.name_of(node)
        if name is None:
            return self.scope.not_found(node, [*self.aliases, *WINDOW_COLUMNS])
        return self._error(
            "COLUMN_NOT_GROUPED",
            f'column "{name}" has many values in a group',
            node,
            hint=f"add {sql_of(column(name))} to GROUP BY, or put it in an aggregate such as max()",
        )

    def _add_aggregate(self, node: exp.Expr, function: str) -> str:
        """Takes note of an aggregate, once, and gives its name."""
        argument = self._argument(node, function)
        for name, known in self.aggregates.items():
            if known == (function, argument):
                return name
        text = "*" if argument is None else sql_of(argument).replace("`", "")
        name = self._free_name(f"{function}({text})")
        self.aggregates[name] = (function, argument)
        return name

    def _argument(self, node: exp.Expr, function: str) -> exp.Expr | None:
        if function not in FUNCTIONS:
            raise self._error(
                "AGGREGATE_NOT_AVAILABLE",
                f"{function}() cannot be computed over windows",
                node,
                hint=f"there are: {AVAILABLE}",
            )
        arguments = node.expressions
        if any(isinstance(each, exp.Distinct) for each in arguments):
            raise self._error(
                "AGGREGATE_NOT_AVAILABLE",
                f"{function}(DISTINCT …) cannot be computed over windows",
                node,
                hint=f"there are: {AVAILABLE}, without DISTINCT",
            )
        if len(arguments) != 1:
            raise self._error("FUNCTION_ARGUMENTS", f"{function}() takes one argument", node)
        argument = arguments[0]
        if isinstance(argument, exp.Star) or (function == "count" and isinstance(argument, exp.Literal)):
            if function != "count":
                raise self._error("FUNCTION_ARGUMENTS", f"{function}(*) means nothing", node, hint="name a column")
            return None
        return self._checked(argument)

    def _assemble(self, outputs: list[Output], filter_tree: exp.Expr | None, having: exp.Expr | None) -> AggregatePlan:
        assert self.window is not None
        inner = self._inner_schema()
        written_having = self.tree.args.get("having")
        for out in outputs:
            self._compiled(out.value, out.written, inner)
        if having is not None and written_having is not None:
            self._compiled(having, written_having, inner)
            check_condition(self.scope, having, inner)
        by_time = self.window.unit == "time"
        stamp = next((out for out in outputs if by_time and _window_column(out.value) == "window_end"), None)
        if stamp is None:
            stamp = Output(ARRIVAL_COLUMN, column("window_end" if by_time else ARRIVAL_COLUMN), self.tree)
            outputs = [*outputs, stamp]
        check_names(self.scope, outputs, stamp)
        time = stamp.name
        filter_sql = sql_of(filter_tree) if filter_tree is not None else None
        operator = WindowAggregate(
            stream=self.scope.stream,
            unit=self.window.unit,
            size=self.window.size,
            slide=self.window.slide,
            keys=tuple((name, sql_of(value)) for name, value in self.keys.items()),
            aggregates=tuple(
                (name, function, None if argument is None else sql_of(argument))
                for name, (function, argument) in self.aggregates.items()
            ),
            columns=tuple((out.name, sql_of(out.value)) for out in outputs),
            time=time,
            filter=filter_sql,
            having=sql_of(having) if having is not None else None,
        )
        return AggregatePlan(operator, answer_schema(self.scope, outputs, time, inner), time, filter_sql)

    def _inner_schema(self) -> pa.Schema:
        """The types of keys, aggregates and the window's ends."""
        assert self.window is not None
        fields = [pa.field(name, self._compiled(value, value)) for name, value in self.keys.items()]
        for name, (function, argument) in self.aggregates.items():
            found = None if argument is None else self._compiled(argument, argument)
            try:
                fields.append(pa.field(name, aggregate(function, found).type))
            except AnabranchError as problem:
                raise self._error(problem.name, problem.message, argument, hint=problem.hint) from None
        ends = TIME_TYPE if self.window.unit == "time" else pa.int64()
        return pa.schema(
            [*fields, *(pa.field(name, ends) for name in WINDOW_COLUMNS), pa.field(ARRIVAL_COLUMN, TIME_TYPE)]
        )

    def _error(
        self, name: str, message: str, node: exp.Expr | None, *, detail: str | None = None, hint: str | None = None
    ) -> AnabranchError:
        return self.scope.select.error(name, message, node, detail=detail, hint=hint)


def _window_column(node: exp.Expr) -> str | None:
    """`window_start`, `window_end`, and `window.start`, `window.end` as Spark has them."""
    if not isinstance(node, exp.Column) or node.args.get("db") is not None:
        return None
    if not node.table and node.name.lower() in WINDOW_COLUMNS:
        return node.name.lower()
    if node.table.lower() == "window" and node.name.lower() in ("start", "end"):
        return f"window_{node.name.lower()}"
    return None


def _same(one: exp.Expr, other: exp.Expr) -> bool:
    """True if both call the same function of the same arguments, whatever the case and the qualifiers."""
    return called(one) == called(other) != "" and [a.name.lower() for a in one.expressions] == [
        a.name.lower() for a in other.expressions
    ]


def _children(node: exp.Expr) -> list[exp.Expr]:
    return list(node.iter_expressions())
