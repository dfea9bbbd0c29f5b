"""What an arrangement is, in a few lines: the oracle of the fast one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.kernels.groups import encode
from anabranch.operators.tree.changes import Changes, together

Places = NDArray[np.int64]


class Found(NamedTuple):
    """The rows of some keys: each row with its weight, and the place of its key among those that were asked for."""

    changes: Changes
    of: Places


class NaiveArrangement:
    """Rows of a schema with weights, by the columns of a key; without a key all rows have the same one.

    NULL is a key like any other. No two rows that it gives are the same, and none has a weight of 0.
    """

    def __init__(self, schema: pa.Schema, key: Sequence[str]) -> None:
        self.schema = schema
        self.key = tuple(key)
        self._held = Changes.none(schema)

    def take_in(self, changes: Changes) -> None:
        """The rows after some changes."""
        self._held = together([self._held, changes], self.schema).consolidated()

    def rows_of(self, keys: pa.Table) -> Found:
        """The rows of some keys, which are all different and have the columns of the key in its order."""
        count, asked = len(self._held), keys.num_rows
        columns = [
            pa.chunked_array([*self._held.rows.column(ours).chunks, *keys.column(i).chunks], keys.schema.field(i).type)
            for i, ours in enumerate(self.key)
        ]
        codes = encode(columns, count + asked).codes
        place = np.full(int(codes.max(initial=-1)) + 1, -1, np.int64)
        place[codes[count:]] = np.arange(asked)
        of = place[codes[:count]] if self.key or asked else np.full(count, -1, np.int64)
        found = np.flatnonzero(of >= 0)
        return Found(self._held.take(found), of[found])

    def all(self) -> Changes:
        """All rows."""
        return self._held

    def __len__(self) -> int:
        """How many different rows there are."""
        return len(self._held)

    @property
    def nbytes(self) -> int:
        return self._held.nbytes
