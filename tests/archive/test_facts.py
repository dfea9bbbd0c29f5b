"""What an archive knows of rows without reading them: which lie far out, and between which values the others lie."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from anabranch.archive.declaration import ROW
from anabranch.archive.estimation.estimates import Sums, estimates
from anabranch.archive.facts import ANYTHING, NOTHING, Range, facts_of
from anabranch.archive.files import RunFile
from anabranch.archive.layouts import PRIMARY
from anabranch.expressions.ranges import range_of
from anabranch.operators.archive.aggregate import ArchiveAggregate
from anabranch.operators.base import Inputs, Offset
from tests.archive.life import LAYOUTS, Life

FAR = 1e9


class Spiky(Life):
    """A life in which some rows have values far from all others, NaN or infinity."""

    def push(self, rows: int) -> None:
        before = self._all
        super().push(rows)
        spiked = self._all.slice(before.num_rows).column("d").to_numpy().copy()
        spiked[self.source.integers(0, rows, 5)] = FAR * self.source.choice([-1, 1], 5)
        spiked[self.source.integers(0, rows, 2)] = [np.nan, np.inf]
        at = self._all.schema.get_field_index("d")
        self._all = pa.concat_tables(
            [before, self._all.slice(before.num_rows).set_column(at, self._all.schema.field(at), pa.array(spiked))]
        )

    def write(self, rows: int) -> None:
        """Push rows, the values of which are chosen before they are written."""
        before = self._all.num_rows
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(self.writer, "append", lambda table: None)
            self.push(rows)
        self.writer.append(self._all.slice(before))


def run(operator: ArchiveAggregate, life: Life, archive: str, tasks: int = 1) -> Sums:
    inputs = Inputs({"s": life.reader(archive)})
    planned = operator.plan({"s": Offset(0)}, {"s": Offset(life.end, 2**62)}, inputs, tasks)
    batches = [batch for task in planned for batch in operator.run(task, inputs)]
    return Sums.from_table(operator.gather(pa.Table.from_batches(batches)))


@pytest.fixture(params=list(LAYOUTS))
def spiky(request: Any, tmp_path: Path) -> Any:
    life = Spiky(tmp_path, {request.param: LAYOUTS[request.param]}, run_rows=2000)
    life.write(6000)
    life.archivers[request.param].append(all_rows=True)
    life.write(1500)
    yield request.param, life
    life.close()


def odd(values: Any) -> Any:
    return ~np.isfinite(values) | (np.abs(values) >= FAR)


def test_rows_that_lie_far_out_are_always_read_and_the_others_lie_in_their_ranges(spiky: tuple[str, Life]) -> None:
    name, life = spiky
    reader = life.reader(name)
    for start, end in ((0, life.end), (700, 5100), (5990, 6010), (6100, 7000)):
        values = life.rows(start, end).column("d").to_numpy()
        for keep in (0.02, 0.5, 1.0):
            aside = reader.aside(start, end, ["v", "d"], keep)
            numbers = aside.rows.column(ROW).to_numpy()
            assert set(start + np.flatnonzero(odd(values))) <= set(numbers.tolist())
            assert len(set(numbers.tolist())) == len(numbers) <= 60
            taken = life.rows(0, life.end).take(pa.array(numbers))
            np.testing.assert_array_equal(aside.rows.column("d").to_numpy(), taken.column("d").to_numpy())
            near = np.delete(values, numbers - start)
            assert aside.ranges["d"].low <= near.min() <= near.max() <= aside.ranges["d"].high
            assert -10 < aside.ranges["d"].low < aside.ranges["d"].high < 10


def test_every_row_is_there_once_in_full_and_reduced_reads(spiky: tuple[str, Life]) -> None:
    name, life = spiky
    reader = life.reader(name)
    for start, end in ((0, life.end), (700, 5100)):
        assert reader.read(start, end).column("ts").equals(life.rows(start, end).column("ts"))
        for keep in (0.02, 0.35, 1.0):
            sample, wanted = (each.read_sample(start, end, ["v", "d"], keep) if each is reader else
                              life.sample(start, end, ["v", "d"], keep) for each in (reader, life))  # fmt: skip
            assert sample.column(ROW).to_pylist() == wanted.column(ROW).to_pylist()
            np.testing.assert_array_equal(sample.column("d").to_numpy(), wanted.column("d").to_numpy())


@pytest.mark.slow
def test_sums_are_the_same_by_however_many_tasks_and_passes(spiky: tuple[str, Life]) -> None:
    name, life = spiky
    total = (("n", "count", None), ("total", "sum", "v"), ("mean", "avg", "v"))
    operator = ArchiveAggregate("s", None, None, (), total, "abs(d) < 1000000", keep=0.3, archive=name)
    functions = ["count", "sum", "avg"]
    found = estimates(run(operator, life, name), functions)
    assert estimates(run(operator, life, name, 3), functions).columns == found.columns
    first, more = run(replace(operator, keep=0.1), life, name), run(replace(operator, above=0.1), life, name, 2)
    assert first.apart == more.apart != 0
    assert estimates(replace(first.raised(0.3), apart=0) + more, functions).columns == found.columns
    everything = run(replace(operator, keep=1.0, above=0.1), life, name)
    value, low, high = estimates(first.raised(1.0) + everything, functions).columns[1]
    rows = life.rows(0, life.end)
    wanted = rows.column("v").filter(pa.array(~odd(rows.column("d").to_numpy()))).to_numpy()
    assert value.to_pylist() == low.to_pylist() == high.to_pylist() == [np.nansum(wanted)]


def test_what_is_no_number_spoils_no_sum_that_does_not_hold_it(spiky: tuple[str, Life]) -> None:
    name, life = spiky
    rows = life.rows(0, life.end).column("d").to_numpy()
    finite = rows[~odd(rows)]
    operator = ArchiveAggregate("s", None, None, (), (("t", "sum", "d"), ("m", "avg", "d")), keep=0.4, archive=name)
    assert all(np.isnan(value) for value, _, _ in answered(operator, life))
    near = answered(replace(operator, filter="abs(d) < 1000000"), life)
    for (_, low, high), truth, width in zip(near, (finite.sum(), finite.mean()), (800, 0.1), strict=True):
        assert low <= truth <= high < low + width


def answered(operator: ArchiveAggregate, life: Life) -> list[tuple[float, float, float]]:
    """Value, low and high of sum and avg."""
    assert operator.archive is not None
    found = estimates(run(operator, life, operator.archive), ["sum", "avg"])
    return [(value[0].as_py(), low[0].as_py(), high[0].as_py()) for value, low, high in found.columns]


def test_facts_follow_runs_that_are_joined(tmp_path: Path) -> None:
    life = Spiky(tmp_path, {"randomize": LAYOUTS["randomize"]}, run_rows=5000)
    for _ in range(4):
        life.write(1000)
        life.archivers["randomize"].append()
    assert len(life.reader().archives[0].runs) == 4
    life.archivers["randomize"].join_runs(least=2)
    (run_,) = life.reader().archives[0].runs
    aside = life.reader().aside(0, 4000, ["d"], 0.01)
    assert set(np.flatnonzero(odd(life.rows(0, 4000).column("d").to_numpy()))) <= set(
        aside.rows.column(ROW).to_pylist()
    )
    assert run_.rows == 4000
    assert life.reader().read(0, 4000).column("ts").equals(life.rows(0, 4000).column("ts"))
    life.close()


def test_files_of_before_and_columns_that_came_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file without facts says nothing of its columns; one that is older than a column has no value of it."""
    life = Life(tmp_path, {"randomize": LAYOUTS["randomize"]})
    life.push(2000)
    monkeypatch.setattr("anabranch.archive.files._RANGES", b"another.name")
    life.archivers["randomize"].append()
    monkeypatch.undo()
    life.push(1000)
    life.archivers["randomize"].append()
    reader = life.reader()
    assert reader.aside(0, 3000, ["v"], 0.1).ranges == {"v": ANYTHING}
    assert reader.aside(2000, 3000, ["v"], 0.1).ranges == {"v": Range(0.0, 999.0)}
    last = RunFile(reader.archives[0].storage.child(PRIMARY), reader.archives[0].runs[-1])
    assert last.ranges(["v", "later"]) == {"v": Range(0.0, 999.0), "later": NOTHING}
    life.archivers["randomize"].info = replace(life.archivers["randomize"].info, run_rows=2000)  # none is small
    life.archivers["randomize"].vacuum()
    assert life.reader().aside(0, 3000, ["v"], 0.1).ranges == {"v": Range(0.0, 999.0)}
    assert life.reader().read(0, 3000).column("ts").equals(life.rows(0, 3000).column("ts"))
    life.close()


# -- which rows lie far out, and the ranges of what is computed ------------------------------------


def test_values_that_are_much_alike_have_none_that_lie_far_out() -> None:
    random = np.random.default_rng(1)
    rows = pa.table({"u": random.random(50_000), "n": random.normal(0, 1, 50_000), "i": random.integers(0, 9, 50_000)})
    facts = facts_of(rows, rows.column_names)
    assert len(facts.far) <= 2  # of normal values, one or two in a million lie five deviations out
    assert facts.ranges["i"] == Range(0.0, 8.0)


def test_no_more_than_one_row_in_128_is_put_apart() -> None:
    random = np.random.default_rng(2)
    rows = pa.table({f"c{i}": random.pareto(0.5, 100_000) for i in range(6)})
    facts = facts_of(rows, rows.column_names)
    assert 500 < len(facts.far) <= 100_000 // 128
    for name, (low, high) in facts.ranges.items():
        near = np.delete(rows.column(name).to_numpy(), facts.far)
        assert (low, high) == (near.min(), near.max())


def test_numbers_of_all_kinds_and_none() -> None:
    rows = pa.table(
        {
            "big": pa.array([2**62 + 1, 2**62 + 3, None], pa.int64()),
            "money": pa.array(["1.10", None, "2.20"]).cast(pa.decimal128(9, 2)),
            "nothing": pa.nulls(3, pa.float64()),
            "nan": pa.array([np.nan, 1.0, 2.0]),
            "text": ["a", "b", "c"],
        }
    )
    facts = facts_of(rows, rows.column_names)
    assert set(facts.ranges) == {"big", "money", "nothing", "nan"}
    assert facts.ranges["big"].low <= 2**62 + 1 <= 2**62 + 3 <= facts.ranges["big"].high
    assert facts.ranges["nothing"] == NOTHING
    assert facts.ranges["money"] == Range(1.1, 2.2)
    assert facts.ranges["nan"] == Range(1.0, 2.0)
    assert facts.far.tolist() == [0]
    many = facts_of(pa.table({"x": np.where(np.arange(5000) % 2, np.nan, 1.0)}), ["x"])
    assert (many.far.tolist(), many.ranges["x"]) == ([], ANYTHING)
    assert facts_of(pa.table({"x": pa.array([], pa.float64())}), ["x"]).ranges["x"] == NOTHING


@pytest.mark.parametrize(
    "sql",
    ["x", "-x", "x * y - 3", "abs(x)", "CASE WHEN n > 3 THEN x ELSE 0 END", "if(n > 3, x, y)", "coalesce(y, n)",
     "2 * (x + y) * x", "n * 2", "n - x"],
)  # fmt: skip
def test_what_is_computed_lies_in_its_range(sql: str) -> None:
    from anabranch import expressions

    random = np.random.default_rng(3)
    rows = pa.table(
        {
            "x": random.normal(0, 5, 2000),
            "y": pa.array(random.random(2000), mask=random.random(2000) < 0.2),
            "n": pa.array(random.integers(-9, 9, 2000), pa.int32()),
        }
    )
    found = range_of(sql, rows.schema, facts_of(rows, rows.column_names).ranges)
    values = expressions.compile(sql, rows.schema).evaluate(rows).cast(pa.float64()).drop_null().to_numpy()
    assert np.isfinite(found).all()
    assert found.low <= values.min() <= values.max() <= found.high


@pytest.mark.parametrize("sql", ["x / y", "n * n", "f + 1", "sqrt(x)", "m * 2", "CAST(x AS INT)", "unknown"])
def test_what_is_not_known_may_be_anything(sql: str) -> None:
    types = {"x": pa.float64(), "y": pa.float64(), "n": pa.int8(), "f": pa.float32(), "m": pa.decimal128(9, 2)}
    schema = pa.schema(list(types.items()))
    assert range_of(sql, schema, dict.fromkeys(types, Range(0.0, 100.0))) == ANYTHING
