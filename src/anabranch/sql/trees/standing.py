"""Any SELECT as a standing query: final where it can be, else what changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from anabranch.errors import SqlError
from anabranch.operators import operator_from_json
from anabranch.operators.tree.answer import answer_schema
from anabranch.operators.tree.nodes import Part, Source, nodes_to_text
from anabranch.operators.tree.operator import Tree
from anabranch.schema import StreamSchema
from anabranch.sql.reading.hints import refuse_hints
from anabranch.sql.reading.reduce_by import Registered
from anabranch.sql.standing.sources import IN_WINDOWS, Lookup
from anabranch.sql.standing.standing_plan import StandingPlan
from anabranch.sql.tree import Select
from anabranch.sql.trees.answer_columns import refuse_reserved_names
from anabranch.sql.trees.by_window import slide_of_windows
from anabranch.sql.trees.final import plan_of_rows, plan_of_windows
from anabranch.sql.trees.plan import TreePlan, plan_tree
from anabranch.sql.trees.tables import tables_of
from anabranch.sql.trees.whole import plan_whole


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


def plan_composed(select: Select, lookup: Lookup, reducers: Registered) -> StandingPlan:
    """What is final of the answer of a SELECT, if all of it is, else how it changes."""
    kind = None if select.emit is None else select.emit.kind
    refuse_hints(select, "the query has no window")
    if kind == "IN ORDER":
        raise _refused(select, "EMIT IN ORDER is for joins with windows, and this query is none",
                       "leave it out: what is final is in order of time")  # fmt: skip
    alone = replace(select, emit=None)
    try:
        plan = plan_tree(alone, lookup, reducers, tables_of(lookup))
    except SqlError as refused:
        if kind is not None:
            raise
        return plan_whole(alone, lookup, reducers, _shown(lookup), refused)
    if plan.growth.comes:
        if kind == "EVERY":
            raise _refused(select, "EMIT EVERY is about answers that change, and all of this query stay",
                           "leave it out")  # fmt: skip
        _refuse_order(select)
        return plan_of_rows(select, plan, lookup)
    slide, about = slide_of_windows(plan.nodes)
    if slide is not None and kind in (None, "FINAL"):
        return plan_of_windows(select, plan)
    if kind == "FINAL":
        raise _refused(select, "no answer of this query is final: it is about " + about,
                       "write EMIT CHANGES, or give each subquery that reads a stream the same WINDOW = …")  # fmt: skip
    refuse_reserved_names(select, plan.columns)
    if kind == "EVERY":
        return _standing(plan, _every(select, plan))
    return _standing(plan)


def _every(select: Select, plan: TreePlan) -> int:
    """How often it is answered what has changed, in the time of streams."""
    table = next((node.stream for node in plan.nodes if isinstance(node, Source) and node.form != "rows"), None)
    if table is not None:
        name = table.removesuffix(".changes")
        raise _refused(select, f'EMIT EVERY is in the time of streams, and changes of "{name}" have none',
                       "write EMIT CHANGES")  # fmt: skip
    if any(
        isinstance(node, Part) and operator_from_json(node.operator).answers_of_windows is None for node in plan.nodes
    ):
        raise _refused(select, "EMIT EVERY cannot be about answers that have no window of time", "write EMIT CHANGES")
    assert select.every is not None
    return select.every


def _refuse_order(select: Select) -> None:
    order = select.tree.args.get("order")
    if order is not None and not select.tree.args.get("limit"):
        why, instead = IN_WINDOWS["order"]
        raise select.error("NOT_IN_THE_LANGUAGE", why, order, hint=instead, keyword="ORDER")


def _refused(select: Select, message: str, hint: str) -> SqlError:
    start = None if select.emit is None else select.emit.start
    return select.error("NOT_IN_THE_LANGUAGE", message, start=start, hint=hint)


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


def _shown(lookup: Lookup) -> Callable[[str], StreamSchema | None]:
    """The same as a SELECT that is asked once reads them."""
    tables = tables_of(lookup)

    def shown(name: str) -> StreamSchema | None:
        columns = tables(name)
        return None if columns is None else StreamSchema(columns.schema, columns.schema.names[0])

    return shown


def _planned(select: Select, lookup: Lookup, reducers: Registered) -> TreePlan:
    plan = plan_tree(select, lookup, reducers, tables_of(lookup))
    refuse_reserved_names(select, plan.columns)
    return plan


def _standing(plan: TreePlan, every: int | None = None) -> StandingPlan:
    nodes = nodes_to_text(plan.nodes)
    tree = Tree(nodes, plan.columns, plan.key, is_one_row=plan.is_one_row, bounds=plan.bounds, every=every)
    schema = StreamSchema(answer_schema(plan.types, plan.columns, numbered=not plan.key), tree.time)
    return StandingPlan(tree, None, schema, tree.time)
