"""Sorting what is nearly in order: what fits stays, what does not is sorted aside and merged back in.

Streams that are read for a merge are mostly in order (M. Mazzucco et al., 2002, §4.1). A record that
does not fit is set aside; if several in a row do not fit, the one before them was too early and is set
aside instead. Keys are a matrix with one row for each key, compared one after the other.
"""

from __future__ import annotations

import numpy as np

from anabranch.kernels.compiled import compiled

_SHORT = 16
"""Pieces of this length are sorted by insertion."""
_IN_A_ROW = 8
"""So many records set aside one after the other cast doubt on the one they were compared with."""


@compiled
def comes_before(keys, i, j):  # type: ignore[no-untyped-def]
    """Whether record i stands before record j: by keys, then by place."""
    for k in range(keys.shape[0]):
        x, y = keys[k, i], keys[k, j]
        if x < y:
            return True
        if x > y:
            return False
    return i < j


@compiled
def sort_fully(keys, places, count):  # type: ignore[no-untyped-def]
    """Sort the first `count` places by the keys of their records."""
    source, target = places, np.empty(count, np.int64)
    for begin in range(0, count, _SHORT):
        for i in range(begin + 1, min(begin + _SHORT, count)):
            place, at = source[i], i
            while at > begin and comes_before(keys, place, source[at - 1]):
                source[at] = source[at - 1]
                at -= 1
            source[at] = place
    run = _SHORT
    while run < count:
        for begin in range(0, count, 2 * run):
            i, j, n = begin, min(begin + run, count), begin
            middle, end = j, min(begin + 2 * run, count)
            while n < end:
                if j == end or (i < middle and comes_before(keys, source[i], source[j])):
                    target[n] = source[i]
                    i += 1
                else:
                    target[n] = source[j]
                    j += 1
                n += 1
        for i in range(count):
            source[i] = target[i]
        run *= 2


@compiled
def split_nearly_sorted(keys, places, count, spine, aside):  # type: ignore[no-untyped-def]
    """The first `count` places as two lists sorted by the keys of their records.

    `spine` has most of them where they are nearly in order, `aside` the rest; both need room for all.
    Gives the lengths of the two.
    """
    kept, set_aside, in_a_row, i = 0, 0, 0, 0
    most = max(_IN_A_ROW, count // 2)
    while i < count:
        place = places[i]
        if kept == 0 or not comes_before(keys, place, spine[kept - 1]):
            spine[kept] = place
            kept += 1
            in_a_row = 0
        elif in_a_row == 0 and kept > 1 and not comes_before(keys, place, spine[kept - 2]):
            # Only the last one stands in the way: it came too early.
            aside[set_aside] = spine[kept - 1]
            set_aside += 1
            spine[kept - 1] = place
        elif in_a_row < _IN_A_ROW:
            aside[set_aside] = place
            set_aside += 1
            in_a_row += 1
        else:
            # They belong together, and what they did not fit behind was too early.
            i -= in_a_row
            set_aside -= in_a_row
            in_a_row = 0
            least = places[i]
            for j in range(i + 1, i + _IN_A_ROW):
                if comes_before(keys, places[j], least):
                    least = places[j]
            kept -= 1
            aside[set_aside] = spine[kept]
            set_aside += 1
            while kept > 0 and comes_before(keys, least, spine[kept - 1]) and set_aside <= most:
                kept -= 1
                aside[set_aside] = spine[kept]
                set_aside += 1
            continue
        if set_aside > most:
            for j in range(count):
                spine[j] = places[j]
            sort_fully(keys, spine, count)
            return count, 0
        i += 1
    sort_fully(keys, aside, set_aside)
    return kept, set_aside


@compiled
def merge_sorted(keys, one, ones, other, others, out):  # type: ignore[no-untyped-def]
    """Two sorted lists of places as one."""
    i, j, n = 0, 0, 0
    while i < ones and j < others:
        if comes_before(keys, other[j], one[i]):
            out[n] = other[j]
            j += 1
        else:
            out[n] = one[i]
            i += 1
        n += 1
    while i < ones:
        out[n] = one[i]
        i += 1
        n += 1
    while j < others:
        out[n] = other[j]
        j += 1
        n += 1
    return n
