"""Which rows of a stream anybody wants at all: what a search that is shared need not look at.

It may let more pass than is wanted, as results are looked up afterwards. Where conditions have several columns each is
known by one of them, and what all conditions have in common is tested of every row.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from anabranch.expressions.atoms import Atom
from anabranch.kernels.questions import NOTHING
from anabranch.kernels.values import Column
from anabranch.operators.columns import Bound
from anabranch.operators.together.coding import coding_of

Condition = frozenset[Atom]
"""Atoms, all of which must hold, of columns alone: none is computed."""


class _Lookup:
    """One column, and which codes of it are wanted."""

    def __init__(self, column: str, atoms: Iterable[Atom], schema: pa.Schema) -> None:
        self.column = column
        self._coding = coding_of(column, atoms, schema)
        spans = {atom: self._coding.spans(atom) for atom in atoms}
        most = max((high for some in spans.values() for _, high in some), default=0)
        self._wanted = np.zeros(most - NOTHING + 2, np.bool_)  # the last stands for all codes above
        self.left = {
            atom: sum(high - low + 1 for low, high in some) / len(self._wanted) for atom, some in spans.items()
        }
        """About which share of the column's range each atom leaves."""
        self._spans = spans

    def want(self, atom: Atom) -> None:
        for low, high in self._spans[atom]:
            self._wanted[low - NOTHING : high - NOTHING + 1] = True

    def of(self, table: pa.Table) -> NDArray[np.bool_]:
        """The rows whose value is wanted."""
        places = self._coding.codes(table.column(self.column)) - NOTHING
        wanted: NDArray[np.bool_] = self._wanted[np.minimum(places, len(self._wanted) - 1)]
        return wanted


def wanted_by(conditions: frozenset[Condition], where: Bound | None, schema: pa.Schema) -> Bound | None:
    """The rows that meet `where`, and that any of the conditions may want; its SQL is a name for what they say."""
    if frozenset() in conditions:
        return where
    shared: Condition = frozenset.intersection(*conditions)
    tested = [_Lookup(atom.of, [atom], schema) for atom in sorted(shared, key=repr)]
    for lookup, atom in zip(tested, sorted(shared, key=repr), strict=True):
        lookup.want(atom)
    lookups = [] if shared in conditions else _lookups([each - shared for each in conditions], schema)
    said = hashlib.sha256(repr(sorted(sorted(map(repr, each)) for each in conditions)).encode()).hexdigest()[:32]
    names = dict.fromkeys([*(where.columns if where else ()), *(lookup.column for lookup in (*tested, *lookups))])

    def evaluate(table: pa.Table) -> Column:
        rows = np.ones(table.num_rows, np.bool_)
        for lookup in tested:
            rows &= lookup.of(table)
        if lookups:
            rows &= np.logical_or.reduce([lookup.of(table) for lookup in lookups])
        return pa.array(rows) if where is None else pc.and_kleene(where.evaluate(table), pa.array(rows))

    return Bound(f"{where.sql if where else 'all'} wanted by {said}", tuple(names), pa.bool_(), evaluate)


def _lookups(conditions: Iterable[Condition], schema: pa.Schema) -> list[_Lookup]:
    """Each condition looked up by the one of its columns that leaves least."""
    atoms: dict[str, dict[Atom, None]] = defaultdict(dict)
    for condition in conditions:
        for atom in condition:
            atoms[atom.of][atom] = None
    lookups = {column: _Lookup(column, some, schema) for column, some in atoms.items()}
    used = set()
    for condition in conditions:
        best = min(condition, key=lambda atom: (lookups[atom.of].left[atom], repr(atom)))
        lookups[best.of].want(best)
        used.add(best.of)
    return [lookups[column] for column in sorted(used)]
