"""Sessions: rows of a group between which no pause is longer than the gap.

The boundary is Spark's: a row that comes exactly the gap after the one before still belongs to its session.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from anabranch.kernels.compiled import compiled
from anabranch.kernels.fold import Slots
from anabranch.kernels.groups import Codes
from anabranch.kernels.values import frozen

Times = NDArray[np.int64]


@dataclass(frozen=True)
class Sessions:
    """A slot for each session, in the order in which they began, and the times of its first and its last row."""

    slots: Slots
    first: Times
    last: Times


def assign_sessions(codes: Codes, size: int, times: Times, gap: int, first: Times) -> Sessions:
    """The sessions of rows in the order of time, with group `codes` < `size`.

    The first len(`first`) entries are no rows, but sessions that go on, of a group each: `first` are the times of their
    first rows, `times` those of their last ones.

    >>> codes, times = np.array([0, 1, 0, 0], np.int32), np.array([5, 6, 15, 26])
    >>> found = assign_sessions(codes, 2, times, 10, first=np.zeros(0, np.int64))
    >>> found.slots.of_entry.tolist(), found.first.tolist(), found.last.tolist()
    ([0, 1, 0, 2], [5, 6, 26], [15, 6, 26])
    """
    of_entry, code, begun, ended = _assign(frozen(codes), size, frozen(times), gap, frozen(first))
    return Sessions(Slots(of_entry, code, np.array([0, len(code)])), begun, ended)


@compiled
def _assign(codes, size, times, gap, first):  # type: ignore[no-untyped-def]
    slot_of_group = np.full(size, -1, np.int32)
    slots = np.empty(len(codes), np.int32)
    code_of_slot = np.empty(len(codes), np.int32)
    begun = np.empty(len(codes), np.int64)
    ended = np.empty(len(codes), np.int64)
    count = 0
    for i in range(len(codes)):
        slot = slot_of_group[codes[i]]
        if slot < 0 or times[i] - ended[slot] > gap:
            slot = count
            slot_of_group[codes[i]] = slot
            code_of_slot[slot] = codes[i]
            begun[slot] = first[i] if i < len(first) else times[i]
            count += 1
        ended[slot] = times[i]
        slots[i] = slot
    return slots, code_of_slot[:count].copy(), begun[:count].copy(), ended[:count].copy()
