"""A join with groups kept up to date as rows come, beside DuckDB that computes it anew after each batch."""

from __future__ import annotations

import time
from dataclasses import dataclass

import duckdb
import numpy as np
import pyarrow as pa

from anabranch.errors import CatalogError
from anabranch.operators.tree.changes import Changes, together
from anabranch.operators.tree.flow import Flow
from anabranch.schema import StreamSchema
from anabranch.sql import parse
from anabranch.sql.statements import SelectOnce
from anabranch.sql.trees.plan import plan_tree
from benchmarks.harness import check, median

_TYPES = {
    "sales": {"customer": "BIGINT", "price": "BIGINT", "ts": "TIMESTAMP"},
    "customers": {"id": "BIGINT", "city": "BIGINT", "ts": "TIMESTAMP"},
}
QUESTION = """SELECT c.city, count(*) AS n, sum(s.price) AS price, max(s.price) AS most
FROM sales s JOIN customers c ON s.customer = c.id GROUP BY c.city"""


@dataclass(frozen=True)
class Compared:
    """Seconds of a batch, medians."""

    ours: float
    theirs: float


def compared(rows: int, customers: int, cities: int, batch: int, rounds: int) -> Compared:
    """Batches of rows that come into so many; both answers are compared after the last one."""
    draw = np.random.default_rng(5)
    schemas = {name: StreamSchema.of(types, time="ts") for name, types in _TYPES.items()}

    def look_up(name: str) -> StreamSchema:
        if name.lower() not in schemas:
            raise CatalogError("STREAM_NOT_FOUND", name)
        return schemas[name.lower()]

    (statement,) = parse(QUESTION + " ACCEPT UNBOUNDED")
    assert isinstance(statement, SelectOnce)
    plan = plan_tree(statement.select, look_up)
    flow = Flow(plan.nodes, {name: schema.arrow for name, schema in schemas.items()})
    known = pa.Table.from_arrays(
        [np.arange(customers), draw.integers(0, cities, customers), pa.array(np.zeros(customers, np.int64))],
        names=list(_TYPES["customers"]),
    ).cast(schemas["customers"].arrow)

    def some(count: int) -> pa.Table:
        columns = [draw.integers(0, customers, count), draw.integers(1, 10_000, count), np.zeros(count, np.int64)]
        return pa.Table.from_arrays([pa.array(c) for c in columns], names=list(_TYPES["sales"])).cast(
            schemas["sales"].arrow
        )

    database = duckdb.connect()
    database.execute("SET threads = 2")
    first = some(rows)
    database.register("first", first)
    database.register("known", known)
    database.execute("CREATE TABLE sales AS SELECT * FROM first; CREATE TABLE customers AS SELECT * FROM known")
    answers = [flow.take({"sales": Changes.of(first), "customers": Changes.of(known)}, 0)]
    ours, theirs = [], []
    for _ in range(rounds):
        came = some(batch)
        began = time.perf_counter()
        answers.append(flow.take({"sales": Changes.of(came)}, 0))
        ours.append(time.perf_counter() - began)
        database.register("came", came)
        database.execute("INSERT INTO sales SELECT * FROM came")
        began = time.perf_counter()
        answer = database.sql(QUESTION).to_arrow_table()
        theirs.append(time.perf_counter() - began)
    found = together(answers, flow.schema).consolidated()
    check(bool((found.weights == 1).all()), "each city is there once")
    rows_of = [
        sorted(zip(*(column.to_pylist() for column in table.columns), strict=True)) for table in (found.rows, answer)
    ]
    check(rows_of[0] == rows_of[1], "the view is what DuckDB computes")
    return Compared(median(ours), median(theirs))


def _sorted(rows: pa.Table) -> list[tuple[object, ...]]:
    return sorted(zip(*(column.to_pylist() for column in rows.columns), strict=True))
