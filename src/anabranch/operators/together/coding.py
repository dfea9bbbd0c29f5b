"""The codes of a column's values among the ends that questions name (`kernels.ends`)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from anabranch.expressions.atoms import Atom
from anabranch.kernels.ends import NULL, Codes, Ends, span
from anabranch.kernels.values import Column, compared_numbers, one_array, valid

Spans = list[tuple[int, int]]
"""Closed intervals of codes, ordered and disjoint."""


class Coding(Protocol):
    """Codes of one column."""

    def codes(self, column: Column) -> Codes: ...

    def spans(self, atom: Atom) -> Spans:
        """The codes of the values that an atom wants."""
        ...


class Numbers:
    """A column whose values have numbers of the same order."""

    def __init__(self, atoms: Iterable[Atom]) -> None:
        ends = {end for atom in atoms for ends in atom.ranges for end in ends if end is not None}
        self.ends = np.array(sorted(ends), np.int64)
        self._among = Ends(self.ends)

    def codes(self, column: Column) -> Codes:
        null = ~valid(column) if column.null_count else None
        return self._among.codes(compared_numbers(column, 0), null)

    def spans(self, atom: Atom) -> Spans:
        lows = [None if low is None else int(low) for low, _ in atom.ranges]
        highs = [None if high is None else int(high) for _, high in atom.ranges]
        spans = [span(self.ends, low, high) for low, high in zip(lows, highs, strict=True)]
        return whole(_of_null(atom) + spans)


class Texts:
    """A column of text, compared by its bytes."""

    def __init__(self, atoms: Iterable[Atom]) -> None:
        ends: set[str] = set()
        wanted: set[str] = set()
        points = True
        for atom in atoms:
            for low, high in atom.ranges:
                points = points and low is not None and high == f"{low}00"
                wanted.add(str(low))
                ends.update(str(end) for end in (low, high) if end is not None)
        points = points and len(ends) == 2 * len(wanted)  # else one is the other with a zero behind it
        self._rank = {end: rank for rank, end in enumerate(sorted(ends))}
        self._ends = pa.array([bytes.fromhex(end) for end in self._rank], pa.binary())
        # Where all are points every other end is a value that is wanted, and one hash table finds them.
        self._wanted = self._ends.take(pa.array(np.arange(0, len(self._ends), 2))) if points else None

    def codes(self, column: Column) -> Codes:
        values = one_array(column).cast(pa.binary())
        if self._wanted is not None:
            found = pc.index_in(values, value_set=self._wanted)
            codes = 2 * found.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64) + 1
            codes = np.maximum(codes, 0)
        else:
            encoded = values.dictionary_encode()
            places = encoded.indices.fill_null(0).to_numpy(zero_copy_only=False)
            of_distinct = self._codes_of(encoded.dictionary)
            codes = of_distinct[places] if len(of_distinct) else np.zeros(len(values), np.int64)
        return np.where(valid(values), codes, NULL) if values.null_count else codes

    def _codes_of(self, distinct: pa.Array) -> NDArray[np.int64]:
        """How many ends are at or before each of some values."""
        count = len(self._ends)
        # Stable: an end comes before a value that is equal to it.
        order = pc.sort_indices(pa.concat_arrays([self._ends, distinct])).to_numpy()
        is_end = order < count
        codes = np.empty(len(distinct), np.int64)
        codes[order[~is_end] - count] = np.cumsum(is_end)[~is_end]
        return codes

    def spans(self, atom: Atom) -> Spans:
        return whole(
            _of_null(atom)
            + [
                (
                    0 if low is None else self._rank[str(low)] + 1,
                    len(self._rank) if high is None else self._rank[str(high)],
                )
                for low, high in atom.ranges
            ]
        )


class Truths:
    """An expression that must be TRUE."""

    def __init__(self, atoms: Iterable[Atom]) -> None:
        pass

    def codes(self, column: Column) -> Codes:
        return np.where(valid(column), one_array(column).fill_null(False).to_numpy(zero_copy_only=False), 0).astype(
            np.int64
        )

    def spans(self, atom: Atom) -> Spans:
        return [(1, 1)]


def coding_of(column: str, atoms: Iterable[Atom], schema: pa.Schema) -> Coding:
    """The codes of a column of a schema, for what atoms want of it."""
    return Texts(atoms) if pa.types.is_string(schema.field(column).type) else Numbers(atoms)


def _of_null(atom: Atom) -> Spans:
    return [(NULL, NULL)] if atom.null else []


def whole(spans: Iterable[tuple[int, int]]) -> Spans:
    """Those that are not empty, in order, each code once."""
    ordered = sorted((low, high) for low, high in spans if low <= high)
    joined: Spans = []
    for low, high in ordered:
        if joined and low <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(joined[-1][1], high))
        else:
            joined.append((low, high))
    return joined


def both(a: Spans, b: Spans) -> Spans:
    """The codes that are in both.

    >>> both([(1, 5), (8, 9)], [(4, 8)])
    [(4, 5), (8, 8)]
    """
    return whole([(max(a1, b1), min(a2, b2)) for a1, a2 in a for b1, b2 in b])
