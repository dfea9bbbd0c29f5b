"""Queries over live and past rows on real archives: the same answers as over a log that forgets nothing."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from anabranch.operators.base import HistoryLog, Inputs, Offset, Operator
from anabranch.operators.history import slices
from anabranch.operators.history_join import HistoryJoin
from anabranch.operators.history_join_aggregate import HistoryJoinAggregate
from anabranch.operators.landmark import Landmark
from anabranch.operators.live import forget_all
from anabranch.schema import StreamSchema
from anabranch.testing.harness import run_batch, same
from tests.archive.life import BASE_US, COLUMNS, LAYOUTS, SEED, Life
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
        start, end = Offset(), reader.end()._replace(keep=keep)
        if isinstance(operator, Landmark):
            operator = replace(operator, live_from=end.row)
        elif isinstance(operator, HistoryJoin):
            # Live rows are not reduced: here all of them are in the log.
            operator = replace(operator, period=100_000, portions=1)
            start = reader.offset_at(reader.first_logged_row() + 1, end)
        before = reader.archive_bytes_read
        run_batch(operator, inputs, {"s": start}, {"s": end}, 1)
        reads.append(reader.archive_bytes_read - before)
    assert 0 < reads[1] < 0.35 * reads[0]
    life.close()
