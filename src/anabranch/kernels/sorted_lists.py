"""Sorted lists of (group, code) with the number of tuples before each entry: made, merged, and searched.

A list has one more number than entries: behind the last one stands how many tuples there are.
"""

from __future__ import annotations

import numpy as np

from anabranch.kernels.compiled import compiled


@compiled
def distinct_in_order(codes, groups):  # type: ignore[no-untyped-def]
    """The list of sorted tuples: distinct entries, and how many tuples come before each."""
    kept = np.empty(len(codes), np.int64)
    owners = np.empty(len(codes), np.int32)
    before = np.empty(len(codes) + 1, np.int64)
    count = 0
    for i in range(len(codes)):
        if i == 0 or codes[i] != codes[i - 1] or groups[i] != groups[i - 1]:
            kept[count] = codes[i]
            owners[count] = groups[i]
            before[count] = i
            count += 1
    before[count] = len(codes)
    return kept[:count], owners[:count], before[: count + 1]


@compiled
def merge_lists(codes, groups, before, more_codes, more_groups, more_before):  # type: ignore[no-untyped-def]
    """Two lists as one."""
    size = len(codes) + len(more_codes)
    kept = np.empty(size, np.int64)
    owners = np.empty(size, np.int32)
    tuples = np.empty(size + 1, np.int64)
    i, j, count = 0, 0, 0
    if len(codes) and len(more_codes) and groups[0] == groups[-1] == more_groups[0] == more_groups[-1]:
        # One group, as without GROUP BY: written so that it compiles to moves instead of jumps.
        owners[:] = groups[0]
        while i < len(codes) and j < len(more_codes):
            code, more_code = codes[i], more_codes[j]
            kept[count] = min(code, more_code)
            tuples[count] = before[i] + more_before[j]
            i += code <= more_code
            j += more_code <= code
            count += 1
    while i < len(codes) and j < len(more_codes):
        tuples[count] = before[i] + more_before[j]
        if groups[i] < more_groups[j] or (groups[i] == more_groups[j] and codes[i] < more_codes[j]):
            kept[count], owners[count] = codes[i], groups[i]
            i += 1
        elif groups[i] == more_groups[j] and codes[i] == more_codes[j]:
            kept[count], owners[count] = codes[i], groups[i]
            i += 1
            j += 1
        else:
            kept[count], owners[count] = more_codes[j], more_groups[j]
            j += 1
        count += 1
    while i < len(codes):
        kept[count], owners[count], tuples[count] = codes[i], groups[i], before[i] + more_before[j]
        i += 1
        count += 1
    while j < len(more_codes):
        kept[count], owners[count], tuples[count] = more_codes[j], more_groups[j], before[i] + more_before[j]
        j += 1
        count += 1
    tuples[count] = before[i] + more_before[j]
    return kept[:count], owners[:count], tuples[: count + 1]


@compiled
def uncount(total, groups, before):  # type: ignore[no-untyped-def]
    """Take the tuples of a list off the totals of their groups."""
    for i in range(len(groups)):
        total[groups[i]] -= before[i + 1] - before[i]


@compiled
def select_in_lists(groups, ranks, starts, lengths, codes, owners, before):  # type: ignore[no-untyped-def]
    """The code at a rank, from 0, among the tuples of a group in several lists; list r begins at starts[r]."""
    selected = np.empty(len(groups), np.int64)
    lists = len(starts)
    low = np.empty(lists, np.int64)
    high = np.empty(lists, np.int64)
    first = np.empty(lists, np.int64)
    place = np.empty(lists, np.int64)
    for q in range(len(groups)):
        owner = groups[q]
        for r in range(lists):
            # The entries of the group in the list.
            begin, end = starts[r], starts[r] + lengths[r]
            if lengths[r] and (owners[begin] != owner or owners[end - 1] != owner):
                a, b = begin, end
                while a < b:
                    middle = (a + b) // 2
                    if owners[middle] < owner:
                        a = middle + 1
                    else:
                        b = middle
                begin, b = a, end
                while a < b:
                    middle = (a + b) // 2
                    if owners[middle] <= owner:
                        a = middle + 1
                    else:
                        b = middle
                end = a
            low[r], high[r] = begin, end
            first[r] = before[begin]
        answer = np.int64(0)
        while True:
            # The middle of the list with most entries left divides all others about evenly.
            widest = 0
            for r in range(1, lists):
                if high[r] - low[r] > high[widest] - low[widest]:
                    widest = r
            pivot = codes[(low[widest] + high[widest]) // 2]
            less, upto = np.int64(0), np.int64(0)
            for r in range(lists):
                a, b = low[r], high[r]
                while a < b:
                    middle = (a + b) // 2
                    if codes[middle] < pivot:
                        a = middle + 1
                    else:
                        b = middle
                place[r] = a
                less += before[a] - first[r]
                if a < high[r] and codes[a] == pivot:
                    upto += before[a + 1] - before[a]
            upto += less
            if ranks[q] < less:
                for r in range(lists):
                    high[r] = place[r]
            elif ranks[q] >= upto:
                for r in range(lists):
                    low[r] = place[r] + (1 if place[r] < high[r] and codes[place[r]] == pivot else 0)
            else:
                answer = pivot
                break
        selected[q] = answer
    return selected
