"""A tree whose changing parts are all windows that end together, as what it answers for each of them.

Every node carries the end of the window as a column: only rows of one window are joined, grouped, ranked or compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from anabranch.operators import operator_from_json
from anabranch.operators.tree.changes import Changes
from anabranch.operators.tree.final import AT
from anabranch.operators.tree.nodes import (
    Aggregate,
    Expire,
    Join,
    Node,
    Part,
    Ranked,
    Rows,
    SetOperation,
    Top,
    Union,
    Unnest,
)
from anabranch.operators.tree.steps import step_of

_OTHER, _OF_ANY = "answered at, right", "answered at, any"


def slide_of_windows(nodes: Sequence[Node]) -> tuple[int | None, str]:
    """How often (µs) the windows end that a tree is about; None: it is about something else as well, in words."""
    slides: set[int] = set()
    for number, node in enumerate(nodes):
        if isinstance(node, Part):
            windows = operator_from_json(node.operator).answers_of_windows
            if windows is None or not all(expires.after == windows[0] - 1 for expires in _expiring(nodes, number)):
                return None, "answers that have no window of time, or count for longer than it"
            slides.add(windows[0])
        elif not node.reads:
            form = getattr(node, "form", "rows")
            return None, "rows of a stream that no window holds" if form == "rows" else "a table"
    if len(slides) != 1:
        return None, "windows that do not end together"
    return slides.pop(), ""


def _expiring(nodes: Sequence[Node], number: int) -> list[Expire]:
    """Where the answers of a part go again."""
    found: list[Expire] = []
    for place, node in enumerate(nodes):
        if number in node.reads:
            found += [node] if isinstance(node, Expire) else _expiring(nodes, place)
    return found


def by_window(nodes: Sequence[Node], schemas: Sequence[pa.Schema]) -> tuple[Node, ...]:
    """The nodes of such a tree, the last of which has the end of the window as its last column."""
    made = _Made(schemas)
    for node, schema in zip(nodes, schemas, strict=True):
        made.of.append(made.carrying(node, schema.names))
    return tuple(made.nodes)


def ends_of(nodes: Sequence[Node], schemas: Sequence[pa.Schema]) -> frozenset[str]:
    """The columns of the answer that are the end of the window in any case."""
    known: list[frozenset[str]] = []
    for node, schema in zip(nodes, schemas, strict=True):
        known.append(_ends(node, schema, known, schemas))
    return known[-1]


def _ends(
    node: Node, schema: pa.Schema, known: Sequence[frozenset[str]], schemas: Sequence[pa.Schema]
) -> frozenset[str]:
    if isinstance(node, Part):
        time = operator_from_json(node.operator).time
        return frozenset(name for name, column in node.columns if column == time)
    if isinstance(node, Rows):
        return frozenset(name for name, value in node.columns if value.strip("`") in known[node.input])
    if isinstance(node, Join):
        left = known[node.left] if node.join not in ("right", "full") else frozenset()
        return left | (known[node.right] if node.join in ("inner", "right") else frozenset())
    if isinstance(node, Union | SetOperation):
        places = [{schemas[read].get_field_index(name) for name in known[read]} for read in node.reads]
        return frozenset(schema.names[place] for place in set.intersection(*places))
    return frozenset(name for read in node.reads for name in known[read] if name in schema.names)


@dataclass
class _Made:
    """The nodes that are made with their columns, and in `of`, for each of those before, what stands in its place."""

    schemas: Sequence[pa.Schema]
    nodes: list[Node] = field(default_factory=list)
    names: list[tuple[str, ...]] = field(default_factory=list)
    of: list[int] = field(default_factory=list)
    parts: list[int] = field(default_factory=list)

    def carrying(self, node: Node, names: Sequence[str]) -> int:
        """A node with the end of the window as its last column."""
        whole = (*names, AT)
        if isinstance(node, Part):
            time = operator_from_json(node.operator).time
            self.parts.append(self._add(Part(node.operator, (*node.columns, (AT, time))), whole))
            return self.parts[-1]
        if isinstance(node, Expire):
            return self.of[node.input]
        if isinstance(node, Rows):
            return self._add(Rows(self.of[node.input], (*node.columns, (AT, _said(AT))), node.where), whole)
        if isinstance(node, Join):
            return self._join(node, names)
        if isinstance(node, Unnest):
            return self._shown(self._add(replace(node, input=self.of[node.input]), whole), names)
        if isinstance(node, Aggregate):
            grouped = Aggregate(self.of[node.input], (*node.keys, AT), node.calls)
            number = self._add(grouped, (*node.keys, AT, *(call.name for call in node.calls)))
            return self._shown(number, names) if node.keys else self._of_each_window(node, number)
        if isinstance(node, Union):
            return self._add(Union(tuple(self.of[read] for read in node.inputs)), whole)
        if isinstance(node, SetOperation):
            return self._add(replace(node, left=self.of[node.left], right=self.of[node.right]), whole)
        assert isinstance(node, Top | Ranked), f"{node.kind} is about no window"
        of_window = replace(node, input=self.of[node.input], partition=(*node.partition, AT))
        calls = node.calls if isinstance(node, Ranked) else ()
        number = self._add(of_window, (*self.names[of_window.input], *(call.name for call in calls)))
        return self._shown(number, names) if calls else number

    def _add(self, node: Node, names: Sequence[str]) -> int:
        self.nodes.append(node)
        self.names.append(tuple(names))
        return len(self.nodes) - 1

    def _shown(self, number: int, names: Sequence[str], end: str | None = None) -> int:
        """Some columns of a node, and the end of the window behind them."""
        columns = tuple((name, _said(name)) for name in names)
        return self._add(Rows(number, (*columns, (AT, end or _said(AT)))), (*names, AT))

    def _with_end(self, number: int, end: str) -> int:
        """A node with another name for the end of the window, so that it can be joined."""
        names = [end if name == AT else name for name in self.names[number]]
        columns = zip(names, map(_said, self.names[number]), strict=True)
        return self._add(Rows(number, tuple(columns)), names)

    def _join(self, node: Join, names: Sequence[str]) -> int:
        left, right = self.of[node.left], self._with_end(self.of[node.right], _OTHER)
        joined = Join(left, right, node.join, (*node.keys, (AT, _OTHER)), node.condition)
        if node.join in ("semi", "anti", "not_in"):
            return self._add(joined, self.names[left])
        number = self._add(joined, (*self.names[left], *self.names[right]))
        ends = {"right": _said(_OTHER), "full": f"coalesce({_said(AT)}, {_said(_OTHER)})"}
        return self._shown(number, names, ends.get(node.join))

    def _of_each_window(self, node: Aggregate, grouped: int) -> int:
        """An aggregate of everything has a row for a window in which there is nothing of it."""
        ends = [self._add(Rows(part, ((_OF_ANY, _said(AT)),)), (_OF_ANY,)) for part in self.parts]
        every = self._add(Aggregate(self._add(Union(tuple(ends)), (_OF_ANY,)), (_OF_ANY,)), (_OF_ANY,))
        joined = Join(every, grouped, "left", ((_OF_ANY, AT),))
        number = self._add(joined, (_OF_ANY, *self.names[grouped]))
        nothing = self._of_nothing(node)
        columns = [
            (call.name, _said(call.name) if nothing[call.name] is None else _or(call.name, nothing[call.name]))
            for call in node.calls
        ]
        names = [name for name, _ in columns]
        return self._add(Rows(number, (*columns, (AT, _said(_OF_ANY)))), (*names, AT))

    def _of_nothing(self, node: Aggregate) -> dict[str, int | None]:
        """What an aggregate of everything says of no rows: NULL, or a count."""
        schema = self.schemas[node.input]
        row: dict[str, int | None] = step_of(node, [schema], [True]).take([Changes.none(schema)], 0).rows.to_pylist()[0]
        return row


def _said(name: str) -> str:
    return f"`{name}`"


def _or(name: str, otherwise: int | None) -> str:
    assert isinstance(otherwise, int), f"{name} of no rows is {otherwise}"
    return f"coalesce({_said(name)}, {otherwise})"
