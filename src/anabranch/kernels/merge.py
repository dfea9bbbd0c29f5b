"""The rounds of an ε,δ-merge of two streams (M. Mazzucco et al., 2002, §3 and §4.1).

Each of the two streams has a window of at most N records, sorted by key. A round takes new records
into both, in place of those that merged before and then of the first ones, and merges what agrees.
Both streams are read up to the same time, so the one that runs ahead waits. Groups are merged apart
from each other; each is a piece of the arrays: its window, in order, then what is not read yet.

Paced by rows, the time of a record is when as many records had come of each stream (`operators.merge.pacing`),
NEVER if they have not, and its own time when it came itself. In rounds that are due a stream that is ahead fills the
room there is in its window; nothing leaves for that.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anabranch.kernels.compiled import compiled
from anabranch.kernels.matching import (
    Window,
    match_all,
    match_first,
    match_first_by_cursors,
    match_leaving,
    match_nearest,
)
from anabranch.kernels.nearly_sorted import merge_sorted, split_nearly_sorted

FIRST, NEAREST, ALL = 0, 1, 2
"""Which of the records that agree are merged."""

NEVER = (1 << 63) - 2
"""The time of a stream that has ended."""
LAST = NEVER - 1
"""The time of records that another merge gave because its streams had ended, or that have nothing to keep pace with."""
MIN_TIME = -(1 << 63)

SIZE, STEP, COUNTED, BROKEN, ROUNDS, MERGED, DROPPED_A, DROPPED_B, LAST_MERGED, LAST_DROPPED, REACHED, ADAPTED = range(
    12
)
"""The numbers kept of each group: its window and step now, how many rounds Δ is about, whether the promise is
broken, totals, what the last round did, the time of the last round, and how often it has adapted."""
CONTROLS = 12

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


class Side(NamedTuple):
    """The records of one of the streams, group after group."""

    bounds: Ints
    """Where each group begins, and where the last one ends."""
    in_window: Ints
    """How many records of each group are in its window."""
    keys: NDArray[Any]
    usable: Flags
    times: Ints
    own: Ints
    rows: Ints
    met: Flags


class Waiting(NamedTuple):
    """What of a side says when its next round is due."""

    bounds: Ints
    in_window: Ints
    times: Ints
    own: Ints


class Unread(NamedTuple):
    """What a round may take in of a group of one of the streams: the records low ≤ n < high."""

    times: Ints
    own: Ints
    rows: Ints
    low: int
    high: int
    need: int
    """How many a round is for that is not due."""
    room: int
    """How many there is room for in the window before others have to leave it."""


class Known(NamedTuple):
    """Up to which time rounds are known; by rows, also up to which time it is what came of each stream (`sure`)."""

    time: int
    sure: int
    by_rows: bool = False
    ahead: int = 0
    """By how much the rows of the left side have larger numbers than those of the right that they belong to."""

    @staticmethod
    def until(time: int) -> Known:
        return Known(time, time)


class Terms(NamedTuple):
    """How two streams are merged."""

    tolerance: NDArray[Any]
    policy: int
    every: int
    wait: int
    wants_a: bool
    """Whether records of the first stream are answers, too, if they leave without a partner."""
    wants_b: bool
    delta: float
    largest: int
    smallest_step: int


@compiled
def rows_before(times, low, high, time):  # type: ignore[no-untyped-def]
    """The first row from `low` on that is not older than `time`, found by galloping."""
    step, at = 1, low
    while at + step <= high and times[at + step - 1] < time:
        at += step
        step *= 2
    high = min(high, at + step)
    while at < high:
        middle = (at + high) >> 1
        if times[middle] < time:
            at = middle + 1
        else:
            high = middle
    return at


@compiled
def first_waiting(times, own, low, end, high, room, by_rows):  # type: ignore[no-untyped-def]
    """The time of the first record that a round could take in."""
    if by_rows and room > 0 and low < high:
        return own[low]
    return times[low] if low < end else NEVER


@compiled
def next_round(a, b, every, known, last, expires):  # type: ignore[no-untyped-def]
    """Up to where the next round reads both streams, and its time; kind -1 if it must wait for more.

    A round is due at each multiple of `every` (0: never) if anything new is known by then or a record's time to wait
    is over (`expires`), and when one of the streams has as many new records as its window needs. By rows the other is
    then read as far; the first has numbers that are larger by `ahead` for rows that belong together. What came by its
    own time is known up to `sure`: by rows, who is ahead may fill a window when a round is due, so none can be after
    a time up to which that is not known.
    """
    times_a, own_a, rows_a, low_a, high_a, need_a, room_a = a
    times_b, own_b, rows_b, low_b, high_b, need_b, room_b = b
    until, sure, by_rows, ahead = known
    end_a, end_b = rows_before(times_a, low_a, high_a, until), rows_before(times_b, low_b, high_b, until)
    full, last_row = until, NEVER
    if low_a + need_a <= end_a:
        full, last_row = times_a[low_a + need_a - 1], rows_a[low_a + need_a - 1]
    if low_b + need_b <= end_b:
        full = min(full, times_b[low_b + need_b - 1])
        last_row = min(last_row, rows_b[low_b + need_b - 1] + ahead)
    earliest = min(
        first_waiting(times_a, own_a, low_a, end_a, high_a, room_a, by_rows),
        first_waiting(times_b, own_b, low_b, end_b, high_b, room_b, by_rows),
    )
    if by_rows:  # what is ahead came long before there was room for it
        earliest = max(earliest, last)
    earliest = min(earliest, expires)
    due = NEVER
    if every > 0 and earliest < LAST - every:
        due = (earliest // every + 1) * every
    if earliest < until and due <= until and due <= full:
        if by_rows and due > sure:
            return -1, low_a, low_b, until
        to_a, to_b = rows_before(times_a, low_a, high_a, due), rows_before(times_b, low_b, high_b, due)
        if by_rows:
            to_a = max(to_a, rows_before(own_a, low_a, min(high_a, low_a + max(room_a, 0)), due))
            to_b = max(to_b, rows_before(own_b, low_b, min(high_b, low_b + max(room_b, 0)), due))
        return 0, to_a, to_b, due
    if full >= until or (by_rows and every > 0 and full < LAST and full // every * every > sure):
        return -1, low_a, low_b, until
    if by_rows and full < LAST:
        to_a = rows_before(rows_a, low_a, end_a, last_row + 1)
        to_b = rows_before(rows_b, low_b, end_b, last_row + 1 - ahead)
    else:
        to_a = rows_before(times_a, low_a, high_a, full + 1)
        to_b = rows_before(times_b, low_b, high_b, full + 1)
    return 1, min(to_a, low_a + need_a), min(to_b, low_b + need_b), full


@compiled
def oldest(own, window, count):  # type: ignore[no-untyped-def]
    """Since when the record of a window waits that waits longest."""
    least = NEVER
    for i in range(count):
        least = min(least, own[window[i]])
    return least


@compiled
def mark_expired(own, window, count, since, marks):  # type: ignore[no-untyped-def]
    """Mark the positions of a window that wait since before a time; gives how many."""
    marked = 0
    for i in range(count):
        marks[i] = own[window[i]] < since
        marked += marks[i]
    return marked


@compiled
def without_marked(window, count, marks, left):  # type: ignore[no-untyped-def]
    """The window without the positions that are marked, which go to `left`; gives the counts of both."""
    n, gone = 0, 0
    for i in range(count):
        if marks[i]:
            left[gone] = window[i]
            gone += 1
        else:
            window[n] = window[i]
            n += 1
    return n, gone


@compiled
def take_in(window, usable, size, low, high, room, joined, left):  # type: ignore[no-untyped-def]
    """New records enter a window, whose places become `joined`.

    Gives its count, how many left it, and how many of those were unusable. Those that left are in
    `left`: the first of the window where room was needed, then unusable ones.
    """
    keys, places, count = window
    over = min(max(count + high - low - size, 0), count)
    for i in range(over):
        left[i] = places[i]
    fresh, spine, aside = room[0], room[1], room[2]
    new, gone = 0, over
    for row in range(low, high):
        if usable[row]:
            fresh[new] = row
            new += 1
        else:
            left[gone] = row
            gone += 1
    kept, set_aside = split_nearly_sorted(keys, fresh, new, spine, aside)
    few = merge_sorted(keys, places[over:], count - over, aside, set_aside, fresh)
    return merge_sorted(keys, spine, kept, fresh, few, joined), gone, gone - over


@compiled
def incompleteness(ring, counted):  # type: ignore[no-untyped-def]
    """Δ: the part of possible merges that the rounds in the ring did not make.

    Weighs each round's κ with what was possible in it: rounds may be of different sizes.
    """
    merged, dropped_a, dropped_b = 0, 0, 0
    for i in range(min(counted, len(ring))):
        merged += ring[i, 0]
        dropped_a += ring[i, 1]
        dropped_b += ring[i, 2]
    possible = merged + min(dropped_a, dropped_b)
    return 1.0 - merged / possible if possible > 0 else 0.0


@compiled
def count_round(control, ring, merged, dropped_a, dropped_b):  # type: ignore[no-untyped-def]
    """Count a round for Δ and for κ."""
    place = control[COUNTED] % len(ring)
    ring[place, 0], ring[place, 1], ring[place, 2] = merged, dropped_a, dropped_b
    control[COUNTED] += 1
    control[ROUNDS] += 1
    control[LAST_MERGED], control[LAST_DROPPED] = merged, min(dropped_a, dropped_b)


@compiled
def adapt(control, ring, delta, largest, smallest_step):  # type: ignore[no-untyped-def]
    """While the promise Δ < δ does not hold: larger windows and smaller steps, as far as there is room."""
    if control[COUNTED] < len(ring):
        return
    if incompleteness(ring, control[COUNTED]) < delta:
        control[BROKEN] = 0
        return
    size, step = min(2 * control[SIZE], largest), max(control[STEP] // 2, smallest_step)
    if size == control[SIZE] and step == control[STEP]:
        control[BROKEN] = 1
        return
    control[SIZE], control[STEP] = size, step
    control[COUNTED] = 0
    control[ADAPTED] += 1


@compiled
def grown(out, used, more):  # type: ignore[no-untyped-def]
    """The list of answers, or a longer copy of it that has room for `more`."""
    if used + more <= out.shape[1]:
        return out
    longer = np.empty((4, max(2 * out.shape[1], used + more)), np.int64)
    for row in range(4):
        for i in range(used):
            longer[row, i] = out[row, i]
    return longer


@compiled
def put_dropped(out, outs, side, left, low, high, met, wanted):  # type: ignore[no-untyped-def]
    """Answers for records that left without a partner, if wanted; gives the end of the answers, and how many left."""
    dropped = 0
    for i in range(low, high):
        if not met[left[i]]:
            dropped += 1
            if wanted:
                out[side, outs] = left[i]
                out[1 - side, outs] = -1
                outs += 1
    return outs, dropped


@compiled
def put_pairs(out, outs, window_a, pair_a, met_a, window_b, pair_b, met_b, pairs):  # type: ignore[no-untyped-def]
    """Answers for pairs; gives their end, and how many records of the first stream merged for the first time."""
    merged = 0
    for i in range(pairs):
        a, b = window_a[pair_a[i]], window_b[pair_b[i]]
        if not met_a[a]:
            merged += 1
        met_a[a], met_b[b] = True, True
        out[0, outs], out[1, outs] = a, b
        outs += 1
    return outs, merged


@compiled
def without_merged(window, count, pairs, merged):  # type: ignore[no-untyped-def]
    """The window without the positions in `pairs`."""
    if merged == 0:
        return count
    for i in range(merged):
        window[pairs[i]] = -1
    n = 0
    for i in range(count):  # written in any case: what is merged is overwritten by the next
        window[n] = window[i]
        n += window[i] >= 0
    return n


@compiled
def put_staying(stay, stays, window, count, low, high):  # type: ignore[no-untyped-def]
    """A group's window, then what it has not read."""
    for i in range(count):
        stay[stays] = window[i]
        stays += 1
    for place in range(low, high):
        stay[stays] = place
        stays += 1
    return stays


@compiled
def merge_groups(a, b, terms, known, control, rings):  # type: ignore[no-untyped-def]
    """Run all rounds that what is known allows.

    Gives answers (places of both records, -1 for no partner; the time and kind of the round), and for
    each stream what stays, group after group, with the lengths of windows and of what is not read.
    `own`, `met`, `control` and `rings` are brought up to date; `own` of records in windows is since when they wait, if
    there is a limit to it.
    When both streams have ended (NEVER is known), what is left in the windows leaves after the last round.
    """
    bounds_a, in_window_a, keys_a, usable_a, times_a, own_a, rows_a, met_a = a
    bounds_b, in_window_b, keys_b, usable_b, times_b, own_b, rows_b, met_b = b
    tolerance, policy, every, wait, wants_a, wants_b, delta, largest, smallest_step = terms
    out, outs = np.empty((4, min(len(times_a), len(times_b)) + 1024), np.int64), 0
    stay_a, stay_b = np.empty(len(times_a), np.int64), np.empty(len(times_b), np.int64)
    stays_a, stays_b = 0, 0
    groups = len(bounds_a) - 1
    lengths = np.zeros((groups, 4), np.int64)
    for group in range(groups):
        state, ring = control[group], rings[group]
        count_a, count_b = in_window_a[group], in_window_b[group]
        low_a, high_a = bounds_a[group] + count_a, bounds_a[group + 1]
        low_b, high_b = bounds_b[group] + count_b, bounds_b[group + 1]
        room_a, room_b = high_a - bounds_a[group], high_b - bounds_b[group]
        window_a, window_b = np.empty(room_a, np.int64), np.empty(room_b, np.int64)
        for i in range(count_a):
            window_a[i] = bounds_a[group] + i
        for i in range(count_b):
            window_b[i] = bounds_b[group] + i
        joined_a, joined_b = np.empty(room_a, np.int64), np.empty(room_b, np.int64)
        room = np.empty((3, max(room_a, room_b)), np.int64)
        left_a, left_b = np.empty(room_a, np.int64), np.empty(room_b, np.int64)
        marks_a, marks_b = np.empty(room_a, np.bool_), np.empty(room_b, np.bool_)
        pair_a, pair_b = np.empty(room_a, np.int64), np.empty(room_a, np.int64)
        ended, last = False, state[REACHED]
        while not ended:
            size = state[SIZE]
            need_a, need_b = max(state[STEP], size - count_a), max(state[STEP], size - count_b)
            expires = NEVER
            if wait > 0:
                expires = min(oldest(own_a, window_a, count_a), oldest(own_b, window_b, count_b))
                expires = expires + wait if expires < LAST - wait else NEVER
            unread_a = Unread(times_a, own_a, rows_a, low_a, high_a, need_a, size - count_a)
            unread_b = Unread(times_b, own_b, rows_b, low_b, high_b, need_b, size - count_b)
            kind, to_a, to_b, time = next_round(unread_a, unread_b, every, known, last, expires)
            ended = kind < 0
            if ended and known.time != NEVER:
                break
            last = time
            if time < LAST:
                state[REACHED] = time
            begin, merged, dropped_a, dropped_b = outs, 0, 0, 0
            if policy == NEAREST and count_a > 0 and count_b > 0:
                # Who has to leave for new records takes the nearest there is.
                over_a, over_b = count_a + to_a - low_a - size, count_b + to_b - low_b - size
                if over_a > 0 or over_b > 0:
                    for i in range(count_a):
                        marks_a[i] = i < over_a
                    for i in range(count_b):
                        marks_b[i] = i < over_b
                    in_a, in_b = Window(keys_a, window_a, count_a), Window(keys_b, window_b, count_b)
                    pairs = match_leaving(in_a, rows_a, marks_a, in_b, rows_b, marks_b, tolerance, pair_a, pair_b)
                    out = grown(out, outs, pairs)
                    outs, merged = put_pairs(out, outs, window_a, pair_a, met_a, window_b, pair_b, met_b, pairs)
                    count_a = without_merged(window_a, count_a, pair_a, pairs)
                    count_b = without_merged(window_b, count_b, pair_b, pairs)
            if wait > 0:
                for place in range(low_a, to_a):
                    own_a[place] = max(own_a[place], time)
                for place in range(low_b, to_b):
                    own_b[place] = max(own_b[place], time)
            in_a, in_b = Window(keys_a, window_a, count_a), Window(keys_b, window_b, count_b)
            count_a, gone_a, unusable_a = take_in(in_a, usable_a, size, low_a, to_a, room, joined_a, left_a)
            window_a, joined_a = joined_a, window_a
            count_b, gone_b, unusable_b = take_in(in_b, usable_b, size, low_b, to_b, room, joined_b, left_b)
            window_b, joined_b = joined_b, window_b
            in_a, in_b = Window(keys_a, window_a, count_a), Window(keys_b, window_b, count_b)
            pairs = 0
            if count_a == 0 or count_b == 0:
                pairs = 0
            elif policy == NEAREST:
                last_a, last_b = window_a[count_a - 1], window_b[count_b - 1]
                pairs = match_nearest(in_a, rows_a, in_b, rows_b, tolerance, not ended, last_a, last_b, pair_a, pair_b)
            elif ended:
                pairs = 0
            elif policy == ALL:
                pair_a, pair_b = match_all(in_a, low_a, in_b, low_b, tolerance)
                pairs = len(pair_a)
            elif len(tolerance) == 1:
                pairs, _ = match_first_by_cursors(in_a, in_b, tolerance, pair_a, pair_b)
            else:
                pairs = match_first(in_a, in_b, tolerance, pair_a, pair_b)
            low_a, low_b = to_a, to_b
            # Whoever is left may leave now, with a partner or without one.
            leaving = count_a + count_b if ended or wait > 0 else 0
            out = grown(out, outs, gone_a + gone_b + pairs + leaving)
            outs, more_a = put_dropped(out, outs, 0, left_a, 0, gone_a - unusable_a, met_a, wants_a)
            outs, more_b = put_dropped(out, outs, 1, left_b, 0, gone_b - unusable_b, met_b, wants_b)
            dropped_a, dropped_b = dropped_a + more_a, dropped_b + more_b
            outs, more = put_pairs(out, outs, window_a, pair_a, met_a, window_b, pair_b, met_b, pairs)
            merged += more
            outs, more_a = put_dropped(out, outs, 0, left_a, gone_a - unusable_a, gone_a, met_a, wants_a)
            outs, more_b = put_dropped(out, outs, 1, left_b, gone_b - unusable_b, gone_b, met_b, wants_b)
            dropped_a, dropped_b = dropped_a + more_a, dropped_b + more_b
            if policy != ALL:
                count_a = without_merged(window_a, count_a, pair_a, pairs)
                count_b = without_merged(window_b, count_b, pair_b, pairs)
            if wait > 0 and kind == 0 and time < LAST:
                expired = mark_expired(own_a, window_a, count_a, time - wait, marks_a)
                expired += mark_expired(own_b, window_b, count_b, time - wait, marks_b)
                if expired > 0 and policy == NEAREST and count_a > 0 and count_b > 0:
                    in_a, in_b = Window(keys_a, window_a, count_a), Window(keys_b, window_b, count_b)
                    pairs = match_leaving(in_a, rows_a, marks_a, in_b, rows_b, marks_b, tolerance, pair_a, pair_b)
                    outs, more = put_pairs(out, outs, window_a, pair_a, met_a, window_b, pair_b, met_b, pairs)
                    merged += more
                    count_a = without_merged(window_a, count_a, pair_a, pairs)
                    count_b = without_merged(window_b, count_b, pair_b, pairs)
                    mark_expired(own_a, window_a, count_a, time - wait, marks_a)
                    mark_expired(own_b, window_b, count_b, time - wait, marks_b)
                if expired > 0:
                    count_a, gone_a = without_marked(window_a, count_a, marks_a, left_a)
                    count_b, gone_b = without_marked(window_b, count_b, marks_b, left_b)
                    outs, more_a = put_dropped(out, outs, 0, left_a, 0, gone_a, met_a, wants_a)
                    outs, more_b = put_dropped(out, outs, 1, left_b, 0, gone_b, met_b, wants_b)
                    dropped_a, dropped_b = dropped_a + more_a, dropped_b + more_b
            if ended:
                outs, more_a = put_dropped(out, outs, 0, window_a, 0, count_a, met_a, wants_a)
                outs, more_b = put_dropped(out, outs, 1, window_b, 0, count_b, met_b, wants_b)
                dropped_a, dropped_b, count_a, count_b = dropped_a + more_a, dropped_b + more_b, 0, 0
            if not ended or merged + dropped_a + dropped_b > 0:
                count_round(state, ring, merged, dropped_a, dropped_b)
            if delta > 0 and not ended:
                adapt(state, ring, delta, largest, smallest_step)
            state[MERGED] += merged
            state[DROPPED_A] += dropped_a
            state[DROPPED_B] += dropped_b
            for i in range(begin, outs):
                out[2, i], out[3, i] = time, 2 if ended else kind
        lengths[group, 0], lengths[group, 1] = count_a, high_a - low_a
        lengths[group, 2], lengths[group, 3] = count_b, high_b - low_b
        stays_a = put_staying(stay_a, stays_a, window_a, count_a, low_a, high_a)
        stays_b = put_staying(stay_b, stays_b, window_b, count_b, low_b, high_b)
    return out[:, :outs], stay_a[:stays_a], stay_b[:stays_b], lengths


@compiled
def next_due_of_groups(a, b, every, wait, known, control):  # type: ignore[no-untyped-def]
    """The first time at which a group would have a round if streams reached it and no record came."""
    bounds_a, in_window_a, times_a, own_a = a
    bounds_b, in_window_b, times_b, own_b = b
    by_rows = known.by_rows
    all_known = Known(LAST - 2, LAST - 2, by_rows, 0)
    first = NEVER
    for group in range(len(bounds_a) - 1):
        state = control[group]
        low_a, low_b = bounds_a[group] + in_window_a[group], bounds_b[group] + in_window_b[group]
        room_a, room_b = state[SIZE] - in_window_a[group], state[SIZE] - in_window_b[group]
        expires = NEVER
        if wait > 0:
            for place in range(bounds_a[group], low_a):
                expires = min(expires, own_a[place])
            for place in range(bounds_b[group], low_b):
                expires = min(expires, own_b[place])
            expires = expires + wait if expires < LAST - wait else NEVER
        need_a, need_b = max(state[STEP], room_a), max(state[STEP], room_b)
        unread_a = Unread(times_a, own_a, own_a, low_a, bounds_a[group + 1], need_a, room_a)
        unread_b = Unread(times_b, own_b, own_b, low_b, bounds_b[group + 1], need_b, room_b)
        kind, _, _, time = next_round(unread_a, unread_b, every, all_known, state[REACHED], expires)
        if kind == 0:
            first = min(first, time)
        elif kind == 1:  # it waits for others of the same time, or for what may come before it
            first = min(first, time // every * every if by_rows and every > 0 and time < known.time else time + 1)
    return first
