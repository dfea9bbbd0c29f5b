"""Streams to join, and plans of queries over them."""

from __future__ import annotations

from anabranch.errors import CatalogError
from anabranch.schema import StreamSchema
from anabranch.sql import StandingPlan, parse, plan_once, plan_standing
from anabranch.sql.statements import SelectOnce
from tests.sql.written_down import read_again

SECOND = 1_000_000
MINUTE = 60 * SECOND
_GAS = StreamSchema.of({"GasId": "INT", "v": "DOUBLE", "ts": "TIMESTAMP"}, time="ts")
_KEYED = StreamSchema.of({"k": "BIGINT", "v": "INT"})
_PACKETS = StreamSchema.of(
    {"saddr": "STRING", "daddr": "STRING", "id": "BIGINT", "length": "INT", "ts": "TIMESTAMP"}, time="ts"
)
STREAMS = {
    **dict.fromkeys(("north", "south", "east"), _GAS),
    **dict.fromkeys(("a", "b", "s"), _KEYED),
    **dict.fromkeys(("ptb", "ptc", "ptb.rejects"), _PACKETS),
    "x.y": StreamSchema.of({"a b": "INT", "window_end": "TIMESTAMP"}, time="window_end"),
}


def find_stream(name: str) -> StreamSchema:
    if name.lower() not in STREAMS:
        raise CatalogError("STREAM_NOT_FOUND", f'stream "{name}" does not exist')
    return STREAMS[name.lower()]


def plan(text: str) -> StandingPlan:
    """The plan of a standing query, which is that of the same query asked once."""
    (statement,) = parse(text)
    assert isinstance(statement, SelectOnce)
    found = read_again(plan_standing(statement.select, find_stream))
    assert plan_once(statement.select, find_stream).standing == found
    return found


def columns(found: StandingPlan) -> list[list[str]]:
    assert found.schema is not None
    listed: list[list[str]] = found.schema.to_json()["columns"]
    return listed
