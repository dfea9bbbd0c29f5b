"""Which rows of two streams nobody wants together: equal numbers are one more condition of a search that is shared.

`A.c = 1 AND B.d = 1` and `A.c = 2 AND B.d = 2` want rows with c = 1 and rows with d = 2, and never both in one result.
Values are nodes of a graph, and each member ties the values that it wants of every stream; rows that somebody wants
together lie in one connected part of it. Where constants are independent all is one part, and nothing is gained.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.expressions.atoms import Atom
from anabranch.kernels.questions import NOTHING
from anabranch.kernels.values import Column
from anabranch.operators.columns import Bound
from anabranch.operators.together.coding import Coding, Spans, coding_of
from anabranch.operators.together.wanted import Condition

_LEAST_PARTS = 4
"""With fewer, looking at one more key costs more than it saves."""
_MOST_TIES = 200_000
"""Wide ranges tie so many values that nothing is left apart."""


class _Values:
    """The column of a source by which its rows are told apart, and the codes that each member wants of it."""

    def __init__(self, column: str, atoms: Sequence[Atom], schema: pa.Schema) -> None:
        self.column = column
        self.coding: Coding = coding_of(column, atoms, schema)
        known: dict[Atom, Spans] = {atom: self.coding.spans(atom) for atom in set(atoms)}
        self.wanted = [known[atom] for atom in atoms]
        self.ties = sum(high - low + 1 for spans in self.wanted for low, high in spans)
        most = max((high for spans in self.wanted for _, high in spans), default=0)
        self.parts: NDArray[np.int64] = np.full(most - NOTHING + 2, -1, np.int64)  # the last stands for all above

    def part_of(self, alias: str, said: str) -> Bound:
        """The number of the part that a row of the source is in."""
        name = f"{alias}.{self.column}"

        def evaluate(table: pa.Table) -> Column:
            places = self.coding.codes(table.column(name)) - NOTHING
            return pa.array(self.parts[np.minimum(places, len(self.parts) - 1)])

        return Bound(f"part of `{name}` in {said}", (name,), pa.int64(), evaluate)


def parts_of(
    members: Sequence[Sequence[Condition]], aliases: Sequence[str], schemas: Sequence[pa.Schema]
) -> Mapping[int, Bound]:
    """By source, numbers that must be equal for rows that any member wants together; empty: all may meet."""
    values: dict[int, _Values] = {}
    for source, schema in enumerate(schemas):
        conditions = [member[source] for member in members]
        shared = set.intersection(*({atom.of for atom in condition} for condition in conditions))
        some = [_Values(column, [_on(column, condition) for condition in conditions], schema) for column in shared]
        if some:
            values[source] = min(some, key=lambda each: (each.ties / len(each.parts), each.column))
    if len(values) < 2 or sum(each.ties for each in values.values()) > _MOST_TIES:
        return {}
    if _number_parts(list(values.values()), len(members)) < _LEAST_PARTS:
        return {}
    written = [[sorted(map(repr, condition)) for condition in member] for member in members]
    said = hashlib.sha256(repr(sorted(written)).encode()).hexdigest()[:32]
    return {source: each.part_of(aliases[source], said) for source, each in values.items()}


def _on(column: str, condition: Condition) -> Atom:
    """What a condition says of a column, or a part of that."""
    return min((atom for atom in condition if atom.of == column), key=repr)


def _number_parts(values: Sequence[_Values], members: int) -> int:
    """Give the codes of all columns the numbers of their parts; gives how many there are."""
    parent = list(range(members))
    owner: dict[tuple[int, int], int] = {}

    def root(member: int) -> int:
        while parent[member] != member:
            parent[member] = parent[parent[member]]
            member = parent[member]
        return member

    for place, each in enumerate(values):
        for member, spans in enumerate(each.wanted):
            for code in (code for low, high in spans for code in range(low, high + 1)):
                first = owner.setdefault((place, code), member)
                parent[root(member)] = root(first)
    for (place, code), member in owner.items():
        values[place].parts[code - NOTHING] = root(member)
    return len({root(member) for member in range(members)})
