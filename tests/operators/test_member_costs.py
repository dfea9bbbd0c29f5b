"""What the members of a host are said to cost: counted, split where they share, and small to keep."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

from anabranch.log.slices import Payload, sliced
from anabranch.operators.together import costs
from anabranch.operators.together.costs import Costs, Meter

Part = tuple[bytes, Payload]


def answers(*counts: tuple[int, int]) -> Part:
    """Answers of members, so many of each."""
    members, rows = np.array(counts).T
    return sliced(pa.table({"x": np.zeros(rows.sum())}), members, rows)


def after_pauses(*parts: Part, seconds: float) -> Iterator[Part]:
    for part in parts:
        time.sleep(seconds)
        yield part


def said(members: dict[int, tuple[float, float]], count: int | None = None) -> costs.Said:
    """Of members that took so many milliseconds and answered with so many rows, of 1,000 rows each."""
    each = {str(number): [ms, rows, 8.0 * rows, 1000.0] for number, (ms, rows) in members.items()}
    sums = [sum(cost[column] for cost in each.values()) for column in range(3)]
    return {"members": each, "all": [len(members) if count is None else count, *sums]}


def test_what_is_shared_is_split_by_answers_and_what_is_ones_own_is_measured() -> None:
    meter = Meter()
    parts = [answers((3, 10), (5, 30)), answers((5, 58))]
    assert list(meter.measured([3, 4, 5], 200, after_pauses(*parts, seconds=0.01))) == parts
    list(meter.measured([7], 200, after_pauses(answers((7, 1)), seconds=0.02)))
    told = meter.said(4)
    ms = {number: cost[0] for number, cost in told["members"].items()}
    assert {number: cost[1] for number, cost in told["members"].items()} == {"3": 10, "4": 0, "5": 88, "7": 1}
    assert ms["3"] / ms["4"] == pytest.approx(11, rel=0.01)
    assert ms["5"] / ms["4"] == pytest.approx(89, rel=0.01)
    assert ms["3"] + ms["4"] + ms["5"] >= 20
    assert ms["7"] >= 20
    assert told["all"][0] == 4
    assert told["all"][1] == pytest.approx(sum(ms.values()), abs=0.01)
    assert sum(cost[2] for cost in told["members"].values()) == pytest.approx(
        sum(len(payload) for _, payload in [*parts, answers((7, 1))]), abs=0.01
    )
    assert {cost[3] for cost in told["members"].values()} == {200}


def test_time_that_others_take_with_the_answers_is_not_counted() -> None:
    meter = Meter()
    for _ in meter.measured([1], 10, iter([answers((1, 1))] * 3)):
        time.sleep(0.02)
    assert meter.said(1)["all"][1] < 20


def test_a_member_that_ran_in_two_tasks_costs_what_it_did_in_both() -> None:
    whole = costs.together(said({1: (2, 3), 2: (1, 1)}), said({1: (3, 4)}))
    assert whole["members"]["1"] == [5, 7, 56, 2000]
    assert whole["all"] == [2, 6, 8, 64]


def test_averages_follow_what_is_and_shares_add_up() -> None:
    kept = None
    for _ in range(100):
        kept = costs.after(kept, said({1: (30.0, 5), 2: (10.0, 0)}))
    before = Costs(kept)
    assert before.of(1) == pytest.approx((0.75, 30, 5, 40, 1000), rel=0.01)
    assert [number for number, _, _ in before.heaviest()] == [1, 2]
    for _ in range(100):
        kept = costs.after(kept, said({2: (10.0, 7), 3: (10.0, 1)}))
    now = Costs(kept)
    assert now.of(2) == pytest.approx((0.5, 10, 7, 56, 1000), rel=0.01)
    assert "1" not in (kept or {})["members"]
    assert sum(share for _, share, _ in now.heaviest()) == pytest.approx(1, abs=0.001)


def test_nothing_is_known_of_a_host_that_has_done_nothing() -> None:
    assert Costs(None).of(5) == (0, 0, 0, 0, 0)
    assert Costs(None).heaviest() == []


@pytest.mark.parametrize("seed", range(3))
def test_the_heaviest_of_ten_thousand_are_kept_in_little(seed: int) -> None:
    chance = random.Random(seed)
    heavy = {number: (100.0 + number, 3) for number in chance.sample(range(10_000), 20)}
    floods = {number: (0.01, 10_000 + number) for number in chance.sample(range(10_000), 20)}
    kept = None
    for _ in range(30):
        meter = Meter()
        members = {n: heavy.get(n) or floods.get(n) or (chance.random(), chance.randrange(5)) for n in range(10_000)}
        numbers = np.array(list(members))
        measured = np.array([[*members[n], 8.0, 1000.0] for n in members])
        meter._measured.append(np.column_stack([numbers, measured]))
        kept = costs.after(kept, meter.said(10_000))
    assert kept is not None
    assert len(json.dumps(kept)) < 20_000
    told = Costs(kept)
    assert {number for number, _, _ in told.heaviest()[:20]} == set(heavy)
    for number, (ms, rows) in {**floods, **heavy}.items():
        assert told.of(number)[1:3] == pytest.approx((ms, rows), rel=0.01)
    light = next(n for n in range(10_000) if str(n) not in kept["members"])
    assert told.of(light).ms == pytest.approx(0.5, rel=0.1)
