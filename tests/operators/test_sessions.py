"""Sessions equal the naive oracle, and themselves bit for bit, however the stream is cut and whatever is lost."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from anabranch.errors import QueryError
from anabranch.operators.base import Inputs, Offset
from anabranch.operators.windows import session_run
from anabranch.operators.windows.sessions import SessionAggregate
from anabranch.schema import TIME_TYPE, StreamSchema
from anabranch.testing import OperatorHarness
from anabranch.testing.harness import same
from anabranch.testing.memory_log import MemoryLog
from anabranch.testing.slt.small_tasks import small_tasks
from tests.operators.oracle import STREAM, sessions, some_rows, table_of
from tests.operators.test_window_aggregate import close

AGGREGATES: list[tuple[str, str | None]] = [
    ("count", None), ("count", "x"), ("sum", "x"), ("avg", "i"), ("stddev", "i"), ("var_pop", "i"), ("sum", "i"),
    ("sum", "d"), ("avg", "d"), ("min", "s"), ("max", "s"), ("max", "b"), ("min", "day"), ("max", "ts"), ("min", "x"),
]  # fmt: skip


def operator(gap: int, keys: list[str], where: bool = False) -> SessionAggregate:
    named = (("first", "window_start"), *((f"key_{k}", f"key_{k}") for k in keys))
    return SessionAggregate(
        stream="in",
        gap=gap,
        keys=tuple((f"key_{k}", k) for k in keys),
        aggregates=tuple((f"a{i}", f, arg) for i, (f, arg) in enumerate(AGGREGATES)),
        columns=(("_time", "window_end"), *named, *((f"a{i}", f"a{i}") for i in range(len(AGGREGATES)))),
        time="_time",
        filter="ok" if where else None,
    )


def told(table: pa.Table) -> list[tuple[Any, ...]]:
    times = [table.column(name).cast(pa.int64()).to_pylist() for name in ("first", "_time")]
    return list(zip(*times, *(column.to_pylist() for column in table.columns[2:]), strict=True))


@pytest.mark.parametrize("seed", range(24))
def test_every_way_of_cutting_gives_the_oracles_answer(seed: int) -> None:
    chance = random.Random(seed)
    rows = some_rows(chance.randint(1, 90), chance, begin=chance.choice([-50, 1_000]))
    gap = chance.choice([1, 2, 3, 10, 59, 60, 200])
    keys = chance.choice([[], ["s"], ["i"], ["x"], ["d"], ["b", "day"]])
    where = chance.random() < 0.4
    reached = rows[-1]["t"] + chance.choice([0, 1, gap, gap + 1, 10_000])
    op = operator(gap, keys, where)
    whole = _harness(op, rows, reached).step()
    wanted = sessions(rows, gap, keys, AGGREGATES, reached, lambda r: not where or r["ok"] is True)
    got = told(whole)
    assert len(got) == len(wanted)
    for mine, theirs in zip(got, wanted, strict=True):
        assert all(close(a, b) for a, b in zip(mine, theirs, strict=True)), (mine, theirs)
    with small_tasks(rows=3), pytest.MonkeyPatch.context() as patch:
        patch.setattr(session_run, "_ROWS_PER_READ", chance.choice([4, 1 << 21]))
        assert same(_harness(op, rows, reached).step(parallelism=3), whole)
        harness = _harness(op, rows, reached)
        before = None
        while harness.offsets != before:
            before = harness.offsets
            harness.step(parallelism=chance.randint(1, 3), rows=chance.choice([1, 5, 20]))
            faults: list[Callable[[], Any]] = [harness.replay, harness.forget, harness.restart, harness.due]
            chance.choice(faults)()
            harness.due()
        assert same(harness.answers(), whole)


def _harness(op: SessionAggregate, rows: list[dict[str, Any]], reached: int) -> OperatorHarness:
    harness = OperatorHarness(op, {"in": STREAM})
    harness.push("in", table_of(rows))
    harness.advance("in", reached)
    return harness


# -- one by one ------------------------------------------------------------------------------------

TWO = StreamSchema.of({"k": "STRING", "v": "INT", "ts": "TIMESTAMP"}, time="ts")


def counts(gap: int = 10) -> SessionAggregate:
    columns = (("k", "k"), ("n", "n"), ("window_start", "window_start"), ("window_end", "window_end"))
    return SessionAggregate("in", gap, (("k", "k"),), (("n", "count", None),), columns, "window_end")


def pushed(harness: OperatorHarness, *rows: tuple[str, int]) -> OperatorHarness:
    keys, times = zip(*rows, strict=True)
    harness.push("in", {"k": list(keys), "v": [1] * len(keys), "ts": pa.array(times, pa.int64()).cast(TIME_TYPE)})
    return harness


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    return [(row["k"], row["n"], _us(row["window_start"]), _us(row["window_end"])) for row in table.to_pylist()]


def _us(time: dt.datetime) -> int:
    return round(time.timestamp() * 1_000_000)


def test_a_row_exactly_the_gap_later_belongs_to_the_session() -> None:
    harness = pushed(OperatorHarness(counts(), {"in": TWO}), ("a", 0), ("a", 10), ("a", 21), ("b", 50))
    assert rows_of(harness.step()) == [("a", 2, 0, 20), ("a", 1, 21, 31)]


def test_a_session_is_over_when_time_has_passed_its_end_and_not_at_its_end() -> None:
    harness = pushed(OperatorHarness(counts(), {"in": TWO}), ("a", 0))
    harness.step()
    assert harness.due() == {"in": 11}
    harness.advance("in", 10)
    assert harness.step().num_rows == 0
    harness.advance("in", 11)
    assert rows_of(harness.step()) == [("a", 1, 0, 10)]
    assert harness.due() == {}


def test_what_ends_together_is_in_the_order_of_keys_and_else_in_that_of_ends() -> None:
    rows = [("c", 0), ("b", 1), ("a", 1), ("c", 5), ("d", 1_000)]
    harness = pushed(OperatorHarness(counts(), {"in": TWO}), *rows)
    assert [key for key, *_ in rows_of(harness.step())] == ["a", "b", "c"]


def test_of_a_group_that_never_pauses_one_entry_is_kept_and_no_row() -> None:
    harness = OperatorHarness(counts(), {"in": TWO})
    for time in range(0, 2_000, 10):
        pushed(harness, ("a", time)).step()
    assert harness.answers().num_rows == 0
    assert harness.operator.needs(harness.offsets)["in"].row == 200
    harness.advance("in", 10_000)
    assert rows_of(harness.step()) == [("a", 200, 0, 2_000)]


def log_of(*rows: tuple[str, int]) -> MemoryLog:
    log = MemoryLog(TWO)
    keys, times = zip(*rows, strict=True)
    log.append({"k": list(keys), "v": [1] * len(keys), "ts": pa.array(times, pa.int64()).cast(TIME_TYPE)})
    return log


class Cut:
    """A log whose first rows are gone."""

    def __init__(self, log: MemoryLog, first: int) -> None:
        self._log, self._first = log, first

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    def first_row(self) -> int:
        return self._first

    def row_at_time(self, time: int, end: int) -> int:
        return min(max(self._log.row_at_time(time, end), self._first), end)


def answered(reader: Any, start: Offset, end: Offset, scratch: Path) -> list[tuple[str, int]]:
    op, inputs = counts(), Inputs({"in": reader}, str(scratch))
    tasks = op.plan({"in": start}, {"in": end}, inputs, 1)
    rows = [row for task in tasks for batch in op.run(task, inputs) for row in batch.to_pylist()]
    return [(row["k"], row["n"]) for row in rows]


def test_state_that_is_lost_is_made_again_from_rows_that_are_there(tmp_path: Path) -> None:
    log = log_of(("a", 0), ("b", 3), ("a", 9), ("b", 30), ("a", 90))
    assert answered(log, Offset(3, 9), Offset(5, 90), tmp_path) == [("b", 1), ("a", 2), ("b", 1)]


def test_rows_that_are_gone_matter_only_if_an_open_session_may_have_begun_with_them(tmp_path: Path) -> None:
    log = log_of(("a", 0), ("b", 20), ("c", 31), ("b", 35), ("b", 90))
    assert answered(Cut(log, 1), Offset(4, 35), Offset(5, 90), tmp_path / "one") == [("c", 1), ("b", 1)]
    with pytest.raises(QueryError, match="STATE_LOST"):
        answered(Cut(log, 2), Offset(4, 35), Offset(5, 90), tmp_path / "two")


def test_aggregates_that_need_all_values_are_refused() -> None:
    op = SessionAggregate("in", 5, (), (("m", "median", "v"),), (("m", "m"), ("_time", "window_end")), "_time")
    with pytest.raises(QueryError, match=r"median\(\) needs all values at once"):
        OperatorHarness(op, {"in": TWO}).step()


def test_a_pause_of_nothing_is_refused() -> None:
    with pytest.raises(QueryError, match="WINDOW_SIZE_INVALID"):
        counts(0)
