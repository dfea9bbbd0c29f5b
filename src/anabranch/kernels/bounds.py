"""Where values belong in sorted arrays, found from where the one before belonged."""

from __future__ import annotations

import numpy as np

from anabranch.kernels.compiled import compiled


@compiled
def first_at_least(ordered, wanted, shift, out):  # type: ignore[no-untyped-def]
    """For each `wanted` + `shift` the first place in `ordered` whose value is not below it.

    What is wanted hardly changes from one to the next, so the search gallops from the last place.
    """
    size = len(ordered)
    at = 0
    for i in range(len(wanted)):
        value = wanted[i] + shift
        if at > 0 and ordered[at - 1] >= value:
            step, high = 1, at - 1
            while high - step >= 0 and ordered[high - step] >= value:
                high -= step
                step *= 2
            low = max(high - step, -1)
        else:
            step, low = 1, at - 1
            while low + step < size and ordered[low + step] < value:
                low += step
                step *= 2
            high = min(low + step, size)
        while high - low > 1:
            middle = (low + high) >> 1
            if ordered[middle] < value:
                low = middle
            else:
                high = middle
        at = high
        out[i] = at


@compiled
def pairs_in_ranges(state, low, high, rows, out_probes, out_rows):  # type: ignore[no-untyped-def]
    """Pairs of a probe and each of `rows` (ascending) with low[p] ≤ row < high[p], newest first.

    Goes on from `state`, (probe, place among the rows or -1, a place to search from), and stops when
    the output is full; gives the number of pairs.
    """
    probe, cursor, hint = state[0], state[1], state[2]
    room, pairs, size = len(out_rows), 0, len(rows)
    while probe < len(low):
        least, most = low[probe], high[probe]
        if cursor < -1:
            while hint < size and rows[hint] < most:
                hint += 1
            while hint > 0 and rows[hint - 1] >= most:
                hint -= 1
            cursor = hint - 1
        while cursor >= 0 and rows[cursor] >= least:
            if pairs == room:
                state[0], state[1], state[2] = probe, cursor, hint
                return pairs
            out_probes[pairs] = probe
            out_rows[pairs] = rows[cursor]
            pairs += 1
            cursor -= 1
        cursor = -2
        probe += 1
    state[0], state[1], state[2] = probe, cursor, hint
    return pairs


@compiled
def pairs_in_blocks(  # type: ignore[no-untyped-def]
    state, low, high, least_value, most_value, values, rows, bounds, first_rows, out_probes, out_rows
):
    """Pairs of a probe and a row with low[p] ≤ row < high[p] and a value from least_value[p] to most_value[p].

    Rows stand in blocks (`bounds`), ordered by value inside; `first_rows` is the smallest row of each
    block, ascending. Goes on from `state`, (probe, block or -1, place in it), and stops when the output
    is full; gives the number of pairs.
    """
    probe, block, place = state[0], state[1], state[2]
    room, pairs, blocks = len(out_rows), 0, len(first_rows)
    while probe < len(low):
        if block < 0:
            left, right = 0, blocks
            while left < right:
                middle = (left + right) >> 1
                if first_rows[middle] < high[probe]:
                    left = middle + 1
                else:
                    right = middle
            block, place = left - 1, -1
        while block >= 0:
            begin, end = bounds[block], bounds[block + 1]
            if place < 0:
                left, right = begin, end
                while left < right:
                    middle = (left + right) >> 1
                    if values[middle] < least_value[probe]:
                        left = middle + 1
                    else:
                        right = middle
                place = left
            while place < end and values[place] <= most_value[probe]:
                row = rows[place]
                if low[probe] <= row < high[probe]:
                    if pairs == room:
                        state[0], state[1], state[2] = probe, block, place
                        return pairs
                    out_probes[pairs] = probe
                    out_rows[pairs] = row
                    pairs += 1
                place += 1
            if first_rows[block] <= low[probe]:
                break
            block -= 1
            place = -1
        block = -1
        probe += 1
    state[0], state[1], state[2] = probe, block, place
    return pairs


@compiled
def order_of_times(times):  # type: ignore[no-untyped-def]
    """The places of the times in their order, stable (radix sort, eleven bits at a time)."""
    size = len(times)
    least, most = times[0], times[0]
    for i in range(size):
        least = min(least, times[i])
        most = max(most, times[i])
    keys, other_keys = np.empty(size, np.uint64), np.empty(size, np.uint64)
    order, other_order = np.empty(size, np.int64), np.empty(size, np.int64)
    for i in range(size):
        keys[i] = np.uint64(times[i] - least)
        order[i] = i
    span, shift = np.uint64(most - least), np.uint64(0)
    while shift < np.uint64(64) and (span >> shift) > np.uint64(0):
        starts = np.zeros(2049, np.int64)
        for i in range(size):
            starts[np.int64((keys[i] >> shift) & np.uint64(2047)) + 1] += 1
        for i in range(2048):
            starts[i + 1] += starts[i]
        for i in range(size):
            digit = np.int64((keys[i] >> shift) & np.uint64(2047))
            place = starts[digit]
            other_keys[place], other_order[place] = keys[i], order[i]
            starts[digit] = place + 1
        keys, other_keys = other_keys, keys
        order, other_order = other_order, order
        shift += np.uint64(11)
    return order


@compiled
def sort_ties(times, order, rows):  # type: ignore[no-untyped-def]
    """Order entries of one time by their rows, source by source (`rows` is sources × entries).

    They are nearly in order as they come. Where too many share a time to sort them one by one, it stops;
    gives the place from which on ties are left.
    """
    size, sources = len(order), len(rows)
    begin = 0
    while begin < size:
        end = begin + 1
        while end < size and times[order[end]] == times[order[begin]]:
            end += 1
        moved = 0
        for i in range(begin + 1, end):
            entry, at = order[i], i
            while at > begin:
                other, smaller = order[at - 1], False
                for source in range(sources):
                    if rows[source, entry] != rows[source, other]:
                        smaller = rows[source, entry] < rows[source, other]
                        break
                if not smaller:
                    break
                order[at] = other
                at -= 1
            order[at] = entry
            moved += i - at
            if moved > 4096 + 64 * (end - begin):
                return begin
        begin = end
    return size
