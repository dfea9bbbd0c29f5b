"""Rows chained by key, newest first: the hash table of a window join.

Entries stand in a ring in the order they came; each points back to the one before it in its
bucket. What is old is overwritten when the ring comes round, and a chain is left as soon as it
leads to entries before the window, so nothing is ever deleted: buckets that are rarely probed cost
nothing (M. A. Hammad et al., 2002, §6.2.3, clean them by a routine of their own).

A row is chained by its *bucket key* and found by its *key*, which a probe asks for from `least` to
`most`. For an equality all four are the same. For a band the bucket key is the cell that the key
lies in: cells side by side are never in one bucket, so a probe of several cells meets a row once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from anabranch.kernels.compiled import compiled
from anabranch.kernels.values import frozen

Ints = NDArray[np.int64]

TOP, PROBE, CURSOR, NEXT, CROWDED, OLDEST, AHEAD = range(7)
"""Places in the state of a join: entries made so far, the probe it is at, the entry of its chain, the next row,
whether it stopped because a row that is still needed would have been written over, the oldest entry that is
needed, and a sum of what was looked at ahead of its time, which keeps the looking from being left out."""
_AHEAD = 12
"""Probes between looking a bucket up and needing it: by then memory has answered."""

KEY, ROW, BACK = range(3)
"""What an entry has, side by side, so that it takes one look into memory: how far back the one before it is, too."""

_FIBONACCI = 0x9E3779B97F4A7C15


class Chains(NamedTuple):
    """A table: the newest entry of each bucket, the ring of entries, and the state of a join."""

    heads: NDArray[np.int32]
    entries: Ints
    shift: int
    """By how many bits a hash is shifted to be a bucket."""
    state: Ints


class ChainEntries(NamedTuple):
    """Rows to be entered, in the order of their numbers."""

    buckets: Ints
    keys: Ints
    rows: Ints

    @staticmethod
    def by_key(keys: Ints, rows: Ints) -> ChainEntries:
        return ChainEntries(keys, keys, rows)


class Probes(NamedTuple):
    """What is looked up: keys from `least` to `most` in a bucket, of rows low ≤ row < high.

    No later probe asks for rows before `needed`.
    """

    buckets: Ints
    least: Ints
    most: Ints
    low: Ints
    high: Ints
    needed: Ints

    @staticmethod
    def of(buckets: Ints, least: Ints, most: Ints, low: Ints, high: Ints) -> Probes:
        needed = np.minimum.accumulate(low[::-1])[::-1]
        return Probes(buckets, least, most, low, high, frozen(np.ascontiguousarray(needed)))

    @staticmethod
    def by_key(keys: Ints, low: Ints, high: Ints) -> Probes:
        return Probes.of(keys, keys, keys, low, high)


@compiled
def _bucket(key, shift):  # type: ignore[no-untyped-def]
    return np.int64((np.uint64(key) * np.uint64(_FIBONACCI)) >> np.uint64(shift))


@compiled
def _oldest(entries, known, top, needed):  # type: ignore[no-untyped-def]
    """The oldest entry of a row from `needed` on, near the one that is known."""
    mask = len(entries) - 1
    first = max(top - mask - 1, 0)
    oldest = max(known, first)
    while oldest > first and entries[(oldest - 1) & mask, ROW] >= needed:
        oldest -= 1
    return oldest


@compiled
def chain(chains, new, low, high):  # type: ignore[no-untyped-def]
    """Enter the rows at places low ≤ i < high of the new ones."""
    heads, entries, shift, state = chains
    new_buckets, new_keys, new_rows = new
    mask = len(entries) - 1
    top = state[TOP]
    for i in range(low, high):
        bucket = _bucket(new_buckets[i], shift)
        slot = top & mask
        behind = top - heads[bucket]
        entries[slot, KEY], entries[slot, ROW] = new_keys[i], new_rows[i]
        entries[slot, BACK] = behind if behind <= mask else 0
        heads[bucket] = top
        top += 1
    state[TOP] = top


@compiled
def join_chains(chains, new, probes, out_probes, out_rows):  # type: ignore[no-untyped-def]
    """Pairs of a probe and an entered row, least[p] ≤ key ≤ most[p] and low[p] ≤ row < high[p]; oldest rows first.

    Probes come in an order in which `high` hardly goes back: rows are entered just before the first
    probe that may see them. needed[p] is the oldest row that it or any later probe may ask for. Goes on
    from `state` and stops when the output is full, or the ring; gives the number of pairs. Once the
    state's PROBE is the number of probes, it is done.
    """
    heads, entries, shift, state = chains
    new_buckets, new_keys, new_rows = new
    buckets, least, most, low, high, needed = probes
    mask = len(entries) - 1
    top, probe, cursor, at = state[TOP], state[PROBE], state[CURSOR], state[NEXT]
    room, pairs, more, count = len(out_rows), 0, len(new_rows), len(buckets)
    oldest, ahead = _oldest(entries, state[OLDEST], top, needed[min(probe, count - 1)]), state[AHEAD]
    while probe < count:
        first, last = low[probe], high[probe]
        while oldest < top and entries[oldest & mask, ROW] < needed[probe]:
            oldest += 1
        if probe + _AHEAD < count:
            ahead += entries[heads[_bucket(buckets[probe + _AHEAD], shift)] & mask, ROW]
        while at < more and new_rows[at] < last:
            if at + _AHEAD < more:
                ahead += heads[_bucket(new_buckets[at + _AHEAD], shift)]
            slot = top & mask
            if top > mask and entries[slot, ROW] >= needed[probe]:
                state[TOP], state[PROBE], state[CURSOR], state[NEXT], state[CROWDED] = top, probe, cursor, at, 1
                state[OLDEST], state[AHEAD] = oldest, ahead
                return pairs
            bucket = _bucket(new_buckets[at], shift)
            behind = top - heads[bucket]
            entries[slot, KEY], entries[slot, ROW] = new_keys[at], new_rows[at]
            entries[slot, BACK] = behind if behind <= mask else 0
            heads[bucket] = top
            top += 1
            at += 1
        smallest, largest = least[probe], most[probe]
        if cursor < 0:
            cursor = heads[_bucket(buckets[probe], shift)]
        begin = pairs
        while cursor >= oldest:
            slot = cursor & mask
            row = entries[slot, ROW]
            if row < first:
                break
            if row < last and smallest <= entries[slot, KEY] <= largest:
                if pairs == room:
                    state[TOP], state[PROBE], state[CURSOR], state[NEXT] = top, probe, cursor, at
                    state[OLDEST], state[AHEAD] = oldest, ahead
                    return pairs
                out_probes[pairs] = probe
                out_rows[pairs] = row
                pairs += 1
            behind = entries[slot, BACK]
            if behind == 0:
                break
            cursor -= behind
        end = pairs - 1
        while begin < end:
            out_rows[begin], out_rows[end] = out_rows[end], out_rows[begin]
            begin += 1
            end -= 1
        cursor = -1
        probe += 1
    state[TOP], state[PROBE], state[CURSOR], state[NEXT] = top, probe, cursor, at
    state[OLDEST], state[AHEAD] = oldest, ahead
    return pairs


@compiled
def count_chains(chains, new, probes, counts):  # type: ignore[no-untyped-def]
    """As `join_chains`, but only how many rows each probe meets."""
    heads, entries, shift, state = chains
    new_buckets, new_keys, new_rows = new
    buckets, least, most, low, high, needed = probes
    mask = len(entries) - 1
    top, at, more, count = state[TOP], state[NEXT], len(new_rows), len(buckets)
    oldest, ahead = _oldest(entries, state[OLDEST], top, needed[min(state[PROBE], count - 1)]), state[AHEAD]
    for probe in range(state[PROBE], count):
        first, last = low[probe], high[probe]
        while oldest < top and entries[oldest & mask, ROW] < needed[probe]:
            oldest += 1
        if probe + _AHEAD < count:
            ahead += entries[heads[_bucket(buckets[probe + _AHEAD], shift)] & mask, ROW]
        while at < more and new_rows[at] < last:
            if at + _AHEAD < more:
                ahead += heads[_bucket(new_buckets[at + _AHEAD], shift)]
            slot = top & mask
            if top > mask and entries[slot, ROW] >= needed[probe]:
                state[TOP], state[PROBE], state[NEXT], state[CROWDED] = top, probe, at, 1
                state[OLDEST], state[AHEAD] = oldest, ahead
                return
            bucket = _bucket(new_buckets[at], shift)
            behind = top - heads[bucket]
            entries[slot, KEY], entries[slot, ROW] = new_keys[at], new_rows[at]
            entries[slot, BACK] = behind if behind <= mask else 0
            heads[bucket] = top
            top += 1
            at += 1
        cursor = heads[_bucket(buckets[probe], shift)]
        matches = 0
        while cursor >= oldest:
            slot = cursor & mask
            row = entries[slot, ROW]
            if row < first:
                break
            if row < last and least[probe] <= entries[slot, KEY] <= most[probe]:
                matches += 1
            behind = entries[slot, BACK]
            if behind == 0:
                break
            cursor -= behind
        counts[probe] = matches
    state[TOP], state[PROBE], state[NEXT] = top, count, at
    state[OLDEST], state[AHEAD] = oldest, ahead
