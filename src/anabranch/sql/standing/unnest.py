"""LATERAL VIEW: what a row is there once for each element of."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import pyarrow as pa
from sqlglot import exp

from anabranch.errors import SqlError
from anabranch.expressions import NotEvaluable
from anabranch.expressions.types import name as type_name
from anabranch.schema import StreamSchema
from anabranch.sql.checking.safety import called
from anabranch.sql.reading.unnesting import MAKES_ROWS
from anabranch.sql.standing.columns import Scope, sql_of
from anabranch.sql.tree import Select


class Elements(NamedTuple):
    """An array, what its elements and their places are called, and whether a row without elements stays."""

    array: exp.Expr
    source: str | None
    element: str
    place: str | None
    outer: bool
    written: exp.Expr


def elements_of(select: Select, lateral: exp.Lateral) -> Elements:
    """What a LATERAL VIEW or a join with LATERAL reads."""
    call = lateral.this
    name = called(call)
    if name not in MAKES_ROWS:
        said = name or call.key.upper()
        raise select.error(
            "NOT_IN_THE_LANGUAGE",
            f"LATERAL {said} is not available in a standing query",
            lateral,
            hint="explode() and posexplode() make rows of arrays",
            keyword="LATERAL",
        )
    alias = lateral.args.get("alias")
    names = [] if alias is None else [part.name for part in alias.columns]
    wanted = MAKES_ROWS[name]
    if names and len(names) != wanted:
        raise select.error(
            "SET_COLUMNS_DIFFER",
            f"{len(names)} name{'s' * (len(names) > 1)} for {wanted} column{'s' * (wanted > 1)} of {name}()",
            lateral,
            hint="write AS element" if wanted == 1 else "write AS place, element",
        )
    if len(call.expressions) != 1:
        raise wrong_arguments(select, call, name)
    *place, element = names or ["pos", "col"][2 - wanted :]
    outer = bool(lateral.args.get("outer")) or name.endswith("_outer")
    source = alias.name if alias is not None and alias.this is not None else None
    return Elements(call.expressions[0], source, element, place[0] if place else None, outer, lateral)


def wrong_arguments(select: Select, call: exp.Expr, name: str) -> SqlError:
    return select.error("FUNCTION_ARGUMENTS", f"{name}() takes one array", call)


def no_array(select: Select, elements: Elements, type_name: str) -> SqlError:
    """The error for what is unnested and no array."""
    return select.error(
        "FUNCTION_ARGUMENTS",
        f"explode() makes rows of arrays, got {type_name}",
        elements.array,
        hint="name a column of type ARRAY",
    )


# -- rows of one stream ----------------------------------------------------------------------------


@dataclass(frozen=True)
class ElementScope(Scope):
    """A stream beside the elements of arrays of its rows; `sources` are (name of a LATERAL VIEW, its columns)."""

    arrays: tuple[tuple[str, str, str | None, bool], ...] = ()
    """As `operators.unnest` has them."""
    sources: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def has(self, source: str | None, name: str) -> bool:
        columns = self._columns(source)
        return super().has(source, name) if columns is None else name.lower() in columns

    def name_of(self, node: exp.Column) -> str | None:
        columns = self._columns(node.table)
        if columns is None or node.args.get("db") is not None:
            return super().name_of(node)
        if node.name.lower() not in columns:
            raise self.not_found(node, [])
        return self.find(node.name)

    def _columns(self, source: str | None) -> list[str] | None:
        """The columns of a LATERAL VIEW in lower case; None if it is no name of one."""
        views = (columns for known, columns in self.sources if source and known.lower() == source.lower())
        return next(([column.lower() for column in columns] for columns in views), None)


def without_laterals(select: Select) -> tuple[list[exp.Lateral], Select]:
    """The LATERAL VIEWs of a query, and the query without them."""
    laterals = select.tree.args.get("laterals") or []
    if not laterals:
        return [], select
    tree = select.tree.copy()
    tree.set("laterals", None)
    return laterals, replace(select, tree=tree)


def with_elements(scope: Scope, laterals: list[exp.Lateral]) -> Scope:
    """What can be named where rows are there once for each element of arrays."""
    for lateral in laterals:
        scope = _with(scope, elements_of(scope.select, lateral))
    return scope


def _with(scope: Scope, said: Elements) -> ElementScope:
    select = scope.select
    array = scope.resolve(said.array)
    try:
        kind = scope.compile(array).type
    except NotEvaluable as problem:
        raise select.error(
            "EXPRESSION_NEEDS_SPARK",
            f"explode() of what only Spark SQL can compute: {problem.reason.replace('`', '')}",
            said.array,
            hint="write explode(…) in the select list, or compute the array in a CREATE STREAM … AS SELECT … first",
        ) from None
    if not pa.types.is_list(kind):
        raise no_array(select, said, type_name(kind))
    own = [pa.field(said.element, kind.value_type)]
    if said.place is not None:
        own.append(pa.field(said.place, pa.int32()))
    for field in own:
        if scope.find(field.name) is not None or said.element.lower() == (said.place or "").lower():
            raise select.error(
                "COLUMN_EXISTS",
                f'column "{field.name}" is there already',
                said.written,
                hint="give the elements another name: LATERAL VIEW explode(…) t AS name",
            )
    known = scope if isinstance(scope, ElementScope) else ElementScope(select, scope.stream, scope.alias, scope.schema)
    named = ((said.source, tuple(field.name for field in own)),) if said.source else ()
    return replace(
        known,
        schema=StreamSchema(pa.schema([*scope.schema.arrow, *own]), scope.schema.time),
        arrays=(*known.arrays, (sql_of(array), said.element, said.place, said.outer)),
        sources=(*known.sources, *named),
    )
