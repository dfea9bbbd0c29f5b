"""Streams to merge, plans of queries over them, and how they are refused."""

from __future__ import annotations

import pytest

from anabranch.errors import AnabranchError, CatalogError
from anabranch.operators.merge.operator import Merge
from anabranch.operators.merge.range_operator import RangeMerge
from anabranch.schema import StreamSchema
from anabranch.sql import StandingPlan, parse, plan_once, plan_standing
from anabranch.sql.statements import SelectOnce
from anabranch.sql.tree import Select
from tests.sql.written_down import read_again

SECOND = 1_000_000
_RAIN = StreamSchema.of(
    {
        "station": "STRING", "lat": "DOUBLE", "lon": "DOUBLE", "rain": "FLOAT", "day": "DATE", "n": "INT",
        "price": "DECIMAL(10, 2)", "wet": "BOOLEAN", "ts": "TIMESTAMP",
    },
    time="ts",
)  # fmt: skip
_FLOODS = StreamSchema.of(
    {"station": "STRING", "lat": "FLOAT", "lon": "DOUBLE", "depth": "DOUBLE", "day": "DATE", "n": "BIGINT",
     "wet": "BOOLEAN", "ts": "TIMESTAMP"},
    time="ts",
)  # fmt: skip
STREAMS = {
    "rain": _RAIN,
    "floods": _FLOODS,
    "winds": StreamSchema.of({"lat": "DOUBLE", "speed": "DOUBLE"}),
    "x.y": StreamSchema.of({"a b": "INT", "k`l": "STRING", "at": "TIMESTAMP"}, time="at"),
}
ON = "ON within(p.lat, f.lat, 0.25)"
FROM = f"FROM rain p MERGE JOIN floods f {ON}"


def find_stream(name: str) -> StreamSchema:
    if name.lower() not in STREAMS:
        raise CatalogError("STREAM_NOT_FOUND", f'stream "{name}" does not exist')
    return STREAMS[name.lower()]


def select(text: str) -> Select:
    (statement,) = parse(text)
    assert isinstance(statement, SelectOnce)
    return statement.select


def plan(text: str) -> StandingPlan:
    """The plan of a standing query, which is that of the same query asked once, when the streams count as ended."""
    found = read_again(plan_standing(select(text), find_stream))
    once = plan_once(select(text), find_stream)
    assert (once.standing, once.sql, once.ended) == (found, None, True)
    return found


def merge(text: str) -> Merge:
    operator = plan(text).operator
    assert isinstance(operator, Merge)
    return operator


def range_merge(text: str) -> RangeMerge:
    operator = plan(text).operator
    assert isinstance(operator, RangeMerge)
    return operator


def refused(text: str) -> str:
    """The error of a query, which is the same standing and asked once."""
    said = []
    for planned in (plan_standing, plan_once):
        with pytest.raises(AnabranchError) as caught:
            planned(select(text), find_stream)
        said.append(str(caught.value))
    assert said[0] == said[1]
    return said[0]
