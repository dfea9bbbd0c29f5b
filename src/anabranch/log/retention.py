"""Which segments may leave: those outside what the stream promises and what anyone still needs.

Whoever reads a stream again later (a query with a window, an archive) keeps a *hold*: a small
file that says from which row and time on it needs the stream.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from anabranch.log import lost
from anabranch.log.segment import Segment, chain
from anabranch.log.storage import Storage, encoded_name
from anabranch.log.stream import StreamInfo

HOLDS = "holds"


def hold(
    stream: Storage, holder: str, row: int | None, time: int | None, before: int = 0, *, durable: bool = False
) -> None:
    """Say that rows numbered `row` and up, and rows from `time` on, are still needed by `holder`.

    `before`: and as many rows more.
    """
    holds = stream.child(HOLDS)
    if not holds.exists():
        holds.make()
    holds.write_json(encoded_name(holder), {"row": row, "time": time, "before": before}, durable=durable)


def held(stream: Storage, holder: str) -> dict[str, Any] | None:
    """What a holder has said it needs, if it has."""
    needs = stream.child(HOLDS).read_json(encoded_name(holder))
    return needs if isinstance(needs, dict) else None


def hold_for(stream: Storage, holder: str, other: str) -> None:
    """Have a holder need what another one does, too."""
    needs = [needed for name in (holder, other) if (needed := held(stream, name)) is not None]
    if needs:
        rows, times = ([needed[what] for needed in needs if needed[what] is not None] for what in ("row", "time"))
        before = max(needed.get("before", 0) for needed in needs)
        hold(stream, holder, min(rows, default=None), min(times, default=None), before)


def hold_from(stream: Storage, holder: str, row: int) -> None:
    """Have a holder need the rows from a number on, too, if it has said what it needs."""
    needed = held(stream, holder)
    if needed is not None and needed["row"] is not None and needed["row"] > row:
        hold(stream, holder, row, needed["time"], needed.get("before", 0))


def let_go(stream: Storage, holder: str) -> None:
    stream.child(HOLDS).delete(encoded_name(holder))


class Needed(NamedTuple):
    """Rows numbered `row` and up, and rows from `time` on."""

    row: int
    time: int

    def wants(self, part: Part) -> bool:
        return part.end > self.row or part.time_last >= self.time


class Part(Protocol):
    """Rows that lie together, and leave together."""

    @property
    def end(self) -> int: ...

    @property
    def time_last(self) -> int: ...


def needed(
    stream: Storage, promised: Needed, row_at: Callable[[int], int], besides: str | None = None
) -> Needed | None:
    """What is promised or someone has said to need; None if nobody knows, as what was said is damaged.

    `row_at` gives about the first row of a time, never a later one. `besides`: a holder that is not asked.
    """
    row, time = promised
    holds = stream.child(HOLDS)
    for name in holds.files():
        if besides is not None and name == encoded_name(besides):
            continue
        said = holds.read_json(name)
        if said is None:
            if holds.exists(name):
                return None
            continue
        row = min(row, row if said.get("row") is None else said["row"] - said.get("before", 0))
        time = min(time, time if said.get("time") is None else said["time"])
        if said.get("before") and said.get("time") is not None:
            row = min(row, row_at(said["time"]) - said["before"])
    return Needed(row, time)


def apply(stream: Storage, segments: Storage, info: StreamInfo, newest: int | None = None) -> list[Segment]:
    """Delete the segments that may leave, oldest first; the newest always stays.

    `newest`: the time of the newest row where that is in another log; then all may leave.
    """
    if info.retain_us is None:
        return []
    kept = chain(s for n, size in segments.files().items() if (s := Segment.parse(n, size)))
    if not kept:
        return []

    def row_at(time: int) -> int:
        return next((segment.first for segment in kept if segment.time_last >= time), kept[-1].end)

    last = kept[-1].first if newest is None else kept[-1].end
    still = needed(stream, Needed(last, (newest or kept[-1].time_last) - info.retain_us), row_at)
    if still is None:
        return []
    gone = list(itertools.takewhile(lambda segment: not still.wants(segment), kept))
    if gone:
        lost.keep_from(stream, gone[-1].end)  # first, so that nobody takes for lost what was let go
    for segment in gone:
        segments.delete(segment.name)
    return gone
