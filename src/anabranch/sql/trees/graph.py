"""The nodes of a tree while it is made smaller, each with its columns and its place."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

import pyarrow as pa
from sqlglot import exp

from anabranch.operators.tree.nodes import Aggregate, Expire, Latest, Part, Ranked, SetOperation, Top, Union, Unnest
from anabranch.sql.trees.draft import Draft, DraftJoin, DraftRows, Drafts, Place


@dataclass
class Graph:
    """Nodes, their columns, and their places; the last is the answer."""

    nodes: list[Draft]
    schemas: list[pa.Schema]
    places: list[Place]

    @staticmethod
    def of(drafts: Drafts, last: int) -> Graph:
        graph = Graph(list(drafts.nodes), list(drafts.schemas), list(drafts.places))
        return graph.up_to(last)

    def up_to(self, last: int) -> Graph:
        """What the node `last` is made of, each thing once."""
        wanted = {last}
        for number in range(last, -1, -1):
            if number in wanted:
                wanted.update(self.nodes[number].reads)
        made = Graph([], [], [])
        places: dict[int, int] = {}
        for number in sorted(wanted):
            places[number] = made.add(moved(self.nodes[number], places), self.schemas[number], self.places[number])
        return made

    def add(self, node: Draft, schema: pa.Schema, place: Place) -> int:
        for number, known in enumerate(self.nodes):
            if known == node and not isinstance(node, Part):
                return number
        self.nodes.append(node)
        self.schemas.append(schema)
        self.places.append(place)
        return len(self.nodes) - 1

    def readers(self) -> Counter[int]:
        return Counter(read for node in self.nodes for read in node.reads)


def moved(node: Draft, places: dict[int, int]) -> Draft:
    """A node that reads others."""
    if isinstance(node, DraftRows | Aggregate | Top | Ranked | Expire | Latest | Unnest):
        return replace(node, input=places[node.input])
    if isinstance(node, DraftJoin | SetOperation):
        return replace(node, left=places[node.left], right=places[node.right])
    if isinstance(node, Union):
        return replace(node, inputs=tuple(places[number] for number in node.inputs))
    return node


def nested(value: exp.Expr) -> exp.Expr:
    """A copy that can stand inside another expression."""
    return value.copy() if isinstance(value, exp.Column) else exp.Paren(this=value.copy())
