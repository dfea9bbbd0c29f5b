"""The queries of TPC-H over small tables, with DOUBLE for money: division of DECIMAL needs Spark."""

from __future__ import annotations

import datetime as dt
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from anabranch.errors import CatalogError
from anabranch.schema import StreamSchema, arrow_type
from anabranch.sql import parse
from anabranch.sql.statements import SelectOnce
from anabranch.sql.trees.context import TableColumns
from anabranch.sql.trees.plan import TreePlan, plan_tree
from tests.sql.trees.evaluated import answer, bag, connect, played

_COLUMNS = {
    "part": "p_partkey INT*, p_name STRING, p_mfgr STRING, p_brand STRING, p_type STRING, p_size INT",
    "supplier": "s_suppkey INT*, s_name STRING, s_nationkey INT, s_phone STRING, s_acctbal DOUBLE, s_comment STRING",
    "partsupp": "ps_partkey INT*, ps_suppkey INT*, ps_availqty INT, ps_supplycost DOUBLE",
    "customer": "c_custkey INT*, c_name STRING, c_nationkey INT, c_phone STRING, c_acctbal DOUBLE, c_mktsegment STRING",
    "orders": "o_orderkey INT*, o_custkey INT, o_orderstatus STRING, o_orderdate DATE, o_orderpriority STRING, "
    "o_shippriority INT, o_comment STRING",
    "lineitem": "l_orderkey INT*, l_linenumber INT*, l_partkey INT, l_suppkey INT, l_quantity DOUBLE, "
    "l_extendedprice DOUBLE, l_discount DOUBLE, l_tax DOUBLE, l_returnflag STRING, l_linestatus STRING, "
    "l_shipdate DATE, l_commitdate DATE, l_receiptdate DATE, l_shipmode STRING",
    "nation": "n_nationkey INT*, n_name STRING, n_regionkey INT",
    "region": "r_regionkey INT*, r_name STRING",
}
TABLES = {
    name: TableColumns(
        pa.schema([(part.split()[0], arrow_type(part.split()[1].rstrip("*"))) for part in columns.split(", ")]),
        tuple(part.split()[0] for part in columns.split(", ") if part.endswith("*")),
    )
    for name, columns in _COLUMNS.items()
}
_SIZES = {
    "part": 12, "supplier": 6, "partsupp": 70, "customer": 20, "orders": 30, "lineitem": 200, "nation": 3, "region": 2,
}  # fmt: skip
_TEXTS = {
    "p_name": ["green tea", "red green", "blue"], "p_type": ["PROMO BRASS", "SMALL BRASS", "ECONOMY TIN"],
    "p_brand": ["Brand#12", "Brand#45", "Brand#3"], "n_name": ["FRANCE", "GERMANY", "PERU"],
    "r_name": ["EUROPE", "AMERICA"], "l_returnflag": ["R", "A"], "l_shipmode": ["MAIL", "SHIP", "AIR"],
    "o_orderpriority": ["1-URGENT", "2-HIGH", "5-LOW"], "o_orderstatus": ["F", "O"],
    "c_mktsegment": ["BUILDING", "AUTOMOBILE"], "c_phone": ["13-1", "31-2", "23-3", "44-4"],
    "o_comment": ["special", "plain"], "s_comment": ["Customer Complaints", "fine"],
}  # fmt: skip

SEEDS = (1, 2, 3)
QUERIES = {
    name: query.strip().removesuffix(";")
    for name, query in re.findall(
        r"-- (q\d+)\n(.*?)(?=\n-- q|\Z)", (Path(__file__).parent / "tpch.sql").read_text(), re.S
    )
}


def no_stream(name: str) -> StreamSchema:
    raise CatalogError("STREAM_NOT_FOUND", f'stream "{name}" does not exist')


def plan(text: str) -> TreePlan:
    (statement,) = parse(text)
    assert isinstance(statement, SelectOnce)
    return plan_tree(statement.select, no_stream, tables=TABLES.get)


def _value(name: str, type_: pa.DataType, number: int, draw: random.Random) -> Any:
    if name in _TEXTS:
        texts = _TEXTS[name]
        return texts[number % len(texts)] if name in ("n_name", "r_name") else draw.choice(texts)
    if pa.types.is_string(type_):
        return f"{name} {draw.randrange(3)}"
    if pa.types.is_floating(type_):
        return draw.randrange(4) / 4 if name in ("l_discount", "l_tax") else float(draw.randrange(1, 9))
    if pa.types.is_date(type_):
        return dt.date(1993, 1, 1) + dt.timedelta(days=draw.randrange(1500))
    others = {"partkey": 12, "suppkey": 6, "custkey": 20, "orderkey": 30, "nationkey": 3, "regionkey": 2}
    return draw.randrange(others.get(name.split("_")[1], 6))


def _rows(name: str, draw: random.Random) -> pa.Table:
    schema, key = TABLES[name]
    rows: dict[Any, dict[str, Any]] = {}
    for number in range(_SIZES[name]):
        row = {field.name: _value(field.name, field.type, number, draw) for field in schema}
        if len(key) == 1:
            row[key[0]] = number
        rows[tuple(row[part] for part in key)] = row
    return pa.Table.from_pylist(list(rows.values()), schema=schema)


@pytest.fixture(scope="module", params=SEEDS)
def connection(request: pytest.FixtureRequest) -> Iterator[duckdb.DuckDBPyConnection]:
    draw = random.Random(request.param)
    made = connect({name: _rows(name, draw) for name in TABLES})
    yield made
    made.close()


@pytest.mark.parametrize("name", QUERIES)
def test_a_query_of_tpch_is_answered(name: str, connection: duckdb.DuckDBPyConnection) -> None:
    planned = plan(QUERIES[name])
    found = answer(connection, planned.nodes)
    assert bag(found) == bag(connection.sql(QUERIES[name]).to_arrow_table()), planned.explain()


@pytest.mark.parametrize("name", QUERIES)
def test_steps_answer_a_query_of_tpch(name: str) -> None:
    draw = random.Random(4)
    tables = {name: _rows(name, draw) for name in TABLES}
    made = connect(tables)
    wanted = bag(made.sql(QUERIES[name]).to_arrow_table())
    made.close()
    planned = plan(QUERIES[name])
    assert played(planned.nodes, tables, 4) == wanted, planned.explain()


def test_all_are_there_and_answer_something() -> None:
    assert len(QUERIES) == 22
    answered: set[str] = set()
    for seed in SEEDS:
        draw = random.Random(seed)
        made = connect({name: _rows(name, draw) for name in TABLES})
        answered |= {name for name, query in QUERIES.items() if made.sql(query).to_arrow_table().num_rows}
    assert answered == set(QUERIES)


def test_no_join_is_without_keys_where_the_query_has_some() -> None:
    for name, query in QUERIES.items():
        bare = [node for node in plan(query).nodes if node.kind == "join" and not getattr(node, "keys", ())]
        assert len(bare) == (name in ("q11", "q22")) or name == "q15", name
