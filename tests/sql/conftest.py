from __future__ import annotations

from collections.abc import Callable

import pytest

from anabranch.errors import CatalogError, did_you_mean
from anabranch.schema import StreamSchema

PACKETS = StreamSchema.of(
    {"saddr": "STRING", "daddr": "STRING", "id": "BIGINT", "length": "INT", "ts": "TIMESTAMP"}, time="ts"
)
LOGINS = StreamSchema.of({"user": "STRING", "a b.c`d": "INT"})
LOADS = StreamSchema.of({"window_end": "TIMESTAMP", "load": "BIGINT", "share": "DECIMAL(30, 2)"}, time="window_end")
STREAMS = {
    "packets": PACKETS,
    "ptb": PACKETS,
    "packets.rejects": PACKETS,
    "logins": LOGINS,
    "x.y": LOGINS,
    "loads": LOADS,
}


def find_stream(name: str) -> StreamSchema:
    if name.lower() not in STREAMS:
        raise CatalogError("STREAM_NOT_FOUND", f'stream "{name}" does not exist', hint=did_you_mean(name, STREAMS))
    return STREAMS[name.lower()]


@pytest.fixture
def lookup() -> Callable[[str], StreamSchema]:
    return find_stream
