"""What a planned tree answers: Rows as they are computed, everything else by the definition in DuckDB."""

from __future__ import annotations

import datetime as dt
import math
import random
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa

from anabranch.operators.columns import bind, project
from anabranch.operators.tree import nodes as n
from anabranch.operators.tree.changes import Changes, together
from anabranch.operators.tree.flow import Flow

Bag = Counter[tuple[Any, ...]]


def connect(tables: Mapping[str, pa.Table]) -> duckdb.DuckDBPyConnection:
    """DuckDB with some tables, where NULL is the least value, as it is to Spark."""
    connection = duckdb.connect()
    connection.execute("SET threads = 1; SET TimeZone = 'UTC'")
    connection.execute("SET default_null_order = 'nulls_first_on_asc_last_on_desc'")
    for name, table in tables.items():
        connection.register(name, table)
    return connection


def answer(connection: duckdb.DuckDBPyConnection, nodes: Sequence[n.Node]) -> pa.Table:
    """The rows of the last node."""
    known: list[pa.Table] = []
    for number, node in enumerate(nodes):
        if isinstance(node, n.Rows):
            rows = _rows(known[node.input], node)
        else:
            rows = connection.sql(_sql(node, [table.schema for table in known])).to_arrow_table()
            if isinstance(node, n.Aggregate | n.Ranked):
                rows = _typed(rows, node.calls, known[node.input].schema)
        known.append(rows)
        connection.register(f"n{number}", rows)
    return known[-1]


def _typed(rows: pa.Table, calls: Sequence[n.Call], read: pa.Schema) -> pa.Table:
    """Calls with the types that Spark gives them."""
    for call in calls:
        number = rows.schema.get_field_index(call.name)
        type_ = rows.schema.field(number).type
        if call.function == "sum" and pa.types.is_integer(read.field(call.arguments[0]).type):
            type_ = pa.int64()
        elif call.function in ("row_number", "rank", "dense_rank", "ntile"):
            type_ = pa.int32()
        rows = rows.set_column(number, call.name, rows.column(number).cast(type_))
    return rows


def played(nodes: Sequence[n.Node], tables: Mapping[str, pa.Table], seed: int) -> Bag:
    """What the steps answer when rows come in some batches, and some that came go again."""
    draw = random.Random(seed)
    flow = Flow(nodes, {**tables_of(tables), **{f"{name}.changes": table.schema for name, table in tables.items()}})
    form = {node.stream: node.form for node in nodes if isinstance(node, n.Source)}
    batches: list[dict[str, Changes]] = [{} for _ in range(4)]
    for stream, form_of in form.items():
        table = tables[stream.removesuffix(".changes")]
        places = list(range(table.num_rows))
        cuts = [0, *sorted(draw.randrange(table.num_rows + 1) for _ in range(3)), table.num_rows]
        going = draw.sample(places, len(places) // 3) if form_of == "changes" else []
        for number, batch in enumerate(batches):
            come = [place for place in places if cuts[number] <= place < cuts[number + 1]]
            extra = going if number == 1 else []
            parts = [Changes.of(_some(table, come)), Changes.of(_some(table, extra))]
            if number == 3:
                parts.append(Changes.of(_some(table, going), -1))
            batch[stream] = together(parts, table.schema)
    answered: Bag = Counter()
    for number, batch in enumerate(batches):
        change = flow.take(batch, number)
        for row, weight in zip(_each(change.rows), change.weights.tolist(), strict=True):
            answered[row] += weight
    first = flow.take({}, 9)
    assert not len(first)
    return Counter({row: count for row, count in answered.items() if count})


def tables_of(tables: Mapping[str, pa.Table]) -> dict[str, pa.Schema]:
    return {name: table.schema for name, table in tables.items()}


def _each(rows: pa.Table) -> list[tuple[Any, ...]]:
    columns = [[_plain(value) for value in column.to_pylist()] for column in rows.columns]
    return list(zip(*columns, strict=True))


def bag(rows: pa.Table) -> Bag:
    """Rows as they compare."""
    return Counter(_each(rows))


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal | float) and not math.isnan(value):
        return round(float(value), 9) + 0.0
    if isinstance(value, float):
        return "NaN"
    if isinstance(value, list):
        return tuple(map(_plain, value))
    return value.replace(tzinfo=None) if isinstance(value, dt.datetime) else value


def _rows(table: pa.Table, node: n.Rows) -> pa.Table:
    if node.where is not None:
        table = table.filter(bind(node.where, table.schema).evaluate(table))
    bound = [bind(sql, table.schema) for _, sql in node.columns]
    schema = pa.schema([(name, one.type) for (name, _), one in zip(node.columns, bound, strict=True)])
    return project(table, bound, schema)


def _q(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _list(names: Sequence[str]) -> str:
    return ", ".join(map(_q, names))


def _sql(node: n.Node, known: Sequence[pa.Schema]) -> str:
    read = [known[i] for i in node.reads]
    if isinstance(node, n.Source):
        columns = ", ".join(f"{_q(column)} AS {_q(name)}" for name, column in node.columns)
        return f"SELECT {columns} FROM {_q(node.stream.removesuffix('.changes'))}"
    if isinstance(node, n.Join):
        return _join(node, *read)
    if isinstance(node, n.Aggregate):
        keys = _list(node.keys)
        columns = ", ".join([*map(_q, node.keys), *(f"{_call(call)} AS {_q(call.name)}" for call in node.calls)])
        return f"SELECT {columns} FROM n{node.input}{f' GROUP BY {keys}' if keys else ''}"
    if isinstance(node, n.Union):
        return " UNION ALL ".join(f"SELECT * FROM n{i}" for i in node.inputs)
    if isinstance(node, n.SetOperation):
        every = " ALL" if node.all else ""
        return f"SELECT * FROM n{node.left} {node.operation.upper()}{every} SELECT * FROM n{node.right}"
    if isinstance(node, n.Top):
        behind = "" if node.limit is None else f" AND __place <= {node.offset + node.limit}"
        over = _over(node.partition, _full(node.order, read[0]))
        ranked = f"SELECT *, row_number() OVER ({over}) AS __place FROM n{node.input}"
        return f"SELECT * EXCLUDE (__place) FROM ({ranked}) WHERE __place > {node.offset}{behind}"
    assert isinstance(node, n.Ranked)
    calls = ", ".join(f"{_window(call, node, read[0])} AS {_q(call.name)}" for call in node.calls)
    return f"SELECT *, {calls} FROM n{node.input}"


def _join(node: n.Join, left: pa.Schema, right: pa.Schema) -> str:
    equal = " AND ".join(f"l.{_q(a)} = r.{_q(b)}" for a, b in node.keys) or "TRUE"
    condition = f"({node.condition})".replace("`", '"') if node.condition else "TRUE"
    both = f"n{node.left} l {{}} JOIN n{node.right} r ON {equal} AND {condition}"
    if node.join in ("inner", "left", "right", "full"):
        return f"SELECT l.*, r.* FROM {both.format(node.join)}"
    if node.join == "not_in":
        met = f"({equal}) IS NOT FALSE AND {condition}"
        return f"SELECT l.* FROM n{node.left} l WHERE NOT EXISTS (SELECT 1 FROM n{node.right} r WHERE {met})"
    return f"SELECT l.* FROM {both.format(node.join)}"


def _call(call: n.Call) -> str:
    arguments = _list(call.arguments) or "*"
    if call.distinct and len(call.arguments) > 1:
        there = " AND ".join(f"{_q(name)} IS NOT NULL" for name in call.arguments)
        arguments = f"CASE WHEN {there} THEN ({arguments}) END"
    only = f" FILTER (WHERE {_q(call.filter)})" if call.filter else ""
    if call.function.startswith("percentile"):
        kind = "disc" if "disc" in call.function else "cont"
        return f"quantile_{kind}({arguments}, {call.function.partition('(')[2].rstrip(')')}){only}"
    if call.function in _IN_ORDER:
        return _collected(call)
    value = f"{call.function}({'DISTINCT ' if call.distinct else ''}{arguments}){only}"
    return f"CAST({value} AS DOUBLE)" if call.function in ("median", "avg") else value


_IN_ORDER = ("collect_list", "string_agg", "first", "last")


def _collected(call: n.Call) -> str:
    """What is made of values in an order; ties are in the order of the values."""
    options, own = dict(call.options), (call.arguments[0], False, True)
    said = [(name, *how) for name, how in zip(call.arguments[1:], options.get("order", ()), strict=True)]
    order = _order(tuple((said or [own])[:1] if call.distinct else [*said, own]))
    value = ("DISTINCT " if call.distinct else "") + _q(call.arguments[0])
    conditions = [_q(call.filter)] if call.filter else []
    if call.function in ("collect_list", "string_agg") or options.get("ignore_nulls"):
        conditions.append(f"{_q(call.arguments[0])} IS NOT NULL")
    only = f" FILTER (WHERE {' AND '.join(conditions)})" if conditions else ""
    if call.function == "string_agg":
        return f"string_agg({value}, '{options.get('separator', '')}' ORDER BY {order}){only}"
    function = "array_agg" if call.function == "collect_list" else call.function
    made = f"{function}({value} ORDER BY {order}){only}"
    return f"coalesce({made}, [])" if call.function == "collect_list" else made


def _window(call: n.Call, node: n.Ranked, read: pa.Schema) -> str:
    options = dict(call.options)
    nulls = " IGNORE NULLS" if options.get("ignore_nulls") else ""
    only = f" FILTER (WHERE {_q(call.filter)})" if call.filter else ""
    arguments = [*map(_q, call.arguments)]
    unit, start, end = options.get("frame", ("range", None, 0))
    order = _full(node.order, read) if unit == "rows" else _order(node.order)
    frame = f" {unit} BETWEEN {_edge(start, 'PRECEDING')} AND {_edge(end, 'FOLLOWING')}" if order else ""
    if "by" in options and pa.types.is_temporal(read.field(options["by"][0]).type):
        days = pa.types.is_date(read.field(options["by"][0]).type)
        frame = re.sub(r"(\d+) ", rf"INTERVAL '\1 {'days' if days else 'microseconds'}' ", frame)
    if call.function in ("row_number", "ntile", "lag", "lead"):
        order, frame = _full(node.order, read), ""
    elif call.function in ("rank", "dense_rank", "percent_rank", "cume_dist"):
        order, frame = _order(node.order), ""
    if call.function == "ntile":
        arguments = [str(options["count"])]
    elif call.function in ("lag", "lead"):
        arguments.insert(1, str(options.get("offset", 1)))
    elif call.function == "nth_value":
        arguments.append(str(options["n"]))
    elif call.function == "count" and not arguments:
        arguments = ["*"]
    return f"{call.function}({', '.join(arguments)}{nulls}){only} OVER ({_over(node.partition, order)}{frame})"


def _edge(rows: int | None, unbounded: str) -> str:
    if rows is None:
        return f"UNBOUNDED {unbounded}"
    return "CURRENT ROW" if rows == 0 else f"{abs(rows)} {'PRECEDING' if rows < 0 else 'FOLLOWING'}"


def _over(partition: Sequence[str], order: str) -> str:
    parts = f"PARTITION BY {_list(partition)}" if partition else ""
    return f"{parts} ORDER BY {order}".strip() if order else parts


def _order(order: n.Order) -> str:
    return ", ".join(
        f"{_q(name)} {'DESC' if descending else 'ASC'} NULLS {'FIRST' if first else 'LAST'}"
        for name, descending, first in order
    )


def _full(order: n.Order, read: pa.Schema) -> str:
    return _order((*order, *((name, False, True) for name in read.names)))


def _some(table: pa.Table, places: Sequence[int]) -> pa.Table:
    return table.take(pa.array(places, pa.int64()))
