"""Conditions moved down to where they leave fewer rows: through joins, groups, unions and whatever else lets them pass.

A condition goes through a node if it is about columns that come as they are from below, and dropping a row there drops
just what the row would have become. What is read by several nodes stays as it is.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pyarrow as pa
from sqlglot import exp

from anabranch import expressions
from anabranch.errors import AnabranchError
from anabranch.expressions import NotEvaluable
from anabranch.operators.tree.nodes import Aggregate, Expire, Latest, Ranked, SetOperation, Top, Union, Unnest
from anabranch.sql.standing.columns import column, sql_of
from anabranch.sql.trees.draft import Draft, DraftJoin, DraftRows, Place, as_they_are, names_of
from anabranch.sql.trees.graph import Graph, moved, nested

Conditions = tuple[exp.Expr, ...]


def pushed(graph: Graph) -> Graph:
    """The same tree with its conditions as far down as they go."""
    pusher = _Pusher(graph)
    last = pusher.put(len(graph.nodes) - 1, ())
    return pusher.made.up_to(last)


@dataclass
class _Pusher:
    graph: Graph
    made: Graph = field(default_factory=lambda: Graph([], [], []))
    known: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.readers = self.graph.readers()

    def put(self, number: int, conditions: Conditions) -> int:
        """The node with those of its rows for which conditions hold."""
        if self.readers[number] > 1:
            if number not in self.known:
                self.known[number] = self._put(number, ())
            return self._filtered(self.known[number], conditions, Place("WHERE"))
        return self._put(number, conditions)

    def _put(self, number: int, conditions: Conditions) -> int:
        node, schema, place = self.graph.nodes[number], self.graph.schemas[number], self.graph.places[number]
        passing: dict[int, Conditions] = {}
        rest: list[exp.Expr] = []
        if isinstance(node, DraftRows):
            below, rest = self._below_rows(node, conditions)
            passing = {node.input: (*node.where, *below)}
            node = replace(node, where=())
        else:
            for condition in conditions:
                through = self._through(node, schema, condition)
                for side, moved_down in through.items():
                    passing[side] = (*passing.get(side, ()), moved_down)
                if not through:
                    rest.append(condition)
        places = {read: self.put(read, passing.get(read, ())) for read in node.reads}
        made = self.made.add(moved(node, places), schema, place)
        return self._filtered(made, tuple(rest), Place("WHERE"))

    def _filtered(self, node: int, conditions: Conditions, place: Place) -> int:
        if not conditions:
            return node
        schema = self.made.schemas[node]
        return self.made.add(DraftRows(node, as_they_are(schema.names), conditions), schema, place)

    def _below_rows(self, node: DraftRows, conditions: Conditions) -> tuple[Conditions, list[exp.Expr]]:
        """Conditions over what Rows read; those that would mean something else there stay above."""
        values = dict(node.columns)
        below: list[exp.Expr] = []
        rest: list[exp.Expr] = []
        for condition in conditions:
            names = names_of(condition)
            over = condition.copy().transform(
                lambda inner: nested(values[inner.name]) if isinstance(inner, exp.Column) else inner
            )
            plain = all(names_of(values[name]) for name in names)
            is_same = plain and _is_condition(over, self.graph.schemas[node.input])
            (below if is_same else rest).append(over if is_same else condition)
        return tuple(below), rest

    def _through(self, node: Draft, schema: pa.Schema, condition: exp.Expr) -> dict[int, exp.Expr]:
        """What a condition is on each of the sides that it goes down to; nothing if it goes to none."""
        names = names_of(condition)
        if not names:
            return {}
        if isinstance(node, DraftJoin):
            left = set(self.graph.schemas[node.left].names)
            right = set(self.graph.schemas[node.right].names)
            if names <= left and node.join in ("inner", "left", "semi", "anti", "not_in"):
                return {node.left: condition}
            return {node.right: condition} if names <= right and node.join in ("inner", "right") else {}
        if isinstance(node, Aggregate):
            # Where groups are forgotten, other rows that come say which.
            return {node.input: condition} if names <= set(node.keys) and node.keep is None else {}
        if isinstance(node, Unnest):
            return {} if names & {node.element, node.place} else {node.input: condition}
        if isinstance(node, Latest):
            return {node.input: condition} if names <= set(node.key) else {}
        if isinstance(node, Top | Ranked):
            return {node.input: condition} if names <= set(node.partition) else {}
        if isinstance(node, Expire):
            return {node.input: condition}
        if isinstance(node, Union | SetOperation) and len(set(node.reads)) == len(node.reads):
            return {side: self._on_side(schema, side, condition) for side in node.reads}
        return {}

    def _on_side(self, schema: pa.Schema, side: int, condition: exp.Expr) -> exp.Expr:
        names = dict(zip(schema.names, self.graph.schemas[side].names, strict=True))
        return condition.copy().transform(
            lambda inner: column(names[inner.name]) if isinstance(inner, exp.Column) else inner
        )


def _is_condition(value: exp.Expr, schema: pa.Schema) -> bool:
    try:
        return bool(pa.types.is_boolean(expressions.compile(sql_of(value), schema).type))
    except (NotEvaluable, AnabranchError):
        return False
