"""Records for merges: two streams of the same records, each partly out of order, the same for the same arguments.

M. Mazzucco et al. (2002, §6) took an ordered file of gridded data and reordered "a fixed percent" of it; how far and in
what pieces is not said. Here a share of the file's pieces, 128 records in a row as a row of that grid has, moves to
a place up to a distance away, either way, and all else closes up. docs/papers/merge.md says what else was tried.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from benchmarks.window_join.data import Answer, Ints, answer_of

TOLERANCE = 0.25
UNCERTAINTY = 0.1
"""How far the keys of the second stream are off those of the first; records are 1 apart."""
PIECE = 128
PIECES_MOVE = 4.25
"""Windows that a piece moves by, at most."""


@dataclass(frozen=True)
class Disorder:
    """What is out of order: a share of the pieces, each moved by up to `distance` records."""

    share: float
    distance: float
    piece: int = PIECE

    @classmethod
    def of(cls, share: float, window: int) -> Disorder:
        """As in Tables 1 and 2 with windows of so many records."""
        return cls(share, PIECES_MOVE * window)

    def order(self, rows: int, random: np.random.Generator) -> Ints:
        """The numbers of the records in the order they are in the file.

        >>> Disorder(0.5, 3, piece=2).order(10, np.random.default_rng(2)).tolist()
        [0, 1, 6, 7, 2, 3, 4, 5, 8, 9]
        """
        pieces = -(-rows // self.piece)
        moved = random.choice(pieces, round(pieces * self.share), replace=False)
        places = np.arange(pieces, dtype=np.float64)
        places[moved] += random.uniform(-self.distance, self.distance, len(moved)) / self.piece
        order = np.argsort(places, kind="stable")[:, None] * self.piece + np.arange(self.piece)
        found: Ints = order[order < rows]
        return found


@dataclass(frozen=True)
class MergeFeed:
    """Two streams of `rows` records: a key, a value and the record's number, 24 bytes; with a cell of the grid, 28."""

    rows: int
    disorder: Disorder
    seed: int = 0
    cells: bool = False

    def table(self, stream: int) -> pa.Table:
        random = np.random.default_rng([self.seed, stream])
        numbers = self.disorder.order(self.rows, random)
        keys = numbers.astype(np.float64)
        if stream:
            keys += random.uniform(-UNCERTAINTY, UNCERTAINTY, self.rows)
        columns = {"k": keys, "v": random.normal(size=self.rows), "id": numbers}
        if self.cells:
            columns["cell"] = (numbers % 8192).astype(np.int32)
        return pa.table(columns)

    @property
    def all_merged(self) -> Answer:
        """What a merge gives that misses nobody."""
        numbers = np.arange(self.rows)
        return answer_of([numbers, numbers])


def keys_of(table: pa.Table) -> NDArray[np.float64]:
    """The keys as one array."""
    found: NDArray[np.float64] = table.column("k").to_numpy()
    return found
