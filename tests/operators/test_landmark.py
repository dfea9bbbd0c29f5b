"""Landmark queries against the naive version; bounds against the truth."""

from __future__ import annotations

import functools
import itertools
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from anabranch.archive.estimation import strata
from anabranch.archive.estimation.packing import PACKED
from anabranch.archive.estimation.sums import Sums
from anabranch.errors import QueryError
from anabranch.kernels.sampling import kept, key_lots, lots_between
from anabranch.operators.base import Inputs, Offset, Piece
from anabranch.operators.history import exact_totals, landmark, part_totals
from anabranch.operators.history.landmark import Landmark
from anabranch.operators.live import forget_all
from anabranch.operators.state import SavedState, StateFiles
from anabranch.schema import TIME_TYPE, StreamSchema
from anabranch.testing import MemoryLog, OperatorHarness
from anabranch.testing.harness import run_batch, same
from anabranch.testing.slt.small_tasks import small_tasks
from tests.operators.history_oracle import Since, estimated_total, rows_of
from tests.sampling import sampled

SCHEMA = StreamSchema.of({"k": "STRING", "v": "INT", "d": "DOUBLE", "ts": "TIMESTAMP"}, time="ts")
ALL = (
    ("n", "count", None), ("c", "count", "v"), ("s", "sum", "v"),
    ("a", "avg", "v"), ("low", "min", "v"), ("high", "max", "v"),
)  # fmt: skip


@pytest.fixture(autouse=True)
def small_strata(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for module in (strata, part_totals, exact_totals, landmark):
        monkeypatch.setattr(module, "STRATUM", 64)
    forget_all()
    yield
    forget_all()


def query(**more: Any) -> Landmark:
    given: dict[str, Any] = {
        "stream": "s", "since": 300, "keys": (("k", "k"),), "aggregates": ALL,
        "columns": (("k", "k"), *((name, name) for name, _, _ in ALL)), "time": "_time", "every": 100,
    }  # fmt: skip
    return Landmark(**{**given, **more})


def data(count: int, seed: int = 1, step: int = 4, begin: int = 0) -> pa.Table:
    chance = random.Random(seed)
    times = begin + np.cumsum([chance.choice([0, 1, step, 2 * step]) for _ in range(count)])
    return pa.table(
        {
            "k": pa.array([chance.choice([None, "a", "b", "b"]) for _ in range(count)], pa.string()),
            "v": pa.array(
                [None if chance.random() < 0.1 else chance.randint(-9, 50) for _ in range(count)], pa.int32()
            ),
            "d": pa.array([chance.lognormvariate(0, 1.5) for _ in range(count)]),
            "ts": pa.array(times).cast(TIME_TYPE),
        }
    )


def told(answer: pa.Table) -> list[tuple[Any, ...]]:
    return [(r["_time"], r["k"], r["n"], r["c"], r["s"], r["a"], r["low"], r["high"]) for r in rows_of(answer, "_time")]


# -- exact ---------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("since", [-5, 0, 300, 333, 1_900])
@pytest.mark.parametrize("until", [None, 1_000, 1_037])
@pytest.mark.parametrize("size", [7, 1_000])
def test_totals_since_a_time(since: int, until: int | None, size: int) -> None:
    table = data(700)
    harness = OperatorHarness(query(since=since, until=until), {"s": SCHEMA})
    harness.push("s", table)
    harness.advance("s", 2_750)
    oracle, reached = Since(since, 100, until), harness._logs["s"].end().time
    wanted = oracle.answers(rows_of(table), reached)
    assert told(harness.run(rows=size)) == wanted
    assert told(harness.store()) == oracle.store(rows_of(table), reached)
    assert len(wanted) > 5 or since > 1_000


@pytest.mark.slow
@pytest.mark.parametrize("keys", [3, 40])
def test_the_store_has_all_groups_at_every_offset(keys: int) -> None:
    """However rows were cut into batches and tasks, after restarts, and when the state is lost."""
    chance = random.Random(keys)
    rows = 500
    table = data(rows, seed=keys).set_column(
        0, "k", pa.array([chance.choice("abcdefghij") * chance.randint(1, keys // 3 + 1) for _ in range(rows)])
    )
    operator = _NeedsAll(**vars(query(since=50, every=60)))
    harness = OperatorHarness(operator, {"s": SCHEMA})
    at, oracle = 0, Since(50, 60)
    while at < rows:
        size = chance.choice([1, 5, 30, 150])
        harness.push("s", table.slice(at, size))
        at = min(at + size, rows)
        with small_tasks():
            harness.step(chance.choice([1, 3]))
        harness.replay()
        match chance.randrange(5):
            case 0:
                harness.restart()
                harness.operator = operator
            case 1:
                harness.lose_files(chance)
            case 2:
                harness.advance("s", harness.offsets["s"].time + chance.choice([1, 20, 61]))
                harness.step()
        known, reached = rows_of(table.slice(0, at)), harness.offsets["s"].time
        table = later(table, at, reached)
        assert told(harness.store()) == oracle.store(known, reached)
        assert told(harness.answers()) == oracle.answers(known, reached)
        harness.due()


def later(table: pa.Table, at: int, time: int) -> pa.Table:
    """The rows from a number on not before a time."""
    times = table.column("ts").cast(pa.int64()).to_numpy().copy()
    times[at:] = np.maximum(times[at:], time)
    return table.set_column(3, "ts", pa.array(times).cast(TIME_TYPE))


def test_silence_says_nothing_however_long_it_is() -> None:
    harness = OperatorHarness(query(since=0, every=1), {"s": SCHEMA})
    table = data(10)
    harness.push("s", table)
    harness.step()
    harness.advance("s", 10**15)
    groups = len(set(table.column("k").to_pylist()))
    assert harness.step().num_rows <= groups
    answers = harness.answers()
    assert harness.due() == {}
    harness.advance("s", 10**16)
    assert harness.step().num_rows == 0
    assert [row[1:] for row in told(harness.store())] == newest_of_each(told(answers))
    assert {row[0] for row in told(harness.store())} == {10**16}


def newest_of_each(answers: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    newest = {row[1]: row[1:] for row in answers}
    return [newest[key] for key in sorted(newest, key=lambda key: (key is not None, key))]


@pytest.mark.slow
def test_the_store_of_estimates_does_not_depend_on_batches_or_tasks() -> None:
    stores = []
    for size, parallelism in itertools.product((1_000, 200, 33), (1, 3)):
        harness = OperatorHarness(reduced(every=45, live_from=600), {"s": SCHEMA})
        harness.keep = 0.4
        harness.push("s", data(700, seed=16))
        with small_tasks():
            answers = harness.run(parallelism, rows=size)
        harness.restart()
        stores.append(harness.store())
        newest = {row[1]: row[2:] for row in told(answers)}
        assert {row[1]: row[2:] for row in told(stores[-1])} == newest  # live rows are all read: what is told stays so
    assert all(same(store, stores[0]) for store in stores)
    assert stores[0] is not None
    assert stores[0].num_rows == 3


def test_estimates_are_of_all_groups_until_live_rows_are_counted() -> None:
    keys = pa.array(["a"] * 150 + ["b"] * 150)
    table = data(300, seed=17).set_column(0, "k", keys)
    groups = {}
    for live_from in (300, 150, 100):
        harness = OperatorHarness(reduced(every=100, live_from=live_from), {"s": SCHEMA})
        harness.keep = 0.5
        harness.push("s", table)
        answers = told(harness.step())
        groups[live_from] = {row[1] for row in answers if row[0] == answers[-1][0]}
    assert groups == {300: {"a", "b"}, 150: {"b"}, 100: {"b"}}


@pytest.mark.parametrize("reducer", [None, ("uniform", (0.5,))])
def test_totals_of_version_0_1_go_on(reducer: Any) -> None:
    """They do not say when the newest row of a group came."""
    harness = OperatorHarness(query(since=0, reducer=reducer, live_from=50), {"s": SCHEMA})
    table = data(300, seed=18)
    harness.push("s", table.slice(0, 200))
    harness.step()
    files = StateFiles(str(harness.scratch), "landmark", "")
    (state,) = files.load("200") or []
    kept = {
        name: _as_before(content) for name, content in state.tables.items() if name not in ("changed", "shown closed")
    }
    facts = {name: fact for name, fact in state.facts.items() if name in ("open", "start", "begin", "keep", "apart")}
    for file in harness.scratch.glob("landmark-200-*"):
        file.unlink()
    files.save("200", "0", 0, 1, SavedState(kept, facts))
    reached = harness.offsets["s"].time
    harness.push("s", later(table, 200, reached).slice(200))
    harness.advance("s", 10_000)
    harness.step()
    wanted = Since(0, 100).store(rows_of(later(table, 200, reached)), 10_000)
    assert told(harness.store()) == wanted
    assert newest_of_each(told(harness.answers())) == [row[1:] for row in wanted]


def _as_before(table: pa.Table) -> pa.Table:
    if table.schema != PACKED:
        return table.drop_columns(table.column_names[-2:])
    sums = Sums.from_table(table)
    return replace(
        sums,
        functions=sums.functions[:-1],
        powers=sums.powers[:-1],
        extremes=sums.extremes[:-1],
        ends=sums.ends[:-1],
        whole_numbers=sums.whole_numbers[:-1],
    ).to_table()


@pytest.mark.parametrize("cut", [1, 7, 100])
def test_every_change_is_told_though_the_pace_changes(cut: int) -> None:
    """What was left out in one pace comes with the next answer, whatever pace that is."""
    chance = random.Random(cut)
    harness = OperatorHarness(query(since=0, every=20), {"s": SCHEMA})
    table = data(200, seed=cut)
    for at in range(0, 200, cut):
        harness.every = chance.choice([1, 2, 4, 8])
        harness.push("s", table.slice(at, cut))
        harness.step()
        harness.replay()
        if chance.random() < 0.5:
            harness.restart()
    harness.every = 1
    harness.advance("s", 20_000)
    harness.step()
    assert newest_of_each(told(harness.answers())) == [row[1:] for row in Since(0, 20).store(rows_of(table), 20_000)]
    assert told(harness.store()) == Since(0, 20).store(rows_of(table), 20_000)


def test_nothing_is_answered_before_the_first_row() -> None:
    harness = OperatorHarness(query(since=-(10**15), every=1), {"s": SCHEMA})
    harness.advance("s", 10**15)
    assert harness.step().num_rows == 0
    harness.push("s", data(3, begin=10**15 + 5))
    harness.advance("s", 10**15 + 30)
    assert told(harness.step())[0][0] > 10**15 + 5


@pytest.mark.slow
def test_doubles_are_the_same_to_the_last_bit_however_rows_are_cut() -> None:
    table = data(900, seed=2)
    operator = query(aggregates=(("t", "sum", "d"), ("x", "stddev", "d")), columns=(("k", "k"), ("t", "t"), ("x", "x")))
    answers = []
    for size, parallelism in itertools.product((11, 129, 1_000), (1, 3)):
        harness = OperatorHarness(operator, {"s": SCHEMA})
        harness.push("s", table)
        with small_tasks():
            answers.append(harness.run(parallelism, rows=size))
    assert all(same(answer, answers[0]) for answer in answers)
    tasks = operator.plan(
        {"s": Offset()}, {"s": harness.offsets["s"]}, Inputs({"s": harness._logs["s"].worker()}, gathers=True), 3
    )
    assert len(tasks) == 1
    with small_tasks():
        tasks = operator.plan(
            {"s": Offset()}, {"s": harness.offsets["s"]}, Inputs({"s": harness._logs["s"].worker()}, gathers=True), 3
        )
    assert len(tasks) == 3


def test_state_that_is_lost_is_counted_again() -> None:
    table = data(500, seed=3)
    harness = OperatorHarness(_NeedsAll(**vars(query())), {"s": SCHEMA})
    harness.push("s", table)
    for _ in range(6):
        harness.step(rows=60)
        for file in harness.scratch.rglob("landmark-*"):
            file.unlink()
    harness.run()
    assert told(harness.answers()) == Since(300, 100).answers(rows_of(table), harness.offsets["s"].time)


class _NeedsAll(Landmark):
    """As after the loss of the state of an archived stream: the log has all rows."""

    def needs(self, at: Any) -> Any:
        return {"s": super().needs(at)["s"]._replace(row=0)}


def test_totals_that_are_lost_with_rows_that_counted_are_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = MemoryLog(SCHEMA)
    log.append(data(300))
    operator = query()
    start, end = {"s": log.offset(200)}, {"s": log.offset()}
    counted = log.row_at_time(operator.since, 200)
    for gone in (counted - 1, counted, 200):
        monkeypatch.setattr(log, "first_row", lambda gone=gone: gone)
        run_once = functools.partial(run_unguarded, operator, Inputs({"s": log}, str(tmp_path)), start, end)
        if gone < counted:
            assert run_once().num_rows
        else:
            with pytest.raises(QueryError, match="TOTALS_LOST"):
                run_once()


def run_unguarded(operator: Landmark, inputs: Inputs, start: dict[str, Offset], end: dict[str, Offset]) -> pa.Table:
    tasks = operator.plan(start, end, inputs, 1)
    return pa.Table.from_batches([batch for task in tasks for batch in operator.run(task, inputs)])


def test_parts_of_batches_that_began_elsewhere_are_not_one_state(tmp_path: Any) -> None:
    """A batch is cut into tasks by where it begins, so of two batches that end together no parts fit."""
    table, log = data(600), MemoryLog(SCHEMA)
    log.append(table)
    operator, inputs = query(since=0), Inputs({"s": log}, str(tmp_path))
    with small_tasks(rows=10):
        for begin in (0, 256):
            start, end = {"s": log.offset(begin)}, {"s": log.offset(512)}
            run_batch(operator, inputs, {"s": Offset()}, start, 1)
            tasks = operator.plan(start, end, replace(inputs, gathers=True), 2)
            assert len(tasks) == 2
            for task in tasks if begin == 0 else tasks[:1]:  # the second time it is killed before the last task
                list(operator.run(task, replace(inputs, gathers=True)))
    found = run_unguarded(operator, inputs, {"s": log.offset(512)}, {"s": log.offset()})
    wanted = Since(0, 100, None).answers(rows_of(table), log.offset().time)
    assert told(found) == [row for row in wanted if row[0] > log.offset(512).time]


def test_begins_with_the_first_row_that_counts() -> None:
    log = MemoryLog(SCHEMA)
    log.append(data(100))
    times = log.read(0, 100, ["ts"]).column(0).cast(pa.int64()).to_pylist()
    assert query().beginning(Inputs({"s": log}))["s"] == Offset(sum(t < 300 for t in times))
    assert query(since=10**9).beginning(Inputs({"s": log}))["s"] == Offset(100)


def test_aggregates_that_need_all_values_are_refused() -> None:
    inputs = Inputs({"s": MemoryLog(SCHEMA)})
    with pytest.raises(QueryError, match="AGGREGATE_NOT_AVAILABLE median needs all values"):
        query(aggregates=(("m", "median", "v"),), columns=(("m", "m"),)).schema(inputs)
    with pytest.raises(QueryError, match="NOT_ON_REDUCED_DATA nothing can be said about stddev"):
        query(aggregates=(("m", "stddev", "v"),), columns=(("m", "m"),), reducer=("uniform", (0.5,))).schema(inputs)


# -- in part -------------------------------------------------------------------------------------


class Drawn(MemoryLog):
    """A log whose lots are drawn with another seed, in pieces of some rows."""

    drawn_with = 0
    piece_rows = 1_000_000

    @property
    def seed(self) -> int:
        return self.drawn_with

    def read_sample(
        self, start: int, end: int, columns: list[str], keep: float, by: str | None = None, again: bool = False
    ) -> pa.Table:
        if by is None:
            return super().read_sample(start, end, columns, keep)
        rows = self.read(start, end)
        numbers = pa.array(np.arange(start, start + rows.num_rows))
        chosen = kept(key_lots(rows.column(by), self.seed), keep)
        return rows.select(columns).add_column(0, "_row", numbers).filter(pa.array(chosen))

    def pieces(self, start: int, end: int) -> list[Piece]:
        cuts = [start, *range((start // self.piece_rows + 1) * self.piece_rows, end, self.piece_rows), end]
        return [piece for a, b in itertools.pairwise(cuts) for piece in super(Drawn, self).pieces(a, b)]


def reduced(**more: Any) -> Landmark:
    return query(**{"reducer": ("uniform", (0.5,)), "since": 0, "live_from": 600, **more})


def in_batches(operator: Landmark, log: MemoryLog, ends: list[Offset], parallelism: int, folder: Any) -> pa.Table:
    forget_all()
    inputs = Inputs({"s": log}, str(folder))
    batches = itertools.pairwise([Offset(), *ends])
    tables = [run_batch(operator, inputs, {"s": a}, {"s": b}, parallelism) for a, b in batches]
    return pa.concat_tables(tables)


@pytest.mark.slow
@pytest.mark.parametrize("key", ["k", None])
@pytest.mark.parametrize("every", [100, 37, 5_000])
def test_estimates_are_those_of_strata(key: str | None, every: int, tmp_path: Any) -> None:
    table = data(1_000, seed=5)
    log = Drawn(SCHEMA)
    log.append(table)
    keys = (("k", "k"),) if key else ()
    columns = (*keys, ("n", "n"), ("s", "s"))
    operator = reduced(keys=keys, columns=columns, every=every, since=50, filter="v < 40", live_from=640)
    answer = in_batches(operator, log, [log.offset()._replace(time=5_000, keep=0.8)], 1, tmp_path)
    rows = rows_of(table)
    read = kept(lots_between(0, 1_000, 0), 0.8) | (np.arange(1_000) >= 640)
    first = sum(row["ts"] < 50 for row in rows)
    assert answer.num_rows > 0
    for got in rows_of(answer, "_time"):
        sample = [(i, row) for i, row in enumerate(rows) if read[i] and 50 <= row["ts"] < got["_time"]]

        def value(row: Any, group: Any, one: bool) -> float:
            counts = row["v"] is not None and row["v"] < 40 and (not key or row["k"] == group)
            return float(counts and (1 if one else row["v"]))

        for name in ("n", "s"):
            numbers = [(i, value(row, got.get("k"), name == "n")) for i, row in sample]
            assert got[name] == pytest.approx(estimated_total(numbers, first, 64, 0.8, 640))
            past = {v for i, row in sample if i < 640 and (v := value(row, got.get("k"), False))}
            if name == "n" or len(past) > 1:
                assert got[f"{name}_low"] <= got[name] <= got[f"{name}_high"]
        assert 0.7 < got["_fraction"] < 1


@pytest.mark.slow
@pytest.mark.parametrize("reducer", [("uniform", (0.5,)), ("by_key", ("v", 0.5))])
def test_answers_do_not_depend_on_batches_or_tasks(reducer: Any, tmp_path: Any) -> None:
    table = data(1_000, seed=6)
    log = Drawn(SCHEMA)
    log.append(table)
    operator = reduced(reducer=reducer, every=45)
    answers = []
    ways = itertools.product(
        ([], [128, 600], [1, 63, 64, 65, 300, 599, 601, 900], [*range(20, 1_000, 20)]), (1, 3)
    )  # fmt: skip
    for number, (cuts, parallelism) in enumerate(sampled(ways, 4, str(reducer))):
        ends = [log.offset(row)._replace(keep=0.4) for row in [*cuts, 1_000]]
        with small_tasks():
            answers.append(in_batches(operator, log, ends, parallelism, tmp_path / str(number)))
    assert answers[0].num_rows > 30
    assert all(same(answer, answers[0]) for answer in answers)


@pytest.mark.slow
def test_reduced_with_restarts_and_replays() -> None:
    operator = reduced()
    harness = OperatorHarness(operator, {"s": SCHEMA})
    harness.keep = 0.3
    harness.push("s", data(900, seed=7))
    for _ in range(11):
        harness.step(rows=70)
        harness.replay()
        harness.restart()
        harness.replay()
        harness.forget()
    harness.run()
    whole = OperatorHarness(operator, {"s": SCHEMA})
    whole.keep = 0.3
    whole.push("s", data(900, seed=7))
    assert same(harness.answers(), whole.step())


@pytest.mark.slow
def test_fractions_may_change_from_batch_to_batch(tmp_path: Any) -> None:
    """Unfiltered counts are exact once live rows come, whatever was read, and bounds are around all else."""
    table = data(1_000, seed=8)
    log = Drawn(SCHEMA)
    log.append(table)
    columns = (("n", "n"), ("s", "s"))
    operator = reduced(keys=(), columns=columns, every=50)
    for number, keeps in enumerate(
        [[0.5, 0.5, 0.5, 1.0], [0.9, 0.1, 0.01, 0.5], [0.2, 1.0, 0.2, 0.2], [0.0, 0.6, 0.0, 0.0]]
    ):
        cuts = [150, 333, 610, 1_000]
        ends = [log.offset(row)._replace(keep=keep) for row, keep in zip(cuts, keeps, strict=True)]
        for parallelism in (1, 2):
            with small_tasks():
                answer = in_batches(operator, log, ends, parallelism, tmp_path / f"{number} {parallelism}")
            rows, live = rows_of(table), log.offset(601).time
            for got in rows_of(answer, "_time"):
                if got["_time"] > live:
                    assert got["n"] == got["n_low"] == got["n_high"] == sum(row["ts"] < got["_time"] for row in rows)


def test_all_of_history_gives_no_room_for_error(tmp_path: Any) -> None:
    table = data(800, seed=9)
    log = Drawn(SCHEMA)
    log.append(table)
    answer = in_batches(reduced(), log, [log.offset()], 1, tmp_path)
    wanted = Since(0, 100).answers(rows_of(table), log.offset().time)
    assert told(answer) == wanted
    assert answer.column("s").to_pylist() == answer.column("s_low").to_pylist() == answer.column("s_high").to_pylist()
    assert set(answer.column("_fraction").to_pylist()) == {1.0}


@pytest.mark.slow
def test_many_strata_are_taken_together(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (strata, part_totals, exact_totals, landmark):
        monkeypatch.setattr(module, "STRATUM", 16)
    table = data(6_000, seed=10)
    log = Drawn(SCHEMA)
    log.append(table)
    operator = reduced(live_from=6_000, every=500)
    ends = [log.offset(row)._replace(keep=0.5) for row in range(500, 6_001, 500)]
    answer = in_batches(operator, log, ends, 1, tmp_path / "many")
    assert same(answer, in_batches(operator, log, ends[-1:], 1, tmp_path / "one"))
    largest = max(file.stat().st_size for file in (tmp_path / "many").rglob("landmark-*"))
    assert largest < 64 * 3 * 6 * 8 * 12


def test_age_reads_old_history_less(tmp_path: Any) -> None:
    table = data(4_000, seed=11)
    log = Drawn(SCHEMA)
    log.append(table)
    log.piece_rows = 500
    operator = reduced(reducer=("age", (4_000,)), live_from=3_500, every=1_000, keys=(), columns=(("s", "s"),))
    rows: list[int] = []
    for number, cuts in enumerate(([], [1_000, 2_000, 3_500])):
        inputs = Inputs({"s": log}, str(tmp_path / str(number)))
        offsets = [Offset(), *(log.offset(row) for row in [*cuts, 4_000])]
        answers = [run_batch(operator, inputs, {"s": a}, {"s": b}, 1) for a, b in itertools.pairwise(offsets)]
        rows.append(inputs.work.rows_read)
        fractions = pa.concat_tables(answers).column("_fraction").to_pylist()
        assert fractions[0] < 0.5 < fractions[-1] < 1
    assert rows[0] == rows[1] < 3_000


# -- bounds --------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("reducer", "keep"), [(("uniform", (0.8,)), 0.2), (("by_key", ("k", 0.7)), 0.3)])
def test_bounds_hold_the_truth(reducer: Any, keep: float, tmp_path: Any) -> None:
    chance = np.random.default_rng(12)
    held = {"n": 0, "s": 0, "a": 0}
    trials = asked = 0
    count, cars = 3_000, 400
    for trial in range(100):
        log = Drawn(SCHEMA)
        log.drawn_with = trial + 1
        values = np.exp(chance.normal(0, 0.7, count)) * (1 + np.arange(count) / count)
        ok = chance.random(count) < 0.3
        log.append(
            {
                "k": [f"car {i}" for i in chance.integers(0, cars, count)],
                "v": pa.array(ok.astype(np.int32)),
                "d": values,
                "ts": pa.array(np.arange(count) * 10).cast(TIME_TYPE),
            }
        )
        aggregates = (("n", "count", None), ("s", "sum", "d"), ("a", "avg", "d"))
        columns = tuple((name, name) for name, _, _ in aggregates)
        operator = Landmark(
            "s", 0, (), aggregates, columns, "_time", 10_000, "v = 1", None, reducer, live_from=count, confidence=0.95
        )
        end = log.offset()._replace(keep=keep, time=30_000)
        for got in rows_of(in_batches(operator, log, [end], 1, tmp_path / str(trial)), "_time"):
            mine = ok & (np.arange(count) * 10 < got["_time"])
            truth = {"n": mine.sum(), "s": values[mine].sum(), "a": values[mine].mean()}
            trials += 1
            if got["s_low"] is None:  # a key or row that happens to look far larger than the others
                continue
            for name, value in truth.items():
                held[name] += got[f"{name}_low"] <= value <= got[f"{name}_high"]
            asked += 1
    assert trials == 300
    assert asked >= 290
    for name, times in held.items():
        assert times / asked >= 0.91, f"{name}: {times} of {asked}"
        assert times / asked < 1, f"{name}: bounds that never miss are too wide"


def spiked(chance: np.random.Generator, count: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Values of 0 to 1, five of which are larger by a million."""
    values = chance.random(count)
    values[chance.choice(count, 5, replace=False)] += 1e6
    return values


@pytest.mark.slow
def test_bounds_hold_where_few_rows_carry_the_sum(tmp_path: Any) -> None:
    """Of five rows with nearly all of the sum, a tenth of history has most often none."""
    chance = np.random.default_rng(13)
    count, held, narrow = 3_000, 0, 0
    for trial in range(60):
        log = Drawn(SCHEMA)
        log.drawn_with = trial + 1
        values = spiked(chance, count)
        times = pa.array(np.arange(count) * 10).cast(TIME_TYPE)
        log.append({"k": ["a"] * count, "v": pa.array(np.ones(count, np.int32)), "d": values, "ts": times})
        columns = (("s", "s"), ("a", "a"))
        operator = Landmark(
            "s", 0, (), (("s", "sum", "d"), ("a", "avg", "d")), columns, "_time", 30_000,
            reducer=("uniform", (0.9,)), live_from=count,
        )  # fmt: skip
        cuts = [log.offset(700), log.offset(2_500), log.offset()._replace(time=30_000)]
        ends = [end._replace(keep=0.1) for end in cuts]
        (got,) = rows_of(in_batches(operator, log, ends, 1, tmp_path / str(trial)), "_time")
        assert got["s_low"] is not None
        held += got["s_low"] <= values.sum() <= got["s_high"]
        narrow += got["s_high"] - got["s_low"] < 0.001 * values.sum()
    assert held >= 54
    assert narrow == 60


@pytest.mark.slow
@pytest.mark.parametrize("reducer", [("uniform", (0.5,)), ("by_key", ("v", 0.5))])
def test_rows_that_lie_far_out_are_counted_once_however_rows_are_cut(reducer: Any, tmp_path: Any) -> None:
    table = data(1_000, seed=14)
    values = spiked(np.random.default_rng(15), 1_000)
    log = Drawn(SCHEMA)
    log.append(table.set_column(2, "d", pa.array(values)))
    operator = reduced(
        reducer=reducer, every=45, aggregates=(("s", "sum", "d"), ("n", "count", None)),
        columns=(("s", "s"), ("n", "n")), keys=(), filter="d > 1000",
    )  # fmt: skip
    answers = []
    for number, (cuts, parallelism) in enumerate(
        itertools.product(([], [65, 599, 600, 601], [*range(20, 1_000, 20)]), (1, 3))
    ):
        ends = [log.offset(row)._replace(keep=0.4) for row in [*cuts, 1_000]]
        with small_tasks():
            answers.append(in_batches(operator, log, ends, parallelism, tmp_path / str(number)))
    assert all(same(answer, answers[0]) for answer in answers)
    *_, last = rows_of(answers[0], "_time")
    assert last["s"] == pytest.approx(values[values > 1_000].sum())
    assert last["n"] == 5
