"""Questions answered together equal those answered one after the other."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.kernels import bit_sets, questions
from anabranch.kernels.ends import Ends, code_keys, span
from anabranch.kernels.questions import NOTHING, NULL, Intervals, QuestionIndex
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


WAYS = {"looked up": 1e9, "measured": questions._LINE, "as bits": -1e9}
"""What a line of bits is said to cost: nothing is worth it, what is measured, everything is."""


@examples(600)
@given(
    st.lists(asked_about(), max_size=12), CODES, st.sampled_from(sorted(WAYS)), st.booleans(), st.sampled_from([2, 512])
)
def test_together_they_want_what_each_wants(
    asked: list[Question], codes: list[list[int]], way: str, seen: bool, sample: int
) -> None:
    arrays = [np.array(column, np.int64) for column in codes]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(questions, "_LINE", WAYS[way])
        patch.setattr(bit_sets, "_SAMPLE", sample)
        index = QuestionIndex(len(asked), intervals_of(asked), arrays if seen else ())
        matches = index.match(arrays, len(codes[0]))
        index.choose(arrays)
        again = index.match(arrays, len(codes[0]))
        if way == "as bits" and arrays[0].size and any(len(question) > 1 for question in asked):
            assert index.bits_of_questions > 0
    assert list(zip(matches.question.tolist(), matches.row.tolist(), strict=True)) == one_by_one(asked, codes)
    assert matches.question.tolist() == again.question.tolist()
    assert matches.row.tolist() == again.row.tolist()


@examples(200)
@given(st.lists(asked_about(), min_size=1, max_size=12), CODES, st.sampled_from(sorted(WAYS)), st.integers(1, 60))
def test_parts_are_what_the_whole_is_and_none_has_more_than_is_said(
    asked: list[Question], codes: list[list[int]], way: str, most: int
) -> None:
    arrays = [np.array(column, np.int32) for column in codes]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(questions, "_LINE", WAYS[way])
        index = QuestionIndex(len(asked), intervals_of(asked), arrays)
        parts = list(index.match_in_parts(arrays, len(codes[0]), most))
    assert all(len(part.row) <= most or len(set(part.row.tolist())) == 1 for part in parts)
    assert all(a.row.max() < b.row.min() for a, b in itertools.pairwise([part for part in parts if len(part.row)]))
    pairs = [pair for part in parts for pair in zip(part.question.tolist(), part.row.tolist(), strict=True)]
    assert sorted(pairs) == one_by_one(asked, codes)


def test_what_nothing_can_be_takes_nothing_from_the_question_before() -> None:
    asked: list[Question] = [{0: [(0, 0)], 1: [(0, 0), (2, 9)]}, {0: [(0, 0)], 1: [(NOTHING, NOTHING)]}]
    index = QuestionIndex(2, intervals_of(asked), [np.array([1, 0]), np.array([0, 9])])
    assert index.match([np.array([0]), np.array([9])]).question.tolist() == [0]


KEYS = st.integers(-5, 5) | st.integers(-(2**63), 2**63 - 1) | st.integers(-100_000, 100_000)


@given(st.lists(KEYS, min_size=1), st.sets(KEYS), st.none() | KEYS, st.none() | KEYS)
def test_codes_say_what_lies_between_two_ends(
    keys: list[int], more: set[int], low: int | None, high: int | None
) -> None:
    ends = np.array(sorted(more | {end for end in (low, high) if end is not None}), np.int64)
    null = np.array([key == 3 for key in keys])
    first, last = span(ends, low, high)
    codes = Ends(ends).codes(np.array(keys, np.int64), null)
    assert codes.tolist() == code_keys(np.array(keys, np.int64), ends, null).tolist()
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
    blind.keep_up(codes)
    blind.match(codes)
    assert blind.candidates == 200


def test_rows_that_are_no_longer_what_they_were_are_looked_up_by_another_column() -> None:
    few, many = np.arange(20_000) % 10_000, np.arange(20_000) % 2
    asked: list[Question] = [{0: [(n, n)], 1: [(n, n)]} for n in (0, 1)]
    index = QuestionIndex(2, intervals_of(asked), [few, many])
    index.match([few, many])
    index.keep_up([few, many])
    assert index.candidates == 4
    index.match([many, few])
    assert index.candidates == 4 + 20_000
    index.keep_up([many, few])
    index.match([many, few])
    assert index.candidates == 4


def test_what_no_column_is_selective_for_are_bits_and_what_one_is_for_is_looked_up() -> None:
    codes = [np.random.default_rng(column).integers(0, 4, 5000) for column in range(4)] + [np.arange(5000)]
    asked: list[Question] = [{c: [(n % 4, n % 4)] for c in range(4)} for n in range(100)]
    asked += [{0: [(1, 1)], 4: [(n, n)]} for n in range(50)]
    index = QuestionIndex(150, intervals_of(asked), codes)
    assert index.bits_of_questions == 100
    assert index.candidates == 0
    index.match(codes)
    assert index.candidates == 50
    without = QuestionIndex(100, intervals_of([{0: [(n % 4, n % 4)]} for n in range(100)]), codes)
    assert without.bits_of_questions == 0  # nothing is tested that could be spared


def test_bit_sets_that_would_be_too_large_are_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    codes = [np.random.default_rng(column).integers(0, 4, 5000) for column in range(4)]
    asked: list[Question] = [{c: [(n % 4, n % 4)] for c in range(4)} for n in range(1100)]
    monkeypatch.setattr(questions, "_MOST_BYTES", 2 * 4 * 5 * bit_sets.BYTES_PER_END)
    index = QuestionIndex(1100, intervals_of(asked), codes)
    assert index.bits_of_questions == 1024
    one = one_by_one(asked[1020:1028], [column[:50].tolist() for column in codes])
    matches = index.match([column[:50] for column in codes])
    pairs = zip(matches.question.tolist(), matches.row.tolist(), strict=True)
    assert [(q - 1020, row) for q, row in pairs if 1020 <= q < 1028] == one
