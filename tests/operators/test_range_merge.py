"""Merges by range queries equal the naive oracle, micro-batch by micro-batch."""

from __future__ import annotations

import functools
import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.errors import AnabranchError
from anabranch.operators.merge.range_operator import RangeMerge
from anabranch.testing import OperatorHarness
from tests.operators.join_oracle import Feed, told
from tests.operators.join_rows import SCHEMA, Row, rows_of, table_of
from tests.operators.merge_cases import Answer, Case, column, equal, keyed, same, some_streams
from tests.operators.merge_oracle import MAX_TIME, Policy, Record
from tests.operators.range_merge_oracle import Remainder, blocks, rtm
from tests.sampling import examples

POLICIES = ["first", "nearest", "all"]
KEYS: dict[str, list[float]] = {
    "i": [0, 1, 3],
    "x": [0, 0.25, 2.5],
    "f": [0, 0.25, 1],
    "l": [0, 1],
    "at": [0, 1_000_000],
    "day": [0, 1],
}


def operator_of(case: Case, remainder: Remainder = "rest") -> RangeMerge:
    like = case.operator()
    fields = ("sources", "keys", "by", "joins", "conditions", "columns", "time", "policy", "window", "every")
    return RangeMerge(**{name: getattr(like, name) for name in fields}, remainder=remainder)


def answer(case: Case, remainder: Remainder, streams: dict[str, list[Row]], t: int) -> Answer:
    """All answer rows once both streams are known up to `t`, and have not ended."""
    a, b, tolerances = keyed(case, streams)
    out: Answer = []
    for block in blocks(a, case.window, case.every, t):
        seen = [record for record in b if record.time < block.sees]
        if any(case.by):
            records, seen = _with_groups(block.records, seen)
            pairs = rtm(records, seen, (*tolerances, 0), case.window, remainder, case.policy, len(tolerances))
        else:
            pairs = rtm(block.records, seen, tolerances, case.window, remainder, case.policy)
        merged = {n for n, _ in pairs}
        missing = [record.number for record in block.records if record.number not in merged]
        if case.joins[0] != "anti":
            out += [(n, m, block.time) for n, m in pairs]
        if case.joins[0] == "left":
            out += [(n, None, block.time) for n in missing]
        elif case.joins[0] == "anti":
            out += [(n, block.time) for n in missing]
    return out


def _with_groups(a: list[Record], b: list[Record]) -> tuple[list[Record], list[Record]]:
    """Groups as one more key, which ranges are not about: the place in the block of the first of the same group."""
    a = [record for record in a if record.usable]
    places = {record.group: n for n, record in reversed(list(enumerate(a)))}

    def by_group(record: Record) -> Record:
        return record._replace(keys=(*record.keys, float(places.get(record.group, -1))), group=())

    return [by_group(record) for record in a], [by_group(record) for record in b]


def some_case(policy: Any, chance: random.Random) -> Case:
    names = chance.sample(list(KEYS), chance.choice([1, 1, 2]))
    return Case(
        keys=(tuple(same(name, chance.choice(KEYS[name])) for name in names),),
        joins=(chance.choice(["inner", "left", "anti"]),),
        policy=policy,
        window=chance.choice([1, 2, 5, 8, 40]),
        step=1,
        every=chance.choice([None, 1, 10, 50]),
    )


def check(case: Case, remainder: Remainder, streams: dict[str, list[Row]], chance: random.Random) -> None:
    """Drive the merge over the streams, which do not end, and compare each micro-batch with the oracle."""
    harness = OperatorHarness(operator_of(case, remainder), dict.fromkeys(case.streams, SCHEMA))
    feed = Feed(harness, chance)
    feed.play(streams, chance.choice([1, 7, 1_000]))
    wanted = functools.cache(lambda t: answer(case, remainder, streams, t))
    for number, (start, end, found) in enumerate(feed.batches):
        before, after = (min(at[name].time for name in case.streams) for at in (start, end))
        new = wanted(after)[len(wanted(before)) :]
        assert told(found) == new, f"micro-batch {number} to {after} of {harness.operator}"


@pytest.mark.slow
@examples(60)
@given(policy=st.sampled_from(POLICIES), seed=st.integers(0, 2**32))
def test_the_rest_of_a_range(policy: str, seed: int) -> None:
    chance = random.Random(seed)
    case = some_case(policy, chance)
    check(case, "rest", some_streams("st", chance, 40), chance)


@pytest.mark.slow
@examples(40)
@given(seed=st.integers(0, 2**32))
def test_the_difference_of_ranges(seed: int) -> None:
    chance = random.Random(seed)
    case = some_case("first", chance)
    check(case, "difference", some_streams("st", chance, 40), chance)


@pytest.mark.slow
@examples(60)
@given(policy=st.sampled_from(POLICIES), seed=st.integers(0, 2**32))
def test_groups(policy: str, seed: int) -> None:
    chance = random.Random(seed)
    by = chance.choice([equal("s"), equal("h"), (column("A", "h"), column("B", "l")), equal("ok")])
    case = replace(some_case(policy, chance), by=((by,),))
    check(case, "rest", some_streams("st", chance, 40), chance)


def driven(case: Case, streams: dict[str, list[Row]], **more: Any) -> OperatorHarness:
    operator = replace(operator_of(case), **more)
    harness = OperatorHarness(operator, dict.fromkeys(case.streams, SCHEMA))
    for name, rows in streams.items():
        harness.push(name, table_of(rows))
        harness.advance(name, MAX_TIME)
    return harness


@pytest.mark.parametrize("policy", POLICIES)
def test_a_stream_that_is_not_waited_for_is_asked_for_all_it_has(policy: Any) -> None:
    """Wherever in the stream a partner is: order does not matter."""
    chance = random.Random(1)
    keys = list(range(200))
    streams = {name: rows_of(keys, i=chance.sample(keys, 200)) for name in "st"}
    case = Case(keys=((same("i", 0),),), policy=policy, window=16)
    for parallelism in (1, 3):
        found = told(driven(case, streams, waits=False).step(parallelism))
        assert len(found) == 200
        assert all(streams["s"][n]["i"] == streams["t"][m]["i"] for n, m, _ in found)


@pytest.mark.slow
def test_a_range_that_holds_everything_is_taken_window_by_window() -> None:
    streams = {"s": rows_of(range(30), x=0.0), "t": rows_of(range(300), x=1.0)}
    counts: dict[Policy, int] = {"first": 30, "nearest": 30, "all": 9_000}
    for policy, count in counts.items():
        case = Case(keys=((same("x", 5),),), policy=policy, window=4)
        assert driven(case, streams, waits=False).step().num_rows == count


def test_the_end_of_the_streams_does_not_change_what_a_block_sees() -> None:
    streams = {"s": rows_of([1], i=[1]), "t": rows_of([100], i=[1])}
    case = Case(keys=((same("i", 0),),), every=10)
    cut = driven(case, {name: [] for name in streams})
    for name, rows in streams.items():
        cut.push(name, table_of(rows))
    assert driven(case, streams).step().num_rows == cut.run(rows=1).num_rows == 0


def test_a_block_waits_as_long_as_a_partner_may_be_late() -> None:
    streams = {"s": rows_of([1, 40], i=[1, 2]), "t": rows_of([21, 80], i=[1, 3])}
    case = Case(keys=((same("i", 0),),), every=10)
    assert told(driven(case, streams, lag=20).step()) == [(0, 0, 30)]
    assert told(driven(case, streams, lag=10).step()) == []


def test_records_near_which_there_are_others_and_none_within_tolerance() -> None:
    streams = {"s": rows_of([1, 2], x=[0, 10]), "t": rows_of([1], x=[5])}
    assert driven(Case(keys=((same("x", 1),),), policy="nearest"), streams, waits=False).step().num_rows == 0


def test_a_full_merge_is_refused() -> None:
    with pytest.raises(AnabranchError) as caught:
        operator_of(Case(keys=((same("i", 0),),), joins=("full",)))
    assert caught.value.name == "MERGE_NOT_POSSIBLE"
