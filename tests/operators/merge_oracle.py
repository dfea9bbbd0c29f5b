"""Merges within a tolerance the naive way: record by record, every pair looked at, windows as plain sorted lists.

The merge of continuously generated data after M. Mazzucco et al. (2002, §4.1); nothing here is made to be fast.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

MAX_TIME = (1 << 63) - 2
"""The time of a stream that has ended."""
LAST = MAX_TIME - 1
"""When rows come that a merge gives at the very end, for the merge after it: after all others."""
CLOSING = (MAX_TIME, 1)
"""The stamp of what leaves when both streams have ended."""
FAR = 1 << 80
"""A time that is never reached."""

Policy = Literal["first", "nearest", "all"]
Stamp = tuple[int, int]
"""The time of a round, and 0 if it was due then, 1 if a step was full."""


class Record(NamedTuple):
    """A row as a merge sees it: its number in its stream, its time, its keys and the group it belongs to."""

    number: int
    time: int
    keys: tuple[float | None, ...]
    group: Any = ()
    shown: int | None = None
    """What `_time` may say of it, if that is not its time."""
    own: int = 0
    """Paced by rows, when it came; its time is then when as many records had come of each stream."""

    @property
    def usable(self) -> bool:
        """Whether it can merge at all: NULL, NaN and infinity are near nothing, NULL equals no group."""
        numbers = all(key is not None and math.isfinite(key) for key in self.keys)
        return numbers and (not isinstance(self.group, tuple) or None not in self.group)


class Out(NamedTuple):
    """A pair, or a record of A or B that left without ever having merged."""

    kind: Literal["a", "b", "pair"]
    a: int | None
    b: int | None
    time: int
    stamp: Stamp


@dataclass(frozen=True)
class Options:
    """What MERGE JOIN … WITH (…) says of one merge; `largest` is how far memory lets the window grow."""

    tolerances: tuple[float, ...]
    policy: Policy = "first"
    window: int = 5000
    step: int = 1000
    every: int | None = 1_000_000
    delta: float | None = None
    over: int = 20
    largest: int = 1 << 40
    wait: int = 0
    by_rows: bool = False


Pairs = list[tuple[Record, Record]]
Records = tuple[list[Record], list[Record]]
Counts = tuple[int, int, int]
Numbers = tuple[set[int], set[int]]
"""Records of A and of B by their numbers."""


# -- which records merge -----------------------------------------------------------------------------


def within(a: Record, b: Record, tolerances: Sequence[float]) -> bool:
    """Whether all keys are as near as they must be."""
    return all(abs(x - y) <= far for x, y, far in zip(a.keys, b.keys, tolerances, strict=True))  # type: ignore[operator]


def cursors(a: Sequence[Record], b: Sequence[Record], tolerance: float) -> Pairs:
    """Step 3 of section 4.1, over two sorted windows of records with one key."""
    at, other, pairs = 0, 0, []
    while at < len(a) and other < len(b):
        if within(a[at], b[other], (tolerance,)):
            merged = a[at], b[other]
            pairs.append(merged)
            while at < len(a) and within(a[at], merged[0], (tolerance,)):
                at += 1
            while other < len(b) and within(b[other], merged[1], (tolerance,)):
                other += 1
        elif b[other].keys > a[at].keys:
            at += 1
        else:
            other += 1
    return pairs


def first(a: Sequence[Record], b: Sequence[Record], tolerances: Sequence[float]) -> Pairs:
    """Each of A in order with the first of B it may have; neighbours of what has merged are passed over."""
    pairs: Pairs = []
    for one in a:
        if any(within(one, done, tolerances) for done, _ in pairs):
            continue
        for other in b:
            if within(one, other, tolerances) and not any(within(other, done, tolerances) for _, done in pairs):
                pairs.append((one, other))
                break
    return pairs


def nearest(a: Sequence[Record], b: Sequence[Record], tolerances: Sequence[float], *, ended: bool = False) -> Pairs:
    """The closest pair, then the closest of what is left; of equally close ones who came first, of A and then of B.

    Unless the streams have ended, records with first keys as large as the largest so far may come. A pair that
    one of them could part is in doubt, and so are both of its records for all partners that are further away.
    """
    ranked = sorted(
        (_distance(one, other, tolerances), one.number, other.number, one, other)
        for one in a
        for other in b
        if within(one, other, tolerances)
    )
    taken: Numbers = (set(), set())
    doubtful: Numbers = (set(), set())
    pairs: Pairs = []
    for far, n, m, one, other in ranked:
        if n in taken[0] or m in taken[1]:
            continue
        in_doubt = n in doubtful[0] or m in doubtful[1]
        if not ended and (_may_come_nearer(one, b, tolerances, far) or _may_come_nearer(other, a, tolerances, far)):
            in_doubt = True
        for numbers, number in zip(doubtful if in_doubt else taken, (n, m), strict=True):
            numbers.add(number)
        if not in_doubt:
            pairs.append((one, other))
    return sorted(pairs, key=lambda pair: a.index(pair[0]))


def _may_come_nearer(record: Record, others: Sequence[Record], tolerances: Sequence[float], far: float) -> bool:
    gap = max(other.keys[0] for other in others) - record.keys[0]  # type: ignore[type-var, operator]
    if gap <= 0:
        return far > 0
    return tolerances[0] > 0 and _in_tolerances(gap, tolerances[0], len(tolerances)) < far


def _distance(a: Record, b: Record, tolerances: Sequence[float]) -> float:
    keys = zip(a.keys, b.keys, tolerances, strict=True)
    return max(_in_tolerances(abs(x - y), far, len(tolerances)) if far else 0.0 for x, y, far in keys)  # type: ignore[operator]


def _in_tolerances(apart: float, tolerance: float, keys: int) -> float:
    """Of exact numbers (fractions) exact, unless distances of several keys are compared, which are doubles."""
    return apart / tolerance if keys == 1 else float(apart / tolerance)


def all_pairs(a: Sequence[Record], b: Sequence[Record], tolerances: Sequence[float], new: Numbers) -> Pairs:
    """Every pair of which one record is new."""
    return [
        (one, other)
        for one in a
        for other in b
        if within(one, other, tolerances) and (one.number in new[0] or other.number in new[1])
    ]


# -- rounds of one group -----------------------------------------------------------------------------


class Round(NamedTuple):
    """What a round did: who left without ever having merged, who merged, and who never can."""

    stamp: Stamp
    dropped: Records
    pairs: Pairs
    unusable: Records
    merged: int
    """How many of A merged for the first time: M."""
    window: int
    step: int
    """N and K as they were in this round."""
    at_the_door: Pairs = []  # noqa: RUF012
    """Pairs of those who had to leave for new records, and took the nearest there was."""
    at_last: Pairs = []  # noqa: RUF012
    """Pairs of those whose time to wait was over."""
    expired: Records = ([], [])

    @property
    def counts(self) -> Counts:
        """M, and how many of A and of B left without a partner."""
        lefts = zip(self.dropped, self.unusable, self.expired, strict=True)
        a, b = (len(left) + len(never) + len(expired) for left, never, expired in lefts)
        return self.merged, a, b


def kappa(merged: int, dropped_a: int, dropped_b: int) -> float:
    """Of the matches that were possible in a window, the share that was made."""
    possible = merged + min(dropped_a, dropped_b)
    return merged / possible if possible else 1.0


def shortfall(counts: Iterable[Counts]) -> float:
    """Δ over rounds, each weighing as much as it had to match."""
    sums = [sum(column) for column in zip((0, 0, 0), *counts, strict=True)]
    return 1 - kappa(*sums)


@dataclass
class Group:
    """Windows A and B of one group, and what of its streams was not read yet."""

    options: Options
    unread: Records
    window: int
    step: int
    windows: Records = field(default_factory=lambda: ([], []))
    merged: Numbers = field(default_factory=lambda: (set(), set()))
    """Records that have merged (`all` keeps them in their windows)."""
    watched: list[Counts] = field(default_factory=list)
    """Counts of the rounds since N and K were last changed."""

    sure: int = MAX_TIME
    """Paced by rows, up to which time it is known which records of A and of B came."""
    last: int = -FAR
    """The time of the last round."""
    since: tuple[dict[int, int], dict[int, int]] = field(default_factory=lambda: ({}, {}))
    """Since when records wait in the windows."""

    def rounds(self, t: int) -> list[Round]:
        """All rounds there are while both streams are known up to `t`."""
        done = []
        while (found := self._next(t)) is not None:
            stamp, takes = found
            done.append(self._round(stamp, takes))
            self.last = stamp[0]
            self._adapt(done[-1])
        if t == MAX_TIME:
            done.append(self._close())
        return done

    def _next(self, t: int) -> tuple[Stamp, tuple[int, int]] | None:
        """The stamp of the next round and how many records each side takes, or None until more is known."""
        by_rows = self.options.by_rows
        known = [[record for record in side if record.time < t] for side in self.unread]
        rooms = [self.window - len(window) for window in self.windows]
        least = [max(self.step, room) for room in rooms]
        full = min(side[n - 1].time if len(side) >= n else FAR for side, n in zip(known, least, strict=True))
        firsts = [side[0].time for side in known if side]
        if by_rows:
            firsts = [self._first(self.unread[i], known[i], rooms[i]) for i in (0, 1)]
            firsts = [max(first, self.last) for first in firsts]
        waiting = [time for side in (0, 1) for time in self.since[side].values()]
        if self.options.wait and waiting:
            firsts.append(min(waiting) + self.options.wait)
        if not firsts or min(firsts) >= t:
            return None
        due = self._due(min(firsts), t)
        if due <= t and due <= full:
            if by_rows and due > self.sure:
                return None
            a, b = (sum(record.time < due for record in side) for side in self.unread)
            if by_rows:  # who is ahead fills the room there is
                a, b = (
                    max(n, min(room, sum(record.own < due for record in side)))
                    for n, room, side in zip((a, b), rooms, self.unread, strict=True)
                )
            return (due, 0), (a, b)
        if full < t:
            every = self.options.every
            if by_rows and every and full < LAST and full // every * every > self.sure:
                return None
            a, b = (min(n, sum(r.time <= full for r in side)) for side, n in zip(known, least, strict=True))
            if by_rows and full < LAST:  # the n-th rows of both streams belong together
                row = min(side[n - 1].number for side, n in zip(known, least, strict=True) if len(side) >= n)
                a, b = (min(n, sum(r.number <= row for r in side)) for side, n in zip(known, least, strict=True))
            return (full, 1), (a, b)
        return None

    @staticmethod
    def _first(unread: list[Record], known: list[Record], room: int) -> int:
        if room > 0 and unread:
            return unread[0].own
        return known[0].time if known else FAR

    def _due(self, earliest: int, t: int) -> int:
        every = self.options.every
        due = FAR if every is None or earliest >= LAST - every else (earliest // every + 1) * every
        return min(due, MAX_TIME) if t == MAX_TIME else due

    def _round(self, stamp: Stamp, takes: tuple[int, int]) -> Round:
        dropped: Records = ([], [])
        unusable: Records = ([], [])
        new: Numbers = (set(), set())
        before = len(self.merged[0])
        at_the_door = self._at_the_door(takes)
        for side, count in enumerate(takes):
            window, rows = self.windows[side], self.unread[side][:count]
            del self.unread[side][:count]
            excess = max(0, min(len(window) + count - self.window, len(window)))
            dropped[side].extend(self._unmerged(side, window[:excess]))
            unusable[side].extend(row for row in rows if not row.usable)
            rows = [row for row in rows if row.usable]
            window[:] = sorted(window[excess:] + rows, key=lambda row: (row.keys, row.number))
            new[side].update(row.number for row in rows)
            self.since[side].update((row.number, stamp[0]) for row in rows)
        pairs = self._merge(new)
        at_last, expired = self._let_go(stamp)
        for side in (0, 1):
            there = {row.number for row in self.windows[side]}
            for number in [number for number in self.since[side] if number not in there]:
                del self.since[side][number]
        merged = len(self.merged[0]) - before
        return Round(stamp, dropped, pairs, unusable, merged, self.window, self.step, at_the_door, at_last, expired)

    def _at_the_door(self, takes: tuple[int, int]) -> Pairs:
        """Who has to leave takes the nearest there is."""
        if self.options.policy != "nearest":
            return []
        leaving = [
            {row.number for row in window[: max(0, len(window) + count - self.window)]}
            for window, count in zip(self.windows, takes, strict=True)
        ]
        return self._merge_leaving(leaving[0], leaving[1])

    def _merge_leaving(self, leaving_a: set[int], leaving_b: set[int]) -> Pairs:
        if not leaving_a and not leaving_b:
            return []
        closest = nearest(self.windows[0], self.windows[1], self.options.tolerances, ended=True)
        pairs = [(a, b) for a, b in closest if a.number in leaving_a or b.number in leaving_b]
        self._take_out(pairs)
        return pairs

    def _let_go(self, stamp: Stamp) -> tuple[Pairs, Records]:
        """Whose time to wait is over leaves, if need be with the nearest there is."""
        if not self.options.wait or stamp[1] != 0 or stamp[0] >= LAST:
            return [], ([], [])
        over = [
            {row.number for row in window if since[row.number] < stamp[0] - self.options.wait}
            for window, since in zip(self.windows, self.since, strict=True)
        ]
        pairs = self._merge_leaving(over[0], over[1]) if self.options.policy == "nearest" else []
        gone: Records = ([], [])
        for side, window in enumerate(self.windows):
            gone[side].extend(self._unmerged(side, [row for row in window if row.number in over[side]]))
            window[:] = [row for row in window if row.number not in over[side]]
        return pairs, gone

    def _unmerged(self, side: int, records: list[Record]) -> list[Record]:
        return [record for record in records if record.number not in self.merged[side]]

    def _merge(self, new: Numbers = (set(), set()), *, ended: bool = False) -> Pairs:
        a, b = self.windows
        tolerances = self.options.tolerances
        if self.options.policy == "all":
            pairs = all_pairs(a, b, tolerances, new)
        elif self.options.policy == "nearest":
            pairs = nearest(a, b, tolerances, ended=ended)
        else:
            pairs = first(a, b, tolerances)
        self._take_out(pairs)
        return pairs

    def _take_out(self, pairs: Pairs) -> None:
        for side, window in enumerate(self.windows):
            self.merged[side].update(pair[side].number for pair in pairs)
            if self.options.policy != "all":
                window[:] = self._unmerged(side, window)

    def _close(self) -> Round:
        """The streams have ended: who waited waits no longer, and who is left has no partner."""
        pairs = self._merge(ended=True) if self.options.policy == "nearest" else []
        left = (self._unmerged(0, self.windows[0]), self._unmerged(1, self.windows[1]))
        return Round(CLOSING, left, pairs, ([], []), len(pairs), self.window, self.step)

    def _adapt(self, done: Round) -> None:
        """While too much is missed, the window doubles and the step halves, as far as memory goes."""
        self.watched = [*self.watched, done.counts][-self.options.over :]
        if self.options.delta is None or len(self.watched) < self.options.over:
            return
        larger = min(2 * self.window, self.options.largest), max(self.step // 2, self.options.step // 64, 1)
        if shortfall(self.watched) >= self.options.delta and larger != (self.window, self.step):
            (self.window, self.step), self.watched = larger, []


# -- the merge of continuously generated data --------------------------------------------------------


def cgm(
    a: Sequence[Record],
    b: Sequence[Record],
    options: Options,
    t: int = MAX_TIME,
    sure: int = MAX_TIME,
) -> list[Out]:
    """All that has come out, in order, once both streams are known up to `t`.

    Without groups, a round gives what it dropped of A, then of B, each in the order of the window, then its
    pairs in the order of A, then records of A and of B that cannot merge. With groups, which have rounds
    of their own, all of one stamp comes together: dropped of A by number (those that cannot merge among
    them), dropped of B by number, pairs by their numbers. When the streams have ended, who is left in the
    windows comes last, after the pairs of those who had waited.
    """
    groups: dict[Any, list[Round]] = {}
    for key in dict.fromkeys(_group(record) for record in (*a, *b)):
        groups[key] = group_rounds(key, a, b, options, t, sure)
    end = _end(groups.values(), [record for record in (*a, *b) if record.time < t])
    out = [one for rounds in groups.values() for done in rounds for one in _told(done, end)]
    if all(record.group == () for record in (*a, *b)):
        return out
    kinds = {"a": 0, "b": 1, "pair": 2}
    return sorted(out, key=lambda one: (one.stamp, kinds[one.kind], one.a or 0, one.b or 0))


def group_rounds(
    key: Any,
    a: Sequence[Record],
    b: Sequence[Record],
    options: Options,
    t: int = MAX_TIME,
    sure: int = MAX_TIME,
) -> list[Round]:
    """The rounds of one group."""
    left, right = ([record for record in side if _group(record) == key] for side in (a, b))
    return Group(options, (left, right), options.window, options.step, sure=sure).rounds(t)


def _group(record: Record) -> Any:
    return tuple("NaN" if part != part else part for part in record.group)


def _end(groups: Iterable[list[Round]], records: Iterable[Record]) -> int:
    """`_time` of what comes out when the streams have ended: as late as anything before it."""
    before = [done.stamp[0] for rounds in groups for done in rounds if done.stamp[0] < LAST]
    return max([*before, *(record.time if record.shown is None else record.shown for record in records)], default=0)


def _told(done: Round, end: int) -> list[Out]:
    time = end if done.stamp[0] >= LAST else done.stamp[0]

    def left(records: Records) -> list[Out]:
        a = [Out("a", record.number, None, time, done.stamp) for record in records[0]]
        return a + [Out("b", None, record.number, time, done.stamp) for record in records[1]]

    def merged(pairs: Pairs) -> list[Out]:
        return [Out("pair", one.number, other.number, time, done.stamp) for one, other in pairs]

    pairs, dropped = merged(done.pairs), left(done.dropped)
    if done.stamp == CLOSING:
        return pairs + dropped
    first_ones, last_ones = merged(done.at_the_door), merged(done.at_last)
    return first_ones + dropped + pairs + left(done.unusable) + last_ones + left(done.expired)
