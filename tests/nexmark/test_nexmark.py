"""All queries of Nexmark over a stream database without Spark, beside DuckDB's answers over all events at once."""

from __future__ import annotations

import datetime as dt
import random
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from anabranch.database import Database
from anabranch.testing.clock import ManualClock
from anabranch.testing.sparkless import SparklessDatabase, Unkindness
from tests.nexmark.events import BEGIN, CREATE, STREAMS, Events, events, side_rows
from tests.nexmark.texts import QUERIES, Query, for_duckdb
from tests.sampling import ALL, SEED

COUNT, PER_SECOND = 4_000, 100
"""Forty seconds of events: four windows of ten seconds."""
END = dt.datetime.fromtimestamp(BEGIN / 1e6, dt.UTC) + dt.timedelta(seconds=120)
Bag = Counter[tuple[Any, ...]]
SEEDS = range(3) if ALL else [SEED % 1000]
SPARKLESS = [query for query in QUERIES.values() if not query.needs_spark]


@cache
def all_events(seed: int) -> Events:
    return events(COUNT, seed=seed, per_second=PER_SECOND)


@cache
def oracle(seed: int) -> duckdb.DuckDBPyConnection:
    """DuckDB with all events."""
    connection = duckdb.connect()
    connection.execute("SET threads = 1; SET TimeZone = 'UTC'")
    for name in STREAMS:
        connection.register(name, all_events(seed).stream(name))
    connection.register("side_input", side_rows())
    return connection


def wanted(query: Query, seed: int) -> Bag:
    return bag(oracle(seed).sql(for_duckdb(query)).to_arrow_table())


def bag(rows: pa.Table) -> Bag:
    return Counter(zip(*(column.to_pylist() for column in rows.columns), strict=True))


def cuts(total: int, draw: random.Random) -> Iterator[tuple[int, int]]:
    """Where events are cut into appends: of one, of a few, of many."""
    begin = 0
    while begin < total:
        end = min(total, begin + draw.choice([1, 7, 50, 400, 1500]))
        yield begin, end
        begin = end


def play(db: SparklessDatabase, clock: ManualClock, seed: int) -> None:
    """All events in the order of their times, in random cuts, with micro-batches now and then."""
    draw = random.Random(seed)
    for begin, end in cuts(COUNT, draw):
        for name in draw.sample(list(STREAMS), len(STREAMS)):
            some = between(all_events(seed).stream(name), begin, end)
            if some.num_rows:
                db.append(name, some)
            if draw.random() < 0.3:
                db.catch_up()
    clock.set(END)
    for name in STREAMS:
        db.advance(name, END)
    db.catch_up()


def between(rows: pa.Table, begin: int, end: int) -> pa.Table:
    """Those of the events with these numbers, by their times."""
    times = rows.column("date_time").cast(pa.int64()).to_numpy()
    low, high = (BEGIN + number * 1_000_000 // PER_SECOND for number in (begin, end))
    return rows.slice(int(times.searchsorted(low)), int(times.searchsorted(high) - times.searchsorted(low)))


def made(db: Database, query: Query) -> None:
    db.sql(CREATE)
    if "side_input" in query.statement:
        db.sql("CREATE TABLE side_input (key BIGINT PRIMARY KEY, value STRING)")
        db.upsert("side_input", side_rows())
    db.sql(query.statement)


def found(db: Database, query: Query) -> Bag:
    """The rows of a view or standing query, without what is there besides the columns that were selected."""
    rows = db.view(query.name).table() if query.is_view else db.get_query(query.name).table()
    return bag(rows.select(oracle_columns(query)))


def oracle_columns(query: Query) -> list[str]:
    return oracle(SEEDS[0]).sql(f"SELECT * FROM ({for_duckdb(query)}) LIMIT 0").columns


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("query", SPARKLESS, ids=lambda query: query.name)
def test_a_query_answers_as_duckdb_does_over_all_events(query: Query, seed: int, tmp_path: Path) -> None:
    clock = ManualClock(BEGIN - 1_000_000)
    with SparklessDatabase(tmp_path, clock=clock) as db:
        made(db, query)
        play(db, clock, seed)
        assert found(db, query) == wanted(query, seed)
        assert wanted(query, seed)


SELECTED = [query for query in SPARKLESS if query.name in ("q4", "q7", "q9", "q15", "q18", "q19", "q20")]


@pytest.mark.slow
@pytest.mark.parametrize("query", SELECTED, ids=lambda query: query.name)
def test_the_changes_of_a_query_add_up_to_its_answer(query: Query, tmp_path: Path) -> None:
    clock, seed = ManualClock(BEGIN - 1_000_000), SEEDS[0]
    emitting = query.statement.replace("MATERIALIZED VIEW", "CONTINUOUS QUERY")
    emitting = re.sub(r"(ACCEPT UNBOUNDED|EXPIRE AFTER .*)$", r"EMIT CHANGES \1", emitting)
    with SparklessDatabase(tmp_path, clock=clock, unkindness=Unkindness(forget=True, replay=True)) as db:
        db.sql(CREATE)
        db.sql(emitting)
        play(db, clock, seed)
        changes = db.get_query(query.name).table()
    total: Bag = Counter()
    said = changes.column("_change").to_pylist()
    rows = zip(*(changes.column(name).to_pylist() for name in oracle_columns(query)), strict=True)
    for change, row in zip(said, rows, strict=True):
        total[row] += 1 if change in ("insert", "update_after") else -1
    assert Counter({row: count for row, count in total.items() if count}) == wanted(query, seed)


def test_every_query_is_there() -> None:
    assert {query.number for query in QUERIES.values()} == set(range(23))


def test_events_are_the_same_however_many_are_asked_for() -> None:
    few, many = events(1_000), events(60_000)
    for name in STREAMS:
        assert few.stream(name).equals(many.stream(name).slice(0, few.stream(name).num_rows))
