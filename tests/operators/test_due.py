"""What is due where streams have come differently far: checked by the harness at every step."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from anabranch.operators.base import Operator
from anabranch.operators.history.join import HistoryJoin
from anabranch.operators.history.join_aggregate import HistoryJoinAggregate
from anabranch.operators.join.aggregate import WindowJoinAggregate
from anabranch.operators.join.combination import WindowCombination
from anabranch.operators.join.operator import WindowJoin
from anabranch.operators.merge.operator import Merge
from anabranch.operators.merge.range_operator import RangeMerge
from anabranch.operators.windows.aggregate import WindowAggregate
from anabranch.operators.windows.changes import WindowChanges
from anabranch.operators.windows.sets import WindowSetOperation
from anabranch.schema import StreamSchema
from anabranch.testing import OperatorHarness
from anabranch.testing.harness import same
from tests.sampling import sampled

SCHEMA = StreamSchema.of({"k": "INT", "ts": "TIMESTAMP"}, time="ts")


def side(stream: str, size: int = 25, slide: int = 10) -> WindowAggregate:
    return WindowAggregate(
        stream, "time", size, slide, keys=(("k", "k"),), aggregates=(("__n", "count", None),),
        columns=(("k", "k"), ("__n", "__n"), ("_time", "_time")), time="_time",
    )  # fmt: skip


def total(stream: str) -> WindowAggregate:
    columns = ((stream, stream), ("_time", "_time"))
    return WindowAggregate(stream, "time", 20, 20, (), ((stream, "count", None),), columns, "_time")


JOIN = WindowJoin(
    sources=(("A", "a", None), ("B", "b", None)), unit="time", windows=((0, 1, -15, 15),),
    conditions=("`A.k` = `B.k`",), columns=(("k", "`A.k`"), ("_time", "_time")), time="_time", order="time",
)  # fmt: skip
HISTORY = HistoryJoin(
    stream="a", alias="a", history="b", on=(("k", "k"),), period=30, portions=2, within=5, match="any",
    columns=(("k", "k"), ("ts", "ts")), time="ts",
)  # fmt: skip
MERGE = Merge(
    sources=(("A", "a"), ("B", "b")), keys=((("`A.k`", "`B.k`", 0.0),),), by=((),), joins=("full",), conditions=(),
    columns=(("k", "`A.k`"), ("l", "`B.k`"), ("_time", "_time")), time="_time", window=4, step=2, every=10,
)  # fmt: skip
RANGES = RangeMerge(
    **{name: getattr(MERGE, name) for name in ("sources", "keys", "by", "conditions", "columns", "time")},
    joins=("left",), window=4, every=10,
)  # fmt: skip
OPERATORS: dict[str, Operator] = {
    "union": WindowSetOperation("union", True, side("a"), side("b"), ("k",), "_time"),
    "except": WindowSetOperation("except", True, side("a", 5, 20), side("b", 5, 20), ("k",), "_time"),
    "changes": WindowChanges(WindowSetOperation("union", True, side("a"), side("b"), ("k",), "_time")),
    "join": JOIN,
    "join_on_arrival": replace(JOIN, order="arrival"),
    "join_rows": replace(JOIN, unit="rows", windows=((0, 1, 3, 3),)),
    "join_aggregate": WindowJoinAggregate(
        JOIN, 10, (), (("n", "count", None),), (("n", "n"), ("window_end", "window_end")), "window_end"
    ),
    "combination": WindowCombination(
        20, (("a", total("a"), 0), ("b", total("b"), 0)), (("r", "a - b"), ("window_end", "window_end")), "window_end"
    ),
    "merge": MERGE,
    "merge_nearest_that_waits": replace(MERGE, policy="nearest", wait=25),
    "merge_only_full": replace(MERGE, every=None),
    "merge_by_rows": replace(MERGE, pace="rows"),
    "merge_by_rows_that_waits": replace(MERGE, pace="rows", wait=25),
    "merge_by_rows_in_groups": replace(MERGE, pace="rows", by=((("`A.k`", "`B.k`"),),), policy="nearest", wait=7),
    "merge_by_rows_only_full": replace(MERGE, pace="rows", every=None),
    "range_merge": RANGES,
    "range_merge_later": replace(RANGES, lag=7),
    "range_merge_only_full": replace(RANGES, every=None),
    "history": HISTORY,
    "history_aggregate": HistoryJoinAggregate(
        HISTORY, 10, (), (("n", "count", None),), (("n", "n"), ("_time", "_time")), "_time"
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("seed", sampled(range(3), 1, "speed"))
@pytest.mark.parametrize("operator", OPERATORS.values(), ids=OPERATORS)
def test_two_streams_of_different_speed(operator: Operator, seed: int) -> None:
    chance = random.Random(seed)
    harness = OperatorHarness(operator, {"a": SCHEMA, "b": SCHEMA})
    times = dict.fromkeys("ab", 1_000)
    for _ in range(25):
        name = chance.choice("aab")
        times[name] += chance.choice([0, 1, 3, 12, 60])
        if chance.random() < 0.3:
            harness.advance(name, times[name])
        else:
            stamp = f"1970-01-01 00:00:00.{times[name]:06d}"
            harness.push(name, [{"k": chance.randint(0, 2), "ts": stamp}])
        if chance.random() < 0.5:
            harness.step()
            harness.due()
    harness.run()
    silent = harness.answers().num_rows
    while due := harness.due():
        for name, time in due.items():
            harness.advance(name, time)
        harness.step()
    in_silence = harness.answers()
    assert in_silence.num_rows >= silent
    for name in "ab":
        harness.advance(name, 10_000)
    assert harness.step().num_rows == 0
    assert same(harness.answers(), in_silence)
