"""FROM: streams, tables, views, subqueries and queries of WITH, and how they are joined."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pyarrow as pa
from sqlglot import exp

from anabranch.log.stream import changes_name
from anabranch.operators.tree.nodes import Expire, JoinKind, Latest, Source, Unnest
from anabranch.schema import StreamSchema
from anabranch.sql.checking.safety import called
from anabranch.sql.reading.intervals import format_us
from anabranch.sql.reading.unnesting import MAKES_ROWS
from anabranch.sql.standing.columns import column
from anabranch.sql.standing.rows import type_name
from anabranch.sql.standing.sources import look_up, stream_name
from anabranch.sql.standing.unnest import elements_of, no_array
from anabranch.sql.trees.context import Context, Ctes
from anabranch.sql.trees.draft import DraftRows, Place, names_of, without
from anabranch.sql.trees.generating import SOURCE
from anabranch.sql.trees.joining import Condition, Item, Joined, build, columns_of
from anabranch.sql.trees.scope import Field, Relation, Scope

_KINDS: dict[tuple[str, str], JoinKind] = {
    ("", ""): "inner", ("", "INNER"): "inner", ("", "CROSS"): "inner",
    ("LEFT", ""): "left", ("LEFT", "OUTER"): "left", ("RIGHT", ""): "right", ("RIGHT", "OUTER"): "right",
    ("FULL", ""): "full", ("FULL", "OUTER"): "full",
    ("LEFT", "SEMI"): "semi", ("", "SEMI"): "semi", ("LEFT", "ANTI"): "anti", ("", "ANTI"): "anti",
}  # fmt: skip

ReadOn = Callable[[exp.Expr, Scope], list[Condition]]
"""Reads the condition of ON in a scope."""
ReadArray = Callable[[exp.Expr, Scope], exp.Expr]
"""Reads the array of a LATERAL VIEW in a scope."""


@dataclass
class From:
    """What is read, with the columns that can be named, in their order."""

    item: Item
    fields: tuple[Field, ...]


def read_from(
    context: Context, tree: exp.Select, outer: Scope | None, ctes: Ctes, read_on: ReadOn, read_array: ReadArray
) -> From:
    """The FROM of a SELECT."""
    source = tree.args.get("from_")
    if source is None:
        raise context.refuse(
            "a query whose answer is kept reads a stream, table or view", tree, "add FROM with the name of one"
        )
    reader = _Reader(context, outer, ctes, read_on, read_array)
    found = reader.several(source.this, tree.args.get("joins") or [])
    for lateral in tree.args.get("laterals") or ():
        found = reader.unnested(found, lateral)
    return found


@dataclass
class _Reader:
    context: Context
    outer: Scope | None
    ctes: Ctes
    read_on: ReadOn
    read_array: ReadArray

    def several(self, first: exp.Expr, joins: list[exp.Expr]) -> From:
        """A source and what is joined with it, one after the other."""
        found = self.one(first)
        for join in joins:
            found = self._join(found, join)
        return found

    def one(self, node: exp.Expr) -> From:
        if isinstance(node, exp.Table):
            self._refuse_parts(node)
            found = self._table(node)
            return self._with_joins(found, node)
        if isinstance(node, exp.Subquery):
            self._refuse_parts(node)
            return self._with_joins(self._subquery(node), node)
        said, hint = _NO_SOURCES.get(type(node), ("this cannot be read", "read streams, tables, views and subqueries"))
        keyword = "VALUES" if isinstance(node, exp.Values) else "LATERAL" if isinstance(node, exp.Lateral) else None
        raise self.context.refuse(said, node, hint, keyword)

    def _with_joins(self, found: From, node: exp.Expr) -> From:
        for join in node.args.get("joins") or ():
            found = self._join(found, join)
        return found

    def _refuse_parts(self, node: exp.Expr) -> None:
        for part, said in (("laterals", "LATERAL VIEW"), ("pivots", "PIVOT")):
            if node.args.get(part):
                raise self.context.refuse(
                    f"{said} is not available where answers change", node, "ask once with SELECT", said.split()[0]
                )

    # -- one source --------------------------------------------------------------------------------

    def _table(self, table: exp.Table) -> From:
        context = self.context
        alias = table.alias or table.name
        cte = self.ctes.get(table.name.lower()) if not table.db else None
        if table.args.get("version"):
            raise context.refuse(
                "a table as it was is joined with one stream alone", table,
                "write FROM stream s JOIN table t FOR SYSTEM_TIME AS OF s.ts ON … in a subquery of its own",
            )  # fmt: skip
        if cte is not None:
            relation = self._again(cte.relation, f"WITH {cte.name}") if cte.read else cte.relation
            cte.read = True
        else:
            relation = self._source(table)
        return self._named(relation, alias, table)

    def _source(self, table: exp.Table) -> Relation:
        """The rows of a stream, table or view, read once for the whole tree."""
        context = self.context
        name = stream_name(table)
        known = context.sources.get(name.lower())
        if known is not None:
            return self._again(known, name)
        columns = context.tables(name) if not table.db else None
        if columns is not None:
            stream = changes_name(name)
            context.keys[stream] = columns.key
            relation = self._read(Source(stream, (), "changes"), columns.schema, name)
        else:
            schema = look_up(context.select, table, context.lookup)
            if schema.changes_by is not None:
                relation = self._latest(name, schema)
                context.sources[name.lower()] = relation
                return relation
            relation = self._read(Source(name, ()), schema.arrow, name)
            bounding = context.select.bounding
            if bounding is not None and bounding.after is not None:
                time = next(field.column for field in relation.fields if field.name == schema.time)
                place = Place(f"EXPIRE AFTER INTERVAL {format_us(bounding.after)}")
                node = Expire(relation.node, time, bounding.after)
                relation = relation.at(context.drafts.add(node, context.schema(relation.node), place))
        context.sources[name.lower()] = relation
        return relation

    def _latest(self, name: str, schema: StreamSchema) -> Relation:
        """The table that a change feed tells of: without what the feed says of each change, and when that came."""
        context = self.context
        read = self._read(Source(name, (), "feed"), _told(schema), name)
        own = {field.name: field.column for field in read.fields}
        assert schema.changes_by is not None
        node = Latest(read.node, tuple(own[column] for column in schema.key), own[schema.changes_by])
        shape = without(context.schema(read.node), node.change)
        fields = tuple(field for field in read.fields if field.column != node.change)
        return Relation(context.drafts.add(node, shape, Place(name)), fields)

    def _read(self, source: Source, schema: pa.Schema, name: str) -> Relation:
        drafts = self.context.drafts
        names = [(drafts.fresh(field.name), field) for field in schema]
        source = replace(source, columns=tuple((own, field.name) for own, field in names))
        node = drafts.add(source, pa.schema([pa.field(own, field.type) for own, field in names]), Place(name))
        return Relation(node, tuple(Field(field.name, own) for own, field in names))

    def _again(self, relation: Relation, said: str) -> Relation:
        """The same rows under other names, so that they can be joined with themselves."""
        drafts, schema = self.context.drafts, self.context.schema(relation.node)
        names = {f.column: drafts.fresh(f.column.rstrip("0123456789").rstrip("_")) for f in relation.fields}
        rows = DraftRows(relation.node, tuple((new, column(old)) for old, new in names.items()))
        shape = pa.schema([pa.field(new, schema.field(old).type) for old, new in names.items()])
        fields = tuple(replace(f, column=names[f.column]) for f in relation.fields)
        return Relation(drafts.add(rows, shape, Place(said)), fields)

    def _subquery(self, node: exp.Subquery) -> From:
        inner = node.this
        if isinstance(inner, exp.Table) or (isinstance(inner, exp.Subquery) and not node.alias):
            found = self.one(inner)
            if node.alias:
                fields = tuple(replace(field, source=node.alias) for field in found.fields if field.bare)
                return From(found.item, self._renamed(fields, node))
            return found
        query = node if any(node.args.get(part) for part in ("order", "limit", "offset")) else inner
        return self._named(self.context.query(self.context, query, self.ctes), node.alias, node)

    def _named(self, relation: Relation, alias: str, node: exp.Expr) -> From:
        fields = tuple(Field(field.name, field.column, alias or None) for field in relation.fields if field.bare)
        return From(relation, self._renamed(fields, node))

    def _renamed(self, fields: tuple[Field, ...], node: exp.Expr) -> tuple[Field, ...]:
        """The columns with the names of `AS t(a, b)`."""
        alias = node.args.get("alias")
        names = [part.name for part in (alias.args.get("columns") or ())] if alias is not None else []
        if not names:
            return fields
        if len(names) != len(fields):
            raise self.context.select.error(
                "SET_COLUMNS_DIFFER",
                f"{len(names)} names for {len(fields)} columns",
                node,
                hint="name each column once",
            )
        return tuple(replace(field, name=name) for field, name in zip(fields, names, strict=True))

    # -- joins -------------------------------------------------------------------------------------

    def _join(self, left: From, join: exp.Expr) -> From:
        context = self.context
        if isinstance(join.this, exp.Lateral) and isinstance(join, exp.Join):
            return self._lateral(left, join)
        side, kind = (str(join.args.get(part) or "").upper() for part in ("side", "kind"))
        method = str(join.args.get("method") or "").upper()
        join_kind = _KINDS.get((side, kind))
        said = " ".join(filter(None, (method, side, kind if kind != "CROSS" else "", "JOIN")))
        if join_kind is None or method not in ("", "NATURAL"):
            raise context.refuse(f"{said} is not available", join, "write JOIN … ON …, LEFT, RIGHT or FULL JOIN")
        right = self.one(join.this)
        self._check_aliases(left, right, join)
        place = Place(said, join)
        fields = (*left.fields, *right.fields)
        using = [part.name for part in join.args.get("using") or ()]
        if method == "NATURAL":
            theirs = {field.name.lower() for field in right.fields if field.bare}
            using = [field.name for field in left.fields if field.bare and field.name.lower() in theirs]
        if using:
            return self._using(left, right, join_kind, using, join, place)
        on = join.args.get("on")
        conditions = self.read_on(on, Scope(context.select, fields, self.outer)) if on is not None else []
        if on is not None:
            self._check_local(left, right, conditions)
        item = Joined(left.item, right.item, join_kind, tuple(conditions), place)
        return From(item, left.fields if join_kind in ("semi", "anti") else fields)

    def _lateral(self, left: From, join: exp.Join) -> From:
        """A join with the elements of an array that other joins follow."""
        lateral = join.this
        if called(lateral.this) not in MAKES_ROWS:
            self.one(lateral)
        side, on = str(join.args.get("side") or "").upper(), join.args.get("on")
        if side or join.args.get("method") or join.args.get("using") or on is not None:
            raise self.context.refuse(
                "a join with the elements of an array takes no ON where other joins follow", join,
                "write it last, or unnest in a subquery in FROM",
            )  # fmt: skip
        return self.unnested(left, lateral)

    def unnested(self, left: From, lateral: exp.Lateral) -> From:
        """What is read, each row once for each element of an array."""
        context = self.context
        said = elements_of(context.select, lateral)
        value = self.read_array(said.array, Scope(context.select, left.fields, self.outer))
        node = build(context, left.item)
        if not names_of(value) <= set(context.schema(node).names):
            raise context.refuse(
                "an array of the query around cannot be unnested here", said.array, "unnest it around the subquery"
            )
        place = Place("the elements of an array", lateral)
        node, (array,) = context.extended(node, [("elements", value, said.array)], place)
        schema = context.schema(node)
        kind = schema.field(array).type
        if not pa.types.is_list(kind):
            raise no_array(context.select, said, type_name(kind))
        element = context.drafts.fresh(said.element)
        own = [pa.field(element, kind.value_type)]
        bare = said.source != SOURCE
        fields = [Field(said.element, element, said.source, bare)]
        at = None if said.place is None else context.drafts.fresh(said.place)
        if at is not None:
            own.insert(0, pa.field(at, pa.int32()))
            fields.insert(0, Field(str(said.place), at, said.source, bare))
        node = context.drafts.add(Unnest(node, array, element, at, said.outer), pa.schema([*schema, *own]), place)
        right = From(Relation(node, ()), tuple(fields))
        self._check_aliases(left, right, lateral)
        return From(Relation(node, ()), (*left.fields, *fields))

    def _check_local(self, left: From, right: From, conditions: list[Condition]) -> None:
        context = self.context
        names = columns_of(context, left.item) | columns_of(context, right.item)
        for condition in conditions:
            if not condition.needs(context) <= names:
                raise context.refuse(
                    "ON cannot compare with a query around this one", condition.written, "put it into WHERE"
                )

    def _check_aliases(self, left: From, right: From, join: exp.Expr) -> None:
        ours = {(field.source or "").lower() for field in left.fields} - {""}
        for source in dict.fromkeys(field.source for field in right.fields):
            if source is not None and source.lower() in ours:
                raise self.context.select.error(
                    "SOURCE_EXISTS",
                    f'two sources of FROM are called "{source}"',
                    join if isinstance(join, exp.Lateral) else join.this,
                    hint=f"give one of them another name: {source} AS …",
                )

    def _using(self, left: From, right: From, kind: JoinKind, names: list[str], join: exp.Expr, place: Place) -> From:
        context = self.context
        conditions: list[Condition] = []
        merged: list[Field] = []
        more: list[tuple[str, exp.Expr]] = []
        hidden: set[str] = set()
        for name in names:
            ours, theirs = (self._of(side, name, join) for side in (left, right))
            equal = exp.EQ(this=column(ours.column), expression=column(theirs.column))
            conditions.append(Condition(equal, join))
            hidden |= {ours.column, theirs.column}
            if kind == "full":
                own = context.drafts.fresh(ours.name)
                both = exp.Anonymous(this="coalesce", expressions=[column(ours.column), column(theirs.column)])
                more.append((own, both))
                merged.append(Field(ours.name, own))
            else:
                merged.append(Field(ours.name, (theirs if kind == "right" else ours).column))
        item = Joined(left.item, right.item, kind, tuple(conditions), place, tuple(more))
        if kind in ("semi", "anti"):
            return From(item, left.fields)
        rest = [replace(f, bare=f.bare and f.column not in hidden) for f in (*left.fields, *right.fields)]
        return From(item, (*merged, *(f for f in rest if f.bare or f.source is not None)))

    def _of(self, side: From, name: str, join: exp.Expr) -> Field:
        scope = Scope(self.context.select, side.fields)
        node = exp.Column(this=exp.Identifier(this=name, quoted=False))
        for part in join.args.get("using") or ():
            if part.name == name and isinstance(part, exp.Identifier):
                node.this.update_positions(part)
        found = scope.here(node)
        if found is None:
            raise scope.not_found(node)
        return found


def _told(schema: StreamSchema) -> pa.Schema:
    """What a feed tells; when its rows came is of the feed, and not of what it tells of."""
    return without(schema.arrow, schema.time) if schema.stamped_on_arrival else schema.arrow


_NO_SOURCES: dict[type[exp.Expr], tuple[str, str]] = {
    exp.Values: (
        "VALUES cannot be read where answers change",
        "put the rows into a table with CREATE TABLE and INSERT",
    ),
    exp.Lateral: ("LATERAL is not available where answers change", "join with a subquery in FROM, and GROUP BY"),
}
