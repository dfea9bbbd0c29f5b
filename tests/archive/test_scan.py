"""Scans of history: every row once, or exactly those whose lot says so, whatever the pieces and tasks."""

from __future__ import annotations

import itertools
import json
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from anabranch.archive.estimation.estimates import Drawn, Sums, estimates, sums_of
from anabranch.archive.reduction import Reducer, Seen
from anabranch.errors import QueryError
from anabranch.kernels.hashing import hashes
from anabranch.kernels.sampling import kept, key_lots, lots_between
from anabranch.operators import operator_from_json
from anabranch.operators.archive import pieces as archive_pieces
from anabranch.operators.archive.aggregate import ArchiveAggregate
from anabranch.operators.archive.scan import ArchiveScan
from anabranch.operators.base import Inputs, Offset, Operator, Piece
from anabranch.schema import StreamSchema
from anabranch.testing import MemoryLog
from tests.archive.life import LAYOUTS, Life

SCHEMA = StreamSchema.of({"plate": "STRING", "speed": "DOUBLE", "lane": "INT", "ts": "TIMESTAMP"}, time="ts")
SECOND = 1_000_000
COLUMNS = (("plate", "plate"), ("fast", "speed * 2"), ("ts", "ts"))


class PiecesLog(MemoryLog):
    """A log whose rows lie in pieces; it writes down what is read."""

    def __init__(self, size: int) -> None:
        super().__init__(SCHEMA)
        self._size = size
        self.read_columns: set[str] = set()
        self.reads: list[tuple[int, int, float]] = []

    def pieces(self, start: int, end: int) -> list[Piece]:
        edges = [start, *range((start // self._size + 1) * self._size, end, self._size), end]
        return [super(PiecesLog, self).pieces(a, b)[0] for a, b in itertools.pairwise(edges) if a < b]

    def read_sample(
        self, start: int, end: int, columns: list[str], keep: float, by: str | None = None, again: bool = False
    ) -> pa.Table:
        self.read_columns |= set(columns)
        self.reads.append((start, end, keep))
        return super().read_sample(start, end, columns, keep, by, again)


def log_of(rows: int = 5000, size: int = 700) -> PiecesLog:
    random = np.random.default_rng(7)
    log = PiecesLog(size)
    log.append(
        pa.table(
            {
                "plate": pa.array([f"P{n}" for n in random.integers(0, 300, rows)]),
                "speed": pa.array(random.lognormal(4, 0.3, rows), mask=random.random(rows) < 0.05),
                "lane": pa.array(random.integers(0, 4, rows), pa.int32()),
                "ts": pa.array(np.arange(rows) * SECOND, pa.timestamp("us", "UTC")),
            }
        )
    )
    return log


def run(operator: Operator, log: Any, parallelism: int = 1, rows: int | None = None) -> pa.Table:
    (stream,) = operator.inputs
    inputs = Inputs({stream: log})
    operator = operator_from_json(json.loads(json.dumps(operator.to_json())))
    end = log.offset() if rows is None else Offset(rows, log.end().time)
    tasks = operator.plan({stream: Offset()}, {stream: end}, inputs, parallelism)
    assert len(tasks) <= parallelism
    batches = [b for task in tasks for b in operator.run(pickle.loads(pickle.dumps(task)), inputs)]
    schema = operator.schema(inputs)
    return operator.gather(pa.Table.from_batches(batches, schema))


def wanted(log: MemoryLog, numbers: Any) -> pa.Table:
    """What a scan gives of the rows with these numbers, by filtering everything."""
    rows = log.read(0, 10**9).take(pa.array(numbers))
    doubled = pa.array([None if v is None else v * 2 for v in rows.column("speed").to_pylist()], pa.float64())
    return pa.table({"plate": rows.column("plate"), "fast": doubled, "ts": rows.column("ts")})


@pytest.fixture(autouse=True)
def small_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_pieces, "BYTES_PER_TASK", 1000)
    monkeypatch.setattr(archive_pieces, "_ROWS_PER_READ", 300)


# -- rows ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("parallelism", [1, 3, 16])
@pytest.mark.parametrize("size", [1, 700, 100_000])
def test_a_full_scan_gives_every_row_once_in_order(parallelism: int, size: int) -> None:
    rows = 200 if size == 1 else 5000
    log = log_of(rows, size)
    answer = run(ArchiveScan("cars", COLUMNS, "ts"), log, parallelism)
    assert answer.equals(wanted(log, np.arange(rows)))
    assert log.read_columns == {"plate", "speed", "ts"}
    assert max(end - start for start, end, _ in log.reads) <= 450


@pytest.mark.parametrize("parallelism", [1, 4])
@pytest.mark.parametrize("size", [333, 100_000])
def test_a_reduced_scan_gives_the_rows_of_their_lots(parallelism: int, size: int) -> None:
    log = log_of(size=size)
    answer = run(ArchiveScan("cars", COLUMNS, "ts", reducer=("uniform", (0.7,))), log, parallelism)
    numbers = np.flatnonzero(kept(lots_between(0, 5000, 0), 1 - 0.7))
    assert answer.drop_columns(["_fraction"]).equals(wanted(log, numbers))
    assert set(answer.column("_fraction").to_pylist()) == {1 - 0.7}


def test_a_scan_by_key_keeps_whole_keys() -> None:
    log = log_of()
    answer = run(ArchiveScan("cars", COLUMNS, "ts", reducer=("by_key", ("plate", 0.8))), log, 3)
    numbers = np.flatnonzero(kept(key_lots(log.read(0, 5000).column("plate"), 0), 1 - 0.8))
    assert answer.drop_columns(["_fraction"]).equals(wanted(log, numbers))


def test_a_range_of_time_is_a_range_of_rows() -> None:
    log = log_of()
    scan = ArchiveScan("cars", COLUMNS, "ts", filter="lane = 2", since=100 * SECOND, until=4000 * SECOND)
    lanes = log.read(0, 5000).column("lane").to_numpy()
    assert run(scan, log, 3).equals(wanted(log, 100 + np.flatnonzero(lanes[100:4000] == 2)))
    assert min(start for start, _, _ in log.reads) == 100
    assert max(end for _, end, _ in log.reads) == 4000
    assert run(replace(scan, until=50 * SECOND), log).num_rows == 0
    assert run(replace(scan, since=None, until=None), MemoryLog(SCHEMA)).num_rows == 0


def test_age_reads_less_of_older_pieces() -> None:
    log = log_of()
    answer = run(ArchiveScan("cars", (("ts", "ts"),), "ts", reducer=("age", (1000 * SECOND,))), log, 4)
    fractions = answer.column("_fraction").to_numpy()
    assert np.all(np.diff(fractions) >= 0)
    assert (fractions[0], fractions[-1]) == (pytest.approx(2 ** -((4999 - 699) / 1000)), 1.0)
    assert answer.column("ts").cast(pa.int64()).to_numpy()[-99:].tolist() == [
        n * SECOND for n in range(4901, 5000)
    ]  # fmt: skip


class Tiring(Reducer):
    """Reads half as much of each next piece, and looks at what it read."""

    needs_rows = True
    told: ClassVar[list[tuple[int, int | None]]] = []

    def __init__(self) -> None:
        self._keep = 2.0

    def reduce(self, seen: Seen) -> float:
        Tiring.told.append((seen.rows_read, None if seen.rows is None else seen.rows.num_rows))
        self._keep /= 2
        return 1 - self._keep


def test_a_reducer_with_state_is_asked_as_the_scan_goes_on() -> None:
    log = log_of(2800)
    Tiring.told = []
    answer = run(ArchiveScan("cars", COLUMNS, "ts", reducer=(f"{__name__}:Tiring", ())), log, 8)
    keeps = [1.0, 0.5, 0.25, 0.125]
    numbers = np.concatenate(
        [700 * i + np.flatnonzero(kept(lots_between(700 * i, 700 * (i + 1), 0), keep)) for i, keep in enumerate(keeps)]
    )
    assert answer.drop_columns(["_fraction"]).equals(wanted(log, numbers))
    assert Tiring.told[0] == (0, None)
    assert Tiring.told[1] == (700, 700)
    in_all, last = Tiring.told[2]
    assert last is not None
    assert in_all == 700 + last


def test_a_reducer_that_wants_summaries_is_refused_here() -> None:
    with pytest.raises(QueryError, match="this read takes samples"):
        run(ArchiveScan("cars", COLUMNS, "ts", reducer=("every", (1000,))), log_of())


# -- sums ----------------------------------------------------------------------------------------


def aggregate(**fields: Any) -> ArchiveAggregate:
    aggregates = (
        ("n", "count", None), ("seen", "count", "plate"), ("total", "sum", "speed"), ("mean", "avg", "speed"),
        ("top", "max", "speed"), ("kinds", "count_distinct", "plate"),
    )  # fmt: skip
    named: dict[str, Any] = {"keys": (("lane", "lane"),), "aggregates": aggregates, "filter": "speed > 50", **fields}
    return ArchiveAggregate("cars", named.pop("since", None), named.pop("until", None), **named)


def answered(operator: ArchiveAggregate, log: MemoryLog, parallelism: int = 1) -> Any:
    sums = Sums.from_table(run(operator, log, parallelism))
    return estimates(sums, [function for _, function, _ in operator.aggregates])


def test_sums_of_everything_are_exact() -> None:
    log = log_of()
    found = answered(aggregate(), log, 3)
    rows = log.read(0, 5000)
    speed, lane = rows.column("speed").to_numpy(zero_copy_only=False), rows.column("lane").to_numpy()
    plates = np.array(rows.column("plate").to_pylist())
    for i, each in enumerate(found.groups[0].to_pylist()):
        inside = (lane == each) & (speed > 50)
        exact = [inside.sum(), inside.sum(), speed[inside].sum(), speed[inside].mean(), speed[inside].max()]
        for (value, low, high), true in zip(found.columns, [*exact, len(set(plates[inside]))], strict=True):
            assert value[i].as_py() == pytest.approx(true, rel=1e-12)
            assert value[i] == low[i] == high[i]
    assert (found.rows_read, found.rows_there) == (5000, 5000)
    assert log.read_columns == {"plate", "speed", "lane"}


@pytest.mark.parametrize("fields", [{}, {"by": "plate"}, {"keys": (("plate", "plate"),), "by": "plate"}, {"keys": ()}])
def test_sums_do_not_depend_on_pieces_and_tasks_and_can_be_continued(fields: dict[str, Any]) -> None:
    operator = aggregate(keep=0.4, since=10 * SECOND, until=4500 * SECOND, **fields)
    found = answered(operator, log_of(size=100_000))
    for size, parallelism in ((333, 1), (700, 4), (100_000, 8)):
        assert answered(operator, log_of(size=size), parallelism).columns == found.columns
    assert found.rows_there == 4490
    functions = [function for _, function, _ in operator.aggregates]
    sums = Sums.from_table(run(replace(operator, keep=0.1), log_of(), 2))
    more = Sums.from_table(run(replace(operator, above=0.1), log_of(), 3))
    both = estimates(sums.raised(0.4) + more, functions)
    assert both.columns == found.columns
    assert both.groups == found.groups
    assert (both.rows_read, both.rows_there) == (found.rows_read, found.rows_there)


@pytest.mark.slow
def test_sums_of_a_reducer_by_piece_hold_the_truth() -> None:
    log = log_of(60_000, 5000)
    truth = answered(aggregate(), log)
    for reducer in (("age", (5000 * SECOND,)), (f"{__name__}:Tiring", ())):
        found = answered(aggregate(reducer=reducer), log, 4)
        assert found.rows_there == 60_000
        assert found.rows_read < 30_000
        for (_, low, high), (true, _, _) in zip(found.columns[:4], truth.columns[:4], strict=True):
            held = (low.to_numpy() <= true.to_numpy()) & (true.to_numpy() <= high.to_numpy())
            assert held.sum() >= 3  # of 4 lanes


def test_nothing_there_is_counted_as_zero() -> None:
    sums = Sums.from_table(run(aggregate(keys=(), keep=0.1), MemoryLog(SCHEMA)))
    found = estimates(sums, ["count", "count", "sum", "avg", "max", "count_distinct"])
    assert [value.to_pylist() for value, _, _ in found.columns] == [[0.0], [0.0], [None], [None], [None], [0.0]]
    grouped = answered(aggregate(since=10**15), log_of())
    assert len(grouped.groups[0]) == 0


# -- archives --------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", list(LAYOUTS))
def test_every_layout_gives_the_same_rows_and_sums(name: str, tmp_path: Path) -> None:
    life = Life(tmp_path, {name: LAYOUTS[name]}, run_rows=2000)
    life.push(9000)
    life.archivers[name].append(all_rows=True)
    life.push(1500)
    reader = life.reader()
    times = life.times()
    scan = ArchiveScan("s", (("v", "v"), ("k", "k")), "ts", since=int(times[700]), until=int(times[9800]), archive=name)
    total = (("n", "count", None), ("total", "sum", "v"), ("mean", "avg", "v"))
    sums = ArchiveAggregate("s", scan.since, scan.until, (("k", "k"),), total, "d > 0", archive=name)
    low, high = reader.row_at_time(int(times[700]), life.end), reader.row_at_time(int(times[9800]), life.end)
    for keep, by in ((1.0, None), (0.35, None), (0.02, None), (0.35, "k")):
        reducer = ("by_key", ("k", 1 - keep)) if by else ("uniform", (1 - keep,)) if keep < 1 else None
        kept_part = 1.0 if reducer is None else 1 - (1 - keep)
        sample = life.sample(low, high, ["v", "k", "d"], kept_part, by)
        for parallelism in (1, 3):
            answer = run(replace(scan, reducer=reducer), reader, parallelism, life.end)
            assert answer.select(["v", "k"]).equals(sample.select(["v", "k"]))
            operator = replace(sums, keep=kept_part, by=by)
            found = Sums.from_table(run(operator, reader, parallelism, life.end))
            aside = reader.only(name).aside(low, high, ["v", "k", "d"], kept_part, by)
            assert not aside.rows.num_rows  # these rows are all alike, see test_facts for others
            wanted = sums_of(
                sample,
                Drawn(
                    low,
                    high,
                    kept_part,
                    by=None if by is None else hashes(sample.column("k")),
                    complete=by is not None and keep < 1,
                    ranges=[aside.ranges[column] for column in ("v", "v", "v")],
                ),
                [sample.column("k")],
                [None, sample.column("v"), sample.column("v")],
                pc.greater(sample.column("d"), 0.0),
                ["count", "sum", "avg"],
            )
            functions = ["count", "sum", "avg"]
            assert estimates(found, functions).columns == estimates(wanted, functions).columns
    first = Sums.from_table(run(replace(sums, keep=0.1), reader, 2, life.end))
    more = Sums.from_table(run(replace(sums, keep=0.35, above=0.1), reader, 2, life.end))
    both = Sums.from_table(run(replace(sums, keep=0.35), reader, 2, life.end))
    assert estimates(first.raised(0.35) + more, functions).columns == estimates(both, functions).columns
    life.close()


def test_operators_say_what_they_do() -> None:
    for operator in (ArchiveScan("cars", COLUMNS, "ts", reducer=("uniform", (0.5,))), aggregate(keep=0.5)):
        said = operator.explain()
        assert json.loads(json.dumps(said)) == said
        assert said["operator"] == operator.kind
        assert operator.keeps() is None
        assert operator.reads_history
