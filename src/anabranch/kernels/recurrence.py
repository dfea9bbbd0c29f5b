"""How often the keys of live rows occur in a slice of history that moves along with them.

Both come in order of time, so the slice is a queue: rows enter at its new end and leave at the old one, and
each key's rows are counted as they do. A live row costs one look, however many rows of its key there are.
"""

from __future__ import annotations

import numpy as np

from anabranch.kernels.compiled import compiled

LOW, HIGH = range(2)
"""Places in the state of a slice: the rows from LOW up to HIGH are counted."""


@compiled
def count_recurring(counts, codes, times, state, live_codes, live_times, ago, within, met):  # type: ignore[no-untyped-def]
    """For each live row, the rows of its key that are `within` so much of `ago` before it.

    `codes` and `times` are those of the slice, `counts` has the rows by code that are counted at the start and
    is left with those at the end. The code of a live row is -1 if no row of the slice has its key.
    """
    low, high = state[LOW], state[HIGH]
    for i in range(len(live_codes)):
        newest = live_times[i] - ago + within
        while high < len(times) and times[high] <= newest:
            counts[codes[high]] += 1
            high += 1
        oldest = live_times[i] - ago - within
        while low < high and times[low] < oldest:
            counts[codes[low]] -= 1
            low += 1
        if live_codes[i] >= 0:
            met[i] = counts[live_codes[i]]
    state[LOW], state[HIGH] = low, high


@compiled
def look_up(slots, known, hashed, size, add, codes, firsts):  # type: ignore[no-untyped-def]
    """The code that each hash has in a table with open addresses, -1 if it has none.

    `slots` are codes, `known` has the hash of each code. With `add`, a hash that has none gets the next code, from
    `size` on, and `firsts` says at which place it stands; gives how many codes were given. The table's size is a
    power of two, and it has room for all.
    """
    mask = len(slots) - 1
    given = 0
    for i in range(len(hashed)):
        at = np.int64(hashed[i] & np.uint64(mask))
        code = slots[at]
        while code >= 0 and known[code] != hashed[i]:
            at = (at + 1) & mask
            code = slots[at]
        if code < 0 and add:
            code = size + given
            slots[at], known[code] = code, hashed[i]
            firsts[given] = i
            given += 1
        codes[i] = code
    return given


@compiled
def enter(slots, known, size):  # type: ignore[no-untyped-def]
    """Enter the codes below `size` in an empty table."""
    mask = len(slots) - 1
    for code in range(size):
        at = np.int64(known[code] & np.uint64(mask))
        while slots[at] >= 0:
            at = (at + 1) & mask
        slots[at] = code
