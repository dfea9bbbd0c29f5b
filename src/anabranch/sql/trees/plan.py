"""Any SELECT as a tree of nodes: the plan of a question whose answer is kept while what it reads changes.

How it goes: names are looked up and subqueries become joins (`block` and what it reads), the nodes of the parts are
put together as `draft` nodes, these are made fewer (`simplify`), it is seen what bounds what each of them keeps
(`bounds`), and then they are plain data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from anabranch.operators import operator_from_json
from anabranch.operators.tree.explain import explain_tree
from anabranch.operators.tree.nodes import Join, Node, Part, Rows, Source
from anabranch.sql.checking.archive_clauses import refuse_archives
from anabranch.sql.checking.safety import check_tree, too_large
from anabranch.sql.reading.reduce_by import NONE_REGISTERED, Registered
from anabranch.sql.standing.columns import column, joined, sql_of
from anabranch.sql.standing.sources import Lookup
from anabranch.sql.tree import Select
from anabranch.sql.trees.answer_columns import refuse_same_names, refuse_types
from anabranch.sql.trees.bounds import Growth, bounds_of
from anabranch.sql.trees.context import Context, Tables
from anabranch.sql.trees.draft import Draft, DraftJoin, DraftRows, Place
from anabranch.sql.trees.graph import Graph
from anabranch.sql.trees.kept_groups import check_kept_groups
from anabranch.sql.trees.query import plan_query
from anabranch.sql.trees.simplify import simplified
from anabranch.sql.trees.unique import uniques


@dataclass(frozen=True)
class TreePlan:
    """The nodes, the last of which is the answer, with its columns.

    `key`: columns of the answer that are together different in all its rows, () if none are known. `bounds`: for each
    node that keeps something, by its number, what bounds that, in words. `notes`: what was written and says nothing.
    """

    nodes: tuple[Node, ...]
    schemas: tuple[pa.Schema, ...]
    columns: tuple[str, ...]
    key: tuple[str, ...]
    inputs: tuple[str, ...]
    bounds: tuple[tuple[int, str], ...]
    growth: Growth
    """How the answer grows."""
    is_one_row: bool = False
    """Whether the answer has one row at most."""
    notes: tuple[str, ...] = ()

    @property
    def types(self) -> pa.Schema:
        """The columns of the answer, as the last node calls them."""
        return self.schemas[-1]

    def explain(self) -> str:
        """The nodes from the answer down."""
        return explain_tree(self.nodes, dict(self.bounds))


def plan_tree(
    select: Select, lookup: Lookup, reducers: Registered = NONE_REGISTERED, tables: Tables = lambda name: None
) -> TreePlan:
    """The tree of a query over streams, and over the tables and views that `tables` knows; or a refusal."""
    try:
        return _plan(select, lookup, reducers, tables)
    except RecursionError:
        raise too_large(select) from None


def _plan(select: Select, lookup: Lookup, reducers: Registered, tables: Tables) -> TreePlan:
    check_tree(select, standing=True, qualify=True)
    refuse_archives(select)
    if select.emit is not None and not select.emit.changes:
        raise select.error(
            "NOT_IN_THE_LANGUAGE",
            f"EMIT {select.emit.kind} is for answers of windows",
            start=select.emit.start,
            hint="leave it out: an answer that is kept is always there",
        )
    context = Context(select, lookup, tables, reducers, plan_query)
    relation = context.query(context, select.tree, {})
    names = [field.name for field in relation.fields]
    refuse_same_names(select, names)
    values = [(name, column(field.column)) for name, field in zip(names, relation.fields, strict=True)]
    last = context.named(relation.node, values, Place("the answer"))
    graph = simplified(context.drafts, last)
    refuse_types(select, graph.schemas[-1])
    check_kept_groups(select, graph)
    bounds, growth = bounds_of(select, graph.nodes, graph.schemas, graph.places)
    key = _key(context, graph)
    return TreePlan(
        nodes=tuple(map(_finished, graph.nodes)),
        schemas=tuple(graph.schemas),
        columns=tuple(names),
        key=() if key is None else key,
        inputs=_inputs(graph.nodes),
        bounds=bounds,
        growth=growth,
        is_one_row=key == (),
        notes=tuple(context.notes),
    )


def _key(context: Context, graph: Graph) -> tuple[str, ...] | None:
    """The fewest columns of the answer that tell its rows apart, none for an answer of one row; None if none do."""
    found = uniques(graph.nodes, [schema.names for schema in graph.schemas], context.keys)[-1]
    if not found:
        return None
    best = min(found, key=lambda one: (len(one), sorted(one)))
    return tuple(name for name in graph.schemas[-1].names if name in best)


def _inputs(nodes: Sequence[Draft]) -> tuple[str, ...]:
    """The streams that are read, each once."""
    streams: list[str] = []
    for node in nodes:
        if isinstance(node, Source):
            streams.append(node.stream)
        elif isinstance(node, Part):
            streams += operator_from_json(node.operator).inputs
    return tuple(
        {name.lower(): name for name in reversed(streams)}[key] for key in dict.fromkeys(s.lower() for s in streams)
    )


def _finished(node: Draft) -> Node:
    """A node as plain data."""
    if isinstance(node, DraftRows):
        return Rows(node.input, tuple((name, sql_of(value)) for name, value in node.columns), _condition(node.where))
    if isinstance(node, DraftJoin):
        return Join(node.left, node.right, node.join, node.keys, _condition(node.condition))
    return node


def _condition(parts: Sequence[exp.Expr]) -> str | None:
    whole = joined(list(parts))
    return None if whole is None else sql_of(whole)
