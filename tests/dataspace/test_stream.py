"""A data set of a server as a stream of a database, over a real Spark session."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import anabranch as ab

from .conftest import Beside, floods

pytestmark = pytest.mark.usefixtures("spark")


@pytest.fixture
def db(tmp_path: Path) -> Iterator[ab.Database]:
    with ab.open(tmp_path / "river", settings={"warm_up": 0}) as database:
        yield database


def test_a_standing_select_gives_the_rows_of_a_data_set_and_goes_on_after_a_kill(
    db: ab.Database, folder: Path, beside: Beside
) -> None:
    db.sql(f"CREATE STREAM quakes FROM dataspace OPTIONS (url '{beside.url}', dataset 'quakes')")
    query = db.query("SELECT n, station, ts FROM quakes WHERE n % 2 = 0", name="even")
    query.wait(60)
    assert query.table().column("n").to_pylist() == list(range(0, 3000, 2))
    assert query.table().column("station").to_pylist()[:3] == ["s0", "s2", "s4"]
    beside.kill()
    pq.write_table(floods(100, 3000), folder / "quakes" / "3.parquet")
    beside.start()
    query.wait(60)
    assert query.table().column("n").to_pylist() == list(range(0, 3100, 2))
    counted = db.sql("SELECT count(*) AS rows, max(n) AS most FROM quakes").table().to_pylist()
    assert counted == [{"rows": 3100, "most": 3099}]
    window = db.query("SELECT count(*) AS c FROM quakes WINDOW = INTERVAL 1 SECOND", name="seconds")
    window.wait(60)
    assert window.table().column("c").to_pylist() == [1000, 1000, 1000]
