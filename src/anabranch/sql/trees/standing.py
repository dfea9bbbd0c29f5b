"""Any SELECT as a standing query whose answer is what changes."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from anabranch.errors import CatalogError, SqlError
from anabranch.log.stream import changes_name
from anabranch.operators.tree.answer import answer_schema
from anabranch.operators.tree.nodes import nodes_to_text
from anabranch.operators.tree.operator import Tree
from anabranch.schema import StreamSchema
from anabranch.sql.reading.reduce_by import Registered
from anabranch.sql.standing.sources import Lookup
from anabranch.sql.standing.standing_plan import StandingPlan
from anabranch.sql.tree import Select
from anabranch.sql.trees.context import TableColumns, Tables
from anabranch.sql.trees.plan import TreePlan, plan_tree
from anabranch.sql.trees.whole import plan_whole
from anabranch.tables.declaration import NUMBER, RESERVED


def is_of_changes(select: Select) -> bool:
    """True if what changes of an answer is asked for that is not one of windows."""
    windowed = select.window is not None or bool(select.pairs) or select.merge is not None
    return select.emit is not None and select.emit.changes and not windowed


def plan_changes(select: Select, lookup: Lookup, reducers: Registered) -> StandingPlan:
    """What answers how the answer of a SELECT changes."""
    try:
        plan = _planned(select, lookup, reducers)
    except SqlError as refused:
        return plan_whole(select, lookup, reducers, _shown(lookup), refused)
    if plan.growth.comes and not plan.bounds and select.emit is not None:
        raise select.error(
            "EMIT_WITHOUT_WINDOW",
            "EMIT CHANGES is about answers that change, and all of this query stay",
            start=select.emit.start,
            hint="leave it out, or add WINDOW = INTERVAL … after FROM",
        )
    return _standing(plan)


def plan_view(select: Select, lookup: Lookup, reducers: Registered) -> StandingPlan:
    """What keeps the answer of a SELECT up to date."""
    try:
        plan = _planned(select, lookup, reducers)
    except SqlError as refused:
        return plan_whole(select, lookup, reducers, _shown(lookup), refused)
    accepted = select.bounding is not None and select.bounding.accepts
    if plan.growth.stream is not None and not accepted:
        raise select.error(
            "STATE_UNBOUNDED",
            f'the view keeps its rows, and stream "{plan.growth.stream}" has no end',
            select.tree,
            hint="end the query with EXPIRE AFTER INTERVAL 1 DAY, if rows count for so long, or ACCEPT UNBOUNDED; "
            "for rows that stay as they are write CREATE STREAM … AS SELECT …",
        )
    return _standing(plan)


def _tables(lookup: Lookup) -> Tables:
    """The columns of tables and views, by what is known of their changes."""

    def rows_of(name: str) -> TableColumns | None:
        try:
            changes = lookup(changes_name(name))
        except CatalogError:
            return None
        if not changes.key or changes.changes_by is not None:
            return None
        shown = [field for field in changes.arrow if field.name not in (*RESERVED, NUMBER)]
        return TableColumns(pa.schema(shown), () if NUMBER in changes.key else changes.key)

    return rows_of


def _shown(lookup: Lookup) -> Callable[[str], StreamSchema | None]:
    """The same as a SELECT that is asked once reads them."""
    tables = _tables(lookup)

    def shown(name: str) -> StreamSchema | None:
        columns = tables(name)
        return None if columns is None else StreamSchema(columns.schema, columns.schema.names[0])

    return shown


def _planned(select: Select, lookup: Lookup, reducers: Registered) -> TreePlan:
    plan = plan_tree(select, lookup, reducers, _tables(lookup))
    for name in plan.columns:
        if name.lower() in (*RESERVED, NUMBER):
            raise select.error(
                "COLUMN_RESERVED",
                f'column "{name}" is kept for the changes of the answer',
                select.tree,
                hint="name the columns that are wanted, and give this one another name with AS",
            )
    return plan


def _standing(plan: TreePlan) -> StandingPlan:
    tree = Tree(nodes_to_text(plan.nodes), plan.columns, plan.key, is_one_row=plan.is_one_row, bounds=plan.bounds)
    schema = StreamSchema(answer_schema(plan.types, plan.columns, numbered=not plan.key), tree.time)
    return StandingPlan(tree, None, schema, tree.time)
