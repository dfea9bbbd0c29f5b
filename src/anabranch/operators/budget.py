"""How much a member of a host may answer, and take, in a micro-batch before it is held back (`operators.together`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import pyarrow as pa


class OverBudget(Exception):
    """There are more answers than a budget has room for."""


class Budget(NamedTuple):
    """Rows and bytes of answers, and milliseconds; 0 is any number."""

    rows: int = 0
    bytes: int = 0
    ms: int = 0

    def within(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Answers as they come, so that no more than these are ever there; raises `OverBudget`."""
        rows = size = 0
        for batch in batches:
            rows, size = rows + batch.num_rows, size + batch.nbytes
            if 0 < self.rows < rows or 0 < self.bytes < size:
                raise OverBudget
            yield batch

    def exceeded(self, rows: float, size: float, ms: float = 0.0) -> float:
        """How often what there is exceeds it: what is above 1 is over."""
        used = ((rows, self.rows), (size, self.bytes), (ms, self.ms))
        return max((amount / room for amount, room in used if room), default=0.0)


ANY = Budget()
"""Whatever there is."""
