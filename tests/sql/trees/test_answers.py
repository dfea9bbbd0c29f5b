"""Planned trees, evaluated by definition, answer what DuckDB says that the SELECT itself does."""

from __future__ import annotations

import datetime as dt
import random
import re
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from tests.sql.trees.evaluated import answer, bag, connect, played
from tests.sql.trees.sources import BIDS, TABLES, plan

QUERIES = [
    query.strip()
    for query in re.sub(r"--.*", "", (Path(__file__).parent / "answers.sql").read_text()).split(";")
    if query.strip()
]


def _value(draw: random.Random, field: pa.Field) -> Any:
    if draw.random() < 0.15:
        return None
    small = draw.randrange(6)
    if pa.types.is_string(field.type):
        return draw.choice(["x", "y", "xz", "u"])
    if pa.types.is_floating(field.type):
        return small / 4
    if pa.types.is_decimal(field.type):
        return Decimal(small) / 2
    if pa.types.is_boolean(field.type):
        return small > 2
    if pa.types.is_date(field.type):
        return dt.date(1975 + small * 2, 3, 1 + small)
    if pa.types.is_timestamp(field.type):
        return dt.datetime(2026, 1, 1, small, tzinfo=dt.UTC)
    return small


def rows(schema: pa.Schema, key: tuple[str, ...], draw: random.Random, most: int) -> pa.Table:
    """Rows at random; a key of one column counts."""
    found = []
    for number in range(draw.randrange(most) + 1):
        row = {field.name: _value(draw, field) for field in schema}
        found.append(row | dict.fromkeys(key, number))
    return pa.Table.from_pylist(found, schema=schema)


def some_tables(seed: int) -> dict[str, pa.Table]:
    draw = random.Random(seed)
    tables = {name: rows(table.schema, table.key, draw, 12) for name, table in TABLES.items()}
    return tables | {"bids": rows(BIDS.arrow, (), draw, 20)}


@pytest.fixture(scope="module", params=[1])
def connection(request: pytest.FixtureRequest) -> Iterator[duckdb.DuckDBPyConnection]:
    made = connect(some_tables(request.param))
    yield made
    made.close()


@pytest.mark.parametrize("query", QUERIES)
def test_a_planned_tree_answers_as_the_query(query: str, connection: duckdb.DuckDBPyConnection) -> None:
    planned = plan(query)
    wanted = connection.sql(query.removesuffix("ACCEPT UNBOUNDED")).to_arrow_table()
    found = answer(connection, planned.nodes)
    assert found.schema.names == list(planned.columns), planned.explain()
    assert found.schema.types == planned.types.types, planned.explain()
    assert bag(found) == bag(wanted), planned.explain()


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("seed", [11])
def test_steps_answer_as_the_query(query: str, seed: int) -> None:
    tables = some_tables(seed)
    planned, made = plan(query), connect(tables)
    wanted = made.sql(query.removesuffix("ACCEPT UNBOUNDED")).to_arrow_table()
    made.close()
    assert played(planned.nodes, tables, seed) == bag(wanted), planned.explain()


@pytest.mark.parametrize("query", QUERIES)
def test_a_key_tells_rows_apart(query: str, connection: duckdb.DuckDBPyConnection) -> None:
    planned = plan(query)
    if planned.key:
        found = answer(connection, planned.nodes).select(list(planned.key))
        assert max(bag(found).values(), default=1) == 1, planned.explain()


def test_there_are_many_queries() -> None:
    assert len(QUERIES) > 200
