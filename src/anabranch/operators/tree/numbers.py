"""Numbers: how often each row of an answer without a key is there, so that rows that are the same can be told apart."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.kernels.sorted_codes import in_order
from anabranch.operators.tree.arrangement import Arrangement
from anabranch.operators.tree.changes import Changes

Counts = NDArray[np.int64]

_DIGEST = pa.schema([("first", pa.int64()), ("second", pa.int64())])


class Numbers:
    """See the module.

    Where rows only come, digests are kept in their place: rows that share one are counted together and so have
    different numbers, too. Rows that go must give back the numbers they were given, so these are kept themselves.
    """

    def __init__(self, schema: pa.Schema, *, only_comes: bool) -> None:
        self._by_digest = only_comes
        schema = _DIGEST if only_comes else schema
        self.kept = Arrangement(schema, schema.names)

    def take_in(self, changes: Changes) -> Counts:
        """Takes in changes, each row once, and says how often each row was there before."""
        if self._by_digest:
            return self._take_in_digests(changes)
        found = self.kept.rows_of(changes.rows)
        before = np.zeros(len(changes), np.int64)
        before[found.of] = found.changes.weights
        self.kept.take_in(changes)
        return before

    def _take_in_digests(self, changes: Changes) -> Counts:
        first, second = changes.digests
        order = in_order(first, second)
        first, second, weights = first[order], second[order], changes.weights[order]
        differs = (first[1:] != first[:-1]) | (second[1:] != second[:-1])
        begins = np.flatnonzero(np.concatenate([[True], differs])[: len(order)])
        keys = [pa.array(numbers[begins].view(np.int64)) for numbers in (first, second)]
        found = self.kept.found(keys, len(begins))
        known = np.zeros(len(begins), np.int64)
        known[found.of] = found.changes.weights
        ahead = np.cumsum(weights) - weights
        of = np.repeat(np.arange(len(begins)), np.diff(np.append(begins, len(order))))
        before = np.empty(len(order), np.int64)
        before[order] = known[of] + ahead - ahead[begins][of]
        sums = np.bincount(of, weights, len(begins)).astype(np.int64)
        self.kept.take_in(Changes(pa.Table.from_arrays(keys, schema=_DIGEST), sums))
        return before
