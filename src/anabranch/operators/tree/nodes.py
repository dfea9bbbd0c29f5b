"""The nodes of a tree: plain data that says what is computed. What a node does with changes is in `steps`.

A tree is a tuple of nodes in which each reads others before it, by their numbers, so that what two of them read is
computed once. The columns of a node have names that differ, and expressions are SQL over the names of what it reads.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

JoinKind = Literal["inner", "left", "right", "full", "semi", "anti", "not_in"]


@dataclass(frozen=True)
class Node:
    """Base of all nodes."""

    kind: ClassVar[str]

    @property
    def reads(self) -> tuple[int, ...]:
        """The numbers of the nodes it reads."""
        return ()


@dataclass(frozen=True)
class Source(Node):
    """Rows of a stream. `columns` are (name here, column of the stream).

    `form`: "rows" come and stay; "changes" are the log of a table's or view's changes, where `_change` says what
    becomes of a row; "feed" are the rows of a change feed as they come, of which `Latest` makes a table. The time of
    such a table says nothing of that of streams, as a table's does not.
    """

    kind: ClassVar[str] = "source"
    stream: str
    columns: tuple[tuple[str, str], ...]
    form: Literal["rows", "changes", "feed"] = "rows"


@dataclass(frozen=True)
class Part(Node):
    """The answers of an operator as JSON, such as a windowed aggregate: rows that come and stay."""

    kind: ClassVar[str] = "part"
    operator: dict[str, Any]
    columns: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Rows(Node):
    """The rows for which `where` is true, as `columns`, (name, SQL)."""

    kind: ClassVar[str] = "rows"
    input: int
    columns: tuple[tuple[str, str], ...]
    where: str | None = None

    @property
    def reads(self) -> tuple[int, ...]:
        return (self.input,)


@dataclass(frozen=True)
class Join(Node):
    """Pairs of rows with equal keys (NULL equals nothing) for which `condition`, SQL over both, is true.

    The columns are those of the left and then those of the right, of `semi`, `anti` and `not_in` only the left ones.
    `left`, `right` and `full` also have the rows that meet none, with NULLs. `semi`: rows of the left that meet any;
    `anti`: those that meet none; `not_in`: like anti, where a comparison of keys that is neither true nor false counts
    as met (SQL's NOT IN with its NULLs). Without keys every row meets every other.
    """

    kind: ClassVar[str] = "join"
    left: int
    right: int
    join: JoinKind
    keys: tuple[tuple[str, str], ...]
    condition: str | None = None

    @property
    def reads(self) -> tuple[int, ...]:
        return (self.left, self.right)


@dataclass(frozen=True)
class Call:
    """An aggregate or window function: `name` of its column, the function, and the columns it is about.

    `distinct`: of the different values. `filter` is a BOOLEAN column: only rows where it is true count.
    """

    name: str
    function: str
    arguments: tuple[str, ...] = ()
    distinct: bool = False
    filter: str | None = None
    options: tuple[tuple[str, Any], ...] = ()
    """What else is said, such as the constant of lag() or the frame of a running sum; see the step."""


@dataclass(frozen=True)
class Aggregate(Node):
    """A row for each group of rows with the same keys (NULL is a key): the keys, then what is called.

    Without keys there is one group, which is there even where no rows are. Without calls it is DISTINCT. Of the groups
    `keep` are there, those whose newest rows are newest; one that is forgotten begins anew with its next row. Then it
    reads a source of rows, or some rows of one, in the order of the stream.
    """

    kind: ClassVar[str] = "aggregate"
    input: int
    keys: tuple[str, ...]
    calls: tuple[Call, ...] = ()
    keep: int | None = None

    @property
    def reads(self) -> tuple[int, ...]:
        return (self.input,)


@dataclass(frozen=True)
class Union(Node):
    """All rows of all, by place (UNION ALL); columns are named as those of the first."""

    kind: ClassVar[str] = "union"
    inputs: tuple[int, ...]

    @property
    def reads(self) -> tuple[int, ...]:
        return self.inputs


@dataclass(frozen=True)
class SetOperation(Node):
    """INTERSECT or EXCEPT, with `all` as often as rows come; by place."""

    kind: ClassVar[str] = "set_operation"
    left: int
    right: int
    operation: Literal["intersect", "except"]
    all: bool = False

    @property
    def reads(self) -> tuple[int, ...]:
        return (self.left, self.right)


Order = tuple[tuple[str, bool, bool], ...]
"""(column, descending, NULLs first) for each; ties are broken by all columns, so that nothing is left to chance."""


@dataclass(frozen=True)
class Top(Node):
    """Of each part the rows from place `offset` on in an order, `limit` of them or all."""

    kind: ClassVar[str] = "top"
    input: int
    partition: tuple[str, ...]
    order: Order
    limit: int | None
    offset: int = 0

    @property
    def reads(self) -> tuple[int, ...]:
        return (self.input,)


@dataclass(frozen=True)
class Ranked(Node):
    """All rows, each with what window functions say of it among those of its part, in an order."""

    kind: ClassVar[str] = "ranked"
    input: int
    partition: tuple[str, ...]
    order: Order
    calls: tuple[Call, ...]

    @property
    def reads(self) -> tuple[int, ...]:
        return (self.input,)


@dataclass(frozen=True)
class Expire(Node):
    """Rows go once `column`, a time, is more than `after` (µs) older than the time that all streams have reached."""

    kind: ClassVar[str] = "expire"
    input: int
    column: str
    after: int

    @property
    def reads(self) -> tuple[int, ...]:
        return (self.input,)


@dataclass(frozen=True)
class Latest(Node):
    """The table that a change feed tells of: of each key what its last row says, if that is not that it goes.

    It reads a source, or some rows of one, in the order of the stream; `change` is the column that says what became of
    a row (`log.feed`), which the answer has no more.
    """

    kind: ClassVar[str] = "latest"
    input: int
    key: tuple[str, ...]
    change: str

    @property
    def reads(self) -> tuple[int, ...]:
        return (self.input,)


@dataclass(frozen=True)
class Unnest(Node):
    """Each row once for each element of its array, with the element and perhaps its place, from 0 on, behind it.

    `outer`: one whose array has none, or is NULL, stays with NULLs.
    """

    kind: ClassVar[str] = "unnest"
    input: int
    array: str
    element: str
    place: str | None = None
    outer: bool = False

    @property
    def reads(self) -> tuple[int, ...]:
        return (self.input,)


NODES: dict[str, type[Node]] = {
    node.kind: node
    for node in (Source, Part, Rows, Join, Aggregate, Union, SetOperation, Top, Ranked, Expire, Latest, Unnest)
}
"""Every kind of node there is."""


def nodes_to_text(nodes: tuple[Node, ...]) -> str:
    """Nodes as JSON, from which `nodes_from_text` makes the same ones.

    >>> tree = (Source("s", (("a", "a"),)), Aggregate(0, ("a",), (Call("n", "count"),)))
    >>> nodes_from_text(nodes_to_text(tree)) == tree
    True
    """
    return json.dumps([{"node": node.kind, **dataclasses.asdict(node)} for node in nodes])


@functools.lru_cache(maxsize=4096)
def nodes_from_text(text: str) -> tuple[Node, ...]:
    return tuple(_node(said) for said in json.loads(text))


def _node(said: dict[str, Any]) -> Node:
    fields = {name: value if name == "operator" else _tuples(value) for name, value in said.items() if name != "node"}
    if "calls" in fields:
        fields["calls"] = tuple(
            Call(**{name: _tuples(value) for name, value in call.items()}) for call in said["calls"]
        )
    return NODES[said["node"]](**fields)


def _tuples(value: Any) -> Any:
    return tuple(_tuples(part) for part in value) if isinstance(value, list) else value
