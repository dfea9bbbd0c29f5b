"""Changes: rows with weights. A weight of 2 says that a row comes twice, -1 that it goes; an update is both.

The same row may stand in several places; what counts is the sum of its weights. `consolidated` says it once.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.kernels.digests import Digests, digests
from anabranch.kernels.groups import encode
from anabranch.operators.tree.gathered import Gathered

Weights = NDArray[np.int64]


class Changes:
    """See the module. Rows are given as a table, or as places in tables, which become one when it is looked at."""

    def __init__(self, rows: pa.Table | Gathered, weights: Weights, known: Digests | None = None) -> None:
        self.weights = weights
        self._rows = rows
        self._digests = known

    @staticmethod
    def none(schema: pa.Schema) -> Changes:
        return Changes(schema.empty_table(), np.zeros(0, np.int64))

    @staticmethod
    def of(rows: pa.Table, weight: int = 1) -> Changes:
        """All rows come, or with a weight of -1 go."""
        return Changes(rows.combine_chunks(), np.full(rows.num_rows, weight, np.int64))

    def __len__(self) -> int:
        return len(self.weights)

    @property
    def rows(self) -> pa.Table:
        """The rows as they stand in memory."""
        if isinstance(self._rows, Gathered):
            self._rows = self._rows.table()
        return self._rows

    @property
    def gathered(self) -> Gathered:
        """The rows by their places, so that what is not looked at is not copied."""
        return self._rows if isinstance(self._rows, Gathered) else Gathered.of(self._rows)

    @property
    def digests(self) -> Digests:
        """Those of the rows, which are made once however rows are chosen then."""
        if self._digests is None:
            self._digests = digests(self.gathered.columns(), len(self))
        return self._digests

    @property
    def schema(self) -> pa.Schema:
        return self._rows.schema

    @property
    def nbytes(self) -> int:
        return int(self.rows.nbytes + self.weights.nbytes)

    def with_rows(self, rows: pa.Table | Gathered) -> Changes:
        """Other rows in the place of these, with the same weights."""
        return Changes(rows, self.weights)

    def take(self, places: NDArray[np.int64]) -> Changes:
        known = None if self._digests is None else Digests(*(numbers[places] for numbers in self._digests))
        return Changes(self.gathered.take(places), self.weights[places], known)

    def filter(self, kept: NDArray[np.bool_]) -> Changes:
        return self if kept.all() else self.take(np.flatnonzero(kept))

    def negated(self) -> Changes:
        return Changes(self._rows, -self.weights)

    def consolidated(self) -> Changes:
        """Each row once, with the sum of its weights, in the order of first appearance; none with a sum of 0.

        >>> rows = pa.table({"a": [1, 2, 1, None], "b": ["x", "y", "x", None]})
        >>> some = Changes(rows, np.array([1, 1, -1, 2])).consolidated()
        >>> some.rows.to_pylist(), some.weights.tolist()
        ([{'a': 2, 'b': 'y'}, {'a': None, 'b': None}], [1, 2])
        """
        if not len(self):
            return self
        codes = self.digests.first
        order = np.argsort(codes)
        if (codes[order[1:]] != codes[order[:-1]]).all():  # mostly all rows differ, as their hashes tell
            return self.filter(self.weights != 0)
        groups = encode(self.gathered.columns(), len(self))
        sums = np.zeros(groups.size, np.int64)
        np.add.at(sums, groups.codes, self.weights)
        first = np.full(groups.size, len(self), np.int64)
        np.minimum.at(first, groups.codes, np.arange(len(self)))
        places = np.sort(first[sums != 0])
        return Changes(self.gathered.take(places), sums[groups.codes[places]])


def together(parts: Sequence[Changes], schema: pa.Schema) -> Changes:
    """All of several changes."""
    some = [part for part in parts if len(part)]
    if not some:
        return Changes.none(schema)
    if len(some) == 1:
        return some[0]
    rows = Gathered.together([part.gathered for part in some])
    return Changes(rows, np.concatenate([part.weights for part in some]))
