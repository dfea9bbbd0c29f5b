"""What cannot be kept by what changes, asked anew as a whole: the SELECT as Spark SQL over all rows there are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sqlglot import exp

from anabranch.errors import AnabranchError, SqlError
from anabranch.operators.archive.scan import ArchiveScan
from anabranch.operators.whole import Whole
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
from anabranch.sql.windows.aggregate_functions import is_aggregate

_NOT_KEPT = frozenset(
    {
        "AGGREGATE_NOT_AVAILABLE",
        "AGGREGATE_TYPE_MISMATCH",
        "EXPRESSION_NEEDS_SPARK",
        "FUNCTION_ARGUMENTS",
        "JOIN_KEYS_DIFFER",
        "NOT_IN_THE_LANGUAGE",
    }
)
"""Refusals of a tree after which Spark SQL may still be asked."""


def plan_whole(select: Select, lookup: Lookup, reducers: Registered, tables: Tables, refused: SqlError) -> StandingPlan:
    """The plan of a question that was `refused` as a tree; raises that again where Spark SQL cannot be asked either.

    The columns of the answer are known once Spark has read it.
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
            hint="end the query with EXPIRE AFTER INTERVAL 1 DAY, if rows count for so long, or ACCEPT UNBOUNDED",
        ) from None
    reads = [(use.view, use.read()) for use in asked.streams]
    views = tuple((view, read) for view, read in reads if not isinstance(read, ArchiveScan))
    whole = Whole(asked.guarded, views, (), _key(select.tree), _why(refused), after, is_one_row=_is_total(select.tree))
    return StandingPlan(whole, None, None, whole.time)


def _asked(select: Select, lookup: Lookup, reducers: Registered, tables: Tables, refused: SqlError) -> OverViews:
    """The SELECT as Spark SQL; what Spark SQL does not have (windows, archives, feeds) remains `refused`."""
    if refused.name not in _NOT_KEPT or select.window is not None or select.pairs or is_merge(select):
        raise refused
    plain = replace(select, bounding=None, emit=None)
    try:
        refuse_inner(plain, windows=False)
        check_tree(plain, standing=True)
        tree = without_own_functions(select.tree.copy())
        asked = over_views(plain, tree, lambda name: tables(name) or lookup(name), reducers, _is_one_of(tables))
    except AnabranchError:
        raise refused from None
    if not asked.streams or any(_is_no_view(use) for use in asked.streams):
        raise refused
    return asked


def _is_one_of(tables: Tables) -> Callable[[str], bool]:
    return lambda name: tables(name) is not None


def _is_no_view(use: StreamUse) -> bool:
    return use.archive is not None or use.schema.changes_by is not None


def _why(refused: SqlError) -> str:
    return refused.message if refused.detail is None else f"{refused.message} ({refused.detail})"


def _is_total(tree: exp.Expr) -> bool:
    """Whether the answer is surely one row, of aggregates over all rows."""
    if not isinstance(tree, exp.Select) or tree.args.get("group") is not None or _multiplies(tree):
        return False
    return is_aggregate(tree) and not any(item.find(exp.Window, exp.Query) for item in tree.expressions)


def _key(tree: exp.Expr) -> tuple[str, ...]:
    """The columns of the answer that tell its groups apart, where each group is one row; () if that is not seen."""
    if not isinstance(tree, exp.Select) or tree.args.get("group") is None or _multiplies(tree):
        return ()
    group = tree.args["group"]
    if any(group.args.get(part) for part in ("cube", "rollup", "grouping_sets", "totals", "all")):
        return ()
    shown = {item.unalias().sql(): item.alias_or_name for item in tree.expressions if item.alias_or_name}
    names = {item.alias_or_name.lower(): item.alias_or_name for item in tree.expressions if item.alias_or_name}
    key = []
    for part in group.expressions:
        if isinstance(part, exp.Literal) and not part.is_string and 1 <= int(part.name) <= len(tree.expressions):
            name = tree.expressions[int(part.name) - 1].alias_or_name
        else:
            name = shown.get(part.sql()) or (names.get(part.name.lower()) if isinstance(part, exp.Column) else None)
        if not name:
            return ()
        key.append(name)
    return tuple(dict.fromkeys(key))


def _multiplies(tree: exp.Select) -> bool:
    """Whether a function of the list makes several rows of one."""
    return (
        makes_several_rows(exp.Select(expressions=[item.copy() for item in tree.expressions]).sql("spark")) is not None
    )
