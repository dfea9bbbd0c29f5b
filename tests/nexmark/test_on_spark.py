"""Queries of Nexmark that need Spark SQL, on Spark, beside DuckDB."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import anabranch as ab
from tests.nexmark.test_nexmark import COUNT, SEEDS, all_events, between, found, made, wanted
from tests.nexmark.texts import QUERIES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.slow
@pytest.mark.parametrize("name", [query.name for query in QUERIES.values() if query.needs_spark])
def test_a_query_on_spark_answers_as_duckdb_does(spark: SparkSession, name: str, tmp_path: Path) -> None:
    query, seed = QUERIES[name], SEEDS[0]
    with ab.open(tmp_path / "db", spark=spark) as db:
        made(db, query)
        bids = all_events(seed).bid
        for begin, end in ((0, COUNT // 3), (COUNT // 3, COUNT)):
            db.append("bid", between(bids, begin, end))
            (db.view(name) if query.is_view else db.get_query(name)).wait(120)
        assert found(db, query) == wanted(query, seed)
