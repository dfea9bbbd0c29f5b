"""A tree all of whose rows stay, with the time at which each of them is known.

Every node carries the time of the row that has completed its row, and where only one stream is read, its number. What
two rows make together is known with the later one; what is the same as others with the first of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from anabranch.operators import operator_from_json
from anabranch.operators.tree.entering import ROW
from anabranch.operators.tree.final import AT
from anabranch.operators.tree.nodes import Aggregate, Call, Join, Node, Part, Rows, Source, Union, Unnest

_OTHER = {AT: "answered at, right", ROW: "row number, right"}


def stamped(
    nodes: Sequence[Node], schemas: Sequence[pa.Schema], time_of: Callable[[str], str]
) -> tuple[tuple[Node, ...], tuple[int, ...]]:
    """The nodes of such a tree, and of each of those before the number of the one that keeps what it kept.

    `time_of` are the time columns of streams.
    """
    made = _Made(time_of, _own(nodes))
    for node, schema in zip(nodes, schemas, strict=True):
        made.of.append(made.carrying(node, schema.names))
    return tuple(made.nodes), tuple(made.keeping)


def times_of(nodes: Sequence[Node], schemas: Sequence[pa.Schema], time_of: Callable[[str], str]) -> frozenset[str]:
    """The columns of the answer that are the time at which its rows are known in any case."""
    known: list[frozenset[str]] = []
    for node, schema in zip(nodes, schemas, strict=True):
        known.append(_times(node, schema, known, schemas, time_of))
    return known[-1]


def _times(
    node: Node,
    schema: pa.Schema,
    known: Sequence[frozenset[str]],
    schemas: Sequence[pa.Schema],
    time_of: Callable[[str], str],
) -> frozenset[str]:
    if isinstance(node, Source | Part):
        time = time_of(node.stream) if isinstance(node, Source) else operator_from_json(node.operator).time
        return frozenset(name for name, column in node.columns if column == time)
    if isinstance(node, Rows):
        return frozenset(name for name, value in node.columns if value.strip("`") in known[node.input])
    if isinstance(node, Union):
        places = [{schemas[read].get_field_index(name) for name in known[read]} for read in node.reads]
        return frozenset(schema.names[place] for place in set.intersection(*places))
    if isinstance(node, Unnest):
        return known[node.input]
    if isinstance(node, Aggregate):
        return known[node.input] & frozenset(node.keys)
    return frozenset()


def _own(nodes: Sequence[Node]) -> tuple[str, ...]:
    """What says which row is which: of one stream also the numbers of its rows."""
    leaves = [node for node in nodes if not node.reads]
    one = len({node.stream for node in leaves if isinstance(node, Source)}) == 1
    return (AT, ROW) if one and all(isinstance(node, Source) for node in leaves) else (AT,)


@dataclass
class _Made:
    """The nodes that are made, with their columns; `marks` are the columns that are carried besides."""

    time_of: Callable[[str], str]
    marks: tuple[str, ...]
    nodes: list[Node] = field(default_factory=list)
    names: list[tuple[str, ...]] = field(default_factory=list)
    of: list[int] = field(default_factory=list)
    keeping: list[int] = field(default_factory=list)

    def carrying(self, node: Node, names: Sequence[str]) -> int:
        whole = (*names, *self.marks)
        if isinstance(node, Source):
            marks = dict(zip(self.marks, (self.time_of(node.stream), ROW), strict=False))
            return self._kept(self._add(replace(node, columns=(*node.columns, *marks.items())), whole))
        if isinstance(node, Part):
            time = operator_from_json(node.operator).time
            return self._kept(self._add(Part(node.operator, (*node.columns, (AT, time))), whole))
        if isinstance(node, Rows):
            carried = tuple((mark, _said(mark)) for mark in self.marks)
            return self._kept(self._add(Rows(self.of[node.input], (*node.columns, *carried), node.where), whole))
        if isinstance(node, Union):
            return self._kept(self._add(Union(tuple(self.of[read] for read in node.inputs)), whole))
        if isinstance(node, Unnest):
            elements = self._add(replace(node, input=self.of[node.input]), whole)
            return self._kept(self._add(Rows(elements, tuple((name, _said(name)) for name in whole)), whole))
        if isinstance(node, Aggregate):
            assert not node.calls, "a group changes"
            return self._kept(self._first_of_each(self.of[node.input], node.keys))
        assert isinstance(node, Join), f"what a {node.kind} answers may go"
        return self._join(node, names)

    def _join(self, node: Join, names: Sequence[str]) -> int:
        left, right = self.of[node.left], self.of[node.right]
        if node.join == "semi":  # a row is known with the first that it meets
            right = self._first_of_each(right, tuple(dict.fromkeys(theirs for _, theirs in node.keys)))
        renamed = [_OTHER.get(name, name) for name in self.names[right]]
        columns = tuple(zip(renamed, map(_said, self.names[right]), strict=True))
        right = self._add(Rows(right, columns), renamed)
        joined = Join(left, right, "inner", node.keys, node.condition)
        number = self._kept(self._add(joined, (*self.names[left], *renamed)))
        later = tuple((mark, f"greatest({_said(mark)}, {_said(_OTHER[mark])})") for mark in self.marks)
        shown = tuple((name, _said(name)) for name in names)
        return self._add(Rows(number, (*shown, *later)), (*names, *self.marks))

    def _first_of_each(self, number: int, keys: tuple[str, ...]) -> int:
        calls = tuple(Call(mark, "min", (mark,)) for mark in self.marks)
        return self._add(Aggregate(number, keys, calls), (*keys, *self.marks))

    def _add(self, node: Node, names: Sequence[str]) -> int:
        self.nodes.append(node)
        self.names.append(tuple(names))
        return len(self.nodes) - 1

    def _kept(self, number: int) -> int:
        self.keeping.append(number)
        return number


def _said(name: str) -> str:
    return f"`{name}`"
