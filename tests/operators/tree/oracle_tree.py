"""What a tree answers, by definition: one SQL query of DuckDB's over all rows of its sources.

DuckDB's meaning is Spark's where the trees of `random_trees` go: NULLs are placed explicitly, whole sums are cast, and
ties are broken by all columns wherever the answer depends on their order.
"""

from __future__ import annotations

import datetime as dt
import functools
import itertools
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import duckdb
import pyarrow as pa

from anabranch.column_types import is_nested
from anabranch.column_types import sql_type as spark_name
from anabranch.operators.columns import bind
from anabranch.operators.tree import nodes as n

Bag = Counter[tuple[Any, ...]]

ARRAY, STRUCT = "ARRAY<BIGINT>", "STRUCT<p: INT, q: ARRAY<BIGINT>>"
_DUCK = {STRUCT: "STRUCT(p INTEGER, q BIGINT[])", ARRAY: "BIGINT[]"}
"""Types of Spark as DuckDB writes them."""
_SQL = {"int32": "INTEGER", "int64": "BIGINT", "double": "DOUBLE", "string": "VARCHAR", "bool": "BOOLEAN"}
_BY_PEERS = ("rank", "dense_rank", "percent_rank", "cume_dist")


def answer(nodes: Sequence[n.Node], schemas: Mapping[str, pa.Schema], rows: Mapping[str, Bag], reached: int = 0) -> Bag:
    """The rows of the last node, where streams have these rows, and all have reached a time (µs)."""
    connection = _connection()
    for stream, bag in rows.items():
        connection.register(stream, table(bag, schemas[stream]))
    return bag_of(connection.sql(query(nodes, schemas, reached)).to_arrow_table())


@functools.cache
def _connection() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("SET threads = 1; SET TimeZone = 'UTC'")
    return connection


def table(bag: Bag, schema: pa.Schema) -> pa.Table:
    """Rows as often as they are there."""
    rows = list(bag.elements())
    columns = [pa.array([row[i] for row in rows], field.type) for i, field in enumerate(schema)]
    return pa.Table.from_arrays(columns, schema=schema)


def bag_of(rows: pa.Table, weights: Iterable[int] | None = None) -> Bag:
    """Rows as they compare, each with how often it is there; those that cancel out are none."""
    bag: Bag = Counter()
    columns = [[plain(value) for value in column.to_pylist()] for column in rows.columns]
    each = itertools.repeat(1) if weights is None else weights
    for row, weight in zip(zip(*columns, strict=True), each, strict=False):
        bag[row] += int(weight)
    return Counter({row: count for row, count in bag.items() if count})


class Struct(dict[str, Any]):
    """A struct that can be counted."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self.items()))


def plain(value: Any) -> Any:
    """A value as it compares: NaN is NaN, there is one zero, and a time is a time in UTC."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    if isinstance(value, dict):
        return Struct((name, plain(part)) for name, part in value.items())
    if isinstance(value, list | tuple):
        return tuple(map(plain, value))
    return value.astimezone(dt.UTC) if isinstance(value, dt.datetime) else value


def query(nodes: Sequence[n.Node], schemas: Mapping[str, pa.Schema], reached: int = 0) -> str:
    """The tree as a query with a common table expression for each node."""
    known: list[pa.Schema] = []
    parts = []
    for number, node in enumerate(nodes):
        sql = _of_node(node, known, reached) if node.reads else _of_source(node, schemas)
        known.append(schema_of(node, known, schemas))
        names = ", ".join(known[-1].names)
        parts.append(f"n{number}({names}) AS MATERIALIZED (\n  {sql}\n)")
    return f"WITH {', '.join(parts)}\nSELECT * FROM n{len(nodes) - 1}"


def schema_of(node: n.Node, known: Sequence[pa.Schema], schemas: Mapping[str, pa.Schema]) -> pa.Schema:
    """The columns of a node, whose inputs have those that are known."""
    read = [known[i] for i in node.reads]
    match node:
        case n.Source():
            return pa.schema([(name, schemas[node.stream].field(of).type) for name, of in node.columns])
        case n.Rows():
            return pa.schema([(name, bind(sql, read[0]).type) for name, sql in node.columns])
        case n.Join():
            return read[0] if node.join in ("semi", "anti", "not_in") else pa.schema([*read[0], *read[1]])
        case n.Aggregate():
            calls = [(call.name, _type(call, read[0])) for call in node.calls]
            return pa.schema([*(read[0].field(key) for key in node.keys), *calls])
        case n.Unnest():
            place = [] if node.place is None else [pa.field(node.place, pa.int32())]
            return pa.schema([*read[0], *place, pa.field(node.element, read[0].field(node.array).type.value_type)])
        case n.Latest():
            return pa.schema([field for field in read[0] if field.name != node.change])
        case n.Ranked():
            return pa.schema([*read[0], *((call.name, _type(call, read[0])) for call in node.calls)])
        case _:
            return read[0]


def _type(call: n.Call, read: pa.Schema) -> pa.DataType:
    argument = read.field(call.arguments[0]).type if call.arguments else None
    match call.function:
        case "row_number" | "rank" | "dense_rank" | "ntile":
            return pa.int32()
        case "percent_rank" | "cume_dist" | "avg":
            return pa.float64()
        case "count" | "count_if":
            return pa.int64()
        case "sum":
            return pa.int64() if pa.types.is_integer(argument) else pa.float64()
        case _:
            return argument


def sql_type(type_: pa.DataType) -> str:
    if is_nested(type_):
        return _DUCK[spark_name(type_)]
    return "TIMESTAMPTZ" if pa.types.is_timestamp(type_) else _SQL[str(type_)]


def _of_source(node: n.Node, schemas: Mapping[str, pa.Schema]) -> str:
    assert isinstance(node, n.Source)
    return f"SELECT {', '.join(column for _, column in node.columns)} FROM {node.stream}"


def _of_node(node: n.Node, known: Sequence[pa.Schema], reached: int) -> str:
    read = [known[i] for i in node.reads]
    match node:
        case n.Rows():
            columns = [f"CAST({_duck(sql)} AS {sql_type(bind(sql, read[0]).type)})" for _, sql in node.columns]
            where = "" if node.where is None else f" WHERE {node.where}"
            return f"SELECT {', '.join(columns)} FROM n{node.input}{where}"
        case n.Join():
            return _join(node, *read)
        case n.Aggregate():
            columns = [*node.keys, *(_aggregate(call, read[0]) for call in node.calls)]
            groups = f" GROUP BY {', '.join(node.keys)}" if node.keys else ""
            return f"SELECT {', '.join(columns)} FROM n{node.input}{groups}"
        case n.Union():
            return " UNION ALL ".join(f"SELECT * FROM n{i}" for i in node.inputs)
        case n.SetOperation():
            every = " ALL" if node.all else ""
            return f"SELECT * FROM n{node.left} {node.operation.upper()}{every} SELECT * FROM n{node.right}"
        case n.Top():
            behind = "" if node.limit is None else f" AND place <= {node.offset + node.limit}"
            over = _over(node.partition, _full(node.order, read[0]))
            ranked = f"SELECT *, row_number() OVER ({over}) AS place FROM n{node.input}"
            return f"SELECT * EXCLUDE (place) FROM ({ranked}) WHERE place > {node.offset}{behind}"
        case n.Ranked():
            calls = [_window_call(call, node, read[0]) for call in node.calls]
            return f"SELECT *, {', '.join(calls)} FROM n{node.input}"
        case n.Unnest():
            place = "" if node.place is None else "CAST(place AS INTEGER), "
            rows = f"SELECT *, unnest(range(len({node.array}))) AS place FROM n{node.input}"
            found = f"SELECT * EXCLUDE (place), {place}{node.array}[place + 1] FROM ({rows})"
            if not node.outer:
                return found
            nulls = "NULL" if node.place is None else "NULL, NULL"
            none = f"SELECT *, {nulls} FROM n{node.input} WHERE coalesce(len({node.array}), 0) = 0"
            return f"{found} UNION ALL {none}"
        case n.Latest():
            turn = read[0].names[-1]  # of a feed: see `random_trees`
            last = f"row_number() OVER (PARTITION BY {', '.join(node.key)} ORDER BY {turn} DESC) AS place"
            told = f"SELECT *, {last} FROM n{node.input} WHERE lower({node.change}) NOT IN ('update_before', '-u')"
            there = f"place = 1 AND lower({node.change}) NOT IN ('d', '-d', 'delete')"
            return f"SELECT * EXCLUDE (place, {node.change}) FROM ({told}) WHERE {there}"
        case n.Expire():
            return (
                f"SELECT * FROM n{node.input} WHERE coalesce(epoch_us({node.column}) >= {reached - node.after}, TRUE)"
            )
        case _:
            raise AssertionError(node)


def _duck(sql: str) -> str:
    """An expression in DuckDB's words."""
    for spark, duck in _DUCK.items():
        sql = sql.replace(spark, duck)
    return sql


def _join(node: n.Join, left: pa.Schema, right: pa.Schema) -> str:
    equal = " AND ".join(f"l.{a} = r.{b}" for a, b in node.keys) or "TRUE"
    condition = f"({node.condition})" if node.condition else "TRUE"
    met = f"SELECT 1 FROM n{node.right} r WHERE {equal} AND {condition}"
    met_by = f"SELECT 1 FROM n{node.left} l WHERE {equal} AND {condition}"
    pairs = f"SELECT l.*, r.* FROM n{node.left} l, n{node.right} r WHERE {equal} AND {condition}"
    left_only = f"SELECT l.*, {_nulls(right)} FROM n{node.left} l WHERE NOT EXISTS ({met})"
    right_only = f"SELECT {_nulls(left)}, r.* FROM n{node.right} r WHERE NOT EXISTS ({met_by})"
    match node.join:
        case "inner":
            return pairs
        case "left":
            return f"{pairs} UNION ALL {left_only}"
        case "right":
            return f"{pairs} UNION ALL {right_only}"
        case "full":
            return f"{pairs} UNION ALL {left_only} UNION ALL {right_only}"
        case "semi":
            return f"SELECT l.* FROM n{node.left} l WHERE EXISTS ({met})"
        case "anti":
            return f"SELECT l.* FROM n{node.left} l WHERE NOT EXISTS ({met})"
        case "not_in":
            met = f"SELECT 1 FROM n{node.right} r WHERE ({equal}) IS NOT FALSE AND {condition}"
            return f"SELECT l.* FROM n{node.left} l WHERE NOT EXISTS ({met})"


def _nulls(schema: pa.Schema) -> str:
    return ", ".join(f"CAST(NULL AS {sql_type(field.type)})" for field in schema)


def _aggregate(call: n.Call, read: pa.Schema) -> str:
    if call.function == "count_if":  # DuckDB's is NULL where nothing is counted, Spark's 0
        return f"count(*) FILTER (WHERE {call.arguments[0]})"
    arguments = ", ".join(call.arguments) or "*"
    distinct = "DISTINCT " if call.distinct else ""
    only = f" FILTER (WHERE {call.filter})" if call.filter else ""
    return f"CAST({call.function}({distinct}{arguments}){only} AS {sql_type(_type(call, read))})"


def _window_call(call: n.Call, node: n.Ranked, read: pa.Schema) -> str:
    options = dict(call.options)
    full = _full(node.order, read)
    nulls = " IGNORE NULLS" if options.get("ignore_nulls") else ""
    only = f" FILTER (WHERE {call.filter})" if call.filter else ""
    unit, start, end = options.get("frame", ("range", None, 0))
    if unit == "rows":
        order, frame = full, f" ROWS BETWEEN {_edge(start, 'PRECEDING')} AND {_edge(end, 'FOLLOWING')}"
    elif "by" in options:
        is_time = pa.types.is_timestamp(read.field(options["by"][0]).type)
        frame = f" RANGE BETWEEN {_away(start, 'PRECEDING', is_time)} AND {_away(end, 'FOLLOWING', is_time)}"
        order = _order(node.order)
    else:
        order, frame = _order(node.order), f" RANGE BETWEEN {_edge(start, 'PRECEDING')} AND {_edge(end, 'FOLLOWING')}"
        if not order:
            frame = ""
    arguments = [*call.arguments]
    match call.function:
        case "row_number":
            order, frame = full, ""
        case "ntile":
            order, frame, arguments = full, "", [str(options["count"])]
        case "rank" | "dense_rank" | "percent_rank" | "cume_dist":
            order, frame = _order(node.order), ""
        case "lag" | "lead":
            order, frame = full, ""
            other = call.arguments[1] if len(call.arguments) > 1 else literal(options.get("default"))
            arguments = [call.arguments[0], str(options.get("offset", 1)), other]
        case "nth_value":
            arguments.append(str(options["n"]))
        case "count" if not arguments:
            arguments = ["*"]
    inner = ", ".join(arguments)
    if call.function in ("first_value", "last_value", "nth_value"):
        inner += f" ORDER BY {full}"
    type_ = sql_type(_type(call, read))
    return f"CAST({call.function}({inner}{nulls}){only} OVER ({_over(node.partition, order)}{frame}) AS {type_})"


def _edge(rows: int | None, unbounded: str) -> str:
    if rows is None:
        return f"UNBOUNDED {unbounded}"
    if rows == 0:
        return "CURRENT ROW"
    return f"{abs(rows)} {'PRECEDING' if rows < 0 else 'FOLLOWING'}"


def _away(distance: float | None, unbounded: str, is_time: bool) -> str:
    if not distance:
        return _edge(None if distance is None else 0, unbounded)
    amount = f"INTERVAL '{abs(distance)} microseconds'" if is_time else abs(distance)
    return f"{amount} {'PRECEDING' if distance < 0 else 'FOLLOWING'}"


def literal(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return f"'{value}'"
    return f"TIMESTAMPTZ '{value.isoformat()}'" if isinstance(value, dt.datetime) else str(value)


def _over(partition: Sequence[str], order: str) -> str:
    parts = f"PARTITION BY {', '.join(partition)}" if partition else ""
    return f"{parts} ORDER BY {order}".strip() if order else parts


def _order(order: n.Order) -> str:
    return ", ".join(
        f"{name} {'DESC' if descending else 'ASC'} NULLS {'FIRST' if nulls_first else 'LAST'}"
        for name, descending, nulls_first in order
    )


def _full(order: n.Order, read: pa.Schema) -> str:
    """Ties are broken by all columns."""
    return _order((*order, *((name, False, True) for name in read.names)))
