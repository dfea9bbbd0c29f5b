"""How far a stream has come."""

from __future__ import annotations

from typing import NamedTuple

MIN_TIME = -(2**63)
"""The time before any row: what a stream that has had no row yet has reached."""

MAX_TIME = (1 << 63) - 2
"""The time after every row: what a stream that has ended has reached."""


class End(NamedTuple):
    """All rows numbered below `row`; no later row is older than `time`.

    `time` is in microseconds since 1970. It is usually that of row `row - 1`, and later where the
    stream was told that time has passed (a heartbeat).
    """

    row: int = 0
    time: int = MIN_TIME


class Piece(NamedTuple):
    """Rows that lie together: numbered first ≤ n < end, from time_first to time_last."""

    first: int
    end: int
    time_first: int
    time_last: int
