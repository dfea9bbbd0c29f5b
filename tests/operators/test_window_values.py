"""Median, mode, count(DISTINCT) and their like equal the naive oracle, whatever index answers them and however."""

from __future__ import annotations

import itertools
import math
import random
import time
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from functools import partial
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.operators.base import Inputs, Offset
from anabranch.operators.live import forget_all
from anabranch.operators.windows import values as window_values
from anabranch.operators.windows.aggregate import WindowAggregate
from anabranch.operators.windows.values import WindowValues
from anabranch.schema import TIME_TYPE, StreamSchema
from anabranch.testing import MemoryLog, OperatorHarness
from anabranch.testing.harness import run_batch, same
from anabranch.testing.slt.small_tasks import small_tasks
from anabranch.windows.basic.spill import SpillFile
from anabranch.windows.basic.values import Domain
from tests.operators.oracle import SHAPES, STREAM, Drive, Row, answer, at_time, in_order, some_rows, table_of, told
from tests.sampling import examples

TYPED = ("i", "x", "s", "d", "b", "day", "at")
FRACTIONS = ("0", "0.07", "0.1", "0.25", "0.3", "0.5", "0.55", "0.7", "0.95", "1")
STORAGES = (None, "LIST", "AGGR", "HASH")
INDICES = (None, "L", "T", "H", "UH")


def some_aggregates(chance: random.Random) -> list[tuple[str, str | None]]:
    """A count(*), several questions to the same values, and some to others."""
    p = [f"({chance.choice(FRACTIONS)})" for _ in range(4)]
    possible = [
        *(("median", c) for c in ("i", "x", "d")),
        *((f"percentile{p[0]}", c) for c in ("i", "x", "d")),
        *((f"percentile_disc{p[1]}", c) for c in TYPED),
        *(("mode", c) for c in TYPED),
        *(("count_distinct", c) for c in TYPED),
        *((f"approx_percentile{p[2]}", c) for c in ("i", "x")),
        *((f"approx_count_distinct({chance.choice(['0.05', '0.2'])})", c) for c in TYPED),
        ("sum", "i"),
        ("max", "s"),
    ]
    return [("count", None), *chance.sample(possible, chance.randint(1, 5))]


def operator(
    unit: Any, size: int, slide: int, keys: list[str], aggregates: list[tuple[str, str | None]], **more: Any
) -> WindowAggregate:
    names = [f"key_{k}" for k in keys] + [f"a{i}" for i in range(len(aggregates))]
    return WindowAggregate(
        "in",
        unit,
        size,
        slide,
        keys=tuple((f"key_{k}", k) for k in keys),
        aggregates=tuple((f"a{i}", f, arg) for i, (f, arg) in enumerate(aggregates)),
        columns=(("e", "window_end"), *((n, n) for n in names)),
        time="_time",
        **more,
    )


def rows_of(table: pa.Table, width: int) -> list[tuple[Any, ...]]:
    """The rows of an answer as the oracle gives them: the window's end as a number, then the values."""
    ends = table.column(0).cast(pa.int64()).to_pylist()
    return list(zip(ends, *(table.column(i).to_pylist() for i in range(1, width)), strict=True))


def fits(function: str, got: Any, wanted: Any) -> bool:
    """Exactly the oracle's value; for approximate functions, as near to it as they promise."""
    name, _, parameter = function.rstrip(")").partition("(")
    if name == "approx_count_distinct":
        return bool(abs(got - wanted) <= 5 * float(parameter) * wanted + 0.5)
    if isinstance(wanted, float) and isinstance(got, float):
        if math.isnan(wanted) or math.isnan(got):
            return math.isnan(wanted) and math.isnan(got)
        if math.isinf(wanted) or name != "approx_percentile":
            return got == wanted
    if name == "approx_percentile" and wanted is not None:
        return got is not None and abs(got - wanted) <= abs(wanted) / 2**7
    return bool(got == wanted)


def check(op: WindowAggregate, got: list[tuple[Any, ...]], wanted: list[tuple[Any, ...]]) -> None:
    assert len(got) == len(wanted)
    functions = ["end", *("key" for _ in op.keys), *(f for _, f, _ in op.aggregates)]
    for mine, theirs in zip(got, wanted, strict=True):
        assert all(map(fits, functions, mine, theirs)), (op.aggregates, mine, theirs)


@contextmanager
def forgetful(fewest_zeros: int, spacing: int) -> Iterator[None]:
    """Values that have gone are forgotten at once, and there is little room between the codes of strings."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(window_values, "_FEWEST_ZEROS", fewest_zeros)
        patch.setattr(window_values, "Domain", partial(Domain, spacing=spacing))
        yield


class TightHarness(OperatorHarness):
    """No memory for the window's values, which all go to files."""

    def _run(self, start: dict[str, Offset], end: dict[str, Offset], parallelism: int) -> pa.Table:
        readers = {name: log.worker() for name, log in self._logs.items()}
        return run_batch(self.operator, Inputs(readers, str(self.scratch), window_memory=1), start, end, parallelism)


class Processes:
    """Processes that take turns: each has the index of the batch it had last, however old, or none."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._indices: list[OrderedDict[str, WindowValues]] = [OrderedDict() for _ in range(3)]

    def switch(self) -> None:
        window_values.live._kept = self._chance.choice(self._indices)

    def lose(self) -> None:
        self._chance.choice(self._indices).clear()


@pytest.fixture(autouse=True)
def one_process() -> Iterator[None]:
    yield
    window_values.live._kept = OrderedDict()


@examples(60)
@given(
    count=st.integers(1, 60),
    seed=st.integers(0, 2**32),
    unit=st.sampled_from(["time", "rows"]),
    shape=st.sampled_from(SHAPES),
    keys=st.sampled_from([[], ["i"], ["x"], ["s"], ["b", "s"], ["d", "x"]]),
    storage=st.sampled_from(STORAGES),
    index=st.sampled_from(INDICES),
    begin=st.sampled_from([-50, 1_000, 1_700_000_000_000_000]),
    beat=st.sampled_from([0, 3, 1_000]),
    harness_type=st.sampled_from([OperatorHarness, TightHarness]),
    fewest_zeros=st.sampled_from([0, 1024]),
    spacing=st.sampled_from([2, 1 << 32]),
)
def test_every_way_of_cutting_gives_the_oracles_answer(
    count: int,
    seed: int,
    unit: str,
    shape: tuple[int, int],
    keys: list[str],
    storage: str | None,
    index: str | None,
    begin: int,
    beat: int,
    harness_type: type[OperatorHarness],
    fewest_zeros: int,
    spacing: int,
) -> None:
    chance = random.Random(seed)
    rows, aggregates = some_rows(count, chance, begin), some_aggregates(chance)
    where = chance.random() < 0.3
    op = operator(unit, *shape, keys, aggregates, storage=storage, index=index, filter="ok" if where else None)
    with small_tasks(rows=4), forgetful(fewest_zeros, spacing):
        processes = Processes(chance)
        faults = (processes.switch, processes.switch, processes.lose)
        drive = Drive(harness_type(op, {"in": STREAM}), chance, every=(1, 1, 2, 3), faults=faults)
        steps = drive.play({"in": rows}, beat)
    everything = answer(rows, unit, *shape, keys, aggregates, steps[-1].after, lambda r: not where or r["ok"] is True)
    for step in steps:
        wanted = [row for row in everything if step.asks(row[0], shape[1])]
        check(op, rows_of(step.answer, 1 + len(keys) + len(aggregates)), wanted)


@examples(30)
@given(
    count=st.integers(1, 60),
    seed=st.integers(0, 2**32),
    unit=st.sampled_from(["time", "rows"]),
    shape=st.sampled_from(SHAPES),
    keys=st.sampled_from([["s"], ["i"], ["b", "x"]]),
    limit=st.sampled_from([None, 0, 1, 2, 5]),
)
def test_groups_in_order_and_the_first_of_them(
    count: int, seed: int, unit: str, shape: tuple[int, int], keys: list[str], limit: int | None
) -> None:
    chance = random.Random(seed)
    rows, aggregates = some_rows(count, chance), some_aggregates(chance)
    exact = [(f, arg) for f, arg in aggregates if not f.startswith("approx")]
    names = [*(f"key_{k}" for k in keys), *(f"a{i}" for i in range(len(exact)))]
    order = tuple((n, chance.random() < 0.5, chance.random() < 0.5) for n in chance.sample(names, chance.randint(0, 2)))
    op = operator(unit, *shape, keys, exact, order=order, limit=limit)
    with small_tasks(rows=4):
        drive = Drive(OperatorHarness(op, {"in": STREAM}), chance)
        steps = drive.play({"in": rows}, beat=7)
    wanted = []
    everything = answer(rows, unit, *shape, keys, exact, steps[-1].after)
    for _, group in itertools.groupby(everything, key=lambda row: row[0]):
        named: list[Row] = [dict(zip(["e", *names], row, strict=True)) for row in group]
        wanted += [tuple(row.values()) for row in in_order(named, order, limit)]
    check(op, rows_of(told(steps), 1 + len(names)), wanted)


QUESTIONS: list[tuple[str, str | None]] = [
    ("count", None),
    ("median", "d"),
    ("percentile(0.95)", "x"),
    ("percentile_disc(0.3)", "s"),
    ("mode", "s"),
    ("mode", "x"),
    ("count_distinct", "s"),
    ("count_distinct", "i"),
]


def numbered_rows(count: int, chance: random.Random, step: int = 1) -> list[Row]:
    """Rows at a steady pace with many different values, most of which come and go."""
    rows = [at_time(row, n * step) for n, row in enumerate(some_rows(count, chance))]
    for n, row in enumerate(rows):
        row |= {"i": n // 3 - chance.randint(0, 9), "s": f"{n // 5 * 7919 % 1000:04}", "x": n % 13 + chance.random()}
        row |= {"d": Decimal(chance.randint(0, 99)) / 4}
    return rows


def play(
    op: WindowAggregate, rows: list[Row], step: int, harness_type: type[OperatorHarness] = OperatorHarness
) -> None:
    """Run in micro-batches of `step` rows and compare all answers with the oracle's."""
    harness = harness_type(op, {"in": STREAM})
    harness.push("in", table_of(rows))
    got = harness.run(rows=step)
    reached = len(rows) if op.unit == "rows" else rows[-1]["t"]
    keys, aggregates = [sql for _, sql in op.keys], [(f, arg) for _, f, arg in op.aggregates]
    wanted = answer(rows, op.unit, op.size, op.slide, keys, aggregates, reached)
    assert len(wanted) >= 10
    check(op, rows_of(got, 1 + len(keys) + len(aggregates)), wanted)


@pytest.mark.parametrize("index", INDICES)
@pytest.mark.parametrize("storage", STORAGES)
def test_storage_and_index_of_the_hint_answer_like_any_other(storage: str | None, index: str | None) -> None:
    op = operator("rows", 100, 20, ["b"], QUESTIONS, storage=storage, index=index)
    forget_all()
    play(op, numbered_rows(240, random.Random(1)), step=37)
    (values,) = window_values.live._kept.values()
    for choice in values.choices:
        assert choice is not None
        assert storage in (None, choice.storage)
        assert index in (None, choice.index)


@pytest.mark.slow
@pytest.mark.parametrize("storage", ["LIST", "HASH"])
def test_values_that_memory_has_no_room_for_go_to_a_file(storage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    written, sizes = [0], [0]
    write = SpillFile.write

    def counted(file: SpillFile, nodes: Any, counts: Any) -> Any:
        written[0] += nodes.nbytes + (0 if counts is None else counts.nbytes)
        spilled = write(file, nodes, counts)
        sizes.append(file.size)
        return spilled

    monkeypatch.setattr(SpillFile, "write", counted)
    op = operator("time", 100, 20, ["b"], QUESTIONS, storage=storage)
    rows = numbered_rows(600, random.Random(2))
    play(op, rows, step=23)
    assert written == [0]
    play(op, rows, step=23, harness_type=TightHarness)
    assert written[0] > 600
    # What has left the window leaves its room to what comes: a window's entries, not the stream's.
    assert max(sizes) < written[0] / 2


def test_values_that_have_gone_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [row | {"s": f"{n:05}"} for n, row in enumerate(numbered_rows(600, random.Random(3)))]
    op = operator("time", 50, 10, [], [("mode", "s"), ("percentile_disc(0.5)", "s"), ("count_distinct", "s")])
    play(op, rows, step=23)
    (kept,) = window_values.live._kept.values()
    assert len(kept._indexed[0].domain) == 600
    window_values.live._kept.clear()
    monkeypatch.setattr(window_values, "_FEWEST_ZEROS", 0)
    play(op, rows, step=23)
    (kept,) = window_values.live._kept.values()
    assert len(kept._indexed[0].domain) < 250
    assert kept._indexed[0].index.live < 250


@pytest.mark.slow
@pytest.mark.parametrize("index", ["T", "H"])
def test_index_crowded_by_groups_that_have_gone_is_made_anew(index: str) -> None:
    rows = [row | {"i": n // 2} for n, row in enumerate(numbered_rows(10_000, random.Random(4), step=3))]
    op = operator("time", 600, 300, ["i"], [("count_distinct", "s"), ("median", "x")], index=index)
    harness = OperatorHarness(op, {"in": STREAM})
    harness.push("in", table_of(rows))
    most = 0
    while harness.offsets["in"].row < len(rows):
        harness.step(rows=500)
        most = max([most, *(values._groups_known for values in window_values.live._kept.values())])
    assert 3_000 < most <= 4_096 < len({row["i"] for row in rows})
    wanted = answer(rows, "time", 600, 300, ["i"], [("count_distinct", "s"), ("median", "x")], rows[-1]["t"])
    check(op, rows_of(harness.answers(), 4), wanted)


def steady(size: int, slide: int, unit: Any = "time", **more: Any) -> OperatorHarness:
    op = operator(unit, size, slide, ["b"], QUESTIONS, **more)
    harness = OperatorHarness(op, {"in": STREAM})
    harness.push("in", table_of(numbered_rows(3_000, random.Random(5))))
    return harness


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["time", "rows"])
@pytest.mark.parametrize(("size", "slide"), [(1_000, 10), (1_000, 1_000), (1_000, 300)])
def test_batch_reads_the_rows_that_are_new_and_not_the_window(unit: str, size: int, slide: int) -> None:
    harness = steady(size, slide, unit)
    harness.step(rows=1_200)
    for _ in range(30):
        before = harness.work.rows_read
        harness.step(rows=60)
        assert harness.work.rows_read - before == 60


def test_process_without_an_index_reads_the_window_once() -> None:
    harness = steady(1_000, 10)
    harness.step(rows=2_000)
    window_values.live._kept.clear()
    read = []
    for _ in range(3):
        before = harness.work.rows_read
        harness.step(rows=10)
        read.append(harness.work.rows_read - before)
    assert 990 <= read[0] <= 1_030
    assert read[1:] == [10, 10]


def test_process_with_the_index_of_an_older_batch_reads_what_it_missed() -> None:
    harness = steady(1_000, 10)
    harness.step(rows=2_000)
    older = window_values.live._kept
    window_values.live._kept = OrderedDict()
    harness.step(rows=200)
    window_values.live._kept = older
    before = harness.work.rows_read
    harness.step(rows=10)
    assert 200 <= harness.work.rows_read - before <= 220
    twin = steady(1_000, 10)
    twin.step(rows=2_210)
    assert same(harness.answers(), twin.answers())


def test_groups_are_shared_out_among_tasks() -> None:
    op = operator("time", 1_000, 10, ["s"], QUESTIONS)
    log = MemoryLog(STREAM)
    log.append(table_of(numbered_rows(90, random.Random(6))))
    with small_tasks(rows=20):
        tasks = op.plan({"in": Offset()}, {"in": log.offset()}, Inputs({"in": log}, gathers=True), 3)
    assert [task.detail for task in tasks] == [{"part": i, "parts": 3} for i in range(3)]


def test_heartbeat_that_is_run_again_in_the_same_process() -> None:
    """A task that Spark runs again finds the index its first try left, which is past the windows asked for."""
    harness = OperatorHarness(operator("time", 20, 10, [], QUESTIONS), {"in": STREAM})
    harness.push("in", table_of(numbered_rows(15, random.Random(7))))
    harness.step()
    harness.advance("in", 100)
    assert harness.step().num_rows == 2
    harness.replay()


@pytest.mark.parametrize(("sql", "bits"), [("TINYINT", 7), ("SMALLINT", 15), ("INT", 31), ("BIGINT", 63)])
def test_approximate_percentile_of_the_ends_of_an_integer_type(sql: str, bits: int) -> None:
    low, high = -(2**bits), 2**bits - 1
    schema = StreamSchema.of({"v": sql, "ts": "TIMESTAMP"}, time="ts")
    aggregates: list[tuple[str, str | None]] = [("approx_percentile(0)", "v"), ("approx_percentile(1)", "v")]
    harness = OperatorHarness(operator("rows", 10, 10, [], aggregates), {"in": schema})
    harness.push("in", {"v": [low] * 5 + [high] * 5, "ts": pa.array(range(10)).cast(TIME_TYPE)})
    answer = harness.step()
    (row,) = rows_of(answer, 3)
    assert fits("approx_percentile(0)", row[1], low)
    assert fits("approx_percentile(1)", row[2], high)


@pytest.mark.parametrize("storage", [None, "LIST"])
def test_silence_costs_nothing(storage: str | None) -> None:
    rows = numbered_rows(20, random.Random(8))
    rows += [at_time(row, row["t"] + 10**8) for row in rows]
    op = operator("time", 20, 5, [], [("median", "x"), ("percentile_disc(0.2)", "s")], storage=storage)
    before = time.process_time()
    play(op, rows, step=7)
    assert time.process_time() - before < 5


@pytest.mark.slow
@pytest.mark.parametrize("index", [None, "T", "H"])
@pytest.mark.parametrize("keys", [[], ["b"]])
def test_words_that_crowd_between_two_others(index: str | None, keys: list[str]) -> None:
    """Every word comes before the last new one and after "a"; those above it go, and all get new codes."""
    rows = numbered_rows(900, random.Random(9))
    for n, row in enumerate(rows):
        row["s"] = ("a", f"a{900 - n:05}", f"z{900 - n:05}")[n % 3]
    op = operator("rows", 96, 3, keys, [("percentile_disc(0.4)", "s"), ("percentile_disc(1)", "s")], index=index)
    with forgetful(fewest_zeros=0, spacing=4):
        play(op, rows, step=17)
