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
    rows: list[Row] = table.set_column(at, time, table.column(time).cast(pa.int64())).to_pylist()
    return rows


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
    chosen: list[bool] = kept(drawn, keep).tolist()
    return chosen


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


@dataclass(frozen=True)
class Since:
    """A landmark query: count(*), count, sum, avg, min and max of a value by key, naively."""

    since: int
    every: int
    until: int | None = None
    key: str | None = "k"
    value: str = "v"

    def ends(self, first: int, reached: int) -> list[int]:
        """The times that are answered once there is a row, the first at `first`."""
        last = reached if self.until is None else min(reached, -(-self.until // self.every) * self.every)
        begin = max(first, self.since)
        return list(range((begin // self.every + 1) * self.every, last + 1, self.every))

    def counted(self, rows: list[Row], end: int) -> dict[Any, list[Row]]:
        """The rows of each group that count at an end."""
        end = end if self.until is None else min(end, self.until)
        groups: dict[Any, list[Row]] = {}
        for row in rows:
            if self.since <= row["ts"] < end:
                groups.setdefault(row[self.key] if self.key else None, []).append(row)
        return groups

    def answers(self, rows: list[Row], reached: int) -> list[tuple[Any, ...]]:
        """(end, key, count(*), count, sum, avg, min, max), in order, of groups with rows since the end before."""
        there = [row["ts"] for row in rows if row["ts"] >= self.since]
        found, before = [], self.since
        for end in self.ends(there[0], reached) if there else []:
            groups = self.counted(rows, end)
            groups = {key: own for key, own in groups.items() if any(row["ts"] >= before for row in own)}
            found += self._told(groups, end)
            before = end
        return found

    def store(self, rows: list[Row], reached: int) -> list[tuple[Any, ...]]:
        """The newest answer, of all groups."""
        there = [row["ts"] for row in rows if row["ts"] >= self.since]
        last = -(-self.until // self.every) * self.every if self.until is not None else reached
        end = min(reached, last) // self.every * self.every
        return self._told(self.counted(rows, end), end) if there and end > self.since else []

    def _told(self, groups: dict[Any, list[Row]], end: int) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = []
        for key in sorted(groups, key=lambda k: (k is not None, k)):
            values = [row[self.value] for row in groups[key] if row[self.value] is not None]
            about = (sum(values), sum(values) / len(values), min(values), max(values)) if values else (None,) * 4
            found.append((end, key, len(groups[key]), len(values), *about))
        return found


def estimated_total(numbers: list[tuple[int, float]], first: int, stratum: int, keep: float, live_from: int) -> float:
    """A total from the rows that were read, (row number, value): of all strata but the last one that has a row.

    Of a stratum that is over, the number of rows is known; of the last only that each row was read with probability
    `keep`. Rows from `live_from` on are all there.
    """
    past = [(row, value) for row, value in numbers if row < live_from]
    live = [value for row, value in numbers if row >= live_from]
    over = live_from if live else (past[-1][0] // stratum * stratum if past else 0)
    total = sum(live)
    for unit in range(first // stratum, -(-over // stratum)):
        low, high = max(first, unit * stratum), min((unit + 1) * stratum, over)
        values = [value for row, value in past if low <= row < high]
        total += (high - low) * sum(values) / max(len(values), 1)
    return total + sum(value for row, value in past if row >= over) / keep
