"""The corners of window functions; random ones are in test_random_trees."""

from __future__ import annotations

import datetime as dt
import math
import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from anabranch.errors import QueryError
from anabranch.operators.tree.nodes import Call, Ranked
from anabranch.operators.tree.steps.ranked import RankedStep
from anabranch.schema import TIME_TYPE
from tests.operators.tree.run import Played

SCHEMA = pa.schema([("g", pa.string()), ("x", pa.int64()), ("s", pa.string())])
BY_X = (("x", False, True),)


def ranked(*calls: Call, schema: pa.Schema = SCHEMA, **more: Any) -> Played:
    node = Ranked(0, more.pop("partition", ("g",)), more.pop("order", BY_X), calls)
    return Played(RankedStep(node, [schema], [True]), schema)


def call(function: str, *arguments: str, **options: Any) -> Call:
    return Call("it", function, arguments, options=tuple(options.items()))


def said(function: str, *arguments: str, xs: list[Any], order: Any = BY_X, **options: Any) -> list[Any]:
    """What a function says of some x, in their order; NULLs first."""
    played = ranked(call(function, *arguments, **options), order=order)
    played.take(*((("g", x, ""), 1) for x in xs))
    found = sorted(played.answer.elements(), key=lambda row: (row[1] is not None, row[1]))
    return [row[3] for row in found]


def test_ranks_of_ties_and_nulls() -> None:
    xs = [None, None, 1, 2, 2, 2, 5]
    assert said("rank", xs=xs) == [1, 1, 3, 4, 4, 4, 7]
    assert said("dense_rank", xs=xs) == [1, 1, 2, 3, 3, 3, 4]
    assert said("percent_rank", xs=xs) == [0, 0, 2 / 6, 3 / 6, 3 / 6, 3 / 6, 1]
    assert said("cume_dist", xs=xs) == [2 / 7, 2 / 7, 3 / 7, 6 / 7, 6 / 7, 6 / 7, 1]
    assert said("rank", xs=xs, order=(("x", True, False),)) == [6, 6, 5, 2, 2, 2, 1]


def test_a_row_alone_has_a_percent_rank_of_zero() -> None:
    assert said("percent_rank", xs=[3]) == [0.0]


def test_ties_are_numbered_by_all_columns() -> None:
    played = ranked(call("row_number"))
    played.take((("g", 1, "b"), 1), (("g", 1, "a"), 1), (("g", 1, None), 1))
    assert {row[2]: row[3] for row in played.answer} == {None: 1, "a": 2, "b": 3}


def test_a_row_that_is_there_three_times_has_three_numbers() -> None:
    played = ranked(call("row_number"))
    same = ("g", 1, "a")
    assert played.take((same, 3)) == [(*same, 1), (*same, 2), (*same, 3)]
    played.take((("g", 0, "z"), 1))
    assert played.last == {("g", 0, "z", 1): 1, (*same, 4): 1, (*same, 1): -1}
    played.take((same, -2))
    assert played.answer == {("g", 0, "z", 1): 1, (*same, 2): 1}


def test_only_rows_of_which_something_else_is_said_change() -> None:
    played = ranked(call("row_number"))
    played.take(*((("g", x, ""), 1) for x in range(10)), (("h", 1, ""), 1))
    played.take((("g", 8, ""), -1))
    assert played.last == {("g", 8, "", 9): -1, ("g", 9, "", 10): -1, ("g", 9, "", 9): 1}


def test_a_part_that_vanishes_goes_and_null_is_a_part() -> None:
    played = ranked(call("count"))
    played.take((("g", 1, ""), 2), ((None, 1, ""), 1))
    assert played.take((("g", 1, ""), -2)) == [(None, 1, "", 1)]


def test_tiles_are_as_even_as_can_be() -> None:
    assert said("ntile", xs=list(range(7)), count=3) == [1, 1, 1, 2, 2, 3, 3]
    assert said("ntile", xs=[1, 2], count=5) == [1, 2]


def test_neighbours() -> None:
    xs = [None, 1, 2, 4]
    assert said("lag", "x", xs=xs) == [None, None, 1, 2]
    assert said("lag", "x", xs=xs, default=-7) == [-7, None, 1, 2]
    assert said("lead", "x", xs=xs, offset=2, default=9) == [2, 4, 9, 9]
    assert said("lead", "x", xs=xs, offset=-1) == [None, None, 1, 2]
    assert said("lag", "x", xs=xs, offset=0) == [None, 1, 2, 4]
    assert said("lag", "x", xs=xs, ignore_nulls=True, default=0) == [0, 0, 1, 2]
    assert said("lag", "x", "x", xs=xs, offset=3) == [None, 1, 2, None]


def test_the_default_of_a_time_is_a_time() -> None:
    schema = pa.schema([("g", pa.string()), ("t", TIME_TYPE)])
    day = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    played = ranked(call("lag", "t", default=day), schema=schema, order=(("t", False, True),))
    assert played.take((("g", day + dt.timedelta(1)), 1)) == [("g", day + dt.timedelta(1), day)]


def test_the_default_frame_ends_with_the_last_peer() -> None:
    assert said("sum", "x", xs=[1, 2, 2, 3]) == [1, 5, 5, 8]
    assert said("last_value", "x", xs=[1, 2, 2, 3]) == [1, 2, 2, 3]
    assert said("sum", "x", xs=[1, 2, 2, 3], order=()) == [8, 8, 8, 8]


def test_frames_of_rows() -> None:
    xs = [1, 2, 3, 4]
    assert said("sum", "x", xs=xs, frame=["rows", -1, 1]) == [3, 6, 9, 7]
    assert said("sum", "x", xs=xs, frame=["rows", None, 0]) == [1, 3, 6, 10]
    assert said("sum", "x", xs=xs, frame=["rows", 0, None]) == [10, 9, 7, 4]
    assert said("sum", "x", xs=xs, frame=["rows", 1, 2]) == [5, 7, 4, None]
    assert said("count", xs=xs, frame=["rows", -9, -3]) == [0, 0, 0, 1]
    assert said("min", "x", xs=xs, frame=["rows", 1, None]) == [2, 3, 4, None]
    assert said("max", "x", xs=xs, frame=["rows", -2, -2]) == [None, None, 1, 2]
    assert said("avg", "x", xs=xs, frame=["rows", None, None]) == [2.5] * 4
    assert said("nth_value", "x", xs=xs, n=2, frame=["rows", 0, 1]) == [2, 3, 4, None]
    assert said("first_value", "x", xs=xs, frame=["rows", 5, 6]) == [None] * 4
    assert said("sum", "x", xs=[2, 2, 5], frame=["range", 0, None]) == [9, 9, 5]


def test_what_is_null_is_not_counted_and_a_sum_of_nothing_is_null() -> None:
    xs = [None, None, 3]
    assert said("count", "x", xs=xs) == [0, 0, 1]
    assert said("sum", "x", xs=xs) == [None, None, 3]
    assert said("first_value", "x", xs=xs, ignore_nulls=True, frame=["rows", None, None]) == [3, 3, 3]
    assert said("nth_value", "x", xs=xs, n=2, ignore_nulls=True, frame=["rows", None, None]) == [None] * 3


def test_sums_that_do_not_fit_are_errors_but_those_of_a_frame_between_are_not() -> None:
    most = 2**63 - 1
    assert said("sum", "x", xs=[most - 2, most - 1, most], frame=["rows", 0, 0]) == [most - 2, most - 1, most]
    with pytest.raises(QueryError, match="SUM_OVERFLOW"):
        said("sum", "x", xs=[1, most])
    assert said("sum", "x", xs=[-most, -1]) == [-most, -(2**63)]


def test_sums_of_decimals_are_exact_and_may_not_fit() -> None:
    schema = pa.schema([("g", pa.string()), ("x", pa.decimal128(38, 2))])
    played = ranked(call("sum", "x", frame=["rows", -1, 0]), schema=schema)
    values = [Decimal("-99999999999999999999999999999999999.99"), Decimal("-0.02"), Decimal("0.01"), Decimal("7.00")]
    played.take(*((("g", value), 1) for value in values), (("g", None), 1))
    sums = {row[1]: row[2] for row in played.answer}
    assert sums[None] is None
    assert [sums[value] for value in values] == [
        values[0], Decimal("-100000000000000000000000000000000000.01"), Decimal("-0.01"), Decimal("7.01"),
    ]  # fmt: skip
    huge = Decimal("999999999999999999999999999999999999.99")
    for count in (2, 3):
        with pytest.raises(QueryError, match="SUM_OVERFLOW"):
            ranked(call("sum", "x"), schema=schema).take((("g", huge), count))


@pytest.mark.parametrize("seed", range(5))
def test_sums_of_doubles_are_exact_and_rounded_once_in_any_frame(seed: int) -> None:
    schema = pa.schema([("g", pa.string()), ("x", pa.int64()), ("d", pa.float64())])
    draw = random.Random(seed)
    values = [1e16, 1.0, -1e16, 0.1, 0.2, 0.3, -0.6, 5e-324, -5e-324, 1e-300, 1e300, math.inf, 5.0, -math.inf, 7.0]
    if seed:
        near = draw.choice((3, 60, 900))
        values = [draw.uniform(-1, 1) * 2.0 ** draw.randint(-near, near) for _ in range(150)]
        values += [-value for value in values[::2]]
        draw.shuffle(values)
    for start, end in ((None, 0), (-2, 1), (0, None), (None, None), (-1, -1), (2, 4), (-40, 3)):
        played = ranked(call("sum", "d", frame=["rows", start, end]), schema=schema)
        played.take(*((("g", x, value), 1) for x, value in enumerate(values)), (("h", 1, 0.1), 1))
        found = {row[1]: row[3] for row in played.answer if row[0] == "g"}
        for x in range(len(values)):
            low = 0 if start is None else max(x + start, 0)
            framed = values[low : len(values) if end is None else max(x + end + 1, 0)]
            assert found[x] == (exact_sum(framed) if framed else None), (start, end, x)


def exact_sum(values: list[float]) -> float | str:
    infinite = {value for value in values if math.isinf(value)}
    if len(infinite) > 1:
        return "NaN"
    return infinite.pop() if infinite else math.fsum(values)


def test_an_unknown_function_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="percentile"):
        ranked(call("percentile", "x"))


@pytest.mark.parametrize("frame", [["range", -5, 0], ["groups", None, 0]])
def test_a_frame_that_is_not_computed_is_a_mistake(frame: list[Any]) -> None:
    with pytest.raises(ValueError, match="frame"):
        ranked(call("sum", "x", frame=frame))
