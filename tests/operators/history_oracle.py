"""Queries over live and past rows, naively: every live row against every row of history."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from anabranch.kernels.sampling import kept, key_lots, lots

Row = dict[str, Any]


def rows_of(table: pa.Table, time: str = "ts") -> list[Row]:
    """Rows as Python sees them, with times as microseconds."""
    at = table.schema.get_field_index(time)
    return table.set_column(at, time, table.column(time).cast(pa.int64())).to_pylist()


def equal(one: Any, other: Any) -> bool:
    """SQL's equality where it is true: NULL equals nothing, NaN equals NaN."""
    if one is None or other is None:
        return False
    if isinstance(one, float) and isinstance(other, float) and math.isnan(one) and math.isnan(other):
        return True
    return bool(one == other)


def kept_rows(table: pa.Table, keep: float, by: str | None, seed: int = 0) -> list[bool]:
    """Which rows a reduced read of a whole log keeps."""
    drawn = lots(np.arange(table.num_rows), seed) if by is None else key_lots(table.column(by), seed)
    return kept(drawn, keep).tolist()


@dataclass(frozen=True)
class Portions:
    """The portions of a history join."""

    on: tuple[tuple[str, str], ...]
    period: int
    portions: int
    within: int

    def met(self, live: Row, history: list[Row]) -> list[int]:
        """How many rows of history a live row meets in each portion."""
        return [
            sum(
                abs(past["ts"] - (live["ts"] - d * self.period)) <= self.within
                and all(equal(live[one], past[other]) for one, other in self.on)
                for past in history
            )
            for d in range(1, self.portions + 1)
        ]

    def answered(self, live: list[Row], history: list[Row], match: str) -> list[tuple[Row, int, int]]:
        """The live rows that are answered, with the portions and the rows they met."""
        found = []
        for row in live:
            met = self.met(row, history)
            if all(met) if match == "each" else any(met):
                found.append((row, sum(n > 0 for n in met), sum(met)))
        return found
