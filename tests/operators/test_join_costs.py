"""What a join costs: what is new is read, not the window; and who joins by the same key shares an index."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from anabranch.operators.join import order
from anabranch.operators.join.operator import WindowJoin
from anabranch.operators.join.steps import live
from anabranch.operators.live import forget_all
from anabranch.schema import TIME_TYPE, StreamSchema
from anabranch.testing import OperatorHarness

SCHEMA = StreamSchema.of({"k": "BIGINT", "s": "STRING", "x": "DOUBLE", "ts": "TIMESTAMP"}, time="ts")
BATCH = 1_000


@pytest.fixture(autouse=True)
def nothing_is_remembered() -> None:
    forget_all()


def rows(seed: int, batch: int) -> pa.Table:
    chance = np.random.default_rng([seed, batch])
    keys = chance.integers(0, 100_000, BATCH)
    times = batch * BATCH + np.arange(BATCH)
    text = [f"key {key}" for key in keys]
    return pa.table({"k": keys, "s": text, "x": keys.astype(float), "ts": pa.array(times).cast(TIME_TYPE)})


def join(condition: str, window: int, **more: Any) -> WindowJoin:
    return WindowJoin(
        (("A", "a", None), ("B", "b", None)), "time", ((0, 1, -window, window),), (condition,),
        (("k", "`A.k`"), ("_time", "_time")), "_time", **more,
    )  # fmt: skip


def read_in_batch(operator: WindowJoin, batches: int) -> int:
    """How many rows the last of some batches reads."""
    harness = OperatorHarness(operator, {"a": SCHEMA, "b": SCHEMA})
    for batch in range(batches):
        before = harness.work.rows_read
        harness.push("a", rows(1, batch))
        harness.push("b", rows(2, batch))
        harness.step()
    return harness.work.rows_read - before


@pytest.mark.parametrize("ordered", ["arrival", "time"])
@pytest.mark.parametrize("condition", ["`A.k` = `B.k`", "`A.s` = `B.s`", "abs(`A.x` - `B.x`) <= 2"])
def test_a_batch_reads_what_is_new_however_long_the_window(condition: str, ordered: str) -> None:
    short, long = (read_in_batch(join(condition, window, order=ordered), 12) for window in (BATCH, 10 * BATCH))
    # Each new row is read as one that searches and as one that is found.
    assert long <= short <= 6 * BATCH


def test_without_the_index_the_window_is_read_once_more() -> None:
    operator = join("`A.k` = `B.k`", 10 * BATCH)
    harness = OperatorHarness(operator, {"a": SCHEMA, "b": SCHEMA})
    read = []
    for batch in range(14):
        before = harness.work.rows_read
        harness.push("a", rows(1, batch))
        harness.push("b", rows(2, batch))
        if batch == 12:
            harness.forget()
        harness.step()
        read.append(harness.work.rows_read - before)
    assert read[12] > 15 * BATCH
    assert read[13] <= 6 * BATCH


def test_queries_that_join_by_the_same_key_share_an_index() -> None:
    harness = OperatorHarness(join("`A.k` = `B.k`", 10 * BATCH), {"a": SCHEMA, "b": SCHEMA})
    for batch in range(11):
        harness.push("a", rows(1, batch))
        harness.push("b", rows(2, batch))
        harness.step()
    kept = set(live._kept)
    assert len(kept) == 2
    # Another query, with other names, columns and a shorter window, over the same streams.
    harness.operator = WindowJoin(
        (("one", "b", None), ("two", "a", None)), "time", ((0, 1, -BATCH, BATCH),), ("`two.k` = `one.k`",),
        (("x", "`one.x`"), ("_time", "_time")), "_time",
    )  # fmt: skip
    harness.push("a", rows(1, 11))
    harness.push("b", rows(2, 11))
    before = harness.work.rows_read
    harness.step()
    assert harness.work.rows_read - before <= 6 * BATCH
    assert set(live._kept) == kept


def test_the_order_follows_what_was_met() -> None:
    """C meets next to nothing and B much: after a while C is looked at first."""
    operator = WindowJoin(
        (("A", "a", None), ("B", "b", None), ("C", "c", None)), "time",
        ((0, 1, -500, 500), (0, 2, -500, 500)), ("`A.k` % 3 = `B.k`", "`A.k` = `C.k`"),
        (("k", "`A.k`"), ("_time", "_time")), "_time",
    )  # fmt: skip
    harness = OperatorHarness(operator, dict.fromkeys("abc", SCHEMA))
    for batch in range(2):
        for seed, name in enumerate("abc"):
            table = rows(seed, batch)
            if name == "b":
                table = table.set_column(0, "k", pa.array(np.arange(BATCH) % 3))
            harness.push(name, table)
        harness.step()
    learnt = order._orders[repr(operator)]
    assert learnt.of(0) == [2, 1]
    fan_outs = learnt.fan_outs()
    assert fan_outs[0, 2] < 0.1 < fan_outs.get((0, 1), 300)


def test_few_rows_are_taken_at_once_where_each_has_many_results() -> None:
    operator = join("`A.k` = `B.k`", 500)
    harness = OperatorHarness(operator, {"a": SCHEMA, "b": SCHEMA})
    same = rows(1, 0).set_column(0, "k", pa.array(np.zeros(BATCH, np.int64)))
    harness.push("a", same)
    harness.push("b", same)
    assert harness.step().num_rows == sum(min(i + 500, BATCH - 1) - max(i - 500, 0) + 1 for i in range(BATCH))
    learnt = order._orders[repr(operator)]
    assert learnt.drivers < 4_096
    for batch in range(1, 4):
        harness.push("a", rows(1, batch))
        harness.push("b", rows(2, batch))
        harness.step()
    assert learnt.drivers > 10_000
