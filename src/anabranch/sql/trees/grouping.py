"""GROUP BY, HAVING and aggregates: what is grouped by, and expressions over the keys and what is counted of each group.

CUBE, ROLLUP and GROUPING SETS are several aggregates side by side, each with NULL for the keys it leaves out.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from sqlglot import exp

from anabranch.errors import AnabranchError, QueryError
from anabranch.operators.tree.nodes import Aggregate, Call, Union
from anabranch.sql.checking.safety import called
from anabranch.sql.standing.columns import column
from anabranch.sql.trees.calls import AggregateCall, read_aggregate, type_of_call
from anabranch.sql.trees.context import Context
from anabranch.sql.trees.draft import DraftRows, Place, as_they_are
from anabranch.sql.trees.joining import attached
from anabranch.sql.trees.ranking import Windows
from anabranch.sql.trees.resolving import Resolver
from anabranch.sql.trees.typing import check_boolean, null_of, type_of
from anabranch.sql.windows.aggregate_functions import aggregate_row

_GROUPING = ("grouping", "grouping_id")


@dataclass
class Groups:
    """What is grouped by and called; `keys` are the values by the names of their columns.

    `sets` are the keys of each grouping set by their numbers, None where there is one with all.
    """

    context: Context
    inner: Resolver
    keys: dict[str, exp.Expr] = field(default_factory=dict)
    written: dict[str, exp.Expr] = field(default_factory=dict)
    sets: list[tuple[int, ...]] | None = None
    calls: list[tuple[str, AggregateCall, exp.Expr]] = field(default_factory=list)
    marks: dict[tuple[int, ...], str] = field(default_factory=dict)
    """Columns that say which keys a grouping set leaves out, by the numbers of the keys that are asked for."""
    place: Place = field(default_factory=lambda: Place("GROUP BY"))

    def add_key(self, value: exp.Expr, written: exp.Expr) -> str:
        """Takes note of a key, once, and gives its name; what is a column keeps its own."""
        plain = value.unnest()
        for name, known in self.keys.items():
            if known == plain:
                return name
        name = plain.name if isinstance(plain, exp.Column) else self.context.drafts.fresh(called(plain) or "key")
        self.keys[name], self.written[name] = plain, written
        return name

    def key_of(self, value: exp.Expr) -> str | None:
        return next((name for name, known in self.keys.items() if known == value.unnest()), None)

    def add_call(self, node: exp.Expr) -> str:
        call = read_aggregate(self.context.select, node, self.inner.read)
        for name, known, _ in self.calls:
            if known == call:
                return name
        name = self.context.drafts.fresh(call.function.partition("(")[0])
        self.calls.append((name, call, node))
        return name

    def mark(self, node: exp.Expr) -> str:
        """The column of grouping(key) or grouping_id(key, …)."""
        names = list(self.keys)
        if self.sets is None:
            raise self.context.select.error(
                "FUNCTION_ARGUMENTS",
                f"{called(node)}() is for CUBE, ROLLUP and GROUPING SETS",
                node,
                hint="leave it out",
            )
        numbers: list[int] = []
        for written in node.expressions:
            name = self.key_of(self.inner.read(written))
            if name is None:
                raise self.context.select.error(
                    "COLUMN_NOT_GROUPED",
                    f"{called(node)}() is about keys of GROUP BY",
                    written,
                    hint="name one of them",
                )
            numbers.append(names.index(name))
        if called(node) == "grouping" and len(numbers) != 1:
            raise self.context.select.error("FUNCTION_ARGUMENTS", "grouping() takes one key", node)
        wanted = (-1, *numbers) if called(node) == "grouping" else tuple(numbers or range(len(names)))
        if wanted not in self.marks:
            self.marks[wanted] = self.context.drafts.fresh(called(node))
        return self.marks[wanted]

    @property
    def counts(self) -> frozenset[str]:
        """The calls that are 0 where no rows are."""
        return frozenset(name for name, call, _ in self.calls if call.function == "count")

    # -- nodes -------------------------------------------------------------------------------------

    def applied(self, node: int, more: Sequence[str] = ()) -> int:
        """The groups of a node; `more` are columns of it that are keys, too."""
        context = self.context
        node = attached(context, node, self.inner.attached)
        base = context.schema(node)
        columns: dict[str, tuple[exp.Expr, exp.Expr | None]] = {name: (column(name), None) for name in more}
        columns |= {name: (value, self.written[name]) for name, value in self.keys.items()}
        calls = [self._call(name, call, written, columns) for name, call, written in self.calls]
        fields = []
        for name, (value, written) in columns.items():
            fields.append(pa.field(name, type_of(context.select, value, base, written)))
        for _, call, written in self.calls:
            if call.filter is not None:
                check_boolean(context.select, call.filter, base, written)
        rows = DraftRows(node, tuple((name, value) for name, (value, _) in columns.items()))
        schema = pa.schema(fields) if fields else base
        inputs = context.drafts.add(rows, schema, self.place) if fields else node
        made = [
            pa.field(call.name, self._type(call, schema, said[2])) for call, said in zip(calls, self.calls, strict=True)
        ]
        keys = (*more, *(name for name in self.keys if name not in more))
        if self.sets is None:
            shape = pa.schema([*(schema.field(name) for name in keys), *made])
            bounding = context.select.bounding
            keep = bounding.groups if bounding is not None and self.keys and not more else None
            return context.drafts.add(Aggregate(inputs, keys, tuple(calls), keep), shape, self.place)
        return self._sets(inputs, schema, tuple(calls), made)

    def _call(
        self, name: str, call: AggregateCall, written: exp.Expr,
        columns: dict[str, tuple[exp.Expr, exp.Expr | None]],
    ) -> Call:  # fmt: skip
        """The call over columns, which are added where they are not there."""

        def column_of(value: exp.Expr, wanted: str) -> str:
            plain = value.unnest()
            for known, (there, _) in columns.items():
                if there == plain:
                    return known
            own = plain.name if isinstance(plain, exp.Column) else self.context.drafts.fresh(wanted)
            columns[own] = (plain, written)
            return own

        arguments = tuple(column_of(value, "value") for value in call.arguments)
        counted = None if call.filter is None else column_of(call.filter, "counted")
        return Call(name, call.function, arguments, call.distinct, counted, call.options)

    def _type(self, call: Call, schema: pa.Schema, written: exp.Expr) -> pa.DataType:
        types = [schema.field(name).type for name in call.arguments]
        try:
            return type_of_call(call.function, types)
        except QueryError as problem:
            raise self.context.select.error(problem.name, problem.message, written, hint=problem.hint) from None

    def _sets(self, inputs: int, schema: pa.Schema, calls: tuple[Call, ...], made: list[pa.Field]) -> int:
        context, names = self.context, list(self.keys)
        parts: list[int] = []
        whole = pa.schema([schema.field(name) for name in names] + made)
        assert self.sets is not None
        for chosen in self.sets:
            keys = tuple(names[number] for number in chosen)
            node, kept = inputs, keys
            if not keys:  # Spark has no row for the empty set where no rows are
                always = context.drafts.fresh("every")
                kept_columns = as_they_are(schema.names)
                node = context.named(inputs, [*kept_columns, (always, exp.true())], self.place)
                kept = (always,)
            shape = pa.schema([context.schema(node).field(name) for name in kept] + made)
            node = context.drafts.add(Aggregate(node, kept, calls), shape, self.place)
            columns: list[tuple[str, exp.Expr]] = [
                (name, column(name) if name in keys else null_of(schema.field(name).type)) for name in names
            ]
            columns += [(call.name, column(call.name)) for call in calls]
            columns += [(name, self._bits(wanted, chosen)) for wanted, name in self.marks.items()]
            parts.append(context.named(node, columns, self.place))
        if len(parts) == 1:
            return parts[0]
        marks = [context.schema(parts[0]).field(name) for name in self.marks.values()]
        return context.drafts.add(Union(tuple(parts)), pa.schema([*whole, *marks]), self.place)

    def _bits(self, wanted: tuple[int, ...], chosen: tuple[int, ...]) -> exp.Expr:
        is_one = wanted[0] == -1
        bits = 0
        for number in wanted[is_one:]:
            bits = bits << 1 | (number not in chosen)
        return exp.cast(exp.Literal.number(bits), "TINYINT" if is_one else "BIGINT", dialect="spark")


@dataclass
class GroupedResolver(Resolver):
    """Reads expressions over groups: keys and aggregates are columns, others have many values in a group."""

    groups: Groups = field(kw_only=True)
    windows: Windows | None = None

    def _visit(self, node: exp.Expr, positive: bool) -> exp.Expr:
        if called(node) in _GROUPING:
            return column(self.groups.mark(node))
        if isinstance(node, exp.IgnoreNulls | exp.RespectNulls) and aggregate_row(node.this) is not None:
            return self.aggregate(node)
        key = None if isinstance(node, exp.Literal | exp.Boolean | exp.Null) else self._key(node)
        return super()._visit(node, positive) if key is None else column(key)

    def _key(self, node: exp.Expr) -> str | None:
        if not self.groups.keys or not is_plain(node):
            return None
        try:
            value = Resolver(self.context, self.scope, self.ctes, self.where).read(node)
        except AnabranchError:
            return None
        return self.groups.key_of(value)

    def column(self, node: exp.Column) -> exp.Expr:
        if not node.table and node.name.lower() in self.aliases:
            return exp.Paren(this=self.aliases[node.name.lower()].copy())
        found = self.scope.here(node)
        if found is None:
            return super().column(node)
        raise self.context.select.error(
            "COLUMN_NOT_GROUPED",
            f'column "{found.name}" has many values in a group',
            node,
            hint=f"add {node.sql(dialect='spark')} to GROUP BY, or put it in an aggregate such as max()",
        )

    def aggregate(self, node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Filter) and aggregate_row(node.this) is None:
            raise self.context.refuse("FILTER is for aggregates", node, "write CASE WHEN … END")
        return column(self.groups.add_call(node))

    def window(self, node: exp.Window) -> exp.Expr:
        return super().window(node) if self.windows is None else self.windows.add(node, self.visit_value)

    def visit_value(self, written: exp.Expr) -> exp.Expr:
        """An expression that is part of another one."""
        return self.read(written)


def is_plain(node: exp.Expr) -> bool:
    """True for what has no aggregates, window functions and subqueries."""
    return not any(isinstance(n, exp.Query | exp.Window) or aggregate_row(n) is not None for n in node.walk())


def has_aggregate(node: exp.Expr | None) -> bool:
    """Whether an expression calls an aggregate that is no window function and stands in no subquery."""
    if node is None or isinstance(node, exp.Query):
        return False
    if isinstance(node, exp.Window):
        function = node.this
        while isinstance(function, exp.IgnoreNulls | exp.RespectNulls | exp.Filter):
            function = function.this
        parts = [*function.iter_expressions(), *node.args.get("partition_by", []), node.args.get("order")]
        return any(has_aggregate(part) for part in parts)
    if aggregate_row(node) is not None or called(node) in _GROUPING:
        return True
    return any(has_aggregate(part) for part in node.iter_expressions())


def read_groups(groups: Groups, tree: exp.Select, aliases: Mapping[str, exp.Expr]) -> None:
    """Takes note of what GROUP BY says; `aliases` are the names of the select list as they were written."""
    group = tree.args.get("group")
    if group is None:
        return
    reader = _GroupReader(groups, tree, aliases)
    groups.place = Place("GROUP BY", group, "GROUP")
    if group.args.get("all"):
        for item in tree.expressions:
            if not has_aggregate(item.unalias()):
                reader.key(item.unalias())
        return
    elements = [reader.element(written) for written in group.expressions]
    for name, made in (("rollup", _rollup), ("cube", _cube)):
        clauses = group.args.get(name) or []
        if clauses and not clauses[0].expressions:  # GROUP BY a, b WITH ROLLUP
            elements = [made([one for sets in elements for one in sets])]
        else:
            elements += [made([reader.set(part) for part in clause.expressions]) for clause in clauses]
    hive = [reader.sets(clause) for clause in group.args.get("grouping_sets") or []]
    elements = hive or elements
    if any(len(element) != 1 for element in elements):
        groups.sets = [_merged(chosen) for chosen in itertools.product(*elements)]


@dataclass
class _GroupReader:
    groups: Groups
    tree: exp.Select
    aliases: Mapping[str, exp.Expr]

    def element(self, written: exp.Expr) -> list[tuple[int, ...]]:
        """The grouping sets of one element, by the numbers of keys; a plain key is one set of it."""
        if isinstance(written, exp.Rollup):
            return _rollup([self.set(part) for part in written.expressions])
        if isinstance(written, exp.Cube):
            return _cube([self.set(part) for part in written.expressions])
        if isinstance(written, exp.GroupingSets):
            return self.sets(written)
        return [self.set(written)]

    def sets(self, clause: exp.Expr) -> list[tuple[int, ...]]:
        return [one for part in clause.expressions for one in self.element(part)]

    def set(self, written: exp.Expr) -> tuple[int, ...]:
        if isinstance(written, exp.Tuple):
            return _merged(self.set(part) for part in written.expressions)
        if isinstance(written, exp.Paren):
            return self.set(written.this)
        return self.key(written)

    def key(self, written: exp.Expr) -> tuple[int, ...]:
        error = self.groups.context.select.error
        meant = self._meant(written)
        if has_aggregate(meant):
            raise error("AGGREGATE_MISPLACED", "GROUP BY cannot hold an aggregate", written)
        if isinstance(meant, exp.Star) or (isinstance(meant, exp.Column) and isinstance(meant.this, exp.Star)):
            raise error("SYNTAX_ERROR", "GROUP BY takes no *", written, hint="name the columns")
        inner = self.groups.inner
        value = inner.read(meant)
        name = self.groups.add_key(value, written)
        return (list(self.groups.keys).index(name),)

    def _meant(self, written: exp.Expr) -> exp.Expr:
        """A key as an expression over FROM: ordinals and aliases are put in."""
        items = self.tree.expressions
        if isinstance(written, exp.Literal) and not written.is_string:
            if not written.name.isdigit() or not 1 <= int(written.name) <= len(items):
                raise self.groups.context.select.error(
                    "SYNTAX_ERROR",
                    f"there is no column {written.name} in the select list",
                    self.tree.args["group"],
                    keyword="GROUP",
                )
            item: exp.Expr = items[int(written.name) - 1]
            return item.unalias()
        if isinstance(written, exp.Column) and not written.table and self.groups.inner.scope.here(written) is None:
            return self.aliases.get(written.name.lower(), written)
        return written


def _rollup(elements: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    return [_merged(elements[:count]) for count in range(len(elements), -1, -1)]


def _cube(elements: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    chosen = itertools.product((True, False), repeat=len(elements))
    return [_merged(e for e, taken in zip(elements, take, strict=True) if taken) for take in chosen]


def _merged(sets: Iterable[tuple[int, ...]]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(number for one in sets for number in one))
