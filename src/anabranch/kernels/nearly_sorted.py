"""Sorting what is nearly in order: what fits stays, what does not is sorted aside and merged back in.

Streams that are read for a merge are mostly in order (M. Mazzucco et al., 2002, §4.1). A record that
does not fit is set aside; if many in a row do not fit and few stand in their way, those were too early
and are set aside instead. Keys are a matrix as in `exact`, compared one after the other.
"""

from __future__ import annotations

import numpy as np

from anabranch.kernels.compiled import compiled
from anabranch.kernels.exact import is_below

_SHORT = 16
"""Pieces of this length are sorted by insertion."""
_IN_A_ROW = 8
"""So many records set aside one after the other cast doubt on those they do not fit behind."""


@compiled
def comes_before(keys, i, j):  # type: ignore[no-untyped-def]
    """Whether record i stands before record j: by keys, then by place."""
    for k in range(keys.shape[0]):
        if is_below(keys, k, i, keys, k, j):
            return True
        if is_below(keys, k, j, keys, k, i):
            return False
    return i < j


@compiled
def _runs(keys, places, count, bounds):  # type: ignore[no-untyped-def]
    """Cut the places into runs in order, each of a least length; gives how many, and where they begin."""
    runs, i = 0, 0
    while i < count:
        begin, i = i, i + 1
        if i < count and comes_before(keys, places[i], places[i - 1]):
            i += 1
            while i < count and comes_before(keys, places[i], places[i - 1]):
                i += 1
            low, high = begin, i - 1
            while low < high:
                places[low], places[high] = places[high], places[low]
                low, high = low + 1, high - 1
        while i < count and comes_before(keys, places[i - 1], places[i]):
            i += 1
        end = min(begin + _SHORT, count)
        while i < end:
            place, at = places[i], i
            while at > begin and comes_before(keys, place, places[at - 1]):
                places[at] = places[at - 1]
                at -= 1
            places[at] = place
            i += 1
        bounds[runs] = begin
        runs += 1
    bounds[runs] = count
    return runs


@compiled
def sort_fully(keys, places, count):  # type: ignore[no-untyped-def]
    """Sort the first `count` places by the keys of their records: runs that are in order are merged."""
    bounds = np.empty(count // _SHORT + 2, np.int64)
    runs = _runs(keys, places, count, bounds)
    if runs < 2:
        return
    source, target, swapped = places, np.empty(count, np.int64), False
    while runs > 1:
        merged = 0
        for run in range(0, runs, 2):
            begin, end = bounds[run], bounds[min(run + 2, runs)]
            i, middle, n = begin, bounds[run + 1], begin
            j = middle
            while i < middle and j < end:
                if comes_before(keys, source[j], source[i]):
                    target[n] = source[j]
                    j += 1
                else:
                    target[n] = source[i]
                    i += 1
                n += 1
            for k in range(i, middle):
                target[n + k - i] = source[k]
            n += middle - i
            for k in range(j, end):
                target[n + k - j] = source[k]
            bounds[merged] = begin
            merged += 1
        bounds[merged] = count
        runs = merged
        source, target, swapped = target, source, not swapped
    if swapped:
        for i in range(count):
            places[i] = source[i]


@compiled
def first_behind(keys, ordered, count, place):  # type: ignore[no-untyped-def]
    """The first of sorted places that a record stands before."""
    low, high = 0, count
    while low < high:
        middle = (low + high) >> 1
        if comes_before(keys, place, ordered[middle]):
            high = middle
        else:
            low = middle + 1
    return low


@compiled
def split_nearly_sorted(keys, places, count, spine, aside):  # type: ignore[no-untyped-def]
    """The first `count` places as two lists sorted by the keys of their records.

    `spine` has most of them where they are nearly in order, `aside` the rest; both need room for all.
    Gives the lengths of the two.
    """
    kept, set_aside, in_a_row, i = 0, 0, 0, 0
    patience, most = _IN_A_ROW, max(_IN_A_ROW, count // 2)
    while i < count:
        if kept > 0:  # as far as the first key alone decides
            last = spine[kept - 1]
            while i < count and is_below(keys, 0, last, keys, 0, places[i]):
                spine[kept] = last = places[i]
                kept += 1
                i += 1
                in_a_row, patience = 0, _IN_A_ROW
            if i == count:
                break
        place = places[i]
        if kept == 0 or not comes_before(keys, place, spine[kept - 1]):
            spine[kept] = place
            kept += 1
            in_a_row, patience = 0, _IN_A_ROW
        elif in_a_row == 0 and kept > 1 and not comes_before(keys, place, spine[kept - 2]):
            # Only the last one stands in the way: it came too early.
            aside[set_aside] = spine[kept - 1]
            set_aside += 1
            spine[kept - 1] = place
        else:
            aside[set_aside] = place
            set_aside += 1
            in_a_row += 1
            if in_a_row == patience:
                # Either they are late, or what they do not fit behind came early: the fewer are set aside.
                least = aside[set_aside - 1]
                for j in range(set_aside - in_a_row, set_aside - 1):
                    if comes_before(keys, aside[j], least):
                        least = aside[j]
                early = kept - first_behind(keys, spine, kept, least)
                if early <= in_a_row:
                    i -= in_a_row
                    set_aside -= in_a_row
                    for j in range(kept - early, kept):
                        aside[set_aside] = spine[j]
                        set_aside += 1
                    kept -= early
                    in_a_row, patience = 0, _IN_A_ROW
                else:
                    patience *= 2
        if set_aside > most:
            for j in range(count):
                spine[j] = places[j]
            sort_fully(keys, spine, count)
            return count, 0
        i += 1
    sort_fully(keys, aside, set_aside)
    return kept, set_aside


@compiled
def merge_sorted(keys, left, left_count, right, right_count, out):  # type: ignore[no-untyped-def]
    """Two sorted lists of places as one; quick if the second has few."""
    i, n = 0, 0
    for j in range(right_count):
        place = right[j]
        # Those of the first list that stand before it, found by galloping.
        step, low = 1, i
        while low + step <= left_count and not comes_before(keys, place, left[low + step - 1]):
            low += step
            step *= 2
        high = min(left_count, low + step)
        while low < high:
            middle = (low + high) >> 1
            if comes_before(keys, place, left[middle]):
                high = middle
            else:
                low = middle + 1
        for k in range(i, low):
            out[n + k - i] = left[k]
        n += low - i
        i = low
        out[n] = place
        n += 1
    for k in range(i, left_count):
        out[n + k - i] = left[k]
    return n + left_count - i
