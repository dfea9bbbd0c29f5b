"""One SELECT: FROM and WHERE, groups, window functions, the select list, DISTINCT, the first rows of an order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import pyarrow as pa
from sqlglot import exp

from anabranch.operators.tree.nodes import Aggregate
from anabranch.sql.standing.columns import column, in_parentheses
from anabranch.sql.standing.fields import with_fields
from anabranch.sql.standing.rows import output_name, star_of
from anabranch.sql.standing.sources import KEYWORDS
from anabranch.sql.trees.context import Context, Ctes
from anabranch.sql.trees.correlation import Correlation
from anabranch.sql.trees.draft import Place, names_of
from anabranch.sql.trees.generating import with_generator
from anabranch.sql.trees.grouping import GroupedResolver, Groups, has_aggregate, read_groups
from anabranch.sql.trees.joining import Condition, applied, attached, build, columns_of
from anabranch.sql.trees.ordering import Ordering, read_ordering, topped
from anabranch.sql.trees.parts import is_part
from anabranch.sql.trees.ranking import Windows, named_windows
from anabranch.sql.trees.resolving import Resolver
from anabranch.sql.trees.scope import Field, Relation, Scope
from anabranch.sql.trees.sources import read_from
from anabranch.sql.trees.subqueries import Answered
from anabranch.sql.trees.typing import shown
from anabranch.sql.trees.with_clause import with_ctes

Use = Literal["query", "exists", "in", "value"]

_HANDLED = {"kind", "expressions", "from_", "joins", "where", "group", "having", "windows", "qualify", "distinct",
            "order", "limit", "offset", "with_", "sort", "laterals"}  # fmt: skip
_CLAUSES = {
    "cluster": ("CLUSTER BY says nothing of an answer that changes", "leave it out", "CLUSTER"),
    "distribute": ("DISTRIBUTE BY says nothing of an answer that changes", "leave it out", "DISTRIBUTE"),
}
_MIXED_GROUPS = "an aggregate can only compare columns of the query around it by ="
_MIXED_ROWS = "a subquery with DISTINCT, LIMIT or window functions can only compare columns of the query around it by ="


def plan_block(context: Context, tree: exp.Select, ctes: Ctes) -> Relation:
    """A SELECT that is about nothing around it."""
    if not tree.expressions:
        raise context.select.error("SYNTAX_ERROR", "SELECT without columns", tree, hint="name what is wanted")
    block = _Block(context, with_generator(tree), None, ctes)
    answered = block.answered("query")
    return Relation(answered.node, block.outputs)


def plan_subquery(
    context: Context, tree: exp.Expr, outer: Scope, ctes: Ctes, use: str, *, equal: bool = False
) -> Answered:
    """A subquery; one SELECT may be about columns of the query around it, with `equal` by equalities alone."""
    if isinstance(tree, exp.Select) and not is_part(context.select, tree):
        uses: dict[str, Use] = {"exists": "exists", "in": "in", "value": "value"}
        return _Block(context, tree, outer, ctes, equal).answered(uses[use])
    relation = context.query(context, tree, ctes)
    return Answered(relation.node, tuple(field.column for field in relation.fields))


@dataclass
class _Block:
    context: Context
    tree: exp.Select
    outer: Scope | None
    ctes: Ctes
    equal: bool = False
    outputs: tuple[Field, ...] = ()
    correlation: Correlation = field(init=False)

    def __post_init__(self) -> None:
        self.correlation = Correlation(self.context, self.outer)

    def answered(self, use: Use) -> Answered:
        """The block as what it is for: all its rows, whether there are any, a column of them, or one value."""
        tree = self.tree
        self._check_clauses()
        self.ctes = with_ctes(self.context, tree, self.ctes)
        read = read_from(self.context, tree, self.outer, self.ctes, self._read_on, self._read_array)
        scope = Scope(self.context.select, read.fields, self.outer)
        conditions = self._where(scope)
        own = columns_of(self.context, read.item)
        local = [c for c in conditions if not self._is_about_outer(c, own)]
        others = [c for c in conditions if c not in local]
        item = read.item
        if self.equal and any(not self.correlation.is_equality(c, own) for c in others):
            item, known, others = self.correlation.with_values(item, own, others, Place("a subquery", tree))
            local += known
        node = self.correlation.taken(build(self.context, item, local), others)
        return self._list(node, scope, use)

    def _check_clauses(self) -> None:
        tree = self.tree
        for name, (said, hint, keyword) in _CLAUSES.items():
            clause = tree.args.get(name)
            if clause:
                node = clause[0] if isinstance(clause, list) else clause
                raise self.context.refuse(said, node, hint, keyword)
        for name, value in tree.args.items():
            if value and name not in _HANDLED:
                said = KEYWORDS.get(name, name.strip("_").upper())
                raise self.context.refuse(f"{said} is not available where answers change", tree, None)
        if tree.args.get("distinct") is not None and tree.args["distinct"].args.get("on"):
            raise self.context.refuse(
                "DISTINCT ON is not available", tree, "write QUALIFY row_number() OVER (PARTITION BY … ORDER BY …) = 1"
            )

    # -- FROM and WHERE ----------------------------------------------------------------------------

    def _read_on(self, on: exp.Expr, scope: Scope) -> list[Condition]:
        return Resolver(self.context, scope, self.ctes, "ON").conditions(on)

    def _read_array(self, written: exp.Expr, scope: Scope) -> exp.Expr:
        resolver = Resolver(self.context, scope, self.ctes, "LATERAL VIEW")
        value = resolver.read(written)
        if resolver.attached:
            raise self.context.refuse("LATERAL VIEW cannot hold a subquery", written, "join with it in FROM")
        return value

    def _where(self, scope: Scope) -> list[Condition]:
        where = self.tree.args.get("where")
        return [] if where is None else Resolver(self.context, scope, self.ctes, "WHERE").conditions(where.this)

    def _is_about_outer(self, condition: Condition, own: frozenset[str]) -> bool:
        return not condition.needs(self.context) <= own

    # -- the rest ----------------------------------------------------------------------------------

    def _list(self, node: int, scope: Scope, use: Use) -> Answered:
        tree = self.tree
        parts = [item.unalias() for item in tree.expressions] + [
            tree.args[name].this for name in ("having", "qualify") if tree.args.get(name) is not None
        ]
        parts += [key.this for key in (tree.args["order"].expressions if tree.args.get("order") is not None else ())]
        grouped = tree.args.get("group") is not None or tree.args.get("having") is not None
        if grouped or any(map(has_aggregate, parts)):
            return self._grouped(node, scope, use)
        if use == "exists" and not tree.args.get("limit") and not tree.args.get("qualify"):
            self._check_list(scope)
            return self._answer(node, ())
        windows = Windows(self.context, named_windows(tree))
        resolver = _RowResolver(self.context, scope, self.ctes, "the select list", windows=windows)
        return self._finished(node, scope, use, resolver, windows, None)

    def _check_list(self, scope: Scope) -> None:
        """The names of a select list that nothing else is asked of."""
        for item in self.tree.expressions:
            if star_of(item) is None:
                Resolver(self.context, scope, self.ctes, "the list of EXISTS").read(item.unalias())

    def _grouped(self, node: int, scope: Scope, use: Use) -> Answered:
        tree, context = self.tree, self.context
        for item in tree.expressions:
            if star_of(item) is not None:
                raise context.select.error(
                    "COLUMN_NOT_GROUPED", "* cannot stand beside aggregates", item, hint="name the columns"
                )
        aliases = {item.alias.lower(): item.this for item in reversed(tree.expressions) if isinstance(item, exp.Alias)}
        groups = Groups(context, Resolver(context, scope, self.ctes, "GROUP BY"))
        if tree.args.get("group") is None:
            groups.place = Place("an aggregate", tree)
        read_groups(groups, tree, aliases)
        groups.inner.where = "an aggregate"
        if groups.sets is not None and self.correlation.pairs:
            raise context.refuse(
                "CUBE, ROLLUP and GROUPING SETS cannot stand in a subquery that is about the query around it",
                tree,
                None,
            )
        windows = Windows(context, named_windows(tree))
        resolver = GroupedResolver(context, scope, self.ctes, "the select list", groups=groups, windows=windows)
        total = tree.args.get("group") is None
        if total and self.correlation.pairs and use != "query":
            return self._total(node, resolver, groups, use)
        return self._finished(node, scope, use, resolver, windows, groups)

    def _total(self, node: int, resolver: GroupedResolver, groups: Groups, use: Use) -> Answered:
        """An aggregate of all rows that are equal to the row around in something: a group for each such value.

        Where there is none, counts are 0, so the value is computed when the row has been joined with its group.
        """
        context, tree = self.context, self.tree
        if use == "exists" or len(tree.expressions) != 1 or tree.args.get("qualify") is not None:
            raise context.refuse(
                "EXISTS of an aggregate without GROUP BY is always true" if use == "exists"
                else "such a subquery has one column, and no QUALIFY",
                tree, "leave the aggregate out" if use == "exists" else None,
            )  # fmt: skip
        resolver.windows = None
        value = resolver.read(tree.expressions[0].unalias())
        having = tree.args.get("having")
        condition = replace(resolver, where="HAVING").read(having.this) if having is not None else None
        if resolver.attached:
            raise context.refuse(
                "an aggregate that is compared with the query around cannot hold a subquery", tree, None
            )
        self.correlation.refuse_mixed(_MIXED_GROUPS, "join with it in FROM, and GROUP BY")
        node = groups.applied(node, self.correlation.keys)
        if condition is not None:
            value = exp.Case(ifs=[exp.If(this=condition, true=value)])
        value = _with_zeros(value, groups.counts)
        return Answered(node, (), tuple(self.correlation.pairs), (), value)

    def _finished(
        self,
        node: int,
        scope: Scope,
        use: Use,
        resolver: _RowResolver | GroupedResolver,
        windows: Windows,
        groups: Groups | None,
    ) -> Answered:
        context, tree = self.context, self.tree
        having = tree.args.get("having")
        conditions = (
            replace(resolver, where="HAVING", windows=None, attached=[],
                    aliases=self._written_aliases(resolver)).conditions(having.this)
            if having is not None else []
        )  # fmt: skip
        items = self._items(scope, resolver)
        resolver.aliases = {name.lower(): value for name, value, _ in reversed(items)}
        qualify = tree.args.get("qualify")
        qualified = replace(resolver, where="QUALIFY", attached=[]).conditions(qualify.this) if qualify else []
        ordering = self._ordering(items, resolver, use)
        if tree.args.get("sort") and not ordering:
            context.notes.append("SORT BY is left out: an answer that changes has no order")
        if (windows.calls or tree.args.get("distinct") or ordering) and self.correlation.mixed and use != "exists":
            self.correlation.refuse_mixed(_MIXED_ROWS, "join with it in FROM")
        if groups is not None:
            self.correlation.refuse_mixed(_MIXED_GROUPS, "join with it in FROM, and GROUP BY")
            node = groups.applied(node, self.correlation.keys)
            self._check_grouped(node, [*conditions, *qualified], resolver)
            node = applied(context, node, conditions)
        elif conditions:
            node = applied(context, node, conditions)
        node = attached(context, node, resolver.attached)
        node = self._windowed(node, windows)
        node = applied(context, node, qualified)
        return self._selected(node, items, ordering, use)

    def _written_aliases(self, resolver: Resolver) -> dict[str, exp.Expr]:
        """The names of the select list as HAVING sees them."""
        reader = replace(resolver, windows=None) if isinstance(resolver, GroupedResolver) else resolver
        aliases: dict[str, exp.Expr] = {}
        having = self.tree.args["having"]
        wanted = {node.name.lower() for node in having.find_all(exp.Column) if not node.table}
        for item in self.tree.expressions:
            if isinstance(item, exp.Alias) and item.alias.lower() in wanted and not item.find(exp.Window, exp.Query):
                aliases.setdefault(item.alias.lower(), reader.read(item.this))
        return aliases

    def _check_grouped(self, node: int, conditions: Sequence[Condition], resolver: Resolver) -> None:
        """Subqueries of HAVING and the select list can be about keys only."""
        have = frozenset(self.context.schema(node).names)
        wanted = [(needed, c.written) for c in conditions for a in c.attached for needed in [a.outer(self.context)]]
        wanted += [(a.outer(self.context), a.place.node or self.tree) for a in resolver.attached]
        brought = frozenset(n for a in resolver.attached for n in a.brings(self.context))
        for needed, written in wanted:
            if not needed <= have | brought:
                raise self.context.select.error(
                    "COLUMN_NOT_GROUPED",
                    "a subquery here can be about keys of GROUP BY only",
                    written,
                    hint="add what it compares with to GROUP BY, or put it into WHERE",
                )

    def _windowed(self, node: int, windows: Windows) -> int:
        if windows.calls and self.correlation.pairs:
            keys = tuple(map(column, self.correlation.keys))
            windows.calls = [replace(call, partition=(*keys, *call.partition)) for call in windows.calls]
        return windows.applied(node)

    def _items(self, scope: Scope, resolver: _RowResolver | GroupedResolver) -> list[tuple[str, exp.Expr, exp.Expr]]:
        """The select list: names, values, and where they were written."""
        items: list[tuple[str, exp.Expr, exp.Expr]] = []
        aliases: dict[str, exp.Expr] = {}
        for item in self.tree.expressions:
            star = star_of(item)
            if star is not None:
                items += [(self._shown(f, scope), column(f.column), item) for f in self._star(scope, item, star)]
                continue
            resolver.aliases = aliases
            value = resolver.read(item.unalias())
            written = with_fields(item.unalias().copy(), scope.has)
            if isinstance(written, exp.Column) and not isinstance(item, exp.Alias):
                found = scope.here(written)
                name = found.name if found is not None else written.name
            else:
                name = output_name(item, exp.Null() if isinstance(written, exp.Column) else written)
            items.append((name, value, item))
            if isinstance(item, exp.Alias):
                aliases.setdefault(item.alias.lower(), value)
        return items

    def _shown(self, field: Field, scope: Scope) -> str:
        """The name of a column of `*`; in the answer one that several sources have gets its source's before it."""
        often = sum(other.name.lower() == field.name.lower() for other in scope.fields if other.bare) > 1
        is_answer = self.tree is self.context.select.tree
        return f"{field.source}_{field.name}" if often and is_answer and field.source else field.name

    def _star(self, scope: Scope, item: exp.Expr, star: exp.Star) -> list[Field]:
        context = self.context
        if star.args.get("replace") or star.args.get("rename"):
            raise context.refuse("* can only be followed by EXCEPT", item, None)
        fields = [f for f in scope.fields if f.bare]
        if isinstance(item, exp.Column):
            fields = [f for f in scope.fields if (f.source or "").lower() == item.table.lower()]
            if not fields:
                raise scope.not_found(exp.Column(this=exp.Identifier(this="*"), table=item.args["table"]))
        for left_out in star.args.get("except_") or ():
            gone = [f for f in fields if f.name.lower() == left_out.name.lower()]
            if not gone:
                raise scope.not_found(left_out if isinstance(left_out, exp.Column) else exp.Column(this=left_out))
            fields = [f for f in fields if f not in gone]
        return fields

    def _ordering(self, items: list[tuple[str, exp.Expr, exp.Expr]], resolver: Resolver, use: Use) -> Ordering | None:
        reader = replace(resolver, where="ORDER BY", attached=resolver.attached)
        named = {name.lower(): value for name, value, _ in reversed(items)}

        def read(written: exp.Expr) -> exp.Expr:
            if isinstance(written, exp.Literal) and not written.is_string:
                return self._by_number(written, items)
            if isinstance(written, exp.Column) and not written.table and written.name.lower() in named:
                return named[written.name.lower()]
            return reader.read(written)

        ordering = read_ordering(self.context, self.tree, read)
        return (
            None
            if use == "exists" and ordering is not None and ordering.limit != 0 and not ordering.offset
            else ordering
        )

    def _by_number(self, written: exp.Expr, items: list[tuple[str, exp.Expr, exp.Expr]]) -> exp.Expr:
        if written.name.isdigit() and 1 <= int(written.name) <= len(items):
            return items[int(written.name) - 1][1]
        raise self.context.select.error(
            "SYNTAX_ERROR", f"there is no column {written.name} in the select list", written, keyword="ORDER"
        )

    def _selected(
        self, node: int, items: list[tuple[str, exp.Expr, exp.Expr]], ordering: Ordering | None, use: Use
    ) -> Answered:
        context = self.context
        have = frozenset(context.schema(node).names)
        for _, value, item in items:
            if use != "query" and not names_of(value) <= have:
                raise context.refuse(
                    "the select list of a subquery cannot compute with columns of the query around it", item,
                    "compute it around the subquery",
                )  # fmt: skip
        values = [(_wanted(item, value), value, item) for _, value, item in items]
        distinct = self.tree.args.get("distinct") is not None
        node, names = context.extended(node, values, Place("SELECT"))
        if distinct:
            node, order = self._distinct(node, names, items, ordering)
        else:
            node, order = context.extended(node, ordering.values if ordering is not None else [], Place("ORDER BY"))
        if ordering is not None:
            node = topped(context, node, ordering, order, self.correlation.keys)
        self.outputs = tuple(Field(name, own) for (name, _, _), own in zip(items, names, strict=True))
        return self._answer(node, tuple(names))

    def _distinct(
        self, node: int, names: Sequence[str], items: list[tuple[str, exp.Expr, exp.Expr]], ordering: Ordering | None
    ) -> tuple[int, list[str]]:
        context = self.context
        keys = tuple(dict.fromkeys((*self.correlation.keys, *names)))
        schema = context.schema(node)
        place = Place("DISTINCT", self.tree, "DISTINCT")
        node = context.drafts.add(Aggregate(node, keys), pa.schema([schema.field(name) for name in keys]), place)
        if ordering is None:
            return node, []
        put_in = {value.unnest(): name for (_, value, _), name in zip(items, names, strict=True)}
        values: list[tuple[str, exp.Expr, exp.Expr | None]] = []
        for wanted, value, written in ordering.values:
            over = value.copy().transform(lambda n: column(put_in[n]) if n in put_in else n)
            if not names_of(over) <= set(keys):
                raise context.refuse(
                    f"ORDER BY of SELECT DISTINCT is by what is selected, and {shown(value)} is not", written,
                    "select it, too", "ORDER",
                )  # fmt: skip
            values.append((wanted, over, written))
        return context.extended(node, values, Place("ORDER BY"))

    def _answer(self, node: int, columns: tuple[str, ...]) -> Answered:
        return Answered(node, columns, tuple(self.correlation.pairs), tuple(self.correlation.mixed))


@dataclass
class _RowResolver(Resolver):
    """Reads the select list of a query without groups, which may have window functions."""

    windows: Windows | None = None

    def window(self, node: exp.Window) -> exp.Expr:
        if self.windows is None:
            return super().window(node)
        return self.windows.add(node, self.read)


def _wanted(item: exp.Expr, value: exp.Expr) -> str:
    """The name that a column of the tree has if it is free."""
    if isinstance(item, exp.Alias):
        return item.alias
    return value.name if isinstance(value, exp.Column) else "value"


def _with_zeros(value: exp.Expr, counts: frozenset[str]) -> exp.Expr:
    """The value where counts that are not there are 0."""

    def put_in(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Column) and node.name in counts:
            return exp.Anonymous(this="coalesce", expressions=[node, exp.Literal.number(0)])
        return node

    return in_parentheses(value.copy().transform(put_in))
