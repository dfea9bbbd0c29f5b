"""Partial results of a join: rows of the sources that are placed so far, as parallel arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.kernels.values import Column, frozen
from anabranch.operators.columns import Bound
from anabranch.operators.join.conditions import Side
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
class Partials:
    """Rows of each placed source, their times, and which of the drivers each began with."""

    drivers: Drivers
    rows: Mapping[int, Ints]
    times: Mapping[int, Ints]
    places: Ints | None = None
    """None: all drivers, in order."""

    @staticmethod
    def of(drivers: Drivers) -> Partials:
        kept = drivers.kept
        return Partials(drivers, {drivers.source: kept.rows}, {drivers.source: kept.times})

    def __len__(self) -> int:
        return len(self.rows[self.drivers.source])

    def value(self, side: Side, sources: Sequence[SourceRows]) -> Column:
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

    def extended(self, probes: Ints, source: int, rows: Ints, times: Ints) -> Partials:
        """Those at `probes`, each with one more row."""
        places = probes if self.places is None else self.places[probes]
        return Partials(
            self.drivers,
            {**{each: frozen(old[probes]) for each, old in self.rows.items()}, source: rows},
            {**{each: frozen(old[probes]) for each, old in self.times.items()}, source: times},
            places,
        )

    def where(self, mask: NDArray[np.bool_]) -> Partials:
        if mask.all():
            return self
        places = np.flatnonzero(mask) if self.places is None else self.places[mask]
        return Partials(
            self.drivers,
            {each: frozen(old[mask]) for each, old in self.rows.items()},
            {each: frozen(old[mask]) for each, old in self.times.items()},
            places,
        )
