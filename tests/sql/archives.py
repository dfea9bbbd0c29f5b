"""Streams with a past, plans of queries over it, and how they are refused."""

from __future__ import annotations

import pytest

from anabranch.errors import AnabranchError, CatalogError
from anabranch.schema import StreamSchema
from anabranch.sql import ArchiveQuestion, OncePlan, StandingPlan, parse, plan_once, plan_standing
from anabranch.sql.statements import SelectOnce
from anabranch.sql.tree import Select
from tests.sql.written_down import read_again

SECOND = 1_000_000
MINUTE, HOUR, DAY = 60 * SECOND, 3600 * SECOND, 86400 * SECOND
NOVEMBER = 1_793_491_200 * SECOND
"""2026-11-01 00:00:00"""
STREAMS = {
    "cars": StreamSchema.of(
        {"plate": "STRING", "exit": "INT", "speed": "DOUBLE", "toll": "DECIMAL(6, 2)", "at": "TIMESTAMP"}, time="at"
    ),
    "trucks": StreamSchema.of({"plate": "STRING", "exit": "BIGINT", "axles": "INT", "at": "TIMESTAMP"}, time="at"),
    "loads": StreamSchema.of({"window_end": "TIMESTAMP", "load": "BIGINT"}, time="window_end"),
    "archive": StreamSchema.of({"since": "INT", "last": "INT", "error": "INT", "within": "INT", "reduce": "INT"}),
    "sampled": StreamSchema.of({"n": "DOUBLE", "_fraction": "DOUBLE", "_matches": "INT"}),
}
LAST = "LAST 7 INTERVAL 1 DAY WITHIN INTERVAL 30 MINUTES"
REDUCERS = {"weekends": "tests.sql.archives_reducer:Weekends"}


def find_stream(name: str) -> StreamSchema:
    if name.lower() not in STREAMS:
        raise CatalogError("STREAM_NOT_FOUND", f'stream "{name}" does not exist')
    return STREAMS[name.lower()]


def select(text: str) -> Select:
    (statement,) = parse(text)
    assert isinstance(statement, SelectOnce)
    return statement.select


def once(text: str) -> OncePlan:
    return plan_once(select(text), find_stream, REDUCERS)


def question(text: str) -> ArchiveQuestion:
    plan = once(text)
    assert (plan.sql, plan.streams, plan.standing) == (None, (), None)
    assert plan.question is not None
    return plan.question


def standing(text: str) -> StandingPlan:
    """The plan of a standing query, which is that of the same query asked once."""
    plan = read_again(plan_standing(select(text), find_stream, REDUCERS))
    assert once(text).standing == plan
    return plan


def refused(text: str, *, as_standing: bool = False) -> str:
    plan = plan_standing if as_standing else plan_once
    with pytest.raises(AnabranchError) as caught:
        plan(select(text), find_stream, REDUCERS)
    return str(caught.value)
