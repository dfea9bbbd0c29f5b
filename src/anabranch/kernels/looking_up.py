"""The intervals that each of many codes is in, and the other tests of whose intervals they are.

An interval is cut into runs of codes that begin and end at multiples of powers of four, at most six of each power; a
code is in one run of each power, so that a row looks into one place for each power that occurs. Points are runs of
the power 0: a table from codes to questions.

M. de Berg et al., "Computational Geometry" (segment trees, which have powers of two), §10.3.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from anabranch.kernels.compiled import compiled
from anabranch.kernels.ends import NULL

Ints = NDArray[np.int32]

_BITS = 2
"""Powers of four: half as many places to look into as with powers of two, and at most thrice as many runs."""


class Tables(NamedTuple):
    """Where codes of a column are looked up: one table for each power that occurs."""

    column: NDArray[np.int64]
    shift: NDArray[np.int64]
    base: NDArray[np.int64]
    """Where the table's runs begin in `begins`; behind the last table is the end of it."""
    begins: Ints
    """Where the questions of each run begin in `questions`."""
    questions: Ints


class Tests(NamedTuple):
    """What else must be true of a row: for each question some tests, in the order in which they are made."""

    begins: Ints
    """For each question, its first test; then how many there are."""
    column: Ints
    pieces: Ints
    """For each test, its first interval; then how many there are."""
    low: Ints
    high: Ints


def tables_of(question: Ints, column: Ints, low: Ints, high: Ints) -> Tables:
    """The tables of some intervals, of which none ends before it begins."""
    made: list[tuple[int, int, Ints, Ints]] = []
    for number in np.unique(column).tolist():
        mine = column == number
        made += [(number, *each) for each in _runs_of(question[mine], low[mine] - NULL, high[mine] - NULL)]
    base = np.cumsum([0, *(len(begins) for _, _, begins, _ in made)])
    first = np.cumsum([0, *(len(questions) for *_, questions in made)])
    return Tables(
        np.array([number for number, *_ in made], np.int64),
        np.array([shift for _, shift, *_ in made], np.int64),
        base,
        _joined([begins + np.int32(at) for (_, _, begins, _), at in zip(made, first, strict=False)]),
        _joined([questions for *_, questions in made]),
    )


def _runs_of(question: Ints, first: Ints, last: Ints) -> list[tuple[int, Ints, Ints]]:
    """For each power its shift, where the questions of each run begin, and the questions."""
    tables = []
    owner, left, past, shift = question, first.copy(), last + np.int32(1), 0
    while len(owner):
        runs, owners = [], []
        for _ in range((1 << _BITS) - 1):
            ragged = (left & 3 != 0) & (left < past)
            runs.append(left[ragged])
            owners.append(owner[ragged])
            left[ragged] += 1
            ragged = (past & 3 != 0) & (left < past)
            past[ragged] -= 1
            runs.append(past[ragged])
            owners.append(owner[ragged])
        run, own = _joined(runs), _joined(owners)
        if len(run):
            begins = np.zeros(int(run.max()) + 2, np.int32)
            np.cumsum(np.bincount(run), out=begins[1:])
            tables.append((shift, begins, own[np.argsort(run, kind="stable")]))
        more = left < past
        owner, left, past = owner[more], left[more] >> _BITS, past[more] >> _BITS
        shift += _BITS
    return tables


def _joined(arrays: list[Ints]) -> Ints:
    return np.concatenate(arrays) if arrays else np.zeros(0, np.int32)


@compiled
def look_up(  # type: ignore[no-untyped-def]
    codes, first, end, column, shift, base, begins, questions, test_begins, test_column, pieces, low, high, counts, most
):
    """The questions and rows that match among first ≤ row < end, by column, then row; then how many were tested.

    `counts` has added to it how many rows each question has. With more than `most` pairs it ends before it is through.
    """
    question_of = np.empty(min(most, end - first) + 1, np.int32)
    row_of = np.empty(min(most, end - first) + 1, np.int32)
    found = tested = past_table = 0
    while past_table < len(column):
        table = past_table
        while past_table < len(column) and column[past_table] == column[table]:
            past_table += 1
        own = codes[column[table]]
        for row in range(first, end):
            for power in range(table, past_table):
                run = (own[row] + 1) >> shift[power]
                if run < 0 or run >= base[power + 1] - base[power] - 1:
                    continue
                begin, past = begins[base[power] + run], begins[base[power] + run + 1]
                tested += past - begin
                for at in range(begin, past):
                    question = questions[at]
                    wanted = True
                    for test in range(test_begins[question], test_begins[question + 1]):
                        code = codes[test_column[test], row]
                        a, b = pieces[test], pieces[test + 1]
                        while b - a > 1:  # the last interval that does not begin behind the code
                            middle = (a + b) >> 1
                            if low[middle] <= code:
                                a = middle
                            else:
                                b = middle
                        if code < low[a] or code > high[a]:
                            wanted = False
                            break
                    if wanted:
                        if found == len(question_of):
                            if found > most:
                                return question_of, row_of, found, tested
                            more_questions = np.empty(2 * found, np.int32)
                            more_rows = np.empty(2 * found, np.int32)
                            more_questions[:found] = question_of
                            more_rows[:found] = row_of
                            question_of, row_of = more_questions, more_rows
                        question_of[found] = question
                        row_of[found] = row
                        counts[question] += 1
                        found += 1
    return question_of, row_of, found, tested


@compiled
def put_in_order(question_of, row_of, found, places, rows):  # type: ignore[no-untyped-def]
    """Each question's rows from its place on, in the order in which they were found; places go on."""
    for i in range(found):
        question = question_of[i]
        rows[places[question]] = row_of[i]
        places[question] += 1
