"""Which segments may leave: those outside what the stream promises and what anyone still needs.

Whoever reads a stream again later (a query with a window, an archive) keeps a *hold*: a small
file that says from which row and time on it needs the stream.
"""

from __future__ import annotations

import itertools
from typing import Any

from anabranch.log import lost
from anabranch.log.segment import Segment, chain
from anabranch.log.storage import Storage, encoded_name
from anabranch.log.stream import StreamInfo

HOLDS = "holds"


def hold(stream: Storage, holder: str, row: int | None, time: int | None, before: int = 0) -> None:
    """Say that rows numbered `row` and up, and rows from `time` on, are still needed by `holder`.

    `before`: and as many rows more.
    """
    holds = stream.child(HOLDS)
    if not holds.exists():
        holds.make()
    holds.write_json(encoded_name(holder), {"row": row, "time": time, "before": before}, durable=False)


def held(stream: Storage, holder: str) -> dict[str, Any] | None:
    """What a holder has said it needs, if it has."""
    needs = stream.child(HOLDS).read_json(encoded_name(holder))
    return needs if isinstance(needs, dict) else None


def let_go(stream: Storage, holder: str) -> None:
    stream.child(HOLDS).delete(encoded_name(holder))


def apply(stream: Storage, segments: Storage, info: StreamInfo) -> list[Segment]:
    """Delete the segments that may leave, oldest first; the newest always stays."""
    if info.retain_us is None:
        return []
    kept = chain(s for n, size in segments.files().items() if (s := Segment.parse(n, size)))
    if not kept:
        return []
    row, time = kept[-1].first, kept[-1].time_last - info.retain_us
    holds = stream.child(HOLDS)
    for name in holds.files():
        needed = holds.read_json(name)
        if needed is None:
            if holds.exists(name):  # damaged: nobody knows what it says
                return []
            continue
        row = min(row, row if needed.get("row") is None else needed["row"] - needed.get("before", 0))
        time = min(time, time if needed.get("time") is None else needed["time"])
        if needed.get("before") and needed.get("time") is not None:
            first = next((s.first for s in kept if s.time_last >= needed["time"]), kept[-1].end)
            row = min(row, first - needed["before"])
    gone = list(itertools.takewhile(lambda segment: segment.end <= row and segment.time_last < time, kept))
    if gone:
        lost.keep_from(stream, gone[-1].end)  # first, so that nobody takes for lost what was let go
    for segment in gone:
        segments.delete(segment.name)
    return gone
