"""Any SELECT as a standing query whose answer is what changes."""

from __future__ import annotations

import pyarrow as pa

from anabranch.errors import CatalogError
from anabranch.log.stream import changes_name
from anabranch.operators.tree.answer import answer_schema
from anabranch.operators.tree.nodes import nodes_to_text
from anabranch.operators.tree.operator import Tree
from anabranch.schema import StreamSchema
from anabranch.sql.reading.reduce_by import Registered
from anabranch.sql.standing.sources import Lookup
from anabranch.sql.standing.standing_plan import StandingPlan
from anabranch.sql.tree import Select
from anabranch.sql.trees.context import TableColumns
from anabranch.sql.trees.plan import plan_tree
from anabranch.tables.declaration import NUMBER, RESERVED


def is_of_changes(select: Select) -> bool:
    """True if what changes of an answer is asked for that is not one of windows."""
    windowed = select.window is not None or bool(select.pairs) or select.merge is not None
    asked = (select.emit is not None and select.emit.changes) or select.bounding is not None
    return asked and not windowed


def plan_changes(select: Select, lookup: Lookup, reducers: Registered) -> StandingPlan:
    """What keeps the answer of a SELECT up to date."""

    def rows_of(name: str) -> TableColumns | None:
        try:
            changes = lookup(changes_name(name))
        except CatalogError:
            return None
        if not changes.key:
            return None
        shown = [field for field in changes.arrow if field.name not in (*RESERVED, NUMBER)]
        return TableColumns(pa.schema(shown), () if NUMBER in changes.key else changes.key)

    plan = plan_tree(select, lookup, reducers, rows_of)
    for name in plan.columns:
        if name.lower() in (*RESERVED, NUMBER):
            raise select.error(
                "COLUMN_RESERVED",
                f'column "{name}" is kept for the changes of the answer',
                select.tree,
                hint="give it another name with AS",
            )
    tree = Tree(nodes_to_text(plan.nodes), plan.columns, plan.key, bounds=plan.bounds)
    schema = StreamSchema(answer_schema(plan.types, plan.columns, numbered=not plan.key), tree.time)
    return StandingPlan(tree, None, schema, tree.time)
