"""The tree while it is made: nodes whose expressions are still trees, with the columns each of them has.

Columns are named once for the whole tree: the first `price` is `price`, the next `price_2`. So an expression says by
its names alone what it is about, wherever it is moved, and the sides of a join have different names. What is read a
second time is given new names by Rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from sqlglot import exp

from anabranch.operators.tree.nodes import (
    Aggregate,
    Expire,
    JoinKind,
    Latest,
    Part,
    Ranked,
    SetOperation,
    Source,
    Top,
    Union,
    Unnest,
)
from anabranch.sql.standing.columns import column

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True)
class DraftRows:
    """Rows, see `nodes.Rows`; `where` are conditions that all hold."""

    input: int
    columns: tuple[tuple[str, exp.Expr], ...]
    where: tuple[exp.Expr, ...] = ()

    @property
    def reads(self) -> tuple[int, ...]:
        return (self.input,)


@dataclass(frozen=True)
class DraftJoin:
    """A join, see `nodes.Join`; `condition` are conditions that all hold."""

    left: int
    right: int
    join: JoinKind
    keys: tuple[tuple[str, str], ...]
    condition: tuple[exp.Expr, ...] = ()

    @property
    def reads(self) -> tuple[int, ...]:
        return (self.left, self.right)


Draft = (
    DraftRows | DraftJoin | Source | Part | Aggregate | Union | SetOperation | Top | Ranked | Expire | Latest | Unnest
)


@dataclass(frozen=True)
class Place:
    """What of the query a node is, in its words, and where that stands."""

    said: str
    node: exp.Expr | None = None
    keyword: str | None = None


@dataclass
class Drafts:
    """The nodes so far, each with its columns and its place."""

    nodes: list[Draft] = field(default_factory=list)
    schemas: list[pa.Schema] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)
    _names: set[str] = field(default_factory=set)

    def fresh(self, wanted: str) -> str:
        """A name that no column of the tree has, in any case of its letters."""
        base = wanted if _PLAIN.fullmatch(wanted) else "value"
        name, number = base, 1
        while name.lower() in self._names:
            number += 1
            name = f"{base}_{number}"
        self._names.add(name.lower())
        return name

    def add(self, node: Draft, schema: pa.Schema, place: Place) -> int:
        self.nodes.append(node)
        self.schemas.append(schema)
        self.places.append(place)
        return len(self.nodes) - 1


def names_of(*expressions: exp.Expr) -> frozenset[str]:
    """The columns that expressions read."""
    return frozenset(node.name for expression in expressions for node in expression.find_all(exp.Column))


def as_they_are(names: Iterable[str]) -> tuple[tuple[str, exp.Expr], ...]:
    """Columns of Rows that change nothing."""
    return tuple((name, column(name)) for name in names)


def both(left: pa.Schema, right: pa.Schema) -> pa.Schema:
    """The columns of two sides."""
    return pa.schema([*left, *right])


def picked(schema: pa.Schema, names: Sequence[str]) -> pa.Schema:
    """Some columns of a schema."""
    return pa.schema([schema.field(name) for name in names])


def without(schema: pa.Schema, name: str) -> pa.Schema:
    """All columns of a schema but one."""
    return pa.schema([field for field in schema if field.name != name])
