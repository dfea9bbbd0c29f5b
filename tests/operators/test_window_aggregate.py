"""Windowed aggregates equal the naive oracle, and themselves bit for bit, however the stream is cut."""

from __future__ import annotations

import datetime as dt
import itertools
import math
import random
import shutil
import tempfile
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.errors import QueryError
from anabranch.operators import operator_from_json
from anabranch.operators.base import MIN_TIME, Floor, Inputs, Offset, Work
from anabranch.operators.live import forget_all
from anabranch.operators.windows import aggregate as window_aggregate
from anabranch.operators.windows import run as window_run
from anabranch.operators.windows.aggregate import WindowAggregate
from anabranch.schema import TIME_TYPE, StreamSchema
from anabranch.testing import OperatorHarness
from anabranch.testing.memory_log import MemoryLog
from tests.operators.oracle import answer
from tests.sampling import sampled

COLUMNS = {
    "i": "INT",
    "f": "DOUBLE",
    "s": "STRING",
    "b": "BOOLEAN",
    "d": "DECIMAL(9,2)",
    "day": "DATE",
    "x": "DOUBLE",
    "ok": "BOOLEAN",
    "ts": "TIMESTAMP",
}
AGGREGATES: list[tuple[str, str | None]] = [
    ("count", None),
    ("count", "x"),
    ("sum", "x"),
    ("avg", "x"),
    ("min", "x"),
    ("max", "x"),
    ("stddev", "x"),
    ("var_pop", "x"),
    ("sum", "i"),
    ("avg", "i"),
    ("min", "i"),
    ("sum", "d"),
    ("max", "d"),
    ("avg", "d"),
    ("min", "s"),
    ("max", "s"),
    ("max", "b"),
    ("min", "day"),
    ("max", "ts"),
]


CHOICES: dict[str, list[Any]] = {
    "step": [0, 0, 1, 1, 1, 2, 3, 7, 40],
    "i": [None, -2, -1, 0, 1, 2],
    "f": [None, 0.0, -0.0, 1.5, -2.5, math.nan, math.inf],
    "s": [None, "", "a", "é", "z", "aa"],
    "b": [None, True, False],
    "d": [None, Decimal("-1.25"), Decimal("0.00"), Decimal("9999999.99")],
    "day": [None, dt.date(1969, 12, 31), dt.date(2026, 1, 1)],
    "ok": [None, True, True, True, False],
}


def some_rows(count: int, seed: int) -> list[dict[str, Any]]:
    """Rows full of nulls, duplicate times and, in one seed of four, NaN among the values."""
    chance = random.Random(seed)
    rows = [{name: chance.choice(values) for name, values in CHOICES.items()} for _ in range(count)]
    for row in rows:
        strange = [None, math.nan] if seed % 4 == 0 else [None]
        row["x"] = chance.choice([*strange, 0.1, chance.uniform(-1e3, 1e3), chance.uniform(-1, 1)])
    return rows


def log_of(rows: list[dict[str, Any]], begin: int) -> MemoryLog:
    t = begin
    for row in rows:
        t += row["step"]
        row["t"] = t
        row["ts"] = dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=t)
    log = MemoryLog(StreamSchema.of(COLUMNS, time="ts"))
    columns = {n: pa.array([row[n] for row in rows], log.schema.field(n).type) for n in COLUMNS}
    log.append(pa.table(columns, schema=log.schema))
    return log


def operator(
    unit: Any, size: int, slide: int, keys: list[str], where: bool = False, having: str | None = None
) -> WindowAggregate:
    return WindowAggregate(
        stream="in",
        unit=unit,
        size=size,
        slide=slide,
        keys=tuple((f"key_{k}", k) for k in keys),
        aggregates=tuple((f"a{i}", f, arg) for i, (f, arg) in enumerate(AGGREGATES)),
        columns=(
            ("window_start", "window_start"),
            ("window_end", "window_end"),
            *((f"key_{k}", f"key_{k}") for k in keys),
            *((f"a{i}", f"a{i}") for i in range(len(AGGREGATES))),
        ),
        time="_time",
        filter="ok" if where else None,
        having=having,
    )


def play(
    op: WindowAggregate, log: MemoryLog, stops: list[Offset], parallelism: int = 1, scratch: str = "kept"
) -> pa.Table:
    """All answers when the stream is read with these stops; also checks order, `reached` and `needs`."""
    folder = Path(tempfile.mkdtemp())
    place = None if scratch == "none" else str(folder)
    at, batches, reached = Offset(), [], MIN_TIME
    reader = Guarded(log)
    try:
        for stop in stops:
            inputs = Inputs({"in": reader}, place)
            tasks = op.plan({"in": at}, {"in": stop}, inputs, parallelism)
            assert len(tasks) <= parallelism
            for task in tasks:
                for batch in op.run(task, inputs):
                    assert batch.num_rows > 0
                    times = batch.column(batch.schema.get_field_index(op.time)).cast(pa.int64()).to_pylist()
                    assert times == sorted(times)
                    assert times[0] >= reached
                    batches.append(batch)
            at, reached = stop, op.reached({"in": stop})
            reader.floor = op.needs({"in": at})["in"]
            if scratch in ("lost", "torn", "restarted"):
                # Another process goes on: it has the files, or what is left of them, and no memory.
                forget_all()
            if scratch == "lost":
                shutil.rmtree(folder)
                folder.mkdir()
            elif scratch == "torn":
                for n, file in enumerate(sorted(folder.rglob("*.*"))):
                    if file.is_file() and n % 2:
                        file.write_bytes(file.read_bytes()[:-3] + b"xyz")
        return pa.Table.from_batches(batches, op.schema(Inputs({"in": log})))
    finally:
        shutil.rmtree(folder)


class Guarded:
    """A log that has only the rows the operator said it still needs."""

    def __init__(self, log: MemoryLog) -> None:
        self._log = log
        self.floor: Floor = Floor()
        self.schema, self.time_column = log.schema, log.time_column
        self.skew_us, self.identity = log.skew_us, log.identity
        self.row_at_time = log.row_at_time

    def first_row(self) -> int:
        rows = [] if self.floor.row is None else [self.floor.row]
        if self.floor.time is not None:
            rows.append(self._log.row_at_time(self.floor.time, self._log.offset().row))
        return min(rows, default=0)

    def first_logged_row(self) -> int:
        return self.first_row()

    def read(self, start: int, end: int, columns: list[str] | None = None) -> pa.Table:
        assert start >= self.first_row() or start >= end, f"row {start} was said not to be needed"
        return self._log.read(start, end, columns)


def stops_of(log: MemoryLog, cuts: list[int], beat: int) -> list[Offset]:
    rows = sorted({min(c, log.offset().row) for c in cuts} | {log.offset().row})
    stops = [log.offset(row) for row in rows if row > 0]
    return [*stops, Offset(stops[-1].row, stops[-1].time + beat)] if stops else []


def bits(table: pa.Table) -> list[tuple[Any, ...]]:
    """Rows in which floats are equal only if their bits are (any NaN is the same)."""
    columns = [[v.hex() if isinstance(v, float) else v for v in column.to_pylist()] for column in table.columns]
    return list(zip(*columns, strict=True))


def close(got: Any, wanted: Any) -> bool:
    if isinstance(wanted, float) and isinstance(got, float):
        if math.isnan(wanted) or math.isnan(got):
            return math.isnan(wanted) and math.isnan(got)
        return math.isclose(got, wanted, rel_tol=1e-9, abs_tol=1e-6)
    return bool(got == wanted)


@pytest.mark.slow
@given(
    count=st.integers(1, 60),
    seed=st.integers(0, 2**32),
    begin=st.sampled_from([-50, 0, 3, 1_700_000_000_000_000]),
    unit=st.sampled_from(["time", "rows"]),
    shape=st.sampled_from([(1, 1), (5, 5), (6, 2), (7, 3), (10, 4), (3, 8), (4, 6), (40, 1), (64, 3), (1, 5)]),
    keys=st.sampled_from([[], ["i"], ["f"], ["s"], ["b"], ["d"], ["day"], ["s", "i"], ["f", "b", "s"]]),
    where=st.booleans(),
    cuts=st.lists(st.integers(0, 60), max_size=6),
    other_cuts=st.lists(st.integers(0, 60), max_size=6),
    beat=st.sampled_from([0, 1, 13, 1000]),
    block=st.sampled_from([5, 1 << 19]),
)
def test_every_way_of_cutting_gives_the_oracles_answer(
    count: int,
    seed: int,
    begin: int,
    unit: str,
    shape: tuple[int, int],
    keys: list[str],
    where: bool,
    cuts: list[int],
    other_cuts: list[int],
    beat: int,
    block: int,
) -> None:
    rows = some_rows(count, seed)
    log = log_of(rows, begin)
    op = operator(unit, *shape, keys, where)
    stops, other = stops_of(log, cuts, beat), stops_of(log, other_cuts, beat)
    reached = stops[-1].row if unit == "rows" else stops[-1].time
    wanted = answer(rows, unit, *shape, keys, AGGREGATES, reached, lambda r: not where or r["ok"] is True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(window_aggregate, "ROWS_PER_TASK", 3)
        once = play(op, log, stops[-1:])
        patch.setattr(window_run, "_ROWS_PER_READ", block)
        ways = [
            play(op, log, stops),
            play(op, log, other, parallelism=3),
            play(op, log, stops[-1:], parallelism=3, scratch="none"),
            play(op, log, stops, scratch="lost"),
            play(op, log, other, scratch="restarted"),
            play(op, log, other, scratch="torn"),
            play(op, log, stops, scratch="none"),
        ]
    ends = once.column("window_end")
    got = [
        tuple(row)
        for row in zip(
            (ends if unit == "rows" else ends.cast(pa.int64())).to_pylist(),
            *(once.column(i).to_pylist() for i in range(2, 2 + len(keys) + len(AGGREGATES))),
            strict=True,
        )
    ]
    assert len(got) == len(wanted)
    for mine, theirs in zip(got, wanted, strict=True):
        assert all(close(a, b) for a, b in zip(mine, theirs, strict=True)), (mine, theirs)
    for way in ways:
        assert bits(way) == bits(once)


ONE_BY_ONE = itertools.product(["time", "rows"], [(160, 50), (64, 3), (200, 200)], ["kept", "restarted", "torn"])


@pytest.mark.slow
@pytest.mark.parametrize(("unit", "shape", "scratch"), sampled(ONE_BY_ONE, 5, "one by one"))
def test_batches_of_one_row_give_the_answer_of_one_batch(unit: str, shape: tuple[int, int], scratch: str) -> None:
    log = log_of(some_rows(250, seed=1), begin=-100)
    op = operator(unit, *shape, ["s", "i"])
    one_by_one = play(op, log, [log.offset(row) for row in range(1, 251)], scratch=scratch)
    assert one_by_one.num_rows > 30
    assert bits(one_by_one) == bits(play(op, log, [log.offset()]))


def simple(size: int, slide: int, unit: Any = "time", **more: Any) -> WindowAggregate:
    return WindowAggregate(
        "in", unit, size, slide, (("k", "k"),), (("n", "count", None), ("total", "sum", "v")),
        (("k", "k"), ("n", "n"), ("total", "total"), ("window_end", "window_end")), "window_end", **more,
    )  # fmt: skip


def stream(times: list[int], values: list[Any], sql: str = "BIGINT") -> MemoryLog:
    log = MemoryLog(StreamSchema.of({"k": "STRING", "v": sql, "ts": "TIMESTAMP"}, time="ts"))
    wanted = log.schema.field("v").type
    log.append({"k": ["a"] * len(times), "v": pa.array(values, wanted), "ts": pa.array(times).cast(TIME_TYPE)})
    return log


@pytest.mark.slow
def test_cached_steady_state_reads_only_new_rows() -> None:
    log = stream(list(range(0, 4000, 2)), [1] * 2000)
    op = simple(640, 10)
    with tempfile.TemporaryDirectory() as folder:
        at = Offset()
        for row in range(20, 2001, 20):
            work = Work()
            inputs = Inputs({"in": log}, folder, work)
            for task in op.plan({"in": at}, {"in": log.offset(row)}, inputs, 1):
                list(op.run(task, inputs))
            assert work.rows_read == 20
            at = log.offset(row)
        # 64 panes and their nodes, with the batches a replay may need; not all 400 panes of the stream.
        assert 64 <= work.scratch_rows < 200
        assert work.scratch_bytes == sum(f.stat().st_size for f in Path(folder).rglob("*") if f.is_file())


def test_replaying_a_batch_gives_the_same_rows() -> None:
    log = stream(list(range(200)), list(range(200)))
    op = simple(30, 10)
    with tempfile.TemporaryDirectory() as folder:
        inputs = Inputs({"in": log}, folder)

        def batch(low: int, high: int) -> list[dict[str, Any]]:
            tasks = op.plan({"in": log.offset(low)}, {"in": log.offset(high)}, inputs, 1)
            return [row for task in tasks for b in op.run(task, inputs) for row in b.to_pylist()]

        batch(0, 95)
        second = batch(95, 143)
        batch(143, 200)
        assert batch(95, 143) == second
        assert [row["n"] for row in second] == [30] * 5


def test_a_small_batch_run_again_after_a_large_one_of_two_tasks_says_the_same() -> None:
    """What the batch itself kept the first time speaks for less than it needs when it is run again."""
    minute, rows_a_second, backlog, more = 60_000_000, 200, 1_050_000, 8_000
    columns = (("k", "k"), ("n", "n"), ("_time", "window_end"))
    op = WindowAggregate(
        "in", "time", 60 * minute, minute, (("k", "k"),), (("n", "count", None),), columns, "_time"
    )  # fmt: skip
    harness = OperatorHarness(op, {"in": StreamSchema.of({"k": "INT", "ts": "TIMESTAMP"}, time="ts")})

    def push(first: int, last: int) -> None:
        n = np.arange(first, last)
        times = pa.array(n * (1_000_000 // rows_a_second)).view(TIME_TYPE)
        harness.push("in", pa.table({"k": pa.array(n % 2, pa.int32()), "ts": times}))

    push(0, backlog)
    harness.step(parallelism=2)
    assert len(list(harness.scratch.glob("*-of-2"))) == 2
    push(backlog, backlog + more)
    assert harness.step().column("n").to_pylist() == [360_000, 360_000]
    harness.replay()
    harness.restart()
    harness.replay()


def test_a_year_without_rows_costs_no_windows() -> None:
    year = 365 * 86_400_000_000
    log = stream([0, 5, year], [1, 2, 3])
    op = simple(20, 1)
    assert [(r["n"], r["window_end"].microsecond) for r in play(op, log, [log.offset()]).to_pylist()] == [
        *((1, e) for e in range(1, 6)),
        *((2, e) for e in range(6, 21)),
        *((1, e) for e in range(21, 26)),
    ]


def test_no_rows_and_no_window_means_no_task() -> None:
    log = stream([0, 5], [1, 2])
    op = simple(10, 10)
    inputs = Inputs({"in": log})
    at = {"in": log.offset()}
    assert op.plan(at, at, inputs, 4) == []
    assert op.plan(at, {"in": Offset(2, 9)}, inputs, 4) == []
    assert len(op.plan(at, {"in": Offset(2, 10)}, inputs, 4)) == 1
    assert op.plan({"in": Offset(2, 10)}, {"in": Offset(2, 90)}, inputs, 4) == []
    assert op.plan({"in": Offset()}, {"in": Offset()}, inputs, 4) == []


def test_rows_window_tells_row_numbers_and_the_time_of_its_last_row() -> None:
    log = stream([10, 20, 30, 40, 50], [1, 2, 3, 4, 5])
    op = WindowAggregate(
        "in", "rows", 3, 2, (), (("total", "sum", "v"),),
        (("window_start", "window_start"), ("window_end", "window_end"), ("total", "total")), "_time",
    )  # fmt: skip
    rows = play(op, log, [log.offset()]).to_pylist()
    assert [(r["window_start"], r["window_end"], r["total"], r["_time"].microsecond) for r in rows] == [
        (0, 2, 3, 20),
        (1, 4, 9, 40),
    ]


def test_having_and_filter_and_thrown_rows() -> None:
    log = MemoryLog(StreamSchema.of({"k": "STRING", "ok": "BOOLEAN", "hot": "BOOLEAN", "ts": "TIMESTAMP"}, time="ts"))
    log.append(
        {
            "k": ["a", "b", "a", "b", "c"],
            "ok": [True, True, False, None, True],
            "hot": [True, False, True, True, None],
            "ts": pa.array([0, 1, 2, 3, 10]).cast(TIME_TYPE),
        }
    )
    op = WindowAggregate(
        "in", "time", 10, 10, (("k", "k"),), (("n", "count", None), ("any_hot", "max", "hot")),
        (("k", "k"), ("n", "n")), "_time", filter="ok", having="any_hot",
    )  # fmt: skip
    work = Work()
    inputs = Inputs({"in": log}, None, work)
    (task,) = op.plan({"in": Offset()}, {"in": log.offset()}, inputs, 1)
    (batch,) = op.run(task, inputs)
    assert batch.select(["k", "n"]).to_pylist() == [{"k": "a", "n": 1}]
    assert (work.rows_read, work.rows_thrown) == (5, 2)


def test_sum_beyond_64_bits_is_an_error_and_in_decimal_it_is_not() -> None:
    times = [0, 1, 20]
    with pytest.raises(QueryError, match="SUM_OVERFLOW a sum does not fit BIGINT"):
        play(simple(10, 10), log := stream(times, [2**63 - 1, 1, 0]), [log.offset()])
    big = [Decimal(2**63 - 1), Decimal(1), Decimal(0)]
    log = stream(times, big, "DECIMAL(20,0)")
    assert play(simple(10, 10), log, [log.offset()]).column("total").to_pylist() == [Decimal(2**63)]
    log = stream(times, [Decimal("9" * 38), Decimal(1), Decimal(0)], "DECIMAL(38,0)")
    with pytest.raises(QueryError, match=r"SUM_OVERFLOW a sum does not fit DECIMAL\(38,0\)"):
        play(simple(10, 10), log, [log.offset()])


@pytest.mark.parametrize("slide", [8, 1])
def test_the_spread_of_huge_doubles_is_what_spark_says(slide: int) -> None:
    """Squares beyond all doubles are infinite, differences beyond them are no number; nothing is below zero."""
    nan, inf = math.nan, math.inf
    cases: dict[str, tuple[list[float], float]] = {
        "differences": ([1e308, -1e308], nan), "squares": ([1e200, -1e200], inf), "near": ([1.7e308, 1e308], inf),
        "equal": ([1.7e308] * 3, 0.0), "one": ([1e308, -1e308, 5.0], nan), "small": ([1e154, -1e154], inf),
        "infinite": ([inf, 1.0], nan), "many": ([1e308] * 4 + [-1e308] * 4, nan),
    }  # fmt: skip
    names = ("var_pop", "stddev_pop", "var_samp", "stddev")
    op = WindowAggregate(
        "in", "rows", 8, slide, (("k", "k"),), tuple((name, name, "x") for name in names),
        (("k", "k"), *((name, name) for name in names), ("_time", "_time")), "_time",
    )  # fmt: skip
    for name, (values, wanted) in cases.items():
        harness = OperatorHarness(op, {"in": StreamSchema.of({"k": "STRING", "x": "DOUBLE", "ts": "TIMESTAMP"}, "ts")})
        filled = [*values, *[None] * (8 - len(values))]
        harness.push("in", pa.table({"k": [name] * 8, "x": filled, "ts": pa.array(range(8)).cast(TIME_TYPE)}))
        last = harness.step().to_pylist()[-1]
        assert [last[each] for each in names] == pytest.approx([wanted] * 4, nan_ok=True), name


def test_wrong_specs_are_refused() -> None:
    log = stream([0], ["x"], "STRING")
    with pytest.raises(QueryError, match="AGGREGATE_TYPE_MISMATCH sum of STRING was asked for, it needs a number"):
        simple(10, 10).schema(Inputs({"in": log}))
    with pytest.raises(QueryError, match="WINDOW_SIZE_INVALID"):
        simple(0, 10)


def test_a_big_batch_is_cut_on_window_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window_aggregate, "ROWS_PER_TASK", 100)
    log = stream(list(range(1000)), [1] * 1000)
    tasks = simple(30, 10).plan({"in": Offset()}, {"in": log.offset()}, Inputs({"in": log}), 3)
    assert [(t.start["in"].row, t.end["in"].row, t.detail["last"]) for t in tasks] == [
        (0, 330, False),
        (330, 660, False),
        (660, 1000, True),
    ]
    assert len(simple(400, 10).plan({"in": Offset()}, {"in": log.offset()}, Inputs({"in": log}), 3)) == 2


def test_json_round_trip() -> None:
    op = simple(10, 5, filter="v > 1", having="n > 2")
    assert operator_from_json(op.to_json()) == op


def test_needs_and_reached_follow_the_oldest_unanswered_window() -> None:
    op = simple(30, 10)
    assert op.needs({"in": Offset(7, 45)}) == {"in": Floor(row=7, time=20)}
    assert op.reached({"in": Offset(7, 45)}) == 50
    assert simple(30, 10, "rows").needs({"in": Offset(45, 7)}) == {"in": Floor(row=20)}
    assert op.needs({"in": Offset()}) == {"in": Floor(row=0, time=MIN_TIME)}


def test_expressions_are_evaluated_before_and_after_the_window() -> None:
    log = stream(list(range(12)), [5, 1, 7, 2, 9, 1, 3, 3, 3, 3, 1, 1])
    op = WindowAggregate(
        "in", "time", 4, 4, (("key", "concat(k, '!')"),), (("n", "count", None), ("total", "sum", "v * 2")),
        (("key", "key"), ("mean", "total / n"), ("late", "window_end")), "late", filter="v > 1", having="n > 2",
    )  # fmt: skip
    rows = play(op, log, [log.offset(5), log.offset(), Offset(12, 12)]).to_pylist()
    assert [(r["key"], r["mean"], r["late"].microsecond) for r in rows] == [("a!", 28 / 3, 4), ("a!", 30 / 3, 8)]
