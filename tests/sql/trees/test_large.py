"""Queries of a thousand lines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from anabranch.testing.sparkless import SparklessDatabase

LINES = 1000
pytestmark = pytest.mark.slow


@pytest.fixture
def db(tmp_path: Path) -> Iterator[SparklessDatabase]:
    with SparklessDatabase(tmp_path / "db") as database:
        database.sql("CREATE TABLE t (k INT PRIMARY KEY, v INT)")
        database.upsert("t", [{"k": k, "v": k % 7} for k in range(2 * LINES)])
        yield database


@pytest.mark.parametrize("word", ["OR", "AND"])
def test_a_condition_of_a_thousand_lines(db: SparklessDatabase, word: str) -> None:
    sign = "=" if word == "OR" else "<>"
    condition = f"\n{word} ".join(f"k {sign} {k}" for k in range(LINES))
    db.sql(f"CREATE MATERIALIZED VIEW a AS SELECT k FROM t WHERE {condition}")
    db.catch_up()
    wanted = range(LINES) if word == "OR" else range(LINES, 2 * LINES)
    assert sorted(db.table("a").column("k").to_pylist()) == list(wanted)


def test_a_union_of_a_thousand_queries(db: SparklessDatabase) -> None:
    queries = "\nUNION ALL ".join(f"SELECT k + {n} AS k FROM t WHERE k = {n}" for n in range(LINES))
    db.sql(f"CREATE MATERIALIZED VIEW a AS {queries}")
    db.catch_up()
    assert sorted(db.table("a").column("k").to_pylist()) == [2 * n for n in range(LINES)]


def test_a_choice_and_a_list_of_a_thousand_lines(db: SparklessDatabase) -> None:
    choice = "\n".join(f"WHEN k = {k} THEN {-k}" for k in range(LINES))
    columns = ",\n".join(f"v + {n} AS v{n}" for n in range(LINES))
    db.sql(f"CREATE MATERIALIZED VIEW a AS SELECT k, CASE {choice} END AS chosen, {columns} FROM t WHERE k < 1010")
    db.catch_up()
    (row,) = (row for row in db.table("a").to_pylist() if row["k"] == 999)
    assert (row["chosen"], row["v0"], row["v999"]) == (-999, 999 % 7, 999 % 7 + 999)
    assert all(row["chosen"] is None for row in db.table("a").to_pylist() if row["k"] >= LINES)
