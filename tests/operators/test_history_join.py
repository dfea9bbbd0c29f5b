"""Live rows joined with portions of history, against the naive version."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from anabranch.errors import QueryError
from anabranch.kernels import hashing
from anabranch.operators.base import Inputs, Offset
from anabranch.operators.history import key_codes, slices
from anabranch.operators.history.join import HistoryJoin
from anabranch.operators.history.key_codes import KeyCodes
from anabranch.operators.live import forget_all
from anabranch.schema import TIME_TYPE, StreamSchema
from anabranch.testing import MemoryLog, OperatorHarness
from anabranch.testing.harness import run_batch, same
from tests.operators.history_oracle import Portions, kept_rows, rows_of

LIVE = StreamSchema.of({"plate": "STRING", "exit": "INT", "speed": "DOUBLE", "ts": "TIMESTAMP"}, time="ts")
PAST = StreamSchema.of({"car": "STRING", "gate": "BIGINT", "speed": "DOUBLE", "ts": "TIMESTAMP"}, time="ts")


def drive(count: int, seed: int, names: tuple[str, str] = ("plate", "exit"), step: int = 6, cars: int = 8) -> pa.Table:
    """Cars passing exits; some are not read."""
    chance = random.Random(seed)
    times = np.cumsum([chance.randint(0, step) for _ in range(count)])

    def maybe(values: list[Any]) -> list[Any]:
        return [None if chance.random() < 0.1 else value for value in values]

    whole = pa.int32() if names[1] == "exit" else pa.int64()
    return pa.table(
        {
            names[0]: pa.array(maybe([f"car {chance.randint(1, cars)}" for _ in range(count)]), pa.string()),
            names[1]: pa.array(maybe([chance.randint(1, 2) for _ in range(count)]), whole),
            "speed": pa.array(maybe([chance.choice([0.0, -0.0, float("nan"), 1.5, 30.0]) for _ in range(count)])),
            "ts": pa.array(times).cast(TIME_TYPE),
        }
    )


def join(**more: Any) -> HistoryJoin:
    """By default a stream with its own past."""
    given: dict[str, Any] = {
        "stream": "cars", "alias": "c", "history": "cars", "on": (("plate", "plate"), ("exit", "exit")),
        "period": 100, "portions": 3, "within": 30, "match": "each",
        "columns": (("plate", "plate"), ("n", "_portions"), ("rows", "_matches"), ("part", "_fraction"), ("ts", "ts")),
        "time": "ts",
    }  # fmt: skip
    return HistoryJoin(**{**given, **more})


def naive(operator: HistoryJoin, live: pa.Table, past: pa.Table, keep: float = 1.0, by: str | None = None) -> list[Any]:
    portions = Portions(operator.on, operator.period, operator.portions, operator.within)
    history = [row for row, read in zip(rows_of(past), kept_rows(past, keep, by), strict=True) if read]
    found = portions.answered(rows_of(live), history, operator.match)
    return [(row["plate"], n, rows, keep, row["ts"]) for row, n, rows in found]


def told(answer: pa.Table) -> list[Any]:
    return [(r["plate"], r["n"], r["rows"], r["part"], r["ts"]) for r in rows_of(answer)]


@pytest.fixture(autouse=True)
def nothing_remembered() -> Iterator[None]:
    forget_all()
    yield
    forget_all()


@pytest.mark.slow
@pytest.mark.parametrize("match", ["each", "any"])
@pytest.mark.parametrize(("period", "portions", "within"), [(100, 3, 30), (40, 2, 39), (7, 2, 0), (500, 1, 60)])
@pytest.mark.parametrize("size", [1, 13, 400])
def test_own_past(match: Any, period: int, portions: int, within: int, size: int) -> None:
    data = drive(400, seed=portions, cars=3)
    operator = join(match=match, period=period, portions=portions, within=within)
    harness = OperatorHarness(operator, {"cars": LIVE})
    harness.push("cars", data)
    answer = harness.run(rows=size)
    assert told(answer) == naive(operator, data, data)
    assert answer.num_rows > 0


@pytest.mark.parametrize("size", [1, 9, 300])
def test_past_of_another_stream_with_other_types(size: int) -> None:
    live, past = drive(250, seed=5), drive(300, seed=6, names=("car", "gate"), step=5)
    operator = join(history="past", on=(("plate", "car"), ("exit", "gate")), match="any")
    harness = OperatorHarness(operator, {"cars": LIVE, "past": PAST})
    harness.push("cars", live)
    harness.push("past", past)
    harness.advance("past", 10_000)
    assert told(harness.run(rows=size)) == naive(operator, live, past)


def test_a_live_row_waits_until_its_past_is_there() -> None:
    live = pa.table(
        {"plate": ["a", "a"], "exit": pa.array([1, 1], pa.int32()), "speed": [1.0, 1.0], "ts": [1000, 1100]}
    )
    live = live.set_column(3, "ts", live.column("ts").cast(TIME_TYPE))
    past = pa.table({"car": ["a", "a"], "gate": [1, 1], "speed": [1.0, 1.0], "ts": [870, 930]})
    past = past.set_column(3, "ts", past.column("ts").cast(TIME_TYPE))
    operator = join(history="past", on=(("plate", "car"),), portions=1)
    harness = OperatorHarness(operator, {"cars": LIVE, "past": PAST})
    harness.push("cars", live)
    assert harness.step().num_rows == 0
    harness.push("past", past)
    assert harness.step().num_rows == 0, "a row at 930 could still come"
    assert operator.reached(harness.offsets) == 1000
    harness.advance("past", 931)
    assert told(harness.step()) == [("a", 1, 2, 1.0, 1000)]
    assert operator.reached(harness.offsets) == 1001
    harness.advance("past", 5000)
    assert told(harness.step()) == []
    assert operator.reached(harness.offsets) == 1100


@pytest.mark.parametrize("on", [(("speed", "speed"),), (("ts", "ts"),), (("plate", "plate"), ("speed", "speed"))])
def test_keys_of_any_type(on: Any) -> None:
    data = drive(300, seed=11)
    operator = join(on=on, match="any", period=100, within=100 - 1)
    harness = OperatorHarness(operator, {"cars": LIVE})
    harness.push("cars", data)
    assert told(harness.run(rows=50)) == naive(operator, data, data)


def test_numbers_of_different_types_are_equal_as_spark_says() -> None:
    types = {"i": "INT", "b": "BIGINT", "d": "DOUBLE", "e": "DECIMAL(10,2)", "f": "DECIMAL(20,4)", "ts": "TIMESTAMP"}
    schema = StreamSchema.of(types, time="ts")
    values = [Decimal(1), Decimal(2), Decimal(3)]
    numbers = {name: pa.array(values).cast(schema.arrow.field(name).type) for name in "ibdef"}
    log = MemoryLog(schema)
    log.append(pa.table({**numbers, "ts": pa.array([10, 11, 12]).cast(TIME_TYPE)}))
    log.append(pa.table({**numbers, "ts": pa.array([110, 111, 112]).cast(TIME_TYPE)}))
    for one in "ibdef":
        for other in "ibdef":
            operator = join(on=((one, other),), portions=1, within=0, columns=(("v", one), ("ts", "ts")))
            answer = run_batch(operator, Inputs({"cars": log}), {"cars": Offset()}, {"cars": log.offset()}, 1)
            assert answer.num_rows == 3, f"{one} = {other}"


def test_types_that_are_never_equal_are_refused() -> None:
    with pytest.raises(QueryError, match="JOIN_KEYS_DIFFER plate is STRING and exit is INT"):
        join(on=(("plate", "exit"),)).schema(Inputs({"cars": MemoryLog(LIVE)}))


def test_filters_of_both_sides() -> None:
    data = drive(400, seed=2)
    operator = join(filter="speed > 1", history_filter="exit = 1", match="any")
    harness = OperatorHarness(operator, {"cars": LIVE})
    harness.push("cars", data)
    fast = data.filter(pa.compute.fill_null(pa.compute.greater(data.column("speed"), 1), False))
    nan = data.filter(pa.compute.fill_null(pa.compute.is_nan(data.column("speed")), False))
    live = pa.concat_tables([fast, nan]).sort_by("ts")
    first = data.filter(pa.compute.fill_null(pa.compute.equal(data.column("exit"), 1), False))
    answer = sorted(told(harness.run(rows=37)), key=str)
    assert answer == sorted(naive(operator, live, first), key=str)


# -- keys that are kept whole --------------------------------------------------------------------


def cut(log: MemoryLog, rows: list[int], keeps: list[float]) -> list[tuple[dict[str, Offset], dict[str, Offset]]]:
    """Micro-batches that end after so many rows, each with the fraction of history that it reads."""
    ends = [Offset(), *(log.offset(row)._replace(keep=keep) for row, keep in zip(rows, keeps, strict=True))]
    return [({"cars": a}, {"cars": b}) for a, b in itertools.pairwise(ends)]


@pytest.mark.parametrize(
    "keeps", [[0.5, 0.5, 0.5, 0.5], [1.0, 0.6, 0.3, 0.3], [0.3, 0.9, 0.2, 1.0], [0.0, 0.5, 0.0, 0.5]]
)
def test_reduced_join_knows_all_of_the_keys_it_keeps(keeps: list[float]) -> None:
    data = drive(600, seed=21, cars=40)
    log = MemoryLog(LIVE)
    log.append(data)
    operator = join(reducer=("by_key", ("plate", 0.5)), match="any", period=200, within=150)
    at = 0
    for start, end in cut(log, [150, 310, 450, 600], keeps):
        answer = run_batch(operator, Inputs({"cars": log}), start, end, 1)
        keep, row = end["cars"].keep, end["cars"].row
        assert told(answer) == naive(operator, data.slice(at, row - at), data, keep, "plate"), f"at {keep}"
        assert (answer.num_rows > 0) == (keep > 0)
        at = row


def test_reducers_that_drop_rows_are_refused() -> None:
    inputs = Inputs({"cars": MemoryLog(LIVE)})
    for reducer in (("uniform", (0.4,)), ("age", (10,)), ("load", (10,))):
        with pytest.raises(QueryError, match=r"NOT_ON_REDUCED_DATA .* by_key\(plate, 0\.9\)"):
            join(reducer=reducer).schema(inputs)
    with pytest.raises(QueryError, match=r'NOT_ON_REDUCED_DATA .* "speed" whole, and the join is not by that column'):
        join(reducer=("by_key", ("speed", 0.4))).schema(inputs)
    assert join(reducer=("load", (10, "plate"))).schema(inputs).names[0] == "plate"


# -- what is read, and how keys are found --------------------------------------------------------


class Counted(MemoryLog):
    """Counts the rows of history that are read."""

    rows = 0

    def read_sample(
        self, start: int, end: int, columns: list[str], keep: float, by: str | None = None, again: bool = False
    ) -> pa.Table:
        Counted.rows += max(end - start, 0)
        return super().read_sample(start, end, columns, keep, by, again)


@pytest.mark.slow
def test_slices_are_read_once_over_many_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "AHEAD", 16)
    data = drive(2_000, seed=3)
    log = Counted(LIVE)
    log.append(data)
    operator = join(match="any", period=500, portions=4, within=100)
    Counted.rows = 0
    answers, at = [], Offset()
    for row in range(1_000, 2_001, 4):
        end = log.offset(row)
        answers.append(run_batch(operator, Inputs({"cars": log}), {"cars": at}, {"cars": end}, 1))
        at = end
    times = data.column("ts").cast(pa.int64()).to_numpy()
    begin, last = times[0], times[-1]
    slice_rows = sum(
        int(((times >= begin - d * 500 - 100) & (times <= last - d * 500 + 100)).sum()) for d in (1, 2, 3, 4)
    )
    assert Counted.rows <= slice_rows + 4 * 2 * 16
    assert told(pa.concat_tables(answers)) == naive(operator, data, data)


def test_batch_that_goes_back_reads_again() -> None:
    data = drive(500, seed=4)
    operator = join(match="any")
    harness = OperatorHarness(operator, {"cars": LIVE})
    harness.push("cars", data)
    for _ in range(12):
        harness.step(rows=40)
        harness.replay()
    assert told(harness.answers()) == naive(operator, data.slice(0, 480), data)


def test_live_rows_are_looked_up_as_history_comes_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "AHEAD", 8)
    monkeypatch.setattr(slices, "MOST_ROWS", 10)
    data = drive(400, seed=8)
    operator = join(match="any")
    harness = OperatorHarness(operator, {"cars": LIVE})
    harness.push("cars", data)
    assert told(harness.step()) == naive(operator, data, data)


def test_keys_with_the_same_hash_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        key_codes, "hashes_of_rows", lambda columns, n: hashing.hashes_of_rows(columns, n) % np.uint64(3)
    )
    data = drive(300, seed=9, cars=30)
    operator = join(match="any")
    harness = OperatorHarness(operator, {"cars": LIVE})
    harness.push("cars", data)
    assert told(harness.run(rows=25)) == naive(operator, data, data)


def test_codes_stay_the_same_as_keys_are_added() -> None:
    chance = random.Random(1)
    keys = KeyCodes(2)
    known: dict[tuple[int, str], int] = {}
    for _ in range(60):
        some = [(chance.randint(0, 3_000), str(chance.randint(0, 1))) for _ in range(chance.randint(0, 200))]
        columns = [pa.array([a for a, _ in some], pa.int64()), pa.array([b for _, b in some], pa.string())]
        missing = keys.find(columns).tolist()
        assert [code >= 0 for code in missing] == [key in known for key in some]
        for key, code in zip(some, keys.add(columns).tolist(), strict=True):
            assert known.setdefault(key, code) == code
    assert sorted(known.values()) == list(range(len(known)))
    codes = np.array(sorted(chance.sample(range(len(known)), 100)))
    fewer, names = keys.only(codes), {code: key for key, code in known.items()}
    taken = [names[code] for code in codes.tolist()]
    columns = [pa.array([a for a, _ in taken], pa.int64()), pa.array([b for _, b in taken], pa.string())]
    assert fewer.find(columns).tolist() == list(range(100))


@pytest.mark.slow
def test_keys_that_left_the_slices_are_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "AHEAD", 16)
    monkeypatch.setattr(slices, "_SPARE_CODES", 8)
    data = drive(1_500, seed=10, cars=500)
    operator = join(match="any", period=60, within=30, portions=2)
    harness = OperatorHarness(operator, {"cars": LIVE})
    harness.push("cars", data)
    assert told(harness.run(rows=20)) == naive(operator, data, data)
    (held,) = slices.live._kept.values()
    assert held._keys.size < 200


def test_sizes_that_make_no_sense_are_refused() -> None:
    for wrong in ({"portions": 0}, {"period": 0}, {"within": 100}, {"within": -1}):
        with pytest.raises(QueryError, match="WINDOW_SIZE_INVALID"):
            join(**wrong)


def test_parallel_tasks_share_a_large_batch() -> None:
    from anabranch.operators.history import join as history_join

    data = drive(600, seed=12)
    operator = join(within=5)
    log = MemoryLog(LIVE)
    log.append(data)
    before = history_join.ROWS_PER_TASK
    try:
        history_join.ROWS_PER_TASK = 100
        tasks = operator.plan({"cars": Offset()}, {"cars": log.offset()}, Inputs({"cars": log}), 3)
        assert len(tasks) == 3
        answer = run_batch(operator, Inputs({"cars": log}), {"cars": Offset()}, {"cars": log.offset()}, 3)
    finally:
        history_join.ROWS_PER_TASK = before
    assert told(answer) == naive(operator, data, data)
    assert same(answer, run_batch(operator, Inputs({"cars": log}), {"cars": Offset()}, {"cars": log.offset()}, 1))


def test_where_a_portion_begins_older_rows_of_its_file_are_not_taken_in(monkeypatch: pytest.MonkeyPatch) -> None:
    data = drive(600, seed=13)
    operator = join(reducer=("by_key", ("plate", 0.4)), portions=2)
    log = MemoryLog(LIVE)
    log.append(data)
    taken: list[int] = []
    append = slices._Slice.append

    def counted(self: slices._Slice, codes: Any, times: Any) -> None:
        taken.append(len(times))
        append(self, codes, times)

    monkeypatch.setattr(slices._Slice, "append", counted)
    start, end = log.offset(580)._replace(keep=0.6), log.offset(600)._replace(keep=0.6)
    answer = run_batch(operator, Inputs({"cars": log}), {"cars": start}, {"cars": end}, 1)
    times = data.column("ts").cast(pa.int64()).to_numpy()
    assert 0 < sum(taken) <= sum(int((times >= times[580] - d * 100 - 30).sum()) for d in (1, 2)) < 200
    whole = run_batch(operator, Inputs({"cars": log}), {"cars": Offset()}, {"cars": end}, 1)
    rows = told(answer)
    assert rows
    assert rows == told(whole)[-len(rows) :]
