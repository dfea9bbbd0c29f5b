"""The last rows of each key equal the naive oracle, and themselves bit for bit, however the stream is cut."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from anabranch.errors import QueryError
from anabranch.operators.windows import last_rows_run
from anabranch.operators.windows.last_rows import LastRows
from anabranch.schema import TIME_TYPE, StreamSchema
from anabranch.testing import OperatorHarness
from anabranch.testing.harness import same
from anabranch.testing.slt.small_tasks import small_tasks
from tests.operators.oracle import STREAM, last_rows, some_rows, table_of
from tests.operators.test_sessions import AGGREGATES
from tests.operators.test_window_aggregate import close


def operator(count: int, keys: list[str], where: bool = False) -> LastRows:
    columns = (("first", "window_start"), ("end", "window_end"), *((f"key_{k}", f"key_{k}") for k in keys))
    return LastRows(
        stream="in",
        count=count,
        keys=tuple((f"key_{k}", k) for k in keys),
        aggregates=tuple((f"a{i}", f, arg) for i, (f, arg) in enumerate(AGGREGATES)),
        columns=(*columns, *((f"a{i}", f"a{i}") for i in range(len(AGGREGATES)))),
        time="_time",
        filter="ok" if where else None,
    )


@pytest.mark.parametrize("seed", range(24))
def test_every_way_of_cutting_gives_the_oracles_answer(seed: int) -> None:
    chance = random.Random(seed)
    rows = some_rows(chance.randint(1, 90), chance)
    count = chance.choice([1, 2, 3, 5, 8, 40])
    keys = chance.choice([[], ["s"], ["i"], ["x"], ["d"], ["b", "day"]])
    where = chance.random() < 0.4
    op = operator(count, keys, where)
    whole = _harness(op, rows).step()
    wanted = last_rows(rows, count, keys, AGGREGATES, lambda r: not where or r["ok"] is True)
    times = whole.column("_time").cast(pa.int64()).to_pylist()
    assert times == [row["t"] for row in rows if not where or row["ok"] is True]
    got = list(zip(*(column.to_pylist() for column in whole.columns[:-1]), strict=True))
    assert len(got) == len(wanted)
    for mine, theirs in zip(got, wanted, strict=True):
        assert all(close(a, b) for a, b in zip(mine, theirs, strict=True)), (mine, theirs)
    with small_tasks(rows=3), pytest.MonkeyPatch.context() as patch:
        patch.setattr(last_rows_run, "_ROWS_PER_READ", chance.choice([4, 1 << 18]))
        assert same(_harness(op, rows).step(parallelism=3), whole)
        harness = _harness(op, rows)
        before = None
        while harness.offsets != before:
            before = harness.offsets
            harness.step(parallelism=chance.randint(1, 3), rows=chance.choice([1, 5, 20]))
            faults: list[Callable[[], Any]] = [harness.replay, harness.forget, harness.restart, harness.due]
            chance.choice(faults)()
        assert same(harness.answers(), whole)


def _harness(op: LastRows, rows: list[dict[str, Any]]) -> OperatorHarness:
    harness = OperatorHarness(op, {"in": STREAM})
    harness.push("in", table_of(rows))
    return harness


TWO = StreamSchema.of({"k": "STRING", "v": "INT", "ts": "TIMESTAMP"}, time="ts")


def sums(count: int) -> LastRows:
    columns = (("k", "k"), ("total", "total"), ("_time", "_time"))
    return LastRows("in", count, (("k", "k"),), (("total", "sum", "v"),), columns, "_time")


def test_a_key_that_was_silent_for_long_goes_on_with_its_last_rows() -> None:
    harness = OperatorHarness(sums(3), {"in": TWO})
    for key, value, time in [("a", 1, 0), ("a", 2, 1), *(("b", 7, n) for n in range(2, 60)), ("a", 4, 10**9)]:
        harness.push("in", {"k": [key], "v": [value], "ts": pa.array([time], pa.int64()).cast(TIME_TYPE)})
        answer = harness.step()
    assert answer.column("total").to_pylist() == [7]
    assert harness.operator.needs(harness.offsets)["in"].row == 61
    kept = pa.concat_tables([state.tables["rows"] for state in _states(harness)])
    assert sorted(kept.column("k0").to_pylist()) == ["a", "a", "b", "b"]


def _states(harness: OperatorHarness) -> list[Any]:
    from anabranch.operators.state import StateFiles

    files = StateFiles(str(harness.scratch), "last_rows", "")
    states = files.load(str(harness.offsets["in"].row))
    assert states is not None
    return states


def test_aggregates_that_need_all_values_are_refused() -> None:
    op = LastRows("in", 5, (("k", "k"),), (("m", "median", "v"),), (("m", "m"),), "_time")
    with pytest.raises(QueryError, match=r"median\(\) needs all values at once"):
        OperatorHarness(op, {"in": TWO}).step()


def test_no_rows_are_refused() -> None:
    with pytest.raises(QueryError, match="WINDOW_SIZE_INVALID"):
        sums(0)
