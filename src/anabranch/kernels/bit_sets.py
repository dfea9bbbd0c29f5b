"""Many questions of many columns about each row: a set of bits for what a column's code says, and the AND of them.

None of the columns has to be selective: a row costs as much as there are columns, for 512 questions at once. These are
a block, one bit each, which is one line of a processor's cache, and what a code says of them is one such line. Rows
with the same codes in all columns have the same questions: where few combinations of codes occur, each of them is
answered once.

C.-Y. Chan and Y. Ioannidis, "Bitmap Index Design and Evaluation" (1998), for bitmaps of ranges; here it is the
questions that have the bits, and the rows that are looked up.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from anabranch.kernels.compiled import compiled
from anabranch.kernels.ends import NULL, buckets

Ints = NDArray[np.int32]

BLOCK = 512
_WORDS = BLOCK // 64
BYTES_PER_END = 80
"""About what an end of a column's intervals takes in a block: its line, itself, and its buckets."""
_SAMPLE = 2048
"""Rows by which it is seen whether few combinations occur: half as many as rows."""
_BIT_OF = np.zeros(64, np.int32)
_DE_BRUIJN = np.uint64(0x03F79D71B4CB0A89)
_BIT_OF[[(0x03F79D71B4CB0A89 << bit & (1 << 64) - 1) >> 58 for bit in range(64)]] = np.arange(64)


@dataclass(frozen=True)
class _Part:
    """What one column says of one block of questions: a line of bits behind each end."""

    column: int
    shift: int
    ends: Ints
    begins: Ints
    lines: NDArray[np.uint64]


class BitSets:
    """Finds the questions of rows; of its questions each has intervals of some columns, those of one disjoint.

    >>> of = lambda *rows: np.array(rows, np.int32)
    >>> sets = BitSets([of(0, 1)], of(0, 0, 1), of(0, 1, 1), of(1, 5, 5), of(3, 5, 6))
    >>> counts = np.zeros(2, np.int64)
    >>> found = sets.find(of([1, 2, 3], [5, 6, 7]), 0, 3, counts, 10)
    >>> found.question.tolist(), found.row.tolist(), counts.tolist()
    ([0, 1, 1], [0, 0, 1], [1, 2])
    """

    def __init__(self, blocks: list[Ints], question: Ints, column: Ints, low: Ints, high: Ints) -> None:
        self._columns = np.unique(column)
        # By code after that of NULL; what nothing has is in no place at all.
        first, past = np.maximum(low - np.int32(NULL), 0), high - np.int32(NULL) + np.int32(1)
        number = np.searchsorted(self._columns, column).astype(np.int32)
        # By column, of each code (that of NULL is the first) its place among the ends that questions name.
        self._tables: list[Ints] = []
        for place in range(len(self._columns)):
            mine = number == place
            ends = np.unique(np.concatenate([first[mine], past[mine]]))
            table = np.searchsorted(ends, np.arange(ends[-1] + 1), "right").astype(np.int32)
            first[mine], past[mine] = table[first[mine]], table[past[mine]]
            self._tables.append(table)
        block_of = np.full(int(question.max(initial=-1)) + 1, -1, np.int32)
        bit_of = np.zeros(len(block_of), np.int32)
        for place, questions in enumerate(blocks):
            block_of[questions], bit_of[questions] = place, np.arange(len(questions))
        order = np.lexsort((number, block_of[question]))
        cuts = np.searchsorted(block_of[question][order], np.arange(len(blocks) + 1))
        parts: list[_Part] = []
        begins = [0]
        for a, b in itertools.pairwise(cuts.tolist()):
            mine = order[a:b]
            bits = bit_of[question[mine]]
            for place in np.unique(number[mine]).tolist():
                here = number[mine] == place
                parts.append(_part(place, bits[here], first[mine][here], past[mine][here]))
            begins.append(len(parts))
        self._put_together(blocks, begins, parts)

    def _put_together(self, blocks: list[Ints], begins: list[int], parts: list[_Part]) -> None:
        """All parts in one array of each kind."""
        self._questions = np.zeros(len(blocks) * BLOCK, np.int32)
        self._filled = np.zeros((len(blocks), _WORDS), np.uint64)
        for place, questions in enumerate(blocks):
            self._questions[place * BLOCK : place * BLOCK + len(questions)] = questions
            self._filled[place] = _bits_of(np.arange(len(questions)))
        self._parts = np.array(begins, np.int64)
        self._part_column = np.array([part.column for part in parts], np.int64)
        self._shift = np.array([part.shift for part in parts], np.int64)
        self._end_at = np.cumsum([0, *(len(part.ends) for part in parts)])
        self._begin_at = np.cumsum([0, *(len(part.begins) for part in parts)])
        self._ends = np.concatenate([part.ends for part in parts])
        self._begins = np.concatenate([part.begins for part in parts])
        self._lines = np.concatenate([part.lines for part in parts])

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in (self._lines, self._ends, self._begins, *self._tables))

    def find(self, codes: Ints, first: int, end: int, counts: NDArray[np.int64], most: int) -> Found:
        """The questions of first ≤ row < end; `counts` has added to it how many rows each question has."""
        places = np.empty((len(self._columns), end - first), np.int32)
        for place, (column, table) in enumerate(zip(self._columns, self._tables, strict=True)):
            places[place] = table[np.minimum(codes[column, first:end] - NULL, len(table) - 1)]
        group, of_group, rows = _combinations(places, _SAMPLE)
        if len(of_group) == 0:
            group, of_group, rows = None, np.arange(end - first, dtype=np.int32), np.ones(end - first, np.int32)
        question, at, found, total = _all_that_are_in(
            places, of_group, rows, self._questions, self._filled, self._parts, self._part_column, self._shift,
            self._end_at, self._ends, self._begin_at, self._begins, self._lines, counts, most, _BIT_OF,
        )  # fmt: skip
        return Found(question[:found], at[:found], first, group, len(of_group), total)


@dataclass(frozen=True)
class Found:
    """Pairs of a question and a row, or of a question and a group of rows, by group."""

    question: Ints
    row: Ints
    first: int
    group: Ints | None
    groups: int
    total: int
    """How many pairs of a question and a row these are."""

    def put_in_order(self, places: NDArray[np.int64], rows: NDArray[np.int64]) -> None:
        """Each question's rows from its place on, in order; places go on."""
        if self.group is None:
            _put_rows(self.question, self.row, self.first, places, rows)
        else:
            order = np.argsort(self.row, kind="stable")
            begins = np.searchsorted(self.row[order], np.arange(self.groups + 1)).astype(np.int32)
            _put_groups(self.question[order], begins, self.group, self.first, places, rows)


def _part(column: int, bits: Ints, first: Ints, past: Ints) -> _Part:
    """The part of a column, of intervals first ≤ place < past of the questions with these bits."""
    ends = np.unique(np.concatenate([first, past]))
    lines = np.zeros((len(ends) + 1, _WORDS), np.uint64)
    lines[0] = _bits_of(np.arange(BLOCK)) & ~_bits_of(bits)  # whoever does not speak of the column takes every value
    word, mask = bits >> 6, np.uint64(1) << (bits & 63).astype(np.uint64)
    for turned in (first, past):  # where an interval begins a bit turns to 1, behind it to 0 again
        np.bitwise_xor.at(lines, (np.searchsorted(ends, turned, "right"), word), mask)
    shift, begins = buckets(ends.astype(np.int64), 2, 64)
    return _Part(column, shift, ends, begins, np.bitwise_xor.accumulate(lines, axis=0))


def _bits_of(bits: NDArray[np.int64] | Ints) -> NDArray[np.uint64]:
    words = np.zeros(_WORDS, np.uint64)
    np.bitwise_or.at(words, bits >> 6, np.uint64(1) << (bits & 63).astype(np.uint64))
    return words


@compiled
def _combinations(places, sample):  # type: ignore[no-untyped-def]
    """For each row the number of its combination, the first row of each, and how many rows each has.

    Nothing, if after a sample of rows more than half of them were the first of theirs.
    """
    columns, rows = places.shape
    slots = 1
    while slots < 2 * rows:
        slots *= 2
    table = np.full(slots, -1, np.int32)
    group = np.empty(rows, np.int32)
    firsts = np.empty(rows, np.int32)
    counts = np.zeros(rows, np.int32)
    found = 0
    for row in range(rows):
        if row == sample and 2 * found > sample:
            return group[:0], firsts[:0], counts[:0]
        mixed = np.uint64(0)
        for column in range(columns):
            mixed = (mixed ^ np.uint64(places[column, row])) * np.uint64(0x9E3779B97F4A7C15)
            mixed ^= mixed >> np.uint64(29)
        slot = np.int64(mixed & np.uint64(slots - 1))
        while table[slot] >= 0:
            other = firsts[table[slot]]
            same = True
            for column in range(columns):
                if places[column, row] != places[column, other]:
                    same = False
                    break
            if same:
                break
            slot = (slot + 1) & (slots - 1)
        if table[slot] < 0:
            table[slot] = found
            firsts[found] = row
            found += 1
        group[row] = table[slot]
        counts[group[row]] += 1
    return group, firsts[:found], counts[:found]


@compiled
def _all_that_are_in(  # type: ignore[no-untyped-def]
    places, of_group, rows, questions, filled, parts, part_column, shifts, end_at, ends, begin_at, begins, lines,
    counts, most, bit_of,
):  # fmt: skip
    """Questions and groups, by block, then group; how many, and how many rows they have together.

    With more than `most` rows it ends before it is through.
    """
    question_of = np.empty(len(of_group) + BLOCK, np.int32)
    group_of = np.empty(len(of_group) + BLOCK, np.int32)
    found = total = 0
    none = np.uint64(0)
    for block in range(len(filled)):
        for group in range(len(of_group)):
            at = of_group[group]
            a, b, c, d = filled[block, 0], filled[block, 1], filled[block, 2], filled[block, 3]
            e, f, g, h = filled[block, 4], filled[block, 5], filled[block, 6], filled[block, 7]
            for part in range(parts[block], parts[block + 1]):
                place = places[part_column[part], at]
                first = end_at[part]
                line = np.int64(0)
                if place >= ends[first]:
                    bucket = begin_at[part] + ((place - ends[first]) >> shifts[part])
                    if bucket >= begin_at[part + 1] - 1:
                        line = np.int64(end_at[part + 1] - first)
                    else:
                        line = np.int64(begins[bucket])
                        high = np.int64(begins[bucket + 1])
                        while line < high:
                            middle = (line + high) >> 1
                            if ends[first + middle] <= place:
                                line = middle + 1
                            else:
                                high = middle
                line += first + part  # each part has one line more than ends
                a &= lines[line, 0]
                b &= lines[line, 1]
                c &= lines[line, 2]
                d &= lines[line, 3]
                e &= lines[line, 4]
                f &= lines[line, 5]
                g &= lines[line, 6]
                h &= lines[line, 7]
                if (a | b | c | d | e | f | g | h) == none:
                    break
            if (a | b | c | d | e | f | g | h) == none:
                continue
            if found + BLOCK > len(question_of):
                more_questions = np.empty(2 * len(question_of), np.int32)
                more_groups = np.empty(2 * len(question_of), np.int32)
                more_questions[:found] = question_of[:found]
                more_groups[:found] = group_of[:found]
                question_of, group_of = more_questions, more_groups
            number = block * BLOCK
            for left in (a, b, c, d, e, f, g, h):
                while left != none:
                    lowest = left & (~left + np.uint64(1))
                    left ^= lowest
                    question = questions[number + bit_of[(lowest * _DE_BRUIJN) >> np.uint64(58)]]
                    question_of[found] = question
                    group_of[found] = group
                    counts[question] += rows[group]
                    total += rows[group]
                    found += 1
                number += 64
            if total > most:
                return question_of, group_of, found, total
    return question_of, group_of, found, total


@compiled
def _put_rows(question_of, row_of, first, places, rows):  # type: ignore[no-untyped-def]
    for i in range(len(question_of)):
        question = question_of[i]
        rows[places[question]] = row_of[i] + first
        places[question] += 1


@compiled
def _put_groups(question_of, begins, group, first, places, rows):  # type: ignore[no-untyped-def]
    for row in range(len(group)):
        for i in range(begins[group[row]], begins[group[row] + 1]):
            question = question_of[i]
            rows[places[question]] = row + first
            places[question] += 1
