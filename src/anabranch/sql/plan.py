"""A SELECT as a standing query: which operator runs it, and what is left to Spark SQL.

A standing query reads one stream and must be able to say, row by row or window by window, that an
answer is final. What cannot say so is refused here, with what to write instead.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from anabranch.errors import CatalogError, SqlError
from anabranch.operators.base import Operator
from anabranch.schema import StreamSchema
from anabranch.sql.aggregate_functions import aggregate_name, is_aggregate
from anabranch.sql.aggregates import plan_aggregate
from anabranch.sql.columns import Scope
from anabranch.sql.explain import as_json, as_text, plan_as_dict
from anabranch.sql.rows import plan_rows
from anabranch.sql.safety import check_tree
from anabranch.sql.tree import Select

Lookup = Callable[[str], StreamSchema]
"""The schema of a stream by its name; raises CatalogError STREAM_NOT_FOUND."""


@dataclass(frozen=True)
class StandingPlan:
    """How a standing query runs.

    `residual_sql` is Spark SQL over a view named `__input` that holds the operator's rows; None if
    the operator does everything. `schema` is None where only Spark can tell the types. `time` is the
    answer's time column, `pushed` the condition applied while the stream is read.
    """

    select: Select
    stream: str
    operator: Operator
    residual_sql: str | None
    schema: StreamSchema | None
    time: str
    pushed: str | None

    def explain(self) -> dict[str, Any]:
        """The plan as plain data; `explain_text` and `explain_json` show the same."""
        return plan_as_dict(self.operator, self.residual_sql, self.schema, self.time, self.pushed)

    def explain_text(self) -> str:
        return as_text(self.explain())

    def explain_json(self) -> str:
        return as_json(self.explain())


_CLAUSES: dict[str, tuple[str, str]] = {
    "with_": ("WITH cannot be used in a standing query", "make each step a stream with CREATE STREAM … AS SELECT …"),
    "joins": ("a standing query reads one stream", "ask once with SELECT, or join what the streams' queries answer"),
    "laterals": ("LATERAL VIEW cannot be used in a standing query", "ask once with SELECT"),
    "order": ("a standing query answers in the order of time", "leave ORDER BY out, and order when you ask once"),
    "sort": ("a standing query answers in the order of time", "leave SORT BY out"),
    "cluster": ("a standing query answers in the order of time", "leave CLUSTER BY out"),
    "distribute": ("a standing query decides itself where rows go", "leave DISTRIBUTE BY out"),
    "limit": ("a standing query has no last row to stop at", "leave LIMIT out, or ask once with SELECT"),
    "offset": ("a standing query answers from the first row", "leave OFFSET out, or SUBSCRIBE TO … FROM a number"),
    "distinct": ("DISTINCT would keep every row ever seen", "write GROUP BY with WINDOW = INTERVAL … after FROM"),
    "windows": ("window functions cannot be used in a standing query", "aggregate with WINDOW = INTERVAL … after FROM"),
    "qualify": ("QUALIFY cannot be used in a standing query", "use HAVING"),
}  # fmt: skip
"""Clauses a standing query cannot have: why, and what instead."""

_KEYWORDS = {"order": "ORDER", "sort": "SORT", "cluster": "CLUSTER", "distribute": "DISTRIBUTE", "limit": "LIMIT",
             "offset": "OFFSET", "distinct": "DISTINCT", "with_": "WITH"}  # fmt: skip
_HANDLED = {"kind", "expressions", "from_", "where", "group", "having"}


def plan_standing(select: Select, lookup: Lookup) -> StandingPlan:
    """The plan of a standing query, or a refusal that says what to add."""
    try:
        return _plan(select, lookup)
    except RecursionError:
        raise too_large(select) from None


def too_large(select: Select) -> SqlError:
    return select.error(
        "QUERY_TOO_LARGE", "the query is nested or chained too deeply", hint="cut it into several queries"
    )


def _plan(select: Select, lookup: Lookup) -> StandingPlan:
    check_tree(select, standing=True)
    tree = _plain_select(select)
    table = tree.args["from_"].this
    stream = stream_name(table)
    schema = look_up(select, table, lookup)
    scope = Scope(select, stream, table.alias or table.name, schema)
    _refuse_aggregates_in_where(select, tree)
    if is_aggregate(tree):
        grouped = plan_aggregate(scope, tree)
        return StandingPlan(select, stream, grouped.operator, None, grouped.schema, grouped.time, grouped.pushed)
    if select.window is not None:
        raise select.error(
            "WINDOW_WITHOUT_AGGREGATE",
            "a window is there to be aggregated, and nothing in the select list is",
            tree,
            hint="leave WINDOW out, or select an aggregate such as count(*)",
        )
    rows = plan_rows(scope, tree)
    return StandingPlan(select, stream, rows.operator, rows.residual_sql, rows.schema, rows.time, rows.pushed)


def _refuse_aggregates_in_where(select: Select, tree: exp.Select) -> None:
    where = tree.args.get("where")
    found = next((node for node in where.walk() if aggregate_name(node)), None) if where is not None else None
    if found is not None:
        raise select.error("AGGREGATE_MISPLACED", "WHERE cannot hold an aggregate", found, hint="use HAVING")


def stream_name(table: exp.Table) -> str:
    """The stream a table names; `packets.rejects` are the rejects of packets."""
    return f"{table.db}.rejects" if table.db else table.name


def look_up(select: Select, table: exp.Table, lookup: Lookup) -> StreamSchema:
    """The stream's schema; one that does not exist is an error in its place."""
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


def _plain_select(select: Select) -> exp.Select:
    """The tree, if it is one SELECT over one stream."""
    tree = select.tree
    if not isinstance(tree, exp.Select):
        what = "parentheses around the query" if isinstance(tree, exp.Subquery) else tree.key.upper()
        place, keyword = (tree.expression, tree.key.upper()) if isinstance(tree, exp.SetOperation) else (tree, None)
        raise select.error(
            "NOT_IN_THE_LANGUAGE",
            f"a standing query cannot have {what}",
            place,
            hint="make each part a standing query of its own",
            keyword=keyword,
        )
    for clause, (why, instead) in _CLAUSES.items():
        found = tree.args.get(clause)
        if found:
            node = found[0] if isinstance(found, list) else found
            place = node if isinstance(node, exp.Expr) else None
            raise select.error("NOT_IN_THE_LANGUAGE", why, place, hint=instead, keyword=_KEYWORDS.get(clause))
    for name, found in tree.args.items():
        if found and name not in _HANDLED:
            raise select.error("NOT_IN_THE_LANGUAGE", f"a standing query cannot have {name.strip('_').upper()}", tree)
    source = tree.args.get("from_")
    if source is None:
        raise select.error(
            "NOT_IN_THE_LANGUAGE", "a standing query reads a stream", tree, hint="add FROM with a stream's name"
        )
    if not isinstance(source.this, exp.Table):
        raise select.error(
            "NOT_IN_THE_LANGUAGE",
            "a standing query cannot read a subquery",
            source,
            hint="make the inner query a stream with CREATE STREAM … AS SELECT …",
        )
    for part in ("joins", "laterals", "pivots"):
        if source.this.args.get(part):
            raise select.error(
                "NOT_IN_THE_LANGUAGE", "a standing query reads one stream", source, hint="ask once with SELECT"
            )
    for node in tree.walk():
        if isinstance(node, exp.Window):
            why, instead = _CLAUSES["windows"]
            raise select.error("NOT_IN_THE_LANGUAGE", why, node, hint=instead)
        if isinstance(node, exp.Query) and node is not tree:
            raise select.error(
                "NOT_IN_THE_LANGUAGE",
                "a standing query cannot hold a subquery",
                node,
                hint="make the inner query a stream with CREATE STREAM … AS SELECT …",
            )
    return tree
