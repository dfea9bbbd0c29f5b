"""The queries of Nexmark as people write them, with WINDOW in the place of TUMBLE and HOP: which are planned."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from anabranch.errors import AnabranchError, CatalogError
from anabranch.schema import StreamSchema
from anabranch.sql import parse
from anabranch.sql.statements import SelectOnce
from anabranch.sql.trees.plan import TreePlan, plan_tree

_STREAMS = {
    "bid": "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, date_time TIMESTAMP, extra STRING",
    "auction": "id BIGINT, item_name STRING, description STRING, initial_bid BIGINT, reserve BIGINT, "
    "date_time TIMESTAMP, expires TIMESTAMP, seller BIGINT, category BIGINT, extra STRING",
    "person": "id BIGINT, name STRING, email_address STRING, credit_card STRING, city STRING, state STRING, "
    "date_time TIMESTAMP, extra STRING",
}
_SIDE = StreamSchema.of({"_change": "STRING", "key": "BIGINT", "value": "STRING", "_version": "BIGINT"})
STREAMS = {
    **{
        name: StreamSchema.of([(part.split()[0], part.split()[1]) for part in columns.split(", ")], time="date_time")
        for name, columns in _STREAMS.items()
    },
    "side_input.changes": StreamSchema(_SIDE.arrow, _SIDE.time, ("key",)),
}
QUERIES = {
    name: query.strip().removesuffix(";")
    for name, query in re.findall(
        r"-- (q[^\n]*)\n(.*?)(?=\n-- q|\Z)", (Path(__file__).parent / "nexmark.sql").read_text(), re.S
    )
}
REFUSED = {
    "q21": "EXPRESSION_NEEDS_SPARK",
    "q22 as SPLIT_INDEX": "FUNCTION_NOT_ALLOWED",
}
"""regexp_extract() needs Spark, and SPLIT_INDEX is Flink's."""
KEYS = {
    "q4": ("category",), "q9": ("id",), "q15": ("day",), "q16": ("channel", "day"), "q17": ("auction", "day"),
    "q18": ("auction", "bidder"), "q19": ("auction", "rank_number"),
}  # fmt: skip


def find_stream(name: str) -> StreamSchema:
    if name.lower() not in STREAMS:
        raise CatalogError("STREAM_NOT_FOUND", f'stream "{name}" does not exist')
    return STREAMS[name.lower()]


def plan(text: str) -> TreePlan:
    (statement,) = parse(text)
    assert isinstance(statement, SelectOnce)
    return plan_tree(statement.select, find_stream)


@pytest.mark.parametrize("name", [name for name in QUERIES if name not in REFUSED])
def test_a_query_is_planned(name: str) -> None:
    assert plan(QUERIES[name]).key == KEYS.get(name, ())


@pytest.mark.parametrize("name", REFUSED)
def test_a_query_is_refused(name: str) -> None:
    with pytest.raises(AnabranchError) as caught:
        plan(QUERIES[name])
    assert caught.value.name == REFUSED[name]
    assert caught.value.line is not None


def test_all_are_there() -> None:
    assert {name.split()[0] for name in QUERIES} == {f"q{number}" for number in range(23)}
