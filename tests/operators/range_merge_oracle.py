"""Merges by range queries the naive way: for each block of A all of B is looked through.

After M. Mazzucco et al. (2002, §4.2).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from tests.operators.merge_oracle import FAR, MAX_TIME, Pairs, Policy, Record, first, nearest, within

Remainder = Literal["rest", "difference"]
Cube = list[tuple[float, float]]


class Block(NamedTuple):
    """Records of A that are merged at once, the time of that, and before which time records of B are seen."""

    records: list[Record]
    time: int
    sees: int


def blocks(a: Sequence[Record], window: int, every: int | None, t: int = MAX_TIME) -> list[Block]:
    """A cut into blocks as CGM would read it alone: as many records as the window has, fewer where a round is due."""
    unread, found = [record for record in a if record.time < t], []
    while unread:
        full = unread[window - 1].time if len(unread) >= window else FAR
        due = FAR if every is None else (unread[0].time // every + 1) * every
        due = min(due, MAX_TIME) if t == MAX_TIME else due
        if due <= t and due <= full:
            taken = [record for record in unread if record.time < due]
            time = taken[-1].time + 1 if due == MAX_TIME else due
            found.append(Block(taken, time, time))
        elif full < t:
            taken = unread[:window]
            found.append(Block(taken, full, full + 1))
        else:
            break
        unread = unread[len(taken) :]
    return found


def rtm(
    a: Sequence[Record],
    b: Sequence[Record],
    tolerances: Sequence[float],
    window: int,
    remainder: Remainder = "rest",
    policy: Policy = "first",
    asked: int | None = None,
) -> list[tuple[int, int]]:
    """Numbers of the records of one block that merge with records of B, which answers in the order of its rows.

    When a window of B is used up, the next one comes from the same range query (`rest`), or from the range
    of the block without that of the windows so far (`difference`, section 4.2). The range is one of the first
    `asked` keys, by default of all.
    """
    block = _in_order(record for record in a if record.usable)
    if not block:
        return []
    waiting = [record for record in b if record.usable and _near(record, _cube(block)[:asked], tolerances)]
    if policy != "first":
        return _of_any(block, waiting, tolerances, window, policy)
    pairs: Pairs = []
    seen: Cube | None = None
    while waiting and block:
        taken, waiting = _in_order(waiting[:window]), waiting[window:]
        merged = first(block, taken, tolerances)
        pairs += merged
        if remainder == "difference":
            if _block_ends_first(block, taken, tolerances):
                break
            seen = _cube(taken) if seen is None else _around(seen, _cube(taken))
            waiting = [record for record in waiting if not _inside(record, seen)]
        block = [record for record in block if all(record != one for one, _ in merged)]
    return [(one.number, other.number) for one, other in pairs]


def _of_any(
    block: list[Record], waiting: list[Record], tolerances: Sequence[float], window: int, policy: Policy
) -> list[tuple[int, int]]:
    """Policies that leave records free for later windows; pairs come window by window, in the order of the block."""
    windows = [_in_order(waiting[at : at + window]) for at in range(0, len(waiting), window)]
    wanted = {
        (one.number, other.number)
        for one, other in nearest(block, waiting, tolerances, ended=True)
        if policy == "nearest"
    }
    return [
        (one.number, other.number)
        for taken in windows
        for one in block
        for other in taken
        if within(one, other, tolerances) and (policy == "all" or (one.number, other.number) in wanted)
    ]


def _in_order(records: Iterable[Record]) -> list[Record]:
    return sorted(records, key=lambda record: (record.keys, record.number))


def _block_ends_first(block: list[Record], taken: list[Record], tolerances: Sequence[float]) -> bool:
    """Whether cursor a comes to the end of its window before cursor b does; then the next block is read."""
    if len(tolerances) > 1:
        return block[-1].keys[0] - taken[-1].keys[0] <= tolerances[0]  # type: ignore[operator]
    at, other = 0, 0
    while at < len(block) and other < len(taken):
        one, two = block[at], taken[other]
        if within(one, two, tolerances):
            at = _behind(block, one, tolerances)
            other = _behind(taken, two, tolerances)
        elif two.keys > one.keys:
            at += 1
        else:
            other += 1
    return at == len(block)


def _behind(window: list[Record], merged: Record, tolerances: Sequence[float]) -> int:
    """The place of the first record that stands behind one that has merged and is not within tolerance of it."""
    start = window.index(merged) + 1
    return next((i for i in range(start, len(window)) if not within(window[i], merged, tolerances)), len(window))


def _cube(records: Sequence[Record]) -> Cube:
    columns = list(zip(*(record.keys for record in records), strict=True))
    return [(min(column), max(column)) for column in columns]


def _around(one: Cube, other: Cube) -> Cube:
    return [(min(low, a), max(high, b)) for (low, high), (a, b) in zip(one, other, strict=True)]


def _inside(record: Record, cube: Cube) -> bool:
    return all(low <= key <= high for key, (low, high) in zip(record.keys, cube, strict=True))  # type: ignore[operator]


def _near(record: Record, cube: Cube, tolerances: Sequence[float]) -> bool:
    """Whether a record lies in a cube that is wider by the tolerances on all sides."""
    return all(
        (key >= low or low - key <= far) and (key <= high or key - high <= far)  # type: ignore[operator]
        for key, (low, high), far in zip(record.keys, cube, tolerances, strict=False)
    )
