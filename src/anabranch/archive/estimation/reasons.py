"""Why an answer has no bounds, in words for those who asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Reasons = NDArray[np.int8]
"""By group, the number of a reason, or `GIVEN`."""

GIVEN, UNTOLD, UNSEEN, KEYS, FEW, ALIKE, CARRIED, KEPT_WHOLE = range(8)

_IN_WORDS = {
    UNTOLD: "files of the archive do not say which of their rows lie far out, as those written by an earlier version: "
    "the archiver writes them again one by one, VACUUM ARCHIVE all at once",
    UNSEEN: "of some stretch of rows none was read: read more",
    KEYS: "single keys have so many of the rows that it matters which keys were read: read more, or without keys",
    FEW: "too few rows of the group were read: read more, or ask for larger groups",
    ALIKE: "all values that were read are equal, and nothing is known of the others: read more",
    CARRIED: "few of the rows that were read carry the sum, and nothing is known of the others: read more",
    KEPT_WHOLE: "whole keys were read, and a single row that was not may be worth as much as all that were: read more",
}


class Case(NamedTuple):
    """A reason, and the groups that it holds for."""

    reason: int
    groups: NDArray[np.bool_] | bool


def first_of(groups: int, cases: Sequence[Case]) -> Reasons:
    """By group, the first reason that holds.

    >>> first_of(3, [Case(FEW, np.array([True, False, False])), Case(ALIKE, np.array([True, True, False]))]).tolist()
    [4, 5, 0]
    """
    reasons: Reasons = np.full(groups, GIVEN, np.int8)
    for reason, holds in reversed(cases):
        reasons[np.broadcast_to(holds, groups)] = reason
    return reasons


def counted(reasons: Reasons) -> dict[str, int]:
    """How many groups have no bounds, by why."""
    return {words: number for reason, words in _IN_WORDS.items() if (number := int(np.sum(reasons == reason)))}


def notices(columns: Mapping[str, Reasons]) -> list[str]:
    """What there is to say about the columns of an answer.

    >>> notices({"total": np.array([FEW, GIVEN], np.int8), "n": np.array([GIVEN, GIVEN], np.int8)})
    ['total has no bounds in 1 of 2 rows: too few rows of the group were read: read more, or ask for larger groups']
    """
    return [
        f"{name} has no bounds{f' in {number} of {len(reasons)} rows' if len(reasons) > 1 else ''}: {words}"
        for name, reasons in columns.items()
        for words, number in counted(reasons).items()
    ]
