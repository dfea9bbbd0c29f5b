"""Select passes rows on, split over tasks when there are many."""

from __future__ import annotations

import pyarrow as pa
import pytest

from anabranch.operators import OPERATORS, operator_class, select
from anabranch.operators.base import Floor, Inputs, Offset, Work
from anabranch.operators.select import SelectRows
from anabranch.schema import TIME_TYPE, StreamSchema
from anabranch.testing.memory_log import MemoryLog

OP = SelectRows("in", (("b", "a"), ("ts", "ts")), "ts", filter="ok")


@pytest.fixture
def log() -> MemoryLog:
    log = MemoryLog(StreamSchema.of({"a": "INT", "ok": "BOOLEAN", "unused": "STRING", "ts": "TIMESTAMP"}, time="ts"))
    ok = [True, None, False, True, True, False, True]
    log.append({"a": list(range(7)), "ok": ok, "unused": ["x" * 1000] * 7, "ts": pa.array(range(7)).cast(TIME_TYPE)})
    return log


@pytest.mark.parametrize("parallelism", [1, 3])
@pytest.mark.parametrize("stops", [[7], [1, 2, 5, 7]])
def test_select_keeps_rows_where_the_filter_is_true(
    log: MemoryLog, parallelism: int, stops: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(select, "ROWS_PER_TASK", 2)
    work, at, values = Work(), Offset(), []
    inputs = Inputs({"in": log}, None, work)
    for stop in stops:
        end = log.offset(stop)
        tasks = OP.plan({"in": at}, {"in": end}, inputs, parallelism)
        assert len(tasks) <= parallelism
        values += [v for t in tasks for batch in OP.run(t, inputs) for v in batch.column("b").to_pylist()]
        at = end
    assert values == [0, 3, 4, 6]
    assert (work.rows_read, work.rows_thrown) == (7, 3)
    assert work.bytes_read < 1000


def test_select_without_new_rows_has_no_tasks(log: MemoryLog) -> None:
    at = {"in": log.offset()}
    assert OP.plan(at, {"in": Offset(7, 99)}, Inputs({"in": log}), 4) == []
    assert OP.reached({"in": Offset(7, 99)}) == 99
    assert OP.needs(at) == {"in": Floor(row=7)}
    assert OP.keeps() is None


def test_schema_names_the_answers_columns(log: MemoryLog) -> None:
    assert OP.schema(Inputs({"in": log})) == pa.schema([("b", pa.int32()), ("ts", TIME_TYPE)])


def test_the_table_knows_operators_by_their_kind() -> None:
    assert {kind: operator_class(kind).kind for kind in OPERATORS} == {kind: kind for kind in OPERATORS}
