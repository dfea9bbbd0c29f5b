"""Which queries are put together of several questions, and so planned as a tree."""

from __future__ import annotations

from sqlglot import exp

from anabranch.errors import CatalogError
from anabranch.sql.standing.sources import Lookup
from anabranch.sql.tree import Select
from anabranch.sql.trees.parts import has_clauses_behind, is_part
from anabranch.sql.trees.tables import tables_of
from anabranch.sql.windows.aggregate_functions import is_aggregate

_CLAUSES = ("with_", "qualify")
_GROUPINGS = ("all", "cube", "rollup", "grouping_sets", "totals")


def is_composed(select: Select) -> bool:
    """True for what no shape is alone; what says EMIT CHANGES without a window is a tree in any case."""
    tree = select.tree
    if select.merges or select.since is not None or select.archives or select.pairs or is_part(select, tree):
        return False
    if isinstance(tree, exp.SetOperation):
        return not _is_of_two_windows(select, tree)
    if isinstance(tree, exp.Subquery):
        return True
    if not isinstance(tree, exp.Select) or tree.args.get("from_") is None:
        return False  # what has no FROM combines aggregates of periods
    if select.bounding is not None or (select.every is not None and is_aggregate(tree)):
        return True
    return _has_more_than_a_shape(tree)


def reads_a_table(select: Select, lookup: Lookup) -> bool:
    """Whether a query without a window reads tables or views, whose rows change."""
    tree = select.tree
    if not isinstance(tree, exp.Select) or tree.args.get("from_") is None or select.pairs or is_part(select, tree):
        return False
    sources = [tree.args["from_"].this, *(join.this for join in tree.args.get("joins") or ())]
    return any(isinstance(source, exp.Table) and _is_table(source, lookup) for source in sources)


def _is_of_two_windows(select: Select, tree: exp.SetOperation) -> bool:
    """A set operation of two SELECTs, one of which has a window: the other one has to have the same."""
    sides = [tree.this, tree.expression]
    plain = all(isinstance(side, exp.Select) and not _has_more_than_a_shape(side) for side in sides)
    return plain and not has_clauses_behind(tree) and any(is_part(select, side) for side in sides)


def _has_more_than_a_shape(tree: exp.Select) -> bool:
    if any(tree.args.get(clause) for clause in _CLAUSES):
        return True
    if not is_aggregate(tree) and (tree.args.get("distinct") or (tree.args.get("order") and tree.args.get("limit"))):
        return True  # groups may be those of a window
    if any(isinstance(node, exp.Query | exp.Window) and node is not tree for node in tree.walk()):
        return True
    group = tree.args.get("group")
    if group is not None and (
        any(group.args.get(part) for part in _GROUPINGS)
        or any(isinstance(key, exp.Cube | exp.Rollup | exp.GroupingSets) for key in group.expressions)
    ):
        return True
    return any(_is_more_than_inner(join) for join in tree.args.get("joins") or ())


def _is_more_than_inner(join: exp.Join) -> bool:
    said = {str(join.args[part]).upper() for part in ("method", "side", "kind") if join.args.get(part)}
    return bool(said - {"INNER", "CROSS"}) or bool(join.args.get("using"))


def _is_table(source: exp.Table, lookup: Lookup) -> bool:
    if source.db:
        return False
    try:
        lookup(source.name)
    except CatalogError:
        return tables_of(lookup)(source.name) is not None
    return False
