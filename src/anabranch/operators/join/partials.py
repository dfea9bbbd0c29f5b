"""Partial results of a join: rows of the sources that are placed so far, as parallel arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.kernels.values import Column, frozen
from anabranch.operators.columns import Bound
from anabranch.operators.join.conditions import SourceExpression
from anabranch.operators.join.rows import Kept, SourceRows

Ints = NDArray[np.int64]


@dataclass
class Drivers:
    """New rows of one source, from which results are searched."""

    source: int
    kept: Kept
    _values: dict[str, Column] = field(default_factory=dict)

    def value(self, value: Bound) -> Column:
        if value.sql not in self._values:
            self._values[value.sql] = value.evaluate(self.kept.table)
        return self._values[value.sql]


@dataclass(frozen=True)
class PartialResults:
    """Rows of each placed source, their times, and which of the drivers each began with."""

    drivers: Drivers
    rows: Mapping[int, Ints]
    times: Mapping[int, Ints]
    places: Ints | None = None
    """None: all drivers, in order."""

    @staticmethod
    def of(drivers: Drivers) -> PartialResults:
        kept = drivers.kept
        return PartialResults(drivers, {drivers.source: kept.rows}, {drivers.source: kept.times})

    def __len__(self) -> int:
        return len(self.rows[self.drivers.source])

    def value(self, side: SourceExpression, sources: Sequence[SourceRows]) -> Column:
        """An expression over the rows of one placed source."""
        if side.source != self.drivers.source:
            return sources[side.source].values(side.value, self.rows[side.source])
        column = self.drivers.value(side.value)
        return column if self.places is None else column.take(pa.array(self.places))

    def column(self, name: str, source: int, sources: Sequence[SourceRows]) -> Column:
        """A column named `alias.column` of one placed source."""
        if source == self.drivers.source and name in self.drivers.kept.table.column_names:
            column = self.drivers.kept.table.column(name)
            return column if self.places is None else column.take(pa.array(self.places))
        return sources[source].take([name], self.rows[source])[0]

    def extended(self, probes: Ints, source: int, rows: Ints, times: Ints) -> PartialResults:
        """Those at `probes`, each with one more row."""
        places = probes if self.places is None else self.places[probes]
        return PartialResults(
            self.drivers,
            {**{placed: frozen(old[probes]) for placed, old in self.rows.items()}, source: rows},
            {**{placed: frozen(old[probes]) for placed, old in self.times.items()}, source: times},
            places,
        )

    def where(self, mask: NDArray[np.bool_]) -> PartialResults:
        if mask.all():
            return self
        places = np.flatnonzero(mask) if self.places is None else self.places[mask]
        return PartialResults(
            self.drivers,
            {placed: frozen(old[mask]) for placed, old in self.rows.items()},
            {placed: frozen(old[mask]) for placed, old in self.times.items()},
            places,
        )
