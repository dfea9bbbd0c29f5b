"""Many questions about each row, answered together: the rows that each of them wants.

A question is a conjunction: of some columns each must lie in one of some intervals. Equality, IN, open and closed
ranges, prefixes and IS [NOT] NULL are all intervals once the values of a column are coded by where they lie among the
ends that questions name (`kernels.ends`). There are two ways to find a question's rows, which find the same ones:

- It is *looked up* (`kernels.looking_up`) by one of its columns, the one that leaves the fewest rows, and what that
  leaves is tested on the others, the most selective first.
- It is a *bit* among others (`kernels.bit_sets`): where no column is selective by itself, what looking up leaves
  costs more than all columns do for 512 questions at once.

Which way and by which column is decided by a sample of the rows that come, and again when they are no longer what they
were (S. Babu and J. Widom, "Continuous Queries over Data Streams" (2001), §5.1 and §5.4; the rest is our own). The
rule: what a question leaves where it is looked up is as many tests for each row as its share of the sample; a block
of 512 questions costs as much as `_LINE` tests for each of its columns, and `_BLOCK` more. A block is made of
questions that together would need more tests than that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anabranch.kernels.bit_sets import BLOCK, BYTES_PER_END, BitSets
from anabranch.kernels.ends import NULL, Codes, code_keys, span
from anabranch.kernels.looking_up import look_up, put_in_order, tables_of

__all__ = ["NOTHING", "NULL", "Codes", "Intervals", "Matches", "QuestionIndex", "code_keys", "span"]

CodesByColumn = Sequence[NDArray[np.integer[Any]]]
NOTHING = -2
"""The code that nothing has: what nothing can be is asked for by it."""
_SAMPLE = 4096
_AGAIN = 1 << 23
"""After so many rows the choice is made again, which takes a thousandth of the time that they took."""
_LINE, _BLOCK = 0.5, 1.0
"""What a line of bits and a block cost, in tests."""
_ANY = 1 << 62
_MOST_BYTES = 1 << 26
"""All bit sets together are smaller; questions that would make them larger are looked up."""


class Intervals(NamedTuple):
    """Closed intervals of codes, each of a question and a column; those of one question and column are disjoint."""

    question: NDArray[np.int64]
    column: NDArray[np.int64]
    low: NDArray[np.int64]
    high: NDArray[np.int64]


class Matches(NamedTuple):
    """Which rows each question wants, ordered by question, then row."""

    question: NDArray[np.int64]
    row: NDArray[np.int64]


class QuestionIndex:
    """Finds the rows that each of many questions wants; `seen` are codes of rows as they usually are, if any are known.

    >>> of = lambda *rows: Intervals(*np.array(rows, np.int64).T)
    >>> index = QuestionIndex(3, of((0, 0, 1, 1), (1, 0, 2, 9), (1, 1, 1, 1)))  # the third wants every row
    >>> matches = index.match([np.array([1, 3, 3]), np.array([0, 1, 0])])
    >>> matches.question.tolist(), matches.row.tolist()
    ([0, 1, 2, 2, 2], [0, 1, 0, 1, 2])
    """

    def __init__(self, questions: int, intervals: Intervals, seen: CodesByColumn = ()) -> None:
        self._questions = questions
        order = np.lexsort((intervals.low, intervals.column, intervals.question))
        self._question, self._column, self._low, self._high = (part[order].astype(np.int32) for part in intervals)
        changes = (np.diff(self._question, prepend=-1) != 0) | (np.diff(self._column, prepend=-1) != 0)
        # A pair of a question and a column: where its intervals begin, and whose it is.
        self._begins = np.flatnonzero(changes).astype(np.int32)
        self._owner = self._question[self._begins]
        self._columns = 1 + int(self._column.max(initial=-1))
        self._everything = np.flatnonzero(np.bincount(self._owner, minlength=questions) == 0)
        self._several = np.bincount(self._owner, minlength=questions) > 1
        self._sampled = 0
        self.choose(seen)

    # -- which way ---------------------------------------------------------------------------------

    def keep_up(self, codes: CodesByColumn) -> None:
        """Choose by these rows if the last choice was made by few, by others than come now, or long ago."""
        if not self._several.any() or not len(codes) or not len(codes[0]):
            return
        few = self._sampled < _SAMPLE and len(codes[0]) > 4 * self._sampled
        if few or self.wastes or self._rows > _AGAIN:
            self.choose(codes)

    @property
    def wastes(self) -> bool:
        """Whether more than twice as much is tested as was expected: the rows are no longer what they were."""
        return self.candidates > 10_000 and self.candidates > 2 * self._expected * self._rows

    def choose(self, seen: CodesByColumn = ()) -> None:
        """Decide how each question's rows are found, by such rows."""
        rows = len(seen[0]) if len(seen) else 0
        # Drawn, as every so many rows may all be of one kind; always the same, as a test is easier to read then.
        drawn = np.random.default_rng(0).integers(0, rows, _SAMPLE) if rows > _SAMPLE else np.arange(rows)
        sample = [codes[drawn] for codes in seen]
        self._sampled = len(drawn)
        self._rows = self.candidates = 0
        left = self._left(sample)
        cost = np.add.reduceat(left, self._begins) if len(self._begins) else left
        ranked = np.lexsort((cost, self._owner))  # a question's columns, the one that leaves the fewest rows first
        first = np.diff(self._owner[ranked], prepend=-1) != 0
        best = np.zeros(self._questions)
        best[self._owner[ranked[first]]] = cost[ranked[first]] / max(self._sampled, 1)
        blocks = self._blocks(best) if self._sampled else []
        self._looked_up_by = np.full(self._questions, -1, np.int32)
        self._looked_up_by[self._owner[ranked[first]]] = self._column[self._begins[ranked[first]]]
        for block in blocks:
            self._looked_up_by[block] = -1
        self._expected = float(best[self._looked_up_by >= 0].sum()) if self._sampled else np.inf
        self._bits = self._bit_sets(blocks)
        self.bits_of_questions = sum(map(len, blocks))
        looked_up = (self._column == self._looked_up_by[self._question]) & (self._low > NOTHING)
        self._tables = tables_of(*(part[looked_up] for part in (self._question, self._column, self._low, self._high)))
        self._make_tests(ranked[~first])

    def _left(self, sample: CodesByColumn) -> NDArray[np.float64]:
        """How many rows of a sample each interval leaves; without any, points leave less than ranges."""
        if not self._sampled:
            return np.where(self._low == self._high, 1.0, 1.0 + (self._high.astype(np.int64) - self._low))
        left = np.empty(len(self._low))
        for number in range(self._columns):
            mine = self._column == number
            codes = np.sort(sample[number])
            left[mine] = np.searchsorted(codes, self._high[mine], "right") - np.searchsorted(codes, self._low[mine])
        return left

    def _blocks(self, best: NDArray[np.float64]) -> list[NDArray[np.int32]]:
        """The questions that are bits, by block: those that speak of the same columns stand together."""
        columns = np.bincount(self._owner, minlength=self._questions)
        wasteful = np.flatnonzero(self._several & (best * BLOCK > columns * _LINE + _BLOCK)).astype(np.int32)
        if not len(wasteful):
            return []
        names = np.random.default_rng(0).integers(0, 1 << 62, self._columns)
        spoken_of = np.zeros(self._questions, np.int64)
        np.add.at(spoken_of, self._owner, names[self._column[self._begins]])
        wasteful = wasteful[np.argsort(spoken_of[wasteful], kind="stable")]
        block_of = np.full(self._questions, -1, np.int64)
        block_of[wasteful] = np.arange(len(wasteful)) // BLOCK
        here = block_of[self._question] >= 0
        part = block_of[self._question[here]] * self._columns + self._column[here]
        lines = np.bincount(np.unique(part) // self._columns)
        ends = np.unique(np.c_[np.r_[part, part], np.r_[self._low[here], self._high[here] + 1]], axis=0)
        size = np.bincount(ends[:, 0] // self._columns) * BYTES_PER_END
        pays = np.bincount(block_of[wasteful], best[wasteful]) > lines * _LINE + _BLOCK
        pays &= np.cumsum(size * pays) <= _MOST_BYTES
        return [np.sort(wasteful[at * BLOCK : (at + 1) * BLOCK]) for at in np.flatnonzero(pays).tolist()]

    def _bit_sets(self, blocks: list[NDArray[np.int32]]) -> BitSets | None:
        if not blocks:
            return None
        mine = np.isin(self._question, np.concatenate(blocks))
        return BitSets(blocks, *(part[mine] for part in (self._question, self._column, self._low, self._high)))

    def _make_tests(self, pairs: NDArray[np.int64]) -> None:
        """What is tested on what a question's best column leaves, pairs being ordered by question."""
        pairs = pairs[self._looked_up_by[self._owner[pairs]] >= 0]
        lengths = np.diff(self._begins, append=len(self._low))[pairs]
        pieces = np.cumsum(np.r_[0, lengths])
        at = np.arange(pieces[-1]) + np.repeat(self._begins[pairs] - pieces[:-1], lengths)
        first = np.r_[0, np.cumsum(np.bincount(self._owner[pairs], minlength=self._questions))]
        self._tests = (
            first.astype(np.int32),
            self._column[self._begins[pairs]],
            pieces.astype(np.int32),
            self._low[at],
            self._high[at],
        )

    # -- finding -----------------------------------------------------------------------------------

    def match(self, codes: CodesByColumn, rows: int | None = None) -> Matches:
        """The rows that each question wants, of rows with these codes in each column."""
        count = len(codes[0]) if rows is None else rows
        (matches,) = self.match_in_parts(codes, count, _ANY)
        return matches

    def match_in_parts(self, codes: CodesByColumn, rows: int, most: int) -> Iterator[Matches]:
        """The same for some rows after the other: as many as want to be seen so many times together, at least one."""
        lines = np.empty((len(codes), rows), np.int32)
        for line, column in zip(lines, codes, strict=True):
            line[:] = column
        parts = [(0, rows)]
        while parts:
            first, end = parts.pop()
            matches = self._match(lines, first, end, most if end - first > 1 else _ANY)
            if matches is not None:
                yield matches
            else:
                middle = (first + end) // 2
                parts += [(middle, end), (first, middle)]

    def _match(self, codes: NDArray[np.int32], first: int, end: int, most: int) -> Matches | None:
        """The questions of first ≤ row < end; None if more rows are wanted than so many."""
        counts = np.zeros(self._questions, np.int64)
        counts[self._everything] = end - first
        if int(counts.sum()) > most:
            return None
        question, row, found, tested = look_up(codes, first, end, *self._tables, *self._tests, counts, most)
        self.candidates += tested
        self._rows += end - first
        if found > most:
            return None
        bits = None if self._bits is None else self._bits.find(codes, first, end, counts, most)
        total = int(counts.sum())
        if total > most:
            return None
        places = np.cumsum(counts) - counts
        rows = np.empty(total, np.int64)
        for place in places[self._everything].tolist():
            rows[place : place + end - first] = np.arange(first, end)
        put_in_order(question, row, found, places, rows)
        if bits is not None:
            bits.put_in_order(places, rows)
        return Matches(np.repeat(np.arange(self._questions), counts), rows)
