"""How complete a merge is: κ of the last round, Δ over the last ones, and what would be possible at best.

κ, Δ and κ_max are those of M. Mazzucco et al. (2002, §3); Δ weighs each round with what was possible in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.kernels.cells import places_of_cells
from anabranch.kernels.matching import Window, match_all, match_nearest
from anabranch.kernels.merge import (
    ADAPTED,
    ALL,
    BROKEN,
    COUNTED,
    DROPPED_A,
    DROPPED_B,
    LAST_DROPPED,
    LAST_MERGED,
    MERGED,
    ROUNDS,
)
from anabranch.kernels.nearly_sorted import sort_fully

_SAMPLE = 8192
"""Records of the sample, both streams together."""
_LEAST_PART = 1e-9
_CELL_TOLERANCES = 64
"""Records are sampled by cells of their first key this many tolerances wide, so that partners come together."""


def counts_of(control: NDArray[np.int64], rings: NDArray[np.int64], totals: NDArray[np.int64]) -> dict[str, Any]:
    """What a step's groups have done, see `counts`; `totals` are those of all groups there were."""
    counted = np.minimum(control[:, COUNTED], rings.shape[1])
    recent = [rings[np.arange(rings.shape[1])[None, :] < counted[:, None]][:, i].sum() for i in range(3)]
    return {
        "rounds": int(totals[ROUNDS]),
        "merged": int(totals[MERGED]),
        "dropped": [int(totals[DROPPED_A]), int(totals[DROPPED_B])],
        "last": [int(control[:, LAST_MERGED].sum()), int(control[:, LAST_DROPPED].sum())],
        "recent": [int(count) for count in recent],
        "adapted": int(totals[ADAPTED]),
        "broken": int(control[:, BROKEN].sum()),
    }


@dataclass
class KeySample:
    """Records of both streams in some cells of the key, from the beginning on.

    Where partners exist at all, they lie in the same cell, so the sample tells which part of the records
    could be merged if windows held everything. `keys` has the group's hash as its first row; `part` of all
    cells is sampled, halved whenever there are too many records.
    """

    keys: NDArray[np.float64]
    sides: NDArray[np.bool_]
    part: float = 1.0

    @staticmethod
    def empty(keys: int) -> KeySample:
        return KeySample(np.empty((keys + 1, 0)), np.empty(0, np.bool_))

    def take_in(
        self, side: int, groups: NDArray[np.float64], keys: NDArray[np.float64], usable: NDArray[np.bool_], width: float
    ) -> None:
        """Sample new records of one side; `groups` has a number for the group of each, or one for all."""
        places = places_of_cells(groups, keys[0], usable, width)
        while np.count_nonzero(places < self.part) + len(self.sides) > _SAMPLE and self.part > _LEAST_PART:
            self._keep(self.part / 2, width)
        wanted = np.flatnonzero(places < self.part)
        named = groups[wanted] if len(groups) > 1 else np.full(len(wanted), groups[0])
        more = np.concatenate([named[None, :], keys[:, wanted]])
        self.keys = np.concatenate([self.keys, more], axis=1)
        self.sides = np.concatenate([self.sides, np.full(more.shape[1], bool(side))])

    def _keep(self, part: float, width: float) -> None:
        """Keep the records of fewer cells."""
        groups, keys = self.keys[0].copy(), self.keys[1].copy()
        kept = places_of_cells(groups, keys, np.ones(len(keys), np.bool_), width) < part
        self.keys, self.sides, self.part = self.keys[:, kept], self.sides[kept], part

    def found(self, tolerance: NDArray[np.float64], policy: int) -> tuple[int, int]:
        """How many records have a partner when all are in one window, and how many could have one."""
        a, b = np.ascontiguousarray(self.keys[:, ~self.sides]), np.ascontiguousarray(self.keys[:, self.sides])
        count_a, count_b = a.shape[1], b.shape[1]
        if count_a == 0 or count_b == 0:
            return 0, min(count_a, count_b)
        window_a, window_b = np.arange(count_a), np.arange(count_b)
        if len(np.unique(self.keys[0])) == 1:
            a, b = np.ascontiguousarray(a[1:]), np.ascontiguousarray(b[1:])
        else:
            tolerance = np.concatenate([[0.0], tolerance])
        sort_fully(a, window_a, count_a)
        sort_fully(b, window_b, count_b)
        all_a, all_b = Window(a, window_a, count_a), Window(b, window_b, count_b)
        if policy == ALL:
            pairs, _ = match_all(all_a, 0, all_b, 0, tolerance)
            return len(np.unique(pairs)), min(count_a, count_b)
        out_a, out_b = np.empty(count_a, np.int64), np.empty(count_a, np.int64)
        rows_a, rows_b = np.arange(count_a), np.arange(count_b)
        merged = match_nearest(all_a, rows_a, all_b, rows_b, tolerance, False, 0, 0, out_a, out_b)
        return int(merged), min(count_a, count_b)

    def to_table(self) -> pa.Table:
        columns: dict[str, Any] = {f"k{i}": row for i, row in enumerate(self.keys)}
        return pa.table({**columns, "side": self.sides})

    @staticmethod
    def from_tables(tables: Sequence[pa.Table], parts: Sequence[float], width: float) -> KeySample:
        """The samples of several tasks as one."""
        table = pa.concat_tables(tables).combine_chunks()
        keys = np.stack([table.column(i).to_numpy() for i in range(table.num_columns - 1)])
        sample = KeySample(keys, table.column("side").to_numpy())
        sample._keep(min(parts), width)
        return sample


def cell_width(tolerance: NDArray[np.float64]) -> float:
    return float(tolerance[0]) * _CELL_TOLERANCES


def group_numbers(hashes: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Hashes of groups as doubles."""
    return (hashes >> np.uint64(12)).astype(np.float64)
