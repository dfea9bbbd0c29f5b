"""An archive is a plain Delta table: anyone may read it, as it is and as it was."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import polars
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable

import anabranch as ab
from anabranch.archive.table import APPLICATION
from anabranch.spark.java import prepare_environment
from tests.archive import readers_of_delta

BASE_US = 1_767_225_600_000_000
STEP_US = 1_000
LAYOUTS = ("plain", "on_write_replicate", "on_read_modify", "randomize_then_sort")
BATCHES = (400, 1, 1000, 250)


def rows(first: int, end: int) -> pa.Table:
    """Rows of a stream of cars: `v` is a function of the number."""
    numbers = np.arange(first, end)
    return pa.table(
        {
            "plate": [f"p{n % 17}" for n in numbers],
            "v": pa.array([None if n % 10 == 3 else int(n * 7 % 1000) for n in numbers], pa.int32()),
            "speed": numbers / 2,
            "ts": pa.array(BASE_US + numbers * STEP_US).cast(pa.timestamp("us", "UTC")),
        }
    )


@pytest.fixture(scope="module", params=LAYOUTS)
def layout(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory, layout: str) -> Iterator[str]:
    """The Delta table of an archive that got its rows in batches, then another column, then was compacted."""
    with ab.open(tmp_path_factory.mktemp(layout) / "db", queries=False) as db:
        db.sql("CREATE STREAM cars (plate STRING, v INT, speed DOUBLE, ts TIMESTAMP) TIMESTAMP BY ts")
        db.create_archive("cars", layout, options={"run_rows": "500", "compression": "snappy"})
        first = 0
        for count in BATCHES:
            db.append("cars", rows(first, first + count))
            db.archive("cars").append()
            first += count
        db.add_column("cars", "lane", "INT")
        db.append("cars", rows(first, first + 100).append_column("lane", pa.array([3] * 100, pa.int32())))
        db.archive("cars").append()
        db.archive("cars").join_runs(2)
        yield str(db.describe_archive("cars")["path"])


END = sum(BATCHES) + 100


def expected() -> pa.Table:
    lane = pa.array([None] * (END - 100) + [3] * 100, pa.int32())
    return rows(0, END).append_column("_row", pa.array(np.arange(END))).append_column("lane", lane)


@pytest.mark.slow
def test_deltalake_reads_every_row_once_with_its_number(table: str) -> None:
    wanted = expected()
    got = DeltaTable(table).to_pyarrow_table().sort_by("_row")
    assert set(got.column_names) == set(wanted.column_names)
    assert got.select(wanted.column_names).cast(wanted.schema).equals(wanted)


@pytest.mark.slow
def test_every_version_stays_readable_and_its_rows_are_the_first_ones(table: str) -> None:
    wanted = expected()
    newest = DeltaTable(table).version()
    counts = []
    for version in range(newest + 1):
        numbers = DeltaTable(table, version=version).to_pyarrow_table().sort_by("_row")
        assert numbers.column("_row").to_pylist() == list(range(numbers.num_rows))
        assert numbers.column("speed").equals(wanted.column("speed").slice(0, numbers.num_rows))
        counts.append(numbers.num_rows)
    ends = set(itertools.accumulate(BATCHES, initial=0))
    assert counts == sorted(counts)
    assert ends | {END} <= set(counts)


@pytest.mark.slow
def test_history_says_what_each_commit_was(table: str) -> None:
    delta = DeltaTable(table)
    assert len(delta.history()) == delta.version() + 1
    assert delta.transaction_version(APPLICATION) == END


def test_polars_scans_it(table: str) -> None:
    scan = polars.scan_delta(table)
    found = scan.select(polars.len(), polars.col("v").sum(), polars.col("lane").count()).collect().row(0)
    assert found == (END, pc.sum(expected().column("v")).as_py(), 100)
    some = scan.filter(polars.col("_row").is_between(100, 104)).sort("_row").collect()
    assert some["plate"].to_list() == [f"p{n % 17}" for n in range(100, 105)]


def test_duckdb_reads_it_over_the_dataset_of_deltalake(table: str) -> None:
    duckdb = pytest.importorskip("duckdb")
    archive = DeltaTable(table).to_pyarrow_dataset()
    connection = duckdb.connect()
    connection.register("archive", archive)
    found = connection.execute("SELECT count(*), sum(v), count(v), count(lane), min(lane) FROM archive").fetchall()
    v = expected().column("v")
    assert found == [(END, pc.sum(v).as_py(), END - v.null_count, 100, 3)]
    some = connection.execute("SELECT _row FROM archive WHERE plate = 'p3' AND _row < 30 ORDER BY 1").fetchall()
    assert some == [(3,), (20,)]


def test_filters_on_columns_without_statistics_find_their_rows(table: str) -> None:
    archive = DeltaTable(table).to_pyarrow_dataset()
    wanted = expected()
    for condition in (
        pc.field("plate") == "p3",
        pc.field("speed") > 100.0,
        pc.field("v").is_null(),
        pc.field("lane").is_null(),
        pc.field("lane") == 3,
    ):
        assert archive.to_table(filter=condition).num_rows == wanted.filter(condition).num_rows > 0


def test_statistics_let_others_pass_files_over(table: str) -> None:
    """Least and most of the times and numbers of each file, as they are in it."""
    actions = pa.table(DeltaTable(table).get_add_actions(flatten=True)).to_pylist()
    assert len(actions) > 1
    for action in actions:
        inside = (
            DeltaTable(table)
            .to_pyarrow_dataset()
            .to_table(filter=pc.field("_row").isin(range(action["min._row"], action["max._row"] + 1)))
        )
        assert inside.num_rows == action["num_records"]
        for column in ("ts", "_row"):
            ends = pc.min_max(inside.column(column)).as_py()
            assert (action[f"min.{column}"], action[f"max.{column}"]) == (ends["min"], ends["max"])
            assert action[f"null_count.{column}"] == 0
    late = BASE_US + (END - 50) * STEP_US
    scan = polars.scan_delta(table).filter(polars.col("ts") >= polars.lit(late).cast(polars.Datetime("us", "UTC")))
    assert scan.select(polars.len()).collect().item() == 50
    spans = sorted((action["min.ts"], action["max.ts"]) for action in actions)
    assert all(before[1] < after[0] for before, after in itertools.pairwise(spans))


@pytest.mark.parametrize("layout", ["randomize_then_sort"], indirect=True)
@pytest.mark.spark
@pytest.mark.slow
def test_spark_reads_it_with_the_jar_of_delta(table: str) -> None:
    """Delta has a package for each Spark; DELTA_PYTHON names an interpreter with another PySpark to try it on."""
    python = os.environ.get("DELTA_PYTHON", sys.executable)
    ask = [python, "-c", "import pyspark; print(pyspark.__version__)"]
    version = subprocess.run(ask, capture_output=True, text=True, check=True).stdout.strip()
    spark = version.rpartition(".")[0]
    environment = dict(os.environ)
    prepare_environment(environment)
    environment["PYSPARK_PYTHON"] = environment["PYSPARK_DRIVER_PYTHON"] = python
    package = f"io.delta:delta-spark_{spark}_2.13:latest.release"
    done = subprocess.run(
        [python, readers_of_delta.__file__, table, package],
        capture_output=True,
        text=True,
        env=environment,
        timeout=240,
        check=False,
    )
    said = done.stdout + done.stderr
    if "unresolved dependency" in said or "Unresolved" in said or "UNRESOLVED DEPENDENCIES" in said:
        pytest.skip(f"Maven Central cannot be reached, or has no Delta for Spark {spark} yet ({package})")
    assert done.returncode == 0, said[-4000:]
    found = json.loads(done.stdout.splitlines()[-1])
    v = expected().column("v")
    assert found["rows"] == [END, pc.sum(v).as_py(), END - v.null_count, 0, END - 1, 100]
    assert found["versions"] == DeltaTable(table).version() + 1
    assert found["first"] == BATCHES[0]
