"""What a standing query reads, and which clauses it cannot have."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sqlglot import exp

from anabranch.errors import CatalogError
from anabranch.log.stream import PARTS
from anabranch.schema import StreamSchema
from anabranch.sql.checking.archive_clauses import refuse_archives
from anabranch.sql.checking.join_clauses import refuse_join_clauses
from anabranch.sql.reading.elsewhere import ANTI_JOIN, RANKED, SEMI_JOIN
from anabranch.sql.standing.columns import Scope
from anabranch.sql.tree import Select
from anabranch.sql.windows.aggregate_functions import aggregate_name

Lookup = Callable[[str], StreamSchema]
"""The schema of a stream by its name; raises CatalogError STREAM_NOT_FOUND."""

CLAUSES: dict[str, tuple[str, str]] = {
    "with_": ("WITH cannot be used in a standing query", "make each step a stream with CREATE STREAM … AS SELECT …"),
    "laterals": (
        "LATERAL VIEW cannot be used in windows and joins of streams",
        "unnest in a CREATE STREAM … AS SELECT … first and read that stream",
    ),
    "sort": ("a standing query answers in the order of time", "leave SORT BY out"),
    "cluster": ("a standing query answers in the order of time", "leave CLUSTER BY out"),
    "distribute": ("a standing query decides itself where rows go", "leave DISTRIBUTE BY out"),
    "offset": ("a standing query answers from the first row", "leave OFFSET out, or SUBSCRIBE TO … FROM a number"),
    "windows": ("window functions cannot be used in a standing query", RANKED.hint),
    "qualify": ("QUALIFY cannot be used in a standing query", RANKED.hint),
}  # fmt: skip
"""Clauses a standing query cannot have: why, and what instead."""

IN_WINDOWS: dict[str, tuple[str, str]] = {
    "order": ("a standing query answers in the order of time",
              "add WINDOW = INTERVAL … after FROM to order each window, or order when you ask once"),
    "limit": ("a standing query has no last row to stop at",
              "add ORDER BY before it, WINDOW = INTERVAL … after FROM to limit each window, or ask once with SELECT"),
    "distinct": ("DISTINCT would keep every row ever seen", "add WINDOW = INTERVAL … after FROM"),
}  # fmt: skip
"""Clauses that only a window can have."""

_ONE_STREAM = {"joins": ("a query that is a side of a set operation reads one stream",
                         "make the join a stream with CREATE STREAM … AS SELECT …")}  # fmt: skip
KEYWORDS = {"order": "ORDER", "sort": "SORT", "cluster": "CLUSTER", "distribute": "DISTRIBUTE", "limit": "LIMIT",
            "offset": "OFFSET", "distinct": "DISTINCT", "with_": "WITH", "group": "GROUP", "having": "HAVING",
            "where": "WHERE"}  # fmt: skip
_HANDLED = {"kind", "expressions", "from_", "joins", "where", "group", "having", *IN_WINDOWS}


def plain_select(select: Select, *, joins: bool = False) -> exp.Select:
    """The tree, if it is one SELECT over a stream, or with `joins` over several."""
    tree = select.tree
    if not isinstance(tree, exp.Select):
        what = "parentheses around the query" if isinstance(tree, exp.Subquery) else tree.key.upper()
        place, keyword = (tree.expression, tree.key.upper()) if isinstance(tree, exp.SetOperation) else (tree, None)
        raise select.error(
            "NOT_IN_THE_LANGUAGE",
            f"a standing query cannot have {what}",
            place,
            hint="make each part a standing query of its own, or give each side a WINDOW = …"
            if keyword
            else "leave them out",
            keyword=keyword,
        )
    refuse_clauses(select, tree, CLAUSES if joins else {**CLAUSES, **_ONE_STREAM})
    for name, value in tree.args.items():
        if value and name not in _HANDLED:
            raise select.error("NOT_IN_THE_LANGUAGE", f"a standing query cannot have {name.strip('_').upper()}", tree)
    source = tree.args.get("from_")
    if source is None:
        several = tree.find(exp.Subquery) is not None
        raise select.error(
            "NOT_IN_THE_LANGUAGE",
            "a standing query reads a stream",
            tree,
            hint="say how often to answer with EMIT EVERY INTERVAL …" if several else "add FROM with a stream's name",
        )
    _check_source(select, source.this, source)
    for join in tree.args.get("joins") or ():
        _check_source(select, join.this, join)
    _refuse_subqueries(select, tree)
    _refuse_aggregates_in_where(select, tree)
    return tree


def _check_source(select: Select, source: exp.Expr, place: exp.Expr) -> None:
    if not isinstance(source, exp.Table):
        raise select.error(
            "NOT_IN_THE_LANGUAGE",
            "a standing query cannot read a subquery",
            place,
            hint="make the inner query a stream with CREATE STREAM … AS SELECT …",
        )
    for part in ("joins", "laterals", "pivots"):
        if source.args.get(part):
            raise select.error(
                "NOT_IN_THE_LANGUAGE",
                "a standing query reads streams, one after the other",
                place,
                hint="leave the parentheses out" if part == "joins" else "ask once with SELECT",
            )


def _refuse_subqueries(select: Select, tree: exp.Select) -> None:
    for node in tree.walk():
        if isinstance(node, exp.Window):
            why, instead = CLAUSES["windows"]
            raise select.error("NOT_IN_THE_LANGUAGE", why, node, hint=instead)
        if isinstance(node, exp.Query) and node is not tree:
            raise select.error(
                "NOT_IN_THE_LANGUAGE",
                "a standing query cannot hold a subquery",
                node,
                hint=_instead_of(node),
            )


def _instead_of(query: exp.Query) -> str:
    """What says the same as a subquery in a condition."""
    around = query.find_ancestor(exp.Exists, exp.In, exp.SubqueryPredicate)
    if around is None:
        return "make the inner query a stream with CREATE STREAM … AS SELECT …"
    return (ANTI_JOIN if isinstance(around.parent, exp.Not) else SEMI_JOIN).hint


def _refuse_aggregates_in_where(select: Select, tree: exp.Select) -> None:
    where = tree.args.get("where")
    conditions = [*([where] if where is not None else ()), *(j.args.get("on") for j in tree.args.get("joins") or ())]
    for condition in conditions:
        call = next((node for node in condition.walk() if aggregate_name(node)), None) if condition else None
        if call is not None:
            what = "WHERE" if condition is where else "ON"
            hint = "use HAVING" if select.merge is None else "aggregate in a CREATE STREAM … AS SELECT … before"
            raise select.error("AGGREGATE_MISPLACED", f"{what} cannot hold an aggregate", call, hint=hint)


def refuse_clauses(select: Select, tree: exp.Select, clauses: Mapping[str, tuple[str, str]]) -> None:
    """An error if the query has one of the clauses: why, and what instead."""
    for clause, (why, instead) in clauses.items():
        clauses_there = tree.args.get(clause)
        if clauses_there:
            node = clauses_there[0] if isinstance(clauses_there, list) else clauses_there
            place = node if isinstance(node, exp.Expr) else None
            raise select.error("NOT_IN_THE_LANGUAGE", why, place, hint=instead, keyword=KEYWORDS.get(clause))


def refuse_emit(select: Select) -> None:
    """Without windows there is nothing that could change: each row is answered once."""
    refuse_join_clauses(select)
    if select.emit is not None:
        raise select.error(
            "EMIT_WITHOUT_WINDOW",
            f"EMIT {select.emit.kind} is about windows, and the query has none",
            hint="leave it out, or add WINDOW = INTERVAL … after FROM",
            start=select.emit.start,
        )


def one_stream(select: Select, lookup: Lookup) -> tuple[Scope, exp.Select]:
    """The one stream of a query that is no join and not about the past, and its tree."""
    refuse_archives(select)
    refuse_join_clauses(select)
    tree = plain_select(select)
    return scope_of(select, tree, lookup), tree


def scope_of(select: Select, tree: exp.Select, lookup: Lookup) -> Scope:
    """The one stream of a query, under the name it has there."""
    table = tree.args["from_"].this
    scope = Scope(select, stream_name(table), table.alias or table.name, look_up(select, table, lookup))
    over = None if select.window is None else select.window.over
    if over is not None and scope.find(over.column) != scope.schema.time:
        raise select.error(
            "WINDOW_NOT_OVER_TIME",
            f"{over.function}(…) takes the stream's time column, {scope.schema.time}",
            start=over.start,
            hint=f"write DESCRIPTOR({scope.schema.time})",
        )
    return scope


def stream_name(table: exp.Table) -> str:
    """The stream a table names; `cars.rejects` are the rejects of cars, `prices.changes` the changes of prices."""
    return PARTS[table.name.lower()](table.db) if table.db else table.name


def look_up(select: Select, table: exp.Table, lookup: Lookup, *, as_of: bool = False) -> StreamSchema:
    """The stream's schema; one that does not exist is an error in its place, and so is a version, unless it may be."""
    if table.args.get("version") and not as_of:
        raise select.error(
            "NOT_IN_THE_LANGUAGE",
            "only a table that one stream is joined with is read as it was",
            table,
            hint="write FROM stream s JOIN table t FOR SYSTEM_TIME AS OF s.ts ON …, with the stream's time",
        )
    try:
        return lookup(stream_name(table))
    except CatalogError as problem:
        place = select.error("", "", table)
        raise CatalogError(
            problem.name,
            problem.message,
            detail=problem.detail,
            hint=problem.hint,
            line=place.line,
            column=place.column,
        ) from None
