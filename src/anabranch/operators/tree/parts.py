"""Rows of parts in an order that leaves nothing to chance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.kernels.refining import Bounds, Places, bounds_of, grouped, refined
from anabranch.operators.tree.arrangement import Arrangement, Found
from anabranch.operators.tree.changes import together
from anabranch.operators.tree.gathered import Gathered
from anabranch.operators.tree.nodes import Order


def rows_of_parts(arrangement: Arrangement, keys: Sequence[pa.Array], count: int) -> Found:
    """The rows of so many parts, as they stand in runs: to sort them brings together those that are the same."""
    some = list(arrangement.meeting(keys, count))
    of = np.concatenate([np.zeros(0, np.int64), *(asked for asked, _ in some)])
    return Found(together([changes for _, changes in some], arrangement.schema), of)


@dataclass(frozen=True)
class InOrder:
    """Rows of parts in an order; all bounds are among `places`, and rows that are the same stand together."""

    places: Places
    parts: Bounds
    """For each part its rows; a part may have none."""
    peers: Bounds
    """Rows that the order does not tell apart."""
    same: Bounds
    """Rows that are the same in all columns."""

    @staticmethod
    def of(rows: Gathered, part: NDArray[np.int64], size: int, partition: Sequence[str], order: Order) -> InOrder:
        """Rows of `size` parts; ties are broken by the columns from the first to the last, NULL first."""
        places, parts = grouped(part, size)
        bounds = parts
        for name, descending, nulls_first in order:
            places, bounds = refined(places, bounds, partial(rows.taken, name), descending, nulls_first)
        peers = bounds
        known = {*partition, *(name for name, _, _ in order)}
        for name in rows.schema.names:
            if name not in known:
                places, bounds = refined(places, bounds, partial(rows.taken, name))
        return InOrder(places, parts, without_empty(peers), without_empty(bounds))

    def sums(self, weights: NDArray[np.int64]) -> NDArray[np.int64]:
        """For each row that differs from the one before it, the weights of all that are the same."""
        return np.diff(bounds_of(weights[self.places])[self.same])

    @property
    def first(self) -> Places:
        """A place of each different row."""
        return self.places[self.same[:-1]]

    @property
    def part_of_different(self) -> NDArray[np.int64]:
        """The part of each different row."""
        return np.repeat(np.arange(len(self.parts) - 1), np.diff(self.among_different(self.parts)))

    def among_different(self, bounds: Bounds) -> Bounds:
        """Bounds of `parts` or `peers` counted in different rows."""
        numbers = np.empty(len(self.places) + 1, np.int64)
        numbers[self.same] = np.arange(len(self.same))
        return numbers[bounds]


def without_empty(bounds: Bounds) -> Bounds:
    """The bounds of the runs in which there is something."""
    return np.concatenate([bounds[:1], bounds[1:][np.diff(bounds) > 0]])
