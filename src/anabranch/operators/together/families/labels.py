"""What rows are folded by, where members ask for ranges of one column.

Where a column has few values each is folded by itself; where it has many, by the cells between the ends that members
name, each labelled with its lower end. So no more is kept than there are values or cells, and which of the two is only
a matter of cost, as an entry says itself what lies in it: the least and the largest of its values. One that an end of
some member cuts in two cannot answer that member; that happens where members come with new ends, and then the window is
folded once more (`families.folded`). Labels do not depend on who else is there: what was kept under other ends is found
again.

Text is folded by value.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from anabranch.expressions.atoms import Atom
from anabranch.kernels.ends import NULL, Codes, Ends
from anabranch.kernels.values import Column, compared_numbers, one_array, valid
from anabranch.operators.together.coding import Numbers, Spans, Texts, whole
from anabranch.windows.cost import estimated_distinct

_SAMPLE = 4096
_FEW = 1024
"""So many values are folded one by one whatever the ends are, and above four for each cell."""
_ROWS_PER_VALUE = 8
"""If values come back as often as that in a block of rows, the next ones will bring few others."""
_LEAST = -(2**63)


class Labels(Protocol):
    """How rows are labelled, and what labels mean to members."""

    @property
    def type(self) -> pa.DataType: ...

    @property
    def has_extent(self) -> bool:
        """Whether the least and the largest number of the rows of an entry is to be kept beside it."""
        ...

    def spans(self, atoms: Sequence[Atom]) -> list[Spans]:
        """The codes that each atom wants."""
        ...

    def of(self, column: Column) -> pa.Array:
        """The label of each row."""
        ...

    def codes(self, labels: Column, extent: Sequence[NDArray[np.int64]]) -> Codes | None:
        """The code of each entry; None if an end lies within one of them."""
        ...


class NumberLabels:
    """Labels of numbers, dates, times and booleans: numbers of the same order."""

    type = pa.int64()

    def __init__(self, atoms: Sequence[Atom], has_extent: bool) -> None:
        self._ends = Numbers(atoms).ends
        self._among = Ends(self._ends)
        self.has_extent = has_extent
        self._lows = np.append(_LEAST, self._ends)

    def of(self, column: Column) -> pa.Array:
        numbers = compared_numbers(column, 0)
        if self.has_extent and not self._are_few(numbers):
            numbers = self._lows[self._among.codes(numbers)]
        return pa.array(numbers, mask=~valid(column) if column.null_count else None)

    def _are_few(self, numbers: NDArray[np.int64]) -> bool:
        if len(numbers) == 0:
            return True
        sample = numbers[:: max(1, len(numbers) // _SAMPLE)]
        values = estimated_distinct(len(np.unique(sample)), len(sample), most=len(numbers))
        return values * _ROWS_PER_VALUE <= len(numbers) and values <= max(_FEW, 4 * len(self._lows))

    def codes(self, labels: Column, extent: Sequence[NDArray[np.int64]]) -> Codes | None:
        null = ~valid(labels)
        if not self.has_extent:
            return self._among.codes(compared_numbers(labels, 0), null)
        first, last = (self._among.codes(numbers, null) for numbers in extent)
        return first if np.array_equal(first, last) else None

    def spans(self, atoms: Sequence[Atom]) -> list[Spans]:
        ranges = [ends for atom in atoms for ends in atom.ranges]
        lows, highs = (np.array([ends[side] or 0 for ends in ranges], np.int64) for side in (0, 1))
        first, last = np.searchsorted(self._ends, lows, "right"), np.searchsorted(self._ends, highs)
        first[[low is None for low, _ in ranges]] = 0
        last[[high is None for _, high in ranges]] = len(self._ends)
        pairs = zip(first.tolist(), last.tolist(), strict=True)
        null = [(NULL, NULL)]
        return [whole((null if atom.null else []) + list(itertools.islice(pairs, len(atom.ranges)))) for atom in atoms]


class TextLabels:
    """Labels of text: the text."""

    type = pa.binary()
    has_extent = False

    def __init__(self, atoms: Sequence[Atom]) -> None:
        self._coding = Texts(atoms)

    def of(self, column: Column) -> pa.Array:
        return one_array(pc.cast(column, pa.binary()))

    def codes(self, labels: Column, extent: Sequence[NDArray[np.int64]]) -> Codes | None:
        return self._coding.codes(labels)

    def spans(self, atoms: Sequence[Atom]) -> list[Spans]:
        return [self._coding.spans(atom) for atom in atoms]


def labels_of(type_: pa.DataType, atoms: Sequence[Atom], by_value: bool) -> Labels:
    """Labels of a column of a type; `by_value`: each value by itself, however many there are."""
    if pa.types.is_string(type_):
        return TextLabels(atoms)
    return NumberLabels(atoms, has_extent=not by_value)


def numbers_of(column: Column) -> pa.Array:
    """The numbers whose extent an entry keeps."""
    return pa.array(compared_numbers(column, 0), mask=~valid(column) if column.null_count else None)


def is_point(atom: Atom) -> bool:
    """Whether an atom asks for one value, or for NULL."""
    if atom.computed or atom.null or len(atom.ranges) != 1:
        return atom.null and not atom.ranges
    low, high = atom.ranges[0]
    if low is None:
        return False
    return high == (f"{low}00" if isinstance(low, str) else low + 1)
