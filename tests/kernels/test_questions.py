"""Questions answered together equal those answered one after the other."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.kernels import questions
from anabranch.kernels.questions import NOTHING, NULL, Intervals, QuestionIndex, code_keys, span
from tests.sampling import examples

Question = dict[int, list[tuple[int, int]]]


def intervals_of(asked: list[Question]) -> Intervals:
    rows = [(q, c, low, high) for q, each in enumerate(asked) for c, ranges in each.items() for low, high in ranges]
    return Intervals(*np.array(rows, np.int64).reshape(-1, 4).T)


def one_by_one(asked: list[Question], codes: list[list[int]]) -> list[tuple[int, int]]:
    """The naive version: every question looks at every row."""
    return [
        (q, row)
        for q, each in enumerate(asked)
        for row in range(len(codes[0]))
        if all(any(low <= codes[c][row] <= high for low, high in ranges) for c, ranges in each.items())
    ]


@st.composite
def asked_about(draw: st.DrawFn, columns: int = 3, most: int = 12) -> Question:
    found: Question = {}
    for column in draw(st.sets(st.integers(0, columns - 1))):
        ends = sorted(draw(st.sets(st.integers(NULL, most), min_size=1, max_size=6)))
        kind = draw(st.sampled_from(["points", "range", "ranges", "nothing"]))
        if kind == "nothing":
            found[column] = [(NOTHING, NOTHING)]
        elif kind == "points":
            found[column] = [(end, end) for end in ends]
        elif kind == "range":
            found[column] = [(ends[0], ends[-1])]
        else:
            found[column] = [(ends[i], ends[i + 1] if i + 1 < len(ends) else ends[i]) for i in range(0, len(ends), 2)]
    return found


CODES = st.integers(0, 20).flatmap(
    lambda rows: st.lists(st.lists(st.integers(NULL, 13), min_size=rows, max_size=rows), min_size=3, max_size=3)
)


@examples(400)
@given(st.lists(asked_about(), max_size=12), CODES, st.sampled_from([0, 4]), st.booleans())
def test_together_they_want_what_each_wants(
    asked: list[Question], codes: list[list[int]], per_row: int, seen: bool
) -> None:
    arrays = [np.array(column, np.int64) for column in codes]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(questions, "_POINTS_PER_ROW", per_row)
        index = QuestionIndex(len(asked), intervals_of(asked), arrays if seen else ())
        matches = index.match(arrays, len(codes[0]))
        index.choose(arrays)
        again = index.match(arrays, len(codes[0]))
    assert list(zip(matches.question.tolist(), matches.row.tolist(), strict=True)) == one_by_one(asked, codes)
    assert matches.question.tolist() == again.question.tolist()
    assert matches.row.tolist() == again.row.tolist()


def test_what_nothing_can_be_takes_nothing_from_the_question_before() -> None:
    asked: list[Question] = [{0: [(0, 0)], 1: [(0, 0), (2, 9)]}, {0: [(0, 0)], 1: [(NOTHING, NOTHING)]}]
    index = QuestionIndex(2, intervals_of(asked), [np.array([1, 0]), np.array([0, 9])])
    assert index.match([np.array([0]), np.array([9])]).question.tolist() == [0]


KEYS = st.integers(-5, 5)


@given(st.lists(KEYS, min_size=1), st.sets(KEYS), st.none() | KEYS, st.none() | KEYS)
def test_codes_say_what_lies_between_two_ends(
    keys: list[int], more: set[int], low: int | None, high: int | None
) -> None:
    ends = np.array(sorted(more | {end for end in (low, high) if end is not None}), np.int64)
    null = np.array([key == 3 for key in keys])
    first, last = span(ends, low, high)
    codes = code_keys(np.array(keys, np.int64), ends, null)
    wanted = [key != 3 and (low is None or low <= key) and (high is None or key < high) for key in keys]
    assert [first <= code <= last for code in codes.tolist()] == wanted


def test_it_is_looked_up_by_what_leaves_few_rows() -> None:
    codes = [np.arange(1000) % 2, np.arange(1000)]
    asked: list[Question] = [{0: [(1, 1)], 1: [(n, n + 1)]} for n in range(100)]
    index = QuestionIndex(100, intervals_of(asked), codes)
    assert len(index.match(codes).row) == 100
    assert index.candidates == 200
    blind = QuestionIndex(100, intervals_of(asked))
    blind.match(codes)
    assert blind.candidates == 50_000
    assert blind.wastes
    blind.choose(codes)
    blind.match(codes)
    assert blind.candidates == 200
    assert not blind.wastes
