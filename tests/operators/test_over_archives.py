"""Queries over live and past rows on real archives: the same answers as over a log that forgets nothing."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from anabranch.operators.base import HistoryLog, Inputs, Offset, Operator
from anabranch.operators.history import slices
from anabranch.operators.history.join import HistoryJoin
from anabranch.operators.history.join_aggregate import HistoryJoinAggregate
from anabranch.operators.history.landmark import Landmark
from anabranch.operators.live import forget_all
from anabranch.schema import StreamSchema
from anabranch.testing.harness import run_batch, same
from tests.archive.life import BASE_US, COLUMNS, LAYOUTS, SEED, Life
from tests.archive.test_facts import Spiky
from tests.operators.test_landmark import Drawn

ROWS = 12_000


def since(**more: Any) -> Landmark:
    aggregates = (("n", "count", None), ("total", "sum", "v"), ("mean", "avg", "d"))
    columns = (("k", "k"), *((name, name) for name, _, _ in aggregates))
    return Landmark(
        "s", BASE_US + 1_001, (("k", "k"),), aggregates, columns, "_time", 3_000,
        filter="v > 200", live_from=9_000, **more,
    )  # fmt: skip


def seen(**more: Any) -> HistoryJoin:
    columns = (("k", "k"), ("n", "_portions"), ("rows", "_matches"), ("ts", "ts"))
    return HistoryJoin("s", "c", "s", (("k", "k"), ("v", "v")), 4_000, 2, 900, "any", columns, "ts", **more)


KEPT = ("by_key", ("k", 0.5))
COUNTED = (("n", "count", None), ("mean", "avg", "v"))
OPERATORS: dict[str, Operator] = {
    "landmark": since(),
    "landmark_in_part": since(reducer=("uniform", (0.6,))),
    "landmark_kept_whole": since(reducer=KEPT),
    "join": seen(),
    "join_kept_whole": seen(reducer=KEPT),
    "counts": HistoryJoinAggregate(seen(), 1_000, (), COUNTED, (("n", "n"), ("mean", "mean")), "_time"),
    "counts_kept_whole": HistoryJoinAggregate(seen(reducer=KEPT), 1_000, (), COUNTED, (("n", "n"),), "_time"),
}


@pytest.fixture(scope="module", params=LAYOUTS)
def life(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Life:
    """A stream of which most rows are only in its archive."""
    layout = request.param
    life = Life(tmp_path_factory.mktemp("life") / layout, {layout: LAYOUTS[layout]}, run_rows=2_500)
    for _ in range(8):
        life.push(ROWS // 8)
        life.archivers[layout].append(all_rows=False)
    assert 0 < life.reader().first_logged_row() < ROWS
    return life


@pytest.mark.slow
@pytest.mark.parametrize("name", OPERATORS)
def test_answers_are_those_of_a_log_with_all_rows(
    name: str, life: Life, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slices, "AHEAD", 700)
    operator = OPERATORS[name]
    log = Drawn(StreamSchema.of(COLUMNS, time="ts"))
    log.drawn_with = SEED
    log.append(life.rows(0, ROWS))
    ends = [log.offset(row)._replace(keep=0.4) for row in (1, 4_000, 4_100, 8_999, 9_500, ROWS)]
    answers = []
    readers: list[HistoryLog] = [log, life.reader()]
    for number, reader in enumerate(readers):
        forget_all()
        inputs = Inputs({"s": reader}, str(tmp_path / str(number)))
        batches = itertools.pairwise([Offset(), *ends])
        answers.append([run_batch(operator, inputs, {"s": a}, {"s": b}, 1) for a, b in batches])
    for wanted, got in zip(*answers, strict=True):
        assert same(got, wanted)
    assert sum(answer.num_rows for answer in answers[0]) > 5


@pytest.mark.slow
@pytest.mark.parametrize("name", ["landmark_in_part", "join_kept_whole"])
def test_reduced_queries_read_less(name: str, tmp_path: Path) -> None:
    """Periods end anywhere in a run, and where that is costs nothing to find out."""
    layout = "by_key" if name == "join_kept_whole" else "randomize"
    life = Life(tmp_path / "s", {layout: LAYOUTS[layout]}, run_rows=20_000)
    for _ in range(8):
        life.push(20_000)
        life.archivers[layout].append(all_rows=False)
    reads = []
    for keep in (1.0, 0.1):
        forget_all()
        reader = life.reader()
        inputs = Inputs({"s": reader}, str(tmp_path / str(keep)))
        operator = OPERATORS[name]
        start, end = Offset(), Offset.at(reader.end())._replace(keep=keep)
        if isinstance(operator, Landmark):
            operator = replace(operator, live_from=end.row)
        elif isinstance(operator, HistoryJoin):
            # Live rows are not reduced: here all of them are in the log.
            operator = replace(operator, period=100_000, portions=1)
            start = Offset.at(reader.offset_at(reader.first_logged_row() + 1, end.place))
        before = reader.archive_bytes_read
        run_batch(operator, inputs, {"s": start}, {"s": end}, 1)
        reads.append(reader.archive_bytes_read - before)
    assert 0 < reads[1] < 0.35 * reads[0]
    life.close()


@pytest.mark.slow
def test_runs_that_are_joined_change_no_answer(tmp_path: Path) -> None:
    """Other rows lie far out in a run made of several: a query keeps to those that did when it first looked."""
    life = Spiky(tmp_path / "s", {"randomize": LAYOUTS["randomize"]}, run_rows=8_000)
    for _ in range(8):
        life.write(1_000)
        life.archivers["randomize"].append()
    values = life.rows(0, 8_000).column("d").to_numpy()
    operator = Landmark(
        "s", BASE_US, (), (("s", "sum", "d"), ("n", "count", None)), (("s", "s"), ("n", "n")), "_time", 2_000,
        filter="abs(d) < 1e300", live_from=8_000, reducer=("uniform", (0.95,)),
    )  # fmt: skip
    end = life.reader().end()
    ends = [Offset.at(life.reader().offset_at(row, end))._replace(keep=0.05) for row in (3_000, 8_000)]
    batches = list(itertools.pairwise([Offset(), *ends]))

    def answered(folder: str, meanwhile: Callable[[], object]) -> list[pa.Table]:
        answers = []
        for start, upto in batches:
            forget_all()
            inputs = Inputs({"s": life.reader()}, str(tmp_path / folder))
            answers.append(run_batch(operator, inputs, {"s": start}, {"s": upto}, 2))
            meanwhile()
        forget_all()
        again = run_batch(operator, inputs, {"s": batches[-1][0]}, {"s": batches[-1][1]}, 2)
        assert same(again, answers[-1])
        return answers

    before = answered("before", lambda: None)
    far = set(life.reader().aside(0, 8_000, ["d"], 0.05).rows.column("_row").to_pylist())
    joined = answered("joined", lambda: life.archivers["randomize"].join_runs(least=2))
    assert len(life.reader().archives[0].runs) == 1
    assert set(life.reader().aside(0, 8_000, ["d"], 0.05).rows.column("_row").to_pylist()) != far
    assert all(same(one, other) for one, other in zip(before, joined, strict=True))
    last = joined[-1].to_pylist()[-1]
    shown = values[np.isfinite(values)][: int(last["n"])]
    assert last["s_low"] is not None
    assert last["s_high"] - last["s_low"] < 1e-3 * np.abs(shown).max()
    life.close()
