"""Partners within a tolerance, in two windows that are sorted by their keys.

Keys are matrices with one row for each key, see `exact`; windows are lists of places (columns of the matrix), in
order. Two records agree if each of their keys does within its tolerance. Pairs are given as positions
in the windows, in the order of the first.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anabranch.kernels.compiled import compiled
from anabranch.kernels.exact import (
    apart,
    comparable,
    distance_at,
    is_below,
    is_near,
    put_distance,
    room_for_distances,
    width,
)
from anabranch.kernels.nearly_sorted import sort_fully


class Window(NamedTuple):
    """Records in order: their places among keys, of which the first `size` are of the window."""

    keys: NDArray[Any]
    places: NDArray[np.int64]
    size: int


@compiled
def agree(keys_a, a, keys_b, b, tolerance):  # type: ignore[no-untyped-def]
    """Whether two records are within tolerance in every key."""
    for k in range(len(tolerance)):  # noqa: SIM110  (all() is slower, compiled)
        if not is_near(keys_a, k, a, keys_b, k, b, tolerance, k):
            return False
    return True


@compiled
def distance(keys_a, a, keys_b, b, tolerance):  # type: ignore[no-untyped-def]
    """How far apart two records are: the largest difference of a key, in tolerances."""
    most = 0.0
    for k in range(len(tolerance)):
        if width(tolerance, k) > 0:
            most = max(most, apart(keys_a, k, a, keys_b, k, b, tolerance, k) / width(tolerance, k))
    return comparable(most, keys_a, a, keys_b, b, tolerance)


@compiled
def distances(keys_a, a, keys_b, b, tolerance):  # type: ignore[no-untyped-def]
    """The distance of each pair of two lists of records."""
    far = room_for_distances(keys_a, len(a))
    for i in range(len(a)):
        put_distance(far, i, distance(keys_a, a[i], keys_b, b[i], tolerance))
    return far


@compiled
def most_selective(window, tolerance):  # type: ignore[no-untyped-def]
    """The key whose tolerance is the smallest part of what the window spans: partners are searched by it."""
    keys, places, count = window
    best, least = 0, np.inf
    if count == 0:
        return best
    for k in range(len(tolerance)):
        low = high = places[0]
        for i in range(1, count):
            if is_below(keys, k, places[i], keys, k, low):
                low = places[i]
            if is_below(keys, k, high, keys, k, places[i]):
                high = places[i]
        span = apart(keys, k, high, keys, k, low, tolerance, k)
        part = width(tolerance, k) / span if span > 0 else np.inf
        if part < least:
            best, least = k, part
    return best


@compiled
def ordered_by(window, key):  # type: ignore[no-untyped-def]
    """Positions of the window in the order of one key, and that key."""
    keys, places, count = window
    order = np.empty(count, np.int64)
    values, unordered = np.empty_like(keys[:1, :count]), np.empty_like(keys[:1, :count])
    for i in range(count):
        order[i] = i
        unordered[0, i] = keys[key, places[i]]
    if key != 0:
        sort_fully(unordered, order, count)
    for i in range(count):
        values[0, i] = unordered[0, order[i]]
    return order, values


@compiled
def first_near(values, count, keys, key, at, tolerance):  # type: ignore[no-untyped-def]
    """The first of sorted values that is not more than the tolerance below the key of a record."""
    low, high = 0, count
    while low < high:
        middle = (low + high) >> 1
        if is_below(values, 0, middle, keys, key, at) and not is_near(values, 0, middle, keys, key, at, tolerance, key):
            low = middle + 1
        else:
            high = middle
    return low


@compiled
def match_first_by_cursors(a, b, tolerance, out_a, out_b):  # type: ignore[no-untyped-def]
    """Two cursors go through windows with one key (M. Mazzucco et al., 2002, §4.1).

    Gives the number of pairs, and whether the first cursor came to its end.
    """
    keys_a, window_a, count_a = a
    keys_b, window_b, count_b = b
    i, j, pairs = 0, 0, 0
    while i < count_a and j < count_b:
        left, right = window_a[i], window_b[j]
        if not is_near(keys_a, 0, left, keys_b, 0, right, tolerance, 0):
            if is_below(keys_a, 0, left, keys_b, 0, right):
                i += 1
            else:
                j += 1
            continue
        out_a[pairs], out_b[pairs] = i, j
        pairs += 1
        i += 1
        while i < count_a and is_near(keys_a, 0, window_a[i], keys_a, 0, left, tolerance, 0):
            i += 1
        j += 1
        while j < count_b and is_near(keys_b, 0, window_b[j], keys_b, 0, right, tolerance, 0):
            j += 1
    return pairs, i == count_a


@compiled
def pass_over(window, order, values, key, at, tolerance, passed):  # type: ignore[no-untyped-def]
    """Mark the records of a window that agree with one of its own."""
    keys, places, count = window
    i = first_near(values, count, keys, key, places[at], tolerance)
    while i < count and is_near(values, 0, i, keys, key, places[at], tolerance, key):
        if agree(keys, places[order[i]], keys, places[at], tolerance):
            passed[order[i]] = True
        i += 1


@compiled
def match_first(a, b, tolerance, out_a, out_b):  # type: ignore[no-untyped-def]
    """What the cursors do, for any number of keys: a record merges with the first that agrees.

    Records that agree with one of their own window that has merged are passed over, as the cursors do.
    """
    keys_a, window_a, count_a = a
    keys_b, window_b, count_b = b
    key = most_selective(b, tolerance)
    order_a, values_a = ordered_by(a, key)
    order_b, values_b = ordered_by(b, key)
    passed_a, passed_b = np.zeros(count_a, np.bool_), np.zeros(count_b, np.bool_)
    pairs = 0
    for i in range(count_a):
        if passed_a[i]:
            continue
        partner = count_b
        j = first_near(values_b, count_b, keys_a, key, window_a[i], tolerance)
        while j < count_b and is_near(values_b, 0, j, keys_a, key, window_a[i], tolerance, key):
            at = order_b[j]
            if at < partner and not passed_b[at] and agree(keys_a, window_a[i], keys_b, window_b[at], tolerance):
                partner = at
                if key == 0:
                    break
            j += 1
        if partner < count_b:
            out_a[pairs], out_b[pairs] = i, partner
            pairs += 1
            pass_over(a, order_a, values_a, key, i, tolerance, passed_a)
            pass_over(b, order_b, values_b, key, partner, tolerance, passed_b)
    return pairs


@compiled
def nearest_free(keys_a, a, window, rows_b, order_b, values_b, key, tolerance, taken, passed):  # type: ignore[no-untyped-def]
    """The nearest record that agrees and is neither taken nor passed over, and how far it is; -1 if there is none."""
    keys_b, window_b, count_b = window
    best, least = -1, comparable(np.inf, keys_a, a, keys_a, a, tolerance)
    j = first_near(values_b, count_b, keys_a, key, a, tolerance)
    while j < count_b and is_near(values_b, 0, j, keys_a, key, a, tolerance, key):
        at = order_b[j]
        b = window_b[at]
        if not taken[at] and not passed[at] and agree(keys_a, a, keys_b, b, tolerance):
            far = distance(keys_a, a, keys_b, b, tolerance)
            if far < least or (far == least and rows_b[b] < rows_b[window_b[best]]):
                best, least = at, far
        j += 1
    return best, least


@compiled
def may_come_nearer(keys, at, others, reach, tolerance, far):  # type: ignore[no-untyped-def]
    """Whether a record with a first key from that of record `reach` on can be nearer to another than `far`."""
    if not is_below(keys, 0, at, others, 0, reach):
        return comparable(0.0, keys, at, keys, at, tolerance) < far
    if width(tolerance, 0) == 0:
        return False
    gap = apart(keys, 0, at, others, 0, reach, tolerance, 0) / width(tolerance, 0)
    return comparable(gap, keys, at, others, reach, tolerance) < far


@compiled
def merge_undisputed(a, b, tolerances, more, last_a, last_b, merged, taken):  # type: ignore[no-untyped-def]
    """Merge records with one key, a double, that agree with each other and with nobody else: most of them, mostly."""
    keys_a, window_a, count_a = a
    keys_b, window_b, count_b = b
    tolerance, reach_a, reach_b = tolerances[0], keys_a[0, last_a], keys_b[0, last_b]
    j = 0
    for i in range(count_a):
        x = keys_a[0, window_a[i]]
        while j < count_b and x - keys_b[0, window_b[j]] > tolerance:
            j += 1
        if j == count_b:
            return
        y = keys_b[0, window_b[j]]
        if abs(x - y) > tolerance:
            continue
        if j + 1 < count_b and keys_b[0, window_b[j + 1]] - x <= tolerance:
            continue
        if i > 0 and y - keys_a[0, window_a[i - 1]] <= tolerance:
            continue
        if i + 1 < count_a and abs(keys_a[0, window_a[i + 1]] - y) <= tolerance:
            continue
        if more and (x + tolerance > reach_b or y + tolerance > reach_a):
            far = abs(x - y) / tolerance if tolerance > 0 else 0.0
            if may_come_nearer(keys_a, window_a[i], keys_b, last_b, tolerances, far) or may_come_nearer(
                keys_b, window_b[j], keys_a, last_a, tolerances, far
            ):
                continue
        merged[i], taken[j] = j, True


@compiled
def match_nearest(a, rows_a, b, rows_b, tolerance, more, last_a, last_b, out_a, out_b):  # type: ignore[no-untyped-def]
    """The closest pair merges first, then the closest of the rest; ties go to those that came first.

    If `more` may come, with first keys from those of `last_a` and `last_b` on, a pair has to wait while one of them
    could be nearer to either of the two. So do records that might have one of the two if something nearer came for
    the other: both of a pair that is in doubt are in doubt for whatever is further away. A heap holds the nearest free
    partner of each record; if another has taken it meanwhile, the next nearest is searched.
    """
    keys_a, window_a, count_a = a
    keys_b, window_b, count_b = b
    if count_a == 0 or count_b == 0:
        return 0
    key = most_selective(b, tolerance)
    order_b, values_b = ordered_by(b, key)
    taken, doubtful_b, nobody = np.zeros(count_b, np.bool_), np.zeros(count_b, np.bool_), np.zeros(count_b, np.bool_)
    doubtful_a = np.zeros(count_a, np.bool_)
    partner = np.full(count_a, -1, np.int64)
    far = room_for_distances(keys_a, count_a)
    heap = np.empty(count_a, np.int64)
    merged = np.full(count_a, -1, np.int64)
    if tolerance.ndim == 1:  # noqa: SIM102  (doubles: only alone is it decided when machine code is made)
        if len(tolerance) == 1:
            merge_undisputed(a, b, tolerance, more, last_a, last_b, merged, taken)
    size = 0
    for i in range(count_a):
        if merged[i] >= 0:
            continue
        best, least = nearest_free(keys_a, window_a[i], b, rows_b, order_b, values_b, key, tolerance, taken, nobody)
        if best >= 0:
            partner[i] = best
            put_distance(far, i, least)
            heap[size] = i
            size += 1
            rise(heap, size - 1, far, rows_a, window_a)
    while size > 0:
        i = heap[0]
        j = partner[i]
        if not taken[j] and not (doubtful_a[i] and doubtful_b[j]):
            in_doubt = doubtful_a[i] or doubtful_b[j]
            if more and not in_doubt:
                in_doubt = may_come_nearer(
                    keys_a, window_a[i], keys_b, last_b, tolerance, distance_at(far, i)
                ) or may_come_nearer(keys_b, window_b[j], keys_a, last_a, tolerance, distance_at(far, i))
            if not in_doubt:
                merged[i], taken[j] = j, True
                size -= 1
                heap[0] = heap[size]
                sink(heap, size, far, rows_a, window_a)
                continue
            doubtful_a[i], doubtful_b[j] = True, True
        # One that is in doubt goes on, too: it casts doubt on all it might have.
        passed = doubtful_b if doubtful_a[i] else nobody
        partner[i], least = nearest_free(
            keys_a, window_a[i], b, rows_b, order_b, values_b, key, tolerance, taken, passed
        )
        put_distance(far, i, least)
        if partner[i] < 0:
            size -= 1
            heap[0] = heap[size]
        sink(heap, size, far, rows_a, window_a)
    pairs = 0
    for i in range(count_a):
        if merged[i] >= 0:
            out_a[pairs], out_b[pairs] = i, merged[i]
            pairs += 1
    return pairs


@compiled
def match_leaving(a, rows_a, leaving_a, b, rows_b, leaving_b, tolerance, out_a, out_b):  # type: ignore[no-untyped-def]
    """Of the closest pairs of all there are now, those of which one record has to leave (by position)."""
    pairs = match_nearest(a, rows_a, b, rows_b, tolerance, False, 0, 0, out_a, out_b)
    kept = 0
    for i in range(pairs):
        if leaving_a[out_a[i]] or leaving_b[out_b[i]]:
            out_a[kept], out_b[kept] = out_a[i], out_b[i]
            kept += 1
    return kept


@compiled
def is_closer(i, j, far, rows_a, window_a):  # type: ignore[no-untyped-def]
    distance_i, distance_j = distance_at(far, i), distance_at(far, j)
    return distance_i < distance_j or (distance_i == distance_j and rows_a[window_a[i]] < rows_a[window_a[j]])


@compiled
def rise(heap, at, far, rows_a, window_a):  # type: ignore[no-untyped-def]
    while at > 0:
        above = (at - 1) >> 1
        if not is_closer(heap[at], heap[above], far, rows_a, window_a):
            return
        heap[at], heap[above] = heap[above], heap[at]
        at = above


@compiled
def sink(heap, size, far, rows_a, window_a):  # type: ignore[no-untyped-def]
    at = 0
    while True:
        least = at
        for below in (2 * at + 1, 2 * at + 2):
            if below < size and is_closer(heap[below], heap[least], far, rows_a, window_a):
                least = below
        if least == at:
            return
        heap[at], heap[least] = heap[least], heap[at]
        at = least


@compiled
def put_in_order(numbers, begin, end):  # type: ignore[no-untyped-def]
    """Sort a short piece of a list."""
    for i in range(begin + 1, end):
        number, at = numbers[i], i
        while at > begin and number < numbers[at - 1]:
            numbers[at] = numbers[at - 1]
            at -= 1
        numbers[at] = number


@compiled
def match_all(a, old_a, b, old_b, tolerance):  # type: ignore[no-untyped-def]
    """All pairs that agree and are not both old: places below `old_a` and `old_b` have met before."""
    keys_a, window_a, count_a = a
    keys_b, window_b, count_b = b
    fresh = 0
    for j in range(count_b):
        if window_b[j] >= old_b:
            fresh += 1
    key = most_selective(b, tolerance)
    order_b, values_b = ordered_by(b, key)
    order_f, values_f = np.empty(fresh, np.int64), np.empty_like(values_b[:, :fresh])
    n = 0
    for j in range(count_b):
        if window_b[order_b[j]] >= old_b:
            order_f[n], values_f[0, n] = order_b[j], values_b[0, j]
            n += 1
    out_a, out_b = np.empty(1024, np.int64), np.empty(1024, np.int64)
    pairs = 0
    for i in range(count_a):
        is_new = window_a[i] >= old_a
        order = order_b if is_new else order_f
        values = values_b if is_new else values_f
        size = len(order)
        begin = pairs
        j = first_near(values, size, keys_a, key, window_a[i], tolerance)
        while j < size and is_near(values, 0, j, keys_a, key, window_a[i], tolerance, key):
            if agree(keys_a, window_a[i], keys_b, window_b[order[j]], tolerance):
                if pairs == len(out_a):
                    more_a, more_b = np.empty(2 * pairs, np.int64), np.empty(2 * pairs, np.int64)
                    for n in range(pairs):
                        more_a[n], more_b[n] = out_a[n], out_b[n]
                    out_a, out_b = more_a, more_b
                out_a[pairs], out_b[pairs] = i, order[j]
                pairs += 1
            j += 1
        if key != 0:
            put_in_order(out_b, begin, pairs)
    return out_a[:pairs], out_b[:pairs]


@compiled
def take_each_once(order, left, right, size_left, size_right):  # type: ignore[no-untyped-def]
    """Of pairs, taken in an order, those whose records are both still free; ascending."""
    free_left, free_right = np.ones(size_left, np.bool_), np.ones(size_right, np.bool_)
    taken = np.zeros(len(order), np.bool_)
    for i in order:
        if free_left[left[i]] and free_right[right[i]]:
            free_left[left[i]], free_right[right[i]] = False, False
            taken[i] = True
    return np.flatnonzero(taken)
