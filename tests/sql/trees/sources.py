"""What queries of these tests read: two streams, and small tables with NULLs, doubles and rows that are there twice."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from anabranch.errors import AnabranchError, CatalogError, did_you_mean
from anabranch.schema import StreamSchema, arrow_type
from anabranch.sql import parse
from anabranch.sql.statements import SelectOnce
from anabranch.sql.trees.context import TableColumns
from anabranch.sql.trees.plan import TreePlan, plan_tree

BIDS = StreamSchema.of(
    {"auction": "BIGINT", "bidder": "BIGINT", "price": "BIGINT", "channel": "STRING", "ts": "TIMESTAMP"}, time="ts"
)
LOGINS = StreamSchema.of({"user": "STRING", "a b.c`d": "INT"})
_TABLES: dict[str, tuple[dict[str, str], tuple[str, ...]]] = {
    "t": ({"a": "INT", "b": "INT", "c": "STRING"}, ("a",)),
    "u": ({"a": "INT", "d": "DOUBLE", "e": "BIGINT"}, ()),
    "v": ({"k": "STRING", "x": "INT"}, ()),
    "dept": ({"id": "INT", "name": "STRING", "boss": "INT"}, ("id",)),
    "emp": ({"id": "INT", "dept": "INT", "salary": "BIGINT", "born": "DATE", "full_time": "BOOLEAN"}, ("id",)),
    "exact": ({"id": "INT", "money": "DECIMAL(12, 2)"}, ("id",)),
}
TABLES = {
    name: TableColumns(pa.schema([(column, arrow_type(type_)) for column, type_ in columns.items()]), key)
    for name, (columns, key) in _TABLES.items()
}
FEED = replace(
    StreamSchema.of({"op": "STRING", "id": "INT", "name": "STRING", "boss": "INT", "ts": "TIMESTAMP"}, time="ts"),
    key=("id",),
    changes_by="op",
)
STAMPED = replace(
    StreamSchema.of({"k": "INT", "change": "STRING", "j": "INT", "x": "DOUBLE"}), key=("k", "j"), changes_by="change"
)
STREAMS = {
    "bids": BIDS,
    "logins": LOGINS,
    "people": FEED,
    "stamped": STAMPED,
    **{
        f"{name}.changes": StreamSchema(
            pa.schema(
                [
                    pa.field("_change", pa.string()),
                    *table.schema,
                    pa.field("_version", pa.int64()),
                    pa.field("_time", BIDS.arrow.field("ts").type),
                ]
            ),
            "_time",
            table.key,
        )
        for name, table in TABLES.items()
    },
}


def find_stream(name: str) -> StreamSchema:
    if name.lower() not in STREAMS:
        known = [known for known in STREAMS if not known.endswith(".changes")]
        raise CatalogError("STREAM_NOT_FOUND", f'stream "{name}" does not exist', hint=did_you_mean(name, known))
    return STREAMS[name.lower()]


def find_table(name: str) -> TableColumns | None:
    return TABLES.get(name.lower())


def plan(text: str) -> TreePlan:
    (statement,) = parse(text)
    assert isinstance(statement, SelectOnce)
    return plan_tree(statement.select, find_stream, tables=find_table)


def refused(text: str) -> str:
    """The error of a query that is not planned."""
    try:
        found = plan(text)
    except AnabranchError as problem:
        return str(problem)
    raise AssertionError(found.explain())
