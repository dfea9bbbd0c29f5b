"""What one statement reads is of one moment: tables, streams and views, whatever goes on. Without Spark."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from anabranch.database import Database
from tests.queries.reading import ReadingDatabase, some_query_goes_on
from tests.sampling import sampled

BASES = {
    "t": "CREATE TABLE t (k INT PRIMARY KEY, v BIGINT)",
    "u": "CREATE TABLE u (k INT PRIMARY KEY, v BIGINT)",
    "s": "CREATE STREAM s (k INT, v BIGINT)",
}


@pytest.fixture
def db(tmp_path: Path) -> Iterator[ReadingDatabase]:
    with ReadingDatabase(tmp_path / "db") as database:
        for statement in BASES.values():
            database.sql(statement)
        yield database


def some_select(chance: random.Random, known: list[str]) -> str:
    """A question over tables, streams and views, with columns k and v."""
    one, other = chance.choice(known), chance.choice(known)
    return chance.choice(
        [
            f"SELECT k % 3 AS k, sum(v) AS v FROM {one} GROUP BY k % 3",
            f"SELECT count(*) AS k, sum(v) AS v FROM {one}",
            f"SELECT k, v + 1 AS v FROM {one} WHERE v % 2 = 0",
            f"SELECT a.k, a.v + b.v AS v FROM {one} a JOIN {other} b ON a.k = b.k",
            f"SELECT k, v FROM {one} UNION ALL SELECT k, v FROM {other}",
            f"SELECT k, v FROM {one} a WHERE NOT EXISTS (SELECT 1 FROM {other} b WHERE b.k = a.k AND b.v > 3)",
            f"SELECT k % 2 AS k, max(v) AS v FROM {one} GROUP BY k % 2",
            f"SELECT DISTINCT k, v FROM {one}",
        ]
    )


def make_views(db: ReadingDatabase, chance: random.Random, count: int = 5) -> dict[str, str]:
    """Views over all that there is before each of them."""
    views: dict[str, str] = {}
    for number in range(count):
        views[f"v{number}"] = select = some_select(chance, [*BASES, *views])
        db.sql(f"CREATE MATERIALIZED VIEW v{number} AS {select} ACCEPT UNBOUNDED")
    return views


def something_is_written(db: ReadingDatabase, chance: random.Random) -> None:
    keys = chance.sample(range(12), chance.randint(1, 3))
    values = [chance.randrange(8) for _ in keys]
    base = chance.choice([*BASES])
    if base == "s":
        db.append("s", {"k": pa.array(keys, pa.int32()), "v": values})
    elif chance.random() < 0.3:
        db.delete(base, {"k": keys})
    else:
        db.upsert(base, {"k": keys, "v": values})


def bag(table: pa.Table) -> Counter[tuple[int | None, ...]]:
    return Counter(tuple(None if v is None else int(v) for v in row.values()) for row in table.to_pylist())


def defined(views: dict[str, str], bases: dict[str, pa.Table]) -> dict[str, pa.Table]:
    """What views are by definition over some rows."""
    answers: dict[str, pa.Table] = {}
    with duckdb.connect() as connection:
        for name, table in bases.items():
            connection.register(name, table)
        for name, select in views.items():
            answers[name] = connection.sql(select).to_arrow_table()
            connection.register(name, answers[name])
    return answers


def differing(views: dict[str, str], read: dict[str, pa.Table]) -> list[str]:
    """The views that are not what the tables and streams say that were read with them."""
    answers = defined(views, {name: read[name] for name in BASES})
    return [
        f"{name} {views[name]}: {bag(read[name])} {bag(answers[name])}"
        for name in views
        if name in read and bag(answers[name]) != bag(read[name])
    ]


# -- whatever goes on --------------------------------------------------------------------------------


def played(db: ReadingDatabase, seed: int, reads: int = 12) -> list[str]:
    """What is found to differ while someone reads, others write, and micro-batches are planned and run at any moment."""
    chance = random.Random(seed)
    views = make_views(db, chance)

    def meanwhile() -> None:
        if chance.random() < 0.3:
            something_is_written(db, chance)
        some_query_goes_on(db, chance)

    db.meanwhile = meanwhile
    found = []
    for _ in range(reads):
        for _ in range(chance.randrange(12)):
            meanwhile()
        some = chance.sample([*views], chance.randint(1, len(views)))
        found += differing(views, db.read_together(*BASES, *some))
    assert [query.failure for query in db.queries()] == [None] * len(views)
    return found


@pytest.mark.parametrize("seed", sampled(range(60), 6, "one version"))
def test_views_are_what_the_tables_and_streams_say_that_are_read_with_them(db: ReadingDatabase, seed: int) -> None:
    assert played(db, seed) == []


def test_without_it_they_are_not(db: ReadingDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Database, "at_one_version", lambda db, streams: {})
    assert played(db, 0) != []
