"""Running folds of count, sum, min, max and variance, one accumulator per (segment, group).

Entries come in segments (the rows of a pane, or the partial answers a window is made of).
`assign_slots` gives every (segment, group) a slot in order of first appearance; a *state* then
folds the entries into the slots strictly in order. A fold that was interrupted goes on from the
accumulators it left (the seed) and reaches the same bits, also for floating point sums.

Variance: B. P. Welford (1962) inside a segment; T. F. Chan, G. H. Golub and R. J. LeVeque (1979)
when partial answers are combined.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.errors import QueryError
from anabranch.kernels.compiled import compiled
from anabranch.kernels.groups import Codes
from anabranch.kernels.values import Column, floats, frozen, integers, one_array, order_numbers, valid

_SMALLEST, _LARGEST = -(2**63), 2**63 - 1


@dataclass(frozen=True)
class Slots:
    """Where each entry is folded to, and what each slot stands for."""

    of_entry: NDArray[np.int32]
    code: Codes
    bounds: NDArray[np.int64]
    """Segment i has the slots bounds[i] ≤ slot < bounds[i + 1]."""

    @property
    def count(self) -> int:
        return len(self.code)

    def segments(self) -> NDArray[np.int64]:
        """The segment of each slot."""
        return np.repeat(np.arange(len(self.bounds) - 1), np.diff(self.bounds))


def assign_slots(codes: Codes, bounds: NDArray[np.int64], size: int) -> Slots:
    """Slots for entries with group `codes` < `size`; segment i is the entries bounds[i]..bounds[i + 1]."""
    return Slots(*_assign(codes, bounds, size))


class State(Protocol):
    """What is kept per slot for one aggregate: one or more columns, folded in order."""

    types: tuple[pa.DataType, ...]

    def fold(self, slots: Slots, seed: Sequence[pa.Array], values: Column | None) -> list[pa.Array]:
        """Fold values into slots; the first len(seed) entries of `slots` are the seed's own."""
        ...

    def combine(self, slots: Slots, partials: Sequence[pa.Array]) -> list[pa.Array]:
        """Fold partial states, one per entry, into slots."""
        ...


class Count:
    """Entries, or those that are not NULL."""

    types = (pa.int64(),)

    def fold(self, slots: Slots, seed: Sequence[pa.Array], values: Column | None) -> list[pa.Array]:
        counts, into = _seeded(slots, seed[0], np.int64)
        if values is None or values.null_count == 0:
            _count(counts, into)
        else:
            _add_integers(counts, into, frozen(valid(values).astype(np.int64)))
        return [pa.array(counts)]

    def combine(self, slots: Slots, partials: Sequence[pa.Array]) -> list[pa.Array]:
        counts = np.zeros(slots.count, np.int64)
        _add_integers(counts, slots.of_entry, integers(partials[0]))
        return [pa.array(counts)]


class IntegerSum:
    """Sum of integers in 64 bits; one that does not fit is an error, never a wrong number."""

    types = (pa.int64(),)

    def fold(self, slots: Slots, seed: Sequence[pa.Array], values: Column | None) -> list[pa.Array]:
        assert values is not None
        sums, into = _seeded(slots, seed[0], np.int64)
        return self._checked(sums, into, integers(values))

    def combine(self, slots: Slots, partials: Sequence[pa.Array]) -> list[pa.Array]:
        return self._checked(np.zeros(slots.count, np.int64), slots.of_entry, integers(partials[0]))

    def _checked(self, sums: NDArray[np.int64], into: NDArray[np.int32], values: NDArray[np.int64]) -> list[pa.Array]:
        if not self._add(sums, into, values):
            raise overflow("BIGINT", "sum(CAST(… AS DECIMAL(38, 0)))")
        return [pa.array(sums)]

    def _add(self, sums: NDArray[np.int64], into: NDArray[np.int32], values: NDArray[np.int64]) -> bool:
        """Add up, and say whether every sum on the way fitted; one that did not wrapped around."""
        fits: bool = _add_integers(sums, into, values)
        return fits


class FloatSum:
    """Sum of doubles, added strictly in order."""

    types = (pa.float64(),)

    def fold(self, slots: Slots, seed: Sequence[pa.Array], values: Column | None) -> list[pa.Array]:
        assert values is not None
        sums, into = _seeded(slots, seed[0], np.float64)
        _add_floats(sums, into, floats(values))
        return [pa.array(sums)]

    def combine(self, slots: Slots, partials: Sequence[pa.Array]) -> list[pa.Array]:
        sums = np.zeros(slots.count, np.float64)
        _add_floats(sums, slots.of_entry, floats(partials[0]))
        return [pa.array(sums)]


class Extreme:
    """Smallest or largest order number (see `kernels.values`); what it says of no value is for `Count` to tell."""

    types = (pa.int64(),)

    def __init__(self, largest: bool) -> None:
        self._largest = largest
        self._none = _SMALLEST if largest else _LARGEST

    def fold(self, slots: Slots, seed: Sequence[pa.Array], values: Column | None) -> list[pa.Array]:
        assert values is not None
        extremes, into = _seeded(slots, seed[0], np.int64, self._none)
        return self._fold(extremes, into, order_numbers(values, self._none))

    def combine(self, slots: Slots, partials: Sequence[pa.Array]) -> list[pa.Array]:
        extremes = np.full(slots.count, self._none, np.int64)
        return self._fold(extremes, slots.of_entry, integers(partials[0]))

    def _fold(self, extremes: NDArray[np.int64], into: NDArray[np.int32], values: NDArray[np.int64]) -> list[pa.Array]:
        (_largest if self._largest else _smallest)(extremes, into, values)
        return [pa.array(extremes)]


class Moments:
    """Count, mean and sum of squared differences from the mean."""

    types = (pa.int64(), pa.float64(), pa.float64())

    def fold(self, slots: Slots, seed: Sequence[pa.Array], values: Column | None) -> list[pa.Array]:
        assert values is not None
        n, into = _seeded(slots, seed[0], np.int64)
        mean, _ = _seeded(slots, seed[1], np.float64)
        m2, _ = _seeded(slots, seed[2], np.float64)
        _welford(n, mean, m2, into, floats(values), frozen(valid(values)))
        return [pa.array(n), pa.array(mean), pa.array(m2)]

    def combine(self, slots: Slots, partials: Sequence[pa.Array]) -> list[pa.Array]:
        n, mean, m2 = np.zeros(slots.count, np.int64), np.zeros(slots.count), np.zeros(slots.count)
        _chan(n, mean, m2, slots.of_entry, integers(partials[0]), floats(partials[1]), floats(partials[2]))
        return [pa.array(n), pa.array(mean), pa.array(m2)]


class Exact:
    """Arrow's own min, max or decimal sum: exact, so the order of the entries does not matter."""

    def __init__(self, function: str, type_: pa.DataType) -> None:
        self.function = function
        self.types = (type_,)

    def fold(self, slots: Slots, seed: Sequence[pa.Array], values: Column | None) -> list[pa.Array]:
        assert values is not None
        return self.combine(slots, [pa.concat_arrays([seed[0], one_array(values).cast(self.types[0])])])

    def combine(self, slots: Slots, partials: Sequence[pa.Array]) -> list[pa.Array]:
        (wanted,) = self.types
        values = partials[0]
        if self.function == "sum":
            # Twice the width, so that a sum beyond 38 digits is seen when it is cast back.
            values = values.cast(pa.decimal256(76, wanted.scale))
        table = pa.table({"slot": slots.of_entry, "value": values})
        folded = table.group_by("slot", use_threads=False).aggregate([("value", self.function)])
        at = np.empty(slots.count, np.int64)
        at[folded.column("slot").to_numpy()] = np.arange(slots.count)
        try:
            return [one_array(folded.column(f"value_{self.function}").take(pa.array(at)).cast(wanted))]
        except pa.ArrowInvalid:
            raise overflow(f"DECIMAL(38,{wanted.scale})", "sum(CAST(… AS DOUBLE))") from None


def overflow(wanted: str, instead: str) -> QueryError:
    """What to raise where a sum has no room in its type, and what can be written instead."""
    return QueryError("SUM_OVERFLOW", f"a sum does not fit {wanted}", hint=f"write {instead}")


def _seeded(slots: Slots, seed: pa.Array, dtype: type, start: int = 0) -> tuple[NDArray[Any], NDArray[np.int32]]:
    """Accumulators that begin with the seed, and the slots of the entries that follow it."""
    accumulators: NDArray[Any] = np.full(slots.count, start, dtype)
    accumulators[: len(seed)] = seed.to_numpy()
    return accumulators, slots.of_entry[len(seed) :]


@compiled
def _assign(codes, bounds, size):  # type: ignore[no-untyped-def]
    slot_of_group = np.full(size, -1, np.int32)
    slots = np.empty(len(codes), np.int32)
    code_of_slot = np.empty(len(codes), np.int32)
    slot_bounds = np.empty(len(bounds), np.int64)
    count = 0
    for segment in range(len(bounds) - 1):
        first = count
        slot_bounds[segment] = first
        for i in range(bounds[segment], bounds[segment + 1]):
            slot = slot_of_group[codes[i]]
            if slot < first:
                slot = count
                slot_of_group[codes[i]] = slot
                code_of_slot[slot] = codes[i]
                count += 1
            slots[i] = slot
    slot_bounds[len(bounds) - 1] = count
    return slots, code_of_slot[:count].copy(), slot_bounds


@compiled
def _count(counts, slots):  # type: ignore[no-untyped-def]
    for i in range(len(slots)):
        counts[slots[i]] += 1


@compiled
def _add_integers(sums, slots, values):  # type: ignore[no-untyped-def]
    fits = True
    for i in range(len(slots)):
        before = sums[slots[i]]
        after = before + values[i]
        if ((before ^ after) & (values[i] ^ after)) < 0:
            fits = False
        sums[slots[i]] = after
    return fits


@compiled
def _add_floats(sums, slots, values):  # type: ignore[no-untyped-def]
    for i in range(len(slots)):
        sums[slots[i]] += values[i]


@compiled
def _smallest(extremes, slots, values):  # type: ignore[no-untyped-def]
    for i in range(len(slots)):
        if values[i] < extremes[slots[i]]:
            extremes[slots[i]] = values[i]


@compiled
def _largest(extremes, slots, values):  # type: ignore[no-untyped-def]
    for i in range(len(slots)):
        if values[i] > extremes[slots[i]]:
            extremes[slots[i]] = values[i]


@compiled
def _welford(n, mean, m2, slots, values, present):  # type: ignore[no-untyped-def]
    for i in range(len(slots)):
        if present[i]:
            s = slots[i]
            n[s] += 1
            off = values[i] - mean[s]
            mean[s] += off / n[s]
            # Values further apart than any double have, as in Spark, a spread that nobody knows.
            m2[s] += off * (values[i] - mean[s]) if np.isfinite(off) else np.nan


@compiled
def _chan(n, mean, m2, slots, more_n, more_mean, more_m2):  # type: ignore[no-untyped-def]
    for i in range(len(slots)):
        s = slots[i]
        if more_n[i] == 0:
            continue
        if n[s] == 0:
            n[s], mean[s], m2[s] = more_n[i], more_mean[i], more_m2[i]
            continue
        a, b = float(n[s]), float(more_n[i])
        off = more_mean[i] - mean[s]
        mean[s] += off * (b / (a + b))
        m2[s] += more_m2[i] + (off * off * (a * b / (a + b)) if np.isfinite(off) else np.nan)
        n[s] += more_n[i]
