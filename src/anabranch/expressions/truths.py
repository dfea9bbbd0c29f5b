"""Sets of a column's values, as ordered ranges of their keys and whether NULL is among them.

A condition on one column is TRUE for some values, FALSE for others, and UNKNOWN for the rest: a pair of sets says all
of it, NOT turns them round, and AND and OR are intersection and union of the one and union and intersection of the
other (Kleene's logic, which SQL has).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

Key = int | str
"""An integer, or bytes as hexadecimal digits, which have the same order."""
Range = tuple[Key | None, Key | None]
"""Keys low ≤ key < high; None: no end."""


class Values(NamedTuple):
    """Some values of a column: ranges that are ordered and do not touch."""

    ranges: tuple[Range, ...] = ()
    null: bool = False


ALL_KEYS = Values(((None, None),))
"""All that are not NULL."""
NULL_ALONE = Values(null=True)


def values_in(ranges: Iterable[Range]) -> Values:
    """The keys of some ranges, in any order.

    >>> values_in([(5, 6), (1, 3), (3, 4), (9, 9)]).ranges
    ((1, 4), (5, 6))
    """
    given: list[tuple[Any, Any]] = [ends for ends in ranges if None in ends or ends[0] < ends[1]]  # type: ignore[operator]
    given.sort(key=lambda ends: (ends[0] is not None, ends[0]))
    joined: list[tuple[Any, Any]] = []
    for low, high in given:
        if joined and (joined[-1][1] is None or low is None or low <= joined[-1][1]):
            before = joined[-1][1]
            last = None if before is None or high is None else max(before, high)
            joined[-1] = joined[-1][0], last
        else:
            joined.append((low, high))
    return Values(tuple(joined))


def union(of: Iterable[Values]) -> Values:
    """What is in any of them."""
    given = list(of)
    return Values(values_in(ends for values in given for ends in values.ranges).ranges, any(v.null for v in given))


def complement(values: Values) -> Values:
    """What is not among them, NULL or not.

    >>> complement(Values(((1, 2), (5, None))))
    Values(ranges=((None, 1), (2, 5)), null=True)
    """
    gaps: list[Any] = []
    begin: Key | None = None
    open_ended = False
    for low, high in values.ranges:
        if low is not None:
            gaps.append((begin, low))
        begin, open_ended = high, high is None
    if not open_ended:
        gaps.append((begin, None))
    return Values(tuple(gaps), not values.null)


def intersection(of: Iterable[Values]) -> Values:
    """What is in all of them."""
    return complement(union(map(complement, of)))


class Truth(NamedTuple):
    """For which values of a column a condition is TRUE, and for which FALSE; for the others it is UNKNOWN."""

    column: str
    true: Values
    false: Values


def compared(column: str, ranges: Iterable[Range]) -> Truth:
    """What is TRUE for some keys and FALSE for the others, and UNKNOWN for NULL."""
    true = values_in(ranges)
    return Truth(column, true, intersection([complement(true), ALL_KEYS]))


def certain(column: str, true: Values) -> Truth:
    """What is never UNKNOWN."""
    return Truth(column, true, complement(true))


def unknown(column: str) -> Truth:
    """What is always UNKNOWN."""
    return Truth(column, Values(), Values())


def negated(truth: Truth) -> Truth:
    return Truth(truth.column, truth.false, truth.true)


def all_of(parts: list[Truth]) -> Truth:
    """AND of parts about one column."""
    return Truth(parts[0].column, intersection(part.true for part in parts), union(part.false for part in parts))


def any_of(parts: list[Truth]) -> Truth:
    """OR of parts about one column."""
    return negated(all_of([negated(part) for part in parts]))
