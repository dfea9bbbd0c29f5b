"""Joining by a band without an equality: rows are chained by the cell that their value lies in.

Cells are as wide as the band, so what a value can meet lies in two or three of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.kernels.chains import ChainEntries, Probes
from anabranch.kernels.values import Column, float_order, from_float_order, frozen, integers, valid
from anabranch.operators.join.conditions import Band, Equality
from anabranch.operators.join.keys import cells_of, doubles, is_single
from anabranch.operators.join.partials import PartialResults
from anabranch.operators.join.rows import SourceRows
from anabranch.operators.join.steps import HashStep, Ints, Pairs, ScanStep, other_side, side_of
from anabranch.windows.index.chains import ChainIndex

_MOST_CELLS = 128
"""Cells side by side are in different buckets of an index; this many surely are."""


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
        self._single = is_single(types)
        self._whole = all(pa.types.is_integer(type_) for type_ in types)
        if self._whole:
            below, above = math.ceil(below), math.ceil(above)
            bits = min(type_.bit_width for type_ in types)
            self._far = max((1 << (bits - 2)) - int(max(abs(below), abs(above))), 0)
        self._below, self._above = below, above
        self._width = max(below + above, 1) if self._whole else below + above or 1.0

    @property
    def rows_by(self) -> str:
        return f"{super().rows_by} in cells of {self._width!r}"

    def _new_index(self, first_row: int, room: int) -> ChainIndex:
        return ChainIndex(first_row, self._memory, room, self._cells)

    def _cells(self, keys: Ints) -> Ints:
        """The cells of values, which are given by their order numbers (see `kernels.values`)."""
        if self._whole:
            cells: Ints = keys // int(self._width)
            return cells
        return cells_of(from_float_order(keys), self._width)

    def _asked_range(self, column: Column) -> tuple[Ints, Ints, bool]:
        """The order numbers from which and to which values can meet; and whether some are too far out."""
        if self._whole:
            values = integers(column)
            return values - int(self._below), values + int(self._above), self._is_far(values)
        doubled = doubles(column, single=self._single)
        ulps, share = (np.abs(doubled).astype(np.float32), 1e-6) if self._single else (np.abs(doubled), 1e-9)
        with np.errstate(invalid="ignore"):
            # for what adding has rounded; infinity stays what it is
            slack = np.where(np.isfinite(doubled), 2.0 * np.spacing(ulps) + self._width * share, 0.0)
            first, last = doubled - self._below - slack, doubled + self._above + slack
        return float_order(pa.array(first)), float_order(pa.array(last)), False

    def _is_far(self, values: Ints) -> bool:
        return len(values) > 0 and (int(values.max()) > self._far or int(values.min()) < -self._far)

    def _candidates(self, partials: PartialResults, low: Ints, high: Ints) -> Iterator[Pairs]:
        least, most, far = self._asked_range(partials.value(self._other_side, self._sources))
        if far or (len(least) and int((self._cells(most) - self._cells(least)).max()) >= _MOST_CELLS):
            yield from ScanStep(self.source, self._sources, self._memory).candidates(partials, low, high)
        else:
            yield from super()._candidates(partials, low, high)

    def _asked(self, partials: PartialResults, low: Ints, high: Ints) -> tuple[Ints | None, Probes]:
        column = partials.value(self._other_side, self._sources)
        least, most, _ = self._asked_range(column)
        first, last = self._cells(least), self._cells(most)
        present: NDArray[np.bool_] = (low < high) & valid(column)
        counts = np.where(present, last - first + 1, 0)
        places = np.repeat(np.arange(len(first)), counts)
        within = np.arange(len(places)) - np.repeat(np.cumsum(counts) - counts, counts)
        columns = (first[places] + within, least[places], most[places], low[places], high[places])
        return places, Probes.of(*(frozen(column) for column in columns))

    def _entries(self, low: int, high: int) -> ChainEntries:
        kept = self._own.partners(low, max(low, high), self._columns)
        column = self._own_side.value.evaluate(kept.table)
        keys = integers(column) if self._whole else float_order(pa.array(doubles(column, single=self._single)))
        if self._whole and self._is_far(keys) and self._index is not None:
            self._index.odd = True
        present = valid(column)
        keys = keys[present]
        return ChainEntries(frozen(self._cells(keys)), frozen(keys), frozen(kept.rows[present]))
