"""Many questions about each row, answered together: the rows that each of them wants.

A question is a conjunction: of some columns each must lie in one of some intervals. Equality, IN, open and closed
ranges, prefixes and IS [NOT] NULL are all intervals once the values of a column are coded by where they lie among the
ends that questions name (`code_keys`). Each question is looked up by one of its columns, the one that leaves the
fewest rows, and only what that leaves is tested on the others. Looking up costs a sort of the rows and a binary search
for each interval, or, where intervals are points and many more than rows, a binary search for each row: what it costs
grows with the answer and with the logarithm of the number of questions.

S. Babu and J. Widom, "Continuous Queries over Data Streams" (2001), §5.4; the rest is our own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Codes = NDArray[np.int64]
NULL = -1
"""The code of NULL, which is in no range."""
NOTHING = -2
"""The code that nothing has: what nothing can be is asked for by it."""
_POINTS_PER_ROW = 4
"""With more points than that for each row, rows are looked up among them instead of the other way round."""
_SAMPLE = 4096


class Intervals(NamedTuple):
    """Closed intervals of codes, each of a question and a column; those of one question and column are disjoint."""

    question: NDArray[np.int64]
    column: NDArray[np.int64]
    low: Codes
    high: Codes


class Matches(NamedTuple):
    """Which rows each question wants, ordered by question, then row."""

    question: NDArray[np.int64]
    row: NDArray[np.int64]


def code_keys(keys: NDArray[np.int64], ends: NDArray[np.int64], null: NDArray[np.bool_] | None = None) -> Codes:
    """How many of some ordered ends are at or before each key; `span` says which codes low ≤ key < high have.

    >>> ends = np.array([10, 11, 20])
    >>> code_keys(np.array([5, 10, 11, 30]), ends).tolist(), span(ends, 10, 11), span(ends, 11, None)
    ([0, 1, 2, 3], (1, 1), (2, 3))
    """
    codes = np.searchsorted(ends, keys, "right").astype(np.int64, copy=False)
    return codes if null is None else np.where(null, NULL, codes)


def span(ends: NDArray[np.int64], low: int | None, high: int | None) -> tuple[int, int]:
    """The codes of low ≤ key < high, both among the ends; None: no end. What is empty ends before it begins."""
    first = 0 if low is None else int(np.searchsorted(ends, low, "right"))
    last = len(ends) if high is None else int(np.searchsorted(ends, high))
    return first, last


@dataclass(frozen=True)
class _Lookup:
    """The questions that are looked up by one column."""

    column: int
    question: NDArray[np.int64]
    low: Codes
    high: Codes
    points: NDArray[np.int64] | None
    """Where they are all points: the order of `low`."""
    tested: bool
    """Whether any of the questions has another column."""


class QuestionIndex:
    """Finds the rows that each of many questions wants; `seen` are codes of rows as they usually are, if any are known.

    >>> of = lambda *rows: Intervals(*np.array(rows, np.int64).T)
    >>> index = QuestionIndex(3, of((0, 0, 1, 1), (1, 0, 2, 9), (1, 1, 1, 1)))  # the third wants every row
    >>> index.match([np.array([1, 3, 3]), np.array([0, 1, 0])])
    Matches(question=array([0, 1, 2, 2, 2]), row=array([0, 1, 0, 1, 2]))
    """

    def __init__(self, questions: int, intervals: Intervals, seen: Sequence[Codes] = ()) -> None:
        self._questions = questions
        order = np.lexsort((intervals.low, intervals.column, intervals.question))
        self._intervals = Intervals(*(part[order] for part in intervals))
        self._columns = 1 + int(intervals.column.max(initial=-1))
        self.choose(seen)
        self._prepare_tests()

    def choose(self, seen: Sequence[Codes] = ()) -> None:
        """Look questions up by the columns that leave the fewest of such rows."""
        question, column, low, high = self._intervals
        pair = question * max(self._columns, 1) + column
        begins = np.flatnonzero(np.r_[True, pair[1:] != pair[:-1]]) if len(pair) else np.zeros(0, np.int64)
        left = self._left(column, low, high, seen)
        cost = np.add.reduceat(left, begins) if len(begins) else np.zeros(0)
        owner = question[begins]
        # The cheapest column of each question: the first of it when ordered by cost.
        ranked = np.lexsort((cost, owner))
        firsts = ranked[np.r_[True, owner[ranked][1:] != owner[ranked][:-1]]] if len(ranked) else ranked
        chosen_pairs = np.zeros(len(begins), np.bool_)
        chosen_pairs[firsts] = True
        lengths = np.diff(np.r_[begins, len(pair)])
        chosen = np.repeat(chosen_pairs, lengths)
        several = np.bincount(owner, minlength=self._questions) > 1
        self._others = several
        self._everything = np.flatnonzero(np.bincount(owner, minlength=self._questions) == 0)
        self._chosen = np.zeros(self._questions, np.int64)
        self._chosen[owner[chosen_pairs]] = column[begins][chosen_pairs]
        self._lookups = []
        for number in range(self._columns):
            mine = np.flatnonzero(chosen & (column == number))
            for points in (True, False):
                here = mine[(low[mine] == high[mine]) == points]
                if len(here):
                    ordered = here[np.argsort(low[here], kind="stable")] if points else here
                    self._lookups.append(
                        _Lookup(
                            number,
                            question[ordered],
                            low[ordered],
                            high[ordered],
                            low[ordered] if points else None,
                            bool(several[question[ordered]].any()),
                        )
                    )
        self.candidates = self.matches = 0

    def _left(self, column: Codes, low: Codes, high: Codes, seen: Sequence[Codes]) -> NDArray[np.float64]:
        """How many rows each interval leaves, of those seen; without any, points leave less than ranges."""
        if not len(seen) or not len(seen[0]):
            return np.where(low == high, 1.0, 1.0 + (high - low))
        left = np.empty(len(low))
        for number in range(self._columns):
            mine = column == number
            codes = np.sort(seen[number][-_SAMPLE:])
            left[mine] = np.searchsorted(codes, high[mine], "right") - np.searchsorted(codes, low[mine]) + 0.5
        return left

    def _prepare_tests(self) -> None:
        """For each column, whether a question has intervals of it: one that can be compared, or a list to search."""
        question, column, low, high = self._intervals
        self._bounds: list[tuple[Codes, Codes] | None] = []
        self._lists: list[tuple[NDArray[np.int64], Codes, Codes] | None] = []
        for number in range(self._columns):
            mine = column == number
            owner = question[mine]
            once = np.bincount(owner, minlength=self._questions)
            if (once > 1).any():  # searched by question, then low
                self._bounds.append(None)
                self._lists.append((owner, low[mine], high[mine]))
                continue
            least, most = np.full(self._questions, NULL, np.int64), np.full(self._questions, 2**62, np.int64)
            least[owner], most[owner] = low[mine], high[mine]
            self._bounds.append((least, most))
            self._lists.append(None)

    @property
    def wastes(self) -> bool:
        """Whether much more is looked up than is wanted: the rows are no longer what they were."""
        return self.candidates > 10_000 and self.candidates > 8 * self.matches

    def match(self, codes: Sequence[Codes], rows: int | None = None) -> Matches:
        """The rows that each question wants, of rows with these codes in each column."""
        count = len(codes[0]) if rows is None else rows
        found = [_every(self._everything, count)]
        for lookup in self._lookups:
            matches = _look_up(lookup, codes[lookup.column])
            self.candidates += len(matches.row)
            if lookup.tested and len(matches.row):
                matches = self._tested(matches, codes, lookup.column)
            self.matches += len(matches.row)
            found.append(matches)
        question = np.concatenate([part.question for part in found])
        row = np.concatenate([part.row for part in found])
        order = np.argsort(question * max(count, 1) + row, kind="stable")
        return Matches(question[order], row[order])

    def _tested(self, matches: Matches, codes: Sequence[Codes], but: int) -> Matches:
        """Those that also lie in the intervals of their question's other columns."""
        for number in range(self._columns):
            if number == but or not len(matches.row):
                continue
            bounds, listed = self._bounds[number], self._lists[number]
            code = codes[number][matches.row]
            if bounds is not None:
                inside = (bounds[0][matches.question] <= code) & (code <= bounds[1][matches.question])
            else:
                assert listed is not None
                inside = _in_lists(matches.question, code, *listed)
            matches = Matches(matches.question[inside], matches.row[inside])
        return matches


def _every(questions: NDArray[np.int64], rows: int) -> Matches:
    return Matches(np.repeat(questions, rows), np.tile(np.arange(rows), len(questions)))


def _look_up(lookup: _Lookup, codes: Codes) -> Matches:
    """The rows in each interval."""
    if lookup.points is not None and len(lookup.points) > _POINTS_PER_ROW * len(codes):
        first = np.searchsorted(lookup.points, codes)
        counts = np.searchsorted(lookup.points, codes, "right") - first
        return Matches(lookup.question[_runs(first, counts)], np.repeat(np.arange(len(codes)), counts))
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    first = np.searchsorted(ordered, lookup.low)
    counts = np.searchsorted(ordered, lookup.high, "right") - first
    return Matches(np.repeat(lookup.question, counts), order[_runs(first, counts)])


def _runs(first: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """The numbers of runs that begin somewhere and are so long, one after the other.

    >>> _runs(np.array([5, 0]), np.array([2, 3])).tolist()
    [5, 6, 0, 1, 2]
    """
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    runs: NDArray[np.int64] = np.arange(total) + np.repeat(first - (ends - counts), counts)
    return runs


def _in_lists(
    question: NDArray[np.int64], code: Codes, owner: NDArray[np.int64], low: Codes, high: Codes
) -> NDArray[np.bool_]:
    """Whether codes are in an interval of their question; one that has none wants any code."""
    # Codes begin with NOTHING, which must not lie among those of the question before.
    span = max(int(high.max(initial=0)), int(code.max(initial=0))) + 1 - NOTHING
    keys = owner * span + (low - NOTHING)
    at = np.searchsorted(keys, question * span + (code - NOTHING), "right") - 1
    place = np.maximum(at, 0)
    inside: NDArray[np.bool_] = (at >= 0) & (owner[place] == question) & (code <= high[place])
    has = np.zeros(max(int(question.max(initial=0)), int(owner.max(initial=0))) + 1, np.bool_)
    has[owner] = True
    inside |= ~has[question]
    return inside
