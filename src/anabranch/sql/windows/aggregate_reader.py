"""The select list, GROUP BY and HAVING of a query with aggregates, over the names of keys and aggregates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from sqlglot import exp

from anabranch.errors import AnabranchError
from anabranch.functions.aggregates import aggregate
from anabranch.schema import ARRIVAL_COLUMN, TIME_TYPE
from anabranch.sql.checking.safety import called
from anabranch.sql.standing.columns import (
    WINDOW_CALLS,
    WINDOW_COLUMNS,
    Scope,
    column,
    in_parentheses,
    sql_of,
    window_column,
)
from anabranch.sql.standing.rows import Output, check_condition, output_name, star_of
from anabranch.sql.windows.aggregate_calls import read_call, without_filter
from anabranch.sql.windows.aggregate_functions import aggregate_name
from anabranch.sql.windows.group_by import GroupBy, checked, free_name, read_groups, same_call
from anabranch.sql.windows.windowed import type_in_window, window_fields


@dataclass
class AggregateReader:
    """Collects aggregates while the select list, HAVING and ORDER BY are rewritten over their names."""

    scope: Scope
    tree: exp.Select
    groups: GroupBy = field(init=False)
    aggregates: dict[str, tuple[str, exp.Expr | None]] = field(default_factory=dict)
    aliases: dict[str, exp.Expr] = field(default_factory=dict)

    def read(self) -> None:
        """Takes note of names and groups; what is rewritten afterwards may use them."""
        for item in self.tree.expressions:
            if star_of(item) is not None:
                raise self._error(
                    "COLUMN_NOT_GROUPED", "* cannot stand beside aggregates", item, hint="name the columns"
                )
            if isinstance(item, exp.Alias):
                self.aliases.setdefault(item.alias.lower(), item.this)
        self.groups = read_groups(self.scope, self.tree, self.aliases)

    def having(self) -> exp.Expr | None:
        written = self.tree.args.get("having")
        return self.rewrite(written.this, self.aliases) if written is not None else None

    def outputs(self) -> list[Output]:
        """The select list over the names of keys, aggregates and the window."""
        outputs: list[Output] = []
        aliases: dict[str, exp.Expr] = {}
        for item in self.tree.expressions:
            written = item.this if isinstance(item, exp.Alias) else item
            value = self.rewrite(written, aliases)
            name = output_name(item, written if isinstance(written, exp.Column) else exp.Null())
            if isinstance(written, exp.Column) and not isinstance(item, exp.Alias):
                name = self.scope.spelled(written)
            outputs.append(Output(name, value, item))
            if isinstance(item, exp.Alias):
                aliases.setdefault(item.alias.lower(), written)
        return outputs

    def rewrite(
        self,
        node: exp.Expr,
        aliases: Mapping[str, exp.Expr],
        known: Mapping[str, exp.Expr] | None = None,
        depth: int = 0,
    ) -> exp.Expr:
        """The expression over those names; `known` are names already rewritten."""
        if depth > 50:
            raise self._error("SYNTAX_ERROR", "the names of the select list refer to each other", node)
        if known and isinstance(node, exp.Column) and not node.table and node.name.lower() in known:
            return in_parentheses(known[node.name.lower()])
        if isinstance(node, exp.Filter):
            if aggregate_name(node.this) is None:
                raise self._error("NOT_IN_THE_LANGUAGE", "FILTER is for aggregates", node, hint="write CASE WHEN … END")
            node = without_filter(node)
        window_name = self._as_window(node)
        if window_name is not None:
            return column(window_name)
        if aggregate_name(node) is not None:
            return column(self._add_aggregate(node))
        key = self._as_key(node)
        if key is not None:
            return column(key)
        if isinstance(node, exp.Column):
            if not node.table and node.name.lower() in aliases:
                return exp.Paren(this=self.rewrite(aliases[node.name.lower()], {}, None, depth + 1))
            raise self._not_grouped(node)
        copy = node.copy()
        for part, original in zip(_children(copy), _children(node), strict=True):
            part.replace(self.rewrite(original, aliases, known, depth))
        return copy

    def _as_window(self, node: exp.Expr) -> str | None:
        name = window_column(node) if self.scope.has_windows else None
        if name is not None:
            return name
        if any(same_call(node, key) for key in self.groups.window_keys):
            if called(node) in WINDOW_CALLS:
                raise self._error(
                    "TYPE_NOT_SUPPORTED",
                    f"a stream cannot hold {called(node)}()",
                    node,
                    hint="select window_start and window_end",
                )
            return "window_start"
        return None

    def _as_key(self, node: exp.Expr) -> str | None:
        if not self.groups.keys or isinstance(node, exp.Literal):
            return None
        try:
            value = self.scope.resolve(node)
        except AnabranchError:
            return None
        return next((name for name, key in self.groups.keys.items() if key == value), None)

    def _not_grouped(self, node: exp.Column) -> AnabranchError:
        node = next(self.scope.reaching(node.copy()).find_all(exp.Column))
        name = self.scope.name_of(node)
        if name is None:
            return self.scope.not_found(node, [*self.aliases, *(WINDOW_COLUMNS if self.scope.has_windows else ())])
        said = sql_of(node if self.scope.is_join else column(name))
        groups = "the keys of PER" if self.groups.window.kind == "last rows" else "GROUP BY"
        return self._error(
            "COLUMN_NOT_GROUPED",
            f'column "{name}" has many values in a group',
            node,
            hint="select it, too"
            if self.tree.args.get("distinct")
            else f"add {said} to {groups}, or put it in an aggregate such as max()",
        )

    def _add_aggregate(self, node: exp.Expr) -> str:
        """Takes note of an aggregate, once, and gives its name."""
        call = read_call(self.scope.select, node)
        argument = None if call.argument is None else checked(self.scope, call.argument)
        for name, known in self.aggregates.items():
            if known == (call.function, argument):
                return name
        name = free_name(
            call.shown("" if argument is None else sql_of(argument)), [*self.groups.keys, *self.aggregates]
        )
        self.aggregates[name] = (call.function, argument)
        return name

    def check(self, outputs: Sequence[Output], having: exp.Expr | None) -> pa.Schema:
        """Types of all that was rewritten; gives those of keys, aggregates and the window's ends."""
        inner = self.inner_schema()
        for out in outputs:
            type_in_window(self.scope, out.value, out.written, inner)
        written = self.tree.args.get("having")
        if having is not None and written is not None:
            type_in_window(self.scope, having, written, inner)
            check_condition(self.scope, having, inner)
        return inner

    def named_keys(self) -> tuple[tuple[str, str], ...]:
        """The keys as operators take them."""
        return tuple((name, sql_of(value)) for name, value in self.groups.keys.items())

    def named_aggregates(self) -> tuple[tuple[str, str, str | None], ...]:
        """The aggregates as operators take them."""
        return tuple(
            (name, function, None if argument is None else sql_of(argument))
            for name, (function, argument) in self.aggregates.items()
        )

    def inner_schema(self) -> pa.Schema:
        """The types of keys, aggregates and the window's ends."""
        fields = [pa.field(name, type_in_window(self.scope, value, value)) for name, value in self.groups.keys.items()]
        for name, (function, argument) in self.aggregates.items():
            type_ = None if argument is None else type_in_window(self.scope, argument, argument)
            try:
                fields.append(pa.field(name, aggregate(function, type_).type))
            except AnabranchError as problem:
                raise self._error(problem.name, problem.message, argument, hint=problem.hint) from None
        return pa.schema([*fields, *window_fields(self.groups.window), pa.field(ARRIVAL_COLUMN, TIME_TYPE)])

    def _error(
        self, name: str, message: str, node: exp.Expr | None, *, detail: str | None = None, hint: str | None = None
    ) -> AnabranchError:
        return self.scope.select.error(name, message, node, detail=detail, hint=hint)


def _children(node: exp.Expr) -> list[exp.Expr]:
    return list(node.iter_expressions())
