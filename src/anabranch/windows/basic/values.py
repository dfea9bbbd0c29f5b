"""Values of any ordered SQL type as int64 codes of the same order: what indices work on.

Types with order numbers (`kernels.values`) need no memory. For the others (text, bytes, decimals)
a code is a label from a sorted list of the values seen: a new value gets a label between those of
its neighbours, and when there is no room left all values get new labels, evenly spread.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from anabranch.kernels.values import (
    Column,
    float_order,
    floats,
    from_order_numbers,
    frozen,
    has_order_number,
    one_array,
    order_numbers,
)

Codes = NDArray[np.int64]

_SPACING = 1 << 32
_END = 1 << 62


class Rekey(NamedTuple):
    """Codes that changed: `old`, ascending, became `new`, ascending."""

    old: Codes
    new: Codes

    def of(self, codes: Codes) -> Codes:
        """What these old codes are now."""
        return self.new[np.searchsorted(self.old, codes)]


class Domain:
    """The values of one column and their codes.

    >>> words = Domain(pa.string())
    >>> codes, _ = words.encode(pa.array(["sea", "bay", "sea"]))
    >>> words.decode(np.sort(codes)).to_pylist()
    ['bay', 'sea', 'sea']
    """

    def __init__(self, type_: pa.DataType, spacing: int = _SPACING) -> None:
        self.type = type_
        self.remapping = not has_order_number(type_)
        """Whether codes are labels, which may change when new values come in."""
        self._spacing = spacing
        self._values: pa.Array = pa.array([], type_) if self.remapping else None
        self._labels: Codes = np.empty(0, np.int64)

    def __len__(self) -> int:
        """How many values are remembered."""
        return len(self._labels)

    def encode(self, column: Column) -> tuple[Codes, Rekey | None]:
        """The code of each value, and which codes given out before have changed.

        NaN is one value, the largest; -0.0 is 0.0. The column may not hold NULL.
        """
        if column.null_count:
            raise ValueError(f"{column.null_count} NULL have no code; remove them first")
        array = one_array(column)
        if self.remapping:
            return self._encode_labels(array)
        if not pa.types.is_floating(self.type):
            return order_numbers(array, 0), None
        return frozen(float_order(pa.array(floats(array) + 0.0))), None

    def find(self, column: Column) -> tuple[Codes, NDArray[np.bool_]]:
        """The code of each value and whether it has one, without learning new values."""
        if not self.remapping:
            codes, _ = self.encode(column)
            return codes, np.ones(len(codes), np.bool_)
        places, known = self._search(one_array(column))
        return self._labels[places] if len(self) else np.zeros(len(places), np.int64), known

    def decode(self, codes: Codes) -> pa.Array:
        """The values behind codes."""
        if self.remapping:
            return self._values.take(pa.array(np.searchsorted(self._labels, codes)))
        return from_order_numbers(np.asarray(codes, np.int64), np.ones(len(codes), np.bool_), self.type)

    def retain(self, codes: Codes) -> None:
        """Forget all values but those with these codes."""
        if self.remapping:
            keep = np.isin(self._labels, codes)
            self._values = self._values.filter(pa.array(keep))
            self._labels = self._labels[keep]

    @property
    def nbytes(self) -> int:
        return int(self._labels.nbytes + (self._values.nbytes if self.remapping else 0))

    def _encode_labels(self, array: pa.Array) -> tuple[Codes, Rekey | None]:
        if array.type != self.type:
            array = array.cast(self.type)
        encoded = array.dictionary_encode()
        distinct = encoded.dictionary
        places, known = self._search(distinct)
        rekey = None
        if not known.all():
            rekey = self._learn(distinct.filter(pa.array(~known)))
            places, _ = self._search(distinct)
        labels = self._labels[places]
        return frozen(labels[encoded.indices.to_numpy()]), rekey

    def _search(self, values: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """The place of each value in the sorted list, and whether it is there; any place if not."""
        size = len(self._labels)
        if size == 0 or len(values) == 0:
            return np.zeros(len(values), np.int64), np.zeros(len(values), np.bool_)
        places = np.minimum(_insertion_places(self._values, values), size - 1)
        known: NDArray[np.bool_] = pc.equal(self._values.take(pa.array(places)), values).to_numpy(zero_copy_only=False)
        return places, known

    def _learn(self, new: pa.Array) -> Rekey | None:
        """Put new values in their places."""
        old = self._labels
        new = new.take(pc.sort_indices(new))
        is_new = np.zeros(len(old) + len(new), np.bool_)
        is_new[_insertion_places(self._values, new) + np.arange(len(new))] = True
        order = np.empty(len(is_new), np.int64)
        order[~is_new], order[is_new] = np.arange(len(old)), np.arange(len(old), len(is_new))
        self._values = pa.concat_arrays([self._values, new]).take(pa.array(order))
        labels = np.zeros(len(is_new), np.int64)
        labels[~is_new] = old
        if self._label_new(labels, is_new):
            self._labels = labels
            return None
        step = min(self._spacing, 2 * _END // (len(labels) + 1))
        self._labels = (np.arange(len(labels)) - len(labels) // 2) * step
        return Rekey(frozen(old), frozen(self._labels[~is_new])) if len(old) else None

    def _label_new(self, labels: Codes, is_new: NDArray[np.bool_]) -> bool:
        """Spread each run of new values between its neighbours; False if one does not fit."""
        edge = np.diff(is_new.astype(np.int8), prepend=0, append=0)
        first, last = np.flatnonzero(edge == 1), np.flatnonzero(edge == -1)
        runs = last - first
        low = np.where(first > 0, labels[first - 1], -_END)
        high = np.where(last < len(labels), labels[np.minimum(last, len(labels) - 1)], _END)
        # Beyond the ends new values keep their distance: halving the rest would use it up in sixty steps.
        above = (last == len(labels)) & (_END - low > (runs + 1) * self._spacing) & (first > 0)
        high[above] = low[above] + (runs[above] + 1) * self._spacing
        below = (first == 0) & (high + _END > (runs + 1) * self._spacing) & (last < len(labels))
        low[below] = high[below] - (runs[below] + 1) * self._spacing
        step = (high - low) // (runs + 1)
        if len(labels) == runs.sum() or step.min() < 1:
            return False
        within = np.arange(runs.sum()) - np.repeat(np.cumsum(runs) - runs, runs)
        labels[is_new] = np.repeat(low, runs) + np.repeat(step, runs) * (within + 1)
        return True


def _insertion_places(ascending: pa.Array, values: pa.Array) -> NDArray[np.int64]:
    """How many of the ascending values are less than each of the others."""
    if not pa.types.is_decimal(ascending.type):
        return np.asarray(pc.search_sorted(ascending, values).to_numpy(), np.int64)
    # Arrow does not search decimals, but it sorts them, and stably.
    order = pc.sort_indices(pa.concat_arrays([values, ascending])).to_numpy()
    is_value = order < len(values)
    places = np.empty(len(values), np.int64)
    places[order[is_value]] = np.cumsum(~is_value)[is_value]
    return places
