"""Joining by a band without an equality: rows are chained by the cell that their value lies in.

Cells are as wide as the band, so what a value can meet lies in two or three of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.kernels.values import Column, frozen, integers, valid
from anabranch.operators.join.conditions import Band, Equality
from anabranch.operators.join.keys import cells, doubles
from anabranch.operators.join.partials import Partials
from anabranch.operators.join.rows import SourceRows
from anabranch.operators.join.steps import HashStep, Ints, Pairs, ScanStep, other_side, side_of


class BandStep(HashStep):
    """Candidates by cell.

    Sums and differences of integers wrap round in Spark. Values so far out that they could are
    compared one by one.
    """

    name = "band"

    def __init__(self, source: int, sources: Sequence[SourceRows], memory: int, band: Band) -> None:
        super().__init__(source, sources, memory, [Equality(band.sides, "numbers", None)])
        own, other = side_of(band.sides, source), other_side(band.sides, source)
        self._own_side, self._other_side = own, other
        # own between other − below and other + above; seen from the other side the two change places
        below, above = (band.below, band.above) if own is band.sides[0] else (band.above, band.below)
        types = (own.value.type, other.value.type)
        self._whole = all(pa.types.is_integer(each) for each in types)
        if self._whole:
            below, above = math.ceil(below), math.ceil(above)
            bits = min(each.bit_width for each in types)
            self._far = max((1 << (bits - 2)) - int(max(abs(below), abs(above))), 0)
        self._below, self._above = below, above
        self._width = max(below + above, 1) if self._whole else below + above or 1.0

    @property
    def rows_by(self) -> str:
        return f"{super().rows_by} in cells of {self._width!r}"

    def _cells(self, column: Column) -> tuple[Ints, Ints, Ints, bool]:
        """Of each value its cell, the first and the last cell of what it can meet; and whether some are far out."""
        if self._whole:
            whole = integers(column)
            far = len(whole) > 0 and (int(whole.max()) > self._far or int(whole.min()) < -self._far)
            below, above, width = int(self._below), int(self._above), int(self._width)
            return whole // width, (whole - below) // width, (whole + above) // width, far
        values = doubles(column)
        slack = 2 * np.spacing(np.abs(values)) + self._width * 1e-9  # for what adding has rounded
        with np.errstate(invalid="ignore"):
            first, last = values - self._below - slack, values + self._above + slack
        return cells(values, self._width), cells(first, self._width), cells(last, self._width), False

    def _candidates(self, partials: Partials, low: Ints, high: Ints) -> Iterator[Pairs]:
        if self._cells(partials.value(self._other_side, self._sources))[3]:
            yield from ScanStep(self.source, self._sources, self._memory).candidates(partials, low, high)
        else:
            yield from super()._candidates(partials, low, high)

    def _asked(self, partials: Partials, low: Ints, high: Ints) -> tuple[Ints | None, Ints, Ints, Ints]:
        column = partials.value(self._other_side, self._sources)
        _, first, last, _ = self._cells(column)
        present: NDArray[np.bool_] = (low < high) & valid(column)
        counts = np.where(present, last - first + 1, 0)
        places = np.repeat(np.arange(len(first)), counts)
        within = np.arange(len(places)) - np.repeat(np.cumsum(counts) - counts, counts)
        return places, frozen(first[places] + within), frozen(low[places]), frozen(high[places])

    def _keys(self, low: int, high: int) -> Pairs:
        if low >= high:
            return frozen(np.zeros(0, np.int64)), frozen(np.zeros(0, np.int64))
        kept = self._own.partners(low, high, self._columns)
        column = self._own_side.value.evaluate(kept.table)
        keys, _, _, far = self._cells(column)
        if far and self._index is not None:
            self._index.odd = True
        present = valid(column)
        return frozen(keys[present]), frozen(kept.rows[present])
