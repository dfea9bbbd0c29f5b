"""Questions to archives read as little as the error allows, as much as the time allows, and say what they did."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from anabranch.archive.estimation.sums import Sums
from anabranch.archive.reducers import Spec
from anabranch.operators.archive.aggregate import ArchiveAggregate
from anabranch.operators.archive.question import Answer, answer
from anabranch.operators.base import Inputs
from anabranch.schema import StreamSchema
from anabranch.testing import MemoryLog

SCHEMA = StreamSchema.of({"kind": "STRING", "size": "DOUBLE", "ts": "TIMESTAMP"}, time="ts")
ROWS = 300_000


@dataclass(frozen=True)
class Asked:
    """A question as SQL would ask it."""

    keys: tuple[tuple[str, str], ...] = ()
    aggregates: tuple[tuple[str, str, str | None], ...] = (
        ("n", "count", None),
        ("total", "sum", "size"),
        ("mean", "avg", "size"),
    )
    columns: tuple[tuple[str, str], ...] = (("n", "n"), ("total", "total"), ("mean", "mean"))
    filter: str | None = None
    order: tuple[tuple[str, bool, bool], ...] = ()
    limit: int | None = None
    reducer: Spec | None = None
    error: float | None = None
    within: int | None = None
    confidence: float = 0.95
    stream: str = "s"
    archive: str | None = None
    since: int | None = None
    until: int | None = None


class Seeded(MemoryLog):
    """A log whose lots can be drawn anew."""

    def __init__(self) -> None:
        super().__init__(SCHEMA)
        self.drawn_with = 0

    @property
    def seed(self) -> int:
        return self.drawn_with


class Reading:
    """Runs what a question wants to be run, and writes it down."""

    def __init__(self, log: MemoryLog, seconds: Callable[[float], float] = lambda keep: 0.0) -> None:
        self.log = log
        self.now = 0.0
        self.asked: list[ArchiveAggregate] = []
        self._seconds = seconds

    def __call__(self, operator: ArchiveAggregate) -> Sums:
        self.asked.append(operator)
        self.now += self._seconds(operator.keep)
        inputs = Inputs({"s": self.log})
        tasks = operator.plan({"s": self.log.offset(0)}, {"s": self.log.offset()}, inputs, 2)
        return Sums.from_table(pa.Table.from_batches([b for t in tasks for b in operator.run(t, inputs)]))

    def answer(self, question: Asked) -> Answer:
        return answer(question, self, self.log.offset().row, lambda: self.now)


@pytest.fixture(scope="module")
def log() -> Seeded:
    random = np.random.default_rng(11)
    found = Seeded()
    kinds = random.choice(["big", "middle", "rare"], ROWS, p=[0.7, 0.2995, 0.0005])
    found.append(
        pa.table(
            {
                "kind": pa.array(kinds),
                "size": pa.array(random.lognormal(1, 0.8, ROWS)),
                "ts": pa.array(np.arange(ROWS), pa.timestamp("us", "UTC")),
            }
        )
    )
    return found


def sizes(log: MemoryLog, *kinds: str) -> Any:
    rows = log.read(0, ROWS)
    chosen = np.isin(np.array(rows.column("kind").to_pylist()), kinds or ["big", "middle", "rare"])
    return rows.column("size").to_numpy()[chosen]


# -- WITH ERROR ----------------------------------------------------------------------------------


def test_an_easy_question_is_answered_by_its_pilot(log: Seeded) -> None:
    reading = Reading(log)
    found = reading.answer(Asked(error=3))
    assert len(found.rounds) == 1
    row = found.table.to_pylist()[0]
    assert 19_000 < found.rounds[0].rows_read < 21_000 + ROWS // 128  # with those that lie far out
    assert list(row) == ["n", "n_low", "n_high", "total", "total_low", "total_high", "mean", "mean_low", "mean_high",
                         "_met", "_fraction"]  # fmt: skip
    assert row["n"] == row["n_low"] == row["n_high"] == ROWS
    assert row["mean_low"] < sizes(log).mean() < row["mean_high"]
    assert row["_met"] is True
    assert row["_fraction"] == found.rounds[0].rows_read / ROWS


@pytest.mark.parametrize("error", [0.8, 0.5, 0.3])
def test_a_harder_question_reads_what_it_needs_and_not_much_more(log: Seeded, error: float) -> None:
    reading = Reading(log)
    found = reading.answer(Asked(error=error))
    assert 2 <= len(found.rounds) <= 3
    row = found.table.to_pylist()[0]
    assert row["_met"] is True
    for name in ("total", "mean"):
        assert (row[f"{name}_high"] - row[f"{name}_low"]) / 2 <= error / 100 * row[name]
    y = sizes(log)
    odds = (1.96 * y.std() / y.mean() / (error / 100)) ** 2 / ROWS
    # What lies far out is read in any case, and takes much of the variance with it.
    assert 0.7 * odds / (1 + odds) < row["_fraction"] < 1.5 * odds / (1 + odds)
    # Each pass reads on where the one before it ended.
    assert [op.above for op in reading.asked] == [0.0, *(op.keep for op in reading.asked[:-1])]


def test_an_error_that_cannot_be_met_ends_with_everything(log: Seeded) -> None:
    row = Reading(log).answer(Asked(error=0.001)).table.to_pylist()[0]
    assert row["_fraction"] == 1.0
    assert row["total"] == row["total_low"] == row["total_high"] == pytest.approx(sizes(log).sum(), rel=1e-12)


def test_small_groups_are_answered_and_do_not_force_a_full_read(log: Seeded) -> None:
    question = Asked(keys=(("kind", "kind"),), columns=(("what", "kind"), ("n", "n"), ("mean", "mean")), error=4)
    found = Reading(log).answer(question)
    rows = {row["what"]: row for row in found.table.to_pylist()}
    assert set(rows) == {"big", "middle", "rare"}
    assert found.rounds[-1].keep < 0.5
    assert {name: row["_met"] for name, row in rows.items()} == {"big": True, "middle": True, "rare": False}
    for kind, row in rows.items():
        assert row["n_low"] <= len(sizes(log, kind)) <= row["n_high"]


def test_a_filter_that_finds_nothing_at_first_is_read_on(log: Seeded) -> None:
    found = Reading(log).answer(Asked(filter="size > 1000000", error=5))
    row = found.table.to_pylist()[0]
    assert (row["n"], row["n_high"], row["total"], row["_fraction"]) == (0.0, 0.0, None, 1.0)
    assert len(found.rounds) > 2
    grouped = Asked(keys=(("kind", "kind"),), columns=(("kind", "kind"), ("n", "n")), filter="size > 1000000", error=5)
    assert Reading(log).answer(grouped).table.num_rows == 0


def test_what_has_no_two_bounds_is_read_in_full(log: Seeded) -> None:
    question = Asked(aggregates=(("top", "max", "size"),), columns=(("top", "top"),), error=5)
    row = Reading(log).answer(question).table.to_pylist()[0]
    assert row["top"] == row["top_low"] == row["top_high"] == sizes(log).max()
    assert row["_met"] is True


@pytest.mark.slow
def test_bounds_hold_though_the_reading_stops_when_they_are_narrow(log: Seeded) -> None:
    truth = {"n": float(len(sizes(log, "middle"))), "total": sizes(log, "middle").sum()}
    truth["mean"] = truth["total"] / truth["n"]
    question = Asked(filter="kind = 'middle'", error=2.2)
    hits, rounds, met = dict.fromkeys(truth, 0), [], 0
    for seed in range(100):
        log.drawn_with = seed
        found = Reading(log).answer(question)
        row = found.table.to_pylist()[0]
        rounds.append(len(found.rounds))
        met += row["_met"]
        for name, value in truth.items():
            hits[name] += row[f"{name}_low"] <= value <= row[f"{name}_high"]
    log.drawn_with = 0
    assert min(rounds) >= 1
    assert max(rounds) > 1
    assert met == 100
    assert min(hits.values()) >= 88, hits


def test_keys_can_be_kept_whole(log: Seeded) -> None:
    question = Asked(reducer=("by_key", ("size", 0.9)), error=1)
    reading = Reading(log)
    row = reading.answer(question).table.to_pylist()[0]
    assert {op.by for op in reading.asked} == {"size"}
    assert reading.asked[0].keep == pytest.approx(0.1)
    assert row["total_low"] <= sizes(log).sum() <= row["total_high"]


# -- WITHIN --------------------------------------------------------------------------------------


def test_as_much_is_read_as_time_allows(log: Seeded) -> None:
    reading = Reading(log, seconds=lambda keep: 0.1 + 2 * keep)  # the whole would take 2.1 s
    found = reading.answer(Asked(within=900_000))
    assert reading.now <= 0.9
    assert len(found.rounds) > 1
    assert 0.1 < found.rounds[-1].keep < 0.4
    row = found.table.to_pylist()[0]
    assert "_met" not in row
    assert row["_fraction"] == pytest.approx(found.rounds[-1].keep, rel=0.05)
    assert row["total_low"] < sizes(log).sum() < row["total_high"]


def test_with_time_enough_everything_is_read(log: Seeded) -> None:
    reading = Reading(log, seconds=lambda keep: keep / 100)
    found = reading.answer(Asked(within=1_000_000))
    assert found.rounds[-1].keep == 1.0
    assert found.table.column("_fraction").to_pylist() == [1.0]


def test_without_time_the_first_pass_is_the_answer(log: Seeded) -> None:
    reading = Reading(log, seconds=lambda keep: 3.0)
    found = reading.answer(Asked(within=500_000))
    assert len(found.rounds) == 1
    assert found.rounds[0].seconds == 3.0


# -- REDUCE BY -----------------------------------------------------------------------------------


def test_a_reducer_is_followed_in_one_pass(log: Seeded) -> None:
    for reducer, part in ((("uniform", (0.9,)), 0.1), (("age", (100_000,)), 0.5)):
        reading = Reading(log)
        found = reading.answer(Asked(reducer=reducer))
        assert len(reading.asked) == len(found.rounds) == 1
        row = found.table.to_pylist()[0]
        assert row["total_low"] <= sizes(log).sum() <= row["total_high"]
        assert row["_fraction"] == pytest.approx(found.rounds[0].keep, rel=0.05)
        assert row["_fraction"] <= max(part * 1.05, 0.1) or reducer[0] == "age"
    assert Reading(log).answer(Asked()).table.column("_fraction").to_pylist() == [1.0]


def test_columns_order_and_limit_are_those_of_the_question(log: Seeded) -> None:
    question = Asked(
        keys=(("kind", "kind"),),
        columns=(("many", "n"), ("what", "kind")),
        order=(("many", True, False),),
        limit=2,
        reducer=("uniform", (0.5,)),
    )
    table = Reading(log).answer(question).table
    assert table.column_names == ["many", "many_low", "many_high", "what", "_fraction"]
    assert table.column("what").to_pylist() == ["big", "middle"]


def test_confidence_decides_how_wide_bounds_are(log: Seeded) -> None:
    def width(confidence: float) -> float:
        row = Reading(log).answer(Asked(reducer=("uniform", (0.9,)), confidence=confidence)).table.to_pylist()[0]
        return float(row["total_high"] - row["total_low"])

    assert width(0.5) / 0.6745 == pytest.approx(width(0.95) / 1.96, rel=0.02)
    assert width(0.99) / 2.5758 == pytest.approx(width(0.95) / 1.96, rel=0.02)


def test_values_that_look_all_the_same_are_read_on_until_one_differs(log: Seeded) -> None:
    """Pilots that have no rare row must not be believed, nor that there is none before all was read."""
    tallest = float(np.sort(sizes(log))[-20])
    for least, truth in ((tallest, 20.0), (1e6, 0.0)):
        rare = (("total", "sum", f"CASE WHEN size >= {least!r} THEN 1 ELSE 0 END"),)
        found = Reading(log).answer(Asked(aggregates=rare, columns=(("total", "total"),), error=2))
        (row,) = found.table.to_pylist()
        assert row == {"total": truth, "total_low": truth, "total_high": truth, "_met": True, "_fraction": 1.0}
        assert len(found.rounds) > 2


# -- values of which few carry the sum -------------------------------------------------------------


def spiky(rows: int, part: float, seed: int) -> Seeded:
    """Rows of 0 to 1, some of them larger by a million."""
    random = np.random.default_rng(seed)
    found = Seeded()
    found.append(
        pa.table(
            {
                "kind": pa.array(random.choice(["a", "b"], rows)),
                "size": random.random(rows) + 1e6 * (random.random(rows) < part),
                "ts": pa.array(np.arange(rows), pa.timestamp("us", "UTC")),
            }
        )
    )
    return found


TOTAL = Asked(aggregates=(("total", "sum", "size"),), columns=(("total", "total"),))


@pytest.mark.slow
@pytest.mark.parametrize("filter_", [None, "kind = 'a'"])
@pytest.mark.parametrize("argument", ["size", "CASE WHEN kind = 'a' THEN size END", "2 * size - 1"])
def test_an_error_is_met_where_few_rows_carry_the_sum_and_never_by_luck(filter_: str | None, argument: str) -> None:
    log = spiky(400_000, 2e-5, 3)
    question = replace(TOTAL, aggregates=(("total", "sum", argument),), filter=filter_, error=5)
    truth = Reading(log).answer(replace(question, error=0.0001)).table["total"][0].as_py()
    assert truth > 1e6
    for seed in range(5):
        log.drawn_with = seed
        (row,) = Reading(log).answer(question).table.to_pylist()
        assert row["_met"] is True
        assert row["total"] == pytest.approx(truth, rel=0.05)
        assert row["_fraction"] < 0.2


def test_bounds_of_spikes_hold() -> None:
    log = spiky(20_000, 1e-3, 4)
    truth = log.read(0, 20_000).column("size").to_numpy().sum()
    held = 0
    for seed in range(60):
        log.drawn_with = seed
        (row,) = Reading(log).answer(replace(TOTAL, reducer=("uniform", (0.98,)))).table.to_pylist()
        held += row["total_low"] <= truth <= row["total_high"]
    assert held >= 52


def test_rows_that_lie_far_out_serve_expressions_of_which_no_range_is_known() -> None:
    log = spiky(20_000, 1e-3, 5)
    truth = np.sqrt(log.read(0, 20_000).column("size").to_numpy()).sum()
    held = 0
    for seed in range(40):
        log.drawn_with = seed
        question = replace(TOTAL, aggregates=(("total", "sum", "sqrt(size)"),), reducer=("uniform", (0.9,)))
        (row,) = Reading(log).answer(question).table.to_pylist()
        held += row["total_low"] <= truth <= row["total_high"]
    assert held >= 34


def test_a_pass_that_finds_other_rows_far_out_begins_anew() -> None:
    """Runs may be joined between two passes: then what lies far out in them may be other rows."""
    log = spiky(300_000, 2e-5, 6)
    passes: list[float] = []

    class Joined(Reading):
        def __call__(self, operator: ArchiveAggregate) -> Sums:
            passes.append(operator.above)
            found = super().__call__(operator)
            return found if len(passes) != 2 else replace(found, apart=found.apart + 1)

    truth = log.read(0, 300_000).column("size").to_numpy().sum()
    (row,) = Joined(log).answer(replace(TOTAL, error=0.0001)).table.to_pylist()
    assert passes[:3] == [0.0, passes[1], 0.0]
    assert passes[1] > 0
    assert row["total"] == pytest.approx(truth, rel=1e-12)
