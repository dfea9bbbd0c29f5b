"""What cannot be kept by what changes, asked anew as a whole: the SELECT as Spark SQL over all rows there are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pyarrow as pa
from sqlglot import exp

from anabranch.errors import AnabranchError, SqlError
from anabranch.operators.archive.scan import ArchiveScan
from anabranch.operators.base import Inputs
from anabranch.operators.whole import Whole
from anabranch.schema import StreamSchema, sql_type
from anabranch.sql.checking.inner_clauses import refuse_inner
from anabranch.sql.checking.safety import check_tree
from anabranch.sql.merges.merge import is_merge
from anabranch.sql.over_views import OverViews, StreamUse, Tables, over_views
from anabranch.sql.reading.reduce_by import Registered
from anabranch.sql.standing.columns import without_own_functions
from anabranch.sql.standing.rest import makes_several_rows
from anabranch.sql.standing.sources import Lookup
from anabranch.sql.standing.standing_plan import StandingPlan
from anabranch.sql.tree import Select
from anabranch.sql.trees.answer_columns import refuse_reserved_names, refuse_same_names, refuse_types
from anabranch.sql.windows.aggregate_functions import aggregate_row

_SAYS_NOTHING = ("cluster", "distribute", "sort")
"""Clauses about how Spark computes, which are better left out than asked for."""
_NOT_KEPT = frozenset({"AGGREGATE_NOT_AVAILABLE", "EXPRESSION_NEEDS_SPARK", "NOT_IN_THE_LANGUAGE"})
"""Refusals of a tree after which Spark SQL may still be asked; the others are mistakes, or mended by a CAST."""


def plan_whole(select: Select, lookup: Lookup, reducers: Registered, tables: Tables, refused: SqlError) -> StandingPlan:
    """The plan of a question that was `refused` as a tree; raises that again where Spark SQL cannot be asked either.

    It has no schema: the columns of the answer are known once Spark has read it, see `with_columns`.
    """
    if select.bounding is not None and select.bounding.groups is not None:
        raise refused  # which groups are newest is not told by Spark SQL
    asked = _asked(select, lookup, reducers, tables, refused)
    after = None if select.bounding is None else select.bounding.after
    endless = next((use.stream for use in asked.streams if not use.is_table), None)
    if endless is not None and select.bounding is None:
        raise select.error(
            "STATE_UNBOUNDED",
            f'the question is asked anew over all rows, and stream "{endless}" has no end',
            select.tree,
            detail=f"it cannot be kept by what changes: {_why(refused)}",
            hint="end the query with EXPIRE AFTER INTERVAL 1 DAY, if rows count for so long, or ACCEPT UNBOUNDED; "
            "for rows that stay as they are write CREATE STREAM … AS SELECT …",
        ) from None
    reads = [(use.view, use.read()) for use in asked.streams]
    views = tuple((view, read) for view, read in reads if not isinstance(read, ArchiveScan))
    key = _key(select.tree, asked.streams)
    whole = Whole(asked.guarded, views, (), key, _why(refused), after, is_one_row=_is_total(select.tree))
    return StandingPlan(whole, None, None, whole.time)


def with_columns(select: Select, plan: StandingPlan, columns: pa.Schema) -> StandingPlan:
    """The plan of a whole question, with the columns that Spark SQL answers it with."""
    whole = plan.operator
    assert isinstance(whole, Whole)
    refuse_same_names(select, columns.names)
    refuse_reserved_names(select, columns.names)
    refuse_types(select, columns)
    named = {name.lower(): name for name in columns.names}
    key = tuple(named[name.lower()] for name in whole.key if name.lower() in named)
    whole = replace(
        whole,
        types=tuple((field.name, sql_type(field.type)) for field in columns),
        key=key if len(key) == len(whole.key) else (),
    )
    return replace(plan, operator=whole, schema=StreamSchema(whole.schema(Inputs({})), plan.time))


def _asked(select: Select, lookup: Lookup, reducers: Registered, tables: Tables, refused: SqlError) -> OverViews:
    """The SELECT as Spark SQL; what Spark SQL does not have (windows, archives, feeds) remains `refused`."""
    emits_else = select.emit is not None and not select.emit.changes
    windowed = select.window is not None or select.pairs or is_merge(select)
    if refused.name not in _NOT_KEPT or emits_else or windowed or any(map(select.tree.args.get, _SAYS_NOTHING)):
        raise refused
    plain = replace(select, bounding=None, emit=None)
    try:
        refuse_inner(plain, windows=False)
        check_tree(plain, standing=True)
        tree = without_own_functions(select.tree.copy())
        asked = over_views(plain, tree, lambda name: tables(name) or lookup(name), reducers, _is_one_of(tables))
    except AnabranchError:
        raise refused from None
    if not asked.streams or any(use.archive is not None or use.schema.changes_by is not None for use in asked.streams):
        raise refused
    return asked


def _is_one_of(tables: Tables) -> Callable[[str], bool]:
    return lambda name: tables(name) is not None


def _why(refused: SqlError) -> str:
    return refused.message if refused.detail is None else f"{refused.message} ({refused.detail})"


# -- what is known of the answer ---------------------------------------------------------------------


def _is_total(tree: exp.Expr) -> bool:
    """Whether the answer surely has one row at most, of aggregates over all rows."""
    if not isinstance(tree, exp.Select) or tree.args.get("group") is not None or _multiplies(tree):
        return False
    nodes = [node for item in tree.expressions for node in item.walk()]
    inside = any(isinstance(node, exp.Window | exp.Query) for node in nodes)
    return not inside and any(aggregate_row(node) is not None for node in nodes)


def _key(tree: exp.Expr, reads: tuple[StreamUse, ...]) -> tuple[str, ...]:
    """The columns of the answer that tell its groups apart, where each group is one row; () if that is not seen."""
    group = tree.args.get("group") if isinstance(tree, exp.Select) else None
    if not isinstance(tree, exp.Select) or group is None or _multiplies(tree):
        return ()
    if any(value for part, value in group.args.items() if part != "expressions"):
        return ()  # CUBE and the like: keys are NULL in some groups, and in others that are theirs
    shown = {item.unalias().sql(): item.alias_or_name for item in tree.expressions}
    aliases = _aliases_that_mean_no_column(tree, reads)
    key = []
    for part in group.expressions:
        if isinstance(part, exp.Literal) and not part.is_string and 1 <= int(part.name) <= len(tree.expressions):
            name = tree.expressions[int(part.name) - 1].alias_or_name
        else:
            name = shown.get(part.sql()) or aliases.get(part.sql().lower())
        if not name:
            return ()
        key.append(name)
    return tuple(dict.fromkeys(key))


def _aliases_that_mean_no_column(tree: exp.Select, reads: tuple[StreamUse, ...]) -> dict[str, str]:
    """The names that the list gives to its items, by which GROUP BY may mean them: nothing in FROM is called so."""
    inside = {name.lower() for use in reads for name in use.schema.names}
    inside |= {alias.lower() for alias in _aliases_below(tree)}
    named = [item.alias for item in tree.expressions if item.alias]
    return {exp.column(name).sql().lower(): name for name in named if name.lower() not in inside}


def _aliases_below(tree: exp.Select) -> Iterator[str]:
    """Names that columns get inside of FROM and WITH."""
    for node in tree.find_all(exp.Alias, exp.TableAlias, exp.Aliases):
        if node.parent is not tree:
            yield from (name.name for name in node.find_all(exp.Identifier))


def _multiplies(tree: exp.Select) -> bool:
    """Whether a function of the list makes several rows of one."""
    listed = exp.Select(expressions=[item.copy() for item in tree.expressions])
    return makes_several_rows(listed.sql("spark")) is not None
